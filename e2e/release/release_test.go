// Package release tests the parts of a release with the real clusterctl and a real kube-apiserver.
package release

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// management is an empty management cluster, and a repository for clusterctl in a folder.
type management struct {
	t      *testing.T
	tools  *toolchain.Toolchain
	client client.Client
	// dir contains the repository. kubeconfig and config are the paths of files.
	dir, kubeconfig, config string
}

func newManagement(t *testing.T) *management {
	t.Helper()

	m := &management{t: t, tools: testenv.Toolchain(t), dir: t.TempDir()}
	for _, module := range []string{"plane", "clusterctl"} {
		if err := m.tools.Build(t.Context(), module); err != nil {
			t.Fatal(err)
		}
	}

	assets, err := m.tools.Dir("plane")
	if err != nil {
		t.Fatal(err)
	}

	env := &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		ControlPlaneStartTimeout: wait.Limit,
		ControlPlaneStopTimeout:  wait.Limit,
	}
	localplane.KeepToLoopback(env.ControlPlane.GetAPIServer())

	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = env.Stop() })
	m.kubeconfig = m.write("kubeconfig", string(env.KubeConfig))

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme,
		clusterctlv1.AddToScheme, api.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}

	if m.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}

	return m
}

func (m *management) write(name, content string) string {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o600)
	}

	if err != nil {
		m.t.Fatal(err)
	}

	return path
}

// clusterctl runs clusterctl with the repository, and returns its output.
func (m *management) clusterctl(args ...string) string {
	m.t.Helper()
	program, err := m.tools.Path("clusterctl", "clusterctl")
	if err != nil {
		m.t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(m.t.Context(), wait.Limit)
	defer cancel()
	command := exec.CommandContext(ctx, program, append(args, "--config", m.config)...)
	command.Env = m.environment()
	var problems strings.Builder
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		m.t.Fatalf("clusterctl %s: %v\n%s%s", strings.Join(args, " "), err, out, problems.String())
	}

	return string(out)
}

// environment returns the environment of the programs. It contains the management cluster, and values for all variables
// of templates.
func (m *management) environment() []string {
	return append(
		os.Environ(),
		"XDG_CONFIG_HOME="+m.dir,
		"HOME="+m.dir,
		"CLUSTERCTL_DISABLE_VERSIONCHECK=true",
		"KUBECONFIG="+m.kubeconfig,
		"GOPROXY=off", "CONTROL_PLANE_ENDPOINT_HOST=10.20.30.5", "CONTROL_PLANE_ENDPOINT_IPV6=fd00::5",
		"OLVM_SERVER_URL=https://engine.example.com/ovirt-engine", "OLVM_VM_TEMPLATE=ol9", "OLVM_NETWORK=net",
		"OLVM_VNIC_PROFILE=net", "OLVM_SUBNET=10.20.30.0/24", "OLVM_GATEWAY=10.20.30.1",
		"OLVM_DNS_SERVER=10.20.30.53",
		"OLVM_CONTROL_PLANE_ADDRESSES=10.20.30.10-10.20.30.19,10.20.30.30",
		"OLVM_WORKER_ADDRESSES=10.20.30.100-10.20.30.199", "OLVM_NODE_ADDRESSES=10.20.30.10-10.20.30.99",
		"OLVM_SUBNET_IPV6=fd00::/64", "OLVM_GATEWAY_IPV6=fd00::1",
		"OLVM_CONTROL_PLANE_ADDRESSES_IPV6=fd00::10-fd00::19", "OLVM_WORKER_ADDRESSES_IPV6=fd00::100-fd00::199",
		"OLVM_LOAD_BALANCER_TEMPLATE=lb", "OLVM_LOAD_BALANCER_ADDRESSES=10.20.30.30-10.20.30.31",
		"OIDC_VM_TEMPLATE=dex", "OIDC_ADDRESS=10.20.30.40",
		"SERVICE_ADDRESSES=10.20.30.200-10.20.30.219", "CLUSTER_DOMAIN=prod.example.com",
		"INGRESS_VIRTUAL_IP=10.20.30.6",
		"OLVM_FAILURE_DOMAIN_A=a", "OLVM_FAILURE_DOMAIN_B=b",
		"OLVM_FAILURE_DOMAIN_C=c",
	)
}

