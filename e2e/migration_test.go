package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/simplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// oldCRD is similar to the CRDs of Oracle's provider: it has their names, version, labels and status. It allows any
// fields. Only the failure domains have a type, which is a map.
const oldCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: PLURAL.infrastructure.cluster.x-k8s.io
  labels: {cluster.x-k8s.io/provider: infrastructure-olvm, cluster.x-k8s.io/v1beta1: v1}
spec:
  group: infrastructure.cluster.x-k8s.io
  scope: Namespaced
  names: {kind: KIND, listKind: KINDList, plural: PLURAL, singular: SINGULAR, categories: [cluster-api]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-preserve-unknown-fields: true
        properties:
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
            properties:
              failureDomains: {type: object, additionalProperties: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// oldDeployment is the key of the Deployment with the old provider's manager.
var oldDeployment = client.ObjectKey{Namespace: "cluster-api-provider-olvm", Name: "olvm-capi-controller-manager"}

const (
	oldFinalizer = "old.example.com/vm"
	oldComment   = "made by the old provider"
)

// takeover is a cluster of another provider, and a user who runs the commands in docs/user/migration.md.
type takeover struct {
	*workload
	dir string
	env []string
	// steps are the commands by the number of their step, or by the word before them.
	steps map[string]string
	// net is the prefix of the addresses. addresses are the addresses that the old provider gives to machines.
	net       string
	addresses map[string]string
}

// newTakeover starts a management cluster with the old provider's CRDs instead of ours, and creates a cluster in it.
func newTakeover(t *testing.T, name string, subnet int) *takeover {
	t.Helper()
	plane := secondPlane(t, "old", func(o *simplane.Options) { o.NoProvider = true })
	o := &takeover{
		workload:  prepareIn(t, plane, name),
		dir:       t.TempDir(),
		steps:     map[string]string{},
		net:       fmt.Sprintf("127.20.%d", subnet),
		addresses: map[string]string{},
	}
	o.readSteps()
	o.installOldProvider()
	sample, err := os.ReadFile(filepath.Join(suite.tools.Root(), "config", "samples", "demo.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	objects, err := manifest.Read(
		[]byte(
			strings.NewReplacer("ENGINE_URL", suite.plane.Engine.URL, "demo", name, "namespace: default", "namespace: "+
				o.namespace,
				"127.20.30", o.net).
				Replace(string(sample)),
		),
	)
	if err != nil {
		t.Fatal(err)
	}

	o.eventually("the cluster is written", func() error {
		return localplane.Apply(t.Context(), plane.Client, objects...)
	})

	return o
}

// readSteps reads the commands in the document, and adapts them to this cluster.
func (o *takeover) readSteps() {
	o.t.Helper()
	root := suite.tools.Root()
	text, err := os.ReadFile(filepath.Join(root, "docs", "user", "migration.md"))
	if err != nil {
		o.t.Fatal(err)
	}

	_, section, found := strings.Cut(string(text), "\n## Taking over VMs\n")
	if !found {
		o.t.Fatal("the document has no such section")
	}

	section, _, _ = strings.Cut(section, "\n## ")
	begins := regexp.MustCompile(`(?m)^(?:(\d+)\. )?\*\*(\w+)`)

	at := begins.FindAllStringSubmatchIndex(section, -1)
	for i, match := range at {
		end := len(section)
		if i+1 < len(at) {
			end = at[i+1][0]
		}

		step := section[match[4]:match[5]]
		if match[2] >= 0 {
			step = section[match[2]:match[3]]
		}

		o.steps[step] = strings.NewReplacer("NAMESPACE", o.namespace, "NAME", o.name).
			Replace(commandsIn(section[match[0]:end]))
	}

	if err := os.CopyFS(filepath.Join(o.dir, "config"), os.DirFS(filepath.Join(root, "config"))); err != nil {
		o.t.Fatal(err)
	}

	kubectl, err := suite.tools.Path("plane", "kubectl")
	if err != nil {
		o.t.Fatal(err)
	}

	executable, err := suite.tools.FindExecutor(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}

	if err := os.Symlink(o.plane.Kubeconfig, filepath.Join(o.dir, "management.kubeconfig")); err != nil {
		o.t.Fatal(err)
	}

	o.env = append(
		os.Environ(),
		"HOME="+o.dir,
		"KUBECONFIG="+o.plane.Kubeconfig,
		"PATH="+filepath.Dir(kubectl)+":"+suite.binDir+":"+os.Getenv("PATH"),
		testenv.WriteDefaults(o.t, o.dir),
		"CAPOLVM_TERRAFORM="+executable.Path,
	)
}

// does runs the commands of a step in one shell. It expects the exit code want, and returns the output of the commands.
func (o *takeover) does(step string, want int, replace ...string) string {
	o.t.Helper()
	commands := strings.NewReplacer(replace...).Replace(o.steps[step])
	if commands == "" {
		o.t.Fatalf("the document has no commands for step %s", step)
	}

	command := exec.CommandContext(o.t.Context(), "bash", "-c", "set -eu\n"+commands)
	command.Dir, command.Env = o.dir, o.env
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	err := command.Run()
	if exited := (&exec.ExitError{}); err != nil && !errors.As(err, &exited) {
		o.t.Fatal(err)
	}

	if code := command.ProcessState.ExitCode(); code != want {
		o.t.Fatalf("step %s: exit code %d\n%s\n%s\n%s", step, code, commands, out.String(), problems.String())
	}

	return out.String() + problems.String()
}

// installOldProvider creates the CRDs and the Deployment of the old provider.
func (o *takeover) installOldProvider() {
	o.t.Helper()

	for _, kind := range []string{"OLVMCluster", "OLVMClusterTemplate", "OLVMMachine", "OLVMMachineTemplate"} {
		name := strings.ToLower(kind)
		crds, err := manifest.Read(
			[]byte(strings.NewReplacer("KIND", kind, "PLURAL", name+"s", "SINGULAR", name).Replace(oldCRD)),
		)
		if err == nil {
			err = localplane.Apply(o.t.Context(), o.plane.Client, crds...)
		}

		if err != nil {
			o.t.Fatal(err)
		}
	}

	labels := map[string]string{"control-plane": "controller-manager"}
	o.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: oldDeployment.Namespace}})
	o.create(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: oldDeployment.Namespace, Name: oldDeployment.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "example.com/old"}}},
			},
		},
	})
}

