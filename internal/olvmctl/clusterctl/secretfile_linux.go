package clusterctl

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// secretFile creates a file in memory for this process only. The file disappears even if the process is killed.
func secretFile(content []byte) (path string, done func(), err error) {
	descriptor, err := unix.MemfdCreate("kubeconfig", unix.MFD_CLOEXEC)
	if err != nil {
		return "", nil, fmt.Errorf("failed to create a file in memory: %w", err)
	}

	path = fmt.Sprintf("/proc/self/fd/%d", descriptor)
	file := os.NewFile(uintptr(descriptor), path)
	if _, err := file.Write(content); err != nil {
		return "", nil, errors.Join(err, file.Close())
	}

	return path, func() { _ = file.Close() }, nil
}
