package terraform

import (
	"slices"
	"sync"
)

// turns decide who may run. Turns are given in the order in which they were asked for, except that one group leaves a place to
// the others: where an engine takes long for each answer, its runs would hold all places for as long.
type turns struct {
	limit int

	mu      sync.Mutex
	running map[string]int // by group
	total   int
	waiting []*turn
	groups  map[string]bool // that ever asked
}

// turn of one run. ready is closed when it has come.
type turn struct {
	group string
	ready chan struct{}
	given bool
}

func newTurns(limit int) *turns {
	return &turns{limit: limit, running: map[string]int{}, groups: map[string]bool{}}
}

// ask for a turn; it is to be given back with leave, also where it never came.
func (t *turns) ask(group string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.groups[group] = true
	out := &turn{group: group, ready: make(chan struct{})}
	t.waiting = append(t.waiting, out)
	t.give()
	return out
}

func (t *turns) leave(done *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if done.given {
		t.total--
		if t.running[done.group]--; t.running[done.group] == 0 {
			delete(t.running, done.group)
		}
	} else {
		t.waiting = slices.DeleteFunc(t.waiting, func(w *turn) bool { return w == done })
	}
	t.give()
}

// give gives the turns that there are; mu is held.
func (t *turns) give() {
	most := t.limit
	if len(t.groups) > 1 {
		most = max(t.limit-1, 1)
	}
	t.waiting = slices.DeleteFunc(t.waiting, func(w *turn) bool {
		if t.total >= t.limit || t.running[w.group] >= most {
			return false
		}
		t.total++
		t.running[w.group]++
		w.given = true
		close(w.ready)
		return true
	})
}
