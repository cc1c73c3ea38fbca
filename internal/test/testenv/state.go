package testenv

import (
	"testing"

	"github.com/adrg/xdg"
)

// EmptyState gives the test a folder of its own for what olvmctl keeps between calls.
func EmptyState(t *testing.T) {
	t.Helper()
	t.Cleanup(xdg.Reload) // after the environment is back
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	xdg.Reload()
}
