// Package e2e tests the whole product. The tests use real etcd, kube-apiserver and managers of Cluster API, our manager
// with the shipped roles, real Terraform or OpenTofu, and the engine simulator. Assertions read the Kubernetes API and
// the engine's API.
package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/simplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// patience is the timeout of commands that wait for whole clusters. It only ends hanging commands.
var patience = wait.Limit.String()

// featureGates are the feature gates of Cluster API that images with Ignition need.
var featureGates = []string{"KubeadmBootstrapFormatIgnition"}

// suite is the management plane that all tests share.
var suite struct {
	plane  *simplane.Plane
	tools  *toolchain.Toolchain
	binDir string
	engine *engine.Client
}

func TestMain(m *testing.M) {
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	testenv.CollectLessGarbage()

	ctx := context.Background()
	var err error
	if suite.tools, err = toolchain.New(); err != nil {
		return 0, err
	}

	dir := filepath.Join(toolchain.CacheDir(), "e2e", time.Now().Format("20060102-150405"))
	suite.binDir = filepath.Join(dir, "bin")
	err = suite.tools.BuildProject(ctx, suite.binDir, "manager", "olvmctl", "ovirtsim", "terraform-provider-ovirt")
	if err != nil {
		return 0, err
	}

	suite.plane, err = simplane.Start(ctx, simplane.Options{
		Options: localplane.Options{
			Tools:        suite.tools,
			Dir:          dir,
			BinDir:       suite.binDir,
			FeatureGates: featureGates,
			ManagerArgs:  []string{"--drift-interval=20s"}, // drift occurs in only one of these tests
			Progress:     func(format string, args ...any) { fmt.Printf("e2e: "+format+"\n", args...) },
		},
		SimSpeed:  3,
		Inventory: inventory(),
	})
	if err != nil {
		return 0, err
	}
	defer suite.plane.Stop()
	testenv.OnInterrupt(suite.plane.Stop)

	if suite.engine, err = suite.plane.EngineClient(); err != nil {
		return 0, err
	}

	if !testing.Short() {
		if err := suite.plane.StartIPAM(ctx); err != nil {
			return 0, err
		}
	}

	code := testenv.RunAfterSetup(m)
	if code != 0 {
		fmt.Printf("e2e: the logs of all processes are in %s\n", dir)
	} else {
		_ = os.RemoveAll(dir)
	}

	return code, nil
}

// workload is a cluster under test, in its own namespace.
type workload struct {
	t               *testing.T
	plane           *simplane.Plane
	namespace, name string
	manifests       string
	// support is the number of VMs of the cluster's support services.
	support int
}

// newWorkload creates the sample cluster under another name, with addresses in 127.20.<subnet>.0/24.
func newWorkload(t *testing.T, name string, subnet int) *workload {
	t.Helper()
	return newChangedWorkload(t, name, subnet, func([]*unstructured.Unstructured) error { return nil })
}

// newChangedWorkload is like newWorkload, but changes the objects before.
func newChangedWorkload(
	t *testing.T, name string, subnet int, change func([]*unstructured.Unstructured) error,
) *workload {
	t.Helper()
	sample, err := os.ReadFile(filepath.Join(suite.tools.Root(), "config", "samples", "demo.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	w := prepare(t, name)
	w.manifests = strings.NewReplacer("ENGINE_URL", suite.plane.Engine.URL, "demo", name, "namespace: default",
		"namespace: "+w.namespace,
		"127.20.30.", fmt.Sprintf("127.20.%d.", subnet)).
		Replace(string(sample))
	objects, err := manifest.Read([]byte(w.manifests))
	if err != nil {
		t.Fatal(err)
	}

	if err := change(objects); err != nil {
		t.Fatal(err)
	}

	if err := localplane.Apply(t.Context(), suite.plane.Client, objects...); err != nil {
		t.Fatal(err)
	}

	return w
}

// prepare creates a namespace with the engine's Secret and ConfigMap.
func prepare(t *testing.T, name string) *workload {
	t.Helper()
	return prepareIn(t, suite.plane, name)
}

// prepareIn is like prepare for another plane with the same engine.
func prepareIn(t *testing.T, plane *simplane.Plane, name string) *workload {
	t.Helper()
	w := &workload{t: t, plane: plane, namespace: "e2e-" + name, name: name}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name + "-ovirt-credentials"},
		StringData: map[string]string{
			"username":          suite.plane.Engine.Username,
			"password":          suite.plane.Engine.Password,
			"scope":             "ovirt-app-api",
			"allowedServerURLs": suite.plane.Engine.URL,
		},
	})
	w.create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name + "-ovirt-ca"},
		Data:       map[string]string{"ca.crt": string(suite.plane.EngineCA)},
	})

	return w
}

