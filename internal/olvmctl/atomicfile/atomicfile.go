// Package atomicfile writes crash-safe files: readers see either the previous file or the new one.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Write replaces a file by one with this content and mode. After it returns, file and name are on the disk and survive
// a power cut. A process killed meanwhile leaves at most one file next to it, removed by the next Write. Writers of the
// same file must lock it.
func Write(path string, content []byte, mode os.FileMode) (err error) {
	next := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".next")
	_ = os.Remove(next) // a killed process's; never write to a stranger's file

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
