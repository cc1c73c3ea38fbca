// Package kubeconfigfile changes kubeconfig files shared with other programs. It uses the same lock as kubectl and
// kind, and replaces a file atomically, so readers always see a complete file.
package kubeconfigfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/atomicfile"
)

const (
	// lockSuffix is the suffix of the lock file beside a kubeconfig. The lock file exists only during a write.
	lockSuffix = ".lock"
	// lockPatience is how long Edit waits for the lock of another process. Other processes hold the lock for
	// milliseconds.
	lockPatience = 10 * time.Second
	// abandonedAfter is the age after which a lock counts as left by a killed process.
	abandonedAfter = time.Minute
	// lockInterval is the interval between attempts to get the lock.
	lockInterval = 50 * time.Millisecond
)

// Edit changes a kubeconfig file. It creates a missing file, and removes a file that becomes empty. If change returns
// an error or changes nothing, the file stays unchanged.
func Edit(path string, change func(*clientcmdapi.Config) error) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // keeps the link
	}

	unlock, err := lockFile(path)
	if err != nil {
		return err
	}
	defer unlock()

	config, err := clientcmd.LoadFromFile(path)
	if errors.Is(err, os.ErrNotExist) {
		config, err = clientcmdapi.NewConfig(), nil
	}

	if err != nil {
		return fmt.Errorf("%s is not a kubeconfig: %w; move it, or specify another file", path, err)
	}

	before := config.DeepCopy()
	if err := change(config); err != nil {
		return err
	}

	switch {
	case equality.Semantic.DeepEqual(before, config):
		return nil
	case len(config.Clusters)+len(config.AuthInfos)+len(config.Contexts) == 0:
		return os.Remove(path)
	}

	content, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("failed to encode %s: %w", path, err)
	}

	return replaceContent(path, content)
}

// lockFile creates the lock file. It replaces an abandoned lock file.
func lockFile(path string) (unlock func(), err error) {
	name := path + lockSuffix

	for begin := time.Now(); ; time.Sleep(lockInterval) {
		file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			own, err := file.Stat()
			return func() { unlockOwn(name, own) }, errors.Join(err, file.Close())
		}

		if !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("failed to lock %s: %w", path, err)
		}

		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > abandonedAfter {
			removeAbandoned(name, info)
			continue
		}

		if time.Since(begin) > lockPatience {
			return nil, fmt.Errorf("another program is writing %s; if not, remove %s", path, name)
		}
	}
}

// unlockOwn removes the lock file of this process. It does not remove the lock file of another process that considered
// this one abandoned.
func unlockOwn(name string, own os.FileInfo) {
	if found, err := os.Stat(name); err == nil && os.SameFile(found, own) {
		_ = os.Remove(name)
	}
}

// removeAbandoned removes an old lock file. If another process has already replaced it by its own lock file,
// removeAbandoned restores that file.
func removeAbandoned(name string, seen os.FileInfo) {
	aside := name + "." + rand.Text()
	if err := os.Rename(name, aside); err != nil {
		return // another process has already removed it
	}

	if found, err := os.Stat(aside); err == nil && !os.SameFile(found, seen) {
		_ = os.Link(aside, name) // unless a third process has created one
	}

	_ = os.Remove(aside)
}

// replaceContent replaces the content of a file, and keeps its mode.
func replaceContent(path string, content []byte) error {
	mode := os.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}

	return atomicfile.Write(path, content, mode)
}
