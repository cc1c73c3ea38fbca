package machine

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvminventories,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvminventoryvms,verbs=get;list;watch;patch

// claimantIndex is the name of the index of OLVMInventoryVMs by the OLVMMachine with the claim.
const claimantIndex = "spec.claimRef.machineName"

// indexClaimants registers claimantIndex with the cache.
func indexClaimants(ctx context.Context, mgr manager.Manager) error {
	return mgr.GetFieldIndexer().IndexField(ctx, &infrav1alpha1.OLVMInventoryVM{}, claimantIndex, claimantKeys)
}

// claimantKeys returns the index keys of a VM.
func claimantKeys(object client.Object) []string {
	if name := getClaimant(object); name != "" {
		return []string{name}
	}

	return nil
}

// getClaimant returns the name of the machine with a claim on the VM, or "" for an unclaimed VM.
func getClaimant(object client.Object) string {
	vm, ok := object.(*infrav1alpha1.OLVMInventoryVM)
	if !ok || vm.Spec.ClaimRef == nil {
		return ""
	}

	return vm.Spec.ClaimRef.MachineName
}

// inventoryVMToMachine maps a VM to the machine with a claim on it.
func inventoryVMToMachine(_ context.Context, object client.Object) []ctrl.Request {
	name := getClaimant(object)
	if name == "" {
		return nil
	}

	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: name}}}
}

// claimFacts hold the machine's VM from an inventory.
type claimFacts struct {
	// object is nil if the machine has no claim.
	object *infrav1alpha1.OLVMInventoryVM
	// err explains why the VM cannot be used yet. It is nil for a usable VM, and for machines without an inventory.
	err *blocker.Error
}

// vmName returns the name of the OLVMInventoryVM, or "" if the machine has no claim.
func (c claimFacts) vmName() string {
	if c.object == nil {
		return ""
	}

	return c.object.Name
}

// isFromInventory reports whether the machine takes its VM from an inventory.
func (s *machineScope) isFromInventory() bool { return s.olvmMachine.Spec.FromInventory != nil }

// reconcileClaim finds the VM claimed for the machine. The OLVMInventory controller assigns VMs to machines.
func (r *Reconciler) reconcileClaim(ctx context.Context, scope *machineScope) (time.Duration, error) {
	if !scope.isFromInventory() {
		return 0, nil
	}

	m := scope.olvmMachine
	var found infrav1alpha1.OLVMInventoryVMList
	err := r.Client.List(ctx, &found, client.InNamespace(m.Namespace), client.MatchingFields{claimantIndex: m.Name})
	if err != nil {
		return 0, fmt.Errorf("failed to list the OLVMInventoryVMs claimed by OLVMMachine %s: %w", m.Name, err)
	}

	for i := range found.Items {
		if claim := found.Items[i].Spec.ClaimRef; !claim.Released {
			scope.claim.object = &found.Items[i]
		}
	}

	switch {
	case scope.claim.object == nil:
		scope.claim.err, err = r.explainUnclaimed(ctx, scope)
		return steadyInterval, err
	case scope.claim.object.Status.ClaimID != inventory.ConfirmedID(*scope.claim.object.Spec.ClaimRef) &&
		m.Spec.ProviderID == "":
		scope.claim.err = &blocker.Error{
			Reason: infrav1.WaitingForClaimReason,
			Message: fmt.Sprintf("Waiting for the engine to confirm the claim on VM %s %s", scope.claim.object.Name,
				scope.claim.object.Status.Message),
		}

		return 0, nil
	}

	return 0, nil
}

