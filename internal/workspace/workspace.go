package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/steadytext"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// longestEvent limits the text of an event in bytes. The API accepts 1,024 characters.
const longestEvent = 900

// destroyDigest is the digest of the empty configuration.
const destroyDigest = "destroy"

// Kind has everything that the workspaces for one kind of object have in common.
type Kind struct {
	// Name is the kind, such as OLVMMachine. New returns an empty object of the kind.
	Name string
	New  func() client.Object
	// Prefix separates the states and working directories of objects of different kinds with the same name. At most one
	// kind has no prefix.
	Prefix string
	Runs   *RunQueue
	// Recorder records events about finished runs.
	Recorder events.EventRecorder
	// ChecksDrift enables drift checks for the kind.
	ChecksDrift bool
	// Status returns a pointer to the Terraform part of an object's status.
	Status func(object client.Object) **infrav1.TerraformStatus

	states *tfstate.Store
}

// NewKind returns a kind with the missing fields filled in.
func NewKind(kind Kind) *Kind {
	states := kind.Runs.States
	if states == nil {
		states = kind.Runs.Client
	}

	kind.states = &tfstate.Store{
		Client:   states,
		Reader:   kind.Runs.APIReader,
		Prefix:   kind.Prefix,
		Metadata: kind.Runs.Metadata,
	}

	return &kind
}

// Key returns the key of an object's workspace.
func (k *Kind) Key(object types.NamespacedName) Key {
	return Key{Kind: k.Name, Namespace: object.Namespace, Name: object.Name}
}

// Object is an object that may have a workspace.
type Object interface {
	client.Object
	conditions.Setter
}

// Open opens the workspace of an object for one pass. The controller writes the object at the end of the pass. cluster
// is the name of the object's Cluster, or "".
func (k *Kind) Open(of *pass.Pass, object Object, cluster string) *Workspace {
	key := k.Key(client.ObjectKeyFromObject(object))

	return &Workspace{kind: k, pass: of, object: object, cluster: cluster, key: key}
}

// CleanUpDeleted cleans up after a deleted object, even if a user has removed the finalizer by hand. A run in flight
// keeps its directory, and wakes the object when it ends.
func (k *Kind) CleanUpDeleted(object types.NamespacedName) error {
	key := k.Key(object)
	if k.Runs.IsInFlight(key) {
		return nil
	}

	if run, ok := k.Runs.getFinishedRun(key); ok {
		k.Runs.runner.DropJob(key.String(), run.Ended)
	}

	k.Runs.dropWorkspace(key)
	k.states.DropOwner(object)

	return removeFolders(filepath.Join(k.Runs.WorkDir, object.Namespace), k.Prefix+object.Name)
}

// Workspace is the Terraform root of one object in one pass of its controller.
type Workspace struct {
	kind    *Kind
	pass    *pass.Pass
	object  Object
	cluster string
	key     Key
	// recorded is the end time of the run that Observe has recorded, or zero.
	recorded time.Time
}

// Observation is what Observe found. Apply and Destroy decide on it.
type Observation struct {
	// State is a summary of the stored state: IDs and the applied digest. It is nil if no state is stored.
	State *tfstate.State
	// StateErr says why the stored state is unusable; an administrator has to act.
	StateErr error
	// StateUnread reports that the state could not be read this time, so no decision is possible.
	StateUnread bool
	// Ended is the run finished since the last pass, or nil.
	Ended *terraform.Status
	// Failure is the last run if it failed.
	Failure Failure
}

func (w *Workspace) runQueue() *RunQueue { return w.kind.Runs }

// Key returns the key of the workspace.
func (w *Workspace) Key() Key { return w.key }

// IsInFlight reports whether a run of the workspace is queued or running.
func (w *Workspace) IsInFlight() bool {
	return w.runQueue().IsInFlight(w.key)
}

