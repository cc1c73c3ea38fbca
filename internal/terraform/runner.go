package terraform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrShuttingDown is the error of runs refused or interrupted because the process ends.
var ErrShuttingDown = errors.New("the controller is shutting down")

// ErrCancelled is the error of a run interrupted by CancelJob.
var ErrCancelled = errors.New("the run was cancelled")

// Operation is the kind of a run.
type Operation string

// These are the operations.
const (
	Apply   Operation = "Apply"
	Destroy Operation = "Destroy"
	// Check looks for drift. It creates a plan, but does not apply it.
	Check Operation = "Check"
)

// Job is a request for a run in one workspace.
type Job struct {
	// Key identifies the workspace. A workspace has at most one job at a time.
	Key string
	// Tenant is the namespace of the job, and Engine its engine. Neither may take all places while others exist.
	Tenant, Engine string
	// Operation and Digest identify the job for the caller.
	Operation Operation
	Digest    string
	// Limit is the time limit of the job if it is shorter than the runner's. 0 means the runner's.
	Limit time.Duration
	// Run is called when the job gets its place. CancelJob and Shutdown end ctx.
	Run func(ctx context.Context) (Summary, error)
}

// Phase is the phase of a job.
type Phase string

// These are the phases.
const (
	Queued  Phase = "Queued"
	Running Phase = "Running"
	Done    Phase = "Done"
)

// Status is a copy of the status of a job.
type Status struct {
	Operation Operation
	Digest    string
	Phase     Phase
	// Started and Ended are zero before these events.
	Started, Ended time.Time
	Summary        Summary
	Err            error
}

// Runner runs jobs with limited concurrency. The limit saves memory, because a run takes about 100 MB while the engine
// works.
type Runner struct {
	queue   *fairQueue
	timeout time.Duration
	notify  func(key string)
	ctx     context.Context
	cancel  context.CancelCauseFunc
	wg      sync.WaitGroup

	mu     sync.Mutex
	jobs   map[string]*tracked
	closed bool
}

type tracked struct {
	status Status
	cancel context.CancelCauseFunc
}

// NewRunner returns a runner for at most concurrency jobs at once. It interrupts a job after the timeout, and calls
// notify with the key of each finished job.
func NewRunner(concurrency int, timeout time.Duration, notify func(key string)) *Runner {
	ctx, cancel := context.WithCancelCause(context.Background())

	return &Runner{
		queue:   newFairQueue(concurrency),
		timeout: timeout,
		notify:  notify,
		ctx:     ctx,
		cancel:  cancel,
		jobs:    map[string]*tracked{},
	}
}

// Submit queues a job. If the workspace has an unfinished job, Submit returns its status and changes nothing.
func (r *Runner) Submit(job Job) (Status, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return Status{}, ErrShuttingDown
	}

	if existing := r.jobs[job.Key]; existing != nil && existing.status.Phase != Done {
		return existing.status, nil
	}

	ctx, cancel := context.WithCancelCause(r.ctx)
	t := &tracked{status: Status{Operation: job.Operation, Digest: job.Digest, Phase: Queued}, cancel: cancel}
	r.jobs[job.Key] = t
	place := r.queue.requestPlace(job.Tenant, job.Engine)
	r.wg.Add(1)
	go func() {
		defer r.wg.Done()
		defer cancel(nil)
		r.runJob(ctx, job, t, place)
		if r.notify != nil {
			r.notify(job.Key)
		}
	}()

	return t.status, nil
}

func (r *Runner) runJob(ctx context.Context, job Job, t *tracked, place *place) {
	defer r.queue.releasePlace(place)
	update := func(change func(*Status)) {
		r.mu.Lock()
		defer r.mu.Unlock()
		change(&t.status)
	}
	end := func(summary Summary, err error) {
		update(func(s *Status) { s.Phase, s.Ended, s.Summary, s.Err = Done, time.Now(), summary, err })
	}
	queued := time.Now()

	select {
	case <-place.ready:
	case <-ctx.Done():
	}

	phaseSeconds.WithLabelValues(string(job.Operation), "queue", classifyOutcome(ctx, ctx.Err())).
		Observe(time.Since(queued).Seconds())
	if ctx.Err() != nil {
		end(Summary{}, context.Cause(ctx))
		return
	}

	update(func(s *Status) { s.Phase, s.Started = Running, time.Now() })
	limit := cmp.Or(min(job.Limit, r.timeout), r.timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, &TimeoutError{Limit: limit})
	defer cancel()
	defer func() {
		// A panic in one run must not end the runs of all other machines.
		if p := recover(); p != nil {
			end(Summary{}, fmt.Errorf("the run panicked: %v", p))
		}
	}()

	summary, err := job.Run(ctx)
	end(summary, job.preferInterruption(ctx, err))
}

// preferInterruption returns the cause of a job's interruption instead of its consequence, such as a canceled request
// or an unreadable plan. An uninterrupted job keeps its error, and so does a run with a more specific error, such as an
// unsaved state. A check has no such error.
func (j Job) preferInterruption(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	broken := j.Operation == Check || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)

	if err == nil || cause == nil || errors.Is(err, cause) || !broken {
		return err
	}

	return cause
}

// GetStatus returns the status of the last job in the workspace.
func (r *Runner) GetStatus(key string) (Status, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.jobs[key]; t != nil {
		return t.status, true
	}

	return Status{}, false
}

// DropJob drops the job that ended at this time, after the caller has recorded it. It keeps a later job.
func (r *Runner) DropJob(key string, ended time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.jobs[key]; t != nil && t.status.Phase == Done && t.status.Ended.Equal(ended) {
		delete(r.jobs, key)
	}
}

// CancelJob interrupts the workspace's job. The runner calls notify when the job ends.
func (r *Runner) CancelJob(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.jobs[key]; t != nil && t.status.Phase != Done {
		t.cancel(ErrCancelled)
	}
}

// CountActive returns the numbers of queued and running jobs.
func (r *Runner) CountActive() (queued, running int) {
	r.mu.Lock()
	defer r.mu.Unlock()

	for _, t := range r.jobs {
		switch t.status.Phase {
		case Queued:
			queued++
		case Running:
			running++
		}
	}

	return queued, running
}

// Shutdown starts no more runs, and interrupts the current ones. It waits until they have saved their states, but at
// most for the grace period. It reports whether all runs have ended.
func (r *Runner) Shutdown(grace time.Duration) bool {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel(ErrShuttingDown)
	ended := make(chan struct{})
	go func() {
		r.wg.Wait()
		close(ended)
	}()

	select {
	case <-ended:
		return true
	case <-time.After(grace):
		return false
	}
}
