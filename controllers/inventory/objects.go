package inventory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// reconcileList lists the OLVMInventoryVMs.
func (r *Reconciler) reconcileList(ctx context.Context, s *scope) (listFacts, error) {
	facts := listFacts{taken: map[string]bool{}}

	var all infrav1alpha1.OLVMInventoryVMList
	if err := r.Client.List(ctx, &all, client.InNamespace(s.inventory.Namespace)); err != nil {
		return facts, fmt.Errorf("failed to list OLVMInventoryVMs: %w", err)
	}

	for i := range all.Items {
		facts.taken[all.Items[i].Name] = true
		if all.Items[i].Spec.InventoryName == s.inventory.Name {
			facts.objects = append(facts.objects, all.Items[i])
		}
	}

	return facts, nil
}

// reconcileObjects creates an OLVMInventoryVM for each VM of the inventory and updates its labels. It deletes unclaimed
// objects without a VM.
func (r *Reconciler) reconcileObjects(ctx context.Context, s *scope) error {
	known := map[engine.ID]bool{}

	for i := range s.listed.objects {
		known[engine.ID(s.listed.objects[i].Spec.VMID)] = true
		if err := r.reconcileObject(ctx, s, s.listed.objects[i].DeepCopy()); err != nil {
			return err
		}
	}

	if s.inventory.DeletionTimestamp.IsZero() && s.engine.contents != nil {
		for _, id := range slices.Sorted(maps.Keys(s.engine.contents.VMs)) {
			if vm := s.engine.contents.VMs[id]; known[id] || s.isBeingCreated(vm) || s.isBeingMoved(vm) {
				continue
			}

			if err := r.createObject(ctx, s, s.engine.contents.VMs[id]); err != nil {
				return err
			}
		}
	}

	slices.SortFunc(s.entries, func(a, b *entry) int { return cmp.Compare(a.object.Name, b.object.Name) })

	return nil
}

// isBeingCreated reports whether the VM was created for an OLVMInventoryVM still without a VM ID.
func (s *scope) isBeingCreated(vm engine.DescribedVM) bool {
	owner, ok := ownermark.ParseInventoryOwner(vm.CommentText())

	return ok && slices.ContainsFunc(s.listed.objects, func(object infrav1alpha1.OLVMInventoryVM) bool {
		return object.Spec.VMID == "" && string(object.UID) == owner.UID
	})
}

// isBeingMoved reports whether clusterctl may just have moved the VM's object to another management cluster.
func (s *scope) isBeingMoved(vm engine.DescribedVM) bool {
	mark, _ := inventory.GetMark(vm)
	owner, _ := ownermark.ParseInventoryOwner(vm.CommentText())

	return s.canBeMoving() && (mark.Namespace == s.inventory.Namespace || owner.Namespace == s.inventory.Namespace)
}

// reconcileObject adds an existing OLVMInventoryVM to the scope, and updates its labels.
func (r *Reconciler) reconcileObject(ctx context.Context, s *scope, object *infrav1alpha1.OLVMInventoryVM) error {
	e := &entry{object: object}
	if s.engine.contents != nil {
		if vm, ok := s.engine.contents.VMs[engine.ID(object.Spec.VMID)]; ok {
			e.vm = &vm
		}
	}

	forgotten, err := s.checkForgotten(ctx, e)
	if err != nil {
		return err
	}

	if forgotten || object.Spec.ClaimRef == nil && !object.DeletionTimestamp.IsZero() {
		// Keep an object with a finalizer in the scope, because its status explains the delay.
		if controllerutil.ContainsFinalizer(object, infrav1alpha1.InventoryVMFinalizer) {
			e.vm = nil
			s.entries = append(s.entries, e)
		}

		return r.removeObject(ctx, object)
	}

	s.entries = append(s.entries, e)
	if e.vm == nil {
		return nil
	}

	wanted := inventory.BuildLabels(s.inventory, *e.vm, s.engine.contents.Hosts)
	if maps.Equal(object.Labels, wanted) {
		return nil
	}

	before := object.DeepCopy()
	object.Labels = wanted

	return r.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// checkForgotten reports whether an OLVMInventoryVM is unclaimed or released, and its VM no longer belongs to the
// inventory. For released and provisioned VMs, the engine must confirm that the VM does not exist.
func (s *scope) checkForgotten(ctx context.Context, e *entry) (bool, error) {
	claim := e.object.Spec.ClaimRef
	provisioned := e.object.Spec.FromProvision != nil
	if e.vm != nil || s.engine.session == nil || claim != nil && !claim.Released || !inventory.IsComplete(e.object) {
		return false, nil
	}

	if claim == nil && !provisioned {
		return true, nil
	}

	_, err := s.engine.session.FetchVM(ctx, engine.ID(e.object.Spec.VMID))
	if err != nil && !engine.IsNotFound(err) {
		return false, fmt.Errorf("failed to fetch the VM of OLVMInventoryVM %s: %w", e.object.Name, err)
	}

	return engine.IsNotFound(err), nil
}

// removeObject deletes an OLVMInventoryVM, and removes its inventory finalizer.
func (r *Reconciler) removeObject(ctx context.Context, object *infrav1alpha1.OLVMInventoryVM) error {
	if !object.DeletionTimestamp.IsZero() &&
		!controllerutil.ContainsFinalizer(object, infrav1alpha1.InventoryFinalizer) {
		return nil // the deletion of its VM is under way
	}

	if controllerutil.ContainsFinalizer(object, infrav1alpha1.InventoryFinalizer) {
		before := object.DeepCopy()
		controllerutil.RemoveFinalizer(object, infrav1alpha1.InventoryFinalizer)
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Patch(ctx, object, patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to remove the finalizer of OLVMInventoryVM %s: %w", object.Name, err)
		}
	}

	lock := client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}
	if err := r.Client.Delete(ctx, object, lock); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to delete OLVMInventoryVM %s: %w", object.Name, err)
	}

	return nil
}

// createObject creates the OLVMInventoryVM of a VM.
func (r *Reconciler) createObject(ctx context.Context, s *scope, vm engine.DescribedVM) error {
	object := s.newObject(inventory.ChooseObjectName(vm, s.listed.taken))
	object.Labels = inventory.BuildLabels(s.inventory, vm, s.engine.contents.Hosts)
	object.Spec.VMID = vm.ID.String()

	if err := r.Client.Create(ctx, object); apierrors.IsAlreadyExists(err) {
		s.requeueSoon = true // the cache is stale
		return nil
	} else if err != nil {
		return fmt.Errorf("failed to create OLVMInventoryVM %s: %w", object.Name, err)
	}

	s.listed.taken[object.Name] = true
	s.entries = append(s.entries, &entry{object: object, vm: &vm})

	return nil
}

// newObject returns an OLVMInventoryVM of the inventory.
func (s *scope) newObject(name string) *infrav1alpha1.OLVMInventoryVM {
	return &infrav1alpha1.OLVMInventoryVM{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.inventory.Namespace,
			Name:      name,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(s.inventory, infrav1alpha1.GroupVersion.WithKind("OLVMInventory")),
			},
		},
		Spec: infrav1alpha1.OLVMInventoryVMSpec{InventoryName: s.inventory.Name},
	}
}