func (w *workload) create(object client.Object) {
	w.t.Helper()
	if err := w.plane.Client.Create(w.t.Context(), object); err != nil {
		w.t.Fatalf("failed to create %T: %v", object, err)
	}
}

// eventually waits until check returns no error. It fails if a process of the management plane ends.
func (w *workload) eventually(what string, check func() error) {
	w.t.Helper()
	wait.For(w.t, what, func() error {
		err := check()
		if err != nil {
			if failed := w.plane.Failed(); failed != nil {
				w.t.Fatal(failed)
			}
		}

		return err
	})
}

func (w *workload) cluster() (*clusterv1.Cluster, error) {
	var cluster clusterv1.Cluster
	err := w.plane.Client.Get(context.Background(), client.ObjectKey{Namespace: w.namespace, Name: w.name}, &cluster)
	return &cluster, err
}

// expectMachines waits until the cluster is Available with the given numbers of running machines. It compares their
// descriptions in Kubernetes, the workload cluster and the engine.
func (w *workload) expectMachines(controlPlanes, workers int) {
	w.t.Helper()
	ctx := context.Background()
	var machines clusterv1.MachineList
	w.eventually(fmt.Sprintf("%s is available with %d+%d machines", w.name, controlPlanes, workers), func() error {
		cluster, err := w.cluster()
		if err != nil {
			return err
		}

		if err := w.plane.Client.List(ctx, &machines, client.InNamespace(w.namespace)); err != nil {
			return err
		}

		running := map[bool]int{}

		for i := range machines.Items {
			m := &machines.Items[i]
			_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
			if err := runs(m); err != nil {
				return err
			}

			running[controlPlane]++
		}

		if running[true] != controlPlanes || running[false] != workers {
			return fmt.Errorf("%d+%d machines run", running[true], running[false])
		}

		if !conditions.IsTrue(cluster, clusterv1.ClusterAvailableCondition) {
			return fmt.Errorf("Cluster is not available: %s",
				conditions.GetMessage(cluster, clusterv1.ClusterAvailableCondition)) //nolint:staticcheck // a kind
		}

		return nil
	})
	vms := w.vms()
	if want := controlPlanes + workers + w.support; len(vms) != want {
		w.t.Errorf("the engine has %d VMs of %s, want %d", len(vms), w.name, want)
	}

	nodes := w.nodes()
	addresses := map[string]bool{}

	for _, m := range machines.Items {
		id := strings.TrimPrefix(m.Spec.ProviderID, "olvm://")
		if vm, ok := vms[id]; !ok || vm.Name != m.Name || vm.Status != engine.VMUp {
			w.t.Errorf("Machine %s has provider ID %s, the engine says %+v", m.Name, m.Spec.ProviderID, vm)
		}

		node, ok := nodes[m.Status.NodeRef.Name]
		if !ok || node.Spec.ProviderID != m.Spec.ProviderID {
			w.t.Errorf("Machine %s has node %q with provider ID %q", m.Name, m.Status.NodeRef.Name,
				node.Spec.ProviderID)
		}

		for _, address := range m.Status.Addresses {
			if address.Type == clusterv1.MachineInternalIP && addresses[address.Address] {
				w.t.Errorf("two machines have address %s", address.Address)
			}

			addresses[address.Address] = true
		}
	}
}

