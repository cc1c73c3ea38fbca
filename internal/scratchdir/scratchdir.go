// Package scratchdir creates temporary folders. If their process was killed, the next process removes them soon. These
// folders may contain secrets.
package scratchdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
)

// These constants are the prefixes of the folders' names.
const (
	Command  = "olvmctl-"
	Provider = "capolvm-provider-"
)

// lockName is the name of the file in a folder that the folder's process locks.
const lockName = ".lock"

// attempts is how often Make creates a folder that another process removes before it is locked.
const attempts = 5

// Make creates a temporary folder. It also removes folders with this prefix that killed processes of this user have
// left. The function remove removes the new folder.
func Make(prefix string) (dir string, remove func() error, err error) {
	Tidy(prefix)

	dir, held, err := makeHeld(prefix)
	for attempt := 1; errors.Is(err, fs.ErrNotExist) && attempt < attempts; attempt++ { // another process has tidied it
		dir, held, err = makeHeld(prefix)
	}

	if err != nil {
		return "", nil, fmt.Errorf("failed to make a folder for temporary files: %w", err)
	}

	return dir, func() error {
		_ = held.Close() // Windows cannot remove an open file

		return removeFolder(dir)
	}, nil
}

// makeHeld creates a folder, and locks it.
func makeHeld(prefix string) (dir string, held *os.File, err error) {
	dir, err = os.MkdirTemp("", prefix)
	if err != nil {
		return "", nil, err
	}

	held, err = hold(filepath.Join(dir, lockName))
	if err != nil {
		_ = os.RemoveAll(dir)
	}

	return dir, held, err
}

// removeFolder removes a folder, and its lock at the end. If the process is killed meanwhile, the lock is there, or the
// folder is empty.
func removeFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return os.RemoveAll(dir)
	}

	for _, entry := range entries {
		if entry.Name() == lockName {
			continue
		}

		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}

	return os.RemoveAll(dir)
}

// Tidy removes the temporary folders with this prefix that killed processes of this user have left. Commands that
// continue after an interruption call it.
func Tidy(prefix string) { removeAbandoned(os.TempDir(), prefix) }

// removeAbandoned removes the folders whose locks no process holds, and the empty folders without a lock. Other folders
// without a lock belong to something else.
func removeAbandoned(in, prefix string) {
	found, _ := filepath.Glob(filepath.Join(in, prefix+"*", lockName))
	for _, lock := range found {
		if isAbandoned(lock) {
			_ = removeFolder(filepath.Dir(lock))
		}
	}

	found, _ = filepath.Glob(filepath.Join(in, prefix+"*"))
	for _, dir := range found {
		if number := strings.TrimPrefix(filepath.Base(dir), prefix); strings.Trim(number, "0123456789") == "" {
			removeEmpty(dir)
		}
	}
}

// removeEmpty removes an empty folder. Its process was killed, or is about to lock it: Make tries again then.
func removeEmpty(dir string) {
	if info, err := os.Lstat(dir); err == nil && info.IsDir() && hostos.IsOwn(info) {
		_ = os.Remove(dir)
	}
}
