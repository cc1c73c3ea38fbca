package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
)

// fencePoll is the interval of checks for a cluster with a failed VM: no event announces that its volumes are detached,
// or that a remediation begins.
const fencePoll = 5 * time.Second

// outOfService is the taint that makes Kubernetes delete the pods of a not-ready node, and detach their volumes at
// once.
var outOfService = corev1.Taint{
	Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute,
}

// isOutOfService reports whether a taint marks a node out of service, regardless of its value.
func isOutOfService(taint corev1.Taint) bool { return taint.Key == outOfService.Key }

// hasOutOfService reports whether a Node has the taint, regardless of its origin.
func hasOutOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, isOutOfService)
}

// isFailed reports whether the engine proves that the VM of a machine cannot run.
func isFailed(m *infrav1.OLVMMachine) bool {
	running := conditions.Get(m, infrav1.VirtualMachineRunningCondition)

	return running != nil && running.Status == metav1.ConditionFalse &&
		running.Reason == infrav1.VirtualMachineFailedReason
}

// situation is the basis for fencing a Node.
type situation struct {
	// failed reports that the VM is down after a failure.
	failed bool
	// starting reports that a remediation is about to start the VM.
	starting bool
	// fenced reports that the manager has set the taint.
	fenced bool
	// attached reports that volumes are attached to the Node. It matters only if the VM is about to start.
	attached bool
}

// wantsFence reports whether the Node should have the taint. A VM about to start no longer gets it, and loses it once
// its volumes are detached.
func (s situation) wantsFence() bool {
	if s.failed && s.starting {
		return s.fenced && s.attached
	}

	return s.failed
}

// setFence adds the taint to a Node, or removes the manager's own. It returns the reason of the event, or "" without a
// change. Others' taints stay.
func setFence(node *corev1.Node, wanted bool, vmID string) string {
	_, ours := node.Annotations[infrav1.NodeFencedAnnotation]

	switch {
	case wanted && !hasOutOfService(node):
		node.Spec.Taints = append(slices.Clone(node.Spec.Taints), outOfService)
		setKey(&node.Annotations, infrav1.NodeFencedAnnotation, vmID)

		return infrav1.NodeFencedReason
	case !wanted && ours:
		node.Spec.Taints = slices.DeleteFunc(slices.Clone(node.Spec.Taints), isOutOfService)
		delete(node.Annotations, infrav1.NodeFencedAnnotation)

		return infrav1.NodeReleasedReason
	}

	return ""
}

// reconcileFence adds the taint to the Node of a machine, or removes it. machine is nil if no machine matches the Node.
func (r *Reconciler) reconcileFence(
	ctx context.Context, scope *nodeScope, node *corev1.Node, machine *infrav1.OLVMMachine,
) (reason string, err error) {
	if !r.FenceNodes || machine == nil {
		return "", nil
	}

	_, fenced := node.Annotations[infrav1.NodeFencedAnnotation]
	now := situation{failed: isFailed(machine), fenced: fenced}

	if now.failed {
		if now.starting, err = r.isStarting(ctx, machine); err != nil {
			return "", err
		}
	}

	if now.starting && now.fenced {
		if now.attached, err = r.hasVolumes(ctx, scope, node.Name); err != nil {
			return "", err
		}
	}

	return setFence(node, now.wantsFence(), machine.Spec.ProviderID), nil
}

// isStarting reports whether a remediation is starting the VM of a machine, or about to.
func (r *Reconciler) isStarting(ctx context.Context, m *infrav1.OLVMMachine) (bool, error) {
	owner := metav1.GetControllerOf(m)
	if owner == nil {
		return false, nil
	}

	remediation := &infrav1alpha1.OLVMRemediation{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: owner.Name}, remediation)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}

	return slices.Contains([]infrav1alpha1.RemediationStep{
		infrav1alpha1.PoweringOffStep, infrav1alpha1.StartingStep,
	}, remediation.Status.Step), nil
}

// hasVolumes reports whether volumes are attached to a Node. It reads from the API server, because nothing else needs a
// cache of all attachments.
func (r *Reconciler) hasVolumes(ctx context.Context, scope *nodeScope, node string) (bool, error) {
	if scope.live == nil {
		live, err := r.ClusterCache.GetUncachedClient(ctx, client.ObjectKeyFromObject(scope.cluster))
		if err != nil {
			return false, fmt.Errorf("failed to reach the workload cluster: %w", err)
		}

		scope.live = live
	}

	var list storagev1.VolumeAttachmentList
	if err := scope.live.List(ctx, &list); err != nil {
		return false, fmt.Errorf("failed to list the volumes that are attached: %w", err)
	}

	return slices.ContainsFunc(list.Items, func(a storagev1.VolumeAttachment) bool {
		return a.Spec.NodeName == node
	}), nil
}

// reportFence records an event on the machine.
func (r *Reconciler) reportFence(machine *infrav1.OLVMMachine, node, reason string) {
	switch reason {
	case infrav1.NodeFencedReason:
		r.Recorder.Eventf(machine, nil, corev1.EventTypeWarning, reason, "FenceNode",
			"The VM has failed: Node %s has the taint %s, so that its pods and volumes move", node, outOfService.Key)
	case infrav1.NodeReleasedReason:
		r.Recorder.Eventf(machine, nil, corev1.EventTypeNormal, reason, "FenceNode",
			"Node %s has lost the taint %s", node, outOfService.Key)
	}
}
