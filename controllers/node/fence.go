package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
)

// fencePoll is the interval of checks for a cluster with a failed VM. No event announces that its volumes are detached,
// or that a remediation begins.
const fencePoll = 5 * time.Second

// outOfService is the taint that makes Kubernetes delete the pods of a not-ready node, and detach their volumes at
// once.
var outOfService = corev1.Taint{
	Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute,
}

// isOutOfService reports whether a taint marks a node out of service, regardless of its value.
func isOutOfService(taint corev1.Taint) bool { return taint.Key == outOfService.Key }

// isOurTaint reports whether a taint equals the manager's.
func isOurTaint(taint corev1.Taint) bool {
	return isOutOfService(taint) && taint.Value == outOfService.Value && taint.Effect == outOfService.Effect
}

// hasOutOfService reports whether a Node has the taint, regardless of who set it.
func hasOutOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, isOutOfService)
}

// situation has the facts that decide whether a Node is fenced.
type situation struct {
	// enabled reports that the manager may fence the Node: --fence-nodes is set, and nothing is paused.
	enabled bool
	// alive reports that the kubelet has reported since the failure.
	alive bool
	// disappearing reports that the machine is being deleted, or that its VM no longer exists.
	disappearing bool
	// failed reports that the VM is down after a failure.
	failed bool
	// starting reports that a remediation will soon start the VM, or has just started it.
	starting bool
	// fenced reports that the manager has set the taint.
	fenced bool
	// attached reports that volumes are attached to the Node. It matters only if starting is set.
	attached bool
}

// shouldHaveTaint reports whether the Node should have the taint. A Node that is alive never has it. If a remediation
// is starting the VM, the Node gets no new taint, and loses the taint once its volumes are detached.
func (s situation) shouldHaveTaint() bool {
	switch {
	case s.alive:
		return false
	case s.disappearing:
		return s.fenced
	case s.failed && s.starting:
		return s.fenced && s.attached
	}

	return s.failed && (s.fenced || s.enabled)
}

// setTaint adds the taint to a Node, or removes the manager's own. It returns the reason of the event, or "" if nothing
// changes. Taints set by others stay.
func setTaint(node *corev1.Node, wanted bool, vmID string) string {
	_, ours := node.Annotations[infrav1.NodeFencedAnnotation]

	switch {
	case wanted && !hasOutOfService(node):
		node.Spec.Taints = append(slices.Clone(node.Spec.Taints), outOfService)
		setKey(&node.Annotations, infrav1.NodeFencedAnnotation, vmID)

		return infrav1.NodeFencedReason
	case !wanted && ours:
		node.Spec.Taints = slices.DeleteFunc(slices.Clone(node.Spec.Taints), isOurTaint)
		delete(node.Annotations, infrav1.NodeFencedAnnotation)

		return infrav1.NodeReleasedReason
	}

	return ""
}

// isDisappearing reports whether a machine is being deleted, or its VM no longer exists. Then the machine's condition
// no longer reports a failure.
func isDisappearing(m *infrav1.OLVMMachine) bool {
	return !m.DeletionTimestamp.IsZero() ||
		conditions.GetReason(m, infrav1.VirtualMachineRunningCondition) == infrav1.VirtualMachineNotFoundReason
}

// reconcileTaint adds the taint to the Node of a machine, or removes it. machine is nil if the Node belongs to no
// machine. For a paused machine, reconcileTaint can only remove the taint. It returns the reason of the event, or "".
func (r *Reconciler) reconcileTaint(
	ctx context.Context, scope *nodeScope, node *corev1.Node, machine *infrav1.OLVMMachine,
) (reason string, err error) {
	_, fenced := node.Annotations[infrav1.NodeFencedAnnotation]
	if machine == nil {
		return setTaint(node, fenced && !isReady(node), ""), nil
	}

	now := situation{
		enabled:      r.FenceNodes && slices.Contains(scope.machines, machine),
		disappearing: isDisappearing(machine), failed: pass.HasVMFailed(machine), fenced: fenced,
	}

	if !now.fenced && (!now.enabled || !now.failed) {
		return "", nil
	}

	if now.alive, err = r.checkAlive(ctx, scope, node, machine); err != nil {
		return "", err
	}

	if now.failed && !now.alive {
		if now.starting, err = r.checkStarting(ctx, machine); err != nil {
			return "", err
		}
	}

	if now.starting && now.fenced {
		if now.attached, err = r.checkAttachedVolumes(ctx, scope, node.Name); err != nil {
			return "", err
		}
	}

	wanted := now.shouldHaveTaint()
	scope.hasTaint = scope.hasTaint || wanted

	return setTaint(node, wanted, machine.Spec.ProviderID), nil
}

