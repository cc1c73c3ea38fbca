package workspace

import (
	"fmt"
	"time"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

const (
	// retryAfter is when to look again at what waits for the engine or a run.
	retryAfter = 10 * time.Second
	// repairAfter is when to look again at what waits for a person.
	repairAfter = 30 * time.Second
	// shutdownPoll is how often a guest is looked at that is shutting down.
	shutdownPoll = time.Second
)

// Facts are what a controller knows of its object, and a decision needs.
type Facts struct {
	// Ready reports that everything a run needs is there: inputs, engine, resolved names.
	Ready bool
	// Digest of the configuration that is asked for; Destroy needs none.
	Digest string
	// Drifted reports that the engine has something else than was applied.
	Drifted bool
	// MayExist reports that the engine may have, or once had, what the workspace is for, whatever the state says: a run
	// was submitted.
	MayExist bool
	// Seen reports that the engine has shown in this pass, after the last run, that what was made is there.
	Seen bool
	// Lost reports that the engine answered, and what was made is not there.
	Lost bool
	// ShutdownLeft is how long the guest may still take to shut down by itself; 0 where no run waits for it.
	ShutdownLeft time.Duration
}

// observed is all that the next action depends on. It is plain data; time is part of it.
type observed struct {
	Facts
	now time.Time
	// run is a job that is queued, running, or done and not recorded yet; nil where there is none.
	run *terraform.Status
	// failure is the last run, where it failed.
	failure Failure
	// stateInvalid reports that the stored state cannot be used; stateEmpty, that it describes nothing.
	stateInvalid, stateEmpty bool
	// applied is the digest of what was applied last.
	applied string
	// unsaved reports that a run left a state in the working directory that could not be saved: another one saves it.
	unsaved bool
}

// ActionKind is what to do next.
type ActionKind string

// The kinds of actions.
const (
	None    ActionKind = "None"    // nothing to do
	Wait    ActionKind = "Wait"    // something else has to happen first
	Block   ActionKind = "Block"   // a person has to act
	Apply   ActionKind = "Apply"   // submit a run
	Destroy ActionKind = "Destroy" // submit a run that destroys
	Cancel  ActionKind = "Cancel"  // interrupt the run
	Release ActionKind = "Release" // nothing is left: let the object go
)

// Action says what to do next, and why. After is when to look again; 0 means that something will wake the object.
type Action struct {
	Kind    ActionKind
	Reason  string
	Message string
	After   time.Duration
}

type rule func(observed) (Action, bool)

// applyRules decide for an object that lives. The first rule that matches wins, so that only one run goes at a time,
// what is lost is not made again, and a changed input does not wait for the backoff.
var applyRules = []rule{
	runInFlight,
	stateUnusable,
	lost,
	inputsMissing,
	settled,
	backingOff,
	func(observed) (Action, bool) { return Action{Kind: Apply, Reason: infrav1.ApplyingReason}, true },
}

// destroyRules decide for an object that is being deleted. It may go when the state is empty and nothing may exist in
// the engine. That no run succeeded is not enough, because a failed run can leave a VM.
var destroyRules = []rule{
	cancelApply,
	runInFlight,
	stateUnusable,
	nothingLeft,
	engineMissing,
	backingOff,
	guestShutsDown,
	func(observed) (Action, bool) { return Action{Kind: Destroy, Reason: infrav1.DeletingReason}, true },
}

// decide asks the rules in order.
func decide(rules []rule, o observed) Action {
	for _, r := range rules {
		if a, ok := r(o); ok {
			return a
		}
	}

	return Action{Kind: None}
}

func runInFlight(o observed) (Action, bool) {
	if o.run == nil {
		return Action{}, false
	}

	// A run that is done here ended after its result was looked for: the next pass records it first.
	return Action{
		Kind:    Wait,
		After:   retryAfter,
		Reason:  infrav1.ApplyingReason,
		Message: fmt.Sprintf("Terraform %s is %s", o.run.Operation, o.run.Phase),
	}, true
}

// cancelApply interrupts an apply of an object that is being deleted.
func cancelApply(o observed) (Action, bool) {
	if o.run == nil || o.run.Phase == terraform.Done || o.run.Operation != terraform.Apply {
		return Action{}, false
	}

	return Action{
		Kind:    Cancel,
		Reason:  infrav1.WaitingForTerraformReason,
		Message: "Waiting for the Terraform run before the deletion to stop",
	}, true
}

func stateUnusable(o observed) (Action, bool) {
	return Action{Kind: Block, Reason: infrav1.StateInvalidReason, After: repairAfter}, o.stateInvalid
}

func lost(o observed) (Action, bool) {
	return Action{
		Kind:    Block,
		Reason:  infrav1.VirtualMachineNotFoundReason,
		Message: "The VM is gone from the engine, and is not made again; VirtualMachineRunning says what to do",
	}, o.MayExist && o.Lost
}

func inputsMissing(o observed) (Action, bool) {
	return Action{Kind: Wait}, !o.Ready
}

func engineMissing(o observed) (Action, bool) {
	return Action{Kind: Wait, Reason: infrav1.WaitingForEngineReason, After: retryAfter}, !o.Ready
}

func guestShutsDown(o observed) (Action, bool) {
	return Action{
		Kind:    Wait,
		Reason:  infrav1.WaitingForGuestShutdownReason,
		After:   min(o.ShutdownLeft, shutdownPoll),
		Message: "Waiting for the guest to shut down; its power is cut after the time of shutdown.timeoutSeconds",
	}, o.ShutdownLeft > 0
}

func settled(o observed) (Action, bool) {
	return Action{Kind: None, Reason: infrav1.AppliedReason}, o.Digest == o.applied && !o.Drifted && !o.unsaved
}

func nothingLeft(o observed) (Action, bool) {
	return Action{Kind: Release}, o.stateEmpty && !o.MayExist
}

func backingOff(o observed) (Action, bool) {
	if o.failure.Count == 0 || o.Digest != o.failure.Digest {
		return Action{}, false
	}

	left := o.failure.At.Add(backoff(o.failure.Count)).Sub(o.now)

	return Action{Kind: Wait, Reason: infrav1.ApplyFailedReason, After: left}, left > 0
}

// backoff is the pause after the n-th failure in a row: 5 s, doubling, at most 5 min. It never overflows.
func backoff(failures int) time.Duration {
	const first, most = 5 * time.Second, 5 * time.Minute
	return min(first<<min(max(failures-1, 0), 10), most)
}
