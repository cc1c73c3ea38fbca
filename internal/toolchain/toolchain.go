// Package toolchain finds or builds the tools that development needs in addition to Go. These are the processes of a
// management plane, the executor, and code generators. The go.mod files below hack/tools pin all versions. If the
// network allows it, the package downloads published executables and verifies their checksums. It finds all other tools
// on PATH, or builds them from Go modules. The cache for the tools is outside of the checkout.
//
// Of the shipped binaries, only olvmctl uses it, for local management clusters: see Embedded.
package toolchain

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hc-install/product"
	"github.com/hashicorp/hc-install/releases"
	"golang.org/x/mod/modfile"

	"github.com/capolvm/cluster-api-provider-olvm/internal/heartbeat"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

// tool is one executable of a tools module.
type tool struct {
	// name is the name of the executable. pkg is the package from which the executable is built.
	name, pkg string
	// module is the module whose version the tool has.
	module string
	// stamp is the prefix of the linker variables for the version, for programs that require a version.
	stamp string
	// ldflags are additional flags of the linker.
	ldflags string
	// cgo reports that the build needs a C compiler.
	cgo bool
	// tags are the tags of the build, separated by commas.
	tags string
	// published reports that Kubernetes publishes the executable. If checksums.txt contains its checksum, the
	// executable is downloaded. Otherwise, it is built like all other tools. For builds, go.sum contains the checksums.
	published bool
}

const kubernetesStamp = "k8s.io/component-base/version"

// modules maps the tools modules below hack/tools to their tools.
var modules = map[string][]tool{
	"plane": {
		{
			name:   "etcd",
			pkg:    "go.etcd.io/etcd/server/v3",
			module: "go.etcd.io/etcd/server/v3",
		},
		kubernetesTool("kube-apiserver"),
		{
			// The downloaded program contains all controllers. The built program contains only the controllers that a
			// plane needs.
			name:      "kube-controller-manager",
			pkg:       "./kube-controller-manager",
			module:    "k8s.io/kubernetes",
			stamp:     kubernetesStamp,
			published: true,
		},
		kubernetesTool("kubectl"),
		capiManager("capi-core", "core"),
		capiManager("capi-bootstrap-kubeadm", "bootstrap/kubeadm"),
		capiManager("capi-controlplane-kubeadm", "controlplane/kubeadm"),
	},
	"ipam": {
		{
			name:   "capi-ipam-in-cluster",
			pkg:    "sigs.k8s.io/cluster-api-ipam-provider-in-cluster",
			module: "sigs.k8s.io/cluster-api-ipam-provider-in-cluster",
		},
	},
	"clusterctl": {
		{name: "clusterctl", pkg: "sigs.k8s.io/cluster-api/cmd/clusterctl", module: "sigs.k8s.io/cluster-api"},
	},
	// This is the manager of the Cluster API operator.
	"operator": {
		{
			name:   "capi-operator",
			pkg:    "sigs.k8s.io/cluster-api-operator/cmd",
			module: "sigs.k8s.io/cluster-api-operator",
		},
	},
	// What signs a release. The workflow has the same major version.
	"cosign": {
		{name: "cosign", pkg: "github.com/sigstore/cosign/v2/cmd/cosign", module: "github.com/sigstore/cosign/v2"},
	},
	"tofu": {
		{name: "tofu", pkg: "github.com/opentofu/opentofu/cmd/tofu", module: "github.com/opentofu/opentofu"},
	},
	// These are the first supported version of Terraform and the newest one. Only tests use them.
	"terraformoldest": {terraformTool()},
	"terraformnewest": {terraformTool()},
	"apidocs": {
		{name: "crd-ref-docs", pkg: "github.com/elastic/crd-ref-docs", module: "github.com/elastic/crd-ref-docs"},
	},
	"oci": {
		{
			name:   "capoci",
			pkg:    "github.com/oracle/cluster-api-provider-oci",
			module: "github.com/oracle/cluster-api-provider-oci",
		},
	},
	"rke2": {
		{
			name:   "capi-bootstrap-rke2",
			pkg:    "github.com/rancher/cluster-api-provider-rke2/bootstrap",
			module: "github.com/rancher/cluster-api-provider-rke2",
		},
		{
			name:   "capi-controlplane-rke2",
			pkg:    "github.com/rancher/cluster-api-provider-rke2/controlplane",
			module: "github.com/rancher/cluster-api-provider-rke2",
		},
	},
	"node":       nodeTools(),
	"nodebefore": nodeTools(),
	"containerd": {
		containerdTool("containerd"),
		containerdTool("containerd-shim-runc-v2"),
		containerdTool("ctr"),
		networkPlugin("bridge", "main"),
		networkPlugin("host-local", "ipam"),
		networkPlugin("loopback", "main"),
		networkPlugin("portmap", "meta"),
	},
	"csi": {
		{
			name:   "csi-attacher",
			pkg:    "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher",
			module: "github.com/kubernetes-csi/external-attacher/v4",
		},
	},
	"actions": {
		{name: "actionlint", pkg: "github.com/rhysd/actionlint/cmd/actionlint", module: "github.com/rhysd/actionlint"},
	},
	"certmanager": {certManagerTool("controller"), certManagerTool("webhook"), certManagerTool("cainjector")},
	"kubevip":     {{name: "kube-vip", pkg: "github.com/kube-vip/kube-vip", module: "github.com/kube-vip/kube-vip"}},
	"kubevipcloud": {
		{
			name:   "kube-vip-cloud-provider",
			pkg:    "github.com/kube-vip/kube-vip-cloud-provider",
			module: "github.com/kube-vip/kube-vip-cloud-provider",
		},
	},
	"dns":  {{name: "coredns", pkg: ".", module: "github.com/coredns/coredns"}},
	"oidc": {{name: "dex", pkg: "github.com/dexidp/dex/cmd/dex", module: "github.com/dexidp/dex", cgo: true}},
	"ignition": {
		{
			name:   "ignition",
			pkg:    "github.com/coreos/ignition/v2/internal",
			module: "github.com/coreos/ignition/v2",
			cgo:    true,
		},
	},
	"dev": {
		{
			name:   "controller-gen",
			pkg:    "sigs.k8s.io/controller-tools/cmd/controller-gen",
			module: "sigs.k8s.io/controller-tools",
		},
	},
	"providerdocs": {
		{
			name:   "tfplugindocs",
			pkg:    "github.com/hashicorp/terraform-plugin-docs/cmd/tfplugindocs",
			module: "github.com/hashicorp/terraform-plugin-docs",
		},
	},
	// The program in the module adds the linter of Kubernetes APIs to golangci-lint.
	"lint": {{name: "golangci-lint", pkg: ".", module: "github.com/golangci/golangci-lint/v2"}},
	// promtool tests alert rules. It needs no service discovery for this.
	"prometheus": {
		{
			name:   "promtool",
			pkg:    "github.com/prometheus/prometheus/cmd/promtool",
			module: "github.com/prometheus/prometheus",
			tags:   "remove_all_sd",
		},
	},
	"sbom": {
		{
			name:   "cyclonedx-gomod",
			pkg:    "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod",
			module: "github.com/CycloneDX/cyclonedx-gomod",
		},
	},
	"gremlins": {
		{
			name:   "gremlins",
			pkg:    "github.com/go-gremlins/gremlins/cmd/gremlins",
			module: "github.com/go-gremlins/gremlins",
		},
	},
	"vuln": {{name: "govulncheck", pkg: "golang.org/x/vuln/cmd/govulncheck", module: "golang.org/x/vuln"}},
}

