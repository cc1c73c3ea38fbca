package nodes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/machine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/nodeimage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// mirror provides what a site without internet access needs. A registry of container images replaces all registries,
// and a folder contains the components for clusterctl.
type mirror struct {
	t *testing.T
	// address is the address of the registry. dir is the folder with the components.
	address, dir string
}

// newMirror starts the registry at an address that nodes can reach.
func newMirror(t *testing.T) *mirror {
	t.Helper()
	blobs := registry.NewDiskBlobHandler(t.TempDir())
	listener, err := net.Listen("tcp", net.JoinHostPort(machine.SiteAddress, "0")) //nolint:noctx // immediate
	check.Error(t, err, "")

	server := &http.Server{
		Handler:           registry.New(registry.WithBlobHandler(blobs), registry.Logger(log.New(io.Discard, "", 0))),
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })

	return &mirror{t: t, address: listener.Addr().String(), dir: t.TempDir()}
}

// configuration returns a configuration with which containerd pulls all images from the registry. It belongs into the
// file /etc/containerd/certs.d/_default/hosts.toml.
func (m *mirror) configuration() string {
	return fmt.Sprintf("[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", "http://"+m.address)
}

// push builds an image with executables, and uploads the image to the registry under its original name.
func (m *mirror) push(image string, config v1.Config, executables map[string]string) {
	m.t.Helper()
	content, err := nodeimage.ContainerImage(config, executables)
	check.Error(m.t, err, "")

	// The registry knows only the path.
	_, path, _ := strings.Cut(image, "/")
	reference, err := name.NewTag(m.address+"/"+path, name.Insecure)
	check.Error(m.t, err, "")
	check.Error(m.t, remote.Write(reference, content, remote.WithContext(m.t.Context())), "")
}

// noRoot returns the configuration of a manager that runs as an unprivileged user, as the manager's manifests require.
func noRoot(entrypoint ...string) v1.Config {
	return v1.Config{User: "65532:65532", Entrypoint: entrypoint}
}

// write writes a file into the folder with the components.
func (m *mirror) write(path string, content []byte) {
	m.t.Helper()
	path = filepath.Join(m.dir, path)
	check.Error(m.t, os.MkdirAll(filepath.Dir(path), 0o700), "")
	check.Error(m.t, os.WriteFile(path, content, 0o600), "")
}

// kustomize returns the manifests that kustomize renders from a folder.
func (m *mirror) kustomize(folder string) []byte {
	m.t.Helper()
	kubectl, err := suite.tools.Path("plane", "kubectl")
	check.Error(m.t, err, "")

	out, err := exec.CommandContext(m.t.Context(), kubectl, "kustomize", folder).Output()
	check.Error(m.t, err, "")

	return out
}

// addClusterAPI adds the managers of Cluster API with their own manifests.
func (m *mirror) addClusterAPI() {
	m.t.Helper()
	const path = "sigs.k8s.io/cluster-api"

	version := suite.tools.Version("plane", path)
	source, err := suite.tools.ModuleSource(m.t.Context(), "plane", path)
	check.Error(m.t, err, "")
	metadata, err := os.ReadFile(filepath.Join(source, "metadata.yaml"))
	check.Error(m.t, err, "")

	for _, p := range []struct{ program, folder, label, file, image string }{
		{"capi-core", "core", "cluster-api", "core-components.yaml", "cluster-api-controller"},
		{"capi-bootstrap-kubeadm", "bootstrap/kubeadm", "bootstrap-kubeadm", "bootstrap-components.yaml",
			"kubeadm-bootstrap-controller"},
		{"capi-controlplane-kubeadm", "controlplane/kubeadm", "control-plane-kubeadm",
			"control-plane-components.yaml", "kubeadm-control-plane-controller"},
	} {
		image := "registry.k8s.io/cluster-api/" + p.image + ":" + version
		program, err := suite.tools.Path("plane", p.program)
		check.Error(m.t, err, "")
		m.push(image, noRoot("/manager"), map[string]string{"/manager": program})

		components := m.kustomize(filepath.Join(source, p.folder, "config", "default"))
		named := regexp.MustCompile(`image: \S+/` + p.image + `:\S+`)
		check.Equal(m.t, "images of "+p.image, len(named.FindAll(components, -1)), 1)

		folder := filepath.Join(p.label, version)
		m.write(filepath.Join(folder, p.file), named.ReplaceAll(components, []byte("image: "+image)))
		m.write(filepath.Join(folder, "metadata.yaml"), metadata)
	}
}

