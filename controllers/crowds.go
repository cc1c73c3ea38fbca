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

const (
	// workersPerPass is how many times more passes a controller may begin than one engine is asked in at once: passes
	// that wait for an engine that takes long keep those of other engines from nothing.
	workersPerPass = 32
	// passesPerNamespace is how many times more passes a namespace may have: one that names many engines that never
	// answer keeps others from nothing.
	passesPerNamespace = 2
	// usersPerPlace is how many may be in a crowd for each of its places, with those that wait. They hold workers, and
	// come again later where they are refused, so that it is some, and not many.
	usersPerPlace = 4
)

// crowds bound how many passes are at one engine at once, and how many are for one namespace. The others are refused,
// soon, and come again. An engine is another one for each namespace: its name is a tenant's to choose.
type crowds struct {
	limit int

	mu  sync.Mutex
	all map[string]*crowd
}

type crowd struct {
	places *semaphore.Weighted // first come, first served
	// users are those that are here or wait; mu of the crowds guards it.
	users int
	// left is when a pass ended last; stuck says that one waited in vain, and none has ended since: nobody else need
	// wait to see that.
	left  atomic.Pointer[time.Time]
	stuck atomic.Bool
}

// enter waits for a place at an engine as long as others leave. Without one ok is false, and the pass is to be tried
// later; else leave is to be called at its end.
func (c *crowds) enter(ctx context.Context, namespace, engine string) (leave func(), ok bool) {
	leaveEngine, ok := c.join(ctx, namespace+" "+engine, c.limit)
	if !ok {
		return nil, false
	}

	// After the engine: who waits for one that is slow takes no place from those of others in the namespace.
	leaveNamespace, ok := c.join(ctx, namespace, passesPerNamespace*c.limit)
	if !ok {
		leaveEngine()
		return nil, false
	}

	return func() { leaveNamespace(); leaveEngine() }, true
}

// join waits for a place in one crowd.
func (c *crowds) join(ctx context.Context, name string, limit int) (leave func(), ok bool) {
	at := c.come(name, limit)
	if at == nil {
		return nil, false
	}

	leave = func() {
		now := time.Now()
		at.left.Store(&now)
		at.stuck.Store(false)
		at.places.Release(1)
		c.gone(name, at)
	}
	if at.wait(ctx) {
		return leave, true
	}

	c.gone(name, at)

	return nil, false
}

// come counts one more in a crowd; nil where as many wait already as may be there. Those who wait hold workers.
func (c *crowds) come(name string, limit int) *crowd {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]*crowd{}
	}

	at := c.all[name]
	if at == nil {
		at = &crowd{places: semaphore.NewWeighted(int64(max(limit, 1)))}
		c.all[name] = at
	}

	if at.users >= usersPerPlace*max(limit, 1) {
		return nil
	}

	at.users++

	return at
}

// gone counts one fewer, and forgets a crowd in which nobody is.
func (c *crowds) gone(name string, at *crowd) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.users--; at.users == 0 {
		delete(c.all, name)
	}
}

// wait says whether there is a place.
func (c *crowd) wait(ctx context.Context) bool {
	if c.places.TryAcquire(1) {
		return true
	}

	if c.stuck.Load() {
		return false
	}

	waiting, giveUp := context.WithCancel(ctx)
	defer giveUp()
	go c.watch(waiting, giveUp)

	return c.places.Acquire(waiting, 1) == nil
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
