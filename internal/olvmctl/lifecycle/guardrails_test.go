package lifecycle

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// scaled returns a management cluster with a cluster of 3 control plane machines and 2 workers. The cluster has ten
// addresses for the workers.
func scaled(t *testing.T) *mgmtcluster.Cluster {
	t.Helper()
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: "ocne", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "prod"},
		}
	}
	template := &infrav1.OLVMMachineTemplate{ObjectMeta: meta("workers")}
	template.Spec.Template.Spec.VirtualMachine.Network.IPv4 = &infrav1.IPv4Network{
		Subnet: "10.0.0.0/24", IPAddresses: []string{"10.0.0.10-10.0.0.19"},
	}
	ref := clusterv1.ContractVersionedObjectReference{Kind: "OLVMMachineTemplate", Name: "workers"}
	controlPlane := &controlplanev1.KubeadmControlPlane{ObjectMeta: meta("prod-control-plane")}
	controlPlane.Spec.Replicas = ptr.To[int32](3)
	workers := &clusterv1.MachineDeployment{ObjectMeta: meta("prod-md-0")}
	workers.Spec.Replicas = ptr.To[int32](2)
	workers.Spec.Template.Spec.InfrastructureRef = ref
	cluster := &clusterv1.Cluster{ObjectMeta: meta("prod")}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "OLVMCluster", Name: "prod"}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		Kind: "KubeadmControlPlane", Name: "prod-control-plane",
	}

	in := clusterWith(t, template, controlPlane, workers, cluster, &infrav1.OLVMCluster{ObjectMeta: meta("prod")})
	in.Namespace = "ocne"

	return in
}

// TestScaleAsksBeforeWhatAUserMayNotWant expects a question before machines are deleted, before many are added, and
// before addresses run out.
func TestScaleAsksBeforeWhatAUserMayNotWant(t *testing.T) {
	refused := errors.New("it stays as it is")

	for name, test := range map[string]struct {
		controlPlane, workers *int32
		asks                  []string
	}{
		"one worker more":             {workers: ptr.To[int32](3)},
		"as many as today":            {workers: ptr.To[int32](2)},
		"all addresses":               {workers: ptr.To[int32](10)},
		"more control plane machines": {controlPlane: ptr.To[int32](5)},
		"one worker less": {workers: ptr.To[int32](1), asks: []string{"prod-md-0",
			"from 2 to 1 machine: permanently deletes 1 machine,"}},
		"no worker":                     {workers: ptr.To[int32](0), asks: []string{"from 2 to 0 machines"}},
		"fewer control plane machines":  {controlPlane: ptr.To[int32](1), asks: []string{"from 3 to 1 machine"}},
		"more than addresses":           {workers: ptr.To[int32](11), asks: []string{"workers has 10 addresses"}},
		"more than ten times as many":   {workers: ptr.To[int32](21), asks: []string{"more than 10 times", "10 addresses"}},
		"one of both is to be asked of": {ptr.To[int32](5), ptr.To[int32](1), []string{"scales from 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := scaled(t)
			cluster, err := in.GetCluster(t.Context(), "prod")
			check.Error(t, err, "")

			var asked []string
			o := ScaleOptions{Name: "prod", ControlPlane: test.controlPlane, Workers: test.workers}
			o.Agree = func(alarms []string, where string) error {
				asked = append(slices.Clone(alarms), where)
				return refused
			}

			_, sizes, err := o.findObjects(t.Context(), in, cluster)
			check.Error(t, err, "")

			err = o.confirmAlarms(t.Context(), in, cluster, sizes, func(string) {})
			check.Equal(t, "whether it asks", errors.Is(err, refused), len(test.asks) > 0)

			for _, want := range test.asks {
				check.Contains(t, "the question", strings.Join(asked, "\n"), want)
				check.Contains(t, "the question", strings.Join(asked, "\n"), "in namespace ocne of ")
			}
		})
	}
}