// runs returns an error that describes why a machine does not run, or nil.
func runs(m *clusterv1.Machine) error {
	if m.Status.Phase != string(clusterv1.MachinePhaseRunning) ||
		!conditions.IsTrue(m, clusterv1.MachineReadyCondition) {
		return fmt.Errorf("Machine %s is %s: %s", m.Name, m.Status.Phase,
			conditions.GetMessage(m, clusterv1.MachineReadyCondition)) //nolint:staticcheck // a kind
	}

	return nil
}

// vms returns the engine's VMs of this cluster, by ID.
func (w *workload) vms() map[string]engine.VM {
	w.t.Helper()
	all, err := suite.engine.ListVMs(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}

	out := map[string]engine.VM{}

	for _, vm := range all {
		if strings.Contains(vm.CommentText(), "owner="+w.namespace+"/") {
			out[vm.ID.String()] = vm
		}
	}

	return out
}

// nodes returns the nodes of the workload cluster. It reads them with Cluster API's kubeconfig.
func (w *workload) nodes() map[string]corev1.Node {
	w.t.Helper()
	var secret corev1.Secret
	err := w.plane.Client.Get(context.Background(), client.ObjectKey{
		Namespace: w.namespace,
		Name:      w.name + "-kubeconfig",
	}, &secret)
	if err != nil {
		w.t.Fatal(err)
	}

	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	if err != nil {
		w.t.Fatal(err)
	}

	c, err := client.New(config, client.Options{})
	if err != nil {
		w.t.Fatal(err)
	}

	var list corev1.NodeList
	if err := c.List(context.Background(), &list); err != nil {
		w.t.Fatal(err)
	}

	out := map[string]corev1.Node{}
	for _, node := range list.Items {
		out[node.Name] = node
	}

	return out
}

// internalIPs returns the internal addresses of a Node.
func internalIPs(node corev1.Node) []string {
	var out []string

	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			out = append(out, address.Address)
		}
	}

	return out
}

func (w *workload) scale(controlPlanes, workers int32) {
	w.t.Helper()
	w.write(func(kcp *controlplanev1.KubeadmControlPlane, md *clusterv1.MachineDeployment) {
		kcp.Spec.Replicas, md.Spec.Replicas = ptr.To(controlPlanes), ptr.To(workers)
	})
}

// write changes the specs of a cluster's objects.
func (w *workload) write(change func(*controlplanev1.KubeadmControlPlane, *clusterv1.MachineDeployment)) {
	w.t.Helper()
	ctx := context.Background()
	w.eventually("the change is written", func() error {
		var kcp controlplanev1.KubeadmControlPlane
		err := w.plane.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: w.name + "-control-plane"}, &kcp)
		if err != nil {
			return err
		}

		var md clusterv1.MachineDeployment
		err = w.plane.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: w.name + "-md-0"}, &md)
		if err != nil {
			return err
		}

		change(&kcp, &md)

		return errors.Join(w.plane.Client.Update(ctx, &kcp), w.plane.Client.Update(ctx, &md))
	})
}

// delete deletes the cluster and verifies that nothing is left.
func (w *workload) delete() {
	w.t.Helper()
	ctx := context.Background()
	cluster, err := w.cluster()
	if err != nil {
		w.t.Fatal(err)
	}

	if err := w.plane.Client.Delete(ctx, cluster); err != nil {
		w.t.Fatal(err)
	}

	w.eventually(w.name+" is deleted", func() error {
		_, err := w.cluster()
		if err == nil {
			return errors.New("the Cluster still exists")
		}

		return client.IgnoreNotFound(err)
	})
	if vms := w.vms(); len(vms) != 0 {
		w.t.Errorf("%d VMs are left in the engine", len(vms))
	}

	for _, list := range []client.ObjectList{&infrav1.OLVMMachineList{}, &infrav1.OLVMClusterList{},
		&clusterv1.MachineList{}} {
		if err := w.plane.Client.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
			w.t.Fatal(err)
		}

		encoded, err := json.Marshal(list)
		if err != nil || !strings.Contains(string(encoded),
			`"items":[]`) && !strings.Contains(string(encoded), `"items":null`) {
			w.t.Errorf("left of %T: %s, %v", list, encoded, err)
		}
	}

	var secrets corev1.SecretList
	err = w.plane.Client.List(ctx, &secrets, client.InNamespace(w.namespace), client.MatchingLabels{"tfstate": "true"})
	if err != nil {
		w.t.Fatal(err)
	}

	if len(secrets.Items) != 0 {
		w.t.Errorf("%d Terraform states are left", len(secrets.Items))
	}

	if left, err := filepath.Glob(filepath.Join(w.plane.WorkDir, w.namespace, "*")); err != nil || len(left) != 0 {
		w.t.Errorf("left on disk: %v, %v", left, err)
	}
}

