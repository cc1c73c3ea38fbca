package terraform

import (
	"context"
	"sync"
	"time"
)

// startLimit limits how long startGate hides the end of its context if the process does not start.
const startLimit = 10 * time.Second

// startGate is a context that delays its cancellation until a process has started. terraform-exec calls Err once after
// the start. If this call returned an error, terraform-exec would not wait for the process. The process would continue
// in a working directory that the next run already uses. So startGate returns nil for the first call, and reports the
// cancellation later.
type startGate struct {
	context.Context // the context to follow

	started     chan struct{}
	startedOnce sync.Once
	done        chan struct{}

	mu  sync.Mutex
	err error
}

// newStartGate returns a context that is canceled some time after ctx, unless stop is called first.
func newStartGate(ctx context.Context) (gate *startGate, stop func()) {
	g := &startGate{Context: ctx, started: make(chan struct{}), done: make(chan struct{})}
	stopped := make(chan struct{})
	go g.followParent(stopped)

	return g, sync.OnceFunc(func() { close(stopped) })
}

func (g *startGate) followParent(stopped <-chan struct{}) {
	limit := time.NewTimer(startLimit)
	defer limit.Stop()

	select {
	case <-g.started:
	case <-limit.C:
	case <-stopped:
		return
	}

	select {
	case <-g.Context.Done():
		g.mu.Lock()
		g.err = g.Context.Err()
		g.mu.Unlock()
		close(g.done)
	case <-stopped:
	}
}

// Done implements context.Context.
func (g *startGate) Done() <-chan struct{} { return g.done }

// Err implements context.Context.
func (g *startGate) Err() error {
	g.startedOnce.Do(func() { close(g.started) })

	g.mu.Lock()
	defer g.mu.Unlock()

	return g.err
}