// kubernetesTool returns an executable of a Kubernetes release.
func kubernetesTool(name string) tool {
	return tool{
		name:      name,
		pkg:       "k8s.io/kubernetes/cmd/" + name,
		module:    "k8s.io/kubernetes",
		stamp:     kubernetesStamp,
		published: true,
	}
}

// terraformTool returns Terraform. Unless the linker is told otherwise, its version has the suffix -dev.
func terraformTool() tool {
	return tool{
		name:    "terraform",
		pkg:     "github.com/hashicorp/terraform",
		module:  "github.com/hashicorp/terraform",
		ldflags: "-X github.com/hashicorp/terraform/version.dev=no",
	}
}

// nodeTools returns the executables of Kubernetes that a node needs.
func nodeTools() []tool {
	return []tool{
		kubernetesTool("kube-apiserver"),
		kubernetesTool("kube-controller-manager"),
		kubernetesTool("kube-proxy"),
		kubernetesTool("kube-scheduler"),
		kubernetesTool("kubeadm"),
		kubernetesTool("kubectl"),
		kubernetesTool("kubelet"),
	}
}

// containerdTool returns an executable of containerd, without the parts that need C libraries.
func containerdTool(name string) tool {
	return tool{
		name:   name,
		pkg:    "github.com/containerd/containerd/v2/cmd/" + name,
		module: "github.com/containerd/containerd/v2",
		tags:   "no_aufs,no_btrfs,no_devmapper,no_tracing,no_zfs",
	}
}

// certManagerTool returns an executable of cert-manager 1.11. This is the last version whose executables are in
// cert-manager's main Go module.
func certManagerTool(name string) tool {
	return tool{
		name:   name,
		pkg:    "github.com/cert-manager/cert-manager/cmd/" + name,
		module: "github.com/cert-manager/cert-manager",
	}
}

