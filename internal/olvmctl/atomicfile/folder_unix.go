//go:build unix

package atomicfile

import (
	"errors"
	"os"
	"syscall"
)

// syncFolder has the names of a folder on the disk. File systems that cannot do that are left alone.
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