// explainUnclaimed explains why a machine has no VM. It returns nil for a machine with a provider ID.
func (r *Reconciler) explainUnclaimed(ctx context.Context, scope *machineScope) (*blocker.Error, error) {
	const field = "spec.fromInventory.inventoryName"
	m := scope.olvmMachine
	if m.Spec.ProviderID != "" { // the machine no longer needs a claim
		return nil, nil
	}

	pool := &infrav1alpha1.OLVMInventory{}
	key := client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.FromInventory.InventoryName}
	if err := r.Client.Get(ctx, key, pool); apierrors.IsNotFound(err) {
		return &blocker.Error{Reason: infrav1.InventoryNotFoundReason, Field: field, Message: fmt.Sprintf(
			"there is no OLVMInventory %q in namespace %s; create it, or correct the name in the template", key.Name,
			key.Namespace)}, nil
	} else if err != nil {
		return nil, fmt.Errorf("failed to get OLVMInventory %s: %w", key, err)
	}

	if _, err := metav1.LabelSelectorAsSelector(m.Spec.FromInventory.Selector.ToKubernetes()); err != nil {
		return &blocker.Error{Reason: infrav1.InventoryInvalidReason, Field: "spec.fromInventory.selector",
			Message: err.Error()}, nil
	}

	if scope.olvmCluster != nil &&
		!connection.GetEngineID(scope.olvmCluster).IsSame(connection.InventoryEngine(pool).ID()) {
		return &blocker.Error{Reason: infrav1.InventoryInvalidReason, Field: field, Message: fmt.Sprintf(
			"OLVMInventory %s uses the engine %s, but the cluster uses %s; select an inventory of the same engine",
			pool.Name, engine.RedactURL(pool.Spec.OLVMOvirtAPIServer.ServerURL),
			engine.RedactURL(scope.olvmCluster.Spec.OLVMOvirtAPIServer.ServerURL))}, nil
	}

	if scope.machine != nil {
		for _, group := range pool.Status.Unschedulable {
			if group.ClusterName == scope.machine.Spec.ClusterName && isInGroup(scope, group.Group) {
				return &blocker.Error{
					Reason:  infrav1.UnschedulableReason,
					Message: inventory.FormatShortage(group),
				}, nil
			}
		}
	}

	return &blocker.Error{Reason: infrav1.WaitingForClaimReason,
		Message: "Waiting for OLVMInventory " + pool.Name + " to assign a VM"}, nil
}

// isInGroup reports whether the machine belongs to a group of machines.
func isInGroup(scope *machineScope, group string) bool {
	name := inventory.GetGroupName(scope.machine)

	return group == name || strings.HasPrefix(group, name+"/") && strings.HasSuffix(group, "/"+scope.olvmMachine.Name)
}

// getClaimedVM returns the claimed VM as the engine reports it. It returns nil if there is none.
func (s *machineScope) getClaimedVM() *engine.VM {
	if !s.isFromInventory() {
		return nil
	}

	return s.vm.current
}

// releaseClaim releases the VM of a deleted machine. The OLVMInventory controller then prepares the VM for its next
// machine.
func (r *Reconciler) releaseClaim(ctx context.Context, scope *machineScope) error {
	if !scope.isFromInventory() {
		return nil
	}

	// Bypass the cache: a claim missing from the cache would never be released.
	var list infrav1alpha1.OLVMInventoryVMList
	if err := r.APIReader.List(ctx, &list, client.InNamespace(scope.olvmMachine.Namespace)); err != nil {
		return fmt.Errorf("failed to list OLVMInventoryVMs: %w", err)
	}

	for i := range list.Items {
		object := &list.Items[i]
		claim := object.Spec.ClaimRef
		if claim == nil || claim.Released || claim.MachineName != scope.olvmMachine.Name {
			continue
		}

		before := object.DeepCopy()
		claim.Released = true
		lock := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Patch(ctx, object, lock); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to release OLVMInventoryVM %s: %w", object.Name, err)
		}
	}

	return nil
}

// cleanClaimedVM stops a claimed VM without a state, and removes the machine's user data from it. It never deletes the
// VM.
func cleanClaimedVM(ctx context.Context, session *engine.Client, id engine.ID, of ownermark.Owner) error {
	if id == "" {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, desired.OrphanLimit)
	defer cancel()

	mark, err := inventory.FetchMark(ctx, session, id)
	if err != nil {
		return err
	}

	return engine.Wait(ctx, "VM "+id.String()+" to be released", func(ctx context.Context) (bool, string, error) {
		return inventory.CleanVM(ctx, session, id, of, mark)
	}, nil)
}
