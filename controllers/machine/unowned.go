package machine

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/objectstatus"
)

// ownerGrace is how long an OLVMMachine may wait for its Machine before its status reports a problem.
const ownerGrace = 10 * time.Second

// reconcileUnowned reports in the status that no Machine of an existing Cluster owns the OLVMMachine.
func (r *Reconciler) reconcileUnowned(ctx context.Context, scope *machineScope) (ctrl.Result, error) {
	m := scope.olvmMachine
	ctrl.LoggerFrom(ctx).Info("Waiting for a Machine of an existing Cluster to own this OLVMMachine")

	paused := scope.cluster != nil && ptr.Deref(scope.cluster.Spec.Paused, false)
	if paused || annotations.HasPaused(m) {
		return ctrl.Result{}, nil
	}

	if left := ownerGrace - time.Since(m.CreationTimestamp.Time); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}

	condition := metav1.Condition{
		Type: infrav1.InfrastructureAppliedCondition, Status: metav1.ConditionFalse, Reason: infrav1.NoMachineReason,
		Message: "No Machine owns this OLVMMachine, so nothing is made or changed; delete it, unless you are " +
			"restoring its Machine",
	}
	if name := m.Labels[clusterv1.ClusterNameLabel]; scope.machine != nil && name != "" {
		condition.Message = fmt.Sprintf("Cluster %q does not exist, so nothing is made or changed; create it, or "+
			"delete the Machine", name)
	}

	conclude := func() {
		conditions.Set(m, condition)
		objectstatus.SetReady(m, []string{infrav1.InfrastructureAppliedCondition})
	}

	err := objectstatus.Write(ctx, scope.pass, r.Recorder, m, conclude, scope.steps)

	return ctrl.Result{}, objectstatus.IgnoreGone(err)
}
