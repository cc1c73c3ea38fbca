//go:build unix

package atomicfile

import (
	"errors"
	"os"
	"syscall"
)

// syncFolder writes the names in a folder to the disk. It ignores file systems that do not support this.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}

	err = folder.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}

	return errors.Join(err, folder.Close())
}