func TestClustersAtOnce(t *testing.T) {
	t.Run("quick start, scale out and in, delete", func(t *testing.T) {
		testenv.SkipInShort(t, "makes seven machines")
		t.Parallel()
		w := newWorkload(t, "alpha", 31)
		w.expectMachines(1, 2)
		t.Run("a plan of what runs has no changes", w.planOfWhatRuns)
		out := w.olvmctl("scale", w.name, "--control-plane", "3", "--workers", "4")
		if !strings.Contains(out, "scaled alpha-md-0 to 4 machines") {
			t.Errorf("olvmctl scale says %s", out)
		}

		w.expectMachines(3, 4)
		w.expectDescribed(3, 4)
		w.expectEmptyPlans(7)
		w.scale(3, 1)
		w.expectMachines(3, 1)
		w.delete()
	})
	t.Run("the manager is killed while machines are made", func(t *testing.T) {
		testenv.SkipInShort(t, "is one more case of the crash matrix, with Cluster API")
		t.Parallel()
		w := newWorkload(t, "beta", 32)
		w.eventually("the first VM is being made", func() error {
			if len(w.vms()) == 0 {
				return errors.New("no VM yet")
			}

			return nil
		})
		suite.plane.Manager.Kill()
		if err := suite.plane.StartManager(t.Context()); err != nil {
			t.Fatal(err)
		}

		w.expectMachines(1, 2)
		w.delete()
	})
	t.Run("addresses of an IPAM provider and of an IP profile, dual stack", func(t *testing.T) {
		testenv.SkipInShort(t, "needs the IPAM provider")
		t.Parallel()
		w := newNetworkedWorkload(t, "delta", 34)
		w.expectMachines(1, 2)
		w.expectAddresses()
		w.scale(1, 1)
		w.expectMachines(1, 1)
		w.expectAddresses()
		w.delete()
		w.expectNoClaims()
	})
	t.Run("default flavor, move to another management cluster, scale there, and back", func(t *testing.T) {
		t.Parallel()
		w := prepare(t, "epsilon")
		w.applyTemplates(35, nil, func(*unstructured.Unstructured) {}, "cluster-template.yaml")
		w.expectMachines(1, 1)
		w.expectEmptyPlans(2)
		here, there := suite.plane, secondPlane(t, "second")
		before := w.vms()
		w.move(there)
		w.expectMachines(1, 1)
		w.expectSame(before)
		w.scale(1, 2)
		w.expectMachines(1, 2)
		before = w.vms()
		w.move(here)
		w.expectMachines(1, 2)
		w.expectSame(before)
		w.delete()
	})
	t.Run(
		"ClusterClass: quick start, replace a machine whose VM is gone, roll the workers out, delete",
		func(t *testing.T) {
			t.Parallel()
			w := newTopologyWorkload(t, "gamma", 33)
			w.expectMachines(1, 1)
			w.expectPlaced()
			w.expectEmptyPlans(2)
			w.loseAWorker()
			w.expectMachines(1, 1)
			w.rollWorkersOut("6GB")
			w.expectMachines(1, 1)
			w.delete()
		},
	)
}

