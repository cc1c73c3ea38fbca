package terraform

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/go-version"

	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

const (
	stateFile = "terraform.tfstate"
	// unsavedFile keeps an unsaved state for the next run in the same directory.
	unsavedFile = "unsaved.tfstate"
	planFile    = "plan.tfplan"
	// erroredFile is the executor's own file for a state it could not write.
	erroredFile = "errored.tfstate"

	// needsSpace is the free disk space needed before a run, in bytes. One run needs only some hundred KiB. The limit
	// is much higher, because other runs may be about to begin.
	needsSpace = 16 << 20
)

// stateFiles are the files that may contain the state of a run.
var stateFiles = []string{stateFile, unsavedFile, erroredFile}

// prepareDir empties the working directory, and writes the configuration and the initial state. The initial state is
// the state of the request, or a newer one that a killed run has left in the directory. It removes the leftover last,
// so that a full disk causes no loss. It returns the initial state, and whether it is a leftover.
func (x *Executor) prepareDir(request Request) (state []byte, resumed bool, _ error) {
	if err := CheckReadable(request.Dir); err != nil {
		return nil, false, err
	}

	state, keep := findLeftover(request.Dir, request.State)
	if err := x.checkStateVersion(state); err != nil {
		return nil, false, err
	}

	if err := makeDir(request.Dir); err != nil {
		return nil, false, err
	}

	entries, err := os.ReadDir(request.Dir)
	if err != nil {
		return nil, false, fmt.Errorf("failed to clear the working directory: %w", err)
	}

	for _, entry := range entries {
		if keep != "" && (entry.Name() == keep || entry.Name() == originFile) {
			continue
		}

		if err := os.RemoveAll(filepath.Join(request.Dir, entry.Name())); err != nil {
			return nil, false, fmt.Errorf("failed to clear the working directory: %w", err)
		}
	}

	for name, content := range request.Files {
		if err := writeFile(request.Dir, name, content); err != nil {
			return nil, false, err
		}
	}

	if state == nil || keep == stateFile {
		return state, keep != "", nil
	}

	if err := writeFile(request.Dir, stateFile, state); err != nil {
		return nil, false, err
	}

	if keep == "" {
		return state, false, nil
	}

	if err := os.Remove(filepath.Join(request.Dir, keep)); err != nil {
		return nil, false, fmt.Errorf("failed to clear the working directory: %w", err)
	}

	return state, true, nil
}

// HasUnsavedState reports whether a run has left a state in its working directory. This state may be stored nowhere
// else.
func HasUnsavedState(dir string) bool {
	return slices.ContainsFunc(stateFiles, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	})
}

// CheckReadable returns an error if a state left by a run is unreadable. The caller must then remove nothing from the
// directory, because a failing disk may become readable later.
func CheckReadable(dir string) error {
	for _, name := range append([]string{originFile}, stateFiles...) {
		if _, err := readWithin(dir, name); isUnreadable(err) {
			return fmt.Errorf("failed to read the state %s that a run left: %w", name, err)
		}
	}

	return nil
}

// ReadLeftover returns the state that a run has left in its working directory if it continues the saved state, or else
// nil. saved is nil if no state was saved.
func ReadLeftover(dir string, saved []byte) []byte {
	if state, file := findLeftover(dir, saved); file != "" {
		return state
	}

	return nil
}

// findLeftover returns the newest of the saved state and those in a working directory. file is the name of the state's
// file, or "" for the saved state. If another process has saved a state since, the saved state wins, because it has
// that process's resources. The next run looks for missing resources in the engine.
func findLeftover(dir string, saved []byte) (state []byte, file string) {
	state = saved

	if !hasSameOrigin(dir, saved) {
		return state, ""
	}

	for _, name := range stateFiles {
		content, err := readWithin(dir, name)
		if err == nil && isNewer(content, state) {
			state, file = content, name
		}
	}

	return state, file
}

// CleanDir removes all files that may contain secrets from a working directory: the states, the plan and the values of
// the secret variables. Users can still read the configuration.
func CleanDir(dir string) error { return removeSecretFiles(dir, unsavedFile, originFile) }

// removeSecretFiles is like CleanDir, but keeps an unsaved state unless more includes it.
func removeSecretFiles(dir string, more ...string) error {
	names := append([]string{planFile, stateFile, stateFile + ".backup", erroredFile, render.SecretsFile}, more...)
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("failed to clean the working directory: %w", err)
		}
	}

	if _, err := os.Lstat(filepath.Join(dir, unsavedFile)); errors.Is(err, fs.ErrNotExist) {
		_ = os.Remove(filepath.Join(dir, originFile)) // without these states, the record has no use
	}

	return nil
}

