package terraform

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-version"
)

// The rendered configurations need ephemeral variables. These are the first versions that support them.
var (
	MinimumTerraform = version.Must(version.NewVersion("1.10.0"))
	MinimumOpenTofu  = version.Must(version.NewVersion("1.11.0"))
)

// ExecutableEnv is the environment variable with the path of the executor. FindExecutable prefers this path.
const ExecutableEnv = "CAPOLVM_TERRAFORM"

// Executable is a supported version of Terraform or OpenTofu.
type Executable struct {
	// Path is the path of the file.
	Path string
	// Product is Terraform or OpenTofu.
	Product string
	// Version is the version that the executable reports.
	Version *version.Version
}

func (e Executable) String() string { return fmt.Sprintf("%s %s (%s)", e.Product, e.Version, e.Path) }

// FindExecutable looks for an executor in this order: $CAPOLVM_TERRAFORM, terraform on PATH, tofu on PATH, then tofu or
// terraform in dirs. It fails if $CAPOLVM_TERRAFORM names an unsuitable executable. The error lists the executables it
// found, and why each is unsuitable.
func FindExecutable(ctx context.Context, dirs ...string) (Executable, error) {
	if explicit := os.Getenv(ExecutableEnv); explicit != "" {
		found, err := ProbeExecutable(ctx, explicit)
		if err != nil {
			return Executable{}, fmt.Errorf("%s: %w", ExecutableEnv, err)
		}

		return found, nil
	}

	// ProbeExecutable runs each candidate in a minimal environment. hc-install would run it in the user's environment,
	// where it could access the network and write files.
	search := filepath.SplitList(os.Getenv("PATH"))

	candidates := slices.Concat(findExecutables("terraform", search), findExecutables("tofu", search))
	for _, dir := range dirs {
		candidates = slices.Concat(candidates, findExecutables("terraform", []string{dir}),
			findExecutables("tofu", []string{dir}))
	}

	problems := []error{
		fmt.Errorf(
			"no Terraform >= %s or OpenTofu >= %s was found: install one, or set %s", MinimumTerraform,
			MinimumOpenTofu, ExecutableEnv,
		),
	}

	for _, path := range candidates {
		found, err := ProbeExecutable(ctx, path)
		if err == nil {
			return found, nil
		}

		problems = append(problems, err)
	}

	return Executable{}, errors.Join(problems...)
}

// findExecutables returns the executables with this name in folders.
func findExecutables(name string, dirs []string) []string {
	var out []string

	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if filepath.IsAbs(path) && err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			out = append(out, path)
		}
	}

	return out
}

const (
	terraformProduct = "Terraform"
	openTofuProduct  = "OpenTofu"
)

var versionLine = regexp.MustCompile(`^(Terraform|OpenTofu) v(\S+)`)

// probeLimit is the time that an executable has to report its version. A busy machine needs half a minute to start one.
const probeLimit = 2 * time.Minute

// ProbeExecutable runs an executable to read its product and version. It fails if they are not supported.
func ProbeExecutable(ctx context.Context, path string) (Executable, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	command := exec.CommandContext(ctx, path, "version") //nolint:gosec // the executor that the user names
	command.Env = formatEnvironment(os.TempDir())
	output, err := command.Output()
	if err != nil {
		return Executable{}, fmt.Errorf("%s version: %w", path, err)
	}

	scanner := bufio.NewScanner(bytes.NewReader(output))
	for scanner.Scan() {
		match := versionLine.FindStringSubmatch(strings.TrimSpace(scanner.Text()))
		if match == nil {
			continue
		}

		parsed, err := version.NewVersion(match[2])
		if err != nil {
			return Executable{}, fmt.Errorf("%s has an unreadable version %q: %w", path, match[2], err)
		}

		minimum := MinimumTerraform
		if match[1] == openTofuProduct {
			minimum = MinimumOpenTofu
		}

		if parsed.Core().LessThan(minimum) {
			return Executable{}, fmt.Errorf("%s is %s %s; at least %s is needed", path, match[1], parsed, minimum)
		}

		return Executable{Path: path, Product: match[1], Version: parsed}, nil
	}

	return Executable{}, fmt.Errorf("%s is neither Terraform nor OpenTofu: it answers %q", path,
		firstLine(string(output)))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// buildEnvironment returns the complete environment of a child process. From the manager's environment, it takes only
// the search path, the proxies and the paths of CAs.
func buildEnvironment(home string) map[string]string {
	env := map[string]string{
		"HOME":               home,
		"TMPDIR":             home,
		"TF_CLI_CONFIG_FILE": os.DevNull,
		"CHECKPOINT_DISABLE": "1",
		// A run ends within a second, or spends most of its time waiting. Garbage collection would take a third of its
		// CPU time, and free little memory.
		"GOGC":       "off",
		"GOMEMLIMIT": "512MiB",
		"GOMAXPROCS": "1",
	}

	for _, name := range []string{"PATH", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy",
		"no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}

	return env
}

func formatEnvironment(home string) []string {
	var list []string
	for name, value := range buildEnvironment(home) {
		list = append(list, name+"="+value)
	}

	return list
}
