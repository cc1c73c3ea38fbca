package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/machine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/nodeimage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/simplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// cluster is a cluster under test, in its own namespace.
type cluster struct {
	t         *testing.T
	namespace string
	name      string
	engine    *engine.Client
	applied   time.Time
	// management is the client for the objects of the cluster.
	management client.Client
	// network is a network with no other nodes than those of this cluster.
	network network
	// config and workload connect to the cluster's API server through the endpoint.
	config   *rest.Config
	workload *kubernetes.Clientset
	// asking is the present Job; its zero value means no Job.
	asking asking
}

// network is a network of the engine, with address prefixes such as 10.198.0. and fd00:198::. On a shared network,
// clusters would answer for the addresses of each other's pods.
type network struct{ name, prefix, prefix6 string }

// address returns an IPv4 address in the network.
func (n network) address(host string) string { return n.prefix + host }

// address6 returns an IPv6 address in the network.
func (n network) address6(host string) string { return n.prefix6 + host }

// addresses returns a range of addresses in the network.
func (n network) addresses(first, last string) string {
	return n.address(first) + "-" + n.address(last)
}

// networks are the networks that no cluster uses at present.
var networks = make(chan network, 2)

func init() {
	networks <- network{"kvm-vlan", "10.198.0.", "fd00:198::"}
	networks <- network{"ovirtmgmt", "10.197.0.", "fd00:197::"}
}

// newCluster returns a cluster that is not created yet. It uses the shared plane and its own network.
func newCluster(t *testing.T, name string) *cluster {
	t.Helper()
	requireNodes(t)

	t.Parallel()

	c := &cluster{t: t, namespace: "nodes-" + name, name: name, network: <-networks}
	t.Cleanup(func() { networks <- c.network })
	startPlane(t)

	var err error
	c.management = suite.plane.Client
	c.engine, err = suite.plane.EngineClient()
	check.Error(t, err, "")

	return c
}

// startPlane starts the plane unless it is running.
func startPlane(t *testing.T) {
	t.Helper()
	suite.starting.Lock()
	defer suite.starting.Unlock()

	if suite.plane == nil {
		var err error

		suite.plane, err = simplane.Start(context.Background(), simplane.Options{
			Options: localplane.Options{
				Tools:        suite.tools,
				Dir:          suite.dir,
				BinDir:       suite.binDir,
				FeatureGates: []string{"KubeadmBootstrapFormatIgnition"},
				ManagerArgs:  []string{"--drift-interval=30s"},
				Progress:     say,
			},
			SimArgs: []string{
				"--listen=" + machine.SiteAddress + ":0", "--guests=nodes", "--node-netns=this",
				"--node-image=" + suite.image.Dir(), "--node-image=" + suite.before.Dir(),
			},
			Inventory: inventory(),
		})
		check.Error(t, err, "")
	}
}

// storageUser is the engine's user for a cluster's storage driver.
var storageUser = ovirtsim.User{Name: "storage@internal", Password: "of-the-storage-driver", Role: "SuperUser"}

// These constants are the engine's cluster whose hosts fail, and its template. No other test has machines on these
// hosts.
const (
	frailCluster  = "Frail"
	frailTemplate = "frail-k8s"
)

// inventory returns an engine inventory with templates for the images.
func inventory() *ovirtsim.Inventory {
	var images []ovirtsim.NodeImage
	for _, image := range []nodeimage.Image{suite.image, suite.before} {
		images = append(images, ovirtsim.NodeImage{Kubernetes: image.Kubernetes, Ignition: image.Ignition})
	}

	out := ovirtsim.NodeInventory(images...)
	out.Users = append(out.Users, storageUser)

	center := &out.DataCenters[0]
	center.Clusters = append(center.Clusters, ovirtsim.Cluster{
		Name:  frailCluster,
		Hosts: []ovirtsim.Host{{Name: "frail-1"}, {Name: "frail-2"}},
	})

	template := center.Templates[0]
	template.Name, template.Cluster = frailTemplate, frailCluster
	center.Templates = append(center.Templates, template)

	return &out
}

// prepare creates the namespace and those objects that the manifests lack.
func (c *cluster) prepare() {
	c.t.Helper()
	c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}})
	c.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.name + "-ovirt-credentials"},
		StringData: map[string]string{
			"username":          suite.plane.Engine.Username,
			"password":          suite.plane.Engine.Password,
			"scope":             "ovirt-app-api",
			"allowedServerURLs": suite.plane.Engine.URL,
		},
	})
	c.create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.name + "-ovirt-ca"},
		Data:       map[string]string{"ca.crt": string(suite.plane.EngineCA)},
	})
}

