package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
)

// ensurePrivateFolder creates a folder only for this user. An existing folder must be private to this user. Otherwise,
// another user may have created it to read or to redirect its files.
func ensurePrivateFolder(path string) error {
	if err := os.Mkdir(path, 0o700); err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}

	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("failed to look at the work folder: %w", err)
	}

	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !hostos.IsOwn(info) {
		return fmt.Errorf(
			"the work folder %s is not a folder that only this user may open (%s); remove it, or "+
				"name another with --work-dir",
			path,
			info.Mode(),
		)
	}

	return nil
}
