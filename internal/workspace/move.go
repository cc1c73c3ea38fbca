package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/steadytext"
)

// IsMoving reports whether clusterctl is moving an object to another management cluster. clusterctl deletes the object
// here, but its resources in the engine must stay.
func IsMoving(object client.Object) bool {
	_, ok := object.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]

	return ok
}

// EnableMove makes clusterctl move a template together with the objects that refer to it, although they do not own it.
func EnableMove(ctx context.Context, c client.Client, template *infrav1.OLVMMachineTemplate) error {
	if _, labelled := template.Labels[clusterctlv1.ClusterctlMoveLabel]; labelled {
		return nil
	}

	before := template.DeepCopy()
	metav1.SetMetaDataLabel(&template.ObjectMeta, clusterctlv1.ClusterctlMoveLabel, "")
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, template, patch); err != nil {
		return fmt.Errorf("failed to label OLVMMachineTemplate %s: %w", template.Name, err)
	}

	return nil
}

// blockMove prevents clusterctl from moving the object. It writes an annotation, the annotations in extra, and all
// other changes of the pass to the object.
func (w *Workspace) blockMove(ctx context.Context, extra map[string]string) error {
	annotations.AddAnnotations(w.object, extra)
	annotations.AddAnnotations(w.object, map[string]string{clusterctlv1.BlockMoveAnnotation: ""})
	if err := w.pass.WriteObject(ctx); err != nil {
		return fmt.Errorf("failed to block moves of %s before a run: %w", w.key, err)
	}

	return nil
}

// unblockMove removes the annotation of blockMove from the object in memory. It does nothing during a run, or while the
// working directory has an unsaved state.
func (w *Workspace) unblockMove() {
	has := w.object.GetAnnotations()
	if _, blocked := has[clusterctlv1.BlockMoveAnnotation]; !blocked || w.IsInFlight() || w.HasUnsavedState() {
		return
	}

	delete(has, clusterctlv1.BlockMoveAnnotation)
	w.object.SetAnnotations(has)
}

// setPaused sets the Paused condition of an object. Without causes, the object is not paused.
func setPaused(object conditions.Setter, causes ...string) {
	condition := metav1.Condition{
		Type:   clusterv1.PausedCondition,
		Status: metav1.ConditionFalse,
		Reason: clusterv1.NotPausedReason,
	}
	if len(causes) > 0 {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.PausedReason
		condition.Message = strings.Join(causes, ", ")
	}

	conditions.Set(object, condition)
}

// EnsurePausedCondition reports whether the object or its Cluster is paused, and sets the Paused condition. For a
// paused object, it also writes the condition and lets clusterctl move the object, and the pass ends. cluster is nil if
// the object has no Cluster.
func (w *Workspace) EnsurePausedCondition(ctx context.Context, cluster *clusterv1.Cluster) (bool, error) {
	causes := collectPauseCauses(w.object, w.kind.Name, cluster)
	if len(causes) == 0 {
		setPaused(w.object)
		return false, nil
	}

	unsaved := w.recoverState(ctx)
	if unsaved == nil {
		w.unblockMove()
	} else { // the object is paused all the same, but must not move
		cause := "the state of the last run is not saved, so clusterctl cannot move the object: " + unsaved.Error()
		causes = append(causes, steadytext.Shorten(cause, longestMessage))
	}

	return true, errors.Join(WritePaused(ctx, w.pass, w.object, causes...), unsaved)
}

// pausable is an object with a Paused condition.
type pausable interface {
	metav1.Object
	conditions.Setter
}

// EnsurePausedConditionWithoutState is EnsurePausedCondition for an object without a workspace.
func EnsurePausedConditionWithoutState(
	ctx context.Context, this *pass.Pass, object pausable, kind string, cluster *clusterv1.Cluster,
) (bool, error) {
	causes := collectPauseCauses(object, kind, cluster)
	if len(causes) == 0 {
		setPaused(object)
		return false, nil
	}

	return true, WritePaused(ctx, this, object, causes...)
}

// collectPauseCauses returns the reasons for the pause of an object, or nil if it is not paused.
func collectPauseCauses(object metav1.Object, kind string, cluster *clusterv1.Cluster) []string {
	var out []string
	if cluster != nil && ptr.Deref(cluster.Spec.Paused, false) {
		out = append(out, "Cluster spec.paused is set to true")
	}

	if annotations.HasPaused(object) {
		out = append(out, fmt.Sprintf("%s has the %s annotation", kind, clusterv1.PausedAnnotation))
	}

	return out
}

// WritePaused writes the Paused condition with its causes. It ignores that the object was deleted.
func WritePaused(ctx context.Context, this *pass.Pass, object conditions.Setter, causes ...string) error {
	err := this.WriteWithStatus(ctx, func() { setPaused(object, causes...) })
	if errors.Is(err, pass.ErrGone) {
		err = nil
	}

	return client.IgnoreNotFound(err)
}
