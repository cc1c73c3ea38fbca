//go:build !unix

package scratchdir

import (
	"errors"
	"os"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/filelock"
)

// settled is the age from which on a lock that nobody holds is abandoned: before that, its process may be about to take
// it.
const settled = time.Minute

// hold makes a file, and locks it. Windows cannot rename a file that is open, so another process can see the file for
// a moment without the lock. No test has run this on Windows.
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

// isAbandoned reports whether nobody holds a lock. Temporary files of Windows are the user's own.
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
