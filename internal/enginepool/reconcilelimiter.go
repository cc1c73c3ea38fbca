package enginepool

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// maxWait limits how long a reconcile waits while no other one on the engine finishes.
const maxWait = time.Second

const (
	// WorkersPerPlace is the number of workers that a controller needs per place at an engine. Reconciles that wait for
	// a slow engine occupy workers, but other engines need free ones.
	WorkersPerPlace = 32
	// tenantFactor is the ratio between a tenant's places and the places at one engine. A tenant with many dead engines
	// must not occupy all workers.
	tenantFactor = 2
	// reconcilesPerPlace is the number of running and queued reconciles per place. A queued reconcile occupies a
	// worker. The limiter therefore refuses further reconciles at once, and their callers requeue them.
	reconcilesPerPlace = 4
)

// ReconcileLimiter limits a tenant's concurrent reconciles, both per engine and in total. It soon refuses the others,
// and their callers requeue them. The limit is per tenant, because tenants choose the names of engines.
type ReconcileLimiter struct {
	// Limit is the number of concurrent reconciles per tenant and engine.
	Limit int

	mu     sync.Mutex
	queues map[string]*queue
}

// queue has the reconciles that share a number of places.
type queue struct {
	places *semaphore.Weighted // first come, first served
	// reconciles counts the running and the waiting ones. The limiter's mu guards it.
	reconciles int
	// finished is the time at which the last reconcile finished.
	finished atomic.Pointer[time.Time]
	// stuck is set after a timeout until a reconcile finishes. While it is set, the limiter refuses reconciles without
	// a free place at once.
	stuck atomic.Bool
}

// AcquirePlace takes a place at an engine. If all places are taken, it waits while other reconciles keep finishing. If
// ok is false, the caller requeues the reconcile. Otherwise, it calls leave at the end of the reconcile.
func (l *ReconcileLimiter) AcquirePlace(ctx context.Context, tenant, engine string) (leave func(), ok bool) {
	leaveEngine, ok := l.waitForPlace(ctx, tenant+" "+engine, l.Limit)
	if !ok {
		return nil, false
	}

	// Take the tenant's place second, because reconciles that wait for a slow engine must not block the tenant's other
	// engines.
	leaveTenant, ok := l.waitForPlace(ctx, tenant, tenantFactor*l.Limit)
	if !ok {
		leaveEngine()
		return nil, false
	}

	return func() { leaveTenant(); leaveEngine() }, true
}

// waitForPlace waits for a place in one queue.
func (l *ReconcileLimiter) waitForPlace(ctx context.Context, name string, limit int) (leave func(), ok bool) {
	q := l.addReconcile(name, limit)
	if q == nil {
		return nil, false
	}

	if !q.waitForTurn(ctx) {
		l.removeReconcile(name, q)
		return nil, false
	}

	return func() {
		now := time.Now()
		q.finished.Store(&now)
		q.stuck.Store(false)
		q.places.Release(1)
		l.removeReconcile(name, q)
	}, true
}

// addReconcile counts one more reconcile in a queue. It returns nil if the queue is full.
func (l *ReconcileLimiter) addReconcile(name string, limit int) *queue {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queues == nil {
		l.queues = map[string]*queue{}
	}

	limit = max(limit, 1)
	if l.queues[name] == nil {
		l.queues[name] = &queue{places: semaphore.NewWeighted(int64(limit))}
	}

	q := l.queues[name]
	if q.reconciles >= reconcilesPerPlace*limit {
		return nil
	}

	q.reconciles++

	return q
}

// removeReconcile removes one reconcile from the count of a queue, and drops an empty queue.
func (l *ReconcileLimiter) removeReconcile(name string, q *queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.reconciles--; q.reconciles == 0 {
		delete(l.queues, name)
	}
}

// waitForTurn waits for a place, and reports whether it got one.
func (q *queue) waitForTurn(ctx context.Context) bool {
	if q.places.TryAcquire(1) {
		return true
	}

	if q.stuck.Load() {
		return false
	}

	waiting, giveUp := context.WithCancel(ctx)
	defer giveUp()
	go q.watchProgress(waiting, giveUp)

	return q.places.Acquire(waiting, 1) == nil
}

// watchProgress calls giveUp for a waiting reconcile if no other one has finished for maxWait.
func (q *queue) watchProgress(ctx context.Context, giveUp func()) {
	since := time.Now()
	ticker := time.NewTicker(maxWait / 4)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if finished := q.finished.Load(); finished != nil && finished.After(since) {
				since = *finished
			}

			if now.Sub(since) > maxWait {
				q.stuck.Store(true)
				giveUp()
				return
			}
		}
	}
}
