package terraform

import (
	"slices"
	"sync"
)

// fairQueue decides which run is next. Where there are others, a tenant and an engine leave them a place: runs of an
// engine that takes long for each answer would hold all places for as long, and a tenant that names many engines would
// have a place for each. Of those that wait, a tenant with the fewest runs is next, and of its own the one that waits
// longest.
type fairQueue struct {
	limit int

	mu      sync.Mutex
	total   int
	waiting []*place
	// ofTenant and ofEngine count the runs that have a place.
	ofTenant, ofEngine map[string]int
	// tenants and engines that ever asked, as far as it matters: whether there is more than one.
	tenants, engines map[string]bool
}

// place of one run. ready is closed when the run may begin.
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

// remember a name, of two at most.
func remember(names map[string]bool, name string) {
	if len(names) < 2 {
		names[name] = true
	}
}

// release one of the runs that are counted under a name; a name without runs is forgotten.
func release(runs map[string]int, name string) {
	if runs[name]--; runs[name] == 0 {
		delete(runs, name)
	}
}

// enter queues for a place. It must be given back with leave, also where it never came.
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

// give gives the places that are free; mu is held.
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

// next is the place to give next; nil where none may.
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

// most is how many runs one of these names may have: where there are others, all but one.
func (q *fairQueue) most(names map[string]bool) int {
	if len(names) > 1 {
		return max(q.limit-1, 1)
	}

	return q.limit
}
