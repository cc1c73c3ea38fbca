package atomicfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// namesIn returns the names in a folder.
func namesIn(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	check.Error(t, err, "")

	var out []string
	for _, entry := range entries {
		out = append(out, entry.Name())
	}

	return out
}

func TestAFileIsReplacedWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	check.Error(t, Write(path, []byte("long content"), 0o600), "")
	check.Error(t, Write(path, []byte("short"), 0o640), "")

	content, err := os.ReadFile(path)
	check.Error(t, err, "")
	check.Equal(t, "content", string(content), "short")

	info, err := os.Stat(path)
	check.Error(t, err, "")
	check.Equal(t, "mode", info.Mode().Perm(), os.FileMode(0o640))
	check.Equal(t, "files", namesIn(t, filepath.Dir(path)), []string{"record"})
}

func TestAWriteThatFailsLeavesTheFileOfBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	check.Error(t, os.MkdirAll(filepath.Join(path, "in the way"), 0o700), "")
	check.Error(t, Write(path, []byte("x"), 0o600), "failed to write "+path)
	check.Equal(t, "files", namesIn(t, filepath.Dir(path)), []string{"record"})
}

// TestWhatAKilledProcessHasBegunToWriteGoes has the file of a killed process, and a link of a stranger in its place.
// Write must not follow the link.
func TestWhatAKilledProcessHasBegunToWriteGoes(t *testing.T) {
	for name, begin := range map[string]func(next, other string) error{
		"half a file": func(next, _ string) error { return os.WriteFile(next, []byte("ha"), 0o600) },
		"a link":      func(next, other string) error { return os.Symlink(other, next) },
	} {
		t.Run(name, func(t *testing.T) {
			other := filepath.Join(t.TempDir(), "other")
			check.Error(t, os.WriteFile(other, []byte("other's"), 0o600), "")

			folder := t.TempDir()
			path := filepath.Join(folder, "record")
			check.Error(t, begin(filepath.Join(folder, ".record.next"), other), "")
			check.Error(t, Write(path, []byte("whole"), 0o600), "")
			check.Equal(t, "files", namesIn(t, folder), []string{"record"})

			content, err := os.ReadFile(other)
			check.Error(t, err, "")
			check.Equal(t, "content of the other file", string(content), "other's")
		})
	}
}
