package mgmtcluster

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/filelock"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// runs starts a process that looks like a running local management cluster.
func (l Local) runs(t *testing.T) (end func()) {
	t.Helper()
	file, err := os.Create(l.pidFile())
	check.Error(t, err, "")
	defer file.Close()

	command := exec.CommandContext(t.Context(), "sh", "-c", "read line", "local", "serve")
	command.ExtraFiles = []*os.File{file}
	input, err := command.StdinPipe() // the process reads forever
	if err != nil {
		t.Fatal(err)
	}

	if err := command.Start(); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(l.pidFile(), []byte(strconv.Itoa(command.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}

	wait.Until(t, "the process has become that command", func() bool { return l.PID() != 0 })

	return func() {
		_ = input.Close()
		_ = command.Process.Kill()
		_ = command.Wait()
	}
}

func TestALocalManagementClusterThatIsStopped(t *testing.T) {
	const server = "https://127.0.0.1:1"
	l := Local{t.TempDir()}
	if err := l.checkRuns(server); err != nil {
		t.Errorf("there is none: %v", err)
	}

	if err := os.Mkdir(l.dataDir(), 0o700); err != nil {
		t.Fatal(err)
	}

	testenv.WriteKubeconfig(t, l.Kubeconfig(), server)
	if err := l.checkRuns(server); err == nil || !strings.Contains(err.Error(), "olvmctl local start") {
		t.Errorf("it is stopped: %v", err)
	}

	if err := l.checkRuns("https://127.0.0.1:2"); err != nil {
		t.Errorf("it is another: %v", err)
	}

	end := l.runs(t)
	if err := l.checkRuns(server); err != nil {
		t.Errorf("it runs: %v", err)
	}

	end()
}

// TestALocalManagementClusterThatIsBegun has a second command that waits for the process started by the first one.
func TestALocalManagementClusterThatIsBegun(t *testing.T) {
	l := Local{filepath.Join(t.TempDir(), "local")}
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct {
		happens func(end func())
		problem string
	}{
		"it becomes ready": {
			happens: func(func()) { check.Error(t, os.WriteFile(l.readyFile(), nil, 0o600), "") },
		},
		"it ends": {
			happens: func(end func()) { end() },
			problem: "before it was ready",
		},
	} {
		t.Run(name, func(t *testing.T) {
			end := l.runs(t)
			_ = os.Remove(l.readyFile())
			synctest.Test(t, func(t *testing.T) {
				launched := make(chan error, 1)
				go func() { launched <- l.Launch(t.Context()) }()
				synctest.Wait() // the command has seen the process, and waits
				check.Equal(t, "commands that have ended before", len(launched), 0)
				test.happens(end)
				check.Error(t, <-launched, test.problem)

				// The last goroutine of Launch checks once more. This takes no real time, because the clock is the
				// bubble's.
				end()
				time.Sleep(2 * filePollInterval)
			})
		})
	}
}

// TestAStartWaitsForTheLockOfAKilledProcess has a process that was killed and has not ended yet. Its command line is
// gone, but not its lock.
func TestAStartWaitsForTheLockOfAKilledProcess(t *testing.T) {
	l := Local{t.TempDir()}
	hold := func(t *testing.T) *os.File {
		t.Helper()

		file, err := os.OpenFile(l.pidFile(), os.O_CREATE|os.O_RDWR, 0o600)
		check.Error(t, err, "")
		check.Error(t, filelock.Exclusive(file), "")

		return file
	}

	synctest.Test(t, func(t *testing.T) {
		killed := hold(t)
		_, err := killed.WriteString("999999999\n")
		check.Error(t, err, "")

		locked := make(chan error, 1)

		go func() {
			file, err := l.lockPIDFile(t.Context())
			locked <- errors.Join(err, file.Close())
		}()

		synctest.Wait() // for the pause after the first attempt
		check.Equal(t, "results", len(locked), 0)
		check.Error(t, killed.Close(), "")
		check.Error(t, <-locked, "")
	})

	end := l.runs(t)
	defer end()

	running := hold(t)
	defer running.Close()

	_, err := l.lockPIDFile(t.Context())
	check.Error(t, err, "another process is running the local management cluster")
}
