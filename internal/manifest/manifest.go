// Package manifest reads, writes and applies Kubernetes objects of any kind.
package manifest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Each calls do for each object of a stream of YAML or JSON documents; errors name the document, of which the first is 1.
func Each(stream io.Reader, do func(*unstructured.Unstructured) error) error {
	decoder := utilyaml.NewYAMLOrJSONDecoder(stream, 4096)
	for i := 1; ; i++ {
		var document json.RawMessage
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && (len(document) == 0 || string(document) == "null") {
			continue // only comments
		}
		object := &unstructured.Unstructured{}
		if err == nil {
			err = object.UnmarshalJSON(document)
		}
		if err == nil {
			err = do(object)
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", i, err)
		}
	}
}

// Read reads all objects of a stream of YAML or JSON documents.
func Read(content []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	err := Each(bytes.NewReader(content), func(object *unstructured.Unstructured) error {
		objects = append(objects, object)
		return nil
	})
	return objects, err
}

// KindsFirst puts the objects of some kinds, in the order of these, before the others, which stay in theirs.
func KindsFirst(objects []*unstructured.Unstructured, kinds ...string) {
	rank := func(object *unstructured.Unstructured) int {
		if at := slices.Index(kinds, object.GetKind()); at >= 0 {
			return at
		}
		return len(kinds)
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
}

// Write writes objects as YAML documents.
func Write(out io.Writer, objects []*unstructured.Unstructured) error {
	for i, o := range objects {
		if i > 0 {
			if _, err := io.WriteString(out, "---\n"); err != nil {
				return err
			}
		}
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return fmt.Errorf("failed to encode %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// Apply applies objects by server-side apply; the options name the field owner.
func Apply(ctx context.Context, c client.Client, objects []*unstructured.Unstructured, options ...client.ApplyOption) error {
	for _, object := range objects {
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), options...); err != nil {
			return fmt.Errorf("failed to apply %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
		}
	}
	return nil
}
