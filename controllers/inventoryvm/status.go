package inventoryvm

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// updateStatus turns the facts of a pass into conditions.
func updateStatus(s *scope) {
	if s.vm.DeletionTimestamp.IsZero() {
		setApplied(s)
	}

	setDeleting(s)
}

func setApplied(s *scope) {
	condition := metav1.Condition{Type: infrav1.InfrastructureAppliedCondition, Status: metav1.ConditionFalse}

	switch {
	case s.isComplete():
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.AppliedReason
	case s.observed.StateErr != nil:
		condition.Reason = infrav1.StateInvalidReason
		condition.Message = s.observed.StateErr.Error() +
			"; repair that Secret, or delete it and remove its finalizer: the controller then rebuilds the state " +
			"from the VM"
	case s.err != nil:
		condition.Reason, condition.Message = pass.RenderReason(s.err)
	case s.observed.Failure.Count > 0 && s.action.Kind != workspace.Apply:
		condition.Reason, condition.Message = s.observed.Failure.Reason(), s.observed.Failure.Message()
	default:
		condition.Reason = cmp.Or(s.action.Reason, infrav1.ApplyingReason)
		condition.Message = s.action.Message
	}

	conditions.Set(s.vm, condition)
}

func setDeleting(s *scope) {
	condition := metav1.Condition{
		Type:   infrav1.DeletingCondition,
		Status: metav1.ConditionFalse,
		Reason: infrav1.NotDeletingReason,
	}
	if !s.vm.DeletionTimestamp.IsZero() {
		condition.Status = metav1.ConditionTrue
		condition.Reason, condition.Message = explainDeleting(s)
	}

	conditions.Set(s.vm, condition)
}

// explainDeleting returns the reason for a pending deletion.
func explainDeleting(s *scope) (reason, message string) {
	switch {
	case s.blocked != nil:
		return s.blocked.Reason, s.blocked.Message
	case s.observed.StateErr != nil:
		return infrav1.DeletionBlockedReason, s.observed.StateErr.Error() +
			"; repair that Secret, or delete it: the controller then finds the VM by its ID or name"
	case s.err != nil:
		return pass.RenderReason(s.err)
	case s.observed.Failure.IsDestroyFailure():
		return infrav1.DeletionFailedReason, s.observed.Failure.Message()
	case s.action.Message != "":
		return infrav1.WaitingForTerraformReason, s.action.Message
	}

	return infrav1.DeletingReason, ""
}