// says writes an object in the way of the old provider. It merges fields into the object, and status into its status.
func (o *takeover) says(object *unstructured.Unstructured, fields, status map[string]any) error {
	fields["metadata"] = map[string]any{"finalizers": []any{oldFinalizer}}
	status["ready"] = true
	status["conditions"] = []any{
		map[string]any{
			"type":               "Ready",
			"status":             "True",
			"reason":             "Ready",
			"lastTransitionTime": "2025-05-12T10:00:00Z",
		},
	}
	merge, err := json.Marshal(fields)
	if err != nil {
		return err
	}

	mergeStatus, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}

	return errors.Join(o.plane.Client.Patch(o.t.Context(), object, client.RawPatch(types.MergePatchType, merge)),
		o.plane.Client.Status().Patch(o.t.Context(), object, client.RawPatch(types.MergePatchType, mergeStatus)))
}

// old returns the stored objects of a kind, whatever fields they have.
func (o *takeover) old(kind string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(infrav1.GroupVersion.WithKind(kind))
	err := o.plane.Client.List(o.t.Context(), list, client.InNamespace(o.namespace))

	return list.Items, err
}

// oldProvider acts as the old provider, because that provider's source is not public. It creates a VM for each of
// Cluster API's machines without one, and writes this into the machine's status.
func (o *takeover) oldProvider() {
	o.t.Helper()
	o.eventually("the old provider has made all", func() error {
		clusters, err := o.old("OLVMCluster")
		if err != nil || len(clusters) != 1 || len(clusters[0].GetOwnerReferences()) == 0 {
			return fmt.Errorf("%d OLVMClusters, the Cluster may not own them yet: %w", len(clusters), err)
		}

		err = o.says(&clusters[0], map[string]any{}, map[string]any{
			"failureDomains":         map[string]any{"rack": map[string]any{"controlPlane": true}},
			"olvmDatacenter":         map[string]any{"dataCenterName": "Default"},
			"lastObservedGeneration": 1,
		})
		if err != nil {
			return err
		}

		machines, err := o.old("OLVMMachine")
		if err != nil {
			return err
		}

		for i := range machines {
			m := &machines[i]
			id, _, _ := unstructured.NestedString(m.Object, "spec", "providerID")
			if id == "" {
				vm, err := o.makeOldVM(m)
				if err != nil {
					return err
				}

				id = bootstrap.ProviderIDPrefix + vm
			}

			vm, address := strings.TrimPrefix(id, bootstrap.ProviderIDPrefix), o.addresses[m.GetName()]
			err := o.says(m, map[string]any{"spec": map[string]any{"providerID": id}}, map[string]any{
				"addresses":              []any{map[string]any{"type": "InternalIP", "address": address}},
				"lastObservedGeneration": 1,
				"olvm": map[string]any{
					"ipAddress":      address,
					"vmTemplateName": "ol9-k8s",
					"virtualMachine": map[string]any{
						"vmID":                   vm,
						"vmName":                 m.GetName(),
						"status":                 "up",
						"creationStatus":         "Created",
						"createRequestSubmitted": true,
						"lastGeneration":         "1",
					},
				},
			})
			if err != nil {
				return err
			}
		}

		if len(machines) != 3 {
			return fmt.Errorf("%d of 3 machines", len(machines))
		}

		return nil
	})
}