// TestAVersionThatNoMachineHasCanBeTakenBack has a control plane with v1.36.2 in its specification.
func TestAVersionThatNoMachineHasCanBeTakenBack(t *testing.T) {
	for name, test := range map[string]struct {
		spec, kubelet, node string
		problem             string
	}{
		"no machine was replaced":                        {spec: "v1.36.1", kubelet: "v1.36.1", node: "a"},
		"the first is not there yet":                     {spec: "v1.36.2"},
		"the first has the kubelet of before":            {spec: "v1.36.2", kubelet: "v1.36.1", node: "a"},
		"the first is a node with it":                    {"v1.36.2", "v1.36.2", "a", "cannot downgrade"},
		"the first is a node, and its kubelet is hidden": {spec: "v1.36.2", node: "a", problem: "cannot downgrade"},
	} {
		t.Run(name, func(t *testing.T) {
			labels := map[string]string{clusterv1.ClusterNameLabel: "prod", clusterv1.MachineControlPlaneLabel: ""}
			old := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ocne", Name: "old", Labels: labels}}
			old.Spec.Version = "v1.36.1"
			first := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ocne", Name: "first", Labels: labels}}
			first.Spec.Version, first.Status.NodeRef.Name = test.spec, test.node
			if test.kubelet != "" {
				first.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: test.kubelet}
			}

			in := clusterWith(t, old, first)
			in.Namespace = "ocne"
			u := &upgrade{Cluster: in}
			u.Name, u.Version = "prod", "v1.36.1"
			check.Error(t, u.checkSkew(t.Context(), "v1.36.2", nil), test.problem)
		})
	}
}

func TestAnUpgradeWarnsOfATemplateWithoutTheVersion(t *testing.T) {
	for name, test := range map[string]struct {
		image string
		kept  bool
		want  string
	}{
		"the template stays, and only the patch changes": {"ock", true,
			"keeps ock, which must contain Kubernetes v1.37.0"},
		"the template stays, of an older version": {"ock-1.36", true,
			"the name of ock-1.36 indicates another version"},
		"a new template of another version": {"ol9-k8s-v1.35.2", false,
			"the name of ol9-k8s-v1.35.2 indicates another"},
		"a new template of the version":             {"ock-1.37", false, ""},
		"a new template without a version":          {"ock-new", false, ""},
		"a template that follows the version":       {"ock-${KUBERNETES_VERSION}", true, ""},
		"a number that is no version of Kubernetes": {"ol-8.10-2026", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := &owner{name: "KubeadmControlPlane prod", image: test.image, keptImage: test.kept}
			got := o.imageWarning("v1.37.0")
			check.Contains(t, "the warning", got, test.want)
			check.Equal(t, "whether it warns", got != "", test.want != "")
		})
	}
}

// TestTheMachinesThatGoAreFoundInTheManagementCluster has a file with one worker for a cluster with three.
func TestTheMachinesThatGoAreFoundInTheManagementCluster(t *testing.T) {
	c := &creation{management: &management{Cluster: clusterWith(t, deployment(3))}}
	c.Provider = &OLVM{}
	c.File = clusterNamed("prod", "127.0.0.1", 1)
	pool := deployment(1) // it does not exist in the cluster yet
	pool.SetName("prod-new")
	c.File.Objects = append(c.File.Objects, deployment(1), pool)

	gone, err := c.listMachinesToDelete(t.Context())
	check.Error(t, err, "")
	check.Equal(t, "machines that go", gone, []string{
		"MachineDeployment prod-md-0 scales from 3 to 1 machine: permanently deletes 2 machines, with VMs and disks",
	})
}

// TestASmallerClusterFileIsAskedAbout has a file with 2 workers for a cluster with 3.
func TestASmallerClusterFileIsAskedAbout(t *testing.T) {
	for name, test := range map[string]struct {
		replicas int64
		scaled   bool
		force    bool
		asks     bool
	}{
		"fewer":                             {replicas: 2, asks: true},
		"none":                              {replicas: 0, asks: true},
		"as many":                           {replicas: 3},
		"more":                              {replicas: 4},
		"fewer than scale has written":      {replicas: 2, scaled: true},
		"fewer, and taken back from scale":  {replicas: 2, scaled: true, force: true, asks: true},
		"more, with what others have taken": {replicas: 5, force: true},
	} {
		t.Run(name, func(t *testing.T) {
			live := deployment(3)
			if test.scaled {
				live.SetManagedFields([]metav1.ManagedFieldsEntry{{
					Manager: string(fieldOwnerOfScale), Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1",
					FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
				}})
			}

			one, asks := compareReplicas(live, deployment(test.replicas), test.force)
			check.Equal(t, "whether it asks", asks, test.asks)

			if test.asks {
				check.Contains(t, "the question", one.listAlarms()[0], "MachineDeployment prod-md-0 scales from")
				check.Contains(t, "the question", one.listAlarms()[0], "with VMs and disks")
			}
		})
	}
}

