package dashboard

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// Fact is a fact about an object on the page.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
	// Time is the value if it is a time. Value is then empty.
	Time time.Time `json:"time,omitzero"`
}

// factList collects facts. It omits facts without a value.
type factList []Fact

func (f *factList) addFact(name, value string) {
	if value != "" {
		*f = append(*f, Fact{Name: name, Value: value})
	}
}

// factsOf returns the most important facts about an object, and about the OLVMMachine of a Machine.
func factsOf(objects []client.Object) []Fact {
	var out factList

	for i, object := range objects {
		switch o := object.(type) {
		case *clusterv1.Cluster:
			out.ofCluster(o)
		case *controlplanev1.KubeadmControlPlane:
			out.addFact("Version", o.Spec.Version)
			out.addFact("Template", o.Spec.MachineTemplate.Spec.InfrastructureRef.Name)
		case *clusterv1.MachineDeployment:
			out.addFact("Version", o.Spec.Template.Spec.Version)
			out.addFact("Template", o.Spec.Template.Spec.InfrastructureRef.Name)
		case *clusterv1.Machine:
			out.ofMachine(o)
		case *infrav1.OLVMMachine:
			out.ofVM(o)
		case *infrav1.OLVMCluster:
			out.addFact("Engine", engine.RedactURL(o.Spec.OLVMOvirtAPIServer.ServerURL))
			out.addFact("Data center", o.Spec.OLVMDatacenterName)
		}

		if created := object.GetCreationTimestamp(); i == 0 && !created.IsZero() {
			out = append(out, Fact{Name: "Created", Time: created.Time})
		}
	}

	return out
}

func (f *factList) ofCluster(c *clusterv1.Cluster) {
	f.addFact("Version", c.Spec.Topology.Version)
	f.addFact("Class", c.Spec.Topology.ClassRef.Name)

	if c.Spec.ControlPlaneEndpoint.IsValid() {
		f.addFact("Endpoint", c.Spec.ControlPlaneEndpoint.String())
	}

	f.addFact("Pods", strings.Join(c.Spec.ClusterNetwork.Pods.CIDRBlocks, ", "))
	f.addFact("Services", strings.Join(c.Spec.ClusterNetwork.Services.CIDRBlocks, ", "))
}

func (f *factList) ofMachine(m *clusterv1.Machine) {
	f.addFact("Cluster", m.Spec.ClusterName)
	f.addFact("Node", m.Status.NodeRef.Name)

	if info := m.Status.NodeInfo; info != nil && info.KubeletVersion != m.Spec.Version {
		f.addFact("Version", fmt.Sprintf("%s; its kubelet has %s", m.Spec.Version, info.KubeletVersion))
	} else {
		f.addFact("Version", m.Spec.Version)
	}
}

// ofVM adds the facts about a machine's VM.
func (f *factList) ofVM(m *infrav1.OLVMMachine) {
	vm := &m.Spec.VirtualMachine
	olvm := m.Status.OLVM
	if olvm == nil {
		olvm = &infrav1.OLVMStatus{}
	}

	f.addFact("Provider ID", m.Spec.ProviderID)

	seen := olvm.VirtualMachine
	if seen.VMID != "" {
		f.addFact("VM", strings.TrimSpace(cmp.Or(seen.VMName, m.Name)+" "+seen.VMID))
	}

	f.addFact("Host", seen.HostName)
	f.addFact("VM template", cmp.Or(olvm.VMTemplateName, m.Spec.VMTemplateName))
	f.addFact("Size", sizeOf(m))
	f.addFact("Disks", disksOf(vm, m.Spec.FromInventory != nil))
	f.addFact("Network", strings.Trim(olvm.NetworkName+" "+olvm.IPAddress, " "))
	f.addFact("oVirt cluster", cmp.Or(olvm.ClusterName, m.Spec.OLVMOvirtClusterName))
	f.addFact("Failure domain", m.Status.FailureDomain)

	if from := m.Spec.FromInventory; from != nil {
		f.addFact("Pool", from.InventoryName)
	}

	if t := m.Status.Terraform; t != nil && t.Runs > 0 {
		failed := ""
		if t.Failures > 0 {
			failed = fmt.Sprintf(", %d failed since a success", t.Failures)
		}

		f.addFact("Terraform runs", fmt.Sprintf("%d%s", t.Runs, failed))
	}
}

// sizeOf returns the requested CPU and memory of a machine.
func sizeOf(m *infrav1.OLVMMachine) string {
	vm := &m.Spec.VirtualMachine
	topology := vm.CPU.Topology

	switch {
	case vm.InstanceType != "":
		return "instance type " + vm.InstanceType
	case m.Spec.FromInventory != nil && vm.Memory == "":
		return "as its pool has it"
	}

	sockets, cores := cmp.Or(topology.Sockets, 2), cmp.Or(topology.Cores, 2)
	threads := cmp.Or(topology.Threads, 1)
	out := fmt.Sprintf("%d CPUs (sockets %d, cores %d, threads %d)", sockets*cores*threads, sockets, cores, threads)

	if vm.Memory != "" {
		out += ", " + vm.Memory + " of memory"
	}

	return out
}

// disksOf returns the requested disks of a VM.
func disksOf(vm *infrav1.VirtualMachine, pooled bool) string {
	root := "root as in the VM template"

	switch {
	case vm.RootDisk != nil && vm.RootDisk.Size != "":
		root = "root " + vm.RootDisk.Size + onDomain(vm.RootDisk.StorageDomainName)
	case vm.RootDisk != nil && vm.RootDisk.StorageDomainName != "":
		root += onDomain(vm.RootDisk.StorageDomainName)
	case pooled:
		root = "root as its pool has it"
	}

	out := []string{root}

	for _, disk := range vm.DataDisks {
		out = append(out, disk.Name+" "+disk.Size+onDomain(disk.StorageDomainName))
	}

	return strings.Join(out, ", ")
}

func onDomain(name infrav1.EngineName) string {
	if name == "" {
		return ""
	}

	return " on " + name
}
