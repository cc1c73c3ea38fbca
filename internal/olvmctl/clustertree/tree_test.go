package clustertree

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// printed is the expected output for prod.
const printed = `Cluster/prod  Provisioned
│   ! NotAvailable: one node is missing
├─OLVMCluster/prod  https://engine.example.com/ovirt-engine
├─SupportService/lb-api  10.0.0.5
│ │   ! Progressing: VM prod-lb-api-0 has not used a configuration yet
│ └─OLVMMachine/prod-lb-api-0  VM 0194
│       ! Ready is unknown
├─KubeadmControlPlane/cp  1 of 3 ready, v1.36.1
│ │   ! NotAvailable: two machines are missing
│ └─Machine/cp-1  Running, VM 0193 up, 10.0.0.10, 2 runs, last: apply succeeded in 3 s (+4 ~0 -0)
├─MachineDeployment/md  1 of 1 ready, v1.36.1
│ └─Machine/md-1  Pending
│       ! WaitingForBootstrapData
└─Machine/lone  Running
`

func condition(kind string, ok bool, reason, message string) []metav1.Condition {
	status := metav1.ConditionFalse
	if ok {
		status = metav1.ConditionTrue
	}

	return []metav1.Condition{{Type: kind, Status: status, Reason: reason, Message: message}}
}

func machine(name, infra, phase string, labels map[string]string, conditions []metav1.Condition) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: meta(name, labels)}
	m.Spec.InfrastructureRef.Name = infra
	m.Status.Phase = phase
	m.Status.Conditions = conditions

	return m
}

func meta(name string, labels map[string]string) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "prod"}}
	for key, value := range labels {
		out.Labels[key] = value
	}

	return out
}

// prod returns an unfinished cluster.
func prod() (*clusterv1.Cluster, []client.Object) {
	cluster := &clusterv1.Cluster{ObjectMeta: meta("prod", nil)}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: olvmCluster, Name: "prod"}
	cluster.Status.Phase = "Provisioned"
	cluster.Status.Conditions = condition(clusterv1.ClusterAvailableCondition, false, "NotAvailable",
		"one node is missing")

	infra := &infrav1.OLVMCluster{ObjectMeta: meta("prod", nil)}
	infra.Spec.OLVMOvirtAPIServer.ServerURL = "https://engine.example.com/ovirt-engine"
	infra.Status.Conditions = condition(infrav1.ReadyCondition, true, "Ready", "")

	services := &infrav1alpha1.OLVMSupportServices{ObjectMeta: meta("prod", nil)}
	services.Status.Conditions = condition(infrav1.ReadyCondition, false, "Progressing", "lb-api: it is on its way")
	services.Status.Services = []infrav1alpha1.SupportServiceStatus{{
		Name:     "lb-api",
		Address:  "10.0.0.5",
		Machines: []string{"prod-lb-api-0"},
		Conditions: condition(infrav1.ReadyCondition, false, "Progressing",
			"VM prod-lb-api-0 has not used a configuration yet"),
	}}
	balancer := &infrav1.OLVMMachine{ObjectMeta: meta("prod-lb-api-0", map[string]string{
		infrav1alpha1.SupportServiceLabel: "lb-api",
	})}
	balancer.OwnerReferences = []metav1.OwnerReference{
		{Kind: "OLVMSupportServices", Name: "prod", Controller: ptr.To(true)},
	}
	balancer.Spec.ProviderID = "olvm://0194"

	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: meta("cp", nil)}
	kcp.Spec.Version, kcp.Spec.Replicas = "v1.36.1", ptr.To[int32](3)
	kcp.Status.ReadyReplicas, kcp.Status.UpToDateReplicas = ptr.To[int32](1), ptr.To[int32](1)
	kcp.Status.Conditions = condition(controlplanev1.KubeadmControlPlaneAvailableCondition, false, "NotAvailable",
		"two machines are missing")

	md := &clusterv1.MachineDeployment{ObjectMeta: meta("md", nil)}
	md.Spec.Template.Spec.Version, md.Spec.Replicas = "v1.36.1", ptr.To[int32](1)
	md.Status.Replicas, md.Status.ReadyReplicas = ptr.To[int32](1), ptr.To[int32](1)
	md.Status.UpToDateReplicas = ptr.To[int32](1)
	md.Status.Conditions = condition(clusterv1.MachineDeploymentAvailableCondition, true, "Available", "")

	began := metav1.Now()
	vm := &infrav1.OLVMMachine{ObjectMeta: meta("cp-1-infra", nil)}
	vm.Spec.ProviderID = "olvm://0193"
	vm.Status.OLVM = &infrav1.OLVMStatus{}
	vm.Status.OLVM.VirtualMachine.Status = "up"
	vm.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.10"}}
	vm.Status.Terraform = &infrav1.TerraformStatus{Runs: 2, LastRun: &infrav1.TerraformRun{
		Operation:      "apply",
		Result:         "Succeeded",
		StartTime:      began,
		CompletionTime: metav1.NewTime(began.Add(3e9)),
		Added:          4,
	}}

	ready := condition(clusterv1.MachineReadyCondition, true, "Ready", "")
	waiting := condition(clusterv1.MachineReadyCondition, false, "WaitingForBootstrapData", "")

	return cluster, []client.Object{
		cluster,
		infra,
		services,
		kcp,
		md,
		vm,
		balancer,
		machine("cp-1", "cp-1-infra", "Running", map[string]string{clusterv1.MachineControlPlaneLabel: ""}, ready),
		machine(
			"md-1", "md-1-infra", "Pending", map[string]string{clusterv1.MachineDeploymentNameLabel: "md"}, waiting,
		),
		machine("lone", "", "Running", nil, ready),
	}
}