// addProvider adds a release of this provider. The content of its image is the same as with the Dockerfile.
func (m *mirror) addProvider(version string) {
	m.t.Helper()
	folder := filepath.Join(m.dir, "infrastructure-olvm", version)
	command := exec.CommandContext(m.t.Context(), "go", "run", "./hack/release", "-manifests", "-version", version,
		"-out", folder)
	command.Dir = suite.tools.Root()
	out, err := command.CombinedOutput()
	check.Error(m.t, err, "")
	m.t.Logf("%s", out)

	executor, err := suite.tools.EnsureExecutor(m.t.Context())
	check.Error(m.t, err, "")
	m.push("ghcr.io/capolvm/cluster-api-provider-olvm:"+version, noRoot("/manager"), map[string]string{
		"/manager": filepath.Join(suite.binDir, "manager"),
		"/usr/local/bin/" + filepath.Base(executor.Path): executor.Path,
	})
}

// certManagerPrograms are the programs of cert-manager. They are built before the tests.
var certManagerPrograms = []string{"controller", "webhook", "cainjector"}

// addCertManager adds the manifests of cert-manager's chart, because clusterctl installs cert-manager first.
func (m *mirror) addCertManager() (version string) {
	m.t.Helper()
	const path = "github.com/cert-manager/cert-manager"

	version = suite.tools.Version("certmanager", path)

	for _, name := range certManagerPrograms {
		program, err := suite.tools.Path("certmanager", name)
		check.Error(m.t, err, "")

		place := "/app/cmd/" + name + "/" + name
		m.push("quay.io/jetstack/cert-manager-"+name+":"+version, noRoot(place), map[string]string{place: program})
	}

	source, err := suite.tools.ModuleSource(m.t.Context(), "certmanager", path)
	check.Error(m.t, err, "")
	manifests, err := renderCertManager(filepath.Join(source, "deploy"), version, m.t.TempDir())
	check.Error(m.t, err, "")
	m.write(filepath.Join("cert-manager", version, "cert-manager.yaml"), manifests)

	return version
}

// renderCertManager renders the manifests of a cert-manager release in the way of cert-manager's own build. It uses the
// chart with the release's version, and the CRDs as templates.
func renderCertManager(deploy, version, dir string) ([]byte, error) {
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(deploy, "charts", "cert-manager"))); err != nil {
		return nil, err
	}

	if err := os.CopyFS(filepath.Join(dir, "templates", "crds"), os.DirFS(filepath.Join(deploy, "crds"))); err != nil {
		return nil, err
	}

	chart, err := os.ReadFile(filepath.Join(dir, "Chart.template.yaml"))
	chart = bytes.ReplaceAll(chart, []byte("v0.1.0"), []byte(version))
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "Chart.yaml"), chart, fs.ModePerm),
		os.Remove(filepath.Join(dir, "templates", "NOTES.txt")),
		os.Remove(filepath.Join(dir, "templates", "crds", "README.md")))
	if err != nil {
		return nil, err
	}

	loaded, err := loader.LoadDir(dir)
	if err != nil {
		return nil, err
	}

	values, err := util.ToRenderValues(loaded, map[string]any{"startupapicheck": map[string]any{"enabled": false}},
		common.ReleaseOptions{Name: "cert-manager", Namespace: "cert-manager"}, nil)
	if err != nil {
		return nil, err
	}

	rendered, err := engine.Render(loaded, values)
	if err != nil {
		return nil, err
	}

	out := bytes.NewBufferString("apiVersion: v1\nkind: Namespace\nmetadata: {name: cert-manager}\n")
	for _, text := range rendered {
		fmt.Fprintf(out, "---\n%s\n", text)
	}

	return out.Bytes(), nil
}

// clusterctl writes clusterctl's configuration with sources only in the mirror, and returns its path.
func (m *mirror) clusterctl(certManager, provider string) (path string) {
	m.t.Helper()
	entry := func(name, kind, label, version, file string) map[string]any {
		return map[string]any{"name": name, "type": kind, "url": filepath.Join(m.dir, label, version, file)}
	}

	content, err := yaml.Marshal(map[string]any{
		"overridesFolder": filepath.Join(m.dir, "overrides"),
		"cert-manager": map[string]any{
			"version": certManager,
			"url":     filepath.Join(m.dir, "cert-manager", certManager, "cert-manager.yaml"),
		},
		"providers": []map[string]any{
			entry("cluster-api", "CoreProvider", "cluster-api", "latest", "core-components.yaml"),
			entry("kubeadm", "BootstrapProvider", "bootstrap-kubeadm", "latest", "bootstrap-components.yaml"),
			entry("kubeadm", "ControlPlaneProvider", "control-plane-kubeadm", "latest",
				"control-plane-components.yaml"),
			entry("olvm", "InfrastructureProvider", "infrastructure-olvm", provider, "infrastructure-components.yaml"),
		},
	})
	check.Error(m.t, err, "")
	m.write("clusterctl.yaml", content)

	return filepath.Join(m.dir, "clusterctl.yaml")
}
