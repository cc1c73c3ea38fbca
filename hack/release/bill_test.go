package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// TestTheBillOfAProgramHasItsModules writes the bill of this test, which is a program outside of any checkout.
func TestTheBillOfAProgramHasItsModules(t *testing.T) {
	t.Parallel()
	testenv.SkipInShort(t, "cyclonedx-gomod is a program of its own, whose build takes minutes")

	tools := testenv.Toolchain(t)
	check.Error(t, tools.Build(t.Context(), "sbom"), "")
	bill, err := tools.Path("sbom", "cyclonedx-gomod")
	check.Error(t, err, "")

	self, err := os.Executable()
	check.Error(t, err, "")
	content, err := os.ReadFile(self)
	check.Error(t, err, "")

	program := filepath.Join(t.TempDir(), "program")
	check.Error(t, os.WriteFile(program, content, 0o755), "")
	check.Error(t, writeBill(t.Context(), bill, program, "v0.1.0"), "")

	written, err := os.ReadFile(program + ".cdx.json")
	check.Error(t, err, "")

	var got struct {
		BOMFormat string
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}

	check.Error(t, json.Unmarshal(written, &got), "")
	check.Equal(t, "format", got.BOMFormat, "CycloneDX")
	check.Equal(t, "program", got.Metadata.Component.Name, "github.com/capolvm/cluster-api-provider-olvm")
	check.Equal(t, "version", got.Metadata.Component.Version, "v0.1.0")

	versions := map[string]string{}
	for _, component := range got.Components {
		versions[component.Name] = component.Version
	}

	check.Set(t, "the version of a module that this program has", versions["sigs.k8s.io/cluster-api"])
}
