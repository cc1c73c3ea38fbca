package bench

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/poolvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

const (
	// claimants is how many clusters claim at once, and machinesEach how many machines each has.
	claimants    = 20
	machinesEach = 5
)

// claiming is what it took to give machines of many clusters VMs of one pool.
type claiming struct {
	VMs      int `json:"vms"`
	Clusters int `json:"clusters"`
	Machines int `json:"machines"`
	// Listed is how long the OLVMInventoryVMs took to be made, Claimed from the first machine until the engine had
	// confirmed the claims of all, in seconds.
	Listed  float64 `json:"listedSeconds"`
	Claimed float64 `json:"claimedSeconds"`
	// APICalls and EngineCalls per claim, all that the manager asked in that time.
	APICalls    float64 `json:"apiCallsPerClaim"`
	EngineCalls float64 `json:"engineCallsPerClaim"`
}

// String is a line for people.
func (c *claiming) String() string {
	return fmt.Sprintf("%d clusters with %d machines on a pool of %d VMs: listed in %.1f s, all claimed in %.1f s, "+
		"%.1f API calls and %.1f engine calls per claim",
		c.Clusters, c.Machines, c.VMs, c.Listed, c.Claimed, c.APICalls, c.EngineCalls)
}

// poolOf is the simulator's inventory with so many VMs that carry the tag pool.
func poolOf(vms int) ovirtsim.Inventory {
	site := spacious()
	site.Tags = append(site.Tags, "pool")

	for i := range vms {
		site.DataCenters[0].VMs = append(site.DataCenters[0].VMs, ovirtsim.VM{
			Name: fmt.Sprintf("pool-%04d", i), Cluster: "Default", Template: "pool", Tags: []string{"pool"},
		})
	}

	site.DataCenters[0].Templates = append(site.DataCenters[0].Templates, ovirtsim.Template{
		Name: "pool", Disks: []ovirtsim.TemplateDisk{{Size: 1 << 30}},
		NICs: []ovirtsim.TemplateNIC{{Name: "nic1", Network: "kvm-vlan"}},
	})

	return site
}

// claims has clusters claim machines of one pool at once.
func claims(t *testing.T, vms int) *claiming {
	t.Helper()
	s := newStageOf(t, poolOf(vms))
	defer s.manager.Process.Stop(time.Minute)
	out := &claiming{VMs: vms, Clusters: claimants, Machines: claimants * machinesEach}
	begin := time.Now()
	s.site.Create(poolvm.Inventory(s.site.OLVM, "pool"))
	s.awaitVMs(t, "available", vms, func(vm *infrav1alpha1.OLVMInventoryVM) bool {
		return vm.Status.Phase == infrav1alpha1.InventoryVMAvailable
	})
	out.Listed = time.Since(begin).Seconds()

	_, calls := s.passesAndCalls(t)
	engineCalls := s.calls.Load()
	begin = time.Now()

	for i := range claimants {
		s.claimant(t, fmt.Sprintf("c%02d", i))
	}

	s.awaitVMs(t, "claimed", out.Machines, func(vm *infrav1alpha1.OLVMInventoryVM) bool {
		claim := vm.Spec.ClaimRef
		return claim != nil && claim.MachineName != "" && vm.Status.ClaimID == inventory.ConfirmedID(*claim)
	})
	out.Claimed = time.Since(begin).Seconds()
	_, after := s.passesAndCalls(t)
	out.APICalls = (after - calls) / float64(out.Machines)
	out.EngineCalls = float64(s.calls.Load()-engineCalls) / float64(out.Machines)

	return out
}

// awaitVMs waits until so many OLVMInventoryVMs are what is wanted.
func (s *stage) awaitVMs(t *testing.T, what string, n int, wanted func(*infrav1alpha1.OLVMInventoryVM) bool) {
	t.Helper()

	for deadline := time.Now().Add(wait.Limit); ; time.Sleep(100 * time.Millisecond) {
		var list infrav1alpha1.OLVMInventoryVMList
		check.Error(t, s.site.Client.List(t.Context(), &list, client.InNamespace(s.site.Namespace)), "")
		found := 0

		for i := range list.Items {
			if wanted(&list.Items[i]) {
				found++
			}
		}

		if found == n {
			return
		}

		if time.Now().After(deadline) {
			t.Fatalf("%d of %d VMs are %s", found, n, what)
		}
	}
}

// claimant is a cluster whose machines want VMs of the pool. Nothing else of it is made.
func (s *stage) claimant(t *testing.T, name string) {
	t.Helper()
	meta := func(of string) metav1.ObjectMeta {
		out := s.site.Meta(of)
		out.Labels = map[string]string{clusterv1.ClusterNameLabel: name}

		return out
	}
	ref := clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "OLVMMachine"}
	cluster := &clusterv1.Cluster{ObjectMeta: meta(name), Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "OLVMCluster", Name: name,
		},
	}}
	s.site.Create(cluster)

	for i := range machinesEach {
		machine := fmt.Sprintf("%s-%d", name, i)
		ref.Name = machine
		owner := &clusterv1.Machine{ObjectMeta: meta(machine), Spec: clusterv1.MachineSpec{
			ClusterName:       name,
			Bootstrap:         clusterv1.Bootstrap{DataSecretName: ptr.To("none")},
			InfrastructureRef: ref,
		}}
		s.site.Create(owner)
		m := &infrav1.OLVMMachine{ObjectMeta: meta(machine), Spec: infrav1.OLVMMachineSpec{
			FromInventory: &infrav1.FromInventory{InventoryName: "pool"},
		}}
		m.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: machine, UID: owner.UID,
			Controller: ptr.To(true),
		}}
		s.site.Create(m)
	}
}
