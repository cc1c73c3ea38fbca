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

// filledIn lists the fields filled in by the manager if a manifest leaves them empty.
var filledIn = []fieldpath.Path{
	fieldpath.MakePathOrDie("spec", "controlPlaneEndpoint", "host"),
	fieldpath.MakePathOrDie("spec", "controlPlaneEndpoint", "port"),
	fieldpath.MakePathOrDie("spec", "providerID"),
}

// disownAttempts bounds the attempts to release fields while others write the object.
const disownAttempts = 5

// disownFields releases the manager's ownership of fields filled in by a write. Otherwise, a user with an empty field
// in a manifest gets a conflict from server-side apply without force. object is the API server's answer to the write.
//
// No later pass repeats the release, because it has nothing to write to these fields. If somebody else has written the
// object meanwhile, disownFields therefore reads it again, repeats the release, and returns errOutdated: the pass does
// not know that write. A manager killed between the two requests keeps the ownership.
func (p *Pass) disownFields(ctx context.Context, object client.Object, content []byte, part part) error {
	filled, err := p.findFilled(content)
	if err != nil || filled.Empty() {
		return err
	}

	var outdated error

	for range disownAttempts {
		if len(object.GetManagedFields()) == 0 {
			return outdated
		}

		err := p.releaseFields(ctx, object, filled, part)

		switch {
		case err == nil:
			return outdated
		case !apierrors.IsConflict(err):
			return err
		}

		outdated = fmt.Errorf("%w: %w", errOutdated, err)

		// An empty patch changes nothing. The answer is the object from the API server, not from the cache.
		if errRead := part.patch(ctx, object, client.RawPatch(types.MergePatchType, []byte("{}"))); errRead != nil {
			return fmt.Errorf("failed to read %s again: %w", p.key, errRead)
		}
	}

	return outdated
}

// findFilled returns the fields of filledIn in a merge patch.
func (p *Pass) findFilled(content []byte) (*fieldpath.Set, error) {
	var changes map[string]any
	if err := json.Unmarshal(content, &changes); err != nil {
		return nil, fmt.Errorf("failed to read the patch of %s: %w", p.key, err)
	}

	filled := fieldpath.NewSet()

	for _, path := range filledIn {
		if hasPath(changes, path) {
			filled.Insert(path)
		}
	}

	return filled, nil
}

// releaseFields removes fields from the owners of one version of an object. It returns a conflict for an old version.
func (p *Pass) releaseFields(ctx context.Context, object client.Object, fields *fieldpath.Set, part part) error {
	entries, err := removeFields(object.GetManagedFields(), fields)
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

	if err := part.patch(ctx, object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("failed to release fields of %s: %w", p.key, err)
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

// removeFields removes fields from the entries of their owners. The last write changed these fields, so it is their
// only owner.
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