// makeOldVM creates the VM of a machine with the engine's API.
func (o *takeover) makeOldVM(object *unstructured.Unstructured) (id string, err error) {
	ctx := o.t.Context()
	var machine clusterv1.Machine
	if err := o.plane.Client.Get(ctx, client.ObjectKeyFromObject(object), &machine); err != nil {
		return "", err
	}

	if machine.Spec.Bootstrap.DataSecretName == nil {
		return "", fmt.Errorf("Machine %s has no bootstrap data", machine.Name) //nolint:staticcheck // a kind
	}

	var secret corev1.Secret
	err = o.plane.Client.Get(ctx, client.ObjectKey{
		Namespace: o.namespace,
		Name:      *machine.Spec.Bootstrap.DataSecretName,
	}, &secret)
	if err != nil {
		return "", err
	}

	userData, err := bootstrap.Merge(secret.Data["value"], bootstrap.CloudConfig, bootstrap.Guest{
		HostName: machine.Name,
	})
	if err != nil {
		return "", err
	}

	dc, err := suite.engine.FindDataCenter(ctx, "Default")
	if err != nil {
		return "", err
	}

	cluster, err := suite.engine.FindCluster(ctx, dc, "Default")
	if err != nil {
		return "", err
	}

	template, err := suite.engine.FindTemplate(ctx, dc, "ol9-k8s")
	if err != nil {
		return "", err
	}

	profiles, _, err := suite.engine.ListVNICProfiles(ctx, dc, "kvm-vlan")
	if err != nil {
		return "", err
	}

	address := fmt.Sprintf("%s.%d", o.net, 105+len(o.addresses))
	memory, cores := int64(16<<30), int64(4)
	if _, controlPlane := machine.Labels[clusterv1.MachineControlPlaneLabel]; controlPlane {
		address, memory, cores = o.net+".15", 7<<30, 2
	}

	vm, err := suite.engine.CreateVM(ctx, &engine.VM{
		Name:     machine.Name,
		Comment:  ptr.To(oldComment),
		Cluster:  engine.NewRef(cluster.ID),
		Template: engine.NewRef(template.ID),
		Memory:   &memory,
		CPU:      &engine.CPU{Topology: &engine.Topology{Cores: cores, Sockets: 1, Threads: 1}},
		Initialization: &engine.Initialization{
			CustomScript: string(userData),
			HostName:     machine.Name,
			NICs: &engine.NICConfigurations{Items: []engine.NICConfiguration{{
				Name:         "enp1s0",
				BootProtocol: "static",
				OnBoot:       true,
				IP: &engine.IP{
					Address: address,
					Netmask: "255.255.255.0",
					Gateway: o.net + ".1",
					Version: "v4",
				},
			}}},
		},
	}, nil)
	if err != nil {
		return "", err
	}

	if err := engine.Wait(ctx, "VM "+vm.Name, func(ctx context.Context) (bool, string, error) {
		now, err := suite.engine.FetchVM(ctx, vm.ID)
		if err != nil {
			return false, "", err
		}

		return now.Status == engine.VMDown, string(now.Status), nil
	}, nil); err != nil {
		return "", err
	}

	_, err = suite.engine.CreateNIC(ctx, vm.ID, &engine.NIC{
		Name:        "nic1",
		VNICProfile: engine.NewRef(profiles[0].ID),
		Interface:   "virtio",
	})
	if err != nil {
		return "", err
	}

	o.addresses[machine.Name] = address

	return vm.ID.String(), suite.engine.StartVM(ctx, vm.ID, false)
}

