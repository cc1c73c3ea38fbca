// Package filelock locks files against other processes. A lock ends with its process, however the process ends.
package filelock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrHeld reports that another process holds the lock.
var ErrHeld = errors.New("another process holds the lock")

// system requests a lock from the operating system.
var system = lock

// Exclusive locks an open file for this process alone. It does not wait for the lock.
func Exclusive(file *os.File) error { return addRemedy(file, system(file, true)) }

// Shared locks an open file together with other processes that share it. It does not wait for the lock.
func Shared(file *os.File) error { return addRemedy(file, system(file, false)) }

// FailForTest makes all locks fail, as on a file system without locks. The returned function ends this.
func FailForTest(err error) (restore func()) {
	before := system
	system = func(*os.File, bool) error { return err }

	return func() { system = before }
}

// addRemedy adds the file's folder and the remedy to the error for a file that cannot be locked.
func addRemedy(file *os.File, err error) error {
	if err == nil || errors.Is(err, ErrHeld) {
		return err
	}

	return fmt.Errorf("failed to lock %s: %w; the file system of %s may have no locks, as some of NFS: use a folder "+
		"on a local disk", file.Name(), err, filepath.Dir(file.Name()))
}

// TakeFile creates a file, and locks it for this process alone. The function release removes the file.
func TakeFile(path string) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("failed to make a folder for locks: %w", err)
	}

	for {
		file, isNew, err := openOrMake(path)
		if err != nil {
			return nil, fmt.Errorf("failed to make the file of a lock: %w", err)
		}

		if err := Exclusive(file); err != nil {
			if isNew && !errors.Is(err, ErrHeld) { // an older file may be locked, although this process cannot tell
				removeIfAt(file, path)
			}

			return nil, errors.Join(err, file.Close())
		}

		if isAt(file, path) {
			return func() {
				removeIfAt(file, path)
				_ = file.Close()
			}, nil
		}

		_ = file.Close() // the file's former holder has removed it
	}
}

// openOrMake opens a file, or creates it if it does not exist.
func openOrMake(path string) (file *os.File, isNew bool, err error) {
	file, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil || !errors.Is(err, os.ErrExist) {
		return file, err == nil, err
	}

	file, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // the file's holder may just have removed it

	return file, false, err
}

// removeIfAt removes an open file, unless another file has its name now.
func removeIfAt(file *os.File, path string) {
	if isAt(file, path) {
		_ = os.Remove(path)
	}
}

// isAt reports whether an open file still has the given path.
func isAt(file *os.File, path string) bool {
	open, err := file.Stat()
	if err != nil {
		return false
	}

	named, err := os.Stat(path)

	return err == nil && os.SameFile(open, named)
}
