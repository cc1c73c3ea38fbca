package engine

import (
	"context"
	"fmt"
	"time"
)

const (
	// WaitLimit bounds a wait: a VM whose disks are copied, not linked, may take minutes.
	WaitLimit = 15 * time.Minute
	// waitFirst and waitMost bound the pause between two looks. The longest pause and one request are under the two
	// seconds within which a change is to be noticed.
	waitFirst = 200 * time.Millisecond
	waitMost  = 1500 * time.Millisecond
)

// Look is one look at what is waited for. It reports whether the wait is over, and what was seen, such as a status; an
// error that does not pass by itself ends the wait.
type Look func(ctx context.Context) (done bool, seen string, err error)

// WaitError reports that a wait ended before what was waited for came.
type WaitError struct {
	// What was waited for, such as "VM 1234 to start".
	What string
	// Seen is what the last look saw; "" where it saw nothing.
	Seen string
	// Last is the last error that was expected to pass; nil where there was none.
	Last error
	// Err is context.DeadlineExceeded or context.Canceled.
	Err error
}

// Error says nothing of how long it took: what becomes a condition stays the same from try to try.
func (e *WaitError) Error() string {
	text := "gave up waiting for " + e.What
	if e.Seen != "" {
		text += fmt.Sprintf(": last seen was %q", e.Seen)
	}

	if e.Last != nil {
		text += fmt.Sprintf(", last error: %v", e.Last)
	}

	return fmt.Sprintf("%s (%v)", text, e.Err)
}

func (e *WaitError) Unwrap() []error { return []error{e.Err, e.Last} }

// refusedPatience is how long a conflict of unknown words is tried again before it is final.
const refusedPatience = 10 * time.Second

// waitLimit is the key of a context for a limit of its waits other than WaitLimit.
type waitLimit struct{}

// WithWaitLimit returns a context that ends after that time, and whose waits may take all of it.
func WithWaitLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithValue(ctx, waitLimit{}, limit), limit)
}

// Wait looks until the look reports that it is done, through errors that pass by themselves, for at most WaitLimit, or
// what WithWaitLimit says.
// Each time that something new is seen, report is called with it; report may be nil. What ends early is a WaitError.
func Wait(ctx context.Context, what string, look Look, report func(seen string)) error {
	limit := WaitLimit
	if other, ok := ctx.Value(waitLimit{}).(time.Duration); ok {
		limit = other
	}

	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	pause := waitFirst
	early := &WaitError{What: what}
	var refusedSince time.Time

	for {
		done, seen, err := look(ctx)
		if err == nil && done {
			return nil
		}

		switch {
		case err == nil || IsTransient(err):
			refusedSince = time.Time{}
		case !mayPass(err):
			return err
		case refusedSince.IsZero():
			refusedSince = time.Now()
		case time.Since(refusedSince) > refusedPatience:
			return err
		}

		if seen != "" && seen != early.Seen {
			early.Seen, pause = seen, waitFirst // things move: the next change may be near
			if report != nil {
				report(seen)
			}
		}

		if ctx.Err() == nil {
			early.Last = err
		}

		select {
		case <-ctx.Done():
			early.Err = ctx.Err()
			return early
		case <-time.After(pause):
		}

		pause = min(pause*3/2, waitMost)
	}
}