// release puts a release of the provider into the repository.
func (m *management) release(version string, flags ...string) {
	m.t.Helper()
	to := filepath.Join(m.dir, "repository", "infrastructure-olvm", version)
	check.Error(m.t, os.CopyFS(to, os.DirFS(makeRelease(m.t, version, flags...))), "")
}

// releases caches the built releases for all tests. TestMain creates and removes their folder.
var releases struct {
	dir  string
	mu   sync.Mutex
	made map[string]string
}

// makeRelease builds a release, unless another test has already built it, and returns its folder.
func makeRelease(t *testing.T, version string, flags ...string) string {
	t.Helper()
	releases.mu.Lock()
	defer releases.mu.Unlock()

	name := strings.Join(append([]string{version}, flags...), " ")
	if dir, ok := releases.made[name]; ok {
		return dir
	}

	dir := filepath.Join(releases.dir, strconv.Itoa(len(releases.made)))
	args := append([]string{"run", "./hack/release", "-manifests", "-version", version, "-out", dir}, flags...)
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = testenv.Toolchain(t).Root()
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	releases.made[name] = dir

	return dir
}

func TestMain(m *testing.M) {
	testenv.CollectLessGarbage()

	var err error
	if releases.dir, err = os.MkdirTemp("", "capolvm-releases-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	releases.made = map[string]string{}
	code := testenv.RunAfterSetup(m)
	_ = os.RemoveAll(releases.dir)

	os.Exit(code)
}

// others adds further providers to the repository. They contain Cluster API's CRDs, but no programs. It also simulates
// cert-manager, because our provider does not use it.
func (m *management) others() {
	m.t.Helper()
	assets, err := m.tools.Dir("plane")
	if err != nil {
		m.t.Fatal(err)
	}

	const version = "v1.14.2"
	config := "cert-manager:\n  version: v1.18.0\nproviders:\n"

	for _, p := range []struct{ label, name, kind, components, manager string }{
		{"cluster-api", "cluster-api", "CoreProvider", "core-components.yaml", "capi-core"},
		{"bootstrap-kubeadm", "kubeadm", "BootstrapProvider", "bootstrap-components.yaml", "capi-bootstrap-kubeadm"},
		{"control-plane-kubeadm", "kubeadm", "ControlPlaneProvider", "control-plane-components.yaml",
			"capi-controlplane-kubeadm"},
		{"infrastructure-olvm", "olvm", "InfrastructureProvider", "infrastructure-components.yaml", ""},
	} {
		at := version
		if p.manager == "" {
			at = "latest"
		}

		config += fmt.Sprintf("- {name: %s, type: %s, url: %q}\n", p.name, p.kind,
			filepath.Join(m.dir, "repository", p.label, at, p.components))
		if p.manager == "" {
			continue
		}

		components := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s-system}\n", p.label)
		crds, err := filepath.Glob(filepath.Join(assets, "manifests", p.manager, "crd", "*.yaml"))
		if err != nil || len(crds) == 0 {
			m.t.Fatalf("no CRDs of %s: %v", p.manager, err)
		}

		for _, path := range crds {
			content, err := os.ReadFile(path)
			if err != nil {
				m.t.Fatal(err)
			}

			components += "---\n" + strings.Replace(string(content), "metadata:\n",
				"metadata:\n  labels: {cluster.x-k8s.io/v1beta1: v1beta1, cluster.x-k8s.io/v1beta2: v1beta2}\n", 1)
		}

		m.write(filepath.Join("repository", p.label, version, p.components), components)
		m.write(
			filepath.Join("repository", p.label, version, "metadata.yaml"),
			"apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries:\n- {major: 1, minor: "+
				"14, contract: v1beta2}\n",
		)
	}

	m.config = m.write("clusterctl.yaml", config)
	for plural, kind := range map[string]string{"issuers": "Issuer", "certificates": "Certificate"} {
		m.crd("cert-manager.io", plural, kind)
	}
}

