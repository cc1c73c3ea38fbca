// Package wait has tests wait until something happens. Its limit exists to end a test that hangs: no test may depend on
// how fast a machine is.
package wait

import (
	"errors"
	"runtime"
	"testing"
	"time"
)

// Limit is how long a test waits before it calls what it waits for a hang. It is far more than anything takes: whole
// clusters come up in one or two minutes, and in five on a machine that is busy with other work. Only a test that fails
// waits this long.
const Limit = 10 * time.Minute

// grace is what is left of the time of a test binary when a wait gives up, so that the failure says what it waited for.
const grace = 30 * time.Second

// The pause between two looks grows from the first value to the second: many tests at once leave the machine little
// time for looks that find nothing new.
const (
	firstPause = 5 * time.Millisecond
	mostPause  = 250 * time.Millisecond
)

// errNot is the error of a condition that gives none.
var errNot = errors.New("it does not hold")

// For waits until check returns no error. It fails the test with what and the last error.
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
			runtime.Goexit() // nobody is left to tell
		case <-limit.C:
			t.Fatalf("gave up after %s, waiting until %s: %v", most, what, err)
		case <-time.After(pause):
		}
	}
}

// Until waits until a condition holds. Use For if an error can say what is missing.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	For(t, what, func() error {
		if holds() {
			return nil
		}

		return errNot
	})
}

// Receive waits for a value of a channel, or for its end, for which it returns the zero value.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()

	most := limitOf(t)
	limit := time.NewTimer(most)
	defer limit.Stop()

	select {
	case out := <-from:
		return out
	case <-endOf(t):
		runtime.Goexit() // nobody is left to tell
	case <-limit.C:
		t.Fatalf("gave up after %s, waiting until %s", most, what)
	}

	panic("unreachable")
}

// endOf is closed when the test ends. In a cleanup, which runs after that end, it is nil: cleanups wait too.
func endOf(t testing.TB) <-chan struct{} {
	if t.Context().Err() != nil {
		return nil
	}

	return t.Context().Done()
}

// limitOf is the time that a wait has: Limit, or what go test's -timeout leaves of it.
func limitOf(t testing.TB) time.Duration {
	if test, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, limited := test.Deadline(); limited {
			return max(min(Limit, time.Until(end)-grace).Round(time.Second), 0)
		}
	}

	return Limit
}
