package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestALockIsHeldByOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks", "one")
	release, err := TakeFile(path)
	check.Error(t, err, "")

	_, err = TakeFile(path)
	check.Equal(t, "whether it is held", errors.Is(err, ErrHeld), true)
	release()

	_, err = os.Stat(path)
	check.Equal(t, "whether its file is left", err == nil, false)

	release, err = TakeFile(path)
	check.Error(t, err, "")
	release()
}

func TestAFileIsSharedByMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image")
	check.Error(t, os.WriteFile(path, []byte("x"), 0o600), "")

	var files [2]*os.File

	for i := range files {
		file, err := os.Open(path)
		check.Error(t, err, "")
		t.Cleanup(func() { _ = file.Close() })
		check.Error(t, Shared(file), "")
		files[i] = file
	}

	check.Equal(t, "whether it is held", errors.Is(Exclusive(files[0]), ErrHeld), true)
	check.Error(t, files[1].Close(), "")
	check.Error(t, Exclusive(files[0]), "")
}

// TestALockOfARemovedFileIsNone covers a lock on a file that its holder has removed. Another file has its name now.
func TestALockOfARemovedFileIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one")
	file, err := os.Create(path)
	check.Error(t, err, "")
	t.Cleanup(func() { _ = file.Close() })
	check.Equal(t, "whether it is at its name", isAt(file, path), true)
	check.Error(t, os.Remove(path), "")
	check.Equal(t, "whether it is at its name", isAt(file, path), false)

	other, err := os.Create(path)
	check.Error(t, err, "")
	check.Error(t, other.Close(), "")
	check.Equal(t, "whether it is at its name", isAt(file, path), false)
}

// TestAFileSystemWithoutLocksIsTold covers the errors of file systems without locks, such as some NFS file systems.
func TestAFileSystemWithoutLocksIsTold(t *testing.T) {
	for _, cannot := range []error{syscall.ENOLCK, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EINVAL, syscall.EIO} {
		t.Cleanup(FailForTest(cannot))

		dir := t.TempDir()
		_, err := TakeFile(filepath.Join(dir, "one"))
		check.Equal(t, "the cause", errors.Is(err, cannot), true)
		check.Equal(t, "it is held", errors.Is(err, ErrHeld), false)
		check.Contains(t, "the folder and the remedy", err.Error(), "the file system of "+dir+" may have no locks")
		check.Contains(t, "the folder and the remedy", err.Error(), "use a folder on a local disk")

		left, err := os.ReadDir(dir)
		check.Error(t, err, "")
		check.Length(t, "files that are left", left, 0)
	}
}

// TestAFailureLeavesTheFileThatAnotherProcessHasLocked uses a file system that fails for a moment.
func TestAFailureLeavesTheFileThatAnotherProcessHasLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one")
	release, err := TakeFile(path)
	check.Error(t, err, "")
	t.Cleanup(release)

	for _, failure := range []error{syscall.ENOLCK, syscall.EIO} {
		restore := FailForTest(failure)
		_, err = TakeFile(path)
		restore()
		check.Equal(t, "the cause", errors.Is(err, failure), true)

		_, err = TakeFile(path)
		check.Equal(t, "whether it is held", errors.Is(err, ErrHeld), true)
	}
}

// TestAReleaseLeavesTheLockOfAnother removes the file, and lets another process lock a new file of the same name.
func TestAReleaseLeavesTheLockOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one")
	first, err := TakeFile(path)
	check.Error(t, err, "")
	check.Error(t, os.Remove(path), "")

	second, err := TakeFile(path)
	check.Error(t, err, "")
	t.Cleanup(second)
	first()

	_, err = TakeFile(path)
	check.Equal(t, "whether it is held", errors.Is(err, ErrHeld), true)
}
