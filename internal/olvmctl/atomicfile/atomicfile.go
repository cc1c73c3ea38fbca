// Package atomicfile writes files safely: after a crash, readers see either the previous file or the new one.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Write replaces a file by one with the given content and mode. After Write returns, both content and name are on the
// disk, and survive a power failure. A process killed during Write leaves at most one file beside it, and the next
// Write removes this file. Writers of the same file must hold a lock for it.
func Write(path string, content []byte, mode os.FileMode) (err error) {
	next := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".next")
	_ = os.Remove(next) // left by a killed process; never write to a stranger's file

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
