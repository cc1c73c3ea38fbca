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
	// unsavedFile keeps a state that could not be made durable, for the next run in the same directory.
	unsavedFile = "unsaved.tfstate"
	planFile    = "plan.tfplan"
	// erroredFile is where the executor itself leaves a state that it could not write.
	erroredFile = "errored.tfstate"

	// needsSpace is how much must be free on the disk before a run, in bytes: many times what one needs, which is some
	// hundred KiB, because others may be about to begin.
	needsSpace = 16 << 20
)

// stateFiles are those in which a run may have left a state.
var stateFiles = []string{stateFile, unsavedFile, erroredFile}

// prepare empties the working directory, and writes the configuration and the state to start from: that of the request,
// or what a killed run left in the directory if it is newer. What was left goes last, so that a disk that fills up
// meanwhile takes nothing away. It returns that state, and whether it was left.
func (x *Executor) prepare(request Request) (state []byte, resumed bool, _ error) {
	if err := CheckReadable(request.Dir); err != nil {
		return nil, false, err
	}

	state, keep := leftover(request.Dir, request.State)
	if err := x.readable(state); err != nil {
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
		if err := write(request.Dir, name, content); err != nil {
			return nil, false, err
		}
	}

	if state == nil || keep == stateFile {
		return state, keep != "", nil
	}

	if err := write(request.Dir, stateFile, state); err != nil {
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

// Unfinished reports whether a run left a state in its working directory, which may not be anywhere else.
func Unfinished(dir string) bool {
	return slices.ContainsFunc(stateFiles, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	})
}

// CheckReadable returns an error if a state that a run left cannot be read. Nothing of the directory may be removed
// then: a disk that fails may be read later.
func CheckReadable(dir string) error {
	for _, name := range append([]string{originFile}, stateFiles...) {
		if _, err := readWithin(dir, name); unreadable(err) {
			return fmt.Errorf("failed to read the state %s that a run left: %w", name, err)
		}
	}

	return nil
}

// Leftover is the state that a run left in its working directory, where it continues the one that was saved; nil where
// none does. saved is nil where no state was.
func Leftover(dir string, saved []byte) []byte {
	if state, file := leftover(dir, saved); file != "" {
		return state
	}

	return nil
}

// leftover is the newest of the states in a working directory and the one that was saved. file is the name of its file,
// and empty where it is the saved one. If another process has saved a state since, that one counts: it has what that
// process made, and what is missing in it is looked for in the engine.
func leftover(dir string, saved []byte) (state []byte, file string) {
	state = saved

	if !comesFrom(dir, saved) {
		return state, ""
	}

	for _, name := range stateFiles {
		content, err := readWithin(dir, name)
		if err == nil && newer(content, state) {
			state, file = content, name
		}
	}

	return state, file
}

// Clean removes what may have secrets in it from a working directory: the states, the plan and the values of the
// secret variables. The configuration stays for people.
func Clean(dir string) error { return clean(dir, unsavedFile, originFile) }

// clean is Clean, except that it keeps a state that could not be saved, unless that is among more.
func clean(dir string, more ...string) error {
	names := append([]string{planFile, stateFile, stateFile + ".backup", erroredFile, render.SecretsFile}, more...)
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("failed to clean the working directory: %w", err)
		}
	}

	if _, err := os.Lstat(filepath.Join(dir, unsavedFile)); errors.Is(err, fs.ErrNotExist) {
		_ = os.Remove(filepath.Join(dir, originFile)) // it has no secrets, and nothing that it is about is left
	}

	return nil
}

// removeAllButUnsaved removes a working directory with all that is in it, but a state that is nowhere else.
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

// removeSecrets removes from a working directory what a run brought that was not started. If it has the state of an
// earlier run, which may not be anywhere else, the state stays.
func removeSecrets(dir string, resumed bool) error {
	if !resumed {
		return clean(dir)
	}

	if err := os.Remove(filepath.Join(dir, render.SecretsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to remove the secrets from the working directory: %w", err)
	}

	return nil
}

// readable refuses a state that a newer executor wrote: this one would read it as if it knew what is in it. States of
// the same minor version are alike.
func (x *Executor) readable(state []byte) error {
	var header struct {
		Version string `json:"terraform_version"`
	}
	_ = json.Unmarshal(state, &header) // what is no state is reported by who parses it
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

// enoughSpace looks at the disk before a run puts half of its files there.
func enoughSpace(dir string) error {
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

// makeDir makes a folder that only this user can read, and those above it.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return diskError(dir, fmt.Errorf("failed to make the working directory: %w", err))
	}

	return nil
}

// diskError says it where an error means that the disk is full.
func diskError(dir string, err error) error {
	if hostos.IsDiskFull(err) {
		return &DiskFullError{Dir: dir, Err: err}
	}

	return err
}

// readWithin reads a file of a working directory. What the executor left there may be a link: one that leads elsewhere
// is not followed.
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

// unreadable reports that a file is there and cannot be read.
func unreadable(err error) bool {
	var irregular *irregularError

	return err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.As(err, &irregular)
}

// readFile reads a file below a folder. Tests have it fail as a disk does.
var readFile = (*os.Root).ReadFile

// irregularError reports that the name of a file is that of a link, a folder or the like, which no executor leaves.
type irregularError struct{ name string }

func (e *irregularError) Error() string { return e.name + " of the working directory is no file" }

// newer reports whether a state continues another one: same lineage, higher serial. A state where there was none
// continues it too.
func newer(candidate, current []byte) bool {
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

// write makes a file that only this user can read, and the folders above it.
func write(dir, name string, content []byte) error {
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := makeDir(filepath.Dir(path)); err != nil {
		return err
	}

	if err := os.WriteFile(path, content, 0o600); err != nil {
		return diskError(dir, fmt.Errorf("failed to write the configuration: %w", err))
	}

	return nil
}
