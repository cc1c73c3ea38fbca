package api

import (
	"slices"
	"sync"
	"time"
)

// Clock is the time of an engine.
type Clock interface {
	Now() time.Time
	// At calls a function at a time, or soon if that is over.
	At(when time.Time, call func())
}

// systemClock is the time of the machine.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) At(when time.Time, call func()) { time.AfterFunc(time.Until(when), call) }

// ManualClock stands still until it is moved. A test sees every status that an engine passes through, however slow the
// machine is.
type ManualClock struct {
	mu    sync.Mutex
	now   time.Time
	calls []dueCall // the next one first
}

// dueCall is a call at a time.
type dueCall struct {
	at   time.Time
	call func()
}

// NewManualClock makes a clock that shows the time of its making.
func NewManualClock() *ManualClock { return &ManualClock{now: time.Now()} }

// Now is the time that the clock shows.
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.now
}

// At calls a function once the clock is moved to a time.
func (c *ManualClock) At(when time.Time, call func()) {
	c.mu.Lock()
	defer c.mu.Unlock()

	at, _ := slices.BinarySearchFunc(c.calls, when, func(d dueCall, when time.Time) int {
		if d.at.After(when) {
			return 1
		}

		return -1 // those of the same time in the order in which they were arranged
	})
	c.calls = slices.Insert(c.calls, at, dueCall{when, call})
}

// Step moves the clock to the next call and makes it. It reports whether there is one.
func (c *ManualClock) Step() bool { return c.step(nil) }

// Pass moves the clock by a duration, and makes the calls of that time one after another.
func (c *ManualClock) Pass(d time.Duration) {
	end := c.Now().Add(d)

	for c.step(&end) {
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = end
}

// step makes the next call, unless there is none until a time; nil is any time.
func (c *ManualClock) step(until *time.Time) bool {
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