// HasUnsavedState reports whether a run has left a state in the working directory. This state may be stored nowhere
// else. The next run begins with it.
func (w *Workspace) HasUnsavedState() bool { return terraform.HasUnsavedState(w.workDir()) }

// HasBegun reports whether a run of the workspace has begun, or has ended without being recorded yet.
func (w *Workspace) HasBegun() bool {
	run, ok := w.runQueue().runner.GetStatus(w.key.String())

	return ok && run.Phase != terraform.Queued
}

// workDir returns the working directory.
func (w *Workspace) workDir() string {
	return filepath.Join(w.runQueue().WorkDir, w.object.GetNamespace(),
		folderName(w.kind.Prefix+w.object.GetName(), w.object.GetUID()))
}

// ensureStatus returns the Terraform part of the object's status, and creates it if necessary.
func (w *Workspace) ensureStatus() *infrav1.TerraformStatus {
	status := w.kind.Status(w.object)
	if *status == nil {
		*status = &infrav1.TerraformStatus{}
	}

	return *status
}

// Observe records a finished run and reads the state. It returns an error if the state could not be read.
func (w *Workspace) Observe(ctx context.Context) (Observation, error) {
	seen := w.observeRun(ctx)
	if !w.object.GetDeletionTimestamp().IsZero() && IsMoving(w.object) {
		return seen, nil // the state belongs to the other management cluster
	}

	if err := w.recoverState(ctx); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Leaving the unsaved state in the working directory to the next run")
	}

	err := w.observeState(ctx, &seen)
	if w.isRebuilt(seen.State) {
		w.runQueue().WakeObject(w.key) // the mark of the run stays until the new lineage is in the status
	} else {
		w.unblockMove()
	}

	return seen, err
}

// isRebuilt reports whether a run has begun another lineage than the one in the object's status.
func (w *Workspace) isRebuilt(state *tfstate.State) bool {
	before := *w.kind.Status(w.pass.ObjectBefore())

	return state != nil && before != nil && before.StateLineage != "" && before.StateLineage != state.Lineage
}

// observeRun records the finished run in the status, as an event, in the log and in the metrics.
func (w *Workspace) observeRun(ctx context.Context) Observation {
	seen := Observation{Failure: w.runQueue().getFailure(w.key)}

	run, ok := w.runQueue().getFinishedRun(w.key)
	if !ok {
		return seen
	}

	w.recorded = run.Ended
	if errors.Is(run.Err, terraform.ErrCancelled) || errors.Is(run.Err, terraform.ErrShuttingDown) {
		return seen // the run did not fail, but was no longer wanted
	}

	if run.Operation == terraform.Check {
		w.recordCheck(ctx, run)
		return seen
	}

	seen.Ended = &run
	report := recordRun(w.ensureStatus(), w.kind.states.SecretName(w.object), run)

	var first bool
	if seen.Failure, first = w.runQueue().countEnded(w.key, run); first {
		countRun(run, report.Result)
		w.announceRun(ctx, run, report)
	}

	return seen
}

func (w *Workspace) announceRun(ctx context.Context, run terraform.Status, report *infrav1.TerraformRun) {
	operation := string(run.Operation)
	seconds := run.Ended.Sub(run.Started).Seconds()
	log := ctrl.LoggerFrom(ctx).WithValues("operation", operation, "seconds", seconds)

	if run.Err != nil {
		log.Error(run.Err, "Terraform run failed")
		w.kind.Recorder.Eventf(w.object, nil, corev1.EventTypeWarning, "Failed"+operation, operation,
			"%s", steadytext.Shorten(run.Err.Error(), longestEvent))

		return
	}

	log.Info("Terraform run succeeded", "added", report.Added, "changed", report.Changed, "destroyed", report.Destroyed)
	w.kind.Recorder.Eventf(w.object, nil, corev1.EventTypeNormal, "Successful"+operation, operation,
		"Terraform run succeeded in %.1f s: %d added, %d changed, %d destroyed",
		seconds, report.Added, report.Changed, report.Destroyed)
}

