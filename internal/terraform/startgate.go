package terraform

import (
	"context"
	"sync"
	"time"
)

// startLimit is how long a process may take to start before the end of its context reaches it all the same.
const startLimit = 10 * time.Second

// startGate is a context that does not end while a process is being started. terraform-exec asks for its error once
// after the start; if there is one by then, it returns at once and waits for nothing: the process would go on in a
// working directory that the next run uses. That first question gets no error, and the context ends afterwards.
type startGate struct {
	context.Context // that is followed

	asked chan struct{}
	once  sync.Once
	done  chan struct{}

	mu  sync.Mutex
	err error
}

// newStartGate returns a gate that follows a context until stop is called.
func newStartGate(ctx context.Context) (gate *startGate, stop func()) {
	g := &startGate{Context: ctx, asked: make(chan struct{}), done: make(chan struct{})}
	stopped := make(chan struct{})
	go g.follow(stopped)

	return g, sync.OnceFunc(func() { close(stopped) })
}

func (g *startGate) follow(stopped <-chan struct{}) {
	limit := time.NewTimer(startLimit)
	defer limit.Stop()

	select {
	case <-g.asked:
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
	g.once.Do(func() { close(g.asked) })

	g.mu.Lock()
	defer g.mu.Unlock()

	return g.err
}
