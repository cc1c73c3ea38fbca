package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
)

// replicas is the path of the only field changed by Scale.
var replicas = []string{"spec", "replicas"}

// keepScale resolves a conflict between a manifest and Scale: it removes the number of replicas from the rejected
// manifest, so the number written by Scale stays. It returns false for any other conflict.
func (c *creation) keepScale(ctx context.Context, err error) bool {
	var conflict *manifest.ConflictError
	if !errors.As(err, &conflict) || !slices.Equal(conflict.Fields, []manifest.ConflictField{{
		Path:    strings.Join(replicas, "."),
		Manager: string(fieldOwnerOfScale),
	}}) {
		return false
	}

	object := conflict.Object
	c.Display.PrintLine(
		"%[1]s %[2]s keeps replicas: %[3]s, set by olvmctl scale; to apply replicas: %[5]s from %[4]s, use "+
			"--force-conflicts",
		object.GetKind(),
		object.GetName(),
		valueAt(c.fetchLive(ctx, object), replicas),
		c.File.Path,
		valueAt(object.Object, replicas),
	)
	unstructured.RemoveNestedField(object.Object, replicas...)

	return true
}

// fetchLive returns an object as stored in the management cluster, or nil if it cannot be read.
func (c *creation) fetchLive(ctx context.Context, object *unstructured.Unstructured) map[string]any {
	out := object.DeepCopy()
	if err := c.management.Get(ctx, client.ObjectKeyFromObject(object), out); err != nil {
		return nil
	}

	return out.Object
}

// explainConflict adds remedies to a conflict error, and lists the fields changed by others after Create wrote them.
func (c *creation) explainConflict(ctx context.Context, err error) error {
	var conflict *manifest.ConflictError
	if !errors.As(err, &conflict) || len(conflict.Fields) == 0 {
		return err
	}

	live := c.fetchLive(ctx, conflict.Object)
	var lines []string

	for _, field := range conflict.Fields {
		path := strings.Split(field.Path, ".")
		lines = append(lines, fmt.Sprintf("%s: %s has set it to %s, but %s sets it to %s", field.Path, field.Manager,
			valueAt(live, path), c.File.Path, valueAt(conflict.Object.Object, path)))
	}

	return fmt.Errorf("%w\n%s\nupdate %s with the values to keep, or overwrite them with --force-conflicts",
		conflict, strings.Join(lines, "\n"), c.File.Path)
}

// valueAt returns the text of a value in an object.
func valueAt(object map[string]any, path []string) string {
	value, found, err := unstructured.NestedFieldNoCopy(object, path...)
	if !found || err != nil { // the path has more than names
		return "another value"
	}

	return fmt.Sprint(value)
}
