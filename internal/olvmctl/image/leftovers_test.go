package image

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/capolvm/cluster-api-provider-olvm/internal/filelock"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestARunWithoutALockIsNotTakenForAnother has the folder of runs on a file system without locks. In one case, another
// run could still lock its file. The objects of the other run must neither be removed nor count as objects of a running
// run.
func TestARunWithoutALockIsNotTakenForAnother(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir()) // the cache folder of macOS

	begun, err := beginRun()
	check.Error(t, err, "")
	check.Equal(t, "a run that lives", stateOfRun(begun.id), runAlive)
	check.Equal(t, "a run of another machine", stateOfRun(uuid.NewString()), runElsewhere)

	restore := filelock.FailForTest(syscall.ENOLCK)
	check.Equal(t, "a run without locks", stateOfRun(begun.id), runElsewhere)

	folder := filepath.Dir(begun.lock.Name())
	_, err = beginRun()
	check.Error(t, err, "the file system of "+folder+" may have no locks")
	check.Contains(t, "the remedy", err.Error(), "set XDG_CACHE_HOME")

	left, err := os.ReadDir(folder)
	check.Error(t, err, "")
	check.Length(t, "files of runs", left, 1)

	restore()
	check.Error(t, begun.lock.Close(), "")
	check.Equal(t, "a run that was killed", stateOfRun(begun.id), runDead)
}
