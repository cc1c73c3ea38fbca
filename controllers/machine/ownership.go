package machine

import (
	"context"
	"errors"
	"fmt"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// isOwned reports whether the VM carries the machine's owner mark.
func isOwned(owner ownermark.Owner, vm *engine.VM) bool { return owner.IsNamedIn(vm.CommentText()) }

// newNotOwnedError returns the reason not to change a VM without the owner mark. It sets a retry, because a user may
// correct the mark.
func newNotOwnedError(owner ownermark.Owner, id engine.ID) *blocker.Error {
	out := desired.NewNotOwnedError(owner, id)
	out.RetryAfter = steadyInterval

	return out
}

// checkVMsOwned returns a *blocker.Error if one of the VMs lacks the owner's mark. Missing VMs pass the check.
func checkVMsOwned(ctx context.Context, session *engine.Client, owner ownermark.Owner, ids []engine.ID) error {
	for _, id := range ids {
		err := desired.CheckVMOwned(ctx, session, owner, id)

		var foreign *blocker.Error
		if errors.As(err, &foreign) {
			foreign.RetryAfter = steadyInterval
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// checkOwnershipForUpdate sets vm.foreign if the VM lacks the machine's owner mark, or if the machine's records name
// different VMs. It fetches a VM without the mark again, because the cached VM may be older than the mark.
func (r *Reconciler) checkOwnershipForUpdate(ctx context.Context, scope *machineScope) error {
	owner, ids := ownermark.NewOwner(scope.olvmMachine), scope.vmIDs()
	if len(ids) > 1 {
		scope.vm.foreign = &blocker.Error{
			Reason: infrav1.VMNotOwnedReason,
			Message: fmt.Sprintf("the provider ID, the state and the claim of this machine name different VMs (%s "+
				"and %s), so the controller changes neither VM. Correct the wrong record, or delete this Machine",
				ids[0], ids[1]),
		}

		return nil
	}

	if scope.vm.current == nil || isOwned(owner, scope.vm.current) {
		return nil
	}

	err := checkVMsOwned(ctx, scope.engine.session, owner, ids)
	if errors.As(err, &scope.vm.foreign) {
		return nil
	}

	return err
}
