package hostos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestATildeIsTheHomeFolder(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)

	for path, want := range map[string]string{
		"~/keys/id.pub":                         filepath.Join(home, "keys", "id.pub"),
		"~" + string(filepath.Separator) + "id": filepath.Join(home, "id"),
		"~":                                     "~",
		"~root/id":                              "~root/id",
		"keys/~/id":                             "keys/~/id",
		"":                                      "",
		`C:\keys\id.pub`:                        `C:\keys\id.pub`,
	} {
		check.Equal(t, "the path "+path, ExpandHome(path), want)
	}
}

func TestADiskHasRoom(t *testing.T) {
	free, err := FreeBytes(t.TempDir())
	check.Error(t, err, "")
	check.Set(t, "free bytes", free > 0)

	_, err = FreeBytes(filepath.Join(t.TempDir(), "none"))
	check.Set(t, "the error", err != nil)
}

func TestOnlyAFullDiskIsTakenForOne(t *testing.T) {
	check.Equal(t, "another error", IsDiskFull(errors.New("no")), false)
	check.Equal(t, "a missing file", IsDiskFull(fmt.Errorf("no: %w", os.ErrNotExist)), false)
}