// expectInstalled verifies that clusterctl's inventory and the Deployment have the given version.
func (m *management) expectInstalled(version string) {
	m.t.Helper()
	var provider clusterctlv1.Provider
	err := m.client.Get(m.t.Context(), client.ObjectKey{
		Namespace: "capolvm-system",
		Name:      "infrastructure-olvm",
	}, &provider)
	if err != nil || provider.Version != version {
		m.t.Errorf("clusterctl says %q, %v", provider.Version, err)
	}

	var deployment appsv1.Deployment
	err = m.client.Get(m.t.Context(), client.ObjectKey{
		Namespace: "capolvm-system",
		Name:      "capolvm-controller-manager",
	}, &deployment)
	if err != nil {
		m.t.Fatal(err)
	}

	image := deployment.Spec.Template.Spec.Containers[0].Image
	if image != "ghcr.io/capolvm/cluster-api-provider-olvm:"+version {
		m.t.Errorf("the image is %s", image)
	}
}

func TestClusterctlInstallsUpgradesAndRendersReleases(t *testing.T) {
	t.Parallel()
	m := newManagement(t)
	m.others()
	m.release("v0.1.0")
	m.clusterctl("init", "--infrastructure", "olvm")
	m.expectInstalled("v0.1.0")

	for _, name := range []string{"olvmclusters", "olvmclustertemplates", "olvmmachines", "olvmmachinetemplates"} {
		var crd apiextensionsv1.CustomResourceDefinition
		err := m.client.Get(t.Context(), client.ObjectKey{Name: name + ".infrastructure.cluster.x-k8s.io"}, &crd)
		check.Error(t, err, "")
		check.Equal(t, name+`: crd.Labels["cluster.x-k8s.io/v1beta2"]`, crd.Labels["cluster.x-k8s.io/v1beta2"], "v1")
		check.Equal(
			t, name+`: crd.Labels["cluster.x-k8s.io/provider"]`, crd.Labels["cluster.x-k8s.io/provider"],
			"infrastructure-olvm",
		)
	}

	var crd apiextensionsv1.CustomResourceDefinition
	err := m.client.Get(t.Context(), client.ObjectKey{Name: "olvmmachines.infrastructure.cluster.x-k8s.io"}, &crd)
	if err != nil {
		t.Fatal(err)
	}

	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	about := spec.Properties["vmTemplateName"].Description
	if !strings.Contains(about, "made. ${KUBERNETES_VERSION} in it") || strings.Contains(about, "$$$") {
		t.Errorf("clusterctl has changed a description: %s", about)
	}

	kept := &infrav1.OLVMCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept"},
		Spec: infrav1.OLVMClusterSpec{
			OLVMDatacenterName: "Default", ControlPlaneEndpoint: infrav1.APIEndpoint{Host: "10.20.30.5", Port: 6443},
			OLVMOvirtAPIServer: infrav1.OvirtAPIServer{
				ServerURL:         "https://engine.example.com/ovirt-engine",
				CredentialsSecret: infrav1.NamespacedName{Name: "credentials"},
			},
		},
	}
	// The API server may need a moment until it serves the kinds that clusterctl init has applied.
	wait.For(t, "the OLVMCluster is made", func() error {
		err := m.client.Create(t.Context(), kept)
		if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}

		return err
	})

	m.release("v0.1.1")
	if plan := m.clusterctl("upgrade", "plan"); !strings.Contains(plan, "v0.1.1") {
		t.Errorf("the plan of an upgrade:\n%s", plan)
	}

	m.clusterctl("upgrade", "apply", "--infrastructure", "capolvm-system/olvm:v0.1.1")
	m.expectInstalled("v0.1.1")
	if err := m.client.Get(t.Context(), client.ObjectKeyFromObject(kept), kept); err != nil {
		t.Errorf("what was there is gone: %v", err)
	}

	// clusterctl renders each flavor, and the API server accepts it.
	for _, flavor := range append(clusterfile.Flavors(), "topology", "rke2", "kamaji") {
		args := []string{
			"generate",
			"cluster",
			"prod",
			"--infrastructure",
			"olvm",
			"--kubernetes-version",
			"v1.36.1",
			"--control-plane-machine-count",
			"3",
			"--worker-machine-count",
			"2",
			"--target-namespace",
			"default",
		}
		if flavor != "default" {
			args = append(args, "--flavor", flavor)
		}

		objects, err := manifest.Read([]byte(m.clusterctl(args...)))
		if err != nil {
			t.Fatal(err)
		}

		for _, object := range objects {
			if slices.Contains(ofOthers, object.GetKind()) {
				continue
			}

			err := m.client.Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict"))
			if err != nil {
				t.Errorf("flavor %s: %s %s: %v", flavor, object.GetKind(), object.GetName(), err)
			}
		}

		if len(objects) < 6 {
			t.Errorf("flavor %s has %d objects", flavor, len(objects))
		}
	}

	t.Run("no value changes silently", m.expectNoValueToChange)
}