// planOfWhatRuns passes a kubectl dump of the running cluster to olvmctl plan, as a user would.
func (w *workload) planOfWhatRuns(t *testing.T) {
	kubectl, err := suite.tools.Path("plane", "kubectl")
	if err != nil {
		t.Fatal(err)
	}

	dump, err := exec.CommandContext(t.Context(), kubectl, "--kubeconfig="+w.plane.Kubeconfig, "-n", w.namespace, "get",
		"-o", "yaml",
		"clusters,olvmclusters,kubeadmcontrolplanes,machinedeployments,machines,olvmmachines,olvmmachinetemplates,secrets,configmaps").
		Output()
	if err != nil {
		t.Fatal(err)
	}

	if plan, code := w.plan(t, string(dump)); code != 0 || len(plan.Machines) != 3 || plan.Changed != 0 {
		t.Errorf("the dump: exit code %d, %d machines, %d would change", code, len(plan.Machines), plan.Changed)
	}

	if plan, code := w.plan(t, w.manifests, "--kubeconfig",
		w.plane.Kubeconfig); code != 0 || len(plan.Machines) != 3 || plan.Changed != 0 {
		t.Errorf("the manifests that made it, beside what runs: exit code %d, %+v", code, plan)
	}

	w.planOfDrift(t)
	before, md, _ := strings.Cut(w.manifests, "kind: MachineDeployment\n")
	newer := before + "kind: MachineDeployment\n" + strings.Replace(md, "version: v1.36.1", "version: v1.36.2", 1)
	plan, code := w.plan(t, newer, "--kubeconfig", w.plane.Kubeconfig)
	check.Equal(t, "exit code", code, 2)
	check.Length(t, "plan.Machines", plan.Machines, 5)
	check.Length(t, "plan.Owners", plan.Owners, 1)
	check.Length(t, "plan.Owners[0].Replaced", plan.Owners[0].Replaced, 2)
	check.Equal(t, "plan.Owners[0].Reasons[0]", plan.Owners[0].Reasons[0], "version v1.36.1 becomes v1.36.2")
}