// oldVMs returns the VMs of the machines by ID, whatever comments they have.
func (o *takeover) oldVMs() map[string]engine.VM {
	o.t.Helper()
	all, err := suite.engine.ListVMs(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}

	out := map[string]engine.VM{}

	for _, vm := range all {
		if strings.HasPrefix(vm.Name, o.name+"-") {
			out[vm.ID.String()] = vm
		}
	}

	return out
}

// comment sets a VM's comment, as an administrator of the engine would.
func (o *takeover) comment(id, text string) {
	o.t.Helper()
	if _, err := suite.engine.UpdateVM(o.t.Context(), engine.ID(id), &engine.VM{Comment: &text}); err != nil {
		o.t.Fatal(err)
	}
}

// walk runs the steps until the plan. It returns the mark of each VM by the VM's ID.
func (o *takeover) walk() map[string]string {
	o.t.Helper()
	if out := o.does("1", 0); !strings.Contains(out, "v1beta2") {
		o.t.Errorf("the versions of Machines: %s", out)
	}

	o.does("2", 0)
	cluster, err := o.cluster()
	if err != nil || !ptr.Deref(cluster.Spec.Paused, false) {
		o.t.Errorf("the Cluster is not paused: %v", err)
	}

	var old appsv1.Deployment
	err = o.plane.Client.Get(o.t.Context(), oldDeployment, &old)
	if err != nil || ptr.Deref(old.Spec.Replicas, 1) != 0 {
		o.t.Errorf("the old provider is not stopped: %v", err)
	}

	if err := o.plane.Client.List(o.t.Context(), &infrav1.OLVMClusterList{}); err == nil {
		o.t.Error("our types can read the old failure domains: step 3 is not needed")
	}

	o.does("3", 0)
	if err := o.plane.Client.List(o.t.Context(), &infrav1.OLVMClusterList{}); err != nil {
		o.t.Errorf("step 3 is not enough: %v", err)
	}

	o.does("4", 0)

	printed := o.does("5", 0, "DOMAIN", "rack")
	for name, address := range o.addresses {
		if !strings.Contains(printed, name+" "+infrav1.AddressesAnnotation+`={"nic1":["`+address+`"]}`) {
			o.t.Errorf("step 5 does not write the address of %s:\n%s", name, printed)
		}
	}

	marks := map[string]string{}

	for line := range strings.Lines(o.does("6", 0)) {
		id, mark, _ := strings.Cut(strings.TrimSpace(line), " ")
		marks[strings.TrimPrefix(id, bootstrap.ProviderIDPrefix)] = mark
	}

	if out := o.does("7", 1); !strings.Contains(out, oldComment) {
		o.t.Errorf("the plan does not say which VM has no mark: %s", out)
	}

	for id := range o.oldVMs() {
		o.comment(id, marks[id])
	}

	o.does("7", 0)

	return marks
}

