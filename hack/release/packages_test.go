package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// smallRelease returns a release with the files for package managers. It contains scripts instead of olvmctl.
func smallRelease(t *testing.T) release {
	t.Helper()
	r := release{version: "v0.1.0", out: t.TempDir()}

	for _, platform := range binaries["olvmctl"] {
		name := "olvmctl-" + strings.ReplaceAll(platform, "/", "-")
		program := "#!/bin/sh\necho " + name + "\n"
		check.Error(t, os.WriteFile(filepath.Join(r.out, name), []byte(program), 0o755), "")
	}

	check.Error(t, writePackages("../..", r), "")
	check.Error(t, writeChecksums(r.out), "")

	return r
}

// install runs the script of the release with a folder as the source, like a user without cosign.
func install(t *testing.T, r release, folder string) (string, error) {
	t.Helper()
	path := t.TempDir() // folder with the programs that the script needs, without cosign

	for _, program := range []string{
		"awk", "chmod", "curl", "ln", "mkdir", "mktemp", "mv", "rm", "sha256sum", "tr", "uname",
	} {
		found, err := exec.LookPath(program)
		check.Error(t, err, "")
		check.Error(t, os.Symlink(found, filepath.Join(path, program)), "")
	}

	command := exec.CommandContext(t.Context(), "/bin/sh", filepath.Join(r.out, "install.sh"), folder)
	command.Dir = t.TempDir()
	command.Env = []string{"PATH=" + path, "HOME=" + command.Dir, "CAPOLVM_RELEASE=file://" + r.out}
	out, err := command.CombinedOutput()

	if !filepath.IsAbs(folder) && err == nil {
		_, err = os.Stat(filepath.Join(command.Dir, folder, "olvmctl"))
	}

	return string(out), err
}

// TestTheScriptInstallsWhatTheChecksumsAreOf installs the program from a folder under all its names.
func TestTheScriptInstallsWhatTheChecksumsAreOf(t *testing.T) {
	t.Parallel()
	r := smallRelease(t)
	folder := filepath.Join(t.TempDir(), "a folder", "bin")
	out, err := install(t, r, folder)
	check.Error(t, err, "")
	check.Contains(t, "output", out, "olvmctl v0.1.0 is in "+folder)
	check.Contains(t, "output", out, "the signature of the checksums is not verified")

	for _, name := range []string{"olvmctl", "kubectl-olvm", "clusterctl-olvm"} {
		said, err := exec.CommandContext(t.Context(), filepath.Join(folder, name)).Output()
		check.Error(t, err, "")
		check.Equal(t, name, string(said), "olvmctl-"+runtime.GOOS+"-"+runtime.GOARCH+"\n")
	}

	_, err = install(t, r, "bin") // this folder is relative to the working directory
	check.Error(t, err, "")
}

// TestTheScriptInstallsNothingThatSomebodyChanged tampers with the downloads in each possible way.
func TestTheScriptInstallsNothingThatSomebodyChanged(t *testing.T) {
	t.Parallel()
	name := "olvmctl-" + runtime.GOOS + "-" + runtime.GOARCH

	for what, c := range map[string]struct {
		change func(r release) error
		want   string
	}{
		"another program": {func(r release) error {
			return os.WriteFile(filepath.Join(r.out, name), []byte("#!/bin/sh\n"), 0o755)
		}, "has another checksum"},
		"no program": {func(r release) error { return os.Remove(filepath.Join(r.out, name)) }, "failed to download"},
		"no checksums": {func(r release) error {
			return os.Remove(filepath.Join(r.out, "checksums.txt"))
		}, "failed to download"},
		"checksums of other files": {func(r release) error {
			return os.WriteFile(filepath.Join(r.out, "checksums.txt"), []byte("0  x-"+name+"\n"), 0o644)
		}, "does not have " + name},
	} {
		r := smallRelease(t)
		check.Error(t, c.change(r), "")
		folder := filepath.Join(t.TempDir(), "bin")
		out, err := install(t, r, folder)

		if err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v\n%s", what, err, out)
		}

		if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: it is installed: %v", what, err)
		}
	}
}

// TestKrewAndHomebrewGetTheChecksumsOfTheRelease reads the files for both. Neither krew nor Homebrew has ever read
// them.
func TestKrewAndHomebrewGetTheChecksumsOfTheRelease(t *testing.T) {
	t.Parallel()
	r := smallRelease(t)
	sum := func(name string) string {
		content, err := os.ReadFile(filepath.Join(r.out, name))
		check.Error(t, err, "")

		return fmt.Sprintf("%x", sha256.Sum256(content))
	}

	manifest, err := os.ReadFile(filepath.Join(r.out, "krew.yaml"))
	check.Error(t, err, "")

	var plugin struct {
		Spec struct {
			Version   string
			Platforms []struct{ URI, SHA256, Bin string }
		}
	}

	check.Error(t, yaml.Unmarshal(manifest, &plugin), "")
	check.Equal(t, "version", plugin.Spec.Version, "v0.1.0")
	check.Length(t, "platforms", plugin.Spec.Platforms, len(binaries["olvmctl"]))

	for _, platform := range plugin.Spec.Platforms {
		name := filepath.Base(platform.URI)
		check.Equal(t, name, platform.SHA256, sum(name))
		check.Contains(t, "URL", platform.URI, "/releases/download/v0.1.0/")
		check.Equal(t, "modes in "+name, modesIn(t, filepath.Join(r.out, name))[platform.Bin], 0o755)
	}

	formula, err := os.ReadFile(filepath.Join(r.out, "olvmctl.rb"))
	check.Error(t, err, "")
	check.Contains(t, "formula", string(formula), `version "0.1.0"`)
	check.Lacks(t, "formula", string(formula), "@")

	for _, platform := range binaries["olvmctl"] {
		name := "olvmctl-" + strings.ReplaceAll(platform, "/", "-")
		check.Contains(t, "formula", string(formula), "/v0.1.0/"+name+"\"\n      sha256 \""+sum(name)+"\"")
	}
}

// modesIn returns the modes of the files in an archive by their names.
func modesIn(t *testing.T, path string) map[string]int64 {
	t.Helper()
	file, err := os.Open(path)
	check.Error(t, err, "")

	defer file.Close()

	content, err := gzip.NewReader(file)
	check.Error(t, err, "")

	modes := map[string]int64{}
	archive := tar.NewReader(content)

	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return modes
		}

		check.Error(t, err, "")
		modes[header.Name] = header.Mode
	}
}
