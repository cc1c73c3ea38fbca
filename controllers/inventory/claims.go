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

// reconcileGroups finds the machines that want VMs of the pool, and claims again that the engine has.
func (r *Reconciler) reconcileGroups(ctx context.Context, s *scope) error {
	var err error
	if s.groups, err = r.groupsOf(ctx, s); err != nil {
		return err
	}

	if !s.inventory.DeletionTimestamp.IsZero() {
		s.groups = nil // what is reserved is given back, and nothing is claimed
		return nil
	}

	if s.session == nil {
		return nil
	}

	return r.recover(ctx, s)
}

// reconcileClaims decides who gets which VM, and records it on the OLVMInventoryVMs before the engine knows it.
func (r *Reconciler) reconcileClaims(ctx context.Context, s *scope) error {
	if s.session == nil {
		return nil // what can be claimed is not known
	}

	if err := r.unassign(ctx, s); err != nil {
		return err
	}

	if err := r.releaseAsked(ctx, s); err != nil {
		return err
	}

	var vms []inventory.VM
	for _, e := range s.entries {
		vms = append(vms, s.candidate(e))
	}

	s.plan = inventory.Schedule(vms, s.groups, s.active)

	return r.apply(ctx, s)
}

// candidate is a VM as the selection sees it.
func (s *scope) candidate(e *entry) inventory.VM {
	if e.vm == nil {
		return inventory.VM{Name: e.object.Name, Claim: e.object.Spec.ClaimRef, Unfit: inventory.ReasonAbsent}
	}

	out := s.pool.Candidate(e.object.Name, e.object.Labels, *e.vm, e.object.Spec.ClaimRef)
	if e.object.Spec.ClaimRef == nil && !inventory.Made(e.object) {
		out.Unfit = inventory.ReasonProvisioning
	}

	return out
}

// recover takes over claims that the engine has and the management cluster does not know any more: after it was lost
// and made anew from a backup. Only what is here can have a claim.
func (r *Reconciler) recover(ctx context.Context, s *scope) error {
	for _, e := range s.entries {
		if e.vm == nil || e.object.Spec.ClaimRef != nil {
			continue
		}

		mark, tagged := inventory.MarkOn(*e.vm)
		if !tagged || mark.Namespace != s.inventory.Namespace || !s.active[mark.Cluster] {
			continue
		}

		claim := mark.Claim()
		if owner, owned := ownermark.OwnerOf(e.vm.CommentText()); owned && owner.Namespace == mark.Namespace {
			claim.MachineName = owner.Name // a VM that was reserved is tagged before a machine has it
		}

		if claim.MachineName != "" && s.machines[claim.MachineName] == nil {
			continue // a person decides
		}

		if err := r.claim(ctx, e, claim); err != nil {
			return err
		}

		ctrl.LoggerFrom(ctx).Info("Found a claim again that the engine has", "OLVMInventoryVM", e.object.Name,
			"OLVMMachine", claim.MachineName)
	}

	return nil
}

// unassign takes VMs from machines that went away before they had them: a pass may have given them a VM out of an older
// list. Such a VM is down, and has no machine's mark. One that a machine has used stays with it until a person decides.
func (r *Reconciler) unassign(ctx context.Context, s *scope) error {
	for _, e := range s.entries {
		claim := e.object.Spec.ClaimRef
		if claim == nil || claim.Released || claim.MachineName == "" || s.machines[claim.MachineName] != nil ||
			e.vm == nil || e.vm.Status != engine.VMDown {
			continue
		}

		if _, marked := ownermark.OwnerOf(e.vm.CommentText()); marked {
			continue
		}

		key := client.ObjectKey{Namespace: e.object.Namespace, Name: claim.MachineName}
		if err := r.APIReader.Get(ctx, key, &infrav1.OLVMMachine{}); !apierrors.IsNotFound(err) {
			if err != nil {
				return fmt.Errorf("failed to get OLVMMachine %s: %w", key, err)
			}

			continue // the cache does not have it yet
		}

		reserved := claim.DeepCopy()
		reserved.MachineName = ""
		if err := r.claim(ctx, e, reserved); err != nil {
			return err
		}
	}

	return nil
}

// releaseAsked ends the claims that a person asks to end, by their IDs, so that an old request does not end a later
// claim. A VM whose machine exists is released with that machine alone.
func (r *Reconciler) releaseAsked(ctx context.Context, s *scope) error {
	for _, e := range s.entries {
		claim := e.object.Spec.ClaimRef
		if claim == nil || claim.Released || !isReleaseAsked(e.object) || !s.isClaimantGone(*claim) {
			continue
		}

		gone, err := r.isGone(ctx, e.object.Namespace, *claim)
		if err != nil {
			return err
		}

		if !gone {
			continue // the cache does not have it yet
		}

		released := claim.DeepCopy()
		released.Released = true
		if err := r.claim(ctx, e, released); err != nil {
			return err
		}

		ctrl.LoggerFrom(ctx).Info("Released a VM, as its annotation asks", "OLVMInventoryVM", e.object.Name,
			"OLVMMachine", claim.MachineName)
	}

	return nil
}

