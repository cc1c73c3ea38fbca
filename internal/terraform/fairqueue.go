package terraform

import (
	"slices"
	"sync"
)

// fairQueue decides which run is next. No tenant and no engine may take all places while others exist. Otherwise, the
// runs on one slow engine could hold all places, and a tenant with many engines could get a place for each. The next
// run belongs to the tenant with the fewest running runs. Among equals, the longest wait decides.
type fairQueue struct {
	limit int

	mu      sync.Mutex
	total   int
	waiting []*place
	// ofTenant and ofEngine count the running runs.
	ofTenant, ofEngine map[string]int
	// tenants and engines hold the names seen so far, but at most two each. That is enough to know whether there is
	// more than one.
	tenants, engines map[string]bool
}

// place is the place of one run. ready is closed when the run may start.
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

// rememberName adds a name, up to two names.
func rememberName(names map[string]bool, name string) {
	if len(names) < 2 {
		names[name] = true
	}
}

// releaseRun subtracts a run from those counted under a name. It drops a name without runs.
func releaseRun(runs map[string]int, name string) {
	if runs[name]--; runs[name] == 0 {
		delete(runs, name)
	}
}

// requestPlace queues for a place. The caller must call leave, even if it never got the place.
func (q *fairQueue) requestPlace(tenant, engine string) *place {
	q.mu.Lock()
	defer q.mu.Unlock()
	rememberName(q.tenants, tenant)
	rememberName(q.engines, engine)
	out := &place{tenant: tenant, engine: engine, ready: make(chan struct{})}
	q.waiting = append(q.waiting, out)
	q.givePlaces()

	return out
}

func (q *fairQueue) releasePlace(done *place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if done.given {
		q.total--
		releaseRun(q.ofTenant, done.tenant)
		releaseRun(q.ofEngine, done.engine)
	} else {
		q.waiting = slices.DeleteFunc(q.waiting, func(w *place) bool { return w == done })
	}

	q.givePlaces()
}

// givePlaces assigns the free places. The caller holds mu.
func (q *fairQueue) givePlaces() {
	for q.total < q.limit {
		next := q.nextPlace()
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

// nextPlace returns the next place to assign, or nil if no waiting run may have one.
func (q *fairQueue) nextPlace() *place {
	mostOfTenant, mostOfEngine := q.maxRuns(q.tenants), q.maxRuns(q.engines)

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

// maxRuns returns the maximum number of runs per name: all places, or all but one if there are other names.
func (q *fairQueue) maxRuns(names map[string]bool) int {
	if len(names) > 1 {
		return max(q.limit-1, 1)
	}

	return q.limit
}
