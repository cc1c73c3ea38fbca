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

// RunQueue has the Terraform runs of all workspaces of a process. They share one bound, because they share its memory.
type RunQueue struct {
	Executor Executor
	// WorkDir holds a working directory per workspace, in a folder per namespace.
	WorkDir string
	// Client writes annotations, and states where States is nil.
	Client client.Client
	// States writes states. Its fence keeps nothing from being saved by the process that made it, unless another
	// process leads: that one may have made the object's end.
	States client.Client
	// APIReader reads past the cache, where an old answer would do harm.
	APIReader client.Reader
	// Metadata is a cache of the metadata of Secrets; nil has each state read again in each pass.
	Metadata client.Reader
	// Fence is asked before anything is applied whether this process may still act: a process that was halted may not
	// have noticed that another one leads. nil means that there is no other.
	Fence func(ctx context.Context) error

	// DriftInterval is how often each object is checked for drift; 0 means not at all.
	DriftInterval time.Duration

	runner *terraform.Runner
	// started is when the process began.
	started time.Time

	mu sync.Mutex
	// checked is the workspace that is being checked for drift, and checkedSince when that was asked for.
	checked      *Key
	checkedSince time.Time
	failures     map[Key]Failure
	// counted is when the run ended that was counted last.
	counted map[Key]time.Time
	woken   map[string]chan event.GenericEvent // by kind
}

// NewRunQueue returns a queue that runs at most concurrency jobs at once, and interrupts each after limit.
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

// Start waits for the end of the manager, and lets the runs save their state while the manager still serves. It is a
// Runnable of the manager, which bounds it.
func (r *RunQueue) Start(ctx context.Context) error {
	<-ctx.Done()
	r.Shutdown(math.MaxInt64)

	return nil
}

// Shutdown starts no more runs, interrupts those that are going, and waits for as long as the grace until their state
// is saved. The manager does not wait for its Runnables when it has lost the lease, so main calls this too.
func (r *RunQueue) Shutdown(grace time.Duration) bool { return r.runner.Shutdown(grace) }

// Busy reports whether runs go or are queued.
func (r *RunQueue) Busy() bool {
	queued, running := r.runner.Active()

	return queued+running > 0
}

// MayAct asks the fence.
func (r *RunQueue) MayAct(ctx context.Context) error {
	if r.Fence == nil {
		return nil
	}

	return r.Fence(ctx)
}

// submit queues a job. It ignores the refusal of a process that is shutting down.
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

// ended is the job of a workspace that is done, and not forgotten yet.
func (r *RunQueue) ended(key Key) (terraform.Status, bool) {
	status, ok := r.runner.Observe(key.String())

	return status, ok && status.Phase == terraform.Done
}

// failure is the last run of a workspace, where it failed.
func (r *RunQueue) failure(key Key) Failure {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.failures[key]
}

// count counts how a run ended, and returns the failure that it was; zero where it succeeded. first is false where the
// run was counted before, because the patch of its object failed since.
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

// noticed reports whether the end of a job is news: it is seen again where the patch of its object failed since.
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

// forget drops what is known of the ends of a workspace's runs.
func (r *RunQueue) forget(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failures, key)
	delete(r.counted, key)
}

// takeCheck reports whether a workspace may be checked for drift now; another one may be.
func (r *RunQueue) takeCheck(key Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.checked != nil && *r.checked != key {
		// A tenant with many runs must not keep the others from being checked: what waits too long is asked for again.
		run, ok := r.runner.Observe(r.checked.String())
		if ok && run.Phase == terraform.Queued && time.Since(r.checkedSince) > checkLimit {
			r.runner.Cancel(r.checked.String())
		}

		return false
	}

	r.checked, r.checkedSince = &key, time.Now()

	return true
}

// giveCheck ends the check of a workspace.
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
