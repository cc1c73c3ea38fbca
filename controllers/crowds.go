package controllers

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// crowdWait is how long a pass waits for its turn at an engine without that any other pass there ends.
const crowdWait = time.Second

// workersPerPass is how many times more passes a controller may begin than one engine is asked in at once: passes that wait
// for an engine that takes long keep those of other engines from nothing.
const workersPerPass = 4

// crowds bound how many passes are at one engine at once. The others are refused, soon, and come again.
type crowds struct {
	limit int

	mu      sync.Mutex
	engines map[string]*crowd
}

type crowd struct {
	places chan struct{}
	// left is when a pass ended last; stuck says that one waited in vain, and none has ended since: nobody else need wait to
	// see that.
	left  atomic.Pointer[time.Time]
	stuck atomic.Bool
}

// enter waits for a place at an engine as long as others leave. Without one ok is false, and the pass is to be tried later;
// else leave is to be called at its end.
func (c *crowds) enter(ctx context.Context, engine string) (leave func(), ok bool) {
	c.mu.Lock()
	if c.engines == nil {
		c.engines = map[string]*crowd{}
	}
	at := c.engines[engine]
	if at == nil {
		at = &crowd{places: make(chan struct{}, max(c.limit, 1))}
		c.engines[engine] = at
	}
	c.mu.Unlock()
	leave = func() {
		<-at.places
		now := time.Now()
		at.left.Store(&now)
		at.stuck.Store(false)
	}
	select {
	case at.places <- struct{}{}:
		return leave, true
	default:
	}
	if at.stuck.Load() {
		return nil, false
	}
	wait := time.NewTimer(crowdWait)
	defer wait.Stop()
	for begin := time.Now(); ; {
		select {
		case at.places <- struct{}{}:
			return leave, true
		case <-ctx.Done():
			return nil, false
		case <-wait.C:
		}
		since := begin
		if left := at.left.Load(); left != nil && left.After(since) {
			since = *left
		}
		rest := crowdWait - time.Since(since)
		if rest <= 0 {
			at.stuck.Store(true)
			return nil, false
		}
		wait.Reset(rest)
	}
}
