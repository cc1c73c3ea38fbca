package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// pollInterval is how often things that take long are looked at.
	pollInterval = time.Second
	// stillWaiting is how often a wait without news says so.
	stillWaiting = 30 * time.Second
)

// errInterrupted ends what the user has interrupted.
var errInterrupted = errors.New("interrupted")

// steps says what is done, one line for each step, with what is waited for below it.
type steps struct {
	progress io.Writer
	// open reports that the line of the step has no end yet.
	open bool
}

// do runs a step.
func (s *steps) do(what string, run func() error) error {
	begin := time.Now()
	_, _ = fmt.Fprintf(s.progress, "%s: ", what)
	s.open = true
	err := run()
	result := fmt.Sprintf("ok (%.0f s)", time.Since(begin).Seconds())
	if err != nil {
		result = "failed"
	}

	if !s.open {
		_, _ = fmt.Fprintf(s.progress, "%s: ", what)
	}

	_, _ = fmt.Fprintln(s.progress, result)
	s.open = false

	return err
}

// say adds a line to the step.
func (s *steps) say(format string, args ...any) {
	if s.open {
		_, _ = fmt.Fprintln(s.progress)
		s.open = false
	}

	_, _ = fmt.Fprintf(s.progress, "  "+format+"\n", args...)
}

// until repeats a check until it succeeds. Its error is shown when it changes, and is the error
// where the timeout passes or the user interrupts it; errors of the network are among it.
func (s *steps) until(ctx context.Context, timeout time.Duration, check func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	begin, told, last := time.Now(), time.Now(), ""

	for {
		err := check(limited)
		if err == nil {
			return nil
		}

		if limited.Err() == nil && (err.Error() != last || time.Since(told) > stillWaiting) {
			told, last = time.Now(), err.Error()
			s.say("%s (%.0f s)", last, time.Since(begin).Seconds())
		}

		select {
		case <-limited.Done():
			if last == "" { // the first check took all the time
				last = err.Error()
			}

			if ctx.Err() != nil {
				return fmt.Errorf("%w; it waited for this: %s", errInterrupted, last)
			}

			return fmt.Errorf("not done after %s: %s", timeout, last)
		case <-time.After(pollInterval):
		}
	}
}
