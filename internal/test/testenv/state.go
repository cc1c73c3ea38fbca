package testenv

import (
	"testing"

	"github.com/adrg/xdg"
)

// EmptyState gives the test a new folder for the data that olvmctl keeps between calls.
func EmptyState(t *testing.T) {
	t.Helper()
	t.Cleanup(xdg.Reload) // runs after the environment is restored
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	xdg.Reload()
}
