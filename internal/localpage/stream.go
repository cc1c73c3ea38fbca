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
	// streamPause is the shortest time between two states on a stream.
	streamPause = 250 * time.Millisecond
	// streamIdle is the longest: some of what is shown changes without anybody saying so.
	streamIdle = 2 * time.Second
	// streamShare is how many times longer than making a state the pause after it is, so that one who looks at much
	// does not slow it down.
	streamShare = 4
)

// Changes wakes those who show something when it has changed. The zero value is ready to use.
type Changes struct {
	mu   sync.Mutex
	wait chan struct{}
}

// WakeAll wakes all who wait.
func (c *Changes) WakeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.wait != nil {
		close(c.wait)
		c.wait = nil
	}
}

// NextChange is closed with the next change.
func (c *Changes) NextChange() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.wait == nil {
		c.wait = make(chan struct{})
	}

	return c.wait
}

// Stream sends a state whenever it has changed, as server-sent events, and else an event "same" now and then, by which
// the page knows that somebody is there.
type Stream struct {
	// State to show now, which JSON can hold. Two are the same if their JSON is.
	State func(r *http.Request) any
	// Changes of it.
	Changes *Changes
	// Done ends all streams; nil for never.
	Done <-chan struct{}
}

// ServeHTTP sends states until the browser is gone.
func (s *Stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	controller := http.NewResponseController(w)
	_, _ = io.WriteString(w, "retry: 1000\n\n") // a server that was restarted is found again soon
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

// waitForChange waits for a time or a change; false means that the browser is gone, or that the stream ends.
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
