package remediation

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// action is the next step of a pass.
type action int

const (
	// wait does nothing until the engine, the Node or the time changes.
	wait action = iota
	// begin records a reboot. A later pass powers off the VM, after the record is written.
	begin
	powerOff
	// recordOff records that the VM is down. A later pass starts it.
	recordOff
	start
	// recordStart records that the VM is starting.
	recordStart
	// giveUp asks the owner of the Machine to replace it.
	giveUp
)

// decideAction returns the next step. The VM is nil if the engine has none.
func decideAction(remediation *infrav1alpha1.OLVMRemediation, vm *engine.VM, now time.Time) action {
	status := remediation.Status

	switch {
	case status.Step == infrav1alpha1.GivenUpStep || vm == nil:
		return giveUp
	case status.Step == infrav1alpha1.PoweringOffStep:
		return decidePowerOff(remediation, vm.Status, now)
	case status.Step == infrav1alpha1.StartingStep:
		return decideStart(vm.Status)
	case status.Step == infrav1alpha1.WaitingStep && !isOver(remediation, now):
		return wait
	case status.Attempts >= remediation.Spec.Strategy.Retries():
		return giveUp
	default:
		return begin
	}
}

// isOver reports whether the time limit of the step has passed.
func isOver(remediation *infrav1alpha1.OLVMRemediation, now time.Time) bool {
	return now.Sub(remediation.Status.StepTime.Time) >= remediation.Spec.Strategy.Timeout()
}

// decidePowerOff returns the next step until the VM is down. It requests a single power-off per reboot.
func decidePowerOff(remediation *infrav1alpha1.OLVMRemediation, status engine.VMStatus, now time.Time) action {
	asked := remediation.Status.PowerOffTime

	switch {
	case status == engine.VMDown:
		return recordOff
	case !asked.IsZero() &&
		(status.IsStarting() || status == engine.VMUp && now.Sub(asked.Time) >= engine.StopPatience):
		return recordStart // someone has started it
	case !asked.IsZero():
		return wait // it may go down at any time
	case status.IsOff(), status.IsBusy(): // the engine would refuse to stop it
		if isOver(remediation, now) {
			return giveUp
		}

		return wait
	default:
		return powerOff
	}
}

// decideStart returns the next step until the VM is on a host again. It never gives up, because the controller has
// powered the VM off.
func decideStart(status engine.VMStatus) action {
	switch {
	case status == engine.VMDown:
		return start
	case status.IsOff(), status.IsBusy():
		return wait
	default:
		return recordStart // even if it hangs: another reboot may follow
	}
}

// isOverdue reports whether the controller may have powered a VM off, and the VM does not run again in time.
func isOverdue(remediation *infrav1alpha1.OLVMRemediation, now time.Time) bool {
	status := remediation.Status
	isOff := status.Step == infrav1alpha1.StartingStep ||
		status.Step == infrav1alpha1.PoweringOffStep && !status.PowerOffTime.IsZero()

	return isOff && isOver(remediation, now)
}

// shouldStart reports whether the controller may have powered the VM off and has not seen it start. A moved or restored
// object has its finalizer, but no status.
func shouldStart(remediation *infrav1alpha1.OLVMRemediation) bool {
	switch remediation.Status.Step {
	case infrav1alpha1.PoweringOffStep, infrav1alpha1.StartingStep:
		return true
	case "":
		return controllerutil.ContainsFinalizer(remediation, infrav1alpha1.RemediationFinalizer)
	}

	return false
}
