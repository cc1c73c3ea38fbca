package inventory

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// reconcileGroups finds the machines waiting for VMs of the inventory. It also recovers claims known only to the
// engine.
func (r *Reconciler) reconcileGroups(ctx context.Context, s *scope) error {
	var err error
	if s.groups, err = r.findGroups(ctx, s); err != nil {
		return err
	}

	if !s.inventory.DeletionTimestamp.IsZero() {
		s.groups = nil // deletion: drop reservations, and make no claims
		return nil
	}

	if s.engine.session == nil {
		return nil
	}

	return r.recoverClaims(ctx, s)
}

// reconcileClaims assigns VMs to machines. It records claims on the OLVMInventoryVMs before it marks them in the
// engine.
func (r *Reconciler) reconcileClaims(ctx context.Context, s *scope) error {
	if s.engine.session == nil {
		return nil // the claimable VMs are unknown
	}

	if err := r.unassignUnused(ctx, s); err != nil {
		return err
	}

	if err := r.releaseRequested(ctx, s); err != nil {
		return err
	}

	var vms []inventory.VM
	for _, e := range s.entries {
		vms = append(vms, s.toCandidate(e))
	}

	s.plan = inventory.Schedule(vms, s.groups, s.clusters.active)

	return r.applyPlan(ctx, s)
}

// toCandidate returns the scheduler's view of a VM.
func (s *scope) toCandidate(e *entry) inventory.VM {
	if e.vm == nil {
		return inventory.VM{Name: e.object.Name, Claim: e.object.Spec.ClaimRef, Unfit: inventory.ReasonAbsent}
	}

	out := s.engine.contents.ToCandidate(e.object.Name, e.object.Labels, *e.vm, e.object.Spec.ClaimRef)
	if e.object.Spec.ClaimRef == nil && !inventory.IsComplete(e.object) {
		out.Unfit = inventory.ReasonProvisioning
	}

	return out
}

// recoverClaims adopts claims known to the engine but lost in the management cluster, after a restore from an old
// backup. It only adopts claims of existing machines and clusters.
func (r *Reconciler) recoverClaims(ctx context.Context, s *scope) error {
	for _, e := range s.entries {
		if e.vm == nil || e.object.Spec.ClaimRef != nil {
			continue
		}

		mark, tagged := inventory.GetMark(*e.vm)
		if !tagged || mark.Namespace != s.inventory.Namespace || !s.clusters.active[mark.Cluster] {
			continue
		}

		claim := mark.ToClaim()
		if owner, owned := ownermark.ParseOwner(e.vm.CommentText()); owned && owner.Namespace == mark.Namespace {
			claim.MachineName = owner.Name // a reserved VM gets its tag before it gets a machine
		}

		if claim.MachineName != "" && s.machines[claim.MachineName] == nil {
			continue // leave the decision to the user
		}

		if err := r.patchClaim(ctx, e, claim); err != nil {
			return err
		}

		ctrl.LoggerFrom(ctx).Info("Restored a claim recorded in the engine", "OLVMInventoryVM", e.object.Name,
			"OLVMMachine", claim.MachineName)
	}

	return nil
}

// unassignUnused takes back the VMs of machines deleted before using them. A pass with an outdated list may have
// assigned such a VM. It takes back only a VM that is down and has no mark of a machine. A VM already used by a machine
// stays claimed until a user decides.
func (r *Reconciler) unassignUnused(ctx context.Context, s *scope) error {
	for _, e := range s.entries {
		claim := e.object.Spec.ClaimRef
		if claim == nil || claim.Released || claim.MachineName == "" || s.machines[claim.MachineName] != nil ||
			e.vm == nil || e.vm.Status != engine.VMDown {
			continue
		}

		if _, marked := ownermark.ParseOwner(e.vm.CommentText()); marked {
			continue
		}

		key := client.ObjectKey{Namespace: e.object.Namespace, Name: claim.MachineName}
		if err := r.APIReader.Get(ctx, key, &infrav1.OLVMMachine{}); !apierrors.IsNotFound(err) {
			if err != nil {
				return fmt.Errorf("failed to get OLVMMachine %s: %w", key, err)
			}

			continue // the cache is stale
		}

		reserved := claim.DeepCopy()
		reserved.MachineName = ""
		if err := r.patchClaim(ctx, e, reserved); err != nil {
			return err
		}
	}

	return nil
}

