package pass

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// FieldOwner is the manager's name in managedFields. The API server derives the same name from the manager's user
// agent.
const FieldOwner = client.FieldOwner("cluster-api-provider-olvm-controller-manager")

// filledIn are the fields that the manager fills in if a manifest leaves them empty.
var filledIn = fieldpath.NewSet(
	fieldpath.MakePathOrDie("spec", "controlPlaneEndpoint", "host"),
	fieldpath.MakePathOrDie("spec", "controlPlaneEndpoint", "port"),
	fieldpath.MakePathOrDie("spec", "providerID"),
)

// releaseFilledIn releases the manager's ownership of the fields in filledIn. Otherwise, server-side
// apply of a manifest with an empty field conflicts unless it is forced.
//
// Filling in and releasing are two requests, because the API server makes a writer the owner of what it changes. Each
// pass that finds the manager as an owner repeats the release. So nothing is lost if the manager is killed between the
// two requests, or if one of them fails.
func (p *Pass) releaseFilledIn(ctx context.Context) error {
	if !p.object.GetDeletionTimestamp().IsZero() {
		return nil
	}

	entries, isOwner, err := removeFilledIn(p.object.GetManagedFields())
	if err != nil || !isOwner {
		return err
	}

	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": p.object.GetResourceVersion(),
		"managedFields":   entries,
	}})
	if err != nil {
		return fmt.Errorf("failed to encode the owners of %s: %w", p.key, err)
	}

	target := newEmpty(p.object)
	err = p.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), FieldOwner)
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w: %w", errOutdated, err)
	} else if err != nil {
		return fmt.Errorf("failed to release fields of %s: %w", p.key, err)
	}

	if p.stored == p.before {
		p.stored = CopyObject(p.stored)
	}

	p.noteAnswer(target)

	return nil
}

// removeFilledIn removes the fields in filledIn from the manager's entries. It reports whether there was one.
func removeFilledIn(entries []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, bool, error) {
	isOwner := false
	// Without an entry, the API server ignores the list. An empty entry is valid, and is dropped.
	out := make([]metav1.ManagedFieldsEntry, 0, len(entries))

	for _, entry := range entries {
		if !isManagerEntry(entry) {
			out = append(out, entry)
			continue
		}

		owned := fieldpath.NewSet()
		if err := owned.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return nil, false, fmt.Errorf("fields of %s: %w", entry.Manager, err)
		}

		left := owned.Difference(filledIn)
		isOwner = isOwner || !left.Equals(owned)

		raw, err := left.ToJSON()
		if err != nil {
			return nil, false, fmt.Errorf("fields of %s: %w", entry.Manager, err)
		}

		entry.FieldsV1 = &metav1.FieldsV1{}
		entry.FieldsV1.SetRawBytes(raw)
		out = append(out, entry)
	}

	return out, isOwner, nil
}

// isManagerEntry reports whether an entry has the fields written by the manager outside the status.
func isManagerEntry(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == string(FieldOwner) && entry.Operation == metav1.ManagedFieldsOperationUpdate &&
		entry.Subresource == "" && entry.FieldsV1 != nil
}

// StripManagedFields removes the managed fields of an object before it is cached, unless the manager has yet to release
// some of them.
func StripManagedFields(in any) (any, error) {
	object, ok := in.(client.Object)
	if !ok {
		return nil, errors.New("the object to cache has no metadata")
	}

	if _, isOwner, err := removeFilledIn(object.GetManagedFields()); err != nil || !isOwner {
		object.SetManagedFields(nil)
	}

	return object, nil
}
