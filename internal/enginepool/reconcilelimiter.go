package enginepool

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// maxWait is how long a reconcile queues while none on that engine finishes.
const maxWait = time.Second

const (
	// WorkersPerPlace is how many workers a controller needs for each place at an engine: reconciles that wait for a
	// slow engine hold workers, and those of other engines must find some.
	WorkersPerPlace = 32
	// tenantFactor is how many times more places a tenant has than one engine: a tenant that names many engines that
	// never answer must not use up the workers.
	tenantFactor = 2
	// reconcilesPerPlace is how many reconciles may run and queue for each place. Others are refused at once, and come
	// again later, because a reconcile that queues holds a worker.
	reconcilesPerPlace = 4
)

// ReconcileLimiter bounds how many reconciles of a tenant use one engine at once, and how many run for the tenant. It
// refuses the others soon, and they are requeued. The bound is per tenant, because a tenant chooses the name of an
// engine.
type ReconcileLimiter struct {
	// Limit of reconciles per tenant and engine.
	Limit int

	mu     sync.Mutex
	queues map[string]*queue
}

// queue is the reconciles that share a number of places.
type queue struct {
	places *semaphore.Weighted // first come, first served
	// reconciles that run or wait. The mu of the limiter guards it.
	reconciles int
	// finished is when a reconcile finished last.
	finished atomic.Pointer[time.Time]
	// stuck is set when one waited in vain, and none has finished since: the next need not wait to learn the same.
	stuck atomic.Bool
}

// Enter takes a place at an engine, and waits for one as long as others finish. Without one ok is false, and the
// reconcile is to be requeued; else leave must be called at its end.
func (l *ReconcileLimiter) Enter(ctx context.Context, tenant, engine string) (leave func(), ok bool) {
	leaveEngine, ok := l.enter(ctx, tenant+" "+engine, l.Limit)
	if !ok {
		return nil, false
	}

	// The tenant's place comes second: what waits for a slow engine must not take places from the tenant's others.
	leaveTenant, ok := l.enter(ctx, tenant, tenantFactor*l.Limit)
	if !ok {
		leaveEngine()
		return nil, false
	}

	return func() { leaveTenant(); leaveEngine() }, true
}

// enter waits for a place in one queue.
func (l *ReconcileLimiter) enter(ctx context.Context, name string, limit int) (leave func(), ok bool) {
	q := l.add(name, limit)
	if q == nil {
		return nil, false
	}

	if !q.wait(ctx) {
		l.remove(name, q)
		return nil, false
	}

	return func() {
		now := time.Now()
		q.finished.Store(&now)
		q.stuck.Store(false)
		q.places.Release(1)
		l.remove(name, q)
	}, true
}

// add counts one more reconcile in a queue; nil where it is full.
func (l *ReconcileLimiter) add(name string, limit int) *queue {
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

// remove counts one fewer, and drops a queue that is empty.
func (l *ReconcileLimiter) remove(name string, q *queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.reconciles--; q.reconciles == 0 {
		delete(l.queues, name)
	}
}

// wait reports whether there is a place.
func (q *queue) wait(ctx context.Context) bool {
	if q.places.TryAcquire(1) {
		return true
	}

	if q.stuck.Load() {
		return false
	}

	waiting, giveUp := context.WithCancel(ctx)
	defer giveUp()
	go q.watch(waiting, giveUp)

	return q.places.Acquire(waiting, 1) == nil
}

// watch gives up for a reconcile that waits, once none has finished for too long.
func (q *queue) watch(ctx context.Context, giveUp func()) {
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
