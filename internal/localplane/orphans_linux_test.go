package localplane

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// TestWhatAKilledPlaneLeavesIsEnded has one process of an earlier plane, one of another plane, and one of another
// program.
func TestWhatAKilledPlaneLeavesIsEnded(t *testing.T) {
	programs, dir, other := t.TempDir(), t.TempDir(), t.TempDir()
	shell, err := filepath.EvalSymlinks("/bin/sh")
	check.Error(t, err, "")
	content, err := os.ReadFile(shell)
	check.Error(t, err, "")
	program := filepath.Join(programs, "etcd")
	check.Error(t, os.WriteFile(program, content, 0o700), "")

	run := func(program, dir string) *exec.Cmd {
		command := exec.CommandContext(t.Context(), program, "-c", "read line", "etcd", "--data-dir="+dir+"/data")
		_, err := command.StdinPipe() // it reads for ever
		check.Error(t, err, "")
		check.Error(t, command.Start(), "")

		return command
	}
	ours := run(program, dir)
	ended := make(chan error, 1)
	go func() { ended <- ours.Wait() }()

	run(program, other)
	run(shell, dir)
	wait.Until(t, "they run", func() bool {
		return len(orphans(programs, dir)) == 1 && len(orphans(programs, other)) == 1
	})

	count, err := endOrphans(programs, dir)
	check.Error(t, err, "")
	check.Equal(t, "processes that were ended", count, 1)
	check.Equal(t, "processes of another plane", len(orphans(programs, other)), 1)

	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("it runs on")
	}
}
