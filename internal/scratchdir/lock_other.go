//go:build !unix

package scratchdir

import (
	"errors"
	"os"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/filelock"
)

// settled is the age from which a lock without a holder counts as abandoned. A younger lock's process may be about to
// lock it.
const settled = time.Minute

// hold creates a file and locks it. Windows cannot rename an open file, so another process may see the file without the
// lock for a moment. No test has run this on Windows.
func hold(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}

	if err := filelock.Exclusive(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return file, nil
}

// isAbandoned reports whether no process holds a lock. On Windows, temporary files belong to the user.
func isAbandoned(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < settled {
		return false
	}

	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer file.Close()

	return filelock.Exclusive(file) == nil
}
