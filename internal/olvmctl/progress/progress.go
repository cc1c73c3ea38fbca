// Package progress shows the user the progress of a long command. It writes a line for each step, and below it the
// reasons for waiting.
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
	// PollInterval is the interval at which WaitFor repeats its check.
	PollInterval = time.Second
	// reminderInterval is the interval at which an unchanged reason for waiting is printed again.
	reminderInterval = 10 * time.Second
	// finalAfter is how long an error must stay final before WaitFor gives up, because recent writes take effect with a
	// delay.
	finalAfter = 90 * time.Second
	// maxNews is the maximum number of bytes shown of an error during a wait.
	maxNews = 200
)

// ErrInterrupted is returned if the user has interrupted an operation.
var ErrInterrupted = errors.New("interrupted")

// Display shows the steps of one command.
type Display struct {
	out io.Writer
	mu  sync.Mutex
	// open reports whether the line of the current step is incomplete.
	open bool
	// said is the time of the last output.
	said time.Time
}

// NewDisplay returns a display that writes to out.
func NewDisplay(out io.Writer) *Display { return &Display{out: out} }

// RunStep runs a step, and prints its name and its result.
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

// RunQuietly runs a step without a line of its own. After some time without output, it prints that the step continues,
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

// reportStillRunning prints that a step continues, unless there was other output meanwhile.
func (d *Display) reportStillRunning(name string, begin time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()

	if time.Since(d.said) >= heartbeat.Interval {
		d.printLine("%s: %.0f s elapsed", name, time.Since(begin).Seconds())
	}
}

// writeText writes a text without changes. The caller must hold d.mu.
func (d *Display) writeText(format string, args ...any) {
	_, _ = fmt.Fprintf(d.out, format, args...)
	d.said = time.Now()
}

// PrintLine prints a line below the step.
func (d *Display) PrintLine(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.printLine(format, args...)
}

// printLine is PrintLine for a caller that holds d.mu.
func (d *Display) printLine(format string, args ...any) {
	if d.open {
		d.writeText("\n")
		d.open = false
	}

	d.writeText("  "+format+"\n", args...)
}

// Write implements io.Writer. It prints each line of the text.
func (d *Display) Write(text []byte) (int, error) {
	for line := range strings.SplitSeq(strings.TrimRight(string(text), "\n"), "\n") {
		d.PrintLine("%s", line)
	}

	return len(text), nil
}

// finalError ends WaitFor if the error persists.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// MarkFinal marks an error of a check as final, because waiting does not help: WaitFor returns the error if it
// persists.
func MarkFinal(err error) error { return &finalError{err} }

// WaitFor repeats a check until it succeeds. It treats errors of the check, including network errors, as reasons for
// waiting, and prints each new reason. After the timeout, after an interrupt, or if an error stays final, it returns
// the last error.
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
			return fmt.Errorf("cannot make progress: %s", w.last)
		}

		select {
		case <-limited.Done():
			if w.last == "" { // the first check has taken all of the time
				w.last = err.Error()
			}

			if ctx.Err() != nil {
				return fmt.Errorf("%w while waiting: %s", ErrInterrupted, w.last)
			}

			return fmt.Errorf("timed out after %s: %s", timeout, w.last)
		case <-time.After(PollInterval):
		}
	}
}

// wait is a running WaitFor.
type wait struct {
	display *Display
	begin   time.Time
	// last is the last error of the check, and said is the time when it was printed.
	last string
	said time.Time
	// finalSince is the time since which the last error is final. It is zero if the error is not final.
	finalSince time.Time
}

// recordError records an error of the check. It prints the error if it is new, or was not printed for some time.
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

// isFinal reports whether the last error is final, and has been final long enough.
func (w *wait) isFinal() bool {
	return !w.finalSince.IsZero() && time.Since(w.finalSince) >= finalAfter
}

// shortenLine shortens a text to one line. The error returned by WaitFor has the full text.
func shortenLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxNews {
		return text
	}

	return strings.ToValidUTF8(text[:maxNews], "") + " …"
}
