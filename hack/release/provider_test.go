package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// packProvider returns a folder with the packages of release v0.3.4. The programs in them are texts.
func packProvider(t *testing.T) string {
	t.Helper()

	out := t.TempDir()
	for _, platform := range []string{"linux-amd64", "linux-arm64"} {
		path := filepath.Join(out, "terraform-provider-ovirt-"+platform)
		check.Error(t, os.WriteFile(path, []byte("#!"+platform), 0o755), "")
	}

	check.Error(t, writeProviderPackages(out, "v0.3.4"), "")

	return out
}

// TestTheProviderIsPackedAsARegistryHasIt packs two programs, and verifies the checksums with sha256sum.
func TestTheProviderIsPackedAsARegistryHasIt(t *testing.T) {
	out := packProvider(t)
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

// documentedMirror matches the setting of the CLI configuration file in the document of the provider.
var documentedMirror = regexp.MustCompile("(?s)```hcl\n(provider_installation .*?)```")

// TestTheDocumentedMirrorInstallsTheProvider makes the mirror and the settings that the document describes. An executor
// installs the provider from it, and writes the checksums of both platforms to the lock file.
func TestTheDocumentedMirrorInstallsTheProvider(t *testing.T) {
	t.Parallel()
	out, mirror, work := packProvider(t), t.TempDir(), t.TempDir()
	folder := filepath.Join(mirror, "registry.terraform.io", "ovirt", "ovirt")
	check.Error(t, os.MkdirAll(folder, 0o755), "")
	packages, err := filepath.Glob(filepath.Join(out, "*.zip"))
	check.Error(t, err, "")
	check.Length(t, "the packages", packages, 2)

	for _, path := range packages {
		check.Error(t, os.Link(path, filepath.Join(folder, filepath.Base(path))), "")
	}

	document, err := os.ReadFile("../../docs/develop/terraform-provider.md")
	check.Error(t, err, "")
	found := documentedMirror.FindSubmatch(document)
	check.Length(t, "the documented setting", found, 2)
	settings := strings.Replace(string(found[1]), "/usr/share/terraform/mirror", mirror, 1)
	check.Error(t, os.WriteFile(filepath.Join(work, "cli.rc"), []byte(settings), 0o600), "")
	check.Error(t, os.WriteFile(filepath.Join(work, "main.tf"), []byte("terraform {\n  required_providers {\n"+
		"    ovirt = {\n      source  = \"registry.terraform.io/ovirt/ovirt\"\n      version = \"~> 2.1\"\n"+
		"    }\n  }\n}\n"), 0o600), "")

	for _, args := range [][]string{
		{"init", "-no-color", "-input=false"},
		{"providers", "lock", "-fs-mirror=" + mirror, "-platform=linux_amd64", "-platform=linux_arm64"},
	} {
		command := exec.CommandContext(t.Context(), testenv.FindExecutable(t).Path, args...)
		command.Dir = work
		command.Env = []string{"HOME=" + work, "TF_CLI_CONFIG_FILE=" + filepath.Join(work, "cli.rc"), "CHECKPOINT_DISABLE=1"}
		output, err := command.CombinedOutput()
		check.Equal(t, args[0]+": "+string(output), err, nil)
	}

	installed := filepath.Join(work, ".terraform/providers/registry.terraform.io/ovirt/ovirt/2.103.4",
		runtime.GOOS+"_"+runtime.GOARCH, "terraform-provider-ovirt_v2.103.4")
	info, err := os.Stat(installed)
	check.Error(t, err, "")
	check.Equal(t, "the mode of the program", info.Mode().Perm(), 0o755)

	lock, err := os.ReadFile(filepath.Join(work, ".terraform.lock.hcl"))
	check.Error(t, err, "")
	check.Equal(t, "checksums in the lock file", strings.Count(string(lock), `"h1:`), 2)
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
