// Command release builds the parts of a release. These are the files of clusterctl's repository, a Helm chart, binaries
// with their bills of materials, and checksums.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// devImage is the image in config/manager. The release replaces it with its own image.
const devImage = "ghcr.io/capolvm/cluster-api-provider-olvm:dev"

// flagVariables maps flags of the manager to variables of clusterctl. Their defaults are the values in config/manager.
var flagVariables = map[string]string{
	"diagnostics-address":  "CAPOLVM_DIAGNOSTICS_ADDRESS",
	"insecure-diagnostics": "CAPOLVM_INSECURE_DIAGNOSTICS",
	"tls-min-version":      "CAPOLVM_TLS_MIN_VERSION",
	"confinement":          "CAPOLVM_CONFINEMENT",
	"feature-gates":        "CAPOLVM_FEATURE_GATES",
}

// variables matches everything that clusterctl reads as the beginning of a variable.
var variables = regexp.MustCompile(`\$+\{`)

// binaries maps each program to its platforms.
var binaries = map[string][]string{
	"manager":                  {"linux/amd64", "linux/arm64"},
	"ovirtsim":                 {"linux/amd64", "linux/arm64"},
	"terraform-provider-ovirt": {"linux/amd64", "linux/arm64"},
	"olvmctl":                  {"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"},
}

func main() {
	version := flag.String("version", "", "version, such as v0.1.0")
	out := flag.String("out", filepath.Join("out", "release"), "folder to write to, which is emptied first")
	only := flag.Bool("manifests", false, "make manifests alone")
	digest := flag.String("image-digest", "", "digest of the image, such as sha256:...; empty means its tag alone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := buildRelease(ctx, release{version: *version, out: *out, imageDigest: *digest}, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is a release to build, with its output folder.
type release struct{ version, out, imageDigest string }

// digests matches the image digests of registries.
var digests = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func buildRelease(ctx context.Context, r release, manifestsOnly bool) error {
	parsed, err := utilversion.ParseSemantic(r.version)
	if err != nil || !strings.HasPrefix(r.version, "v") {
		return fmt.Errorf("%q is not a version; write for example VERSION=v0.1.0", r.version)
	}

	if r.imageDigest != "" && !digests.MatchString(r.imageDigest) {
		return fmt.Errorf("%q is not a digest; write for example IMAGE_DIGEST=sha256:... with 64 digits", r.imageDigest)
	}

	tools, err := toolchain.New()
	if err != nil {
		return err
	}

	if err := os.RemoveAll(r.out); err != nil {
		return fmt.Errorf("failed to empty the folder: %w", err)
	}

	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return fmt.Errorf("failed to make the folder: %w", err)
	}

	if err := writeManifests(ctx, tools, parsed, r); err != nil {
		return err
	}

	if !manifestsOnly {
		if err := buildPrograms(ctx, tools, r.version, r.out); err != nil {
			return err
		}

		if err := writeProviderPackages(r.out, r.version); err != nil {
			return err
		}

		if err := writeExecutorBill(ctx, tools, r.out); err != nil {
			return err
		}

		if err := writePackages(tools.Root(), r); err != nil {
			return err
		}
	}

	return writeChecksums(r.out)
}

func logProgress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "release: "+format+"\n", args...)
}

