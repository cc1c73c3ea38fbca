package wait

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// recorder is a test that records its failure.
type recorder struct {
	testing.TB
	ctx     context.Context
	left    time.Duration // time until the end of the test binary; 0 means no end
	failure string
}

func (r *recorder) Deadline() (time.Time, bool) { return time.Now().Add(r.left), r.left > 0 }

func (r *recorder) Helper() {}

func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// outcome is the result of a wait.
type outcome struct {
	failure  string
	returned bool
	took     time.Duration
}

// run calls a wait in a bubble whose clock jumps, so that even the whole limit takes no time. The waiting test ends
// after the time ended, unless this is 0.
func run(t *testing.T, ended time.Duration, wait func(testing.TB)) (out outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if ended > 0 {
			time.AfterFunc(ended, cancel)
		}

		begin := time.Now()
		r := &recorder{TB: t, ctx: ctx}
		done := make(chan struct{})
		go func() {
			defer close(done)
			wait(r)
			out.returned = true
		}()
		<-done
		out.failure, out.took = r.failure, time.Since(begin)
	})

	return out
}

// after returns a check that fails until a time has passed.
func after(d time.Duration) func() error {
	begin := time.Now()

	return func() error {
		if time.Since(begin) < d {
			return fmt.Errorf("it takes %s", d)
		}

		return nil
	}
}

func TestFor(t *testing.T) {
	for name, test := range map[string]struct {
		holdsAfter, ended time.Duration
		want              outcome
	}{
		"what holds needs no pause":      {0, 0, outcome{returned: true}},
		"the first pause is short":       {1, 0, outcome{returned: true, took: firstPause}},
		"the second is twice as long":    {firstPause + 1, 0, outcome{returned: true, took: 3 * firstPause}},
		"a test that ends stops waiting": {time.Hour, time.Second, outcome{took: time.Second}},
		"a hang ends at the limit and tells": {
			time.Hour, 0,
			outcome{failure: "gave up after 10m0s, waiting until it holds: it takes 1h0m0s", took: Limit},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, test.ended, func(t testing.TB) { For(t, "it holds", after(test.holdsAfter)) })
			check.Equal(t, "the outcome", got, test.want)
		})
	}
}

// TestForLooksOften uses a condition that holds only shortly before the limit. Infrequent looks would miss it.
func TestForLooksOften(t *testing.T) {
	got := run(t, 0, func(t testing.TB) { For(t, "it holds", after(Limit-2*mostPause)) })
	check.Equal(t, "it waited until the condition held", got.returned, true)
}

// TestForEndsBeforeTheBinary uses a test binary whose deadline is before the limit.
func TestForEndsBeforeTheBinary(t *testing.T) {
	got := run(t, 0, func(t testing.TB) {
		t.(*recorder).left = time.Minute
		For(t, "it holds", after(time.Hour))
	})
	check.Equal(t, "the outcome", got, outcome{
		failure: "gave up after 30s, waiting until it holds: it takes 1h0m0s", took: time.Minute - grace,
	})
}

// TestForInACleanup waits after the end of the test's context, as a cleanup does.
func TestForInACleanup(t *testing.T) {
	got := run(t, time.Second, func(t testing.TB) {
		<-t.Context().Done()
		For(t, "it holds", after(time.Minute))
	})
	check.Equal(t, "it waited until the condition held", got.returned, true)
}

func TestUntil(t *testing.T) {
	got := run(t, 0, func(t testing.TB) { Until(t, "it holds", func() bool { return false }) })
	check.Equal(t, "of what never holds", got,
		outcome{failure: "gave up after 10m0s, waiting until it holds: it does not hold", took: Limit})

	looks := 0
	got = run(t, 0, func(t testing.TB) { Until(t, "it holds", func() bool { looks++; return looks == 3 }) })
	check.Equal(t, "of what holds at the third look", got, outcome{returned: true, took: 3 * firstPause})
}

func TestReceive(t *testing.T) {
	for name, test := range map[string]struct {
		send  func(chan<- error)
		ended time.Duration
		value error
		want  outcome
	}{
		"a value": {
			send:  func(to chan<- error) { time.Sleep(time.Minute); to <- errors.ErrUnsupported },
			value: errors.ErrUnsupported,
			want:  outcome{returned: true, took: time.Minute},
		},
		"the end of the channel": {
			send: func(to chan<- error) { close(to) },
			want: outcome{returned: true},
		},
		"nothing": {
			send: func(chan<- error) {},
			want: outcome{failure: "gave up after 10m0s, waiting until it ends", took: Limit},
		},
		"nothing, and the test ends": {
			send:  func(chan<- error) {},
			ended: time.Second,
			want:  outcome{took: time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var value error
			got := run(t, test.ended, func(t testing.TB) {
				from := make(chan error, 1)
				go test.send(from)
				value = Receive(t, "it ends", from)
			})
			check.Equal(t, "the outcome", got, test.want)
			check.Equal(t, "the value", errors.Is(value, test.value), true)
		})
	}
}
