// Package scratchdir makes temporary folders that do not outlive their process for long: those of processes that were
// killed are removed by the next one. They may have secrets.
package scratchdir

import (
	"fmt"
	"os"
	"path/filepath"
)

// The beginnings of the names of folders.
const (
	Command  = "olvmctl-"
	Provider = "capolvm-provider-"
)

// lockName is the file of a folder that its process holds a lock on.
const lockName = ".lock"

// Make makes a folder among temporary files, and removes those with this prefix that killed processes of this user have
// left there. remove removes it.
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
		_ = held.Close() // Windows removes no file that is open

		return os.RemoveAll(dir)
	}, nil
}

// Tidy removes the folders with this prefix that killed processes of this user have left among temporary files.
// Commands call it that go on after an interrupted one.
func Tidy(prefix string) { removeAbandoned(os.TempDir(), prefix) }

// removeAbandoned removes the folders whose locks nobody holds. A folder without one is of something else, or is just
// made.
func removeAbandoned(in, prefix string) {
	found, _ := filepath.Glob(filepath.Join(in, prefix+"*", lockName))
	for _, lock := range found {
		if isAbandoned(lock) {
			_ = os.RemoveAll(filepath.Dir(lock))
		}
	}
}