// requests returns the number of requests to the engine so far.
func (o *takeover) requests() int {
	o.t.Helper()
	var requests []ovirtsim.Request
	control(o.t, http.MethodGet, "/requests", nil, &requests)

	return requests[len(requests)-1].Seq
}

// expectTouched compares the requested changes of VMs since a request with the wanted ones, in any order.
func (o *takeover) expectTouched(vms map[string]engine.VM, since int, want ...string) {
	o.t.Helper()
	var requests []ovirtsim.Request
	control(o.t, http.MethodGet, fmt.Sprintf("/requests?after=%d", since), nil, &requests)
	var touched []string

	for _, r := range requests {
		for id := range vms {
			if r.Method != http.MethodGet && strings.Contains(r.Path, id) {
				touched = append(touched, r.Method+" "+r.Path)
			}
		}
	}

	slices.Sort(touched)
	slices.Sort(want)

	if !slices.Equal(touched, want) {
		o.t.Errorf("VMs were changed: %v, want %v", touched, want)
	}
}

// expectTaken waits until our manager controls each machine. Then it checks the machines and their VMs.
func (o *takeover) expectTaken(before map[string]engine.VM, since int, touched ...string) {
	o.t.Helper()
	var machines infrav1.OLVMMachineList
	o.eventually("the machines are ours", func() error {
		if err := o.plane.Client.List(o.t.Context(), &machines, client.InNamespace(o.namespace)); err != nil {
			return err
		}

		for i := range machines.Items {
			m := &machines.Items[i]
			var state corev1.Secret
			if !conditions.IsTrue(m, infrav1.UserDataRemovedCondition) {
				return fmt.Errorf("OLVMMachine %s still has its user data", m.Name)
			} else if m.Status.Terraform == nil || !conditions.IsTrue(m, infrav1.ReadyCondition) {
				return fmt.Errorf("OLVMMachine %s: %s", m.Name,
					conditions.GetMessage(m, infrav1.ReadyCondition)) //nolint:staticcheck // a kind
			} else if err := o.plane.Client.Get(o.t.Context(), client.ObjectKey{
				Namespace: o.namespace,
				Name:      m.Status.Terraform.StateSecretName,
			}, &state); err != nil {
				return err
			}
		}

		return nil
	})

	for _, m := range machines.Items {
		want := fmt.Sprintf(`{"nic1":[%q]}`, o.addresses[m.Name])
		if m.Annotations[infrav1.AddressesAnnotation] != want {
			o.t.Errorf("the addresses of %s: %s, want %s", m.Name, m.Annotations[infrav1.AddressesAnnotation], want)
		}

		if !slices.Equal(m.Finalizers, []string{infrav1.MachineFinalizer}) {
			o.t.Errorf("the finalizers of %s: %v", m.Name, m.Finalizers)
		}
	}

	o.expectMachines(1, 2)
	o.expectSame(before)
	o.expectTouched(before, since, touched...)
	o.does("7", 0)
}

