package controllers

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

func TestNothingIsKeptOfAnObjectThatIsGone(t *testing.T) {
	ours := []string{"m-6adfcc37-9ad2-4da2-9ca2-e47fe08d14b6", "m-465228e8-0055-49cd-8423-ed67d02b7f2b"}
	others := []string{
		"m-1-7b9dcccf-eef0-4d49-bc1a-7a47bc67066a",
		"n-7b9dcccf-eef0-4d49-bc1a-7a47bc67066a",
		"olvmcluster.m-7b9dcccf-eef0-4d49-bc1a-7a47bc67066a",
	}

	folder := t.TempDir()
	for _, name := range slices.Concat(ours, others) {
		if err := os.MkdirAll(filepath.Join(folder, name, "modules"), 0o700); err != nil {
			t.Fatal(err)
		}
	}

	left := func() []string {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}

		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}

		return names
	}

	runs := NewRuns(1, time.Hour)
	release := make(chan struct{})
	_, err := runs.runner.Submit(terraform.Job{
		Key:       "ns/m",
		Operation: terraform.Apply,
		Run: func(context.Context) (terraform.Summary, error) {
			<-release
			return terraform.Summary{}, os.ErrInvalid
		},
	})
	if err != nil {
		t.Fatal(err)
	}

	if err := runs.abandon("ns/m", folder, "m"); err != nil || len(left()) != len(ours)+len(others) {
		t.Fatalf("a run goes on, and left are %v, %v", left(), err)
	}

	close(release)
	if object := (<-runs.machines).Object; object.GetName() != "m" { // the end of the run wakes the object
		t.Fatalf("woken was %s", object.GetName())
	}

	status, _ := runs.runner.Observe("ns/m")
	runs.note("ns/m", status)
	if err := runs.abandon("ns/m", folder, "m"); err != nil || !slices.Equal(left(), others) {
		t.Errorf("left are %v, %v", left(), err)
	}

	if _, ok := runs.runner.Observe("ns/m"); ok || runs.attempt("ns/m").failures != 0 {
		t.Error("its last run is remembered")
	}

	if err := runs.abandon("ns/m", filepath.Join(folder, "missing"), "m"); err != nil {
		t.Errorf("an object that never had a directory: %v", err)
	}
}

// TestWhatWasBegunIsFinishedFirst has a machine that waits for a run's end, and one that has just been made before it.
func TestWhatWasBegunIsFinishedFirst(t *testing.T) {
	queue := priorityqueue.New[ctrl.Request]("test")
	defer queue.ShutDown()
	queue.Add(ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "new"}})
	runs := NewRuns(1, time.Hour)
	runs.wakeUp("ns/begun")
	ahead.Generic(t.Context(), <-runs.machines, queue)

	for _, want := range []string{"begun", "new"} {
		if got, _ := queue.Get(); got.Name != want {
			t.Errorf("the queue gives %s, not %s", got.Name, want)
		}
	}
}

func TestBegunMachines(t *testing.T) {
	runs := NewRuns(1, time.Hour)
	r := &OLVMMachineReconciler{runner: runs.runner}
	release := make(chan struct{})

	for _, key := range []string{"ns/running", "ns/queued"} { // one at once
		_, err := runs.runner.Submit(terraform.Job{
			Key:       key,
			Operation: terraform.Apply,
			Run: func(context.Context) (terraform.Summary, error) {
				<-release
				return terraform.Summary{}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
	}

	defer func() { runs.Shutdown(time.Minute) }()
	defer close(release)

	for queued, running := runs.runner.Active(); running != 1 || queued != 1; queued, running = runs.runner.Active() {
		time.Sleep(time.Millisecond)
	}

	made := func(provisioned bool) *infrav1.OLVMMachine {
		m := &infrav1.OLVMMachine{
			Spec: infrav1.OLVMMachineSpec{ProviderID: "olvm://01939bb4-0000-4000-8000-000000000001"},
		}
		m.Status.Initialization.Provisioned = ptr.To(provisioned)

		return m
	}
	first := "ns/running"
	if run, _ := runs.runner.Observe(first); run.Phase == terraform.Queued {
		first = "ns/queued"
	}

	for name, c := range map[string]struct {
		key     string
		machine *infrav1.OLVMMachine
		want    bool
	}{
		"nothing yet": {"ns/new", &infrav1.OLVMMachine{}, false},
		"a run goes":  {first, &infrav1.OLVMMachine{}, true},
		"a run has to wait": {map[string]string{
			"ns/running": "ns/queued",
			"ns/queued":  "ns/running",
		}[first], &infrav1.OLVMMachine{}, false},
		"a VM that is not up":   {"ns/made", made(false), true},
		"all there since a day": {"ns/old", made(true), false},
	} {
		if got := r.begun(&machineScope{key: c.key, olvmMachine: c.machine}); got != c.want {
			t.Errorf("%s: begun is %t", name, got)
		}
	}
}

func TestNamesOfAllLengthsAreFolders(t *testing.T) {
	const uid = "11111111-1111-4111-8111-111111111111"
	seen := map[string]bool{}

	for _, name := range []string{"a", strings.Repeat("a", 200), strings.Repeat("a", 201), strings.Repeat("a", 252) +
		"b", strings.Repeat("a", 253)} {
		folder := workFolder(statePrefix+name, uid)
		err := os.MkdirAll(filepath.Join(t.TempDir(), folder), 0o700)
		if err != nil || seen[folder] || !strings.HasSuffix(folder, uid) {
			t.Errorf("a name of %d characters is %s, %v", len(name), folder, err)
		}

		seen[folder] = true
	}
}
