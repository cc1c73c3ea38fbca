package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/paused"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

// Moving reports whether clusterctl is moving an object to another management cluster: it is deleted here, and all that
// was made for it stays.
func Moving(object client.Object) bool {
	_, ok := object.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]

	return ok
}

// MoveWith has clusterctl move a template with the objects that name it and do not own it.
func MoveWith(ctx context.Context, c client.Client, template *infrav1.OLVMMachineTemplate) error {
	if _, labelled := template.Labels[clusterctlv1.ClusterctlMoveLabel]; labelled {
		return nil
	}

	before := template.DeepCopy()
	metav1.SetMetaDataLabel(&template.ObjectMeta, clusterctlv1.ClusterctlMoveLabel, "")
	if err := c.Patch(ctx, template, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("failed to label OLVMMachineTemplate %s: %w", template.Name, err)
	}

	return nil
}

// blockMove sets the annotation that stops clusterctl from moving the object, and the annotations in extra. It patches
// only those that are missing.
func (w *Workspace) blockMove(ctx context.Context, extra map[string]string) error {
	has := w.object.GetAnnotations()
	missing := map[string]string{clusterctlv1.BlockMoveAnnotation: ""}
	maps.Copy(missing, extra)
	maps.DeleteFunc(missing, func(key, value string) bool {
		current, ok := has[key]
		return ok && current == value
	})

	if len(missing) == 0 {
		return nil
	}

	// The UID keeps a new object of the same name from getting the annotations of this one.
	content, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": w.object.GetUID(), "annotations": missing},
	})
	if err != nil {
		return fmt.Errorf("failed to encode the annotations: %w", err)
	}

	if err := w.runs().Client.Patch(ctx, copyOf(w.object), client.RawPatch(types.MergePatchType, content)); err != nil {
		return fmt.Errorf("failed to record that a run may act for %s: %w", w.key, err)
	}

	annotations.AddAnnotations(w.object, missing)

	return nil
}

// unblockMove takes the mark of blockMove from the object, in memory, unless a run is in flight, or left a state in the
// working directory that may not be in its Secret. It reports whether the object has changed.
func (w *Workspace) unblockMove() bool {
	has := w.object.GetAnnotations()
	if _, blocked := has[clusterctlv1.BlockMoveAnnotation]; !blocked {
		return false
	}

	if w.InFlight() || w.Unfinished() {
		return false
	}

	delete(has, clusterctlv1.BlockMoveAnnotation)
	w.object.SetAnnotations(has)

	return true
}

// Paused reports whether the pass ends here: the object or its Cluster is paused, or its Paused condition has just
// changed, which begins another pass. It writes that condition. An object that is paused can be moved by clusterctl.
// cluster is nil where the object has no Cluster.
func (w *Workspace) Paused(ctx context.Context, cluster *clusterv1.Cluster) (ends bool, err error) {
	isPaused, changed, err := paused.EnsurePausedCondition(ctx, w.runs().Client, cluster, w.object)
	if err != nil || !isPaused {
		return changed, err
	}

	return true, w.unblockPausedMove(ctx)
}

// unblockPausedMove lets clusterctl move an object that is paused; nothing else is written to it.
func (w *Workspace) unblockPausedMove(ctx context.Context) error {
	before := copyOf(w.object)
	if !w.unblockMove() {
		return nil
	}

	if err := w.runs().Client.Patch(ctx, w.object, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to let %s be moved: %w", w.key, err)
	}

	return nil
}

// copyOf is a deep copy; each object of Kubernetes copies itself to its own type.
func copyOf(object client.Object) client.Object {
	return object.DeepCopyObject().(client.Object) //nolint:forcetypeassert,errcheck // see above
}