// isReleaseAsked reports whether a person asks for the end of the claim that a VM has now.
func isReleaseAsked(vm *infrav1alpha1.OLVMInventoryVM) bool {
	id, asked := vm.Annotations[infrav1alpha1.ReleaseClaimAnnotation]

	return asked && vm.Spec.ClaimRef != nil && id == vm.Spec.ClaimRef.ID
}

// isClaimantGone reports whether the machine that has a VM does not exist any more, or the Cluster that reserves it.
func (s *scope) isClaimantGone(claim infrav1alpha1.InventoryClaim) bool {
	if claim.MachineName != "" {
		return s.machines[claim.MachineName] == nil
	}

	return !s.clusters[claim.ClusterName]
}

// isGone is isClaimantGone past the cache.
func (r *Reconciler) isGone(
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

// claim records who has a VM; nil for nobody. It fails where somebody else has changed the object since it was read.
func (r *Reconciler) claim(ctx context.Context, e *entry, claim *infrav1alpha1.InventoryClaim) error {
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

// apply records the claims that were decided. Where one cannot be, those of the same group that were new are taken
// back: a group gets all its VMs, or none.
func (r *Reconciler) apply(ctx context.Context, s *scope) error {
	fresh := map[string][]*entry{}

	for _, change := range s.plan.Changes {
		e := s.entryOf(change.VM)
		was, claim := e.object.Spec.ClaimRef, change.Claim

		switch {
		case claim == nil: // reserved, and not needed: the engine is told before the claim ends
			claim = was.DeepCopy()
			claim.Released = true
		case claim.ID == "":
			claim.ID = string(uuid.NewUUID())
		}

		group := claim.ClusterName + " " + claim.Group
		if err := r.claim(ctx, e, claim); err != nil {
			return r.takeBack(ctx, fresh[group], err)
		}

		if was == nil {
			fresh[group] = append(fresh[group], e)
		}
	}

	return nil
}

// takeBack ends claims that the engine does not know yet.
func (r *Reconciler) takeBack(ctx context.Context, fresh []*entry, cause error) error {
	for _, e := range fresh {
		if err := r.claim(ctx, e, nil); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to take a claim back; the next pass gives it to the same group")
		}
	}

	if apierrors.IsConflict(cause) {
		ctrl.LoggerFrom(ctx).Info("Somebody else has changed an OLVMInventoryVM; looking again", "cause", cause.Error())
	}

	return cause
}

// entryOf is the entry of that name; nil where there is none.
func (s *scope) entryOf(name string) *entry {
	at := slices.IndexFunc(s.entries, func(e *entry) bool { return e.object.Name == name })
	if at < 0 {
		return nil
	}

	return s.entries[at]
}

// reconcileMarks has the engine know the claims, and makes VMs that were released ready for the next one.
func (r *Reconciler) reconcileMarks(ctx context.Context, s *scope) {
	if s.session == nil {
		return
	}

	r.removeLateDonors(ctx, s)

	marker := inventory.NewMarker(ctx, s.session, s.inventory.Namespace)

	var group errgroup.Group
	group.SetLimit(atOnce)

	recycling := 0

	for _, e := range s.entries {
		claim := e.object.Spec.ClaimRef
		if claim == nil || e.vm == nil {
			continue
		}

		step := r.mark
		if claim.Released {
			step = r.recycle
			if recycling++; recycling > atOnce { // claims of others must not wait for them
				e.soon = true
				continue
			}
		}

		group.Go(func() error {
			if err := step(ctx, s, e, marker); err != nil {
				// One VM that the engine refuses to change must not keep the others waiting.
				e.waiting, e.soon, e.failed = err.Error(), false, true
				ctrl.LoggerFrom(ctx).Error(err, "Failed to change a VM of the pool", "OLVMInventoryVM", e.object.Name)
			}

			return nil
		})
	}

	_ = group.Wait()

	for _, e := range s.entries {
		s.soon, s.failed = s.soon || e.soon, s.failed || e.failed
	}
}

// removeLateDonors deletes what a manager that was halted has made too late. It keeps no claim waiting. A donor that
// cannot go yet is looked at by a later pass.
func (r *Reconciler) removeLateDonors(ctx context.Context, s *scope) {
	err := inventory.RemoveLateDonors(ctx, s.session, s.pool)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to remove what a rebuild of an earlier manager has left")
	}

	s.failed = s.failed || err != nil
}

