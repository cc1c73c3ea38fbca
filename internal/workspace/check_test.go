package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// newCheckedBench returns a bench with an applied object. Each pass checks the object for drift.
func newCheckedBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.kind.ChecksDrift = true
	b.apply("digest-1")
	b.pass() // records the run
	b.kind.Runs.DriftInterval = time.Nanosecond

	return b
}

// pass runs a whole pass, and returns its workspace with the decision.
func (b *bench) pass() *decided {
	b.t.Helper()
	w := b.observe()
	if err := w.Apply(b.t.Context(), b.request("digest-1")); err != nil {
		b.t.Fatal(err)
	}

	w.DropRecordedRun()

	return w
}

// check runs one pass that begins a check, and another one that records it.
func (b *bench) check() *infrav1.DriftStatus {
	b.t.Helper()
	w := b.pass()
	check.Equal(b.t, "the action", w.Action.Kind, None)
	<-b.kind.Runs.WakeChannel("OLVMCluster")

	b.kind.Runs.DriftInterval = 24 * time.Hour // so the next pass begins no check
	defer func() { b.kind.Runs.DriftInterval = time.Nanosecond }()
	b.pass()

	return b.object.Status.Terraform.Drift
}

func TestACheckTellsWhatDiffersAndAppliesNothing(t *testing.T) {
	b := newCheckedBench(t)
	runs := b.object.Status.Terraform.Runs

	clean := b.check()
	check.Equal(t, "differences", len(clean.Differences), 0)
	check.Equal(t, "events", len(b.recorder.Events), 1) // the event of the run

	<-b.recorder.Events
	b.executor.drift = []terraform.Drift{{Address: "ovirt_vm.this", Action: "update", Attributes: []string{"memory"}}}
	found := b.check()
	check.Equal(t, "differences", fmt.Sprint(found.Differences), "[ovirt_vm.this (memory)]")
	check.Contains(t, "the event", <-b.recorder.Events, "Warning DriftDetected The settings in the engine differ")

	b.check() // an unchanged result causes no event
	check.Equal(t, "events", len(b.recorder.Events), 0)

	b.executor.drift = nil
	b.check()
	check.Contains(t, "the event", <-b.recorder.Events, "Normal NoDrift")

	check.Equal(t, "runs", b.object.Status.Terraform.Runs, runs)

	for _, request := range b.executor.requests[1:] {
		check.Equal(
			t, "the state of a check is that of the run", strings.Contains(string(request.State), `"serial":1`), true,
		)
	}
}

func TestACheckThatFailsIsToldAndIsNoFailureOfARun(t *testing.T) {
	b := newCheckedBench(t)
	b.executor.failures = []error{errors.New("the engine is away")}
	failed := b.check()
	check.Equal(t, "the error", failed.Error, "the engine is away")
	check.Equal(t, "failures", b.object.Status.Terraform.Failures, 0)

	w := b.observe()
	check.Equal(t, "the failure of a run", w.Failure.Count, 0)

	// A failed check is due again before its regular time.
	left := w.timeUntilCheck(24*time.Hour, failed.CheckTime.Time)
	check.Equal(t, "until the next check", left, checkRetry)
}

func TestARunDoesNotWaitForACheck(t *testing.T) {
	b := newCheckedBench(t)
	blocked := make(chan struct{})
	if _, err := b.kind.Runs.runner.Submit(terraform.Job{ // this job occupies the only place
		Key: "x/y/z", Operation: terraform.Apply, Run: func(context.Context) (terraform.Summary, error) {
			<-blocked
			return terraform.Summary{}, nil
		},
	}); err != nil {
		t.Fatal(err)
	}

	check.Equal(t, "the check's action", b.pass().Action.Kind, None) // its check is still queued

	w := b.observe()
	if err := w.Apply(t.Context(), b.request("digest-2")); err != nil {
		t.Fatal(err)
	}

	check.Equal(t, "the action", w.Action.Kind, Wait)
	<-b.kind.Runs.WakeChannel("OLVMCluster") // the check has ended
	close(blocked)

	w = b.observe()
	if err := w.Apply(t.Context(), b.request("digest-2")); err != nil {
		t.Fatal(err)
	}

	w.DropRecordedRun()
	check.Equal(t, "the action after the check", w.Action.Kind, Apply)
	check.Equal(t, "what the check has found", b.object.Status.Terraform.Drift == nil, true)
}

// TestACheckThatAChangeInterruptsIsMadeAgain has a check that fails with the error of its context, like a reader of a
// plan.
func TestACheckThatAChangeInterruptsIsMadeAgain(t *testing.T) {
	for name, found := range map[string]*infrav1.DriftStatus{
		"no check was made before":       nil,
		"the check before found a drift": {Differences: []string{"ovirt_vm.this (memory)"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newCheckedBench(t)
			b.object.Status.Terraform.Drift = found.DeepCopy()
			check.Error(t, b.client.Update(t.Context(), b.object), "")
			b.executor.holds = make(chan struct{})

			b.pass()
			<-b.executor.holds

			w := b.observe()
			check.Error(t, w.Apply(t.Context(), b.request("digest-2")), "")
			check.Equal(t, "the action", w.Action.Kind, Wait)
			<-b.kind.Runs.WakeChannel("OLVMCluster")

			w = b.observe()
			check.Error(t, w.Apply(t.Context(), b.request("digest-2")), "")
			w.DropRecordedRun()
			check.Equal(t, "the action after the check", w.Action.Kind, Apply)
			check.Equal(t, "the drift", b.object.Status.Terraform.Drift, found)
			<-b.kind.Runs.WakeChannel("OLVMCluster")
		})
	}
}

func TestOneObjectIsCheckedAtATime(t *testing.T) {
	runs := NewRunQueue(1, time.Minute)
	one, other := Key{"K", "ns", "one"}, Key{"K", "ns", "other"}
	check.Equal(t, "the first", runs.acquireCheck(one), true)
	check.Equal(t, "another", runs.acquireCheck(other), false)
	runs.releaseCheck(other)
	check.Equal(t, "another, whose check has ended", runs.acquireCheck(other), false)
	runs.releaseCheck(one)
	check.Equal(t, "another, when the first has ended", runs.acquireCheck(other), true)
}

// TestChecksAreSpreadOverTheInterval creates many objects at once, and compares the times of their checks.
func TestChecksAreSpreadOverTheInterval(t *testing.T) {
	b := newBench(t)
	b.kind.Runs.DriftInterval = 24 * time.Hour
	now := b.kind.Runs.started
	perHour := map[int]int{}

	for i := range 2400 {
		object := b.object.DeepCopy()
		object.UID = types.UID(fmt.Sprintf("%08d-1111-4111-8111-111111111111", i))
		object.CreationTimestamp = metav1.NewTime(now)

		left := b.kind.Open(nil, object, "c").timeUntilCheck(24*time.Hour, now)
		if left <= 0 || left > 24*time.Hour {
			t.Fatalf("the first check is in %s", left)
		}

		perHour[int(left/time.Hour)]++

		// After a check, the next one is due at the same time on the next day.
		object.Status.Terraform = &infrav1.TerraformStatus{Drift: &infrav1.DriftStatus{
			CheckTime: metav1.NewTime(now.Add(left)),
		}}
		again := b.kind.Open(nil, object, "c").timeUntilCheck(24*time.Hour, now.Add(left))
		check.Equal(t, "until the next one", again, 24*time.Hour)
	}

	for hour := range 24 {
		if count := perHour[hour]; count < 60 || count > 140 {
			t.Errorf("%d of 2,400 are checked in hour %d", count, hour)
		}
	}
}
