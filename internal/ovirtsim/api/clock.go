package api

import (
	"slices"
	"sync"
	"time"
)

// Clock measures the time of an engine.
type Clock interface {
	Now() time.Time
	// CallAt calls a function at a given time, or soon if the time has passed.
	CallAt(when time.Time, call func())
}

// systemClock is the machine's clock.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) CallAt(when time.Time, call func()) { time.AfterFunc(time.Until(when), call) }

// ManualClock stands still until a caller moves it. It lets a test see every status of an engine, even on a slow
// machine.
type ManualClock struct {
	mu    sync.Mutex
	now   time.Time
	calls []dueCall // sorted: the next call first
}

// dueCall is a scheduled call.
type dueCall struct {
	at   time.Time
	call func()
}

// NewManualClock returns a clock set to the present time.
func NewManualClock() *ManualClock { return &ManualClock{now: time.Now()} }

// Now returns the clock's time.
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.now
}

// CallAt calls a function once the clock reaches a given time.
func (c *ManualClock) CallAt(when time.Time, call func()) {
	c.mu.Lock()
	defer c.mu.Unlock()

	at, _ := slices.BinarySearchFunc(c.calls, when, func(d dueCall, when time.Time) int {
		if d.at.After(when) {
			return 1
		}

		return -1 // calls scheduled for the same time keep their order
	})
	c.calls = slices.Insert(c.calls, at, dueCall{when, call})
}

// Step moves the clock to the next call and makes it. It reports whether there was a call.
func (c *ManualClock) Step() bool { return c.stepUntil(nil) }

// Advance moves the clock by a duration, and makes the calls due in this period one after another.
func (c *ManualClock) Advance(d time.Duration) {
	end := c.Now().Add(d)

	for c.stepUntil(&end) {
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = end
}

// stepUntil makes the next call if it is due by the given time, and reports whether it did. Without a time, every call
// is due.
func (c *ManualClock) stepUntil(until *time.Time) bool {
	c.mu.Lock()
	if len(c.calls) == 0 || until != nil && c.calls[0].at.After(*until) {
		c.mu.Unlock()
		return false
	}

	next := c.calls[0]
	c.calls = c.calls[1:]
	if next.at.After(c.now) {
		c.now = next.at
	}

	c.mu.Unlock()
	next.call()

	return true
}
