package workspace

import (
	"fmt"
	"time"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

const (
	// retryAfter is the pause before the next look while waiting for the engine or a run.
	retryAfter = 10 * time.Second
	// repairAfter is the pause before the next look while waiting for an administrator.
	repairAfter = 30 * time.Second
	// shutdownPoll is the interval between looks at a guest during its shutdown.
	shutdownPoll = time.Second
)

// Facts are the controller's facts about its object, as needed by a decision.
type Facts struct {
	// Ready reports that the run has all it needs: inputs, engine, resolved names.
	Ready bool
	// Digest of the wanted configuration. Destroy needs none.
	Digest string
	// Drifted reports that the engine differs from the applied configuration.
	Drifted bool
	// MayExist reports that a run was submitted, so resources may exist or may have existed. They may be missing from
	// the state.
	MayExist bool
	// Seen reports that the engine has shown the created VM in this pass, after the last run.
	Seen bool
	// Lost reports that the engine answered, but does not have the created VM.
	Lost bool
	// ShutdownLeft is the guest's remaining time to shut down by itself. It is 0 if no run waits for the guest.
	ShutdownLeft time.Duration
}

// observed is the complete input of a decision. It is plain data and includes the time.
type observed struct {
	Facts
	now time.Time
	// run is a queued or running job, or a finished one not recorded yet. It is nil if there is none.
	run *terraform.Status
	// failure is the last run if it failed.
	failure Failure
	// stateInvalid reports an unusable stored state. stateEmpty reports a state without resources.
	stateInvalid, stateEmpty bool
	// applied is the digest of the last applied configuration.
	applied string
	// unsaved reports that a run left an unsaved state in the working directory. Another run saves it.
	unsaved bool
}

// ActionKind names the next action.
type ActionKind string

// The kinds of actions.
const (
	None    ActionKind = "None"    // nothing to do
	Wait    ActionKind = "Wait"    // something else has to happen first
	Block   ActionKind = "Block"   // an administrator has to act
	Apply   ActionKind = "Apply"   // submit a run
	Destroy ActionKind = "Destroy" // submit a run that destroys
	Cancel  ActionKind = "Cancel"  // interrupt the run
	Release ActionKind = "Release" // nothing is left: let the object go
)

// Action is the next action and its reason. After is the pause before the next look; with 0, an event wakes the object.
type Action struct {
	Kind    ActionKind
	Reason  string
	Message string
	After   time.Duration
}

type rule func(observed) (Action, bool)

// applyRules decide for an object that is not being deleted. The first matching rule wins. The order allows one run at
// a time, never recreates a lost VM, and lets a changed input skip the backoff.
var applyRules = []rule{
	runInFlight,
	stateUnusable,
	vmLost,
	inputsMissing,
	alreadyApplied,
	backingOff,
	func(observed) (Action, bool) { return Action{Kind: Apply, Reason: infrav1.ApplyingReason}, true },
}

// destroyRules decide for an object that is being deleted. It may go if its state is empty and nothing may exist in the
// engine. The lack of a successful run is not enough, because a failed run can leave a VM.
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

// chooseAction returns the action of the first matching rule.
func chooseAction(rules []rule, o observed) Action {
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

	// A run done here ended after the search for its result. The next pass records it first.
	return Action{
		Kind:    Wait,
		After:   retryAfter,
		Reason:  infrav1.ApplyingReason,
		Message: fmt.Sprintf("Terraform %s is %s", o.run.Operation, o.run.Phase),
	}, true
}

// cancelApply interrupts the apply of an object that is being deleted.
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

func vmLost(o observed) (Action, bool) {
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

func alreadyApplied(o observed) (Action, bool) {
	return Action{Kind: None, Reason: infrav1.AppliedReason}, o.Digest == o.applied && !o.Drifted && !o.unsaved
}

func nothingLeft(o observed) (Action, bool) {
	return Action{Kind: Release}, o.stateEmpty && !o.MayExist
}

func backingOff(o observed) (Action, bool) {
	if o.failure.Count == 0 || o.Digest != o.failure.Digest {
		return Action{}, false
	}

	left := o.failure.At.Add(computeBackoff(o.failure.Count)).Sub(o.now)

	return Action{Kind: Wait, Reason: infrav1.ApplyFailedReason, After: left}, left > 0
}

// computeBackoff returns the pause after the n-th failure in a row: 5 s, doubling, at most 5 min. It never overflows.
func computeBackoff(failures int) time.Duration {
	const first, most = 5 * time.Second, 5 * time.Minute
	return min(first<<min(max(failures-1, 0), 10), most)
}
