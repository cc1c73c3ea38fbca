package remediation

import (
	"time"

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
	status, strategy := remediation.Status, remediation.Spec.Strategy

	switch {
	case status.Step == infrav1alpha1.GivenUpStep:
		return giveUp
	case vm == nil:
		return giveUp // there is nothing to reboot
	case status.Step == "":
		return begin
	}

	over := now.Sub(status.LastAttemptTime.Time) >= strategy.Timeout()
	if over && status.Attempts >= strategy.Retries() {
		return giveUp
	} else if over {
		return begin
	}

	switch status.Step {
	case infrav1alpha1.PoweringOffStep:
		return toPowerOff(vm.Status)
	case infrav1alpha1.StartingStep:
		return toStart(vm.Status)
	}

	return wait
}

// toPowerOff returns what ends the step PoweringOff.
func toPowerOff(status engine.VMStatus) action {
	switch {
	case status == engine.VMDown:
		return recordOff
	case status.Off(), status.Busy():
		return wait // an engine refuses to stop it
	default:
		return powerOff
	}
}

// toStart returns what ends the step Starting.
func toStart(status engine.VMStatus) action {
	switch {
	case status == engine.VMDown:
		return start
	case status == engine.VMUp, status.Starting():
		return recordStart
	default:
		return wait
	}
}

// owesStart reports whether the controller has powered the VM off, or is about to, and has not seen it start.
func owesStart(remediation *infrav1alpha1.OLVMRemediation) bool {
	step := remediation.Status.Step

	return step == infrav1alpha1.PoweringOffStep || step == infrav1alpha1.StartingStep
}
