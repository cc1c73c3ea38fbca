package inventoryvm

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// vmSubject is a VM created for an inventory, with its network interfaces, disks and tags.
type vmSubject struct {
	client     client.Client
	vm         *infrav1alpha1.OLVMInventoryVM
	session    *engine.Client
	config     engine.Config
	dataCenter string
	owner      ownermark.Owner
	// ids are the VM IDs of the object and of its state.
	ids []engine.ID
	// spec and built describe the VM. Only Render needs built.
	spec  infrav1.OLVMMachineSpec
	built *desired.Built
}

// newSubject copies the inputs of a run from the scope.
func (r *Reconciler) newSubject(s *scope) *vmSubject {
	return &vmSubject{
		client:     r.Client,
		vm:         s.vm.DeepCopy(),
		session:    s.session,
		config:     s.config,
		dataCenter: s.inventory.Spec.OLVMDatacenterName,
		owner:      s.ownerMark(),
		ids:        s.vmIDs(),
		spec:       s.spec,
		built:      s.built,
	}
}

// Render renders the VM, and adopts leftovers of an interrupted run.
func (s *vmSubject) Render(ctx context.Context, state *tfstate.State) (workspace.Configuration, error) {
	out := workspace.Configuration{
		Owner:   s.owner.InventoryComment(),
		Secrets: []string{s.config.Password},
		Names:   []string{s.vm.Name},
		Fresh:   state == nil && s.vm.Spec.VMID == "",
		Guard:   guardVM(s.vm.Spec.VMID != "" || state.VMID() != ""),
		Applied: s.recordVM,
	}

	inState := engine.ID(state.VMID())
	found, err := desired.FindExisting(ctx, s.session, s.dataCenter, s.vm.Name, s.spec)
	if err == nil {
		found, err = found.FilterOwned(s.owner.InventoryComment(), inState)
	}

	if err != nil {
		return workspace.Configuration{}, err
	}

	out.Fresh = out.Fresh && found == nil
	out.Configuration, err = s.built.RenderConfiguration(ctx, s.session, found.WithState(state))

	return out, err
}

// guardVM refuses to delete or replace the VM, because another management cluster may have claimed it by now. It also
// refuses to create a second one.
func guardVM(had bool) func(terraform.Change) string {
	return func(change terraform.Change) string {
		switch {
		case change.Type != "ovirt_vm":
			return ""
		case change.Action == "delete" || change.Action == "replace":
			return change.Action
		case change.Action == "create" && had:
			return "create again"
		}

		return ""
	}
}

// recordVM records the ID of the VM as soon as it exists. If recording fails, the state or a lookup by name finds the
// VM later.
func (s *vmSubject) recordVM(ctx context.Context, address, id string) {
	if address != render.VMAddress.String() {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, retry)
	defer cancel()

	content := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"vmID":%q}}`, s.vm.UID, id)
	target := &infrav1alpha1.OLVMInventoryVM{ObjectMeta: metav1.ObjectMeta{Namespace: s.vm.Namespace, Name: s.vm.Name}}
	if err := s.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, content)); err != nil {
		ctrl.Log.WithName("olvminventoryvm").Error(err, "Failed to record the VM of an OLVMInventoryVM",
			"OLVMInventoryVM", client.ObjectKeyFromObject(s.vm), "vm", id)
	}
}

// Outdated reports whether current has another spec.fromProvision. The field is immutable, so current is then another
// object.
func (s *vmSubject) Outdated(current client.Object) bool {
	vm, ok := current.(*infrav1alpha1.OLVMInventoryVM)

	return !ok || !equality.Semantic.DeepEqual(vm.Spec.FromProvision, s.vm.Spec.FromProvision)
}

// RenderDestroy renders a configuration without resources, so the run destroys everything in the state. It checks again
// that nobody uses the VM, because the run may have waited.
func (s *vmSubject) RenderDestroy(ctx context.Context) (workspace.Configuration, error) {
	for _, id := range s.ids {
		vm, err := s.session.FetchVM(ctx, id)
		if err == nil {
			err = s.checkFree(ctx, vm)
		}

		if err != nil && !engine.IsNotFound(err) {
			return workspace.Configuration{}, err
		}
	}

	configuration, err := render.DestroyConfiguration(connection.RenderEngine(s.session, s.config), render.PooledVM)

	return workspace.Configuration{
		Configuration: configuration,
		Owner:         s.owner.InventoryComment(),
		Secrets:       []string{s.config.Password},
	}, err
}

// checkFree returns an error if somebody uses the VM.
func (s *vmSubject) checkFree(ctx context.Context, vm *engine.VM) error {
	tags, err := inventory.ListTags(ctx, s.session, vm.ID)
	if err != nil {
		return err
	}

	if blocked := explainNotDeleted(*vm, tags, s.owner); blocked != nil {
		return blocked
	}

	return nil
}

// Unblock removes the snapshots of the VM, so that its data disks can be detached. Deleting the VM would delete them
// anyway.
func (s *vmSubject) Unblock(ctx context.Context, err error) (bool, error) {
	return desired.RemoveBlockingSnapshots(ctx, s.session, engine.ID(s.vm.Spec.VMID), err)
}

// RemoveOrphans deletes data disks missing from all states. If the object is being deleted, it also deletes a VM
// missing from all states.
func (s *vmSubject) RemoveOrphans(
	ctx context.Context, operation terraform.Operation, before *tfstate.State, load workspace.LoadFunc,
) error {
	left := desired.Orphan{
		ID:         engine.ID(s.vm.Spec.VMID),
		DataCenter: s.dataCenter,
		Name:       s.vm.Name,
		Comment:    s.owner.InventoryComment(),
		Free:       s.checkFree,
		DataDisks:  s.spec.VirtualMachine.DataDisks,
	}
	if operation == terraform.Destroy && before.Empty() {
		if err := left.Remove(ctx, s.session); err != nil {
			return err
		}
	}

	return left.RemoveDisks(ctx, s.session, load)
}