func discover(t *testing.T) *Node {
	t.Helper()

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clusterv1.AddToScheme, controlplanev1.AddToScheme, api.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}

	cluster, objects := prod()
	tree, err := Discover(
		t.Context(), fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), cluster,
	)
	if err != nil {
		t.Fatal(err)
	}

	return tree
}

func TestPrint(t *testing.T) {
	var out strings.Builder
	if err := discover(t).Print(&out); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(printed, out.String()); diff != "" {
		t.Errorf("the tree (-want +got):\n%s", diff)
	}
}

func TestTrouble(t *testing.T) {
	tree := discover(t)
	count, trouble := tree.CountMachines()
	if want := "Machine md-1: WaitingForBootstrapData"; count != 3 || trouble != want ||
		tree.DescribeTrouble() != want {
		t.Errorf("%d machines, %q, %q", count, trouble, tree.DescribeTrouble())
	}

	if got := tree.Children[2].Waiting; got != "KubeadmControlPlane cp has 1 of 3 machines up to date" {
		t.Errorf("the control plane waits for %q", got)
	}
}

// TestAMachineThatCannotComeSaysWhy checks the conditions of Cluster API and of the OLVMMachine for one machine.
func TestAMachineThatCannotComeSaysWhy(t *testing.T) {
	refused := []metav1.Condition{
		{
			Type:   infrav1.ReadyCondition,
			Status: metav1.ConditionFalse,
			Reason: infrav1.VMTemplateNotFoundReason,
			Message: "* InfrastructureApplied: spec.vmTemplateName: no such template\n" +
				"* VirtualMachineRunning: WaitingForVirtualMachine",
		},
		{
			Type:    infrav1.InfrastructureAppliedCondition,
			Status:  metav1.ConditionFalse,
			Reason:  infrav1.VMTemplateNotFoundReason,
			Message: "spec.vmTemplateName: no such template",
		},
	}
	booting := []metav1.Condition{
		{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.VirtualMachineStartingReason},
		{
			Type:    infrav1.VirtualMachineRunningCondition,
			Status:  metav1.ConditionFalse,
			Reason:  infrav1.VirtualMachineStartingReason,
			Message: "VM is wait_for_launch",
		},
	}
	notReady := condition(clusterv1.MachineReadyCondition, false, "NotReady", "* InfrastructureReady:\n  * it waits\n"+
		"* NodeHealthy: no node yet")
	kubelet := func(has string) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) {
			m.Spec.Version = "v1.37.0"
			m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: has}
		}
	}
	outdated := func(m *clusterv1.Machine) {
		m.Status.Conditions = append(m.Status.Conditions,
			condition(clusterv1.MachineUpToDateCondition, false, clusterv1.MachineNotUpToDateReason, "")...)
	}
	// Cluster API reports a kubelet with another version in this way.
	updating := func(m *clusterv1.Machine) {
		m.Status.Conditions = append(m.Status.Conditions,
			condition(clusterv1.MachineUpToDateCondition, false, clusterv1.MachineUpToDateUpdatingReason,
				"* Node.status.nodeInfo.kubeletVersion v1.36.1, v1.37.0 required")...)
	}

	const waits = "Machine new: NotReady: InfrastructureReady: it waits"

	for name, test := range map[string]struct {
		infra   []metav1.Condition
		change  func(*clusterv1.Machine)
		trouble string
		stuck   bool
	}{
		"a name that the engine does not have": {
			infra:   refused,
			trouble: "Machine new: VMTemplateNotFound: spec.vmTemplateName: no such template",
			stuck:   true,
		},
		"a rollout replaces the machine that has it": {
			infra:   refused,
			change:  outdated,
			trouble: "Machine new: VMTemplateNotFound: spec.vmTemplateName: no such template",
		},
		"a VM that boots": {
			infra:   booting,
			trouble: "Machine new: VirtualMachineStarting: VM is wait_for_launch",
		},
		"only Cluster API has something to say": {trouble: waits},
		"an image with another kubelet": {
			change: kubelet("v1.36.1"),
			trouble: "Machine new: OtherKubelet: its node has kubelet v1.36.1, but v1.37.0 is requested; VM template old " +
				"contains another version; use one with v1.37.0",
			stuck: true,
		},
		"an image with another kubelet, of which Cluster API knows": {
			change: func(m *clusterv1.Machine) {
				kubelet("v1.36.1")(m)
				updating(m)
			},
			trouble: "Machine new: OtherKubelet: its node has kubelet v1.36.1, but v1.37.0 is requested; VM template old " +
				"contains another version; use one with v1.37.0",
			stuck: true,
		},
		"a second upgrade replaces the machine with the wrong image": {
			change: func(m *clusterv1.Machine) {
				kubelet("v1.36.1")(m)
				outdated(m)
			},
			trouble: waits,
		},
		"an image with a build of the version": {
			change: kubelet("v1.37.0+1.el8"),
			trouble: "Machine new: OtherKubelet: its node has kubelet v1.37.0+1.el8, a build of the requested version " +
				"v1.37.0, but Cluster API treats it as another version; request v1.37.0+1.el8",
			stuck: true,
		},
		"an image with the kubelet that is asked for": {change: kubelet("v1.37.0"), trouble: waits},
		"an older machine that a rollout replaces": {
			change: func(m *clusterv1.Machine) {
				kubelet("v1.35.0")(m)
				m.Spec.Version = "v1.36.1"
				outdated(m)
			},
			trouble: waits,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine("new", "new", "Pending", nil, slices.Clone(notReady))
			if test.change != nil {
				test.change(m)
			}

			infra := &infrav1.OLVMMachine{ObjectMeta: meta("new", nil)}
			infra.Spec.VMTemplateName = "old"
			infra.Status.Conditions = test.infra

			tree := &Node{Kind: "Cluster", Name: "prod", Children: []Node{describeMachine(m, infra, "v1.37.0")}}
			_, trouble := tree.CountMachines()
			check.Equal(t, "trouble", trouble, test.trouble)

			stuck := ""
			if test.stuck {
				stuck = test.trouble
			}

			check.Equal(t, "stuck", tree.StuckAt(), stuck)
		})
	}
}

