package conformance

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

//go:embed requirements.txt
var requirements string

// ansible is the PyPI package that contains the collection ovirt.ovirt. The tests discard its many other collections.
const ansible = "ansible==9.13.0"

// pythonHome returns a virtual environment with the Python clients, below the user's cache. It is created only once.
// The error explains the failure, such as no suitable Python or no access to PyPI.
var pythonHome = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}

	version, err := exec.CommandContext(context.Background(), "python3", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("no python3: %w", err)
	}

	key := sha256.Sum256([]byte(requirements + ansible + string(version)))
	home := filepath.Join(cache, "capolvm", fmt.Sprintf("python-%x", key[:6]))
	if _, err := os.Stat(filepath.Join(home, "complete")); err == nil {
		return home, nil
	}

	if err := os.RemoveAll(home); err != nil {
		return "", err
	}

	pip := filepath.Join(home, "bin", "pip")

	wheels := filepath.Join(home, "wheels")
	for _, command := range [][]string{
		{"python3", "-m", "venv", home},
		{pip, "install", "--quiet", "--disable-pip-version-check", "--requirement", "requirements.txt"},
		{pip, "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", wheels, ansible},
		{filepath.Join(home, "bin", "python"), "-c", unpack, wheels, filepath.Join(home, "collections")},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		output, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
		cancel()
		if err != nil {
			return "", fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, output)
		}
	}

	if err := os.RemoveAll(wheels); err != nil {
		return "", err
	}

	return home, os.WriteFile(filepath.Join(home, "complete"), nil, 0o600)
})

// unpack extracts the collection from the wheel.
const unpack = `
import pathlib, sys, zipfile
wheel = zipfile.ZipFile(next(pathlib.Path(sys.argv[1]).glob("*.whl")))
wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if name.startswith("ansible_collections/ovirt/")])
`

// python runs a program of the environment, and fails the test if the program fails.
func python(t *testing.T, environment []string, program string, args ...string) string {
	t.Helper()
	home, err := pythonHome()
	if err != nil {
		t.Skipf("the clients of Python cannot be installed: %v", err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(home, "bin", program), args...)
	command.Env = append(
		os.Environ(),
		append(environment, "ANSIBLE_COLLECTIONS_PATH="+filepath.Join(home, "collections"))...)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}

	return string(output)
}

// TestThePythonSDKWalksThroughTheEngine needs python3 with venv. The first run also needs PyPI.
func TestThePythonSDKWalksThroughTheEngine(t *testing.T) {
	t.Parallel()
	python(t, nil, "python", "sdk.py", sim.file)
}

// TestAnsibleMakesUsesAndRemovesThings runs tasks of ovirt.ovirt: create, create again, inspect, act, remove.
func TestAnsibleMakesUsesAndRemovesThings(t *testing.T) {
	t.Parallel()
	output := python(t, []string{
		"ANSIBLE_LOCALHOST_WARNING=false",
		"ANSIBLE_NOCOWS=1",
		"ANSIBLE_RETRY_FILES_ENABLED=false",
		"ANSIBLE_LOCAL_TEMP=" + t.TempDir(),
		"OVIRT_URL=" + sim.URL + "/api",
		"OVIRT_USERNAME=" + sim.Username,
		"OVIRT_PASSWORD=" + sim.Password,
		"OVIRT_CAFILE=" + sim.CAFile,
	}, "ansible-playbook", "--inventory", "localhost,", "ansible.yml")

	_, recap, _ := strings.Cut(output, "PLAY RECAP")
	t.Log(strings.TrimSpace(recap))
	if !strings.Contains(recap, "failed=0") || !strings.Contains(recap, "unreachable=0") {
		t.Error(output)
	}
}