// releaseRequested ends claims on a user's request. A request names the claim ID, so an old request cannot end a later
// claim. If the machine exists, deleting the machine is the only way to release its VM.
func (r *Reconciler) releaseRequested(ctx context.Context, s *scope) error {
	for _, e := range s.entries {
		claim := e.object.Spec.ClaimRef
		if claim == nil || claim.Released || !isReleaseRequested(e.object) || !s.isClaimantGone(*claim) {
			continue
		}

		gone, err := r.checkClaimantGone(ctx, e.object.Namespace, *claim)
		if err != nil {
			return err
		}

		if !gone {
			continue // the cache is stale
		}

		released := claim.DeepCopy()
		released.Released = true
		if err := r.patchClaim(ctx, e, released); err != nil {
			return err
		}

		ctrl.LoggerFrom(ctx).Info("Released a VM as requested by its annotation", "OLVMInventoryVM", e.object.Name,
			"OLVMMachine", claim.MachineName)
	}

	return nil
}

// isReleaseRequested reports whether a user has requested the end of the VM's current claim.
func isReleaseRequested(vm *infrav1alpha1.OLVMInventoryVM) bool {
	id, asked := vm.Annotations[infrav1alpha1.ReleaseClaimAnnotation]

	return asked && vm.Spec.ClaimRef != nil && id == vm.Spec.ClaimRef.ID
}

// isClaimantGone reports whether the claim's machine no longer exists. For a reservation, it checks the Cluster.
func (s *scope) isClaimantGone(claim infrav1alpha1.InventoryClaim) bool {
	if claim.MachineName != "" {
		return s.machines[claim.MachineName] == nil
	}

	return !s.clusters.all[claim.ClusterName]
}

// checkClaimantGone is like isClaimantGone, but bypasses the cache.
func (r *Reconciler) checkClaimantGone(
	ctx context.Context, namespace string, claim infrav1alpha1.InventoryClaim,
) (bool, error) {
	var claimant client.Object = &clusterv1.Cluster{}

	key := client.ObjectKey{Namespace: namespace, Name: claim.ClusterName}
	if claim.MachineName != "" {
		claimant, key.Name = &infrav1.OLVMMachine{}, claim.MachineName
	}

	err := r.APIReader.Get(ctx, key, claimant)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("failed to get %T %s: %w", claimant, key, err)
	}

	return err != nil, nil
}

// patchClaim records the claim on a VM; nil removes it. It fails with a conflict if someone else changed the object
// since it was read.
func (r *Reconciler) patchClaim(ctx context.Context, e *entry, claim *infrav1alpha1.InventoryClaim) error {
	before := e.object.DeepCopy()
	after := e.object.DeepCopy()
	after.Spec.ClaimRef = claim

	if claim == nil {
		controllerutil.RemoveFinalizer(after, infrav1alpha1.InventoryFinalizer)
		delete(after.Annotations, infrav1alpha1.ReleaseClaimAnnotation)
	} else {
		controllerutil.AddFinalizer(after, infrav1alpha1.InventoryFinalizer)
	}

	lock := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, after, lock); err != nil {
		return fmt.Errorf("failed to record the claim on OLVMInventoryVM %s: %w", e.object.Name, err)
	}

	after.Status = before.Status
	e.object = after

	return nil
}