// networkPlugin returns a CNI plugin. Its kind is the folder that contains it.
func networkPlugin(name, kind string) tool {
	return tool{
		name:   name,
		pkg:    "github.com/containernetworking/plugins/plugins/" + kind + "/" + name,
		module: "github.com/containernetworking/plugins",
	}
}

// capiManager returns a manager of Cluster API, built from the given folder there.
func capiManager(name, folder string) tool {
	return tool{name: name, pkg: "sigs.k8s.io/cluster-api/" + folder, module: "sigs.k8s.io/cluster-api"}
}

// manifestFolders maps each tools module to managers, and each manager to the folders of its Go module with CRDs and
// webhooks.
var manifestFolders = map[string]map[string]string{
	"plane": {
		"capi-core":                 "core/config",
		"capi-bootstrap-kubeadm":    "bootstrap/kubeadm/config",
		"capi-controlplane-kubeadm": "controlplane/kubeadm/config",
	},
	"ipam": {"capi-ipam-in-cluster": "config"},
	"oci":  {"capoci": "config"},
	"rke2": {"capi-bootstrap-rke2": "bootstrap/config", "capi-controlplane-rke2": "controlplane/config"},
}

// Toolchain finds the tools of a checkout.
type Toolchain struct {
	root string
	// publisher is where the toolchain looks for executables before it builds anything.
	publisher *publisher
	// Progress receives progress messages for users; nil drops them.
	Progress func(format string, args ...any)
}

// CacheDir returns the folder of the cache: $XDG_CACHE_HOME/capolvm.
func CacheDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}

	return filepath.Join(base, "capolvm")
}

// New returns the toolchain of the checkout that contains the working directory.
func New() (*Toolchain, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("failed to get the working directory: %w", err)
	}

	for {
		if _, err := os.Stat(filepath.Join(root, "hack", "tools", "plane", "go.mod")); err == nil {
			return &Toolchain{root: root, publisher: defaultPublisher()}, nil
		}

		parent := filepath.Dir(root)
		if parent == root {
			return nil, errors.New(
				"not inside a checkout of the project: no hack/tools/plane/go.mod above the working directory",
			)
		}

		root = parent
	}
}

// Root returns the root folder of the checkout.
func (t *Toolchain) Root() string { return t.root }

func (t *Toolchain) reportProgress(format string, args ...any) {
	if t.Progress != nil {
		t.Progress(format, args...)
	}
}

// runWithHeartbeat runs a step that prints nothing itself. It reports regularly that the step still runs.
func (t *Toolchain) runWithHeartbeat(what string, step func() error) error {
	stop := heartbeat.Start(
		func(since time.Duration) { t.reportProgress("  %s, %.0f s elapsed", what, since.Seconds()) },
	)
	defer stop()

	return step()
}

func (t *Toolchain) moduleDir(module string) string {
	return filepath.Join(t.root, "hack", "tools", module)
}

// Dir returns the folder of a module's tools in the cache. The folder's name depends on the content of go.mod and of
// the programs in the module, so each version has its own folder.
func (t *Toolchain) Dir(module string) (string, error) {
	content, err := os.ReadFile(filepath.Join(t.moduleDir(module), "go.mod"))
	if err != nil {
		return "", fmt.Errorf("failed to read the versions of %s: %w", module, err)
	}

	err = filepath.WalkDir(t.moduleDir(module), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}

		program, err := os.ReadFile(path)
		content = append(content, program...)

		return err
	})
	if err != nil {
		return "", fmt.Errorf("failed to read the programs of %s: %w", module, err)
	}

	return filepath.Join(
		CacheDir(),
		"tools",
		fmt.Sprintf("%s-%x", module, sha256.Sum256(content))[:len(module)+13],
	), nil
}

// Path returns the path of a tool. If the tool is not built yet, it returns an error that says how to build it.
func (t *Toolchain) Path(module, name string) (string, error) {
	dir, err := t.Dir(module)
	if err != nil {
		return "", err
	}

	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is not built yet: run make tools-%s", name, module)
	}

	return path, nil
}

// Version returns the version of a Go module in a tools module, or "" if the tools module does not require it.
func (t *Toolchain) Version(module, path string) string {
	versions, _ := t.readVersions(module)
	return versions[path]
}

func (t *Toolchain) readVersions(module string) (map[string]string, error) {
	return parseRequirements(filepath.Join(t.moduleDir(module), "go.mod"))
}

// parseRequirements returns the versions of the modules that a go.mod file requires, by their paths.
func parseRequirements(path string) (map[string]string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("failed to read the versions of tools: %w", err)
	}

	parsed, err := modfile.Parse(path, content, nil)
	if err != nil {
		return nil, fmt.Errorf("failed to parse %s: %w", path, err)
	}

	versions := map[string]string{}
	for _, require := range parsed.Require {
		versions[require.Mod.Path] = require.Mod.Version
	}

	return versions, nil
}

