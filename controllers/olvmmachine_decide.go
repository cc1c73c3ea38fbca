package controllers

import (
	"fmt"
	"time"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

// observed is all that the next action of a machine, or of what a cluster's machines share, depends on. It is plain
// data; time is part of it.
type observed struct {
	now time.Time
	// run is the job that is queued or going; nil where there is none.
	run *terraform.Status
	// failures in a row, when the last one ended and what it tried; zero where the last run succeeded.
	failures      int
	lastFailure   time.Time
	lastAttempted string

	// stateInvalid says that the stored state cannot be used.
	stateInvalid bool
	// stateEmpty says that the state describes nothing.
	stateEmpty bool
	// hadVM says that the machine has been given a VM at some time.
	hadVM bool
	// vmMissing says that the engine answered and has no such VM.
	vmMissing bool
	// ready says that everything a run needs is there: bootstrap data, address, engine, resolved names.
	ready bool
	// shutdownLeft is how long the guest may still take to shut down by itself; 0 where nobody waits for it.
	shutdownLeft time.Duration
	// drifted says that the engine has something else than what was applied.
	drifted bool
	// digest of what is asked for, and of what was applied last.
	digest, applied string
}

type actionKind string

const (
	actionNone    actionKind = "None"    // nothing to do
	actionWait    actionKind = "Wait"    // something else has to happen first
	actionBlock   actionKind = "Block"   // a person has to act
	actionApply   actionKind = "Apply"   // submit a run
	actionDestroy actionKind = "Destroy" // submit a run that destroys
	actionCancel  actionKind = "Cancel"  // interrupt the run that is going
	actionRelease actionKind = "Release" // nothing is left: let the object go
)

// action says what to do next, and why. After is when to look again; 0 means that something will wake the object.
type action struct {
	kind    actionKind
	reason  string
	message string
	after   time.Duration
}

type rule func(observed) (action, bool)

// normalRules decide for a machine that lives; the first that applies wins, and their order is meaning: a run that is
// going is never joined by another, a lost VM is not made again, and a changed input does not wait for the backoff.
var normalRules = []rule{
	runInFlight,
	stateUnusable,
	vmLost,
	inputsMissing,
	settled,
	backingOff,
	func(observed) (action, bool) { return action{kind: actionApply, reason: infrav1.ApplyingReason}, true },
}

// deleteRules decide for a machine that is being deleted. That the state is empty ends it, not that nothing ever
// succeeded: a failed run can leave a VM.
var deleteRules = []rule{
	cancelApply,
	runInFlight,
	stateUnusable,
	nothingLeft,
	deleteNeedsEngine,
	backingOff,
	guestShutsDown,
	func(observed) (action, bool) {
		return action{kind: actionDestroy, reason: infrav1.DeletingReason}, true
	},
}

// decide asks the rules in order.
func decide(rules []rule, o observed) action {
	for _, r := range rules {
		if a, ok := r(o); ok {
			return a
		}
	}

	return action{kind: actionNone}
}

func runInFlight(o observed) (action, bool) {
	if o.run == nil {
		return action{}, false
	}

	// A run that is done here ended after its result was looked for: the next pass takes notice of it first.
	return action{
		kind:    actionWait,
		after:   engineRetry,
		reason:  infrav1.ApplyingReason,
		message: fmt.Sprintf("Terraform %s is %s", o.run.Operation, o.run.Phase),
	}, true
}

// cancelApply makes a deletion go before a creation that has not ended.
func cancelApply(o observed) (action, bool) {
	if o.run == nil || o.run.Phase == terraform.Done || o.run.Operation != terraform.Apply {
		return action{}, false
	}

	return action{
		kind:    actionCancel,
		reason:  infrav1.WaitingForTerraformReason,
		message: "Waiting for the Terraform run that creates the VM to stop",
	}, true
}

func stateUnusable(o observed) (action, bool) {
	return action{kind: actionBlock, reason: infrav1.StateInvalidReason, after: vmSteady}, o.stateInvalid
}

func vmLost(o observed) (action, bool) {
	return action{kind: actionBlock, reason: infrav1.VirtualMachineNotFoundReason}, o.hadVM && o.vmMissing
}

func inputsMissing(o observed) (action, bool) {
	return action{kind: actionWait}, !o.ready
}

func deleteNeedsEngine(o observed) (action, bool) {
	return action{kind: actionWait, reason: infrav1.WaitingForEngineReason, after: engineRetry}, !o.ready
}

func guestShutsDown(o observed) (action, bool) {
	return action{
		kind:   actionWait,
		reason: infrav1.WaitingForGuestShutdownReason,
		after:  min(o.shutdownLeft, vmBooting),
		message: fmt.Sprintf("Waiting for the guest to shut down; its power is cut at %s",
			o.now.Add(o.shutdownLeft).Round(time.Second).UTC().Format(time.RFC3339)),
	}, o.shutdownLeft > 0
}

func settled(o observed) (action, bool) {
	return action{kind: actionNone, reason: infrav1.AppliedReason}, o.digest == o.applied && !o.drifted
}

func nothingLeft(o observed) (action, bool) {
	return action{kind: actionRelease}, o.stateEmpty && !o.hadVM
}

func backingOff(o observed) (action, bool) {
	if o.failures == 0 || o.digest != o.lastAttempted {
		return action{}, false
	}

	left := o.lastFailure.Add(backoff(o.failures)).Sub(o.now)

	return action{kind: actionWait, reason: infrav1.ApplyFailedReason, after: left}, left > 0
}
