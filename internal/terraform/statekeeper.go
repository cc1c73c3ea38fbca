package terraform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// stateKeeper saves the state while the executor works.
type stateKeeper struct {
	run  *run
	ctx  context.Context
	mu   sync.Mutex
	seen []byte // last complete state
	last []byte // last saved state
	err  error
	// reported reports whether the executor has reported an applied resource. In this case, there must be a state.
	reported bool
}

// recordApplied saves the state with the resource. The executor reports a resource a moment before it writes the state.
func (k *stateKeeper) recordApplied(address, id string) {
	k.reported = true
	if k.run.Applied != nil && id != "" {
		k.run.Applied(k.ctx, address, id)
	}

	if !k.run.writesAtOnce || k.run.Keeps != nil && !k.run.Keeps(address) {
		return
	}

	deadline := time.Now().Add(2 * time.Second)

	for {
		state, err := readWithin(k.run.Dir, stateFile)
		if err == nil && json.Valid(state) {
			k.seen = state
			if id == "" || bytes.Contains(state, []byte(id)) {
				k.saveState(state, false)
				return
			}
		}

		if time.Now().After(deadline) {
			return
		}

		time.Sleep(5 * time.Millisecond)
	}
}

// saveFinal saves the executor's state. If this fails, it keeps the state in the directory for the next run. done
// reports whether the run has succeeded.
func (k *stateKeeper) saveFinal(done bool) error {
	state, file, err := k.readLeftover()
	if errors.Is(err, fs.ErrNotExist) && !k.reported {
		return nil
	}

	if errors.Is(err, fs.ErrNotExist) {
		// The executor had already opened the file, so it wrote to the deleted file without an error.
		return fmt.Errorf(
			"the working directory %s was deleted while terraform ran; the next run goes on with what was saved before",
			k.run.Dir,
		)
	}

	if err != nil {
		k.setAside(file)
		return fmt.Errorf("failed to read the state: %w", err)
	}

	whole := json.Valid(state)
	if !whole { // the disk was full, or the executor was killed during the write
		state, done = k.seen, false
	}

	k.mu.Lock()
	k.err = nil // only the error of the last state counts
	k.mu.Unlock()
	k.saveState(state, done)
	if k.err != nil {
		if whole || !k.keepSeen() {
			k.setAside(file)
		}

		return fmt.Errorf("failed to save the state: %w", k.err)
	}

	return nil
}

// readLeftover returns the state that the executor left, and the name of the file. If the executor could not write its
// state file, it has written another one. The state file may then be incomplete.
func (k *stateKeeper) readLeftover() (state []byte, file string, err error) {
	state, err = readWithin(k.run.Dir, stateFile)
	errored, other := readWithin(k.run.Dir, erroredFile)

	switch {
	case other == nil && json.Valid(errored) && (err != nil || !json.Valid(state) || isNewer(errored, state)):
		return errored, erroredFile, nil //nolint:nilerr // the other file is whole
	case isUnreadable(other):
		k.setAside(erroredFile)
	}

	return state, stateFile, err
}

// keepSeen keeps the last complete state for the next run. It does nothing if there is no complete state, or if one is
// already kept. The disk may be full, so it first removes the plan and the executor's incomplete files.
func (k *stateKeeper) keepSeen() bool {
	_, err := os.Lstat(filepath.Join(k.run.Dir, unsavedFile))
	if len(k.seen) == 0 || !errors.Is(err, fs.ErrNotExist) {
		return false
	}

	for _, name := range []string{stateFile, stateFile + ".backup", erroredFile, planFile} {
		_ = os.Remove(filepath.Join(k.run.Dir, name))
	}

	return writeFile(k.run.Dir, unsavedFile, k.seen) == nil
}

// setAside keeps a state for the next run. It renames the file instead of writing a new one, because the disk may be
// full or broken.
func (k *stateKeeper) setAside(file string) {
	_ = os.Rename(filepath.Join(k.run.Dir, file), filepath.Join(k.run.Dir, unsavedFile))
}

func (k *stateKeeper) saveState(state []byte, done bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(state) == 0 || bytes.Equal(state, k.last) || k.run.SaveState == nil {
		return
	}

	ctx, cancel := context.WithTimeout(k.ctx, 30*time.Second)
	defer cancel()
	begin := time.Now()
	addOrigin(k.run.Dir, state)
	if k.err = k.run.SaveState(ctx, state, done); k.err == nil {
		k.last = slices.Clone(state)
	}

	stateSaveSeconds.WithLabelValues(classifyOutcome(ctx, k.err)).Observe(time.Since(begin).Seconds())
}
