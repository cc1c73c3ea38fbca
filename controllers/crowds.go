package controllers

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
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
	places *semaphore.Weighted // first come, first served
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
		at = &crowd{places: semaphore.NewWeighted(int64(max(c.limit, 1)))}
		c.engines[engine] = at
	}
	c.mu.Unlock()
	leave = func() {
		now := time.Now()
		at.left.Store(&now)
		at.stuck.Store(false)
		at.places.Release(1)
	}
	if at.places.TryAcquire(1) {
		return leave, true
	}
	if at.stuck.Load() {
		return nil, false
	}
	waiting, giveUp := context.WithCancel(ctx)
	defer giveUp()
	go at.watch(waiting, giveUp)
	if at.places.Acquire(waiting, 1) != nil {
		return nil, false
	}
	return leave, true
}

// watch gives up for one that waits, once nobody has left for too long.
func (c *crowd) watch(ctx context.Context, giveUp func()) {
	since := time.Now()
	ticker := time.NewTicker(crowdWait / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if left := c.left.Load(); left != nil && left.After(since) {
				since = *left
			}
			if now.Sub(since) > crowdWait {
				c.stuck.Store(true)
				giveUp()
				return
			}
		}
	}
}
