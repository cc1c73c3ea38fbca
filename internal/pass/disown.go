package pass

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// filledIn are the fields that the manager fills in where a manifest leaves them empty.
var filledIn = []fieldpath.Path{
	fieldpath.MakePathOrDie("spec", "controlPlaneEndpoint", "host"),
	fieldpath.MakePathOrDie("spec", "controlPlaneEndpoint", "port"),
	fieldpath.MakePathOrDie("spec", "providerID"),
}

// disownFields gives up the ownership of fields that a write has filled in. Who applies an empty one again, with
// server-side apply and without force, would have a conflict with the manager. The object is what the API server
// answered.
func (p *Pass) disownFields(ctx context.Context, object client.Object, content []byte, part part) error {
	var changes map[string]any
	if err := json.Unmarshal(content, &changes); err != nil {
		return fmt.Errorf("failed to read the patch of %s: %w", p.key, err)
	}

	filled := fieldpath.NewSet()

	for _, path := range filledIn {
		if hasPath(changes, path) {
			filled.Insert(path)
		}
	}

	if filled.Empty() || len(object.GetManagedFields()) == 0 {
		return nil
	}

	entries, err := removeFields(object.GetManagedFields(), filled)
	if err != nil {
		return fmt.Errorf("failed to read the owners of %s: %w", p.key, err)
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

	p.tracker.noteWritten(p.key, object.GetResourceVersion())

	return nil
}

// hasPath reports whether a merge patch sets a field.
func hasPath(changes map[string]any, path fieldpath.Path) bool {
	for _, element := range path[:len(path)-1] {
		changes, _ = changes[*element.FieldName].(map[string]any)
	}

	return changes[*path[len(path)-1].FieldName] != nil
}

// removeFields takes fields from who has written them. The last write has changed them, so nobody else owns them.
func removeFields(entries []metav1.ManagedFieldsEntry, fields *fieldpath.Set) ([]metav1.ManagedFieldsEntry, error) {
	var out []metav1.ManagedFieldsEntry

	for _, entry := range entries {
		if entry.FieldsV1 == nil || entry.Operation != metav1.ManagedFieldsOperationUpdate {
			out = append(out, entry)
			continue
		}

		owned := fieldpath.NewSet()
		if err := owned.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("fields of %s: %w", entry.Manager, err)
		}

		left := owned.Difference(fields)
		if left.Empty() {
			continue
		}

		raw, err := left.ToJSON()
		if err != nil {
			return nil, fmt.Errorf("fields of %s: %w", entry.Manager, err)
		}

		entry.FieldsV1 = &metav1.FieldsV1{}
		entry.FieldsV1.SetRawBytes(raw)
		out = append(out, entry)
	}

	return out, nil
}
