package clusterctl

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sameObjectClient writes an object only if it is still the one that was read. clusterctl patches and deletes objects
// by name. Such a request may arrive late: another command may have made a new object of this name by then.
type sameObjectClient struct{ client.Client }

// Patch patches the object with this UID.
func (c sameObjectClient) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	if uid := object.GetUID(); uid != "" {
		patch = patchOfUID{patch, uid}
	}

	return c.Client.Patch(ctx, object, patch, options...)
}

// Delete deletes the object with this UID.
func (c sameObjectClient) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if uid := object.GetUID(); uid != "" {
		options = append(options, client.Preconditions{UID: &uid})
	}

	return c.Client.Delete(ctx, object, options...)
}

// patchOfUID is a patch that the API server refuses for an object with another UID.
type patchOfUID struct {
	client.Patch

	uid types.UID
}

// Data returns the patch with the UID. Of the types of patches, clusterctl uses JSON patches and merge patches.
func (p patchOfUID) Data(object client.Object) ([]byte, error) {
	data, err := p.Patch.Data(object)
	if err != nil {
		return nil, fmt.Errorf("failed to encode a patch: %w", err)
	}

	switch p.Type() {
	case types.JSONPatchType:
		var operations []any

		if err := json.Unmarshal(data, &operations); err != nil {
			return nil, fmt.Errorf("failed to read a patch: %w", err)
		}

		isSame := map[string]any{"op": "test", "path": "/metadata/uid", "value": p.uid}

		return json.Marshal(append([]any{isSame}, operations...))
	case types.MergePatchType:
		fields := map[string]any{}
		if err := json.Unmarshal(data, &fields); err != nil {
			return nil, fmt.Errorf("failed to read a patch: %w", err)
		}

		metadata, ok := fields["metadata"].(map[string]any)
		if !ok {
			metadata = map[string]any{}
		}

		metadata["uid"], fields["metadata"] = p.uid, metadata

		return json.Marshal(fields)
	}

	return data, nil
}
