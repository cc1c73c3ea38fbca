package machine

import (
	"context"
	"errors"
	"fmt"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// owns reports whether the mark on a VM names the machine. Whoever may write an OLVMMachine, or the Secret with its
// state, can write the ID of any VM there. Only the mark says whose a VM is. Its UID is another after a move or a
// restore, so namespace and name decide.
func owns(owner ownermark.Owner, vm *engine.VM) bool {
	found, marked := ownermark.OwnerOf(vm.CommentText())

	return marked && found.SameObject(owner)
}

// notOwned is why a machine leaves a VM alone. It does not say what the VM is, which tenants need not know.
func notOwned(owner ownermark.Owner, id engine.ID) *blocker.Error {
	return &blocker.Error{
		Reason: infrav1.VMNotOwnedReason,
		Message: fmt.Sprintf("VM %s does not have the mark of this machine, so nothing is done to it. If it is this "+
			"machine's, write %q into the comment of the VM in the engine; if it is not, delete this Machine",
			id, owner.Comment()),
		RetryAfter: vmSteady,
	}
}

// checkOwned returns a *blocker.Error if one of the VMs is not the owner's. A VM that is gone is nobody's.
func checkOwned(ctx context.Context, session *engine.Client, owner ownermark.Owner, ids []engine.ID) error {
	for _, id := range ids {
		vm, err := session.VM(ctx, id)

		switch {
		case engine.IsNotFound(err):
		case err != nil:
			return err
		case !owns(owner, vm):
			return notOwned(owner, id)
		}
	}

	return nil
}

// reconcileForeign finds out whether a VM that was seen without the machine's mark is really another's: what was seen
// may be from before the mark was written. It also refuses a machine whose IDs name several VMs.
func (r *Reconciler) reconcileForeign(ctx context.Context, scope *machineScope) error {
	owner, ids := ownerOf(scope.olvmMachine), scope.vmIDs()
	if len(ids) > 1 {
		scope.vm.foreign = &blocker.Error{
			Reason: infrav1.VMNotOwnedReason,
			Field:  "spec.providerID",
			Message: fmt.Sprintf("it names VM %s, and the state or the claim of the machine VM %s; nothing is done to "+
				"either. Put the right one into spec.providerID, or delete this Machine", ids[0], ids[1]),
		}

		return nil
	}

	if scope.vm.seen == nil || owns(owner, scope.vm.seen) {
		return nil
	}

	err := checkOwned(ctx, scope.engine.session, owner, ids)
	if errors.As(err, &scope.vm.foreign) {
		return nil
	}

	return err
}
