package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestTheProviderIsPackedAsARegistryHasIt packs two programs, and verifies the checksums with sha256sum.
func TestTheProviderIsPackedAsARegistryHasIt(t *testing.T) {
	out := t.TempDir()
	for _, platform := range []string{"linux-amd64", "linux-arm64"} {
		path := filepath.Join(out, "terraform-provider-ovirt-"+platform)
		check.Error(t, os.WriteFile(path, []byte("#!"+platform), 0o755), "")
	}

	check.Error(t, writeProviderPackages(out, "v0.3.4"), "")
	command := exec.Command("sha256sum", "-c", "terraform-provider-ovirt_2.103.4_SHA256SUMS")
	command.Dir = out
	output, err := command.CombinedOutput()
	check.Error(t, err, "")

	for _, name := range []string{"manifest.json: OK", "linux_amd64.zip: OK", "linux_arm64.zip: OK"} {
		check.Contains(t, "the sums", string(output), "terraform-provider-ovirt_2.103.4_"+name)
	}

	first, err := zipProgram("a", []byte("x"))
	check.Error(t, err, "")
	second, err := zipProgram("a", []byte("x"))
	check.Error(t, err, "")
	check.Equal(t, "the same program in another file", string(first), string(second))
}

// TestEachPlatformIsBuiltByOneCall verifies that every program is built for each of its platforms, and no platform
// twice.
func TestEachPlatformIsBuiltByOneCall(t *testing.T) {
	t.Parallel()
	check.Equal(t, "programs", programsOf(binaries), map[string][]string{
		"linux/amd64":  {"manager", "olvmctl", "ovirtsim", "terraform-provider-ovirt"},
		"linux/arm64":  {"manager", "olvmctl", "ovirtsim", "terraform-provider-ovirt"},
		"darwin/amd64": {"olvmctl"},
		"darwin/arm64": {"olvmctl"},
	})
}
