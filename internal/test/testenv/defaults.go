package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// WriteDefaults writes the user's defaults for cluster files into a folder. It returns the setting of the environment
// variable with the file's path. The defaults disable the network plugin, because its manifests would be downloaded and
// nodes of the simulator do not need it.
func WriteDefaults(t testing.TB, folder string) string {
	t.Helper()

	path := filepath.Join(folder, "defaults.yaml")
	if err := os.WriteFile(path, []byte("cni: none\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	return "OCNE_DEFAULTS=" + path
}
