package planinput_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAnObjectThatIsThereTwiceIsRefused has a copy of a file beside the file. Each machine would count twice.
func TestAnObjectThatIsThereTwiceIsRefused(t *testing.T) {
	t.Parallel()

	content, err := os.ReadFile("../../../config/samples/pool.yaml")
	check.Error(t, err, "")

	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.yaml"} {
		check.Error(t, os.WriteFile(filepath.Join(dir, name), content, 0o600), "")
	}

	_, err = planinput.Load([]string{filepath.Join(dir, "a.yaml")}, nil)
	check.Error(t, err, "")

	_, err = planinput.Load([]string{dir}, nil)
	check.Error(t, err, "a.yaml: line 3; remove one of them")
	check.Contains(t, "the kinds", err.Error(), "MachineDeployment default/lab-pool")
}
