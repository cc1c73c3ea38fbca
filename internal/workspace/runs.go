package workspace

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

// RunQueue holds the Terraform runs of all workspaces in a process. They have one common limit, because they share the
// memory of the process.
type RunQueue struct {
	Executor Executor
	// WorkDir holds one working directory per workspace, in a folder per namespace.
	WorkDir string
	// Client writes annotations. It also writes states if States is nil.
	Client client.Client
	// States writes states. Its fence lets a process save its results until another process leads, because a new leader
	// may already have deleted the object.
	States client.Client
	// APIReader reads without the cache. It is for reads that must not be stale.
	APIReader client.Reader
	// Metadata is a cache of the metadata of Secrets. If it is nil, each pass reads each state again.
	Metadata client.Reader
	// Fence is called before each apply. It fails if this process may no longer act, because a suspended process may
	// not have noticed a new leader. A nil Fence allows everything. It is for a process without competitors.
	Fence func(ctx context.Context) error

	// DriftInterval is the interval between two drift checks of an object. 0 disables them.
	DriftInterval time.Duration

	runner *terraform.Runner
	// started is the time at which the process started.
	started time.Time

	mu sync.Mutex
	// checked is the workspace that has the turn for a drift check, or nil. checkedSince is the time at which it got
	// the turn.
	checked      *Key
	checkedSince time.Time
	failures     map[Key]Failure
	// counted holds the end time of the last counted run of each workspace.
	counted map[Key]time.Time
	woken   map[string]chan event.GenericEvent // by the kind of the objects
}

// NewRunQueue returns a queue for at most concurrency runs at once. It interrupts a run after limit.
func NewRunQueue(concurrency int, limit time.Duration) *RunQueue {
	r := &RunQueue{
		started:  time.Now(),
		failures: map[Key]Failure{},
		counted:  map[Key]time.Time{},
		woken:    map[string]chan event.GenericEvent{},
	}
	r.runner = terraform.NewRunner(concurrency, limit, func(key string) {
		r.countJobs()
		r.releaseCheck(parseKey(key))
		r.WakeObject(parseKey(key))
	})
	jobsLimit.Set(float64(concurrency))

	return r
}

// Start waits until the manager stops. It then lets the runs save their states, while the manager still serves. The
// manager calls Start as a Runnable, and waits only for a limited time until it returns.
func (r *RunQueue) Start(ctx context.Context) error {
	<-ctx.Done()
	r.Shutdown(math.MaxInt64)

	return nil
}

// Shutdown starts no more runs, and interrupts the current ones. It waits at most grace until they have saved their
// states. After the manager has lost the lease, it does not wait for its Runnables, so main also calls Shutdown.
func (r *RunQueue) Shutdown(grace time.Duration) bool { return r.runner.Shutdown(grace) }

// HasRuns reports whether runs are queued or running.
func (r *RunQueue) HasRuns() bool {
	queued, running := r.runner.CountActive()

	return queued+running > 0
}

// MayAct calls the fence, and returns its error.
func (r *RunQueue) MayAct(ctx context.Context) error {
	if r.Fence == nil {
		return nil
	}

	return r.Fence(ctx)
}

// submitJob queues a job. During a shutdown, it ignores the job without an error.
func (r *RunQueue) submitJob(job terraform.Job) error {
	_, err := r.runner.Submit(job)
	r.countJobs()
	if errors.Is(err, terraform.ErrShuttingDown) {
		return nil
	}

	return err
}

// IsInFlight reports whether a job of a workspace is queued or running.
func (r *RunQueue) IsInFlight(key Key) bool {
	status, ok := r.runner.GetStatus(key.String())

	return ok && status.Phase != terraform.Done
}

// getFinishedRun returns the finished job of a workspace. It returns false if the job has not finished, or was dropped.
func (r *RunQueue) getFinishedRun(key Key) (terraform.Status, bool) {
	status, ok := r.runner.GetStatus(key.String())

	return status, ok && status.Phase == terraform.Done
}

// getFailure returns the failure of a workspace's last run. It returns zero if the run succeeded.
func (r *RunQueue) getFailure(key Key) Failure {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.failures[key]
}

// countEnded counts a finished run and returns its failure, or zero if it succeeded. first is false if an earlier pass
// has counted the run, but failed to patch the object.
func (r *RunQueue) countEnded(key Key, run terraform.Status) (failure Failure, first bool) {
	first = r.noteEnd(key, run)

	r.mu.Lock()
	defer r.mu.Unlock()

	if run.Err == nil {
		delete(r.failures, key)
	} else if first {
		r.failures[key] = Failure{Digest: run.Digest, Count: r.failures[key].Count + 1, At: run.Ended, Err: run.Err}
	}

	return r.failures[key], first
}

// noteEnd records the end of a job, and reports whether it is new. A pass sees the same end again if the last patch of
// the object failed.
func (r *RunQueue) noteEnd(key Key, run terraform.Status) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	first := !r.counted[key].Equal(run.Ended)
	r.counted[key] = run.Ended

	return first
}

// dropFailure forgets the failure of a workspace.
func (r *RunQueue) dropFailure(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failures, key)
}

// dropWorkspace forgets the failure and the last end time of a workspace.
func (r *RunQueue) dropWorkspace(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failures, key)
	delete(r.counted, key)
}

// acquireCheck requests the turn for a drift check, and reports whether the workspace has it. Only one workspace has
// the turn at a time.
func (r *RunQueue) acquireCheck(key Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.checked != nil && *r.checked != key {
		// A tenant with many runs must not block the checks of others, so cancel a check that has waited too long. Its
		// workspace requests the turn again.
		run, ok := r.runner.GetStatus(r.checked.String())
		if ok && run.Phase == terraform.Queued && time.Since(r.checkedSince) > checkLimit {
			r.runner.CancelJob(r.checked.String())
		}

		return false
	}

	r.checked, r.checkedSince = &key, time.Now()

	return true
}

// releaseCheck ends the turn of a workspace if it has the turn.
func (r *RunQueue) releaseCheck(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.checked != nil && *r.checked == key {
		r.checked = nil
	}
}

func (r *RunQueue) countJobs() {
	queued, running := r.runner.CountActive()
	jobs.WithLabelValues("queued").Set(float64(queued))
	jobs.WithLabelValues("running").Set(float64(running))
}
