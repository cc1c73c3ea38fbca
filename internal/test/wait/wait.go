// Package wait makes tests wait for events. Its time limit only ends hung tests, because no test may depend on the
// speed of a machine.
package wait

import (
	"errors"
	"runtime"
	"testing"
	"time"
)

// Limit is the time after which a wait counts as hung. It is far above the usual durations. Whole clusters come up in
// one or two minutes, and in five on a busy machine. Only a failing test waits this long.
const Limit = 10 * time.Minute

// grace is the time that remains before a test binary's deadline when a wait gives up. The wait uses this time to
// report its purpose.
const grace = 30 * time.Second

// The pause between two looks grows from the first value to the second. With many tests at once, frequent looks would
// waste CPU time.
const (
	firstPause = 5 * time.Millisecond
	mostPause  = 250 * time.Millisecond
)

// errNot is the error of a condition that returns no error.
var errNot = errors.New("it does not hold")

// For waits until check returns no error. On a timeout, it fails the test with what and the last error.
func For(t testing.TB, what string, check func() error) {
	t.Helper()

	ended, most := endOf(t), limitOf(t)
	limit := time.NewTimer(most)
	defer limit.Stop()

	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		err := check()
		if err == nil {
			return
		}

		select {
		case <-ended:
			runtime.Goexit() // no test is left to which this could report
		case <-limit.C:
			t.Fatalf("gave up after %s, waiting until %s: %v", most, what, err)
		case <-time.After(pause):
		}
	}
}

// Until waits until a condition holds. Use For if an error can describe what is missing.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	For(t, what, func() error {
		if holds() {
			return nil
		}

		return errNot
	})
}

// Receive waits for a value from a channel and returns it. If the channel closes, it returns the zero value.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()

	most := limitOf(t)
	limit := time.NewTimer(most)
	defer limit.Stop()

	select {
	case out := <-from:
		return out
	case <-endOf(t):
		runtime.Goexit() // no test is left to which this could report
	case <-limit.C:
		t.Fatalf("gave up after %s, waiting until %s", most, what)
	}

	panic("unreachable")
}

// endOf returns a channel that closes at the end of the test. In a cleanup, the channel is nil, because cleanups run
// after this end and may wait, too.
func endOf(t testing.TB) <-chan struct{} {
	if t.Context().Err() != nil {
		return nil
	}

	return t.Context().Done()
}

// limitOf returns the limit of a wait: Limit, or the rest of go test's -timeout.
func limitOf(t testing.TB) time.Duration {
	if test, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, limited := test.Deadline(); limited {
			return max(min(Limit, time.Until(end)-grace).Round(time.Second), 0)
		}
	}

	return Limit
}