// applyPlan records the planned claims. A group gets all its VMs, or none: if one claim fails, applyPlan removes the
// new claims of the group.
func (r *Reconciler) applyPlan(ctx context.Context, s *scope) error {
	fresh := map[string][]*entry{}

	for _, change := range s.plan.Changes {
		e := s.findEntry(change.VM)
		was, claim := e.object.Spec.ClaimRef, change.Claim

		switch {
		case claim == nil: // an unneeded reservation: the mark in the engine must go before the claim
			claim = was.DeepCopy()
			claim.Released = true
		case claim.ID == "":
			claim.ID = string(uuid.NewUUID())
		}

		group := claim.ClusterName + " " + claim.Group
		if err := r.patchClaim(ctx, e, claim); err != nil {
			return r.revertClaims(ctx, fresh[group], err)
		}

		if was == nil {
			fresh[group] = append(fresh[group], e)
		}
	}

	return nil
}

// revertClaims removes claims not yet marked in the engine.
func (r *Reconciler) revertClaims(ctx context.Context, fresh []*entry, cause error) error {
	for _, e := range fresh {
		if err := r.patchClaim(ctx, e, nil); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to revert a claim; the next pass assigns the VM to the same group")
		}
	}

	if apierrors.IsConflict(cause) {
		ctrl.LoggerFrom(ctx).Info("An OLVMInventoryVM was changed by another client; retrying", "cause", cause.Error())
	}

	return cause
}

// findEntry returns the entry with this name, or nil.
func (s *scope) findEntry(name string) *entry {
	at := slices.IndexFunc(s.entries, func(e *entry) bool { return e.object.Name == name })
	if at < 0 {
		return nil
	}

	return s.entries[at]
}

// reconcileMarks marks claims in the engine, and prepares released VMs for their next claim.
func (r *Reconciler) reconcileMarks(ctx context.Context, s *scope) {
	if s.engine.session == nil {
		return
	}

	r.removeLateDonors(ctx, s)

	marker := inventory.NewMarker(ctx, s.engine.session, s.inventory.Namespace)

	var group errgroup.Group
	group.SetLimit(atOnce)

	recycling := 0

	for _, e := range s.entries {
		claim := e.object.Spec.ClaimRef
		if claim == nil || e.vm == nil {
			continue
		}

		step := r.markClaim
		if claim.Released {
			step = r.recycleVM
			if recycling++; recycling > atOnce { // recycling must not delay claims
				e.requeueSoon = true
				continue
			}
		}

		group.Go(func() error {
			if err := step(ctx, s, e, marker); err != nil {
				// If the engine refuses to change one VM, the others must not wait.
				e.waiting, e.requeueSoon, e.failed = err.Error(), false, true
				ctrl.LoggerFrom(ctx).Error(err, "Failed to update a VM of the pool", "OLVMInventoryVM", e.object.Name)
			}

			return nil
		})
	}

	_ = group.Wait()

	for _, e := range s.entries {
		s.requeueSoon, s.failed = s.requeueSoon || e.requeueSoon, s.failed || e.failed
	}
}

// removeLateDonors deletes unused donors of an earlier manager. See inventory.RemoveLateDonors. An error does not delay
// claims, because a later pass tries again.
func (r *Reconciler) removeLateDonors(ctx context.Context, s *scope) {
	err := inventory.RemoveLateDonors(ctx, s.engine.session, s.engine.contents)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to remove leftovers of an earlier manager's rebuild")
	}

	s.failed = s.failed || err != nil
}

// markClaim writes a claim to the engine. If another claimant was faster, markClaim ends the claim, unless the machine
// already uses the VM.
func (r *Reconciler) markClaim(ctx context.Context, s *scope, e *entry, marker *inventory.Marker) error {
	claim := *e.object.Spec.ClaimRef

	var owner *ownermark.Owner
	if m := s.machines[claim.MachineName]; m != nil {
		owner = ptr.To(ownermark.NewOwner(m))
	}

	settled := e.object.Status.ClaimID == inventory.ConfirmedID(claim)
	outcome, by, err := marker.EnsureClaim(ctx, *e.vm, claim, owner, settled)
	if err != nil {
		return err
	}

	switch outcome {
	case inventory.ClaimConfirmed:
		e.confirmed = true
	case inventory.ClaimPending:
		e.requeueSoon = true
	case inventory.ClaimLost:
		if m := s.machines[claim.MachineName]; m != nil && m.Spec.ProviderID != "" {
			e.lost = &by // a user must decide: two management clusters claim the VM
			return nil
		}

		e.requeueSoon = true

		r.Recorder.Eventf(e.object, nil, corev1.EventTypeNormal, inventory.ReasonClaimedThem, "Claim",
			"The VM was claimed by %s at the same time", by)

		return r.patchClaim(ctx, e, nil)
	}

	return nil
}

