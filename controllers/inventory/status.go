package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/steadytext"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// reconcileStatuses updates the status of the OLVMInventoryVMs.
func (r *Reconciler) reconcileStatuses(ctx context.Context, s *scope) error {
	for _, e := range s.entries {
		before := e.object.DeepCopy()
		s.fillStatus(e)
		steadytext.SteadyMessages(e.object)
		steadytext.BoundStatus(e.object)

		if equality.Semantic.DeepEqual(before.Status, e.object.Status) {
			continue
		}

		// The controller of OLVMInventoryVMs writes to the same list of conditions.
		lock := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Status().Patch(ctx, e.object, lock); apierrors.IsConflict(err) {
			s.requeueSoon = true
			continue
		} else if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to write the status of OLVMInventoryVM %s: %w", e.object.Name, err)
		}

		r.announcePhase(e, before.Status)
	}

	return nil
}

// announcePhase records an event if the phase of a VM has changed.
func (r *Reconciler) announcePhase(e *entry, before infrav1alpha1.OLVMInventoryVMStatus) {
	now := e.object.Status
	if now.Phase == before.Phase && now.Reason == before.Reason {
		return
	}

	kind := corev1.EventTypeNormal
	if slices.Contains([]string{
		inventory.ReasonNoAddress, inventory.ReasonClaimant, inventory.ReasonAbsent, inventory.ReasonForeign,
	}, now.Reason) {
		kind = corev1.EventTypeWarning
	}

	r.Recorder.Eventf(e.object, nil, kind, cmp.Or(now.Reason, now.Phase), "Observe", "%s",
		cmp.Or(now.Message, "The VM is "+now.Phase))
}

// fillStatus turns the facts about a VM into its status.
func (s *scope) fillStatus(e *entry) {
	status := &e.object.Status
	if s.engine.session == nil {
		return // the last known status stays
	}

	if e.vm != nil {
		status.VMName, status.VMStatus, status.VMTemplateName = e.vm.Name, string(e.vm.Status), e.vm.Template.Name
		status.Networks, status.HostName = limitNetworks(inventory.CollectNetworks(*e.vm)), ""
		if host := inventory.FindHost(*e.vm, s.engine.contents.Hosts); host != nil {
			status.HostName = host.Name
		}
	}

	status.Phase, status.Reason, status.Message = s.decidePhase(e)

	setReady(e.object)

	status.ClaimID = ""
	if e.confirmed {
		status.ClaimID = inventory.ConfirmedID(*e.object.Spec.ClaimRef)
	}
}

// setReady derives the Ready condition from the phase. It is true if the VM can be claimed, or if its machine can use
// it.
func setReady(vm *infrav1alpha1.OLVMInventoryVM) {
	status := vm.Status
	condition := metav1.Condition{
		Type:    infrav1.ReadyCondition,
		Status:  metav1.ConditionFalse,
		Reason:  cmp.Or(status.Reason, status.Phase),
		Message: steadytext.Shorten(status.Message, pass.MaxMessage),
	}
	useful := []string{infrav1alpha1.InventoryVMAvailable, infrav1alpha1.InventoryVMClaimed}
	if status.Reason == "" && slices.Contains(useful, status.Phase) {
		condition.Status = metav1.ConditionTrue
	}

	conditions.Set(vm, condition)
}

// limitNetworks returns a VM's networks within the API's limits.
func limitNetworks(all []infrav1alpha1.InventoryNetwork) []infrav1alpha1.InventoryNetwork {
	// The limits of the API.
	const most, mostAddresses = 64, 64

	kept, _ := workspace.LimitList(all, most)
	for i := range kept {
		kept[i].IPAddresses, _ = workspace.LimitList(kept[i].IPAddresses, mostAddresses)
	}

	return kept
}

