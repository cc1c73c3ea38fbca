package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

// ownFile is the cluster file of a cluster that manages itself.
const ownFile = `name: own
virtualIp: PREFIX5
kubernetesVersion: VERSION
controlPlaneNodes: 1
workerNodes: 1
providers:
  olvm:
    namespace: nodes-own
    olvmDatacenterName: Default
    olvmOvirtAPIServer: {serverURL: "ENGINE", serverCAPath: ENGINE_CA}
    controlPlaneMachine:
      olvmOvirtClusterName: Default
      vmTemplateName: debian-k8s
      olvmNetwork: {networkName: NETWORK, vnicProfileName: NETWORK}
      virtualMachine:
        memory: 8GB
        network:
          gateway: PREFIX1
          dnsServers: PREFIX1
          ipv4: {subnet: PREFIX0/24, ipAddresses: PREFIX10-PREFIX19}
    workerMachine:
      olvmOvirtClusterName: Default
      vmTemplateName: debian-k8s
      olvmNetwork: {networkName: NETWORK, vnicProfileName: NETWORK}
      virtualMachine:
        memory: 8GB
        network:
          gateway: PREFIX1
          dnsServers: PREFIX1
          ipv4: {subnet: PREFIX0/24, ipAddresses: PREFIX100-PREFIX109}
`

// user is a user who runs olvmctl with a separate home folder.
type user struct {
	t        *testing.T
	home     string
	executor string
}

func newUser(t *testing.T) *user {
	t.Helper()
	executor, err := suite.tools.EnsureExecutor(t.Context())
	check.Error(t, err, "")

	return &user{t: t, home: t.TempDir(), executor: executor.Path}
}

// file writes a file into the user's home folder.
func (u *user) file(name, content string) string {
	u.t.Helper()
	path := filepath.Join(u.home, name)
	check.Error(u.t, os.WriteFile(path, []byte(content), 0o600), "")

	return path
}

// olvmctl runs the command and returns its output. The command must succeed.
func (u *user) olvmctl(args ...string) string {
	u.t.Helper()
	command := exec.CommandContext(u.t.Context(), filepath.Join(suite.binDir, "olvmctl"), args...)
	command.Env = append(
		os.Environ(),
		"HOME="+u.home,
		"XDG_CONFIG_HOME="+u.home,
		"XDG_STATE_HOME="+u.home,
		"XDG_CACHE_HOME="+filepath.Dir(
			toolchain.CacheDir(),
		),
		"KUBECONFIG=",
		testenv.WriteDefaults(u.t, u.home),
		"CLUSTERCTL_DISABLE_VERSIONCHECK=true",
		"CAPOLVM_TERRAFORM="+u.executor,
		"OLVM_USERNAME="+suite.plane.Engine.Username,
		"OLVM_PASSWORD="+suite.plane.Engine.Password,
		"OLVM_URL="+suite.plane.Engine.URL,
		"OLVM_CSI_USERNAME="+storageUser.Name,
		"OLVM_CSI_PASSWORD="+storageUser.Password,
	)
	log, err := os.Create(filepath.Join(u.home, "said"))
	check.Error(u.t, err, "")
	defer log.Close()
	command.Stderr = log
	out, err := command.Output()
	said, _ := os.ReadFile(log.Name())
	if err != nil {
		u.t.Fatalf("olvmctl %s: %v\n%s%s", strings.Join(args, " "), err, out, said)
	}

	u.t.Logf("olvmctl %s says:\n%s", args[0], said)

	return string(out)
}

// mirrored changes manifests so that nodes pull images from the mirror.
func (m *mirror) mirrored(manifests string) string {
	m.t.Helper()
	objects, err := manifest.Read([]byte(manifests))
	check.Error(m.t, err, "")

	file := map[string]any{
		"path": "/etc/containerd/certs.d/_default/hosts.toml", "content": m.configuration(), "owner": "root:root",
		"permissions": "0644",
	}

	var out strings.Builder

	for _, object := range objects {
		var fields []string

		switch object.GetKind() {
		case "KubeadmControlPlane":
			fields = []string{"spec", "kubeadmConfigSpec", "files"}
		case "KubeadmConfigTemplate":
			fields = []string{"spec", "template", "spec", "files"}
		}

		if fields != nil {
			list, _, _ := unstructured.NestedSlice(object.Object, fields...)
			check.Error(m.t, unstructured.SetNestedSlice(object.Object, append(list, file), fields...), "")
		}

		text, err := yaml.Marshal(object.Object)
		check.Error(m.t, err, "")
		fmt.Fprintf(&out, "---\n%s", text)
	}

	return out.String()
}

