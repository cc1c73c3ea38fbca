package hostos

import (
	"os"
	"path/filepath"
)

// ExpandHome returns a user's path with the home folder in place of ~. On Windows, it accepts both path separators.
func ExpandHome(path string) string {
	if len(path) < 2 || path[0] != '~' || !os.IsPathSeparator(path[1]) {
		return path
	}

	home, err := os.UserHomeDir()
	if err != nil {
		return path
	}

	return filepath.Join(home, path[2:])
}