// removeAllButUnsaved removes a working directory with all its content, except an unsaved state.
func removeAllButUnsaved(dir string) {
	entries, _ := os.ReadDir(dir)
	kept := false

	for _, entry := range entries {
		if entry.Name() == unsavedFile || entry.Name() == originFile {
			kept = kept || entry.Name() == unsavedFile
			continue
		}

		_ = os.RemoveAll(filepath.Join(dir, entry.Name()))
	}

	if !kept {
		_ = os.RemoveAll(dir)
	}
}

// removeSecrets removes the secrets of a run that was not started. It keeps the state of an earlier run, because this
// state may be stored nowhere else.
func removeSecrets(dir string, resumed bool) error {
	if !resumed {
		return removeSecretFiles(dir)
	}

	if err := os.Remove(filepath.Join(dir, render.SecretsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to remove the secrets from the working directory: %w", err)
	}

	return nil
}

// checkStateVersion refuses a state that a newer executor has written, because this one may misinterpret it. States of
// the same minor version are compatible.
func (x *Executor) checkStateVersion(state []byte) error {
	var header struct {
		Version string `json:"terraform_version"`
	}
	_ = json.Unmarshal(state, &header) // the parser reports an invalid state
	written, _ := version.NewVersion(header.Version)
	if written == nil || x.executable.Version == nil {
		return nil
	}

	theirs, ours := written.Segments(), x.executable.Version.Segments()
	if slices.Compare(theirs[:2], ours[:2]) > 0 {
		return &StateVersionError{Written: written.String(), Executor: x.executable}
	}

	return nil
}

// checkSpace returns an error if the disk has too little space for all files of a run.
func checkSpace(dir string) error {
	if err := makeDir(dir); err != nil {
		return err
	}

	free, err := hostos.FreeBytes(dir)
	if err != nil {
		return fmt.Errorf("failed to look at the disk of the working directories: %w", err)
	}

	if free < needsSpace {
		return &DiskFullError{
			Dir: dir,
			Err: fmt.Errorf("%d MiB are free and a run begins with at least %d", free>>20, needsSpace>>20),
		}
	}

	return nil
}

// makeDir creates a folder that only this user can read, and its parents.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return wrapDiskError(dir, fmt.Errorf("failed to make the working directory: %w", err))
	}

	return nil
}

// wrapDiskError converts an error caused by a full disk.
func wrapDiskError(dir string, err error) error {
	if hostos.IsDiskFull(err) {
		return &DiskFullError{Dir: dir, Err: err}
	}

	return err
}

// readWithin reads a file of a working directory. It follows no link out of the directory, because the executor may
// have left a link.
func readWithin(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if info, err := root.Lstat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, &irregularError{name: name}
	}

	return readFile(root, name)
}

// isUnreadable reports whether an error means that a file exists but cannot be read.
func isUnreadable(err error) bool {
	var irregular *irregularError

	return err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.As(err, &irregular)
}

// readFile reads a file below a folder. Tests replace it to simulate a failing disk.
var readFile = (*os.Root).ReadFile

// irregularError reports that a link, a folder or the like is in the place of a file. No executor leaves these.
type irregularError struct{ name string }

func (e *irregularError) Error() string { return e.name + " of the working directory is no file" }

// isNewer reports whether a state continues another one: it has the same lineage and a higher serial. Any state
// continues a missing one.
func isNewer(candidate, current []byte) bool {
	type header struct {
		Version int    `json:"version"`
		Serial  uint64 `json:"serial"`
		Lineage string `json:"lineage"`
	}
	var a, b header
	if json.Unmarshal(candidate, &a) != nil || a.Version != 4 {
		return false
	}

	if len(current) == 0 {
		return true
	}

	return json.Unmarshal(current, &b) == nil && a.Lineage == b.Lineage && a.Serial > b.Serial
}

// writeFile writes a file that only this user can read, and creates its parent folders.
func writeFile(dir, name string, content []byte) error {
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := makeDir(filepath.Dir(path)); err != nil {
		return err
	}

	if err := os.WriteFile(path, content, 0o600); err != nil {
		return wrapDiskError(dir, fmt.Errorf("failed to write the configuration: %w", err))
	}

	return nil
}