// mark tells the engine of a claim. One that another was faster with ends, unless the machine has the VM already.
func (r *Reconciler) mark(ctx context.Context, s *scope, e *entry, marker *inventory.Marker) error {
	claim := *e.object.Spec.ClaimRef

	var owner *ownermark.Owner
	if m := s.machines[claim.MachineName]; m != nil {
		owner = ptr.To(ownermark.Of(m))
	}

	settled := e.object.Status.ClaimID == inventory.ConfirmedID(claim)
	outcome, by, err := marker.Ensure(ctx, *e.vm, claim, owner, settled)
	if err != nil {
		return err
	}

	switch outcome {
	case inventory.ClaimConfirmed:
		e.confirmed = true
	case inventory.ClaimPending:
		e.soon = true
	case inventory.ClaimLost:
		if m := s.machines[claim.MachineName]; m != nil && m.Spec.ProviderID != "" {
			e.lost = &by // a person must look: two management clusters believe that the VM is theirs
			return nil
		}

		e.soon = true

		r.Recorder.Eventf(e.object, nil, corev1.EventTypeNormal, inventory.ReasonClaimedThem, "Claim",
			"The VM was claimed by %s at the same time", by)

		return r.claim(ctx, e, nil)
	}

	return nil
}

// recycle makes a VM whose machine is gone ready for the next claim, one step at a time.
func (r *Reconciler) recycle(ctx context.Context, s *scope, e *entry, marker *inventory.Marker) error {
	claim := *e.object.Spec.ClaimRef
	if s.machines[claim.MachineName] != nil {
		e.waiting = "Waiting for OLVMMachine " + claim.MachineName + " to be gone"
		return nil
	}

	owns, err := inventory.Owns(*e.vm, s.inventory.Namespace, claim)

	switch {
	case err != nil:
		return err
	case claim.MachineName == "", !owns:
		return r.end(ctx, e, marker) // it was never used, or is another's
	}

	e.soon = true
	of := ownermark.Owner{Namespace: s.inventory.Namespace, Name: claim.MachineName}
	mark, _ := inventory.MarkOn(*e.vm)
	if clean, waiting, err := inventory.Clean(ctx, s.session, e.vm.ID, of, mark); err != nil || !clean {
		e.waiting = "Waiting for the VM, which is " + waiting
		return err
	}

	if inventory.Recycling(s.inventory, *e.vm, e.object.Spec.FromProvision != nil) == infrav1alpha1.RecycleRetain {
		if err := inventory.Retain(ctx, s.session, e.vm.ID); err != nil {
			return err
		}

		return r.end(ctx, e, marker)
	}

	if e.object.Spec.FromProvision != nil {
		return r.makeAgain(ctx, s, e, marker)
	}

	done, waiting, err := inventory.Rebuilder{
		Session:    s.session,
		VM:         *e.vm,
		ClaimID:    claim.ID,
		DataCenter: s.pool.DataCenter,
	}.Rebuild(ctx)
	if err != nil || !done {
		e.waiting = "Waiting for " + waiting
		return err
	}

	return r.end(ctx, e, marker)
}

// makeAgain deletes a VM that was made for the pool, so that another one is made. Before the claim ends its object
// goes, and a tag tells other management clusters, so that nobody claims the VM, which has the disk of a node.
func (r *Reconciler) makeAgain(ctx context.Context, s *scope, e *entry, marker *inventory.Marker) error {
	if e.object.DeletionTimestamp.IsZero() {
		if err := r.Client.Delete(ctx, e.object, client.Preconditions{UID: &e.object.UID}); err != nil {
			return fmt.Errorf("failed to delete OLVMInventoryVM %s: %w", e.object.Name, err)
		}

		return nil // the next pass sees it deleted
	}

	if err := inventory.MarkDeleting(ctx, s.session, e.vm.ID); err != nil {
		return err
	}

	return r.end(ctx, e, marker)
}

// end ends a claim: in the engine first.
func (r *Reconciler) end(ctx context.Context, e *entry, marker *inventory.Marker) error {
	comment, err := marker.Unmark(ctx, *e.vm, *e.object.Spec.ClaimRef)
	if err != nil {
		return err
	}

	e.vm.Tags = slices.DeleteFunc(e.vm.Tags, func(t engine.Tag) bool { return t.Name == inventory.TagName(e.vm.ID) })
	e.vm.Comment = &comment

	return r.claim(ctx, e, nil)
}
