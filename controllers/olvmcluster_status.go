package controllers

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/resolve"
)

// clusterConditions are those that this controller owns.
var clusterConditions = []string{
	infrav1.ReadyCondition, infrav1.EngineAvailableCondition, infrav1.EndpointConfiguredCondition, infrav1.DeletingCondition, clusterv1.PausedCondition,
}

// updateClusterStatus turns the facts of a pass into status.
func updateClusterStatus(scope *clusterScope) {
	c := scope.olvmCluster
	if c.DeletionTimestamp.IsZero() {
		conditions.Set(c, metav1.Condition{Type: infrav1.DeletingCondition, Status: metav1.ConditionFalse, Reason: infrav1.NotDeletingReason})
		setEndpointCondition(c)
		setEngineCondition(scope)
	} else {
		setClusterDeletingCondition(scope)
		if len(scope.machines) > 0 {
			setEngineCondition(scope)
		}
	}
	setReady(c, []string{infrav1.EngineAvailableCondition, infrav1.EndpointConfiguredCondition, infrav1.DeletingCondition})
}

func setEndpointCondition(c *infrav1.OLVMCluster) {
	condition := metav1.Condition{Type: infrav1.EndpointConfiguredCondition, Status: metav1.ConditionTrue, Reason: infrav1.EndpointConfiguredReason}
	if !endpointReady(c) {
		condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.EndpointMissingReason
		condition.Message = "spec.controlPlaneEndpoint.host: it is empty; set it to the virtual IP address or the load balancer of the API server"
	}
	conditions.Set(c, condition)
}

func setEngineCondition(scope *clusterScope) {
	c := scope.olvmCluster
	condition := metav1.Condition{Type: infrav1.EngineAvailableCondition, Status: metav1.ConditionTrue, Reason: infrav1.EngineAvailableReason}
	if scope.engineErr != nil {
		condition.Status = metav1.ConditionFalse
		condition.Reason, condition.Message = resolve.EngineReason(scope.engineErr)
	} else if scope.dataCenter != nil {
		c.Status.OLVMDatacenter = &infrav1.OLVMDatacenterStatus{
			DataCenterID: scope.dataCenter.ID, DataCenterName: scope.dataCenter.Name,
			Release: &infrav1.OLVMRelease{Name: scope.product.Name, Version: scope.product.Version},
		}
	}
	conditions.Set(c, condition)
}

func setClusterDeletingCondition(scope *clusterScope) {
	condition := metav1.Condition{Type: infrav1.DeletingCondition, Status: metav1.ConditionTrue, Reason: infrav1.DeletingReason}
	if len(scope.machines) > 0 {
		condition.Reason = infrav1.WaitingForMachinesDeletionReason
		condition.Message = fmt.Sprintf("Waiting for %d machines to be deleted: %s", len(scope.machines), strings.Join(scope.machines, ", "))
	}
	conditions.Set(scope.olvmCluster, condition)
}

// setReady summarises the conditions; those that are absent count as unknown.
func setReady(object interface {
	conditions.Getter
	conditions.Setter
}, types []string) {
	negative := conditions.NegativePolarityConditionTypes{infrav1.DeletingCondition}
	err := conditions.SetSummaryCondition(object, object, infrav1.ReadyCondition,
		conditions.ForConditionTypes(types),
		negative,
		conditions.CustomMergeStrategy{MergeStrategy: conditions.DefaultMergeStrategy(
			conditions.GetPriorityFunc(conditions.GetDefaultMergePriorityFunc(negative...)),
			conditions.ComputeReasonFunc(conditions.GetDefaultComputeMergeReasonFunc(clusterv1.NotReadyReason, clusterv1.ReadyUnknownReason, clusterv1.ReadyReason)),
		)},
	)
	if err != nil {
		conditions.Set(object, metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionUnknown, Reason: clusterv1.InternalErrorReason, Message: err.Error()})
	}
}

// jitter spreads periodic work by a fifth, so that a restart does not line all objects up.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d)/5)) //nolint:gosec // not a secret
}
