package controllers

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

func TestNothingIsKeptOfAnObjectThatIsGone(t *testing.T) {
	ours := []string{"m-6adfcc37-9ad2-4da2-9ca2-e47fe08d14b6", "m-465228e8-0055-49cd-8423-ed67d02b7f2b"}
	others := []string{"m-1-7b9dcccf-eef0-4d49-bc1a-7a47bc67066a", "n-7b9dcccf-eef0-4d49-bc1a-7a47bc67066a", "olvmcluster.m-7b9dcccf-eef0-4d49-bc1a-7a47bc67066a"}
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
	if _, err := runs.runner.Submit(terraform.Job{Key: "ns/m", Operation: terraform.Apply, Run: func(context.Context) (terraform.Summary, error) {
		<-release
		return terraform.Summary{}, os.ErrInvalid
	}}); err != nil {
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