// observeState reads the state, and restores the owner, labels and finalizer of its Secret.
func (w *Workspace) observeState(ctx context.Context, seen *Observation) error {
	if w.isUntouched() && w.kind.states.CheckNoState(ctx, w.object) {
		return nil
	}

	state, err := w.kind.states.LoadAndRepair(ctx, w.object, w.cluster)

	var invalid *tfstate.InvalidError
	switch {
	case errors.As(err, &invalid):
		return w.refuseState(ctx, seen, invalid)
	case err != nil:
		seen.StateUnread = true
		return err
	case state == nil:
		return nil
	}

	if err := recordState(w.ensureStatus(), w.kind.states.SecretName(w.object), state, w.canHaveActed()); err != nil {
		return w.refuseState(ctx, seen, err)
	}

	seen.State = state

	return nil
}

// recoverState saves a state that a run has left in the working directory. Either the API server had refused it, or the
// manager was killed before it cleaned up. If the state is already saved, recoverState only removes it. It also removes
// the leftovers of a killed check.
func (w *Workspace) recoverState(ctx context.Context) error {
	if w.IsInFlight() {
		return nil
	}

	if err := os.RemoveAll(filepath.Join(w.workDir(), checkDir)); err != nil {
		return fmt.Errorf("failed to remove the files of a check: %w", err)
	}

	if !w.HasUnsavedState() {
		return nil
	}

	if err := terraform.CheckReadable(w.workDir()); err != nil {
		return err
	}

	defer w.kind.states.EndJob(w.object)

	keeper := w.newKeeper(w.object)
	saved, err := keeper.Load(ctx)
	if err != nil {
		return err
	}

	if state := terraform.ReadLeftover(w.workDir(), saved.Bytes()); state != nil {
		if err := keeper.Save(ctx, state, ""); err != nil {
			return err
		}
	}

	return terraform.CleanDir(w.workDir())
}

// isUntouched reports whether no run was ever recorded on the object.
func (w *Workspace) isUntouched() bool { return !w.canHaveActed() && *w.kind.Status(w.object) == nil }

// canHaveActed reports whether a run may have acted for the object since the last pass.
func (w *Workspace) canHaveActed() bool {
	_, blocked := w.pass.ObjectBefore().GetAnnotations()[clusterctlv1.BlockMoveAnnotation]

	return blocked
}

// refuseState records why the state is unusable. A deletion ignores the error after a user has deleted the Secret.
func (w *Workspace) refuseState(ctx context.Context, seen *Observation, reason error) error {
	seen.StateErr = reason
	if w.object.GetDeletionTimestamp().IsZero() {
		return nil
	}

	givenUp, err := w.kind.states.ReleaseGivenUp(ctx, w.object)
	if err != nil {
		seen.StateUnread = true
		return err
	}

	if givenUp {
		seen.StateErr = nil
	}

	return nil
}

// DropRecordedRun forgets the run that Observe has recorded. Call it only after the object is patched, because until
// then another pass must see the run, too.
func (w *Workspace) DropRecordedRun() {
	if !w.recorded.IsZero() {
		w.runQueue().runner.DropJob(w.key.String(), w.recorded)
	}
}

// ForgetUserData removes the user data of VMs from the state, and reads the state again into seen. Call it only if no
// run is in flight.
func (w *Workspace) ForgetUserData(ctx context.Context, seen *Observation) error {
	if err := w.kind.states.ForgetUserData(ctx, w.object, w.cluster); err != nil {
		return err
	}

	return w.observeState(ctx, seen)
}

// Request is what a controller asks of its workspace in a pass.
type Request struct {
	Facts
	// Engine is the engine of the run. All runs on one engine share the engine's places in the queue.
	Engine string
	// Annotations are written to the object before a run can create anything.
	Annotations map[string]string
	// Subject returns the subject of the run. It is called only if a run is necessary, and after the object has the
	// annotations.
	Subject func() Subject
}

