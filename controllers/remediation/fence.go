package remediation

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
)

// fetchStartBlocker explains why the VM must stay down. It returns nil if the VM may start. Kubernetes detaches the
// volumes of a fenced Node. If the VM started meanwhile, it would write to volumes that another node may already use.
// The Node controller removes the taint once the volumes are detached.
func (r *Reconciler) fetchStartBlocker(ctx context.Context, s *scope) *blocker.Error {
	name := s.machine.Status.NodeRef.Name
	if name == "" || s.cluster == nil {
		return nil
	}

	node := &corev1.Node{}

	// A cache may not have the taint yet.
	workload, err := r.Workloads.GetUncachedClient(ctx, client.ObjectKeyFromObject(s.cluster))
	if err == nil {
		err = workload.Get(ctx, client.ObjectKey{Name: name}, node)
	}

	switch {
	case err == nil && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService
	}):
		return &blocker.Error{
			Reason: infrav1.NodeFencedReason,
			Message: "Node " + name + " has the taint " + corev1.TaintNodeOutOfService + "; the VM starts when its " +
				"volumes are detached and the taint is removed",
		}
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case util.IsControlPlaneMachine(s.machine), !pass.HasVMFailed(s.olvmMachine):
		return nil // the control plane may need this machine, and only a failed VM is fenced
	}

	return &blocker.Error{
		Reason: infrav1.NodeFencedReason,
		Message: "The VM has failed, and the controller cannot read whether Node " + name + " has the fencing taint: " +
			err.Error(),
	}
}
