package remediation

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// action is what a pass does next.
type action int

const (
	// wait until the engine, the node or the clock has changed something.
	wait action = iota
	// begin records a reboot. The VM is powered off by a later pass, when the record is written.
	begin
	powerOff
	// recordOff records that the VM is down. It is started by a later pass.
	recordOff
	start
	// recordStart records that the VM starts.
	recordStart
	// giveUp has the owner of the Machine replace it.
	giveUp
)

// decide returns what to do next. The VM is nil if the engine has none.
func decide(remediation *infrav1alpha1.OLVMRemediation, vm *engine.VM, now time.Time) action {
	status := remediation.Status

	switch {
	case status.Step == infrav1alpha1.GivenUpStep || vm == nil:
		return giveUp
	case status.Step == infrav1alpha1.PoweringOffStep:
		return toPowerOff(remediation, vm.Status, now)
	case status.Step == infrav1alpha1.StartingStep:
		return toStart(vm.Status)
	case status.Step == infrav1alpha1.WaitingStep && !isOver(remediation, now):
		return wait
	case status.Attempts >= remediation.Spec.Strategy.Retries():
		return giveUp
	default:
		return begin
	}
}

// isOver reports whether the time of the step is over.
func isOver(remediation *infrav1alpha1.OLVMRemediation, now time.Time) bool {
	return now.Sub(remediation.Status.StepTime.Time) >= remediation.Spec.Strategy.Timeout()
}

// toPowerOff returns what to do until the VM is down. The engine is asked once.
func toPowerOff(remediation *infrav1alpha1.OLVMRemediation, status engine.VMStatus, now time.Time) action {
	asked := remediation.Status.PowerOffTime

	switch {
	case status == engine.VMDown:
		return recordOff
	case !asked.IsZero() && (status.Starting() || status == engine.VMUp && now.Sub(asked.Time) >= engine.StopPatience):
		return recordStart // somebody has started it
	case !asked.IsZero():
		return wait // it may go down at any time
	case status.Off(), status.Busy(): // an engine refuses to stop it
		if isOver(remediation, now) {
			return giveUp
		}

		return wait
	default:
		return powerOff
	}
}

// toStart returns what to do until the VM is on a host again. It has no end: the controller has powered the VM off.
func toStart(status engine.VMStatus) action {
	switch {
	case status == engine.VMDown:
		return start
	case status.Off(), status.Busy():
		return wait
	default:
		return recordStart // also if it hangs: another reboot may follow
	}
}

// isOverdue reports whether a VM that was powered off, or may be, is not back in time.
func isOverdue(remediation *infrav1alpha1.OLVMRemediation, now time.Time) bool {
	status := remediation.Status
	isOff := status.Step == infrav1alpha1.StartingStep ||
		status.Step == infrav1alpha1.PoweringOffStep && !status.PowerOffTime.IsZero()

	return isOff && isOver(remediation, now)
}

// owesStart reports whether the controller may have powered the VM off and has not seen it start. An object that was
// moved or restored has its finalizer, and no status.
func owesStart(remediation *infrav1alpha1.OLVMRemediation) bool {
	switch remediation.Status.Step {
	case infrav1alpha1.PoweringOffStep, infrav1alpha1.StartingStep:
		return true
	case "":
		return controllerutil.ContainsFinalizer(remediation, infrav1alpha1.RemediationFinalizer)
	}

	return false
}