// decidePhase returns the phase of a VM, with a reason and a message.
func (s *scope) decidePhase(e *entry) (phase, reason, message string) {
	claim := e.object.Spec.ClaimRef

	switch {
	case claim != nil && claim.Released:
		return infrav1alpha1.InventoryVMRecycling, "", e.waiting
	case claim != nil:
		reason, message = s.findClaimProblem(e)
		return infrav1alpha1.InventoryVMClaimed, reason, message
	case !e.object.DeletionTimestamp.IsZero():
		return infrav1alpha1.InventoryVMIneligible, inventory.ReasonDeleting,
			getMessage(e.object, infrav1.DeletingCondition)
	case !inventory.IsComplete(e.object):
		return infrav1alpha1.InventoryVMIneligible, inventory.ReasonProvisioning, getMessage(e.object,
			infrav1.InfrastructureAppliedCondition)
	case e.vm == nil && e.object.Spec.FromProvision != nil:
		return infrav1alpha1.InventoryVMIneligible, inventory.ReasonAbsent,
			"The VM no longer matches spec.virtualMachines of the inventory. Restore its tag, or delete this object: " +
				"the inventory then creates another one"
	case e.vm == nil:
		return infrav1alpha1.InventoryVMIneligible, inventory.ReasonAbsent,
			"The engine no longer has this VM in the pool"
	}

	if reason, message = s.engine.contents.ExplainUnclaimable(*e.vm); reason != "" {
		return infrav1alpha1.InventoryVMIneligible, reason, message
	}

	if network := s.plan.Unreachable[e.object.Name]; network != "" {
		return infrav1alpha1.InventoryVMIneligible, inventory.ReasonNoAddress, fmt.Sprintf(
			"The VM has no address on network %s, but machines that select it need one", network)
	}

	return infrav1alpha1.InventoryVMAvailable, "", ""
}

// describeRelease returns the advice to end a claim, for messages.
func describeRelease(claim *infrav1alpha1.InventoryClaim) string {
	return fmt.Sprintf("set the annotation %s of this object to %s", infrav1alpha1.ReleaseClaimAnnotation, claim.ID)
}

// findClaimProblem returns the problem of a claim, for the status. Both results are empty if there is none.
func (s *scope) findClaimProblem(e *entry) (reason, message string) {
	claim := e.object.Spec.ClaimRef

	switch {
	case e.lost != nil:
		return inventory.ReasonClaimedThem, fmt.Sprintf("The engine records a claim by %s, but OLVMMachine %s uses "+
			"the VM", e.lost, claim.MachineName)
	case e.vm == nil:
		return inventory.ReasonAbsent, "The engine no longer has this VM in the pool"
	case claim.MachineName != "" && s.machines[claim.MachineName] == nil:
		return inventory.ReasonClaimant, fmt.Sprintf("OLVMMachine %s does not exist. Once its VM may be reused, %s",
			claim.MachineName, describeRelease(claim))
	case !s.clusters.all[claim.ClusterName] && claim.MachineName != "":
		return inventory.ReasonClaimant, fmt.Sprintf(
			"Cluster %s does not exist, but OLVMMachine %s has its VM. Recreate the Cluster, or delete the "+
				"OLVMMachine", claim.ClusterName, claim.MachineName)
	case !s.clusters.all[claim.ClusterName]:
		return inventory.ReasonClaimant, fmt.Sprintf("Cluster %s does not exist. Once its VM may be reused, %s",
			claim.ClusterName, describeRelease(claim))
	case isReleaseRequested(e.object):
		return "", fmt.Sprintf("The annotation %s requests the release of the VM of OLVMMachine %s. To release the "+
			"VM, delete its Machine", infrav1alpha1.ReleaseClaimAnnotation, claim.MachineName)
	case !e.confirmed:
		return inventory.ReasonUnmarked, cmp.Or(e.waiting, "Waiting for the engine to record the claim")
	}

	return "", ""
}

// reconcileDelete removes the finalizer of an inventory without claims or provisioned VMs.
func (r *Reconciler) reconcileDelete(s *scope) {
	for _, e := range s.entries {
		if e.object.Spec.ClaimRef != nil {
			s.claimed = append(s.claimed, e.object.Name)
		}
	}

	if len(s.claimed) == 0 && s.provision.remainingObjects == 0 {
		controllerutil.RemoveFinalizer(s.inventory, infrav1alpha1.InventoryFinalizer)
	}
}

// updateStatus turns the facts of a pass into the status of the inventory.
func updateStatus(s *scope) {
	setEngineCondition(s)
	setProvisionedCondition(s)
	setScheduledCondition(s)
	setDeletingCondition(s)

	parts := []string{infrav1.EngineAvailableCondition, infrav1.ScheduledCondition, infrav1.DeletingCondition}
	if s.hasProvisions() {
		parts = append(parts, infrav1.ProvisionedCondition)
	}

	pass.SetReady(s.inventory, parts)
	if !s.complete {
		return // the last known numbers stay
	}

	status := &s.inventory.Status
	status.Total, status.Available, status.Claimed, status.Recycling, status.Ineligible = 0, 0, 0, 0, 0
	counts := map[string]*int32{
		infrav1alpha1.InventoryVMAvailable:  &status.Available,
		infrav1alpha1.InventoryVMClaimed:    &status.Claimed,
		infrav1alpha1.InventoryVMRecycling:  &status.Recycling,
		infrav1alpha1.InventoryVMIneligible: &status.Ineligible,
	}

	for _, e := range s.entries {
		status.Total++
		if count := counts[e.object.Status.Phase]; count != nil {
			*count++
		}
	}

	status.Unschedulable, status.UnschedulableCount = limitUnschedulable(s.plan.Unschedulable)
}

