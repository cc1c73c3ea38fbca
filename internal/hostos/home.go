package hostos

import (
	"os"
	"path/filepath"
)

// ExpandHome is a path that users write, with their home folder in the place of ~. Windows knows two separators.
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
