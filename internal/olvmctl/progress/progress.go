// Package progress shows a person what a long command does: a line for each step, and below it what is waited for.
package progress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/heartbeat"
)

const (
	// PollInterval is how often Wait repeats its check.
	PollInterval = time.Second
	// reminderInterval is how often a wait without news repeats what it waits for.
	reminderInterval = 10 * time.Second
	// finalAfter is how long an error has to stay final until Wait gives up: what was just written has its effect
	// first.
	finalAfter = 90 * time.Second
	// maxNews is how many bytes of an error Wait shows while it waits.
	maxNews = 200
)

// ErrInterrupted ends what the user has interrupted.
var ErrInterrupted = errors.New("interrupted")

// Display writes the steps of one command.
type Display struct {
	out io.Writer
	mu  sync.Mutex
	// open reports that the line of the step has no end yet.
	open bool
	// said is when something was written last.
	said time.Time
}

// To returns a display that writes to out.
func To(out io.Writer) *Display { return &Display{out: out} }

// Step runs a step, and writes its name and how it ended.
func (d *Display) Step(name string, run func() error) error {
	begin := time.Now()
	d.mu.Lock()
	d.write("%s: ", name)
	d.open = true
	d.mu.Unlock()

	err := d.Quietly(name, run)
	result := fmt.Sprintf("ok (%.0f s)", time.Since(begin).Seconds())
	if err != nil {
		result = "failed"
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	if !d.open {
		d.write("%s: ", name)
	}

	d.write("%s\n", result)
	d.open = false

	return err
}

// Quietly runs a step without a line of its own. If nothing is said for a while, it says that the step goes on: whoever
// watches a silent command takes it for one that hangs.
func (d *Display) Quietly(name string, run func() error) error {
	ended, done := make(chan struct{}), make(chan struct{})
	begin := time.Now()
	d.mu.Lock()
	d.said = begin
	d.mu.Unlock()

	go func() {
		defer close(done)

		for {
			d.mu.Lock()
			left := time.Until(d.said.Add(heartbeat.Interval))
			d.mu.Unlock()

			select {
			case <-ended:
				return
			case <-time.After(max(left, time.Millisecond)):
				d.beat(name, begin)
			}
		}
	}()

	defer func() {
		close(ended)
		<-done
	}()

	return run()
}

// beat says that a step goes on, unless something was said meanwhile.
func (d *Display) beat(name string, begin time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()

	if time.Since(d.said) >= heartbeat.Interval {
		d.say("%s: %.0f s so far", name, time.Since(begin).Seconds())
	}
}

// write writes as it is; d.mu is held.
func (d *Display) write(format string, args ...any) {
	_, _ = fmt.Fprintf(d.out, format, args...)
	d.said = time.Now()
}

// Say writes a line below the step.
func (d *Display) Say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.say(format, args...)
}

// say is Say while d.mu is held.
func (d *Display) say(format string, args ...any) {
	if d.open {
		d.write("\n")
		d.open = false
	}

	d.write("  "+format+"\n", args...)
}

// Write implements io.Writer: each line of the text is said.
func (d *Display) Write(text []byte) (int, error) {
	for line := range strings.SplitSeq(strings.TrimRight(string(text), "\n"), "\n") {
		d.Say("%s", line)
	}

	return len(text), nil
}

// finalError is one that waiting does not mend.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// Final marks an error of a check as one that waiting does not mend: Wait ends with it, when it stays.
func Final(err error) error { return &finalError{err} }

// Wait repeats a check until it succeeds. Errors of the check, those of the network among them, are what it waits for:
// each is said when it changes. After the timeout, after an interrupt, and when an error stays final, Wait returns the
// last one.
func (d *Display) Wait(ctx context.Context, timeout time.Duration, check func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	w := wait{display: d, begin: time.Now()}

	for {
		err := check(limited)
		if err == nil {
			return nil
		}

		if limited.Err() == nil {
			w.heed(err)
		}

		if w.final() {
			return fmt.Errorf("it waits in vain: %s", w.last)
		}

		select {
		case <-limited.Done():
			if w.last == "" { // the first check took all the time
				w.last = err.Error()
			}

			if ctx.Err() != nil {
				return fmt.Errorf("%w; it waited for this: %s", ErrInterrupted, w.last)
			}

			return fmt.Errorf("not done after %s: %s", timeout, w.last)
		case <-time.After(PollInterval):
		}
	}
}

// wait is a Wait that goes on.
type wait struct {
	display *Display
	begin   time.Time
	// last error of the check, and when it was said last.
	last string
	said time.Time
	// finalSince is when the last error came; zero where it is not final.
	finalSince time.Time
}

// heed takes an error of the check, and says it where it is news, or was not said for a while.
func (w *wait) heed(err error) {
	text := err.Error()
	isNew := text != w.last

	var final *finalError

	switch {
	case !errors.As(err, &final):
		w.finalSince = time.Time{}
	case isNew || w.finalSince.IsZero():
		w.finalSince = time.Now()
	}

	if isNew || time.Since(w.said) > reminderInterval {
		w.last, w.said = text, time.Now()
		w.display.Say("%s (%.0f s)", shorten(text), time.Since(w.begin).Seconds())
	}
}

// final reports whether the last error is final, and has stayed.
func (w *wait) final() bool { return !w.finalSince.IsZero() && time.Since(w.finalSince) >= finalAfter }

// shorten cuts a text to a line; all of it is in the error of Wait.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxNews {
		return text
	}

	return strings.ToValidUTF8(text[:maxNews], "") + " …"
}
