package scratchdir

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// holding is an environment variable. With it, the test binary creates a folder, prints the folder's path, and waits.
const holding = "SCRATCHDIR_TEST_HOLDS"

func TestMain(m *testing.M) {
	if os.Getenv(holding) == "" {
		os.Exit(m.Run())
	}

	dir, _, err := Make(Command)
	fmt.Println(dir, err)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// holder starts another process with a folder. It returns the folder, and a function that kills the process.
func holder(t *testing.T) (dir string, kill func()) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), holding+"=1")
	_, err := command.StdinPipe() // the process reads from this pipe forever
	check.Error(t, err, "")
	said, err := command.StdoutPipe()
	check.Error(t, err, "")
	check.Error(t, command.Start(), "")

	line, err := bufio.NewReader(said).ReadString('\n')
	check.Error(t, err, "")
	dir, problem, _ := strings.Cut(strings.TrimSpace(line), " ")
	check.Equal(t, "the error", problem, "<nil>")
	check.Error(t, os.WriteFile(filepath.Join(dir, "password"), []byte("secret"), 0o600), "")

	return dir, func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestTheFolderOfAKilledProcessIsRemovedByTheNext(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	killed, kill := holder(t)
	alive, end := holder(t)
	t.Cleanup(end)
	kill()

	dir, remove, err := Make(Command)
	check.Error(t, err, "")
	check.Equal(t, "whether the folder of the killed process is there", exists(killed), false)
	check.Equal(t, "whether the folder of the other process is there", exists(filepath.Join(alive, "password")), true)

	check.Error(t, remove(), "")
	check.Equal(t, "whether the folder is there after its end", exists(dir), false)
}

func TestFoldersOfOthersStay(t *testing.T) {
	root := t.TempDir()
	t.Setenv("TMPDIR", root)
	another := filepath.Join(root, "olvmctl-without-a-lock")
	check.Error(t, os.Mkdir(another, 0o700), "")
	linked := filepath.Join(root, "olvmctl-with-a-link")
	check.Error(t, os.Mkdir(linked, 0o700), "")
	check.Error(t, os.Symlink("/etc/hostname", filepath.Join(linked, lockName)), "")

	_, remove, err := Make(Command)
	check.Error(t, err, "")
	check.Error(t, remove(), "")
	check.Equal(t, "whether a folder without a lock is there", exists(another), true)
	check.Equal(t, "whether a folder with a link is there", exists(linked), true)
}

// TestAFolderWhoseRemovalWasCutIsRemovedByTheNext has the folder of a process that was killed between the removal of the
// lock and that of the folder. Folders of others stay.
func TestAFolderWhoseRemovalWasCutIsRemovedByTheNext(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())

	path := func(name string) string { return filepath.Join(os.TempDir(), Command+name) }
	for _, name := range []string{"1234", "5678", "notes"} {
		check.Error(t, os.Mkdir(path(name), 0o700), "")
	}

	check.Error(t, os.WriteFile(filepath.Join(path("5678"), "file"), nil, 0o600), "")
	Tidy(Command)
	check.Equal(t, "the empty folder is there", exists(path("1234")), false)
	check.Equal(t, "the folder with a file is there", exists(path("5678")), true)
	check.Equal(t, "the folder with another name is there", exists(path("notes")), true)
}
