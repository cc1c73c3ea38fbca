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

// TestALeftoverIsUsedOnlyIfNobodyElseHasSavedAState ends a run before it saves its last state. It checks which state
// the returning manager uses, for several stored states.
func TestALeftoverIsUsedOnlyIfNobodyElseHasSavedAState(t *testing.T) {
	base, saved, lost := stateOf(1, "l", ""), stateOf(2, "l", ""), stateOf(5, "l", "")

	for name, tt := range map[string]struct {
		began  []byte // nil for no state
		saves  [][]byte
		stored []byte
		want   []byte
	}{
		"nothing was saved since":             {base, nil, base, lost},
		"the run itself has saved one":        {base, [][]byte{saved}, saved, lost},
		"a save whose answer was lost":        {base, [][]byte{saved}, base, lost},
		"it was the first run":                {nil, nil, nil, lost},
		"somebody has deleted the state":      {base, nil, nil, lost},
		"a successor has saved a later one":   {base, nil, stateOf(9, "l", ""), stateOf(9, "l", "")},
		"a successor has saved an older one":  {base, nil, stateOf(3, "l", ""), stateOf(3, "l", "")},
		"a successor has the same serial":     {base, [][]byte{saved}, stateOf(2, "l", "1.0"), stateOf(2, "l", "1.0")},
		"a successor has saved the first one": {nil, nil, saved, saved},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, map[string][]byte{stateFile: lost})
			check.Error(t, recordOrigin(dir, tt.began), "")
			run := &run{Request: Request{Dir: dir, SaveState: func(_ context.Context, state []byte, _ bool) error {
				if string(state) == string(lost) {
					return errors.New("the API server is down")
				}

				return nil
			}}}
			k := &stateKeeper{run: run, ctx: t.Context()}

			for _, state := range tt.saves {
				k.saveState(state, false)
			}

			check.Equal(t, "the last state is not saved", k.saveFinal(false) != nil, true)
			check.Error(t, removeSecretFiles(dir), "")
			check.Equal(t, "a run is unfinished", HasUnsavedState(dir), true)

			left := ReadLeftover(dir, tt.stored)
			state, resumed, err := (&Executor{}).prepareDir(Request{Dir: dir, State: tt.stored})
			check.Error(t, err, "")
			check.Equal(t, "the state to go on from", string(state), string(tt.want))
			check.Equal(t, "it is the one that was left", resumed, string(tt.want) == string(lost))
			check.Equal(t, "it is left over", left != nil, resumed)
			check.Error(t, CleanDir(dir), "")
			check.Length(t, "files", namesIn(t, dir), 0)
		})
	}
}

// TestARecordThatCannotBeReadKeepsTheState has a failing disk. The state must stay until the disk is readable again.
func TestARecordThatCannotBeReadKeepsTheState(t *testing.T) {
	dir := folder(t, map[string][]byte{unsavedFile: stateOf(2, "l", "")})
	check.Error(t, recordOrigin(dir, stateOf(1, "l", "")), "")

	heal := failReads(t, originFile)
	_, _, err := (&Executor{}).prepareDir(Request{Dir: dir, State: stateOf(1, "l", "")})
	check.Equal(t, "a run does not begin", errors.Is(err, unix.EIO), true)

	heal()
	check.Equal(t, "the state", string(ReadLeftover(dir, stateOf(1, "l", ""))), string(stateOf(2, "l", "")))
}

// TestALinkInPlaceOfTheRecordIsNotFollowed has the executor leave a link. If the manager followed it, the executor
// could choose the accepted states.
func TestALinkInPlaceOfTheRecordIsNotFollowed(t *testing.T) {
	dir := folder(t, map[string][]byte{unsavedFile: stateOf(2, "l", "")})
	elsewhere := filepath.Join(t.TempDir(), "record")
	check.Error(t, os.WriteFile(elsewhere, hashState(stateOf(1, "l", "")), 0o600), "")
	check.Error(t, os.Symlink(elsewhere, filepath.Join(dir, originFile)), "")
	check.Equal(t, "nothing is left over", ReadLeftover(dir, stateOf(1, "l", "")) == nil, true)
}

// TestARecordOfOriginsFollowsNoLink has the executor leave a link in place of the record.
func TestARecordOfOriginsFollowsNoLink(t *testing.T) {
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	check.Error(t, os.WriteFile(victim, []byte("keep"), 0o600), "")
	check.Error(t, os.Symlink(victim, filepath.Join(dir, originFile)), "")

	check.Error(t, recordOrigin(dir, []byte("state")), "")

	content, err := os.ReadFile(victim)
	check.Error(t, err, "")
	check.Equal(t, "the other file", string(content), "keep")
	check.Equal(t, "whether it comes from the state", hasSameOrigin(dir, []byte("state")), true)
}

// TestATornLineSpoilsNoLaterOne has a process end while it adds a checksum.
func TestATornLineSpoilsNoLaterOne(t *testing.T) {
	dir := t.TempDir()
	check.Error(t, recordOrigin(dir, []byte("first")), "")

	file, err := os.OpenFile(filepath.Join(dir, originFile), os.O_APPEND|os.O_WRONLY, 0o600)
	check.Error(t, err, "")
	_, err = file.WriteString("0123")
	check.Error(t, err, "")
	check.Error(t, file.Close(), "")

	addOrigin(dir, []byte("second"))
	check.Equal(t, "whether it comes from the second state", hasSameOrigin(dir, []byte("second")), true)
}
