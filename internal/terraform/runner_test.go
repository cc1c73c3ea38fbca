package terraform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/redact"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// ended waits for the notification of a job.
func ended(t *testing.T, notified <-chan string) string {
	t.Helper()

	return wait.Receive(t, "a job ends", notified)
}

func newTestRunner(t *testing.T, concurrency int) (*Runner, chan string) {
	t.Helper()
	notified := make(chan string, 100)
	r := NewRunner(concurrency, time.Hour, func(key string) { notified <- key })
	t.Cleanup(func() { r.Shutdown(wait.Limit) })

	return r, notified
}

// TestFairQueue has a tenant with endless jobs, each on a different engine: M4.
func TestFairQueue(t *testing.T) {
	queue := newFairQueue(4)
	given := func(t *place) bool {
		select {
		case <-t.ready:
			return true
		default:
			return false
		}
	}

	var hostile []*place
	for i := range 10 {
		hostile = append(hostile, queue.requestPlace("hostile", fmt.Sprintf("engine-%d", i)))
	}

	first := queue.requestPlace("victim", "engine")
	if given(first) {
		t.Error("who is alone has all places") // no other tenant needs a place
	}

	queue.releasePlace(hostile[0])
	if !given(first) || given(hostile[4]) {
		t.Error("a tenant with many runs came before one with none")
	}

	second := queue.requestPlace("victim", "engine")
	queue.releasePlace(hostile[1])
	if !given(second) || given(hostile[4]) {
		t.Error("a tenant with two runs came before one with one")
	}

	queue.releasePlace(first)
	queue.releasePlace(second)
	if running := queue.ofTenant["hostile"]; running != 3 {
		t.Errorf("the hostile tenant has %d runs, and there is one place for others", running)
	}

	if third := queue.requestPlace("victim", "engine"); !given(third) {
		t.Error("the place that was left for others is not given")
	}
}

