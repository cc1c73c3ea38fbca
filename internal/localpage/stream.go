package localpage

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// streamPause is the minimum time between two states in a stream.
	streamPause = 250 * time.Millisecond
	// streamIdle is the maximum time between two states, because some shown data changes without a notification.
	streamIdle = 2 * time.Second
	// streamShare is the minimum ratio of the pause after a state to the time for creating that state. With it, a page
	// with much data does not slow down the program.
	streamShare = 4
)

// Changes wakes viewers after a change of the data that they show. The zero value is usable.
type Changes struct {
	mu   sync.Mutex
	wait chan struct{}
}

// WakeAll wakes all waiting viewers.
func (c *Changes) WakeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.wait != nil {
		close(c.wait)
		c.wait = nil
	}
}

// NextChange returns a channel that closes at the next change.
func (c *Changes) NextChange() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.wait == nil {
		c.wait = make(chan struct{})
	}

	return c.wait
}

// Stream sends a state as server-sent events whenever it has changed. Otherwise, it regularly sends an event "same", by
// which the page knows that the server still runs.
type Stream struct {
	// State returns the state to show now, which must be encodable as JSON. Two states are the same if their JSON is
	// the same.
	State func(r *http.Request) any
	// Changes wakes the stream after a change of the state.
	Changes *Changes
	// Done ends all streams when it closes; nil means never.
	Done <-chan struct{}
}

// ServeHTTP sends states until the browser disconnects.
func (s *Stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	controller := http.NewResponseController(w)
	_, _ = io.WriteString(w, "retry: 1000\n\n") // so that the page soon finds a restarted server
	var sent []byte

	for {
		changed, begin := s.Changes.NextChange(), time.Now()

		state, err := json.Marshal(s.State(r))
		if err != nil {
			return
		}

		event := "event: same\ndata:\n\n"
		if !bytes.Equal(state, sent) {
			sent, event = state, "data: "+string(state)+"\n\n"
		}

		if _, err := io.WriteString(w, event); err != nil || controller.Flush() != nil {
			return
		}

		if !s.waitForChange(r, time.After(max(streamPause, streamShare*time.Since(begin))), nil) ||
			!s.waitForChange(r, time.After(streamIdle), changed) {
			return
		}
	}
}

// waitForChange waits for a time or a change. It returns false if the browser has disconnected, or if the stream ends.
func (s *Stream) waitForChange(r *http.Request, wait <-chan time.Time, changed <-chan struct{}) bool {
	select {
	case <-r.Context().Done():
		return false
	case <-s.Done:
		return false
	case <-wait:
	case <-changed:
	}

	return true
}
