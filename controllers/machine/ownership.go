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

// isOwned reports whether the VM carries the machine's owner mark.
func isOwned(owner ownermark.Owner, vm *engine.VM) bool { return owner.IsNamedIn(vm.CommentText()) }

// newNotOwnedError explains why the controller does not change a VM. It does not describe the VM, because tenants must
// not learn about VMs of others.
func newNotOwnedError(owner ownermark.Owner, id engine.ID) *blocker.Error {
	return &blocker.Error{
		Reason: infrav1.VMNotOwnedReason,
		Message: fmt.Sprintf("VM %s does not have the mark of this machine, so the controller does not change it. If "+
			"the VM belongs to this machine, replace its comment in the engine with exactly %q. Otherwise, delete "+
			"this Machine and follow the message of the Deleting condition", id, owner.Comment()),
		RetryAfter: vmSteady,
	}
}

// checkVMsOwned returns a *blocker.Error if one of the VMs lacks the owner's mark. Missing VMs pass the check.
func checkVMsOwned(ctx context.Context, session *engine.Client, owner ownermark.Owner, ids []engine.ID) error {
	for _, id := range ids {
		vm, err := session.FetchVM(ctx, id)

		switch {
		case engine.IsNotFound(err):
		case err != nil:
			return err
		case !isOwned(owner, vm):
			return newNotOwnedError(owner, id)
		}
	}

	return nil
}

// reconcileVMOwnership re-reads a VM without the machine's mark from the engine, because the cached VM may be older
// than the mark. It also refuses a machine if its records name different VMs.
func (r *Reconciler) reconcileVMOwnership(ctx context.Context, scope *machineScope) error {
	owner, ids := ownermark.NewOwner(scope.olvmMachine), scope.vmIDs()
	if len(ids) > 1 {
		scope.vm.foreign = &blocker.Error{
			Reason: infrav1.VMNotOwnedReason,
			Message: fmt.Sprintf("the provider ID, the state and the claim of this machine name different VMs (%s and "+
				"%s), so the controller changes neither. Correct the wrong record, or delete this Machine",
				ids[0], ids[1]),
		}

		return nil
	}

	if scope.vm.seen == nil || isOwned(owner, scope.vm.seen) {
		return nil
	}

	err := checkVMsOwned(ctx, scope.engine.session, owner, ids)
	if errors.As(err, &scope.vm.foreign) {
		return nil
	}

	return err
}
