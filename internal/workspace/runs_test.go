package workspace

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

func TestAbandonKeepsNothing(t *testing.T) {
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

	runs := NewRunQueue(1, time.Hour)
	runs.WorkDir = filepath.Dir(folder)
	kind := NewKind(Kind{Name: "Thing", Runs: runs})
	object := types.NamespacedName{Namespace: filepath.Base(folder), Name: "m"}
	key := kind.Key(object)
	release := make(chan struct{})
	_, err := runs.runner.Submit(terraform.Job{
		Key:       key.String(),
		Operation: terraform.Apply,
		Run: func(context.Context) (terraform.Summary, error) {
			<-release
			return terraform.Summary{}, os.ErrInvalid
		},
	})
	if err != nil {
		t.Fatal(err)
	}

	if err := kind.CleanUpDeleted(object); err != nil || len(left()) != len(ours)+len(others) {
		t.Fatalf("a run goes on, and left are %v, %v", left(), err)
	}

	close(release)
	if woken := (<-runs.WakeChannel("Thing")).Object; woken.GetName() != "m" {
		t.Fatalf("the end of the run woke %s", woken.GetName())
	}

	run, _ := runs.getFinishedRun(key)
	runs.countEnded(key, run)
	if err := kind.CleanUpDeleted(object); err != nil || !slices.Equal(left(), others) {
		t.Errorf("left are %v, %v", left(), err)
	}

	if _, ok := runs.getFinishedRun(key); ok || runs.getFailure(key).Count != 0 {
		t.Error("its last run is remembered")
	}

	if err := kind.CleanUpDeleted(types.NamespacedName{Namespace: "missing", Name: "m"}); err != nil {
		t.Errorf("an object that never had a directory: %v", err)
	}
}

// TestPrioritizeWoken queues a new machine first, and then a machine whose run has ended.
func TestPrioritizeWoken(t *testing.T) {
	queue := priorityqueue.New[ctrl.Request]("test")
	defer queue.ShutDown()
	queue.Add(ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "new"}})
	runs := NewRunQueue(1, time.Hour)
	runs.WakeObject(Key{Kind: "Thing", Namespace: "ns", Name: "begun"})
	PrioritizeWoken.Generic(t.Context(), <-runs.WakeChannel("Thing"), queue)

	for _, want := range []string{"begun", "new"} {
		if got, _ := queue.Get(); got.Name != want {
			t.Errorf("the queue gives %s, not %s", got.Name, want)
		}
	}
}