// topology returns a Cluster with a ClusterClass. workers are the numbers of machines of its MachineDeployments. -1
// omits a number.
func topology(controlPlane int64, workers map[string]int64) *unstructured.Unstructured {
	part := func(number int64) map[string]any {
		if number < 0 {
			return map[string]any{}
		}

		return map[string]any{"replicas": number}
	}

	var deployments []any

	for name, number := range workers {
		one := part(number)
		one["name"], one["class"] = name, "worker"
		deployments = append(deployments, one)
	}

	out := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"topology": map[string]any{
		"classRef": map[string]any{"name": "olvm"}, "version": "v1.36.1", "controlPlane": part(controlPlane),
		"workers": map[string]any{"machineDeployments": deployments},
	}}}}
	out.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	out.SetNamespace("prod")
	out.SetName("prod")

	return out
}

// TestASmallerTopologyIsAskedAbout has a cluster of a ClusterClass with 3 control plane machines and two groups of
// workers.
func TestASmallerTopologyIsAskedAbout(t *testing.T) {
	const (
		fewer = "the control plane scales from 3 to 1 machine: permanently deletes 2 machines, with VMs and disks"
		lost  = "MachineDeployment b of the topology scales from 2 to 0 machines: permanently deletes 2 machines, " +
			"with VMs and disks"
		one = "MachineDeployment a of the topology scales from 4 to 1 machine: permanently deletes 3 machines, " +
			"with VMs and disks"
	)

	for name, test := range map[string]struct {
		controlPlane int64
		workers      map[string]int64
		asks         []string
	}{
		"as many":                     {3, map[string]int64{"a": 4, "b": 2}, nil},
		"more":                        {5, map[string]int64{"a": 5, "b": 3, "c": 1}, nil},
		"a control plane of one":      {1, map[string]int64{"a": 4, "b": 2}, []string{fewer}},
		"fewer workers":               {3, map[string]int64{"a": 1, "b": 2}, []string{one}},
		"a group of workers is left":  {3, map[string]int64{"a": 4}, []string{lost}},
		"a group with no machines":    {3, map[string]int64{"a": 4, "b": 0}, []string{lost}},
		"all of it":                   {1, map[string]int64{"a": 1}, []string{one, lost, fewer}},
		"numbers that are not said":   {-1, map[string]int64{"a": -1, "b": -1}, nil},
		"one group, without a number": {3, map[string]int64{"a": -1}, []string{lost}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &creation{management: &management{Cluster: clusterWith(t, topology(3, map[string]int64{"a": 4, "b": 2}))}}
			c.Provider = &OLVM{}
			c.File = clusterNamed("prod", "127.0.0.1", 1)
			c.File.Objects = append(c.File.Objects, topology(test.controlPlane, test.workers))

			gone, err := c.listMachinesToDelete(t.Context())
			check.Error(t, err, "")
			check.Equal(t, "machines that go", gone, test.asks)
		})
	}
}

// TestScaleFindsAllBeforeItWrites names a missing group of workers and an existing control plane.
func TestScaleFindsAllBeforeItWrites(t *testing.T) {
	in := scaled(t)
	cluster, err := in.GetCluster(t.Context(), "prod")
	check.Error(t, err, "")

	o := ScaleOptions{Name: "prod", ControlPlane: ptr.To[int32](5), Workers: ptr.To[int32](3), Deployment: "typo"}
	objects, _, err := o.findObjects(t.Context(), in, cluster)
	check.Error(t, err, "specify a MachineDeployment of the cluster with --machine-deployment")
	check.Equal(t, "owners to write", len(objects), 0)
}
