// Package atomicfile writes files that survive a crash whole: readers see the file of before, or the new one.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Write puts a file with that content and mode in the place of the one before. When it returns, the file is on the
// disk, and so is its name: a power cut does not take it back. A process that is killed meanwhile leaves at most one
// file beside it, which the next Write removes. Writers of the same file have to lock it.
func Write(path string, content []byte, mode os.FileMode) (err error) {
	next := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".next")
	_ = os.Remove(next) // of a process that was killed; whatever a stranger has put there is not written to

	defer func() {
		if err != nil {
			_ = os.Remove(next)
			err = fmt.Errorf("failed to write %s: %w", path, err)
		}
	}()

	file, err := os.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}

	_, err = file.Write(content)
	if err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err != nil {
		return err
	}

	if err := os.Rename(next, path); err != nil {
		return err
	}

	return syncFolder(filepath.Dir(path))
}