// planOfDrift lets an administrator rename a network interface. A plan must show this change.
func (w *workload) planOfDrift(t *testing.T) {
	var vm engine.VM
	for _, vm = range w.vms() {
		break
	}

	nics, err := suite.engine.ListNICs(t.Context(), vm.ID)
	if err != nil {
		t.Fatal(err)
	}

	nic := nics[0]
	rename := func(name string) {
		if _, err := suite.engine.UpdateNIC(t.Context(), vm.ID, nic.ID, &engine.NIC{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	rename("renamed")
	defer rename(nic.Name)

	plan, code := w.plan(t, "", "--kubeconfig", w.plane.Kubeconfig, "-n", w.namespace)
	if code != 2 || plan.Changed != 1 {
		t.Fatalf("exit code %d, %d machines would change", code, plan.Changed)
	}

	at := slices.IndexFunc(plan.Machines, func(m plannedMachine) bool { return len(m.Changes) > 0 })
	if m := plan.Machines[at]; m.Name != vm.Name || len(m.Changes) != 1 || m.Changes[0].Type != "ovirt_nic" {
		t.Errorf("%s of %s was changed, the plan shows %+v", vm.Name, w.name, m)
	}
}

// plannedMachine is a machine in the output of olvmctl plan.
type plannedMachine struct {
	Name, Replaced, Replaces string
	Changes                  []terraform.Change
}

// expectEmptyPlans lets olvmctl plan each running machine with the manager's state. The filter is off, because only
// plans made entirely from imports need it.
func (w *workload) expectEmptyPlans(machines int) {
	w.t.Helper()
	plan, code := w.plan(w.t, "", "--kubeconfig", w.plane.Kubeconfig, "-n", w.namespace)
	if code != 0 || len(plan.Machines) != machines || plan.Changed != 0 {
		w.t.Errorf("a second plan: exit code %d, %d of %d machines, %+v", code, len(plan.Machines), machines, plan)
	}
}

// plan returns olvmctl's plan and its exit code. The plan is for the given manifests, or without manifests for the
// running cluster.
func (w *workload) plan(t *testing.T, manifests string, more ...string) (out struct {
	Machines []plannedMachine
	Owners   []struct{ Replaced, Reasons []string }
	Changed  int
}, code int) {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, suite.plane.EngineCA, 0o600); err != nil {
		t.Fatal(err)
	}

	args := append([]string{"plan", "-o", "json", "--ca-file", ca}, more...)
	if manifests != "" {
		args = append(args, "-f", "-")
	}

	command := exec.CommandContext(t.Context(), filepath.Join(suite.binDir, "olvmctl"), args...)
	command.Stdin = strings.NewReader(manifests)
	var problems strings.Builder
	command.Stderr = &problems
	executable, err := suite.tools.FindExecutor(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	command.Env = append(os.Environ(), "CAPOLVM_TERRAFORM="+executable.Path, "OCNE_DEFAULTS=")
	output, err := command.Output()
	if exited := (&exec.ExitError{}); errors.As(err, &exited) {
		code = exited.ExitCode()
	}

	if code == 1 || code < 0 {
		t.Fatalf("%v\n%s\n%s", err, problems.String(), output)
	}

	if err := json.Unmarshal(output, &out); err != nil {
		t.Fatal(err)
	}

	return out, code
}

// olvmctl runs the command for the cluster and returns its output.
func (w *workload) olvmctl(args ...string) string {
	w.t.Helper()
	command := exec.CommandContext(
		w.t.Context(),
		filepath.Join(suite.binDir, "olvmctl"),
		append(args, "--kubeconfig", w.plane.Kubeconfig, "-n", w.namespace)...)
	var problems strings.Builder
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		w.t.Fatalf("olvmctl %v: %v\n%s", args, err, problems.String())
	}

	return string(out)
}

// expectDescribed compares olvmctl's description of the cluster with the engine. It also uses the kubeconfig that
// olvmctl returns.
func (w *workload) expectDescribed(controlPlanes, workers int) {
	w.t.Helper()
	type machine struct {
		Kind, Name, Problem string
		Machine             *struct {
			Phase, Node, VMID, VMStatus string
			Addresses                   []string
			Terraform                   infrav1.TerraformStatus
		}
	}
	var tree struct {
		Kind, Name, Summary, Problem string
		Children                     []struct {
			Kind, Problem string
			Children      []machine
		}
	}
	if err := json.Unmarshal([]byte(w.olvmctl("describe", w.name, "-o", "json")), &tree); err != nil {
		w.t.Fatal(err)
	}

	vms, shown := w.vms(), map[string]int{}

	for _, owner := range tree.Children {
		for _, m := range owner.Children {
			shown[owner.Kind]++

			// A manager loses its count of runs when it is killed.
			vm, ok := vms[m.Machine.VMID]
			if !ok || vm.Name != m.Name || m.Machine.Phase != "Running" || m.Machine.Node == "" || m.Problem != "" ||
				len(m.Machine.Addresses) != 1 || m.Machine.Terraform.StateSecretName == "" {
				w.t.Errorf("olvmctl describe says of a machine: %+v, %+v", m, m.Machine)
			}
		}
	}

	if tree.Problem != "" || tree.Summary != "Provisioned" || len(tree.Children) != 3 ||
		shown["KubeadmControlPlane"] != controlPlanes || shown["MachineDeployment"] != workers {
		w.t.Errorf("olvmctl describe shows %v of %+v", shown, tree)
	}

	text := w.olvmctl("describe", w.name)
	if strings.Count(text, "─Machine/") != controlPlanes+workers ||
		!strings.Contains(text, "the last Apply succeeded in ") {
		w.t.Errorf("olvmctl describe:\n%s", text)
	}

	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(w.olvmctl("get", "kubeconfig", w.name)))
	if err != nil {
		w.t.Fatal(err)
	}

	c, err := client.New(config, client.Options{})
	var nodes corev1.NodeList
	if err == nil {
		err = c.List(context.Background(), &nodes)
	}

	if err != nil || len(nodes.Items) != controlPlanes+workers {
		w.t.Errorf("%d nodes with the kubeconfig of olvmctl, %v", len(nodes.Items), err)
	}
}