// goCommand runs go inside a tools module and returns its output.
func (t *Toolchain) goCommand(ctx context.Context, module string, args ...string) (string, error) {
	return runGo(ctx, t.moduleDir(module), toolsEnvironment(false), args...)
}

// runGo runs go in a folder and returns its output.
func runGo(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir, command.Env = dir, env
	output, err := command.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, failed.Stderr)
	}

	return strings.TrimSpace(string(output)), err
}

// copyManifests copies CRDs and webhooks of managers from their Go modules.
func (t *Toolchain) copyManifests(ctx context.Context, module, dir string) error {
	target := filepath.Join(dir, "manifests")
	if _, err := os.Stat(target); err == nil || manifestFolders[module] == nil {
		return nil
	}

	temporary := fmt.Sprintf("%s.%d", target, os.Getpid())
	defer os.RemoveAll(temporary)

	for _, manager := range modules[module] {
		folder, ok := manifestFolders[module][manager.name]
		if !ok {
			continue
		}

		var source string

		err := t.runWithHeartbeat("fetching the manifests of "+manager.name, func() (err error) {
			source, err = t.ModuleSource(ctx, module, manager.module)
			return err
		})
		if err != nil {
			return fmt.Errorf("failed to find the manifests of %s: %w", manager.name, err)
		}

		for from, to := range map[string]string{"crd/bases": "crd", "webhook": "webhook"} {
			err := copyYAML(filepath.Join(source, folder, from), filepath.Join(temporary, manager.name, to))
			if err != nil {
				return fmt.Errorf("failed to copy the manifests of %s: %w", manager.name, err)
			}
		}
	}

	if err := os.Rename(temporary, target); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("failed to install the manifests of %s: %w", module, err)
	}

	return nil
}

// ModuleSource returns the folder with the source of a Go module that a tools module requires. If nothing was built
// from the module yet, ModuleSource downloads it.
func (t *Toolchain) ModuleSource(ctx context.Context, module, path string) (string, error) {
	list := func() (string, error) { return t.goCommand(ctx, module, "list", "-m", "-f", "{{.Dir}}", path) }
	if dir, err := list(); err != nil || dir != "" {
		return dir, err
	}

	if _, err := t.goCommand(ctx, module, "mod", "download", path); err != nil {
		return "", err
	}

	return list()
}

func copyYAML(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}

	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}

	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".yaml" || strings.HasPrefix(entry.Name(), "kustomiz") {
			continue
		}

		content, err := os.ReadFile(filepath.Join(from, entry.Name()))
		if err != nil {
			return err
		}

		if err := os.WriteFile(filepath.Join(to, entry.Name()), content, 0o644); err != nil {
			return err
		}
	}

	return nil
}

// executorDirs returns the folders in the cache that may contain an executor.
func (t *Toolchain) executorDirs() []string {
	dirs := []string{filepath.Join(CacheDir(), "tools", "terraform")}
	if dir, err := t.Dir("tofu"); err == nil {
		dirs = append(dirs, dir)
	}

	return dirs
}

// FindExecutor looks for an executor on PATH and in the cache.
func (t *Toolchain) FindExecutor(ctx context.Context) (terraform.Executable, error) {
	return terraform.FindExecutable(ctx, t.executorDirs()...)
}

// EnsureExecutor returns an executor. If it finds none, it downloads Terraform. If this fails, it builds OpenTofu.
func (t *Toolchain) EnsureExecutor(ctx context.Context) (terraform.Executable, error) {
	found, err := t.FindExecutor(ctx)
	if err == nil || os.Getenv(terraform.ExecutableEnv) != "" {
		return found, err
	}

	t.reportProgress("no Terraform or OpenTofu of a fitting version is on PATH; downloading Terraform")
	err = t.runWithHeartbeat(
		"downloading Terraform", func() error { return downloadTerraform(ctx, t.executorDirs()[0]) },
	)
	if err != nil {
		t.reportProgress("the download failed; building OpenTofu instead")
		if err := t.Build(ctx, "tofu"); err != nil {
			return terraform.Executable{}, err
		}
	}

	return t.FindExecutor(ctx)
}

// terraformVersion is the version of the downloaded Terraform. The Dockerfile uses the same version.
const terraformVersion = "1.11.4"

func downloadTerraform(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("failed to make the cache folder: %w", err)
	}

	// hc-install verifies the archive with HashiCorp's key, which this library contains.
	release := &releases.ExactVersion{
		Product:    product.Terraform,
		Version:    version.Must(version.NewVersion(terraformVersion)),
		InstallDir: dir,
		Timeout:    3 * time.Minute,
	}
	if _, err := release.Install(ctx); err != nil {
		return fmt.Errorf("failed to download Terraform: %w", err)
	}

	return nil
}
