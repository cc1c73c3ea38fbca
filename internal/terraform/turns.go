package terraform

import (
	"slices"
	"sync"
)

// turns decide who may run. Where there are others, a tenant and an engine leave them a place: runs of an engine that
// takes long for each answer would hold all places for as long, and whoever names many engines would have a place for
// each. Of those that wait, a tenant with the fewest runs is next, and of its own the one that waits longest.
type turns struct {
	limit int

	mu      sync.Mutex
	total   int
	waiting []*turn
	// runs that have a turn, by tenant and by engine.
	ofTenant, ofEngine map[string]int
	// tenants and engines that ever asked, as far as it matters: whether there is more than one.
	tenants, engines map[string]bool
}

// turn of one run. ready is closed when it has come.
type turn struct {
	tenant, engine string
	ready          chan struct{}
	given          bool
}

func newTurns(limit int) *turns {
	return &turns{
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

// ask for a turn; it is to be given back with leave, also where it never came.
func (t *turns) ask(tenant, engine string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	remember(t.tenants, tenant)
	remember(t.engines, engine)
	out := &turn{tenant: tenant, engine: engine, ready: make(chan struct{})}
	t.waiting = append(t.waiting, out)
	t.give()

	return out
}

func (t *turns) leave(done *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if done.given {
		t.total--
		release(t.ofTenant, done.tenant)
		release(t.ofEngine, done.engine)
	} else {
		t.waiting = slices.DeleteFunc(t.waiting, func(w *turn) bool { return w == done })
	}

	t.give()
}

// give gives the turns that there are; mu is held.
func (t *turns) give() {
	for t.total < t.limit {
		next := t.next()
		if next == nil {
			return
		}

		t.waiting = slices.DeleteFunc(t.waiting, func(w *turn) bool { return w == next })
		t.total++
		t.ofTenant[next.tenant]++
		t.ofEngine[next.engine]++
		next.given = true
		close(next.ready)
	}
}

// next is who is to run next; nil where nobody may.
func (t *turns) next() *turn {
	mostOfTenant, mostOfEngine := t.most(t.tenants), t.most(t.engines)

	var next *turn
	fewest := 0

	for _, w := range t.waiting {
		ofTenant := t.ofTenant[w.tenant]
		if ofTenant >= mostOfTenant || t.ofEngine[w.engine] >= mostOfEngine {
			continue
		}

		if next == nil || ofTenant < fewest {
			next, fewest = w, ofTenant
		}
	}

	return next
}

// most is how many runs one of these names may have: where there are others, all but one.
func (t *turns) most(names map[string]bool) int {
	if len(names) > 1 {
		return max(t.limit-1, 1)
	}

	return t.limit
}
