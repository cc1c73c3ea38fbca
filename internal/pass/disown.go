package pass

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// filledIn are the fields that the manager fills in where a manifest leaves them empty.
var filledIn = [][]string{
	{"spec", "controlPlaneEndpoint", "host"},
	{"spec", "controlPlaneEndpoint", "port"},
	{"spec", "providerID"},
}

// disown gives up the ownership of fields that a write has filled in. Who applies an empty one again, with server-side
// apply and without force, would have a conflict with the manager. The object is what the API server answered.
func (p *Pass) disown(ctx context.Context, object client.Object, content []byte, part part) error {
	var changes map[string]any
	if err := json.Unmarshal(content, &changes); err != nil {
		return fmt.Errorf("failed to read the patch of %s: %w", p.key, err)
	}

	entries := object.GetManagedFields()
	var owned bool

	for _, path := range filledIn {
		if isIn(changes, path) {
			owned = true
			entries = withoutField(entries, path)
		}
	}

	if !owned || len(object.GetManagedFields()) == 0 {
		return nil
	}

	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": object.GetResourceVersion(),
		"managedFields":   entries,
	}})
	if err != nil {
		return fmt.Errorf("failed to encode the owners of %s: %w", p.key, err)
	}

	err = part.patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w: %w", errOutdated, err)
	} else if err != nil {
		return fmt.Errorf("failed to give up fields of %s: %w", p.key, err)
	}

	p.tracker.wrote(p.key, object.GetResourceVersion())

	return nil
}

// isIn reports whether a merge patch sets a field.
func isIn(changes map[string]any, path []string) bool {
	for _, name := range path[:len(path)-1] {
		changes, _ = changes[name].(map[string]any)
	}

	return changes[path[len(path)-1]] != nil
}

// withoutField takes a field from who has written it. The last write has changed it, so nobody else owns it.
func withoutField(entries []metav1.ManagedFieldsEntry, path []string) []metav1.ManagedFieldsEntry {
	out := slices.Clone(entries)

	for i := range out {
		var fields map[string]any
		if out[i].FieldsV1 == nil || out[i].Operation != metav1.ManagedFieldsOperationUpdate ||
			json.Unmarshal(out[i].FieldsV1.GetRawBytes(), &fields) != nil || !take(fields, path) {
			continue
		}

		if raw, err := json.Marshal(fields); err == nil {
			out[i].FieldsV1 = &metav1.FieldsV1{}
			out[i].FieldsV1.SetRawBytes(raw)
		}
	}

	return slices.DeleteFunc(out, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.FieldsV1 != nil && entry.FieldsV1.GetRawString() == "{}"
	})
}

// take takes a field out of a set of fields, with parents that have no other, and reports whether it was there.
func take(fields map[string]any, path []string) bool {
	name := "f:" + path[0]
	below, ok := fields[name].(map[string]any)

	switch {
	case !ok:
		return false
	case len(path) > 1 && !take(below, path[1:]):
		return false
	case len(path) > 1 && len(below) > 0:
		return true
	}

	delete(fields, name)

	return true
}
