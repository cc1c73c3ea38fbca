//go:build unix

package scratchdir

import (
	"errors"
	"os"
	"syscall"

	"github.com/capolvm/cluster-api-provider-olvm/internal/filelock"
	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
)

// hold creates a file with a lock, which ends with this process. The file is locked before it gets its name, so no
// other process ever sees it without the lock.
func hold(path string) (*os.File, error) {
	next := path + ".next"
	file, err := os.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}

	err = filelock.Exclusive(file)
	if err == nil {
		err = os.Rename(next, path)
	}

	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return file, nil
}

// isAbandoned reports whether a lock belongs to this user and no process holds it. A symbolic link counts as the lock
// of another user.
func isAbandoned(path string) bool {
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer file.Close()

	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}

	return hostos.IsOwn(info) && filelock.Exclusive(file) == nil
}