// writeManifests writes the input of clusterctl and the chart.
func writeManifests(ctx context.Context, tools *toolchain.Toolchain, parsed *utilversion.Version, r release) error {
	config := filepath.Join(tools.Root(), "config")
	metadata, err := os.ReadFile(filepath.Join(config, "metadata.yaml"))
	if err != nil {
		return fmt.Errorf("failed to read the metadata: %w", err)
	}

	var known clusterctlv1.Metadata
	if err := yaml.UnmarshalStrict(metadata, &known); err != nil {
		return fmt.Errorf("config/metadata.yaml: %w", err)
	}

	if known.GetReleaseSeriesForVersion(parsed) == nil {
		return fmt.Errorf("config/metadata.yaml has no release series for %s; add it", r.version)
	}

	components, err := runKustomize(ctx, tools, filepath.Join(config, "default"))
	if err != nil {
		return err
	}

	if err := writeChart(ctx, tools, components, r); err != nil {
		return err
	}

	components, err = r.renderComponents(components)
	if err != nil {
		return err
	}

	files := map[string][]byte{"metadata.yaml": metadata, "infrastructure-components.yaml": components}
	templates, err := filepath.Glob(filepath.Join(config, "templates", "*.yaml"))
	if err != nil || len(templates) == 0 {
		return fmt.Errorf("no templates: %w", errors.Join(err, os.ErrNotExist))
	}

	for _, path := range templates {
		if files[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			return fmt.Errorf("failed to read a template: %w", err)
		}
	}

	for name, path := range map[string]string{
		"kustomize-name-references.yaml": "kustomize/name-references.yaml",
		"kube-state-metrics.yaml":        "monitoring/kube-state-metrics.yaml",
	} {
		if files[name], err = os.ReadFile(filepath.Join(config, path)); err != nil {
			return fmt.Errorf("failed to read a configuration: %w", err)
		}
	}

	for name, content := range files {
		if err := os.WriteFile(filepath.Join(r.out, name), content, 0o644); err != nil {
			return fmt.Errorf("failed to write %s: %w", name, err)
		}
	}

	logProgress("%d manifests, with the image %s", len(files), r.imageReference())

	return nil
}

// imageReference returns the reference of the components' image.
func (r release) imageReference() string {
	image := strings.TrimSuffix(devImage, "dev") + r.version
	if r.imageDigest != "" {
		image += "@" + r.imageDigest
	}

	return image
}

// renderComponents returns the objects of config/default for clusterctl, with the image of the release.
func (r release) renderComponents(rendered []byte) ([]byte, error) {
	if bytes.Count(rendered, []byte(devImage)) != 1 {
		return nil, fmt.Errorf("config/default does not have the image %s once", devImage)
	}

	rendered = bytes.Replace(rendered, []byte(devImage), []byte(r.imageReference()), 1)

	// Descriptions mention variables. Without this change, clusterctl asks for the values of these variables.
	rendered = variables.ReplaceAllFunc(rendered, func(match []byte) []byte {
		return bytes.ReplaceAll(match, []byte("$"), []byte("$$"))
	})

	for name, variable := range flagVariables {
		line := regexp.MustCompile(`(?m)^( +- )(--` + name + `)=(.*)$`)
		if found := line.FindAllIndex(rendered, -1); len(found) != 1 {
			return nil, fmt.Errorf("config/default has the flag %s %d times", name, len(found))
		}

		rendered = line.ReplaceAll(rendered, []byte("$1'$2=$${"+variable+":=$3}'"))
	}

	return rendered, nil
}

// runKustomize returns kustomize's output for a folder.
func runKustomize(ctx context.Context, tools *toolchain.Toolchain, folder string) ([]byte, error) {
	kubectl, err := tools.Path("plane", "kubectl")
	if err != nil {
		return nil, err
	}

	command := exec.CommandContext(ctx, kubectl, "kustomize", folder)
	command.Stderr = os.Stderr
	components, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("kubectl kustomize %s: %w", folder, err)
	}

	return components, nil
}

// buildPrograms builds the binaries, each with its bill of materials. One call of go build builds all binaries of a
// platform, so it compiles shared packages once and links in parallel.
func buildPrograms(ctx context.Context, tools *toolchain.Toolchain, version, out string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return fmt.Errorf("failed to resolve the folder: %w", err)
	}

	bill, err := tools.Path("sbom", "cyclonedx-gomod")
	if err != nil {
		return err
	}

	programs := programsOf(binaries)
	for _, platform := range slices.Sorted(maps.Keys(programs)) {
		names, start := programs[platform], time.Now()
		logProgress("building %s for %s", strings.Join(names, ", "), platform)

		if err := buildPlatform(ctx, tools.Root(), bill, out, version, platform, names); err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}

		logProgress("built for %s in %s", platform, time.Since(start).Round(time.Second))
	}

	return nil
}

