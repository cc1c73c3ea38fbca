package mgmtcluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// runs has a process that looks like the one that runs it.
func (l Local) runs(t *testing.T) (end func()) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-c", "read line", "local", "serve")
	input, err := command.StdinPipe() // it reads for ever
	if err != nil {
		t.Fatal(err)
	}

	if err := command.Start(); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(l.pidFile(), []byte(strconv.Itoa(command.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}

	for l.PID() == 0 { // between fork and exec
		time.Sleep(time.Millisecond)
	}

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

	if err := os.Mkdir(l.data(), 0o700); err != nil {
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

// TestALocalManagementClusterThatIsBegun has a second command wait for what the first has begun.
func TestALocalManagementClusterThatIsBegun(t *testing.T) {
	l := Local{filepath.Join(t.TempDir(), "local")}
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}

	end := l.runs(t)
	go func() {
		time.Sleep(50 * time.Millisecond)
		_ = os.WriteFile(l.readyFile(), nil, 0o600)
	}()
	if err := l.Launch(t.Context()); err != nil {
		t.Error(err)
	}

	if err := os.Remove(l.readyFile()); err != nil {
		t.Fatal(err)
	}

	go end()
	if err := l.Launch(t.Context()); err == nil || !strings.Contains(err.Error(), "before it was ready") {
		t.Errorf("it has ended: %v", err)
	}
}
