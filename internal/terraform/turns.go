package terraform

import (
	"slices"
	"sync"
)

// turns decide who may run. Where there are others, a tenant and an engine leave them a place: runs of an engine that takes
// long for each answer would hold all places for as long, and whoever names many engines would have a place for each. Of those
// that wait, a tenant with the fewest runs is next, and of its own the one that waits longest.
type turns struct {
	limit int

	mu      sync.Mutex
	running map[string]int // by tenant, and by engine
	total   int
	waiting []*turn
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
	return &turns{limit: limit, running: map[string]int{}, tenants: map[string]bool{}, engines: map[string]bool{}}
}

// remember a name, of two at most.
func remember(names map[string]bool, name string) {
	if len(names) < 2 {
		names[name] = true
	}
}

// keys under which the runs of a tenant and of an engine are counted.
func (w *turn) keys() [2]string { return [2]string{"tenant " + w.tenant, "engine " + w.engine} }

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
		for _, key := range done.keys() {
			if t.running[key]--; t.running[key] == 0 {
				delete(t.running, key)
			}
		}
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
		for _, key := range next.keys() {
			t.running[key]++
		}
		next.given = true
		close(next.ready)
	}
}

// next is who is to run next; nil where nobody may.
func (t *turns) next() *turn {
	most := t.most()
	var next *turn
	fewest := 0
	for _, w := range t.waiting {
		keys := w.keys()
		ofTenant, ofEngine := t.running[keys[0]], t.running[keys[1]]
		if ofTenant >= most[0] || ofEngine >= most[1] {
			continue
		}
		if next == nil || ofTenant < fewest {
			next, fewest = w, ofTenant
		}
	}
	return next
}

// most is how many runs one tenant and one engine may have.
func (t *turns) most() [2]int {
	tenant, engine := t.limit, t.limit
	if len(t.tenants) > 1 {
		tenant = max(t.limit-1, 1)
	}
	if len(t.engines) > 1 {
		engine = max(t.limit-1, 1)
	}
	return [2]int{tenant, engine}
}
