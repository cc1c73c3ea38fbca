package machine

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// verdict reports whether the VM matches the spec, with a reason and a message for users.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

// isSettled reports whether the spec has been fully applied.
func (s *machineScope) isSettled() bool {
	return s.vm.foreign == nil && s.action.Kind == workspace.None &&
		s.action.Reason == infrav1.AppliedReason
}

// findSpecProblem returns an error for a user to correct before the spec can be applied, or nil.
func (s *machineScope) findSpecProblem() *blocker.Error {
	var field *blocker.Error
	if errors.As(s.desired.err, &field) || errors.As(s.network.err, &field) {
		return field
	}

	return nil
}

// unrelatedToSpec are reasons unrelated to the spec.
var unrelatedToSpec = []string{infrav1.WaitingForEngineReason, infrav1.WaitingForClusterInfrastructureReason}

// cause returns the verdict if one possible cause applies, and reports whether it applies.
type cause func(*machineScope) (verdict, bool)

// causes lists the causes by precedence. The first one that applies determines the verdict.
var causes = []cause{
	judgeForeignVM,
	judgeExcludedCluster,
	judgePendingRestart,
	judgeUpToDate,
	judgeUnusableState,
	judgeUnusableEngine,
	judgeLostVM,
	judgeRefusedSpec,
	judgeNotRendered,
	judgeFailedRun,
	judgeRunInFlight,
	judgeMissingBootstrapData,
	judgeMissingClaim,
	judgeMissingAddresses,
	judgeUnreadVM,
	judgeNoRunYet,
}

// judgeSpec compares the VM with the spec.
func (s *machineScope) judgeSpec() verdict {
	for _, applies := range causes {
		if found, ok := applies(s); ok {
			return found
		}
	}

	return verdict{}
}

// notUpToDate is the verdict on a VM that does not match the spec.
func notUpToDate(reason, message string) verdict {
	return verdict{metav1.ConditionFalse, reason, message}
}

// notComparable is the verdict if the VM cannot be compared with the spec. Before the first complete run, the machine
// is not up to date.
func (s *machineScope) notComparable(reason, message string) verdict {
	if !s.observed.State.WasApplied() {
		return notUpToDate(reason, message)
	}

	return verdict{metav1.ConditionUnknown, reason, message}
}

// judgeReason returns notComparable for reasons unrelated to the spec, and notUpToDate for others.
func (s *machineScope) judgeReason(reason, message string) verdict {
	if slices.Contains(unrelatedToSpec, reason) {
		return s.notComparable(reason, message)
	}

	return notUpToDate(reason, message)
}

func judgeForeignVM(s *machineScope) (verdict, bool) {
	if s.vm.foreign == nil {
		return verdict{}, false
	}

	return s.notComparable(s.vm.foreign.Reason, s.vm.foreign.Error()), true
}

func judgeExcludedCluster(s *machineScope) (verdict, bool) {
	if s.excluded == nil || s.olvmMachine.Spec.ProviderID != "" || s.workspace.IsInFlight() {
		return verdict{}, false
	}

	return notUpToDate(s.excluded.Reason, s.excluded.Error()), true
}

func judgePendingRestart(s *machineScope) (verdict, bool) {
	message := "waits for a restart: " + strings.Join(s.vm.pendingSettings, ", ")

	return notUpToDate(infrav1.WaitingForRestartReason, message),
		s.isSettled() && len(s.vm.pendingSettings) > 0
}

func judgeUpToDate(s *machineScope) (verdict, bool) {
	return verdict{metav1.ConditionTrue, infrav1.UpToDateReason, ""}, s.isSettled()
}

func judgeUnusableState(s *machineScope) (verdict, bool) {
	if s.observed.StateErr == nil {
		return verdict{}, false
	}

	return s.notComparable(infrav1.StateInvalidReason, s.observed.StateErr.Error()+
		"; repair that Secret, or delete it and remove its finalizer: the controller then rebuilds the state from "+
		"the VM"), true
}

func judgeUnusableEngine(s *machineScope) (verdict, bool) {
	if s.engine.err == nil {
		return verdict{}, false
	}

	return s.notComparable(infrav1.WaitingForEngineReason, s.engine.err.Error()), true
}

// judgeLostVM has no message, because the condition VirtualMachineRunning reports the remedy.
func judgeLostVM(s *machineScope) (verdict, bool) {
	return notUpToDate(s.action.Reason, ""), s.observed.State.WasApplied() && s.action.Kind == workspace.Block
}

func judgeRefusedSpec(s *machineScope) (verdict, bool) {
	problem := s.findSpecProblem()
	if problem == nil || !s.observed.State.WasApplied() {
		return verdict{}, false
	}

	return s.judgeReason(problem.Reason, "no change of this machine can be applied: "+problem.Error()), true
}

func judgeNotRendered(s *machineScope) (verdict, bool) {
	if s.desired.err == nil {
		return verdict{}, false
	}

	return s.judgeReason(pass.RenderReason(s.desired.err)), true
}

func judgeFailedRun(s *machineScope) (verdict, bool) {
	failure := s.observed.Failure
	if failure.Count == 0 || failure.Digest != s.desired.digest || s.action.Kind == workspace.Apply {
		return verdict{}, false
	}

	return notUpToDate(failure.Reason(), failure.Message()), true
}

func judgeRunInFlight(s *machineScope) (verdict, bool) {
	return notUpToDate(infrav1.ApplyingReason, s.action.Message),
		s.action.Kind == workspace.Apply || s.action.Reason == infrav1.ApplyingReason
}

func judgeMissingBootstrapData(s *machineScope) (verdict, bool) {
	if s.userDataBlocker == nil {
		return verdict{}, false
	}

	return s.notComparable(s.userDataBlocker.Reason, s.userDataBlocker.Message), true
}

// judgeMissingClaim does not name the cause, because the condition VirtualMachineClaimed does.
func judgeMissingClaim(s *machineScope) (verdict, bool) {
	return s.notComparable(infrav1.WaitingForClaimReason, "Waiting for a VM of the inventory"), s.claim.err != nil
}

// judgeMissingAddresses does not name the cause, because the condition AddressesAllocated and its event do.
func judgeMissingAddresses(s *machineScope) (verdict, bool) {
	return s.notComparable(infrav1.WaitingForIPAddressesReason, "Waiting for the addresses"), s.network.err != nil
}

func judgeUnreadVM(s *machineScope) (verdict, bool) {
	if s.vm.err == nil {
		return verdict{}, false
	}

	return s.notComparable(infrav1.WaitingForEngineReason, s.vm.err.Error()), true
}

func judgeNoRunYet(s *machineScope) (verdict, bool) {
	reason := cmp.Or(s.action.Reason, infrav1.ApplyingReason)

	return notUpToDate(reason, cmp.Or(s.action.Message, "No run has started yet")), true
}
