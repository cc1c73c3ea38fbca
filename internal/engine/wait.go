package engine

import (
	"context"
	"fmt"
	"time"
)

const (
	// WaitLimit limits a wait. A VM with copied disks, instead of linked ones, may take minutes.
	WaitLimit = 15 * time.Minute
	// waitFirst and waitMost are the limits of the pause between two looks. A change must be noticed within two
	// seconds, so the longest pause plus one request takes less.
	waitFirst = 200 * time.Millisecond
	waitMost  = 1500 * time.Millisecond
)

// Look is one look at the awaited object. It reports whether the wait is over, and an observation such as a status. An
// error ends the wait unless it is transient.
type Look func(ctx context.Context) (done bool, seen string, err error)

// WaitError reports that a wait ended too early.
type WaitError struct {
	// What is the awaited event, such as "VM 1234 to start".
	What string
	// Seen is the observation of the last look, or "".
	Seen string
	// Last is the last transient error, or nil.
	Last error
	// Err is context.DeadlineExceeded or context.Canceled.
	Err error
}

// Error omits the duration, because a condition must have the same text for each try.
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

// refusedPatience is how long Wait retries an unknown conflict before it counts as final.
const refusedPatience = 10 * time.Second

// waitLimit is the context key of a limit that replaces WaitLimit.
type waitLimit struct{}

// WithWaitLimit returns a context with this timeout. A Wait in this context may use all of it.
func WithWaitLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithValue(ctx, waitLimit{}, limit), limit)
}

// Wait calls look until it reports done or returns a lasting error. It ignores transient errors. It takes at most
// WaitLimit, or the limit of WithWaitLimit. It calls report with each new observation; report may be nil. If it ends
// early, it returns a WaitError.
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
		case !isWorthRetrying(err):
			return err
		case refusedSince.IsZero():
			refusedSince = time.Now()
		case time.Since(refusedSince) > refusedPatience:
			return err
		}

		if seen != "" && seen != early.Seen {
			early.Seen, pause = seen, waitFirst // the next change may come soon
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
