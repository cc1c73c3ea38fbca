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
	// claimants is the number of clusters that claim VMs at the same time. machinesEach is the number of machines in
	// each of them.
	claimants    = 20
	machinesEach = 5
)

// claiming is the cost of giving VMs from one pool to the machines of many clusters.
type claiming struct {
	VMs      int `json:"vms"`
	Clusters int `json:"clusters"`
	Machines int `json:"machines"`
	// Listed is the time until the OLVMInventoryVMs are created. Claimed is the time from the first machine until the
	// engine has confirmed all claims. Both are in seconds.
	Listed  float64 `json:"listedSeconds"`
	Claimed float64 `json:"claimedSeconds"`
	// APICalls and EngineCalls are the numbers of all calls that the manager makes in this time, per claim.
	APICalls    float64 `json:"apiCallsPerClaim"`
	EngineCalls float64 `json:"engineCallsPerClaim"`
}

// String describes the cost in one line for users.
func (c *claiming) String() string {
	return fmt.Sprintf("%d clusters with %d machines on a pool of %d VMs: listed in %.1f s, all claimed in %.1f s, "+
		"%.1f API calls and %.1f engine calls per claim",
		c.Clusters, c.Machines, c.VMs, c.Listed, c.Claimed, c.APICalls, c.EngineCalls)
}

// poolOf returns the simulator's inventory with a number of VMs that have the tag pool.
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

// claims lets clusters claim VMs of one pool for their machines at the same time.
func claims(t *testing.T, vms int) *claiming {
	t.Helper()
	s := newStageOf(t, poolOf(vms))
	defer s.manager.Process.Stop(time.Minute)
	out := &claiming{VMs: vms, Clusters: claimants, Machines: claimants * machinesEach}
	begin := time.Now()
	s.site.Create(poolvm.NewInventory(s.site.OLVM, "pool"))
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

// awaitVMs waits until wanted is true for the given number of OLVMInventoryVMs.
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

// claimant creates a cluster whose machines wait for VMs of the pool. It creates no other objects.
func (s *stage) claimant(t *testing.T, name string) {
	t.Helper()
	meta := func(of string) metav1.ObjectMeta {
		out := s.site.NewMeta(of)
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
