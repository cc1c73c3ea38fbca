// Package filelock locks files against other processes. A lock ends with its process, however that ends.
package filelock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrHeld reports that another process holds the lock.
var ErrHeld = errors.New("another process holds the lock")

// Exclusive locks an open file for this process alone. It does not wait.
func Exclusive(file *os.File) error { return lock(file, true) }

// Shared locks an open file beside others that share it. It does not wait.
func Shared(file *os.File) error { return lock(file, false) }

// Take makes a file, and locks it for this process alone. release removes it.
func Take(path string) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("failed to make a folder for locks: %w", err)
	}

	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("failed to make the file of a lock: %w", err)
		}

		if err := Exclusive(file); err != nil {
			return nil, errors.Join(err, file.Close())
		}

		if isAt(file, path) {
			return func() {
				_ = os.Remove(path)
				_ = file.Close()
			}, nil
		}

		_ = file.Close() // whoever held it has removed it
	}
}

// isAt reports whether an open file is the one of that name still.
func isAt(file *os.File, path string) bool {
	open, err := file.Stat()
	if err != nil {
		return false
	}

	named, err := os.Stat(path)

	return err == nil && os.SameFile(open, named)
}
