package control

import (
	"sync"
)

// watchers wakes those who show the state when it has changed.
type watchers struct {
	mu   sync.Mutex
	wait chan struct{}
}

func newWatchers() *watchers { return &watchers{wait: make(chan struct{})} }

// changed wakes all who wait.
func (w *watchers) changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.wait)
	w.wait = make(chan struct{})
}

// next is closed with the next change.
func (w *watchers) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wait
}
