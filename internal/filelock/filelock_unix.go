//go:build unix

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// flock is the call of the kernel.
var flock = syscall.Flock

func lock(file *os.File, alone bool) error {
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}

	err := flock(int(file.Fd()), how|syscall.LOCK_NB)
	for errors.Is(err, syscall.EINTR) {
		err = flock(int(file.Fd()), how|syscall.LOCK_NB)
	}

	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrHeld
	}

	return err // some file systems do not support this
}
