// Package manifest reads, writes and applies Kubernetes objects of any kind.
package manifest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// FieldOwner owns the fields that olvmctl applies and changes.
const FieldOwner = client.FieldOwner("olvmctl")

// ErrNoObject is returned for valid YAML or JSON that is not a Kubernetes object.
var ErrNoObject = errors.New("an object")

// noKind is an ErrNoObject with a different text.
type noKind struct{ error }

func (noKind) Is(target error) bool { return target == ErrNoObject }

// ForEach calls do for each object in a stream of YAML or JSON documents. Errors give the number of the document,
// starting from 1. They omit its content, because this may be secret.
func ForEach(stream io.Reader, do func(*unstructured.Unstructured) error) error {
	content, err := io.ReadAll(stream)
	if err != nil {
		return fmt.Errorf("failed to read manifests: %w", err)
	}

	if content, err = DecodeText(content); err != nil {
		return err
	}

	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)

	for i := 1; ; i++ {
		var document json.RawMessage
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nil
		}

		if err == nil && (len(document) == 0 || string(document) == "null") {
			continue // the document has only comments
		}

		var object *unstructured.Unstructured
		if err != nil {
			err = syntaxError(err)
		} else if object, err = decodeObject(document); err == nil {
			err = do(object)
		}

		if err != nil {
			return fmt.Errorf("document %d: %w", i, err)
		}
	}
}

// plain matches YAML errors that quote at most one syntax character.
var plain = regexp.MustCompile(`yaml: (line [0-9]+: )?([a-z ,]|'[^a-zA-Z0-9]')+$`)

// syntaxError returns a syntax error that does not contain the content of the document. Errors from YAML and JSON
// libraries may quote the content.
func syntaxError(err error) error {
	var inJSON utilyaml.JSONSyntaxError
	switch {
	case errors.As(err, &inJSON):
		return fmt.Errorf("invalid JSON at byte %d", inJSON.Offset)
	case strings.Contains(err.Error(), "document separator"):
		return errors.New("unexpected text after ---; move it to the next line")
	case strings.Contains(err.Error(), "cannot start any token") && plain.MatchString(err.Error()):
		return errors.New(plain.FindString(err.Error()) + "; indent with spaces, not tabs")
	case plain.MatchString(err.Error()):
		return errors.New(plain.FindString(err.Error()))
	}

	return errors.New("invalid YAML or JSON")
}

// decodeObject decodes one object.
func decodeObject(document []byte) (*unstructured.Unstructured, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(document, &fields) != nil {
		return nil, fmt.Errorf("not %w; use a mapping with apiVersion and kind", ErrNoObject)
	}

	for _, key := range []string{"apiVersion", "kind"} {
		var value string
		if json.Unmarshal(fields[key], &value) != nil || value == "" {
			return nil, noKind{fmt.Errorf("%s: required; must be a string", key)}
		}
	}

	object := &unstructured.Unstructured{}
	if object.UnmarshalJSON(document) != nil {
		return nil, errors.New("contains a number that is too large, or an apiVersion with more than one slash")
	}

	return object, nil
}

// Read decodes all objects in a stream of YAML or JSON documents.
func Read(content []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	err := ForEach(bytes.NewReader(content), func(object *unstructured.Unstructured) error {
		objects = append(objects, object)
		return nil
	})

	return objects, err
}

// KindsFirst moves objects of the given kinds to the front, in the order of the kinds. The other objects keep their
// order.
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

// ConflictError reports an object that was not applied, because others have changed its fields.
type ConflictError struct {
	// Object is this object.
	Object *unstructured.Unstructured
	Fields []ConflictField
	err    error
}

// ConflictField is a field changed by another field manager. Path has no leading dot.
type ConflictField struct{ Path, Manager string }

func (e *ConflictError) Error() string {
	text := fmt.Sprintf("failed to apply %s %s: ", e.Object.GetKind(), client.ObjectKeyFromObject(e.Object))
	if len(e.Fields) == 0 {
		return text + e.err.Error()
	}

	return text + "another field manager has changed it"
}

func (e *ConflictError) Unwrap() error { return e.err }

// managerIn matches the field manager in the message of a conflict.
var managerIn = regexp.MustCompile(`^conflict with "([^"]+)"`)

// overload is the wait between attempts to apply an object while the API server is too busy: 31 s in all.
var overload = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 6}

// IsOverload reports whether the API server was too busy to finish a request. It may have applied the object.
func IsOverload(err error) bool {
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)
}

// Apply applies objects by server-side apply; the options name the field owner. It returns a *ConflictError if other
// field managers have changed the applied fields. It repeats requests to a busy API server: applying an object twice
// changes nothing.
func Apply(
	ctx context.Context, c client.Client, objects []*unstructured.Unstructured, options ...client.ApplyOption,
) error {
	for _, object := range objects {
		err := applyOne(ctx, c, object, options...)
		if apierrors.IsConflict(err) {
			return &ConflictError{Object: object, Fields: conflictsOf(err), err: err}
		}

		if err != nil {
			return fmt.Errorf("failed to apply %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
		}
	}

	return nil
}

// applyOne applies an object. It returns the last error of the API server, or the end of the context.
func applyOne(
	ctx context.Context, c client.Client, object *unstructured.Unstructured, options ...client.ApplyOption,
) error {
	var last error

	err := wait.ExponentialBackoffWithContext(ctx, overload, func(ctx context.Context) (bool, error) {
		last = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), options...)
		if IsOverload(last) {
			return false, nil
		}

		return true, last
	})
	if ctx.Err() == nil && wait.Interrupted(err) {
		return last
	}

	return err
}

// conflictsOf returns the fields named in the API server's conflict error.
func conflictsOf(err error) []ConflictField {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}

	var out []ConflictField

	for _, cause := range status.Status().Details.Causes {
		manager := cause.Message
		if found := managerIn.FindStringSubmatch(cause.Message); found != nil {
			manager = found[1]
		}

		out = append(out, ConflictField{Path: strings.TrimPrefix(cause.Field, "."), Manager: manager})
	}

	return out
}
