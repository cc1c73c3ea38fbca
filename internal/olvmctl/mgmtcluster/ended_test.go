package mgmtcluster

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/filelock"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// localIn returns a local management cluster with data, in a folder of the test.
func localIn(t *testing.T) Local {
	t.Helper()
	l := Local{filepath.Join(t.TempDir(), "local")}
	check.Error(t, os.MkdirAll(l.dataDir(), 0o700), "")

	return l
}

// began writes the process ID to the file, as if the process was last seen a while ago.
func (l Local) began(t *testing.T, content string, seen time.Time) {
	t.Helper()
	check.Error(t, os.WriteFile(l.pidFile(), []byte(content), 0o600), "")
	check.Error(t, os.Chtimes(l.pidFile(), seen, seen), "")
}

func TestALocalManagementClusterThatDiedSaysWhenAndWhy(t *testing.T) {
	now := time.Now().Truncate(time.Second)

	for name, test := range map[string]struct {
		leave func(t *testing.T, l Local)
		at    time.Time
		says  string
	}{
		"it was never begun": {leave: func(*testing.T, Local) {}},
		"it was stopped":     {leave: func(t *testing.T, l Local) { l.began(t, "", now) }},
		"its process was killed": {
			leave: func(t *testing.T, l Local) { l.began(t, "999999999\n", now.Add(-time.Second)) },
			at:    now.Add(-time.Second),
			says:  "its process 999999999 was killed",
		},
		"the machine has lost power": {
			leave: func(t *testing.T, l Local) { l.began(t, "1\n", bootTime().Add(-time.Hour)) },
			at:    bootTime().Add(-time.Hour),
			says:  "the machine lost power",
		},
		"its process has said why": {
			leave: func(t *testing.T, l Local) {
				l.began(t, "999999999\n", now)
				file, err := os.OpenFile(l.pidFile(), os.O_RDWR, 0)
				check.Error(t, err, "")
				l.noteEnd(file, errors.New("kube-apiserver ended: signal: killed"))
				check.Error(t, os.Chtimes(l.endFile(), now, now), "")
			},
			at:   now,
			says: "kube-apiserver ended: signal: killed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := localIn(t)
			test.leave(t, l)
			end := l.DetectEnd()
			check.Equal(t, "whether it died", end != nil, test.says != "")

			if end != nil {
				check.Contains(t, "what is said", end.String(), test.says)
				check.Contains(t, "what is said", end.String(), test.at.Local().Format(time.DateTime))
			}
		})
	}
}

// TestAStopIsNoDeath records the end of a process that was stopped.
func TestAStopIsNoDeath(t *testing.T) {
	l := localIn(t)
	file, err := l.lockPIDFile(t.Context())
	check.Error(t, err, "")
	check.Equal(t, "the process", l.PID(), 0) // the command of this process is not olvmctl local serve
	check.Set(t, "the end while nobody has noted one", l.DetectEnd() != nil)

	l.noteEnd(file, nil)
	check.Error(t, file.Close(), "")
	check.Equal(t, "whether it died", l.DetectEnd() != nil, false)
}

// TestWhatAnEarlierProcessHasSaidDoesNotHoldForTheNext has files left by a power failure.
func TestWhatAnEarlierProcessHasSaidDoesNotHoldForTheNext(t *testing.T) {
	l := localIn(t)
	check.Error(t, os.WriteFile(l.readyFile(), nil, 0o600), "")
	check.Error(t, os.WriteFile(l.endFile(), []byte("no space left"), 0o600), "")

	file, err := l.lockPIDFile(t.Context())
	check.Error(t, err, "")
	defer file.Close()
	check.Equal(t, "whether it is ready", pathExists(l.readyFile()), false)
	check.Equal(t, "whether it has ended", pathExists(l.endFile()), false)
}

func TestAReadyFileOfAnotherProcessIsNone(t *testing.T) {
	l := localIn(t)
	end := l.runs(t)
	defer end()

	for content, want := range map[string]bool{
		strconv.Itoa(l.PID()) + "\n": true,
		"1\n":                        false,
		strconv.Itoa(l.PID()) + "0":  false,
		"":                           true, // an older version
	} {
		check.Error(t, os.WriteFile(l.readyFile(), []byte(content), 0o600), "")
		check.Equal(t, "whether it runs with "+strconv.Quote(content), l.IsRunning(), want)
	}
}

// TestAProcessOfAnotherFolderIsNotOurs has a process ID that the local management cluster of another user now has.
func TestAProcessOfAnotherFolderIsNotOurs(t *testing.T) {
	l, other := localIn(t), localIn(t)
	end := other.runs(t)
	defer end()

	l.began(t, strconv.Itoa(other.PID()), time.Now())
	check.Set(t, "the process of the other", other.PID())
	check.Equal(t, "the process", l.PID(), 0)
	check.Set(t, "the end", l.DetectEnd() != nil)
}

// TestARemovalThatWasInterruptedLeavesNothingToStart kills a removal halfway.
func TestARemovalThatWasInterruptedLeavesNothingToStart(t *testing.T) {
	l := localIn(t)
	check.Error(t, os.Rename(l.dir, l.removedDir()), "")
	check.Equal(t, "whether there is one", l.Exists(), false)

	check.Error(t, os.MkdirAll(l.dataDir(), 0o700), "") // a new one
	check.Error(t, l.Remove(t.Context()), "")
	check.Equal(t, "whether there is one", l.Exists(), false)
	check.Equal(t, "whether something is left", pathExists(l.removedDir()), false)
	check.Error(t, l.Remove(t.Context()), "") // there is none any more
}

// TestALocalManagementClusterWithoutLocksIsTold has its data on a file system without locks. No other process runs the
// cluster.
func TestALocalManagementClusterWithoutLocksIsTold(t *testing.T) {
	t.Cleanup(filelock.FailForTest(syscall.ENOLCK))

	l := localIn(t)
	_, err := l.lockPIDFile(t.Context())
	check.Error(t, err, "the file system of "+l.dir+" may have no locks")
	check.Contains(t, "the remedy", err.Error(), "set XDG_STATE_HOME")
	check.Lacks(t, "the error", err.Error(), "another process")
}
