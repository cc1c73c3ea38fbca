package kubeconfigfile

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// adds returns a change to add an entry.
func adds(name string) func(*clientcmdapi.Config) error {
	return func(c *clientcmdapi.Config) error {
		c.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + name}
		return nil
	}
}

// servers returns the number of servers in a file.
func servers(t *testing.T, path string) int {
	t.Helper()
	config, err := clientcmd.LoadFromFile(path)
	check.Error(t, err, "")

	return len(config.Clusters)
}

func TestAFileThatIsEditedKeepsWhatOthersHaveInIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	testenv.WriteKubeconfig(t, path, "https://theirs")
	check.Error(t, os.Chmod(path, 0o640), "")
	check.Error(t, Edit(path, adds("ours")), "")

	config, err := clientcmd.LoadFromFile(path)
	check.Error(t, err, "")
	check.Equal(t, "their server", config.Clusters["test"].Server, "https://theirs")
	check.Equal(t, "their context", config.CurrentContext, "test")
	check.Equal(t, "our server", config.Clusters["ours"].Server, "https://ours")

	info, err := os.Stat(path)
	check.Error(t, err, "")
	check.Equal(t, "its mode", info.Mode().Perm(), os.FileMode(0o640))
	expectAlone(t, path)
}

// expectAlone checks that no lock and no partial file is beside a file.
func expectAlone(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	check.Error(t, err, "")
	check.Equal(t, "files", len(entries), 1)
}

func TestANewFileIsForItsUserAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	check.Error(t, Edit(path, adds("ours")), "")

	info, err := os.Stat(path)
	check.Error(t, err, "")
	check.Equal(t, "its mode", info.Mode().Perm(), os.FileMode(0o600))
	expectAlone(t, path)
}

func TestALinkStaysALink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "dotfiles"), filepath.Join(dir, "config")
	testenv.WriteKubeconfig(t, target, "https://theirs")
	check.Error(t, os.Symlink(target, link), "")
	check.Error(t, Edit(link, adds("ours")), "")

	_, err := os.Readlink(link)
	check.Error(t, err, "")
	check.Equal(t, "clusters", servers(t, target), 2)
}

func TestAFileThatIsNoKubeconfigStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	check.Error(t, os.WriteFile(path, []byte("no: ["), 0o600), "")
	check.Error(t, Edit(path, adds("ours")), path+" is not a kubeconfig")

	content, err := os.ReadFile(path)
	check.Error(t, err, "")
	check.Equal(t, "content", string(content), "no: [")
}

func TestAnErrorLeavesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	testenv.WriteKubeconfig(t, path, "https://theirs")
	err := Edit(path, func(c *clientcmdapi.Config) error {
		clear(c.Clusters)
		return errors.New("no")
	})
	check.Error(t, err, "no")
	check.Equal(t, "clusters", servers(t, path), 1)
	expectAlone(t, path)
}

func TestAFileWithoutEntriesGoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	check.Error(t, Edit(path, adds("ours")), "")
	check.Error(t, Edit(path, func(c *clientcmdapi.Config) error {
		clear(c.Clusters)
		return nil
	}), "")

	_, err := os.Stat(path)
	check.Equal(t, "whether it is gone", errors.Is(err, os.ErrNotExist), true)
}

func TestEditsAtTheSameTimeLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	names := []string{"a", "b", "c", "d", "e", "f"}

	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() { check.Error(t, Edit(path, adds(name)), "") })
	}

	all.Wait()
	check.Equal(t, "clusters", servers(t, path), len(names))
	expectAlone(t, path)
}

func TestALockIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	unlock, err := lockFile(path)
	check.Error(t, err, "")
	time.AfterFunc(100*time.Millisecond, unlock)
	check.Error(t, Edit(path, adds("ours")), "")
	check.Equal(t, "clusters", servers(t, path), 1)
}

func TestTheLockOfACommandThatWasKilledIsTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	_, err := lockFile(path)
	check.Error(t, err, "")

	old := time.Now().Add(-2 * abandonedAfter)
	check.Error(t, os.Chtimes(path+lockSuffix, old, old), "")
	check.Error(t, Edit(path, adds("ours")), "")
	expectAlone(t, path)
}

// TestALockThatOthersHaveMadeMeanwhileStays has two commands. Both find the lock of a third, killed command. The second
// command replaces this lock before the first command can.
func TestALockThatOthersHaveMadeMeanwhileStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	killed, err := lockFile(path)
	check.Error(t, err, "")
	seen, err := os.Stat(path + lockSuffix)
	check.Error(t, err, "")
	check.Error(t, os.Rename(path+lockSuffix, path+".gone"), "")

	unlock, err := lockFile(path)
	check.Error(t, err, "")
	removeAbandoned(path+lockSuffix, seen)
	killed() // it was slow, and not killed

	_, err = os.Stat(path + lockSuffix)
	check.Error(t, err, "")
	unlock()
	check.Error(t, os.Remove(path+".gone"), "")
	check.Error(t, Edit(path, adds("ours")), "")
	expectAlone(t, path)
}