// TestTakingOverVMs runs the commands in docs/user/migration.md without changes: to this provider, back, and to this
// provider again.
func TestTakingOverVMs(t *testing.T) {
	testenv.SkipInShort(t, "takes a cluster over from another provider, and gives it back")
	t.Parallel()
	o := newTakeover(t, "taken", 91)
	o.oldProvider()
	o.expectRunning()
	before := o.oldVMs()

	o.walk()
	since := o.requests()
	o.does("8", 0)
	o.run()

	// Their user data is removed as with our own VMs. The manager first removes the whole initialization, and then
	// writes the rest of it back.
	var forgotten []string
	for id := range before {
		forgotten = append(forgotten, "PUT /api/vms/"+id, "PUT /api/vms/"+id)
	}

	o.expectTaken(before, since, forgotten...)

	o.plane.Manager.Stop(time.Minute)
	o.does("Back", 0)

	for id := range before {
		o.comment(id, oldComment)
	}

	var states corev1.SecretList
	err := o.plane.Client.List(t.Context(), &states, client.InNamespace(o.namespace), client.MatchingLabels{
		"tfstate": "true",
	})
	if err != nil || len(states.Items) != 0 {
		t.Errorf("%d states are left, %v", len(states.Items), err)
	}

	held := []client.Object{&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: o.name + "-ovirt-credentials"},
	}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: o.name + "-ovirt-ca"}}}
	for _, object := range held {
		err := o.plane.Client.Get(t.Context(), client.ObjectKey{Namespace: o.namespace, Name: object.GetName()}, object)
		if err != nil {
			t.Fatal(err)
		}
	}

	for _, kind := range []string{"OLVMCluster", "OLVMMachine"} {
		objects, err := o.old(kind)
		if err != nil {
			t.Fatal(err)
		}

		for i := range objects {
			held = append(held, &objects[i])
		}
	}

	for _, object := range held {
		if len(object.GetFinalizers()) != 0 {
			t.Errorf("finalizers of %s are left: %v", object.GetName(), object.GetFinalizers())
		}
	}

	o.oldProvider()
	o.expectRunning()

	marks := o.walk()
	var unmarked string

	for id, vm := range before {
		if strings.Contains(vm.Name, "-md-0-") {
			unmarked = id
		}
	}

	o.comment(unmarked, oldComment)
	since = o.requests()
	o.does("8", 0)
	o.run()
	o.eventually("the VM without a mark is refused", func() error {
		var m infrav1.OLVMMachine
		err := o.plane.Client.Get(t.Context(), client.ObjectKey{
			Namespace: o.namespace,
			Name:      before[unmarked].Name,
		}, &m)
		if err != nil {
			return err
		}

		reason := conditions.GetReason(&m, infrav1.InfrastructureAppliedCondition)
		if reason != infrav1.VMNameConflictReason {
			return fmt.Errorf("the reason is %s: %s", reason,
				conditions.GetMessage(&m, infrav1.InfrastructureAppliedCondition))
		}

		return nil
	})
	o.expectTouched(before, since)
	o.comment(unmarked, marks[unmarked])
	o.expectTaken(before, since, "PUT /api/vms/"+unmarked)

	o.scale(1, 1)
	o.expectMachines(1, 1)
	left := o.oldVMs()
	if len(left) != 2 {
		t.Errorf("%d VMs are left, want 2", len(left))
	}

	for id, vm := range left {
		if before[id].StartTime != vm.StartTime {
			t.Errorf("VM %s is another, or was started again", vm.Name)
		}
	}

	o.delete()
}

// run starts our manager, because nothing in this test runs the Deployment.
func (o *takeover) run() {
	o.t.Helper()
	if err := o.plane.RunProvider(o.t.Context()); err != nil {
		o.t.Fatal(err)
	}
}

// expectRunning waits until the machines are running.
func (o *takeover) expectRunning() {
	o.t.Helper()
	o.eventually("the machines run", func() error {
		var machines clusterv1.MachineList
		if err := o.plane.Client.List(o.t.Context(), &machines, client.InNamespace(o.namespace)); err != nil {
			return err
		}

		for i := range machines.Items {
			if err := runs(&machines.Items[i]); err != nil {
				return err
			}
		}

		return nil
	})
}
