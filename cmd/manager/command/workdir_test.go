package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAWorkFolderThatIsNotOurs creates the folder first, as another user could.
func TestAWorkFolderThatIsNotOurs(t *testing.T) {
	for name, prepare := range map[string]func(path string) error{
		"nothing":                  func(string) error { return nil },
		"ours":                     func(path string) error { return os.Mkdir(path, 0o700) },
		"open to others":           func(path string) error { return os.Mkdir(path, 0o755) },
		"a link to another folder": func(path string) error { return os.Symlink(t.TempDir(), path) },
		"a file":                   func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"of another user": func(path string) error {
			if err := os.Mkdir(path, 0o700); err != nil || os.Getuid() != 0 {
				return err
			}

			return os.Chown(path, 65532, 65532)
		},
	} {
		path := filepath.Join(t.TempDir(), "capolvm")
		if err := prepare(path); err != nil {
			t.Fatal(err)
		}

		fine := name == "nothing" || name == "ours" || name == "of another user" && os.Getuid() != 0
		if err := ensurePrivateFolder(
			path,
		); (err == nil) != fine ||
			err != nil && !strings.Contains(err.Error(), "--work-dir") {
			t.Errorf("%s: %v", name, err)
		}

		if info, err := os.Stat(path); fine && (err != nil || info.Mode().Perm() != 0o700) {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}