// expectPods waits until Cluster API's managers and our manager run as pods, without any restart.
func (c *cluster) expectPods() {
	c.t.Helper()
	c.eventually("the managers run as pods", func(ctx context.Context) error {
		var list appsv1.DeploymentList
		if err := c.management.List(ctx, &list, client.HasLabels{clusterv1.ProviderNameLabel}); err != nil {
			return err
		}

		if len(list.Items) != 4 {
			return fmt.Errorf("there are %d managers", len(list.Items))
		}

		for i := range list.Items {
			if d := &list.Items[i]; d.Status.AvailableReplicas != 1 {
				return fmt.Errorf("%s is not available", d.Name)
			}
		}

		return nil
	})
}

// expectNoRestarts verifies that no manager has exited by itself.
func (c *cluster) expectNoRestarts() {
	c.t.Helper()
	var pods corev1.PodList
	check.Error(c.t, c.management.List(c.t.Context(), &pods, client.HasLabels{clusterv1.ProviderNameLabel}), "")

	for i := range pods.Items {
		for _, status := range pods.Items[i].Status.ContainerStatuses {
			check.Equal(c.t, "restarts of "+pods.Items[i].Name, status.RestartCount, 0)
		}
	}
}

// TestAClusterThatManagesItself lets olvmctl create a cluster from nothing, with providers and a storage driver from a
// mirror. The cluster gets its own objects. Its managers run as pods and create another machine. A pod uses a disk of
// the engine. Finally, a deletion moves the cluster back to processes.
func TestAClusterThatManagesItself(t *testing.T) {
	c := newCluster(t, "own")
	m, u := newMirror(t), newUser(t)
	m.addClusterAPI()
	m.addProvider(version.Version)
	m.addStorageDriver()
	config := m.clusterctl(m.addCertManager(), version.Version)

	ca := u.file("engine.crt", string(suite.plane.EngineCA))
	text := strings.NewReplacer(
		"VERSION", strings.TrimPrefix(suite.image.Kubernetes, "v"), "ENGINE_CA", ca, "ENGINE", suite.plane.Engine.URL,
		"PREFIX", c.network.prefix, "NETWORK", c.network.name,
	).Replace(ownFile)
	file := u.file("cluster.yaml", text)
	definition := u.file("manifests.yaml", m.mirrored(u.olvmctl("template", "-f", file, "--flavor", "default")))
	u.file("cluster.yaml", text+"clusterDefinition: "+definition+"\n")

	c.applied = time.Now()
	u.olvmctl("start", "-f", file, "--clusterctl-config", config, "--self-managed", "--timeout", limit.String())
	t.Logf("it manages itself after %s", c.since())
	check.Contains(t, "the management cluster of processes", u.olvmctl("local", "status"), "no local management cluster")

	kubeconfig := filepath.Join(u.home, ".kube", "kubeconfig.own")
	c.turnTo(kubeconfig)
	c.expectPods()
	c.expectMachines(1, 1, suite.image.Kubernetes)
	u.olvmctl("scale", c.name, "-n", c.namespace, "--kubeconfig", kubeconfig, "--workers", "2")
	c.expectMachines(1, 2, suite.image.Kubernetes)
	c.expectNodes(3)
	c.expectStorage()
	c.expectNoRestarts()

	u.olvmctl("delete", c.name, "-n", c.namespace, "--kubeconfig", kubeconfig, "--yes", "--timeout", limit.String())
	c.expectNoVMs()
	if _, err := os.Stat(kubeconfig); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the kubeconfig is left: %v", err)
	}
}

// turnTo continues with the objects in the cluster of a kubeconfig, which is the cluster itself.
func (c *cluster) turnTo(kubeconfig string) {
	c.t.Helper()
	var err error
	c.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	check.Error(c.t, err, "")
	c.workload, err = kubernetes.NewForConfig(c.config)
	check.Error(c.t, err, "")

	scheme, err := localplane.Scheme()
	check.Error(c.t, err, "")
	c.management, err = client.New(c.config, client.Options{Scheme: scheme})
	check.Error(c.t, err, "")
}
