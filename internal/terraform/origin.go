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

// originFile has the checksums of the stored states that the state of a working directory comes from, one a line: the
// one that the run began with, and those that it has saved, or tried to save. A serial does not tell: two managers that
// go on from one state give their own states the same serials.
const originFile = "origin.sha256"

// recordOrigin begins the record, before a run can change the state.
// The file is renamed, so that the record is whole and no link is followed.
func recordOrigin(dir string, state []byte) error {
	const next = originFile + ".new"
	if err := write(dir, next, checksum(state)); err != nil {
		return err
	}

	if err := os.Rename(filepath.Join(dir, next), filepath.Join(dir, originFile)); err != nil {
		return fmt.Errorf("failed to record where the state comes from: %w", err)
	}

	return nil
}

// addOrigin adds a state to the record, before it is saved. A state that cannot be added, because the disk is full, has
// no leftovers: the next run looks for what the engine has.
func addOrigin(dir string, state []byte) {
	root, err := os.OpenRoot(dir) // what the executor left there may be a link
	if err != nil {
		return
	}
	defer root.Close()

	file, err := root.OpenFile(originFile, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer file.Close()

	_, _ = file.Write(append([]byte("\n"), checksum(state)...)) // an earlier line may be torn
}

// comesFrom reports whether the states of a working directory come from the one that is stored. Without a record, the
// serials decide alone.
func comesFrom(dir string, stored []byte) bool {
	record, err := readWithin(dir, originFile)
	if errors.Is(err, fs.ErrNotExist) || len(stored) == 0 {
		return true
	}

	return err == nil && slices.Contains(strings.SplitAfter(string(record), "\n"), string(checksum(stored)))
}

func checksum(state []byte) []byte { return fmt.Appendf(nil, "%x\n", sha256.Sum256(state)) }
