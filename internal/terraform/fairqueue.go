package terraform

import (
	"slices"
	"sync"
)

// fairQueue decides on the next run. No tenant or engine may take all places while others exist. Runs on a slow engine
// would otherwise hold all places, and a tenant with many engines would get a place for each. Among the waiting runs,
// one of the tenant with the fewest runs is next. Among equals, the longest wait decides.
type fairQueue struct {
	limit int

	mu      sync.Mutex
	total   int
	waiting []*place
	// ofTenant and ofEngine count the runs with a place.
	ofTenant, ofEngine map[string]int
	// tenants and engines hold names seen so far, at most two each: enough to know if there is more than one.
	tenants, engines map[string]bool
}

// place is the place of one run. ready is closed when the run may begin.
type place struct {
	tenant, engine string
	ready          chan struct{}
	given          bool
}

func newFairQueue(limit int) *fairQueue {
	return &fairQueue{
		limit:    limit,
		ofTenant: map[string]int{},
		ofEngine: map[string]int{},
		tenants:  map[string]bool{},
		engines:  map[string]bool{},
	}
}

// remember adds a name, up to two.
func remember(names map[string]bool, name string) {
	if len(names) < 2 {
		names[name] = true
	}
}

// release removes one of the runs counted under a name. A name without runs is dropped.
func release(runs map[string]int, name string) {
	if runs[name]--; runs[name] == 0 {
		delete(runs, name)
	}
}

// enter queues for a place. The caller must call leave, even if the place never came.
func (q *fairQueue) enter(tenant, engine string) *place {
	q.mu.Lock()
	defer q.mu.Unlock()
	remember(q.tenants, tenant)
	remember(q.engines, engine)
	out := &place{tenant: tenant, engine: engine, ready: make(chan struct{})}
	q.waiting = append(q.waiting, out)
	q.give()

	return out
}

func (q *fairQueue) leave(done *place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if done.given {
		q.total--
		release(q.ofTenant, done.tenant)
		release(q.ofEngine, done.engine)
	} else {
		q.waiting = slices.DeleteFunc(q.waiting, func(w *place) bool { return w == done })
	}

	q.give()
}

// give gives away the free places. The caller holds mu.
func (q *fairQueue) give() {
	for q.total < q.limit {
		next := q.next()
		if next == nil {
			return
		}

		q.waiting = slices.DeleteFunc(q.waiting, func(w *place) bool { return w == next })
		q.total++
		q.ofTenant[next.tenant]++
		q.ofEngine[next.engine]++
		next.given = true
		close(next.ready)
	}
}

// next returns the next place to give, or nil if no waiting run may have one.
func (q *fairQueue) next() *place {
	mostOfTenant, mostOfEngine := q.most(q.tenants), q.most(q.engines)

	var next *place
	fewest := 0

	for _, w := range q.waiting {
		ofTenant := q.ofTenant[w.tenant]
		if ofTenant >= mostOfTenant || q.ofEngine[w.engine] >= mostOfEngine {
			continue
		}

		if next == nil || ofTenant < fewest {
			next, fewest = w, ofTenant
		}
	}

	return next
}

// most returns the maximum number of runs per name: all places, or all but one if there are other names.
func (q *fairQueue) most(names map[string]bool) int {
	if len(names) > 1 {
		return max(q.limit-1, 1)
	}

	return q.limit
}
