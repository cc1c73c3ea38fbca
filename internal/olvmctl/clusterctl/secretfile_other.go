//go:build !linux

package clusterctl

import (
	"os"
	"path/filepath"
)

// secretFile creates a file for this process. If the process is killed, the file remains.
func secretFile(content []byte) (path string, done func(), err error) {
	dir, err := os.MkdirTemp("", "olvmctl-")
	if err != nil {
		return "", nil, err
	}

	path = filepath.Join(dir, "kubeconfig")
	done = func() { _ = os.RemoveAll(dir) }
	if err := os.WriteFile(path, content, 0o600); err != nil {
		done()
		return "", nil, err
	}

	return path, done, nil
}