// Apply decides on the next action for an object that is not being deleted. It submits a run if needed. It removes a
// failure from seen if the failed attempt is no longer wanted.
func (w *Workspace) Apply(ctx context.Context, seen *Observation, request Request) (Action, error) {
	action := chooseAction(applyRules, w.gatherFacts(*seen, request.Facts))

	if action.Kind == None && seen.Failure.Count > 0 {
		w.runQueue().dropFailure(w.key)
		seen.Failure = Failure{}
	}

	switch {
	case action.Kind == None && !w.isChecking():
		after, err := w.submitDueCheck(ctx, seen.State, request)
		action.After = after

		return action, err
	case action.Kind != Apply:
		return action, nil
	case w.interruptCheck():
		return waitForCheck(action), nil
	}

	return action, w.submitRun(ctx, terraform.Apply, request)
}

// isChecking reports whether a drift check is queued or running. Only decisions that want a run need it.
func (w *Workspace) isChecking() bool {
	run, ok := w.runQueue().runner.GetStatus(w.key.String())

	return ok && run.Operation == terraform.Check && run.Phase != terraform.Done
}

// interruptCheck interrupts a check that delays a run, and reports whether there was one. The end of the check wakes
// the object.
func (w *Workspace) interruptCheck() bool {
	if !w.isChecking() {
		return false
	}

	w.runQueue().runner.CancelJob(w.key.String())

	return true
}

// waitForCheck returns the action that waits for an interrupted check.
func waitForCheck(wanted Action) Action {
	return Action{
		Kind:    Wait,
		After:   retryAfter,
		Reason:  wanted.Reason,
		Message: "Waiting for a check for drift to stop",
	}
}

// Destroy decides on the next action for an object that is being deleted. It submits or interrupts a run if needed.
// After the action Release nothing is left in the engine, and Remove removes the workspace.
func (w *Workspace) Destroy(ctx context.Context, seen Observation, request Request) (Action, error) {
	request.Digest = destroyDigest
	if seen.Ended != nil && seen.Ended.Err == nil && seen.Ended.Operation == terraform.Destroy {
		request.MayExist = request.Seen // the run left nothing, unless the engine shows otherwise
	}

	action := chooseAction(destroyRules, w.gatherFacts(seen, request.Facts))

	switch action.Kind {
	case Cancel:
		w.runQueue().runner.CancelJob(w.key.String())
	case Destroy:
		if w.interruptCheck() {
			return waitForCheck(action), nil
		}

		return action, w.submitRun(ctx, terraform.Destroy, request)
	}

	return action, nil
}

// Remove removes the workspace and its state. The state must be empty.
func (w *Workspace) Remove(ctx context.Context) error {
	if err := w.kind.states.Delete(ctx, w.object); err != nil {
		return err
	}

	if err := os.RemoveAll(w.workDir()); err != nil {
		return fmt.Errorf("failed to remove the working directory: %w", err)
	}

	w.runQueue().dropWorkspace(w.key)

	return nil
}

// gatherFacts adds the facts of the workspace to those of the controller.
func (w *Workspace) gatherFacts(seen Observation, facts Facts) observed {
	o := observed{
		Facts:        facts,
		now:          time.Now(),
		failure:      seen.Failure,
		stateInvalid: seen.StateErr != nil,
		stateEmpty:   seen.State.Empty(),
	}
	if seen.State != nil {
		o.applied = seen.State.AppliedDigest
	}

	run, ok := w.runQueue().runner.GetStatus(w.key.String())
	recorded := !w.recorded.IsZero() && run.Phase == terraform.Done
	if ok && !recorded && run.Operation != terraform.Check {
		o.run = &run
	}

	o.unsaved = o.run == nil && w.HasUnsavedState()

	return o
}
