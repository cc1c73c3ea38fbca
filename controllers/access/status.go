package access

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
)

// setUsable reports whether the objects named by an identity are usable. problem is nil if they are.
func setUsable(identity *infrav1alpha1.OLVMClusterIdentity, problem *blocker.Error) {
	condition := metav1.Condition{
		Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReadyCondition,
	}
	if problem != nil {
		condition.Status, condition.Reason = metav1.ConditionFalse, problem.Reason
		condition.Message = problem.Error()
	}

	conditions.Set(identity, condition)
}
