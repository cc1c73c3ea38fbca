package workspace

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
)

// longestName limits the part of a folder's name that comes from the object's name, so that a hash and a UID fit. Names
// of folders have at most 255 bytes, and names of objects at most 253 characters.
const longestName = 200

// folderName returns the name of a working directory. It includes the UID, so that a recreated object gets a new
// directory.
func folderName(name string, uid types.UID) string { return shortName(name) + "-" + string(uid) }

func shortName(name string) string {
	if len(name) <= longestName {
		return name
	}

	hash := sha256.Sum256([]byte(name))

	return fmt.Sprintf("%s.%x", name[:longestName], hash[:8])
}

// removeFolders removes all working directories for an object's name, with any UID.
func removeFolders(parent, name string) error {
	entries, err := os.ReadDir(parent)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to list working directories: %w", err)
	}

	for _, entry := range entries {
		// The name of another object may begin with this name.
		uid, ok := strings.CutPrefix(entry.Name(), shortName(name)+"-")
		if !ok || uuid.Validate(uid) != nil {
			continue
		}

		if err := os.RemoveAll(filepath.Join(parent, entry.Name())); err != nil {
			return fmt.Errorf("failed to remove a working directory: %w", err)
		}
	}

	return nil
}
