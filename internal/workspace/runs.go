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

// RunQueue holds the Terraform runs of all workspaces of a process. They share one limit, because they share the
// process's memory.
type RunQueue struct {
	Executor Executor
	// WorkDir holds one working directory per workspace, in a folder per namespace.
	WorkDir string
	// Client writes annotations. If States is nil, it also writes states.
	Client client.Client
	// States writes states. Its fence stops no process from saving its own results until another process leads. The new
	// leader may already have deleted the object.
	States client.Client
	// APIReader reads past the cache if an old answer would do harm.
	APIReader client.Reader
	// Metadata is a cache of Secret metadata. If nil, each pass reads each state again.
	Metadata client.Reader
	// Fence is called before anything is applied. It fails if this process may no longer act: a halted process may not
	// have noticed a new leader. If nil, there is no other process.
	Fence func(ctx context.Context) error

	// DriftInterval is the interval between two drift checks of an object. 0 disables them.
	DriftInterval time.Duration

	runner *terraform.Runner
	// started is the start of the process.
	started time.Time

	mu sync.Mutex
	// checked is the workspace with the current drift check. checkedSince is the time of its request.
	checked      *Key
	checkedSince time.Time
	failures     map[Key]Failure
	// counted is the end of the last counted run.
	counted map[Key]time.Time
	woken   map[string]chan event.GenericEvent // by kind
}

// NewRunQueue returns a queue for at most concurrency runs at once. It interrupts each run after limit.
func NewRunQueue(concurrency int, limit time.Duration) *RunQueue {
	r := &RunQueue{
		started:  time.Now(),
		failures: map[Key]Failure{},
		counted:  map[Key]time.Time{},
		woken:    map[string]chan event.GenericEvent{},
	}
	r.runner = terraform.NewRunner(concurrency, limit, func(key string) {
		r.countJobs()
		r.giveCheck(parseKey(key))
		r.Wake(parseKey(key))
	})
	jobsLimit.Set(float64(concurrency))

	return r
}

// Start waits for the end of the manager. It then lets the runs save their states while the manager still serves. Start
// is a Runnable of the manager. The manager limits its duration.
func (r *RunQueue) Start(ctx context.Context) error {
	<-ctx.Done()
	r.Shutdown(math.MaxInt64)

	return nil
}

// Shutdown starts no more runs and interrupts the current ones. It waits up to grace until their states are saved. The
// manager does not wait for its Runnables after losing the lease, so main calls Shutdown too.
func (r *RunQueue) Shutdown(grace time.Duration) bool { return r.runner.Shutdown(grace) }

// Busy reports whether runs are queued or running.
func (r *RunQueue) Busy() bool {
	queued, running := r.runner.Active()

	return queued+running > 0
}

// MayAct calls the fence.
func (r *RunQueue) MayAct(ctx context.Context) error {
	if r.Fence == nil {
		return nil
	}

	return r.Fence(ctx)
}

// submit queues a job. It ignores the refusal during a shutdown.
func (r *RunQueue) submit(job terraform.Job) error {
	_, err := r.runner.Submit(job)
	r.countJobs()
	if errors.Is(err, terraform.ErrShuttingDown) {
		return nil
	}

	return err
}

// IsInFlight reports whether a job of a workspace is queued or running.
func (r *RunQueue) IsInFlight(key Key) bool {
	status, ok := r.runner.Observe(key.String())

	return ok && status.Phase != terraform.Done
}

// ended returns the finished job of a workspace, unless it is already forgotten.
func (r *RunQueue) ended(key Key) (terraform.Status, bool) {
	status, ok := r.runner.Observe(key.String())

	return status, ok && status.Phase == terraform.Done
}

// failure returns the last run of a workspace if it failed.
func (r *RunQueue) failure(key Key) Failure {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.failures[key]
}

// count counts a finished run and returns its failure, or zero if it succeeded. first is false if an earlier pass
// counted the run, but failed to patch its object.
func (r *RunQueue) count(key Key, run terraform.Status) (failure Failure, first bool) {
	first = r.noticed(key, run)

	r.mu.Lock()
	defer r.mu.Unlock()

	if run.Err == nil {
		delete(r.failures, key)
	} else if first {
		r.failures[key] = Failure{Digest: run.Digest, Count: r.failures[key].Count + 1, At: run.Ended, Err: run.Err}
	}

	return r.failures[key], first
}

// noticed reports whether the end of a job is news. A pass sees it again if the previous patch of the object failed.
func (r *RunQueue) noticed(key Key, run terraform.Status) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	first := !r.counted[key].Equal(run.Ended)
	r.counted[key] = run.Ended

	return first
}

// forgive drops the failure of a workspace.
func (r *RunQueue) forgive(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failures, key)
}

// forget drops all data about the ends of a workspace's runs.
func (r *RunQueue) forget(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failures, key)
	delete(r.counted, key)
}

// takeCheck reports whether a workspace may be checked for drift now. Only one workspace has the turn.
func (r *RunQueue) takeCheck(key Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.checked != nil && *r.checked != key {
		// A tenant with many runs must not block the checks of others. Cancel a check after too long a wait; its
		// workspace asks again.
		run, ok := r.runner.Observe(r.checked.String())
		if ok && run.Phase == terraform.Queued && time.Since(r.checkedSince) > checkLimit {
			r.runner.Cancel(r.checked.String())
		}

		return false
	}

	r.checked, r.checkedSince = &key, time.Now()

	return true
}

// giveCheck ends the turn of a workspace.
func (r *RunQueue) giveCheck(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.checked != nil && *r.checked == key {
		r.checked = nil
	}
}

func (r *RunQueue) countJobs() {
	queued, running := r.runner.Active()
	jobs.WithLabelValues("queued").Set(float64(queued))
	jobs.WithLabelValues("running").Set(float64(running))
}
