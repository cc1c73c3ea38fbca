// Package scratchdir creates temporary folders. If their process was killed, the next process removes them soon. These
// folders may contain secrets.
package scratchdir

import (
	"fmt"
	"os"
	"path/filepath"
)

// These constants are the prefixes of the folders' names.
const (
	Command  = "olvmctl-"
	Provider = "capolvm-provider-"
)

// lockName is the name of the file in a folder that the folder's process locks.
const lockName = ".lock"

// Make creates a temporary folder. It also removes folders with this prefix that killed processes of this user have
// left. The function remove removes the new folder.
func Make(prefix string) (dir string, remove func() error, err error) {
	Tidy(prefix)

	dir, err = os.MkdirTemp("", prefix)
	if err != nil {
		return "", nil, fmt.Errorf("failed to make a folder for temporary files: %w", err)
	}

	held, err := hold(filepath.Join(dir, lockName))
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, fmt.Errorf("failed to make a folder for temporary files: %w", err)
	}

	return dir, func() error {
		_ = held.Close() // Windows cannot remove an open file

		return os.RemoveAll(dir)
	}, nil
}

// Tidy removes the temporary folders with this prefix that killed processes of this user have left. Commands that
// continue after an interruption call it.
func Tidy(prefix string) { removeAbandoned(os.TempDir(), prefix) }

// removeAbandoned removes the folders whose locks no process holds. A folder without a lock belongs to something else,
// or was just created.
func removeAbandoned(in, prefix string) {
	found, _ := filepath.Glob(filepath.Join(in, prefix+"*", lockName))
	for _, lock := range found {
		if isAbandoned(lock) {
			_ = os.RemoveAll(filepath.Dir(lock))
		}
	}
}
