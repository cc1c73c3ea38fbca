package machine

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/objectstatus"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// verdict says whether the VM matches the spec, with a reason and a message for users.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

// setUpToDateConditions sets UpToDate and InfrastructureApplied. UpToDate judges the current spec. It does not affect
// Ready, so an invalid edit does not make a healthy node unready. InfrastructureApplied describes the last fully
// applied spec, and carries its generation.
func setUpToDateConditions(scope *machineScope) {
	found := scope.judge()
	setUpToDateCondition(scope, found)
	setAppliedCondition(scope, found)
}

func setUpToDateCondition(scope *machineScope, found verdict) {
	m := scope.olvmMachine
	condition := metav1.Condition{
		Type:    infrav1.UpToDateCondition,
		Status:  found.status,
		Reason:  found.reason,
		Message: found.message,
	}

	known := conditions.Get(m, condition.Type)
	judged := known != nil && known.ObservedGeneration == m.Generation

	switch {
	case judged && found.status == metav1.ConditionUnknown:
		return // nothing new is known: keep the condition of this spec
	case judged && known.Status == metav1.ConditionTrue && scope.specProblem() != nil:
		// The spec has been applied. A name lost in the engine since then does not change the VM.
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.UpToDateReason
	}

	conditions.Set(m, condition)
}

func setAppliedCondition(scope *machineScope, found verdict) {
	m := scope.olvmMachine
	condition := metav1.Condition{
		Type:   infrav1.InfrastructureAppliedCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.AppliedReason,
	}

	switch {
	case scope.settled():
	case scope.workspace.State.WasApplied() && scope.vm.foreign == nil && scope.workspace.StateErr == nil:
		// The applied spec stays applied, whatever later edits ask for. UpToDate reports the rest.
		objectstatus.SetOfEarlierGeneration(m, condition)
		return
	default:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, found.reason, found.message
	}

	conditions.Set(m, condition)
}

// settled reports whether the spec has been fully applied.
func (s *machineScope) settled() bool {
	return s.vm.foreign == nil && s.workspace.Action.Kind == workspace.None &&
		s.workspace.Action.Reason == infrav1.AppliedReason
}

// specProblem returns an error for a user to correct before the spec can be applied, or nil.
func (s *machineScope) specProblem() *blocker.Error {
	var field *blocker.Error
	if errors.As(s.desired.err, &field) || errors.As(s.network.err, &field) {
		return field
	}

	return nil
}

// notOfSpec are reasons unrelated to the spec.
var notOfSpec = []string{infrav1.WaitingForEngineReason, infrav1.WaitingForClusterInfrastructureReason}

// judge compares the VM with the spec. It returns the first cause in the order of resolution.
func (s *machineScope) judge() verdict {
	ws, made := s.workspace, s.workspace.State.WasApplied()
	pending := func(reason, message string) verdict { return verdict{metav1.ConditionFalse, reason, message} }
	unknown := func(reason, message string) verdict {
		if made {
			return verdict{metav1.ConditionUnknown, reason, message}
		}

		return pending(reason, message) // without a VM, the machine is not up to date
	}
	ofSpec := func(reason, message string) verdict {
		if slices.Contains(notOfSpec, reason) {
			return unknown(reason, message)
		}

		return pending(reason, message)
	}

	switch problem := s.specProblem(); {
	case s.vm.foreign != nil:
		return unknown(s.vm.foreign.Reason, s.vm.foreign.Error())
	case s.excluded != nil && s.olvmMachine.Spec.ProviderID == "" && !ws.InFlight():
		return pending(s.excluded.Reason, s.excluded.Error())
	case s.settled() && len(s.vm.waits) > 0:
		return pending(infrav1.WaitingForRestartReason, "waits for a restart: "+strings.Join(s.vm.waits, ", "))
	case s.settled():
		return verdict{metav1.ConditionTrue, infrav1.UpToDateReason, ""}
	case ws.StateErr != nil:
		return unknown(infrav1.StateInvalidReason, ws.StateErr.Error()+"; repair that Secret, or delete it and "+
			"remove its finalizer: the state is rebuilt from the VM")
	case s.engine.err != nil:
		return unknown(infrav1.WaitingForEngineReason, s.engine.err.Error())
	case made && ws.Action.Kind == workspace.Block: // VirtualMachineRunning has the remedy
		return pending(ws.Action.Reason, "")
	case made && problem != nil:
		return ofSpec(problem.Reason, "no change of this machine can be applied: "+problem.Error())
	case s.desired.err != nil:
		return ofSpec(objectstatus.RenderReason(s.desired.err))
	case ws.Failure.Count > 0 && ws.Failure.Digest == s.desired.digest && ws.Action.Kind != workspace.Apply:
		return pending(ws.Failure.Reason(), ws.Failure.Message())
	case ws.Action.Kind == workspace.Apply || ws.Action.Reason == infrav1.ApplyingReason:
		return pending(infrav1.ApplyingReason, ws.Action.Message)
	case s.waiting != nil:
		return unknown(s.waiting.Reason, s.waiting.Message)
	case s.claim.err != nil: // VirtualMachineClaimed has the cause
		return unknown(infrav1.WaitingForClaimReason, "Waiting for a VM of the inventory")
	case s.network.err != nil: // AddressesAllocated has the cause, and its event
		return unknown(infrav1.WaitingForIPAddressesReason, "Waiting for the addresses")
	case s.vm.err != nil:
		return unknown(infrav1.WaitingForEngineReason, s.vm.err.Error())
	}

	return pending(cmp.Or(ws.Action.Reason, infrav1.ApplyingReason), cmp.Or(ws.Action.Message, "No run has begun yet"))
}
