package machine

import (
	"context"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
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

	err := pass.Write(ctx, scope.pass, r.Recorder, m, func() { setUnownedCondition(scope) }, scope.stepEvents)

	return ctrl.Result{}, err
}