// recycleVM prepares a released VM for its next claim, one step at a time.
func (r *Reconciler) recycleVM(ctx context.Context, s *scope, e *entry, marker *inventory.Marker) error {
	claim := *e.object.Spec.ClaimRef
	if s.machines[claim.MachineName] != nil {
		e.waiting = "Waiting for OLVMMachine " + claim.MachineName + " to be deleted"
		return nil
	}

	owns, err := inventory.IsAssignedToClaim(*e.vm, s.inventory.Namespace, claim)

	switch {
	case err != nil:
		return err
	case claim.MachineName == "", !owns:
		return r.endClaim(ctx, e, marker) // the VM was never used, or belongs to someone else
	}

	e.requeueSoon = true
	of := ownermark.Owner{Namespace: s.inventory.Namespace, Name: claim.MachineName}
	mark, _ := inventory.GetMark(*e.vm)
	if clean, waiting, err := inventory.CleanVM(ctx, s.engine.session, e.vm.ID, of, mark); err != nil || !clean {
		e.waiting = "Waiting until the VM is no longer " + waiting
		return err
	}

	if inventory.ChooseRecycling(
		s.inventory, *e.vm, e.object.Spec.FromProvision != nil,
	) == infrav1alpha1.RecycleRetain {
		if err := inventory.MarkRetained(ctx, s.engine.session, e.vm.ID); err != nil {
			return err
		}

		return r.endClaim(ctx, e, marker)
	}

	if e.object.Spec.FromProvision != nil {
		return r.recreateVM(ctx, s, e, marker)
	}

	done, waiting, err := inventory.Rebuilder{
		Session:    s.engine.session,
		VM:         *e.vm,
		ClaimID:    claim.ID,
		DataCenter: s.engine.contents.DataCenter,
	}.Rebuild(ctx)
	if err != nil || !done {
		e.waiting = "Waiting for " + waiting
		return err
	}

	return r.endClaim(ctx, e, marker)
}

// recreateVM replaces a VM created by the inventory. The VM still has a node's disk, so nobody may claim it. Before the
// claim ends, recreateVM therefore deletes its object, and tags the VM for other management clusters.
func (r *Reconciler) recreateVM(ctx context.Context, s *scope, e *entry, marker *inventory.Marker) error {
	if e.object.DeletionTimestamp.IsZero() {
		if err := r.Client.Delete(ctx, e.object, client.Preconditions{UID: &e.object.UID}); err != nil {
			return fmt.Errorf("failed to delete OLVMInventoryVM %s: %w", e.object.Name, err)
		}

		return nil // the next pass sees the deletion timestamp
	}

	if err := inventory.MarkDeleting(ctx, s.engine.session, e.vm.ID); err != nil {
		return err
	}

	return r.endClaim(ctx, e, marker)
}

// endClaim ends a claim, in the engine first.
func (r *Reconciler) endClaim(ctx context.Context, e *entry, marker *inventory.Marker) error {
	comment, err := marker.RemoveMark(ctx, *e.vm, *e.object.Spec.ClaimRef)
	if err != nil {
		return err
	}

	e.vm.Tags = slices.DeleteFunc(e.vm.Tags, func(t engine.Tag) bool { return t.Name == inventory.TagName(e.vm.ID) })
	e.vm.Comment = &comment

	return r.patchClaim(ctx, e, nil)
}
