package terraform

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// originFile has the checksums of the stored states that the state in the working directory is based on, one per line.
// These are the run's initial state, and the states it has saved or tried to save. Serials are not enough, because two
// managers that continue from one state give their own states the same serials.
const originFile = "origin.sha256"

// recordOrigin begins the record before a run can change the state. It renames a new file, so that the record is
// complete and it follows no link.
func recordOrigin(dir string, state []byte) error {
	const next = originFile + ".new"
	if err := writeFile(dir, next, hashState(state)); err != nil {
		return err
	}

	if err := os.Rename(filepath.Join(dir, next), filepath.Join(dir, originFile)); err != nil {
		return fmt.Errorf("failed to record where the state comes from: %w", err)
	}

	return nil
}

// addOrigin adds a state to the record before the state is saved. If the disk is too full, the record stays without it,
// and the next run ignores such a leftover. It then looks for existing resources in the engine.
func addOrigin(dir string, state []byte) {
	root, err := os.OpenRoot(dir) // the executor may have left a link there
	if err != nil {
		return
	}
	defer root.Close()

	file, err := root.OpenFile(originFile, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer file.Close()

	_, _ = file.Write(append([]byte("\n"), hashState(state)...)) // an earlier line may be incomplete
}

// hasSameOrigin reports whether the states in a working directory are based on the stored state. Without a record, only
// the serials decide.
func hasSameOrigin(dir string, stored []byte) bool {
	record, err := readWithin(dir, originFile)
	if errors.Is(err, fs.ErrNotExist) || len(stored) == 0 {
		return true
	}

	return err == nil && slices.Contains(strings.SplitAfter(string(record), "\n"), string(hashState(stored)))
}

func hashState(state []byte) []byte { return fmt.Appendf(nil, "%x\n", sha256.Sum256(state)) }