// programsOf returns the names of the programs for each platform.
func programsOf(binaries map[string][]string) map[string][]string {
	out := map[string][]string{}

	for _, name := range slices.Sorted(maps.Keys(binaries)) {
		for _, platform := range binaries[name] {
			out[platform] = append(out[platform], name)
		}
	}

	return out
}

func buildPlatform(ctx context.Context, root, bill, out, version, platform string, names []string) error {
	system, architecture, _ := strings.Cut(platform, "/")
	folder, err := os.MkdirTemp(out, ".build-")
	if err != nil {
		return fmt.Errorf("failed to make a folder: %w", err)
	}

	defer os.RemoveAll(folder)

	build := []string{
		"go", "build", "-trimpath", "-ldflags",
		"-s -w -X github.com/capolvm/cluster-api-provider-olvm/internal/version.Version=" + version,
		"-o", folder + string(filepath.Separator),
	}
	for _, name := range names {
		build = append(build, "./cmd/"+name)
	}

	environment := []string{"CGO_ENABLED=0", "GOOS=" + system, "GOARCH=" + architecture, "GOFLAGS=-buildvcs=false"}
	if err := runIn(ctx, root, environment, build...); err != nil {
		return err
	}

	for _, name := range names {
		target := filepath.Join(out, fmt.Sprintf("%s-%s-%s", name, system, architecture))
		if err := os.Rename(filepath.Join(folder, name), target); err != nil {
			return fmt.Errorf("failed to name a program: %w", err)
		}

		if err := writeBill(ctx, bill, target, version); err != nil {
			return err
		}
	}

	return nil
}

// writeBill writes the bill of materials of a program. It reads the modules from the program, not from the checkout: in
// a worktree of git, cyclonedx-gomod cannot read the version of a checkout.
func writeBill(ctx context.Context, bill, program, version string) error {
	return runIn(ctx, filepath.Dir(program), nil, bill, "bin", "-json", "-version", version,
		"-output", program+".cdx.json", program)
}

// runIn runs a program in a folder, with more variables in its environment.
func runIn(ctx context.Context, folder string, environment []string, args ...string) error {
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Dir = folder
	command.Env = append(os.Environ(), environment...)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", args[0], err, output)
	}

	return nil
}

// writeExecutorBill writes the bill of materials of the OpenTofu in the image.
func writeExecutorBill(ctx context.Context, tools *toolchain.Toolchain, out string) error {
	bill, err := tools.Path("sbom", "cyclonedx-gomod")
	if err != nil {
		return err
	}

	path, err := filepath.Abs(filepath.Join(out, "opentofu.cdx.json"))
	if err != nil {
		return fmt.Errorf("failed to resolve the folder: %w", err)
	}

	folder := filepath.Join(tools.Root(), "hack", "tools", "tofu")
	if err := runIn(ctx, folder, []string{"GOFLAGS=-mod=mod"}, bill, "mod", "-json", "-output", path, "."); err != nil {
		return fmt.Errorf("the bill of materials of OpenTofu: %w", err)
	}

	return nil
}

// writeChecksums writes the checksums of all files, in the format of sha256sum -c.
func writeChecksums(out string) error {
	entries, err := os.ReadDir(out)
	if err != nil {
		return fmt.Errorf("failed to read the folder: %w", err)
	}

	var sums strings.Builder

	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(out, entry.Name()))
		if err != nil {
			return fmt.Errorf("failed to read %s: %w", entry.Name(), err)
		}

		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}

	if err := os.WriteFile(filepath.Join(out, "checksums.txt"), []byte(sums.String()), 0o644); err != nil {
		return fmt.Errorf("failed to write the checksums: %w", err)
	}

	logProgress("%d files in %s", len(entries)+1, out)

	return nil
}
