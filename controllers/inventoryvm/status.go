package inventoryvm

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/objectstatus"
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
	ws := s.workspace
	condition := metav1.Condition{Type: infrav1.InfrastructureAppliedCondition, Status: metav1.ConditionFalse}

	switch {
	case s.applied():
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.AppliedReason
	case ws.StateErr != nil:
		condition.Reason = infrav1.StateInvalidReason
		condition.Message = ws.StateErr.Error() + "; repair that Secret, or delete it and remove its finalizer: " +
			"the state is rebuilt from the VM"
	case s.err != nil:
		condition.Reason, condition.Message = objectstatus.RenderReason(s.err)
	case ws.Failure.Count > 0 && ws.Action.Kind != workspace.Apply:
		condition.Reason, condition.Message = ws.Failure.Reason(), ws.Failure.Message()
	default:
		condition.Reason = cmp.Or(ws.Action.Reason, infrav1.ApplyingReason)
		condition.Message = ws.Action.Message
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
		condition.Reason, condition.Message = whyDeleting(s)
	}

	conditions.Set(s.vm, condition)
}

// whyDeleting returns the reason for a pending deletion.
func whyDeleting(s *scope) (reason, message string) {
	ws := s.workspace

	switch {
	case s.blocked != nil:
		return s.blocked.Reason, s.blocked.Message
	case ws.StateErr != nil:
		return infrav1.DeletionBlockedReason, ws.StateErr.Error() +
			"; repair that Secret, or delete it: then the VM is looked for by its ID or name"
	case s.err != nil:
		return objectstatus.RenderReason(s.err)
	case ws.Failure.OfDestroy():
		return infrav1.DeletionFailedReason, ws.Failure.Message()
	case ws.Action.Message != "":
		return infrav1.WaitingForTerraformReason, ws.Action.Message
	}

	return infrav1.DeletingReason, ""
}
