package pass

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// SetReady summarizes the other conditions in the Ready condition. Missing conditions count as unknown.
func SetReady(object interface {
	conditions.Getter
	conditions.Setter
}, types []string) {
	negative := conditions.NegativePolarityConditionTypes{infrav1.DeletingCondition}
	err := conditions.SetSummaryCondition(object, object, infrav1.ReadyCondition,
		conditions.ForConditionTypes(types),
		negative,
		conditions.CustomMergeStrategy{MergeStrategy: conditions.DefaultMergeStrategy(
			conditions.GetPriorityFunc(conditions.GetDefaultMergePriorityFunc(negative...)),
			conditions.ComputeReasonFunc(readyReason),
		)},
	)
	if err != nil {
		conditions.Set(object, metav1.Condition{
			Type:    infrav1.ReadyCondition,
			Status:  metav1.ConditionUnknown,
			Reason:  clusterv1.InternalErrorReason,
			Message: err.Error(),
		})
	}
}

// SetOfEarlierGeneration sets a condition that does not describe the present spec of the object. The condition keeps
// its earlier generation. A new condition gets no generation.
func SetOfEarlierGeneration(object conditions.Setter, condition metav1.Condition) {
	var generation int64
	if known := conditions.Get(object, condition.Type); known != nil {
		generation = known.ObservedGeneration
	}

	conditions.Set(object, condition)

	all := object.GetConditions()
	for i := range all {
		if all[i].Type == condition.Type {
			all[i].ObservedGeneration = min(generation, all[i].ObservedGeneration) // a restored object starts at 1
		}
	}
}

// readyReason is the reason of the Ready condition. A deletion explains all else; then comes what a person has to mend,
// and last what is on its way. The conditions are in the order of SetReady.
func readyReason(issues, unknown, _ []conditions.ConditionWithOwnerInfo) string {
	for _, first := range []func(metav1.Condition) bool{
		func(c metav1.Condition) bool { return c.Type == infrav1.DeletingCondition },
		IsFailure,
		func(metav1.Condition) bool { return true },
	} {
		for _, found := range issues {
			if first(found.Condition) {
				return found.Reason
			}
		}
	}

	if len(unknown) > 0 {
		return unknown[0].Reason
	}

	return clusterv1.ReadyReason
}

// HasVMFailed reports whether the condition of a machine reports that its VM has failed, as proved by the engine.
func HasVMFailed(m *infrav1.OLVMMachine) bool {
	return conditions.GetReason(m, infrav1.VirtualMachineRunningCondition) == infrav1.VirtualMachineFailedReason
}

// RenderReason returns the reason and the message of a condition for an error from rendering a configuration.
func RenderReason(err error) (reason, message string) {
	var field *blocker.Error
	if errors.As(err, &field) {
		return field.Reason, field.Error()
	}

	message = err.Error()

	var fault *engine.Fault
	if blocker.IsEngineError(err) || engine.IsCancelled(err) || errors.As(err, &fault) {
		return infrav1.WaitingForEngineReason, message
	}

	return infrav1.RenderFailedReason, message
}
