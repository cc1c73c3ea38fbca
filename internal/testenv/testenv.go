// Package testenv finds for tests what `make tools` has built or found: the
// executor, and the processes of the management plane.
package testenv

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

// CacheDir is where the tools are: $XDG_CACHE_HOME/capolvm.
func CacheDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "capolvm")
}

// ToolsDir holds the executables, or links to them.
func ToolsDir() string { return filepath.Join(CacheDir(), "bin") }

// Executable is the executor to test with. A test that needs one fails without: a skip would hide that nothing was
// tested.
func Executable(t testing.TB) terraform.Executable {
	t.Helper()
	found, err := terraform.Find(t.Context(), ToolsDir())
	if err != nil {
		t.Fatalf("%v (make tools finds or builds one)", err)
	}
	return found
}