func (c *cluster) create(object client.Object) {
	c.t.Helper()
	check.Error(c.t, c.management.Create(c.t.Context(), object), "")
}

// apply applies a shipped template with changes. It uses the given variables, and those that all clusters have in
// common.
func (c *cluster) apply(file string, more map[string]string, changes ...func(*unstructured.Unstructured)) {
	c.t.Helper()
	variables := map[string]string{
		"CLUSTER_NAME":                 c.name,
		"NAMESPACE":                    c.namespace,
		"KUBERNETES_VERSION":           suite.image.Kubernetes,
		"CONTROL_PLANE_MACHINE_COUNT":  "1",
		"WORKER_MACHINE_COUNT":         "1",
		"CONTROL_PLANE_ENDPOINT_HOST":  c.network.address("5"),
		"OLVM_SERVER_URL":              suite.plane.Engine.URL,
		"OLVM_VM_TEMPLATE":             "debian-k8s-${KUBERNETES_VERSION}",
		"OLVM_NETWORK":                 c.network.name,
		"OLVM_VNIC_PROFILE":            c.network.name,
		"OLVM_SUBNET":                  c.network.address("0/24"),
		"OLVM_GATEWAY":                 c.network.address("1"),
		"OLVM_DNS_SERVER":              c.network.address("1"),
		"OLVM_CONTROL_PLANE_ADDRESSES": c.network.addresses("10", "19"),
		"OLVM_WORKER_ADDRESSES":        c.network.addresses("100", "109"),
	}
	maps.Copy(variables, more)

	content, err := os.ReadFile(filepath.Join(suite.tools.Root(), "config", "templates", file))
	check.Error(c.t, err, "")

	content, err = yamlprocessor.NewSimpleProcessor().Process(content, func(name string) (string, error) {
		if value, ok := variables[name]; ok {
			return value, nil
		}

		return "", fmt.Errorf("no value for %s", name)
	})
	check.Error(c.t, err, "")

	objects, err := manifest.Read(content)
	check.Error(c.t, err, "")

	for _, change := range changes {
		for _, object := range objects {
			change(object)
		}
	}

	c.prepare()
	c.applied = time.Now()
	check.Error(c.t, localplane.Apply(c.t.Context(), c.management, objects...), "")
}

// since returns the time since the manifests were applied.
func (c *cluster) since() time.Duration { return time.Since(c.applied).Round(100 * time.Millisecond) }

// limit is the time after which a test considers a wait hung. It is longer than elsewhere, because a rollout of five
// real machines takes eight minutes even on an idle host.
const limit = 3 * wait.Limit

// eventually waits until look returns no error. The error describes what is missing.
func (c *cluster) eventually(what string, look func(ctx context.Context) error) {
	c.t.Helper()

	for deadline := time.Now().Add(limit); ; time.Sleep(250 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
		err := look(ctx)
		cancel()

		if err == nil {
			c.t.Logf("%6s after the manifests: %s", c.since(), what)
			return
		}

		if failed := suite.plane.Failed(); failed != nil {
			c.t.Fatal(failed)
		}

		if time.Now().After(deadline) {
			c.t.Fatalf("not within %s: %s: %v\n%s%s", limit, what, err, c.machines(), pressure())
		}
	}
}

// pressure describes the recent stalls of this host for lack of processors, memory or disks. Nodes without enough of
// these miss their deadlines. It is empty if the kernel does not count stalls.
func pressure() string {
	var out strings.Builder

	for _, resource := range []string{"cpu", "memory", "io"} {
		content, err := os.ReadFile("/proc/pressure/" + resource)
		if err != nil {
			continue
		}

		some, _, _ := strings.Cut(string(content), "\n")
		fmt.Fprintf(&out, "percent of the time that something waited for %s: %s\n", resource, some)
	}

	return out.String()
}

// machines describes the Machines and their problems for users.
func (c *cluster) machines() string {
	var list clusterv1.MachineList
	if err := c.management.List(context.Background(), &list, client.InNamespace(c.namespace)); err != nil {
		return err.Error()
	}

	var out strings.Builder

	for i := range list.Items {
		m := &list.Items[i]
		fmt.Fprintf(&out, "%s is %s: %s\n", m.Name, m.Status.Phase,
			conditions.GetMessage(m, clusterv1.MachineReadyCondition))
	}

	return out.String()
}

