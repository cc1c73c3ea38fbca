package machine

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
)

// userDataRetry is the retry interval after a refusal by the engine or the API server.
const userDataRetry = time.Minute

// reconcileUserData removes the user data of a node from the engine and from the state, because the first boot has
// already used it. User data contains tokens and private keys of the cluster. Everyone with read access to the VM in
// the engine can read it.
func (r *Reconciler) reconcileUserData(ctx context.Context, scope *machineScope) (time.Duration, error) {
	done := conditions.IsTrue(scope.olvmMachine, infrav1.UserDataRemovedCondition)
	if scope.shouldLeaveUserData() || done || !scope.hasJoined() || scope.engine.session == nil ||
		scope.vm.current == nil || scope.observed.StateErr != nil || scope.workspace.IsInFlight() ||
		scope.workspace.HasUnsavedState() {
		return 0, nil
	}

	if scope.vm.current.ChangesWait { // any change of the VM would drop the changes that wait for its next start
		return steadyInterval, nil
	}

	err := scope.engine.session.ForgetUserData(ctx, scope.vm.current.ID)
	if err == nil {
		err = scope.workspace.ForgetUserData(ctx, &scope.observed)
	}

	if err != nil {
		scope.userData.err = fmt.Errorf("failed to remove the user data: %w", err)
		return pass.Jitter(userDataRetry), nil
	}

	scope.userData.removed = true

	return 0, nil
}

// hasJoined reports whether the VM has become a node.
func (s *machineScope) hasJoined() bool { return s.machine.Status.NodeRef.IsDefined() }

// shouldLeaveUserData reports whether the user data stays in place. User data of support services contains no cluster
// keys. A VM of an inventory gets its own initialization back on release.
func (s *machineScope) shouldLeaveUserData() bool {
	return s.userData.kept || s.isSupportMachine() || s.isFromInventory()
}