// TestAHealthyMachineWhoseEditWasRefusedIsSaidToBeOutdated expects the machine to have no problem.
func TestAHealthyMachineWhoseEditWasRefusedIsSaidToBeOutdated(t *testing.T) {
	infra := &infrav1.OLVMMachine{ObjectMeta: meta("cp", nil)}
	infra.Status.Conditions = slices.Concat(
		condition(infrav1.ReadyCondition, true, "Ready", ""),
		condition(
			infrav1.UpToDateCondition, false, infrav1.ReplaceRefusedReason, "the plan would replace ovirt_vm.this",
		),
	)
	m := machine("cp", "cp", "Running", nil, condition(clusterv1.MachineReadyCondition, true, "Ready", ""))
	node := describeMachine(m, infra, "v1.37.0")
	check.Equal(t, "its problem", node.Problem, "")
	check.Contains(t, "its summary", node.Summary,
		"not up to date: ReplaceRefused: the plan would replace ovirt_vm.this")
}

// TestARolloutIsSeen has a ready control plane with one outdated machine.
func TestARolloutIsSeen(t *testing.T) {
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: meta("cp", nil)}
	kcp.Spec.Version, kcp.Spec.Replicas = "v1.37.0", ptr.To[int32](1)
	kcp.Status.Replicas, kcp.Status.ReadyReplicas = ptr.To[int32](2), ptr.To[int32](1)
	kcp.Status.UpToDateReplicas = ptr.To[int32](0)
	kcp.Status.Conditions = condition(controlplanev1.KubeadmControlPlaneAvailableCondition, true, "Available", "")

	var out strings.Builder
	node := (&parts{}).controlPlaneNode(kcp)
	check.Error(t, node.Print(&out), "")
	check.Equal(t, "the tree", out.String(), "KubeadmControlPlane/cp  1 of 1 ready, 0 of 2 up to date, v1.37.0\n"+
		"    … KubeadmControlPlane cp has 0 of 1 machines up to date\n")
}

// TestAClusterOfAnotherInfrastructure has only objects of Cluster API, because the kinds of this provider may not be
// served.
func TestAClusterOfAnotherInfrastructure(t *testing.T) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "prod"}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "OCICluster", Name: "prod"}
	conditions.Set(cluster, metav1.Condition{
		Type: clusterv1.ClusterInfrastructureReadyCondition, Status: metav1.ConditionFalse, Reason: "NotReady",
		Message: "VCN is busy",
	})
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), controlplanev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}

	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "m", Labels: map[string]string{clusterv1.ClusterNameLabel: "prod"},
	}}
	machine.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.2"}}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster, machine).WithStatusSubresource(machine).
		Build()
	if err := reader.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}

	tree, err := Discover(t.Context(), reader, cluster)
	if err != nil {
		t.Fatal(err)
	}

	check.Equal(t, "children", len(tree.Children), 2)
	check.Equal(
		t, "infrastructure", tree.Children[0].Kind+" "+tree.Children[0].Problem, "OCICluster NotReady: VCN is busy",
	)
	check.Equal(t, "addresses", tree.Children[1].Machine.Addresses, []string{"10.0.0.2"})
}