// connect creates a client for the cluster as soon as Cluster API has the cluster's kubeconfig.
func (c *cluster) connect() {
	c.t.Helper()
	c.eventually("the kubeconfig is there", func(ctx context.Context) error {
		var secret corev1.Secret
		key := client.ObjectKey{Namespace: c.namespace, Name: c.name + "-kubeconfig"}
		if err := c.management.Get(ctx, key, &secret); err != nil {
			return err
		}

		var err error
		if c.config, err = clientcmd.RESTConfigFromKubeConfig(secret.Data["value"]); err != nil {
			return err
		}

		c.config.Timeout = 15 * time.Second
		c.workload, err = kubernetes.NewForConfig(c.config)

		return err
	})
}

// expectMachines waits until the Cluster is available. The Cluster must have the given numbers of running, up-to-date
// machines, and their kubelets must report ready nodes.
func (c *cluster) expectMachines(controlPlanes, workers int, version string) {
	c.t.Helper()
	what := fmt.Sprintf("%d+%d machines of %s run, and the Cluster is available", controlPlanes, workers, version)
	c.eventually(what, func(ctx context.Context) error {
		var list clusterv1.MachineList
		if err := c.management.List(ctx, &list, client.InNamespace(c.namespace)); err != nil {
			return err
		}

		running := map[bool]int{}

		for i := range list.Items {
			m := &list.Items[i]
			if m.Status.Phase != string(clusterv1.MachinePhaseRunning) || m.Spec.Version != version ||
				!conditions.IsTrue(m, clusterv1.MachineReadyCondition) {
				return fmt.Errorf("Machine %s of %s is %s: %s", m.Name, m.Spec.Version, m.Status.Phase,
					conditions.GetMessage(m, clusterv1.MachineReadyCondition)) //nolint:staticcheck // a kind
			}

			_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
			running[controlPlane]++
		}

		if running[true] != controlPlanes || running[false] != workers {
			return fmt.Errorf("%d+%d machines run", running[true], running[false])
		}

		var found clusterv1.Cluster
		key := client.ObjectKey{Namespace: c.namespace, Name: c.name}
		if err := c.management.Get(ctx, key, &found); err != nil {
			return err
		}

		if !conditions.IsTrue(&found, clusterv1.ClusterAvailableCondition) {
			return errors.New(conditions.GetMessage(&found, clusterv1.ClusterAvailableCondition))
		}

		return nil
	})
}

// scale requests other numbers of machines. It also requests another version, unless version is empty.
func (c *cluster) scale(controlPlanes, workers int32, version string) {
	c.t.Helper()
	c.eventually("other machines are asked for", func(ctx context.Context) error {
		var kcp controlplanev1.KubeadmControlPlane
		key := client.ObjectKey{Namespace: c.namespace, Name: c.name + "-control-plane"}
		if err := c.management.Get(ctx, key, &kcp); err != nil {
			return err
		}

		var md clusterv1.MachineDeployment
		key.Name = c.name + "-md-0"
		if err := c.management.Get(ctx, key, &md); err != nil {
			return err
		}

		kcp.Spec.Replicas, md.Spec.Replicas = &controlPlanes, &workers
		if version != "" {
			kcp.Spec.Version, md.Spec.Template.Spec.Version = version, version
		}

		return errors.Join(c.management.Update(ctx, &kcp), c.management.Update(ctx, &md))
	})
}

// delete deletes the cluster, and verifies that nothing of it is left in the engine.
func (c *cluster) delete() {
	c.t.Helper()
	found := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.name}}
	check.Error(c.t, c.management.Delete(c.t.Context(), found), "")
	c.eventually("the Cluster is gone", func(ctx context.Context) error {
		err := c.management.Get(ctx, client.ObjectKeyFromObject(found), found)
		if err == nil {
			return errors.New("the Cluster is still there")
		}

		return client.IgnoreNotFound(err)
	})

	c.expectNoVMs()
}

// expectNoVMs verifies that nothing is left in the engine.
func (c *cluster) expectNoVMs() {
	c.t.Helper()
	check.Equal(c.t, "VMs left in the engine", len(c.vms()), 0)
}

// vms returns the VMs of the cluster.
func (c *cluster) vms() []engine.VM {
	c.t.Helper()
	all, err := c.engine.ListVMs(c.t.Context())
	check.Error(c.t, err, "")

	return slices.DeleteFunc(all, func(vm engine.VM) bool { return !strings.HasPrefix(vm.Name, c.name+"-") })
}
