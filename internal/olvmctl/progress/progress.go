// Package progress shows the progress of a long command to a user: a line for each step, and the reasons for waiting
// below it.
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
	// reminderInterval is the interval of repeating the reason for a wait without news.
	reminderInterval = 10 * time.Second
	// finalAfter is the time an error must stay final before Wait gives up, because recent writes take effect with a
	// delay.
	finalAfter = 90 * time.Second
	// maxNews limits the bytes of an error shown during a wait.
	maxNews = 200
)

// ErrInterrupted is the error of an operation interrupted by the user.
var ErrInterrupted = errors.New("interrupted")

// Display writes the steps of one command.
type Display struct {
	out io.Writer
	mu  sync.Mutex
	// open reports whether the step's line is still incomplete.
	open bool
	// said is the time of the last output.
	said time.Time
}

// NewDisplay returns a display writing to out.
func NewDisplay(out io.Writer) *Display { return &Display{out: out} }

// RunStep runs a step, and writes its name and its result.
func (d *Display) RunStep(name string, run func() error) error {
	begin := time.Now()
	d.mu.Lock()
	d.writeText("%s: ", name)
	d.open = true
	d.mu.Unlock()

	err := d.RunQuietly(name, run)
	result := fmt.Sprintf("ok (%.0f s)", time.Since(begin).Seconds())
	if err != nil {
		result = "failed"
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	if !d.open {
		d.writeText("%s: ", name)
	}

	d.writeText("%s\n", result)
	d.open = false

	return err
}

// RunQuietly runs a step without a line of its own. After a while without output, it reports that the step continues,
// because a silent command seems to hang.
func (d *Display) RunQuietly(name string, run func() error) error {
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
				d.reportStillRunning(name, begin)
			}
		}
	}()

	defer func() {
		close(ended)
		<-done
	}()

	return run()
}

// reportStillRunning reports that a step continues, unless there was output meanwhile.
func (d *Display) reportStillRunning(name string, begin time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()

	if time.Since(d.said) >= heartbeat.Interval {
		d.printLine("%s: %.0f s so far", name, time.Since(begin).Seconds())
	}
}

// writeText writes unchanged text; d.mu is held.
func (d *Display) writeText(format string, args ...any) {
	_, _ = fmt.Fprintf(d.out, format, args...)
	d.said = time.Now()
}

// PrintLine writes a line below the step.
func (d *Display) PrintLine(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.printLine(format, args...)
}

// printLine is Say with d.mu held.
func (d *Display) printLine(format string, args ...any) {
	if d.open {
		d.writeText("\n")
		d.open = false
	}

	d.writeText("  "+format+"\n", args...)
}

// Write implements io.Writer. It says each line of the text.
func (d *Display) Write(text []byte) (int, error) {
	for line := range strings.SplitSeq(strings.TrimRight(string(text), "\n"), "\n") {
		d.PrintLine("%s", line)
	}

	return len(text), nil
}

// finalError stops Wait if it persists.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// MarkFinal marks an error of a check as not fixable by waiting: Wait returns it if it persists.
func MarkFinal(err error) error { return &finalError{err} }

// WaitFor repeats a check until it succeeds. It treats errors of the check, including network errors, as reasons for
// waiting, and prints each new one. After the timeout, after an interrupt, or if an error stays final, it returns the
// last error.
func (d *Display) WaitFor(ctx context.Context, timeout time.Duration, check func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	w := wait{display: d, begin: time.Now()}

	for {
		err := check(limited)
		if err == nil {
			return nil
		}

		if limited.Err() == nil {
			w.recordError(err)
		}

		if w.isFinal() {
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

// wait is a Wait in progress.
type wait struct {
	display *Display
	begin   time.Time
	// last is the last error of the check, and said the time of printing it.
	last string
	said time.Time
	// finalSince is the time since the last error is final; zero if it is not.
	finalSince time.Time
}

// recordError takes an error of the check, and prints it if it is new, or was not printed for a while.
func (w *wait) recordError(err error) {
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
		w.display.PrintLine("%s (%.0f s)", shortenLine(text), time.Since(w.begin).Seconds())
	}
}

// isFinal reports whether the last error is final, and has stayed.
func (w *wait) isFinal() bool {
	return !w.finalSince.IsZero() && time.Since(w.finalSince) >= finalAfter
}

// shortenLine shortens a text to one line; the error of Wait has the full text.
func shortenLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxNews {
		return text
	}

	return strings.ToValidUTF8(text[:maxNews], "") + " …"
}
