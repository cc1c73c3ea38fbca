package machine

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/objectstatus"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// reconcileUserData takes the user data of a node out of the engine and of the state: it has private keys of the
// cluster, and tokens, and everybody who may see the VM in the engine reads it. The first boot has used it by then.
func (r *Reconciler) reconcileUserData(ctx context.Context, scope *machineScope) (time.Duration, error) {
	done := conditions.IsTrue(scope.olvmMachine, infrav1.UserDataRemovedCondition)
	if scope.userData.kept || done || !scope.joined() || scope.engine.session == nil || scope.vm.seen == nil ||
		scope.workspace.StateErr != nil || scope.workspace.InFlight() {
		return 0, nil
	}

	err := scope.engine.session.ForgetUserData(ctx, scope.vm.seen.ID)
	if err == nil {
		err = scope.workspace.ForgetUserData(ctx)
	}

	if err != nil {
		scope.userData.err = fmt.Errorf("the user data was not taken away: %w", err)
		return engineRetry, nil
	}

	scope.userData.removed = true

	return 0, nil
}

// joined reports whether the VM has become a node.
func (s *machineScope) joined() bool {
	return !s.supports() && s.machine.Status.NodeRef.IsDefined()
}

// setUserDataCondition says whether the user data is still where others may read it.
func setUserDataCondition(scope *machineScope) {
	m := scope.olvmMachine

	switch {
	case scope.userData.kept || scope.supports():
		conditions.Delete(m, infrav1.UserDataRemovedCondition)
	case conditions.IsTrue(m, infrav1.UserDataRemovedCondition):
	case scope.userData.removed:
		conditions.Set(m, metav1.Condition{
			Type:   infrav1.UserDataRemovedCondition,
			Status: metav1.ConditionTrue,
			Reason: infrav1.UserDataRemovedReason,
		})
	case scope.userData.err != nil:
		conditions.Set(m, metav1.Condition{
			Type:    infrav1.UserDataRemovedCondition,
			Status:  metav1.ConditionFalse,
			Reason:  infrav1.UserDataNotRemovedReason,
			Message: workspace.Shorten(scope.userData.err.Error(), objectstatus.MaxMessage),
		})
	case !scope.joined():
		conditions.Set(m, metav1.Condition{
			Type:   infrav1.UserDataRemovedCondition,
			Status: metav1.ConditionFalse,
			Reason: infrav1.WaitingForNodeReason,
		})
	}
}
