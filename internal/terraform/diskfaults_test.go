package terraform

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// failReads makes reads of these files fail like those of a broken disk.
func failReads(t *testing.T, names ...string) (heal func()) {
	t.Helper()
	before := readFile
	readFile = func(root *os.Root, name string) ([]byte, error) {
		for _, broken := range names {
			if name == broken {
				return nil, &os.PathError{Op: "read", Path: name, Err: unix.EIO}
			}
		}

		return before(root, name)
	}

	heal = func() { readFile = before }
	t.Cleanup(heal)

	return heal
}

// TestAStateThatTheExecutorCouldNotWriteIsSaved has the executor write its state beside an old, truncated, missing or
// unreadable state file.
func TestAStateThatTheExecutorCouldNotWriteIsSaved(t *testing.T) {
	newest := string(stateOf(3, "l", ""))

	for name, old := range map[string][]byte{
		"old": stateOf(2, "l", ""), "cut off": []byte(`{"version":4,"ser`), "empty": {}, "missing": nil,
		"unreadable": {},
	} {
		t.Run(name, func(t *testing.T) {
			k, saved := keeping(t, old, Request{})
			check.Error(t, os.WriteFile(filepath.Join(k.run.Dir, erroredFile), []byte(newest), 0o600), "")

			if name == "missing" {
				check.Error(t, os.Remove(filepath.Join(k.run.Dir, stateFile)), "")
			}

			if name == "unreadable" {
				failReads(t, stateFile)
			}

			check.Error(t, k.saveFinal(false), "")
			check.Equal(t, "saved", *saved, []string{newest + " false"})
		})
	}
}

// TestAStateThatTheExecutorCouldNotWriteIsKeptIfItCannotBeSaved has both the disk and the API server fail.
func TestAStateThatTheExecutorCouldNotWriteIsKeptIfItCannotBeSaved(t *testing.T) {
	k, _ := keeping(t, stateOf(2, "l", ""), Request{SaveState: refuses})
	check.Error(t, os.WriteFile(filepath.Join(k.run.Dir, erroredFile), stateOf(3, "l", ""), 0o600), "")
	check.Error(t, k.saveFinal(false), "failed to save the state: the API server is down")
	check.Error(t, removeSecretFiles(k.run.Dir), "")
	check.Equal(t, "files", namesIn(t, k.run.Dir), []string{unsavedFile})
	check.Equal(t, "what is left", string(ReadLeftover(k.run.Dir, stateOf(1, "l", ""))), string(stateOf(3, "l", "")))
}

// TestAStateThatCannotBeReadIsKept has reads that fail at the end of a run, and work again later.
func TestAStateThatCannotBeReadIsKept(t *testing.T) {
	k, saved := keeping(t, stateOf(2, "l", ""), Request{})
	heal := failReads(t, stateFile, unsavedFile)
	check.Equal(t, "the run says so", errors.Is(k.saveFinal(true), unix.EIO), true)
	check.Error(t, removeSecretFiles(k.run.Dir), "")
	check.Equal(t, "saved", len(*saved), 0)
	check.Equal(t, "a run is unfinished", HasUnsavedState(k.run.Dir), true)
	check.Equal(t, "nothing may be removed", errors.Is(CheckReadable(k.run.Dir), unix.EIO), true)

	_, _, err := (&Executor{}).prepareDir(Request{Dir: k.run.Dir, State: stateOf(1, "l", "")})
	check.Equal(t, "another run does not begin", errors.Is(err, unix.EIO), true)

	heal()
	check.Error(t, CheckReadable(k.run.Dir), "")
	state, resumed, err := (&Executor{}).prepareDir(Request{Dir: k.run.Dir, State: stateOf(1, "l", "")})
	check.Error(t, err, "")
	check.Equal(t, "it goes on with the state", string(state), string(stateOf(2, "l", "")))
	check.Equal(t, "it is resumed", resumed, true)
}

// TestALinkInPlaceOfAStateStopsNothing has the executor leave a link. No reader may follow the link.
func TestALinkInPlaceOfAStateStopsNothing(t *testing.T) {
	k, saved := keeping(t, stateOf(2, "l", ""), Request{})
	check.Error(t, os.Symlink("/etc/passwd", filepath.Join(k.run.Dir, erroredFile)), "")
	check.Error(t, k.saveFinal(true), "")
	check.Equal(t, "saved", *saved, []string{string(stateOf(2, "l", "")) + " true"})
	check.Error(t, CheckReadable(k.run.Dir), "")
}

// TestAFolderThatCannotBeCleanedKeepsItsState has a folder with secrets and the only copy of a state. The cleanup
// removes the secrets, and keeps the state.
func TestAFolderThatCannotBeCleanedKeepsItsState(t *testing.T) {
	dir := folder(t, map[string][]byte{unsavedFile: stateOf(2, "l", ""), "main.tf": nil, planFile: nil})
	removeAllButUnsaved(dir)
	check.Equal(t, "files", namesIn(t, dir), []string{unsavedFile})

	dir = folder(t, map[string][]byte{"main.tf": nil})
	removeAllButUnsaved(dir)
	_, err := os.Stat(dir)
	check.Equal(t, "a folder without one is gone", errors.Is(err, os.ErrNotExist), true)
}

// refuses is a SaveState that fails like an unavailable API server.
func refuses(context.Context, []byte, bool) error { return errors.New("the API server is down") }
