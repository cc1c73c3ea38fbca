// Package kubeconfigfile changes kubeconfig files that others use, too. It takes the lock that kubectl and kind take,
// and replaces a file in one step, so that whoever reads it finds all of it.
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
	// lockSuffix is that of the file beside a kubeconfig which exists while somebody writes it.
	lockSuffix = ".lock"
	// lockPatience bounds how long a lock of others is waited for. They hold it for milliseconds.
	lockPatience = 10 * time.Second
	// abandonedAfter is the age of a lock whose holder was killed.
	abandonedAfter = time.Minute
	// lockInterval is how often a lock is tried.
	lockInterval = 50 * time.Millisecond
)

// Edit changes a kubeconfig file. A file that is not there is made; one in which nothing is left is removed. An error
// of change leaves it as it is, and so does a change that changes nothing.
func Edit(path string, change func(*clientcmdapi.Config) error) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // the link stays
	}

	unlock, err := lock(path)
	if err != nil {
		return err
	}
	defer unlock()

	config, err := clientcmd.LoadFromFile(path)
	if errors.Is(err, os.ErrNotExist) {
		config, err = clientcmdapi.NewConfig(), nil
	}

	if err != nil {
		return fmt.Errorf("%s is not a kubeconfig: %w; move it elsewhere, or name another file", path, err)
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

	return replace(path, content)
}

// lock makes the lock file. One that was abandoned is taken over.
func lock(path string) (unlock func(), err error) {
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
			return nil, fmt.Errorf("another program writes %s; if none does, remove %s", path, name)
		}
	}
}

// unlockOwn removes the lock file that this process has made, and not one that another process has made since it took
// that for abandoned.
func unlockOwn(name string, own os.FileInfo) {
	if found, err := os.Stat(name); err == nil && os.SameFile(found, own) {
		_ = os.Remove(name)
	}
}

// removeAbandoned removes a lock file that was seen to be old. Another process may have done that meanwhile, and made
// its own: that one is put back.
func removeAbandoned(name string, seen os.FileInfo) {
	aside := name + "." + rand.Text()
	if err := os.Rename(name, aside); err != nil {
		return // another process has removed it
	}

	if found, err := os.Stat(aside); err == nil && !os.SameFile(found, seen) {
		_ = os.Link(aside, name) // unless yet another process has made one
	}

	_ = os.Remove(aside)
}

// replace puts a file with that content in the place of another one, whose mode it gets.
func replace(path string, content []byte) error {
	mode := os.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}

	return atomicfile.Write(path, content, mode)
}
