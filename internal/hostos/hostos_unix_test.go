//go:build unix

package hostos

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestADiskOrAQuotaThatIsFull(t *testing.T) {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		check.Equal(t, full.Error(), IsDiskFull(fmt.Errorf("failed to write: %w", full)), true)
	}
}

func TestSocketsOfAPairAreConnected(t *testing.T) {
	one, other, err := SocketPair()
	check.Error(t, err, "")
	_, err = one.WriteString("hello")
	check.Error(t, err, "")
	check.Error(t, one.Close(), "")

	said, err := io.ReadAll(other)
	check.Error(t, err, "")
	check.Equal(t, "what arrives", string(said), "hello")
	check.Error(t, other.Close(), "")
}

func TestAProcessThatIsAskedToEndEnds(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(int) error
		want syscall.Signal
	}{"asked": {EndProcess, syscall.SIGTERM}, "killed": {KillProcess, syscall.SIGKILL}} {
		t.Run(name, func(t *testing.T) {
			command := exec.CommandContext(t.Context(), "sleep", "30")
			command.SysProcAttr = OwnGroup()
			check.Error(t, command.Start(), "")

			group, err := syscall.Getpgid(command.Process.Pid)
			check.Error(t, err, "")
			check.Equal(t, "its group", group, command.Process.Pid)
			check.Error(t, test.end(command.Process.Pid), "")
			check.Set(t, "its end", command.Wait() != nil)

			status, known := command.ProcessState.Sys().(syscall.WaitStatus)
			check.Equal(t, "whether its status is known", known, true)
			check.Equal(t, "the signal that has ended it", status.Signal(), test.want)
		})
	}
}

func TestAFileIsItsOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	check.Error(t, os.WriteFile(path, nil, 0o600), "")
	info, err := os.Stat(path)
	check.Error(t, err, "")
	check.Equal(t, "whether it is ours", IsOwn(info), true)
}