// TestAnEngineLeavesOnePlaceToOthers has endless jobs on one engine, and then a job on another.
func TestAnEngineLeavesOnePlaceToOthers(t *testing.T) {
	r, notified := newTestRunner(t, 3)
	release := make(chan struct{})
	submit := func(key, engine string, run func()) {
		t.Helper()
		_, err := r.Submit(Job{
			Key:       key,
			Engine:    engine,
			Operation: Apply,
			Run:       func(context.Context) (Summary, error) { run(); return Summary{}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	submit("before", "swift", func() {})
	ended(t, notified)

	for i := range 5 {
		submit(fmt.Sprint("slow-", i), "slow", func() { <-release })
	}

	if queued, running := r.CountActive(); running > 2 || queued+running != 5 {
		t.Errorf("%d queued, %d running", queued, running)
	}

	submit("swift", "swift", func() {})
	if key := ended(t, notified); key != "swift" {
		t.Errorf("%s ended", key)
	}

	r.CancelJob("slow-4") // while the job waits
	if key := ended(t, notified); key != "slow-4" {
		t.Errorf("%s ended", key)
	}

	close(release)

	for range 4 {
		ended(t, notified)
	}
}

func TestJobsRunInTheOrderOfTheirRequests(t *testing.T) {
	r, notified := newTestRunner(t, 1)
	release := make(chan struct{})

	for i := range 20 {
		_, err := r.Submit(Job{
			Key:       fmt.Sprint(i),
			Operation: Apply,
			Run:       func(context.Context) (Summary, error) { <-release; return Summary{}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
	}

	close(release)

	for i := range 20 {
		if key := ended(t, notified); key != fmt.Sprint(i) {
			t.Fatalf("job %s ended as number %d", key, i)
		}
	}
}

func TestOneJobPerWorkspaceAndBoundedConcurrency(t *testing.T) {
	r, notified := newTestRunner(t, 2)
	release := make(chan struct{})
	var running, most atomic.Int32

	job := func(key string) Job {
		return Job{Key: key, Operation: Apply, Digest: key, Run: func(context.Context) (Summary, error) {
			now := running.Add(1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}

			<-release
			running.Add(-1)

			return Summary{Added: 1}, nil
		}}
	}
	for i := range 5 {
		if _, err := r.Submit(job(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}

	again, err := r.Submit(Job{
		Key:    "0",
		Digest: "another",
		Run:    func(context.Context) (Summary, error) { t.Error("a second job ran"); return Summary{}, nil },
	})
	if err != nil || again.Digest != "0" {
		t.Errorf("submitting again returned %+v, %v", again, err)
	}

	close(release)

	for range 5 {
		ended(t, notified)
	}

	if most.Load() > 2 {
		t.Errorf("%d jobs at once", most.Load())
	}

	status, ok := r.GetStatus("3")
	check.Equal(t, "ok", ok, true)
	check.Equal(t, "status.Phase", status.Phase, Done)
	check.Equal(t, "status.Summary.Added", status.Summary.Added, 1)
	if status.Err != nil {
		t.Errorf("status.Err is there: %v", status.Err)
	}

	check.Equal(t, "status.Ended.Before(status.Started)", status.Ended.Before(status.Started), false)

	r.DropJob("3", status.Ended.Add(-time.Second))
	if _, ok := r.GetStatus("3"); !ok {
		t.Error("a job was forgotten that nobody took notice of")
	}

	r.DropJob("3", status.Ended)
	if _, ok := r.GetStatus("3"); ok {
		t.Error("the job was not forgotten")
	}
}

func TestCancelAndPanicEndAJob(t *testing.T) {
	r, notified := newTestRunner(t, 1)
	started := make(chan struct{})
	if _, err := r.Submit(Job{Key: "a", Run: func(ctx context.Context) (Summary, error) {
		close(started)
		<-ctx.Done()
		return Summary{}, context.Cause(ctx)
	}}); err != nil {
		t.Fatal(err)
	}

	<-started
	_, err := r.Submit(Job{
		Key: "queued",
		Run: func(context.Context) (Summary, error) { t.Error("a cancelled job ran"); return Summary{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}

	r.CancelJob("queued")
	ended(t, notified)
	r.CancelJob("a")
	ended(t, notified)

	for _, key := range []string{"a", "queued"} {
		if status, _ := r.GetStatus(key); !errors.Is(status.Err, ErrCancelled) {
			t.Errorf("%s ended with %v", key, status.Err)
		}
	}

	if _, err := r.Submit(Job{Key: "b", Run: func(context.Context) (Summary, error) { panic("oops") }}); err != nil {
		t.Fatal(err)
	}

	ended(t, notified)
	if status, _ := r.GetStatus("b"); status.Err == nil || !strings.Contains(status.Err.Error(), "oops") {
		t.Errorf("a panic ended with %v", status.Err)
	}
}

// TestAnInterruptedJobSaysWhyItWasInterrupted has jobs that end with errors caused by an interruption.
func TestAnInterruptedJobSaysWhyItWasInterrupted(t *testing.T) {
	unsaved := errors.New("the state was not saved")

	for name, job := range map[string]struct {
		operation Operation
		limit     time.Duration
		broken    func(ctx context.Context) error
		want      error
	}{
		"a check whose plan cannot be read": {
			operation: Check, want: ErrCancelled,
			broken: func(ctx context.Context) error {
				return fmt.Errorf("failed to read the plan: %s", ctx.Err().Error())
			},
		},
		"a run whose object cannot be read": {
			operation: Apply, want: ErrCancelled,
			broken: func(ctx context.Context) error { return fmt.Errorf("failed to get it: %w", ctx.Err()) },
		},
		"a destruction whose request is given up": {
			operation: Destroy, want: ErrCancelled,
			broken: func(ctx context.Context) error { return &url.Error{Op: "Get", URL: "https://e", Err: ctx.Err()} },
		},
		"a run whose state is not saved": {
			operation: Apply, want: unsaved, broken: func(context.Context) error { return unsaved },
		},
		"a check that takes too long": {
			operation: Check, limit: time.Nanosecond, want: &TimeoutError{Limit: time.Nanosecond},
			broken: func(ctx context.Context) error {
				return fmt.Errorf("failed to read the plan: %s", ctx.Err().Error())
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, notified := newTestRunner(t, 1)
			started := make(chan struct{})
			_, err := r.Submit(Job{
				Key: "a", Operation: job.operation, Limit: job.limit, Run: func(ctx context.Context) (Summary, error) {
					close(started)
					<-ctx.Done()

					return Summary{}, job.broken(ctx)
				},
			})
			check.Error(t, err, "")
			<-started

			if job.limit == 0 {
				r.CancelJob("a")
			}

			ended(t, notified)
			status, _ := r.GetStatus("a")
			check.Equal(t, "the error", status.Err.Error(), job.want.Error())
		})
	}
}

func TestShutdownWaitsForTheRunsAndTakesNoMore(t *testing.T) {
	r := NewRunner(1, time.Hour, nil)
	saved := false
	started, save := make(chan struct{}), make(chan struct{})
	if _, err := r.Submit(Job{Key: "a", Run: func(ctx context.Context) (Summary, error) {
		close(started)
		<-ctx.Done()
		<-save // saving the state takes a while
		saved = true

		return Summary{}, context.Cause(ctx)
	}}); err != nil {
		t.Fatal(err)
	}

	<-started
	if r.Shutdown(0) {
		t.Error("the run ended at once")
	}

	close(save)
	if !r.Shutdown(wait.Limit) {
		t.Error("the run did not end")
	}

	if status, _ := r.GetStatus("a"); !saved || !errors.Is(status.Err, ErrShuttingDown) {
		t.Errorf("saved %t, %v", saved, status.Err)
	}

	if _, err := r.Submit(Job{Key: "b"}); !errors.Is(err, ErrShuttingDown) {
		t.Errorf("a job after the shutdown: %v", err)
	}
}

func TestOutputOfAnySizeIsReadInBoundedMemory(t *testing.T) {
	w := &eventWriter{
		redact: redact.New(
			[]string{
				"hunter2-hunter2",
				"line one of a key\nshort\nline two of a key\n  token: 'abcdef.0123456789abcdef'",
			},
		).RemoveSecrets,
	}
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	line("this is not JSON")
	line(`{"type":"diagnostic","diagnostic":{"severity":"warning","summary":"mind the gap"}}`)

	junk := bytes.Repeat([]byte("x"), 1<<20)
	for range 20 { // one line of 20 MiB
		_, _ = w.Write(junk)
	}

	line("")
	if len(w.line) > maxLine {
		t.Errorf("%d bytes of a line are kept", len(w.line))
	}

	for i := range 50 {
		line(
			`{"type":"diagnostic","diagnostic":{"severity":"error","summary":"error %d with hunter2-hunter2","detail":"and line two of a key, <abcdef.0123456789abcdef>, %s"}}`,
			i,
			strings.Repeat("y", 5000),
		)
	}

	line(`{"type":"planned_change","change":{"resource":{"addr":"a.b","resource_type":"a"},"action":"create"}}`)
	if len(w.diagnostics) != maxDiagnostics || len(w.planned) != 1 || w.planned[0] != (Change{
		Address: "a.b",
		Type:    "a",
		Action:  "create",
	}) {
		t.Errorf("%d diagnostics, changes %+v", len(w.diagnostics), w.planned)
	}

	text := (&DiagnosticError{Phase: "plan", Diagnostics: w.diagnostics}).Error()
	check.Lacks(t, "text", text, "hunter2")
	check.Lacks(t, "text", text, "line two")
	check.Lacks(t, "text", text, "0123456789")
	check.Contains(t, "text", text, "error 0 with (redacted)")
	if len(text) > maxDiagnostics*(maxDiagnostic+200) {
		t.Errorf("len(text) > maxDiagnostics*(maxDiagnostic+200): %v", len(text))
	}
}

func TestAStateIsNewerOnlyIfItContinuesTheOther(t *testing.T) {
	state := func(lineage string, serial int) []byte {
		return fmt.Appendf(nil, `{"version":4,"lineage":%q,"serial":%d}`, lineage, serial)
	}
	for name, test := range map[string]struct {
		candidate, current []byte
		want               bool
	}{
		"where there was none":       {state("l", 1), nil, true},
		"a later serial":             {state("l", 2), state("l", 1), true},
		"the same serial":            {state("l", 1), state("l", 1), false},
		"another lineage":            {state("m", 9), state("l", 1), false},
		"cut off by a full disk":     {[]byte(`{"version":4,"lin`), state("l", 1), false},
		"empty, as a kill leaves it": {nil, nil, false},
	} {
		if got := isNewer(test.candidate, test.current); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
