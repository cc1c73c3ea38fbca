package docs

import (
	"os"
	"strings"
	"testing"
)

// TestArchitectureNamesEveryPackage keeps the map of packages complete.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	content, err := os.ReadFile("develop/architecture.md")
	if err != nil {
		t.Fatal(err)
	}

	for _, parent := range []string{"internal", "internal/olvmctl", "internal/ovirtsim", "controllers"} {
		entries, err := os.ReadDir("../" + parent)
		if err != nil {
			t.Fatal(err)
		}

		for _, entry := range entries {
			named := "`" + parent + "/" + entry.Name() + "`"
			if parent == "controllers" {
				named = "`" + entry.Name() + "`"
			}

			grouped := parent == "internal" && entry.Name() == "olvmctl" // its packages are named one by one
			if entry.IsDir() && !grouped && entry.Name() != "testdata" && !strings.Contains(string(content), named) {
				t.Errorf("develop/architecture.md does not name %s/%s", parent, entry.Name())
			}
		}
	}
}
