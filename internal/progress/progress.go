// Package progress shows a person what a long command does: a line for each step, and below it what is waited for.
package progress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	// PollInterval is how often Wait repeats its check.
	PollInterval = time.Second
	// reminderInterval is how often a wait without news repeats what it waits for.
	reminderInterval = 30 * time.Second
)

// ErrInterrupted ends what the user has interrupted.
var ErrInterrupted = errors.New("interrupted")

// Display writes the steps of one command.
type Display struct {
	out io.Writer
	// open reports that the line of the step has no end yet.
	open bool
}

// To returns a display that writes to out.
func To(out io.Writer) *Display { return &Display{out: out} }

// Step runs a step, and writes its name and how it ended.
func (d *Display) Step(name string, run func() error) error {
	begin := time.Now()
	_, _ = fmt.Fprintf(d.out, "%s: ", name)
	d.open = true

	err := run()
	result := fmt.Sprintf("ok (%.0f s)", time.Since(begin).Seconds())
	if err != nil {
		result = "failed"
	}

	if !d.open {
		_, _ = fmt.Fprintf(d.out, "%s: ", name)
	}

	_, _ = fmt.Fprintln(d.out, result)
	d.open = false

	return err
}

// Say writes a line below the step.
func (d *Display) Say(format string, args ...any) {
	if d.open {
		_, _ = fmt.Fprintln(d.out)
		d.open = false
	}

	_, _ = fmt.Fprintf(d.out, "  "+format+"\n", args...)
}

// Write implements io.Writer: each line of the text is said.
func (d *Display) Write(text []byte) (int, error) {
	for line := range strings.SplitSeq(strings.TrimRight(string(text), "\n"), "\n") {
		d.Say("%s", line)
	}

	return len(text), nil
}

// Wait repeats a check until it succeeds. Errors of the check, those of the network among them, are what it waits for:
// each is said when it changes. After the timeout, and after an interrupt, Wait returns the last one.
func (d *Display) Wait(ctx context.Context, timeout time.Duration, check func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	begin, said, last := time.Now(), time.Now(), ""

	for {
		err := check(limited)
		if err == nil {
			return nil
		}

		if limited.Err() == nil && (err.Error() != last || time.Since(said) > reminderInterval) {
			said, last = time.Now(), err.Error()
			d.Say("%s (%.0f s)", last, time.Since(begin).Seconds())
		}

		select {
		case <-limited.Done():
			if last == "" { // the first check took all the time
				last = err.Error()
			}

			if ctx.Err() != nil {
				return fmt.Errorf("%w; it waited for this: %s", ErrInterrupted, last)
			}

			return fmt.Errorf("not done after %s: %s", timeout, last)
		case <-time.After(PollInterval):
		}
	}
}