// isReady reports whether a Node has a true Ready condition.
func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// checkAlive reports whether a Node is ready, or whether its kubelet has renewed its Lease since the VM was found down.
// Then the VM runs, regardless of the engine's report. If the kubelet's clock is slow, only the Ready condition shows
// that the Node is alive.
func (r *Reconciler) checkAlive(
	ctx context.Context, scope *nodeScope, node *corev1.Node, machine *infrav1.OLVMMachine,
) (bool, error) {
	if isReady(node) {
		return true, nil
	}

	running := conditions.Get(machine, infrav1.VirtualMachineRunningCondition)
	if running == nil {
		return false, nil
	}

	if err := r.connectWorkload(ctx, scope); err != nil {
		return false, err
	}

	lease := &coordinationv1.Lease{}
	err := scope.live.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node.Name}, lease)
	if apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("failed to get the Lease of a node: %w", err)
	}

	// The transition time of the condition has a resolution of seconds.
	return lease.Spec.RenewTime != nil &&
		!lease.Spec.RenewTime.Time.Before(running.LastTransitionTime.Add(time.Second)), nil
}

// checkStarting reports whether a remediation is starting the VM of a machine, or will soon start it.
func (r *Reconciler) checkStarting(ctx context.Context, m *infrav1.OLVMMachine) (bool, error) {
	owner := metav1.GetControllerOf(m)
	if owner == nil {
		return false, nil
	}

	remediation := &infrav1alpha1.OLVMRemediation{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: owner.Name}, remediation)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}

	return isStartingVM(remediation, m), nil
}

// isStartingVM reports whether a remediation is starting the VM of a machine, or will soon start it. It also returns
// true after the start, until the machine's condition has changed.
func isStartingVM(remediation *infrav1alpha1.OLVMRemediation, m *infrav1.OLVMMachine) bool {
	switch remediation.Status.Step {
	case infrav1alpha1.PoweringOffStep, infrav1alpha1.StartingStep:
		return true
	case infrav1alpha1.WaitingStep:
		running := conditions.Get(m, infrav1.VirtualMachineRunningCondition)

		return running == nil || !running.LastTransitionTime.After(remediation.Status.StepTime.Time)
	}

	return false
}

// connectWorkload sets the uncached client for the API server of the workload cluster.
func (r *Reconciler) connectWorkload(ctx context.Context, scope *nodeScope) error {
	if scope.live != nil {
		return nil
	}

	live, err := r.ClusterCache.GetUncachedClient(ctx, client.ObjectKeyFromObject(scope.cluster))
	if err != nil {
		return fmt.Errorf("failed to reach the workload cluster: %w", err)
	}

	scope.live = live

	return nil
}

// checkAttachedVolumes reports whether volumes are attached to a Node. It lists all attachments from the API server,
// once per pass. Nothing else needs them, so a cache would waste memory.
func (r *Reconciler) checkAttachedVolumes(ctx context.Context, scope *nodeScope, node string) (bool, error) {
	if scope.attached == nil {
		if err := r.connectWorkload(ctx, scope); err != nil {
			return false, err
		}

		var list storagev1.VolumeAttachmentList
		if err := scope.live.List(ctx, &list); err != nil {
			return false, fmt.Errorf("failed to list attached volumes: %w", err)
		}

		scope.attached = map[string]bool{}
		for i := range list.Items {
			scope.attached[list.Items[i].Spec.NodeName] = true
		}
	}

	return scope.attached[node], nil
}

// reportTaint records the event of a changed taint on the machine.
func (r *Reconciler) reportTaint(machine *infrav1.OLVMMachine, node, reason string) {
	if machine == nil {
		return
	}

	switch reason {
	case infrav1.NodeFencedReason:
		r.Recorder.Eventf(machine, nil, corev1.EventTypeWarning, reason, "FenceNode",
			"The VM has failed: Node %s now has the taint %s, so its pods and volumes move", node, outOfService.Key)
	case infrav1.NodeReleasedReason:
		r.Recorder.Eventf(machine, nil, corev1.EventTypeNormal, reason, "FenceNode",
			"Node %s is no longer fenced: its taint %s was removed", node, outOfService.Key)
	}
}