// TestOlvmctlInstallsWhatLacks lets the library behind olvmctl start install everything, although no kubelet runs it.
func TestOlvmctlInstallsWhatLacks(t *testing.T) {
	m := newManagement(t)
	m.others()
	m.release("v0.1.0")
	t.Setenv("XDG_CONFIG_HOME", m.dir)
	t.Setenv("GOPROXY", "off")
	t.Run("nothing beside Oracle's provider", m.expectNothingBesideOraclesProvider)

	var said []string
	p := &clusterctl.Providers{
		Config:   m.config,
		Timeout:  10 * time.Second,
		Progress: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) },
	}
	to := clusterctl.Management{Kubeconfig: m.kubeconfig, Client: m.client}
	installed, err := p.EnsureInstalled(t.Context(), to, clusterctl.OLVM)
	want := []string{"cluster-api", "bootstrap-kubeadm", "control-plane-kubeadm", "infrastructure-olvm"}
	if !slices.Equal(installed, want) {
		t.Errorf("installed %v", installed)
	}

	if err == nil ||
		!strings.Contains(
			err.Error(), "not available after 10s: Deployment capolvm-system/capolvm-controller-manager",
		) {
		t.Errorf("a manager that does not run: %v", err)
	}

	m.expectInstalled("v0.1.0")
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "capolvm-system", Name: "capolvm-controller-manager"},
	}
	if err := m.client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
		t.Fatal(err)
	}

	deployment.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
	}
	if err := m.client.Status().Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}

	said = nil
	if installed, err := p.EnsureInstalled(
		t.Context(), to, clusterctl.OLVM,
	); err != nil || len(installed) != 0 ||
		len(said) != 0 {
		t.Errorf("a second time: %v, %v, %v", installed, err, said)
	}

	content, err := os.ReadFile(m.config)
	if err != nil || strings.Contains(string(content), "CLUSTER_TOPOLOGY") {
		t.Errorf("the user's configuration was changed: %s, %v", content, err)
	}
}

func TestAReleaseNeedsAVersionThatItsMetadataHas(t *testing.T) {
	tools := testenv.Toolchain(t)
	for version, want := range map[string]string{
		"dev":    `"dev" is not a version`,
		"v9.9.0": "config/metadata.yaml has no release series for v9.9.0",
	} {
		command := exec.CommandContext(t.Context(), "go", "run", "./hack/release", "-manifests", "-version", version,
			"-out", t.TempDir())
		command.Dir = tools.Root()
		if out, err := command.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