// limitUnschedulable returns the groups within the API's limits, and their full number.
func limitUnschedulable(groups []infrav1alpha1.UnschedulableGroup) ([]infrav1alpha1.UnschedulableGroup, int32) {
	// The limits of the API.
	const most, longest = 256, 1024

	kept, count := workspace.LimitList(groups, most)
	kept = slices.Clone(kept)

	for i := range kept {
		kept[i].Message = steadytext.FitLength(kept[i].Message, longest)
	}

	return kept, count
}

func setEngineCondition(s *scope) {
	condition := metav1.Condition{
		Type:   infrav1.EngineAvailableCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.EngineAvailableReason,
	}
	if s.engine.err != nil {
		condition.Status = metav1.ConditionFalse
		condition.Reason, condition.Message = blocker.ExplainEngineError(s.engine.err)
	}

	conditions.Set(s.inventory, condition)
}

func setScheduledCondition(s *scope) {
	condition := metav1.Condition{
		Type:   infrav1.ScheduledCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.ScheduledReason,
	}

	var short []string
	for _, group := range s.plan.Unschedulable {
		short = append(short, inventory.FormatShortage(group))
	}

	switch {
	case !s.complete && conditions.Get(s.inventory, condition.Type) != nil:
		return // the last known condition stays
	case !s.complete:
		condition.Status, condition.Reason = metav1.ConditionUnknown, infrav1.WaitingForEngineReason
	case len(short) > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.UnschedulableReason
		condition.Message = steadytext.Shorten(strings.Join(short, ". "), pass.MaxMessage)
	}

	conditions.Set(s.inventory, condition)
}

func setDeletingCondition(s *scope) {
	condition := metav1.Condition{
		Type:   infrav1.DeletingCondition,
		Status: metav1.ConditionFalse,
		Reason: infrav1.NotDeletingReason,
	}

	switch {
	case s.inventory.DeletionTimestamp.IsZero():
	case len(s.claimed)+s.provision.remainingObjects > 0 && s.engine.err != nil:
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.UnableToDecommissionReason
		_, condition.Message = blocker.ExplainEngineError(s.engine.err)
	case len(s.claimed) > 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.WaitingForClaimsReason
		condition.Message = "Waiting for the claims on " + strings.Join(s.claimed, ", ") + " to end"
	case s.provision.remainingObjects > 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.DeletingReason
		condition.Message = fmt.Sprintf("Waiting for the deletion of %d VMs created for the pool",
			s.provision.remainingObjects)
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.DeletingReason
	}

	conditions.Set(s.inventory, condition)
}

// setProvisionedCondition reports the progress of provisioned VMs.
func setProvisionedCondition(s *scope) {
	condition := metav1.Condition{
		Type:   infrav1.ProvisionedCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.ProvisionedReason,
	}
	facts := s.provision

	switch {
	case !s.hasProvisions():
		conditions.Delete(s.inventory, condition.Type)
		return
	case s.engine.session == nil && conditions.Get(s.inventory, condition.Type) != nil:
		return // the last known condition stays
	case s.engine.session == nil:
		condition.Status, condition.Reason = metav1.ConditionUnknown, infrav1.WaitingForEngineReason
	case facts.err != nil:
		condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.ProvisionFailedReason
		condition.Message = facts.err.Error()
		var field *blocker.Error
		if errors.As(facts.err, &field) {
			condition.Reason = field.Reason
		}
	case facts.tooNew:
		condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.ProvisioningReason
		condition.Message = "The inventory has just been created"
	case facts.made < facts.wanted || facts.remainingObjects != facts.made:
		condition.Status = metav1.ConditionFalse
		condition.Reason, condition.Message = s.describeProvisioning()
		condition.Message = steadytext.Shorten(condition.Message, pass.MaxMessage)
	}

	conditions.Set(s.inventory, condition)
}
