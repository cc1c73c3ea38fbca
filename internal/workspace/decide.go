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

// Facts are what the controller knows about its object, as far as the decision needs it.
type Facts struct {
	// Ready reports whether a run has everything it needs: inputs, engine, resolved names.
	Ready bool
	// Digest is the digest of the wanted configuration. Destroy does not need it.
	Digest string
	// Drifted reports whether the engine differs from the applied configuration.
	Drifted bool
	// MayExist reports whether a run was submitted. Resources may then exist or have existed, even if the state lacks
	// them.
	MayExist bool
	// Seen reports whether the engine has shown the created VM in this pass, after the last run.
	Seen bool
	// Lost reports whether the engine answered that it does not have the created VM.
	Lost bool
	// ShutdownLeft is how long the guest may still take to shut down by itself. It is 0 if no run waits for the guest.
	ShutdownLeft time.Duration
}

// observed is the complete input of a decision. It is plain data, and it includes the current time.
type observed struct {
	Facts
	now time.Time
	// run is a queued or running job, or a finished one that is not recorded yet. It is nil if there is none.
	run *terraform.Status
	// failure describes the last run if it failed.
	failure Failure
	// stateInvalid reports whether the stored state is unusable. stateEmpty reports whether it has no resources.
	stateInvalid, stateEmpty bool
	// applied is the digest of the last applied configuration.
	applied string
	// unsaved reports whether a run has left an unsaved state in the working directory. Another run saves it.
	unsaved bool
}

// ActionKind is the kind of an action.
type ActionKind string

// The kinds of actions.
const (
	None    ActionKind = "None"    // nothing to do
	Wait    ActionKind = "Wait"    // something else has to happen first
	Block   ActionKind = "Block"   // an administrator has to act
	Apply   ActionKind = "Apply"   // submit a run
	Destroy ActionKind = "Destroy" // submit a run that destroys
	Cancel  ActionKind = "Cancel"  // interrupt the run
	Release ActionKind = "Release" // nothing is left, so the finalizer can be removed
)

// Action is the next action and its reason. After is the pause before the next look. If it is 0, an event wakes the
// object.
type Action struct {
	Kind    ActionKind
	Reason  string
	Message string
	After   time.Duration
}

type rule func(observed) (Action, bool)

// applyRules decide for an object that is not being deleted. The first matching rule wins. The order ensures that only
// one run is active at a time. A lost VM is never created again, and a changed input skips the backoff.
var applyRules = []rule{
	runInFlight,
	stateUnusable,
	vmLost,
	inputsMissing,
	alreadyApplied,
	backingOff,
	func(observed) (Action, bool) { return Action{Kind: Apply, Reason: infrav1.ApplyingReason}, true },
}

// destroyRules decide for an object that is being deleted. The object may go if its state is empty and the engine can
// have no resource of it. It is not enough that no run succeeded, because a failed run can leave a VM.
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

	// The run may have ended after Observe looked for a finished one. The next pass records it first.
	return Action{
		Kind:    Wait,
		After:   retryAfter,
		Reason:  infrav1.ApplyingReason,
		Message: fmt.Sprintf("Terraform %s is %s", o.run.Operation, o.run.Phase),
	}, true
}

// cancelApply interrupts the apply for an object that is being deleted.
func cancelApply(o observed) (Action, bool) {
	if o.run == nil || o.run.Phase == terraform.Done || o.run.Operation != terraform.Apply {
		return Action{}, false
	}

	return Action{
		Kind:    Cancel,
		Reason:  infrav1.WaitingForTerraformReason,
		Message: "Waiting for the current Terraform run to stop before the deletion",
	}, true
}

func stateUnusable(o observed) (Action, bool) {
	return Action{Kind: Block, Reason: infrav1.StateInvalidReason, After: repairAfter}, o.stateInvalid
}

func vmLost(o observed) (Action, bool) {
	return Action{
		Kind:   Block,
		Reason: infrav1.VirtualMachineNotFoundReason,
		Message: "The VM no longer exists in the engine, and is not recreated; see VirtualMachineRunning for the " +
			"remedy",
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
		Message: "Waiting for the guest to shut down; its power is cut after shutdown.timeoutSeconds",
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

// computeBackoff returns the pause after the n-th failure in a row: 5 s, then twice as long each time, at most 5 min.
// It never overflows.
func computeBackoff(failures int) time.Duration {
	const first, most = 5 * time.Second, 5 * time.Minute
	return min(first<<min(max(failures-1, 0), 10), most)
}
