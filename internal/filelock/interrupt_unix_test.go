//go:build unix

package filelock

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestALockGoesOnAfterASignal sends a signal while the kernel locks a file.
func TestALockGoesOnAfterASignal(t *testing.T) {
	before, calls := flock, 0
	flock = func(file, how int) error {
		if calls++; calls == 1 {
			return syscall.EINTR
		}

		return before(file, how)
	}

	t.Cleanup(func() { flock = before })

	release, err := TakeFile(filepath.Join(t.TempDir(), "one"))
	check.Error(t, err, "")
	release()
}
