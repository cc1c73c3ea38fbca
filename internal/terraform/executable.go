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
	"strings"
	"time"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hc-install/fs"
	"github.com/hashicorp/hc-install/product"
)

// The oldest versions that understand what is rendered: ephemeral variables came with these.
var (
	MinimumTerraform = version.Must(version.NewVersion("1.10.0"))
	MinimumOpenTofu  = version.Must(version.NewVersion("1.11.0"))
)

// ExecutableEnv names the executor to use, before any other.
const ExecutableEnv = "CAPOLVM_TERRAFORM"

// Executable is a Terraform or OpenTofu of a fitting version.
type Executable struct {
	// Path of the executable.
	Path string
	// Product is Terraform or OpenTofu.
	Product string
	// Version of it.
	Version *version.Version
}

func (e Executable) String() string { return fmt.Sprintf("%s %s (%s)", e.Product, e.Version, e.Path) }

// Find looks for an executor: $CAPOLVM_TERRAFORM, which must fit when it is set; terraform on PATH; tofu on PATH; tofu
// or terraform in dirs. The error lists what was found and why it does not fit.
func Find(ctx context.Context, dirs ...string) (Executable, error) {
	if explicit := os.Getenv(ExecutableEnv); explicit != "" {
		found, err := Probe(ctx, explicit)
		if err != nil {
			return Executable{}, fmt.Errorf("%s: %w", ExecutableEnv, err)
		}
		return found, nil
	}
	var candidates []string
	terraform := &fs.Version{Product: product.Terraform, Constraints: version.MustConstraints(version.NewConstraint(">= " + MinimumTerraform.String()))}
	if path, err := terraform.Find(ctx); err == nil {
		candidates = append(candidates, path)
	} else if path, err := exec.LookPath("terraform"); err == nil {
		candidates = append(candidates, path) // does not fit; Probe says why
	}
	if path, err := exec.LookPath("tofu"); err == nil {
		candidates = append(candidates, path)
	}
	for _, dir := range dirs {
		for _, name := range []string{"terraform", "tofu"} {
			if path := filepath.Join(dir, name); isFile(path) {
				candidates = append(candidates, path)
			}
		}
	}
	problems := []error{fmt.Errorf("no Terraform >= %s or OpenTofu >= %s was found: install one, or set %s", MinimumTerraform, MinimumOpenTofu, ExecutableEnv)}
	for _, path := range candidates {
		found, err := Probe(ctx, path)
		if err == nil {
			return found, nil
		}
		problems = append(problems, err)
	}
	return Executable{}, errors.Join(problems...)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

const (
	terraformProduct = "Terraform"
	openTofuProduct  = "OpenTofu"
)

var versionLine = regexp.MustCompile(`^(Terraform|OpenTofu) v(\S+)`)

// Probe asks an executable for its product and version, and fails where they do not fit.
func Probe(ctx context.Context, path string) (Executable, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, path, "version") //nolint:gosec // the executor that the user names
	command.Env = environmentList(os.TempDir())
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
	return Executable{}, fmt.Errorf("%s is neither Terraform nor OpenTofu: it answers %q", path, firstLine(string(output)))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// environment is all that a child sees: nothing of the manager's own environment but proxies and the search path.
func environment(home string) map[string]string {
	env := map[string]string{
		"HOME":               home,
		"TMPDIR":             home,
		"TF_CLI_CONFIG_FILE": os.DevNull,
		"CHECKPOINT_DISABLE": "1",
		// A run lives for a second or for a wait: collecting garbage costs it a third of its CPU time and saves nothing.
		"GOGC":       "off",
		"GOMEMLIMIT": "512MiB",
		"GOMAXPROCS": "1",
	}
	for _, name := range []string{"PATH", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	return env
}

func environmentList(home string) []string {
	var list []string
	for name, value := range environment(home) {
		list = append(list, name+"="+value)
	}
	return list
}
