package reliability

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// newPoolBench is a bench whose machines take their VMs from a pool of two.
func newPoolBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, withoutGroups)
	b.live = b.poolLife
	ctx, session := t.Context(), b.site.Session()
	tag, err := session.CreateTag(ctx, &engine.Tag{Name: "pool"})
	check.Error(t, err, "")

	for i := range 2 {
		b.addPoolVM(t, fmt.Sprintf("vm-%d", i), tag.ID)
	}

	b.addInventory()
	b.expectFreePool(t)

	return b
}

// addInventory writes the OLVMInventory of the VMs with the tag pool.
func (b *bench) addInventory() *infrav1.OLVMInventory {
	out := &infrav1.OLVMInventory{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.site.Namespace, Name: "lab"},
		Spec: infrav1.OLVMInventorySpec{
			OLVMDatacenterName: "Default",
			OLVMOvirtAPIServer: b.site.OLVM.Spec.OLVMOvirtAPIServer,
			VirtualMachines:    infrav1.InventoryVMs{Tag: "pool"},
		},
	}
	b.site.Create(out)

	return out
}

// ownAddress is what the VMs of the pool are configured with while no machine has them.
const ownAddress = "10.0.0.200"

func (b *bench) addPoolVM(t *testing.T, name string, tag engine.ID) {
	t.Helper()
	ctx, session := t.Context(), b.site.Session()
	dc, err := session.DataCenter(ctx, "Default")
	check.Error(t, err, "")
	cluster, err := session.Cluster(ctx, dc, "Default")
	check.Error(t, err, "")
	template, err := session.Template(ctx, dc, "ol9-k8s")
	check.Error(t, err, "")
	network, err := session.Network(ctx, dc, "kvm-vlan")
	check.Error(t, err, "")
	profile, err := session.DefaultVNICProfile(ctx, network)
	check.Error(t, err, "")
	vm, err := session.CreateVM(ctx, &engine.VM{
		Name: name, Cluster: engine.NewRef(cluster.ID), Template: engine.NewRef(template.ID),
		Initialization: &engine.Initialization{NICs: &engine.NICConfigurations{Items: []engine.NICConfiguration{{
			Name: "enp1s0", OnBoot: true, BootProtocol: "static",
			IP: &engine.IP{Address: ownAddress, Netmask: "255.255.255.0", Gateway: "10.0.0.1"},
		}}}},
	}, nil)
	check.Error(t, err, "")
	check.Error(t, session.TagVM(ctx, vm.ID, tag), "")
	b.site.In(t).Eventually("the VM has its network interface", func() error {
		_, err := session.CreateNIC(ctx, vm.ID, &engine.NIC{Name: "nic1", VNICProfile: engine.NewRef(profile.ID)})
		return err
	})
}

// pooled asks for a VM of the pool, with static addresses.
func pooled(spec *infrav1.OLVMMachineSpec) {
	network := spec.VirtualMachine.Network
	*spec = infrav1.OLVMMachineSpec{
		FromInventory:  &infrav1.FromInventory{Inventory: "lab"},
		VirtualMachine: infrav1.VirtualMachine{Network: network},
	}
}

// poolLife is that of a machine with a VM of the pool.
func (b *bench) poolLife(t *testing.T, name string) {
	t.Helper()
	s := b.site.In(t)
	m := s.Machine(name, pooled)
	b.expectReady(s, m)
	vms := b.poolVMs()
	claimed := slices.IndexFunc(vms, func(vm ovirtsim.VMInfo) bool { return m.Spec.ProviderID == "olvm://"+vm.ID })

	if claimed < 0 || vms[claimed].Status != "up" || !strings.Contains(vms[claimed].Comment, s.Namespace+"/"+name+" ") {
		t.Fatalf("machine %s with %s, the engine has %+v", name, m.Spec.ProviderID, vms)
	}

	if other := vms[1-claimed]; other.Status != "down" || other.Comment != "" || len(other.Tags) != 1 {
		t.Errorf("the VM that nobody has is %+v", other)
	}

	s.Delete(m)
	s.ExpectGone(m)
	b.expectFreePool(t)
	if left := s.States(); len(left) != 0 {
		t.Errorf("left of states: %d", len(left))
	}
}

// poolVMs are the VMs of the engine.
func (b *bench) poolVMs() []ovirtsim.VMInfo { return b.site.Sim.VMs() }

// expectFreePool waits until both VMs of the pool can be claimed, and looks at what the engine has: no VM is lost, none
// is left of rebuilding, each has one disk, and nothing tells of a claim.
func (b *bench) expectFreePool(t *testing.T) {
	t.Helper()
	s := b.site.In(t)
	s.Eventually("both VMs are available", func() error {
		var list infrav1.OLVMInventoryVMList
		if err := s.Client.List(context.Background(), &list, client.InNamespace(s.Namespace)); err != nil {
			return err
		}

		for _, vm := range list.Items {
			if vm.Status.Phase != infrav1.InventoryVMAvailable || vm.Spec.ClaimRef != nil {
				return fmt.Errorf("%s is %s %s %s", vm.Name, vm.Status.Phase, vm.Status.Reason, vm.Status.Message)
			}
		}

		if len(list.Items) != 2 {
			return fmt.Errorf("there are %d", len(list.Items))
		}

		return nil
	})

	vms := b.poolVMs()
	if len(vms) != 2 {
		t.Errorf("the engine has %d VMs: %+v", len(vms), vms)
	}

	for _, vm := range vms {
		if vm.Status != "down" || vm.Comment != "" || len(vm.Tags) != 1 || len(vm.Disks) != 1 || len(vm.NICs) != 1 {
			t.Errorf("a VM that nobody has is %+v", vm)
		}

		full, err := s.Session().VMInFull(context.Background(), engine.ID(vm.ID))
		check.Error(t, err, "")
		own := full.Initialization
		if own == nil || own.NICs == nil || len(own.NICs.Items) != 1 || own.NICs.Items[0].IP == nil ||
			own.NICs.Items[0].IP.Address != ownAddress || own.CustomScript+own.HostName != "" {
			t.Errorf("a VM that nobody has is initialized with %+v", own)
		}
	}

	if got := s.Sim.Summary().Disks; got != 2 {
		t.Errorf("the engine has %d disks", got)
	}

	tags, err := s.Session().Tags(context.Background())
	check.Error(t, err, "")
	if at := slices.IndexFunc(tags, func(tag engine.Tag) bool {
		return strings.HasPrefix(tag.Name, "capolvm-claim-")
	}); at >= 0 {
		t.Errorf("left of claims: tag %s", tags[at].Name)
	}
}

// TestCrashMatrixOfAPool kills the manager and cuts the connection at each call that claims, takes over, gives back or
// rebuilds a VM of a pool: none is claimed twice, none is lost, none is destroyed.
func TestCrashMatrixOfAPool(t *testing.T) {
	crashMatrix(t, newPoolBench, func(c call) bool {
		// A status is made anew by each pass; the machine's own matrix has its patches.
		if strings.HasPrefix(c.name, "GET ") || strings.HasSuffix(c.name, "/status") || c.nth > 4 {
			return false
		}

		return strings.Contains(c.name, "olvminventoryvms") || c.name == "PATCH olvmmachines" || strings.HasPrefix(c.name, "POST /tags") ||
			strings.HasPrefix(c.name, "DELETE ") || strings.Contains(c.name, "/vms") || strings.Contains(c.name, "/disks")
	})
}

// TestRow56TheEngineIsAwayWhenAMachineOfAPoolIsDeleted deletes a machine and its inventory while the engine does not
// answer. Both go on when it is back, and the VM stays.
func TestRow56TheEngineIsAwayWhenAMachineOfAPoolIsDeleted(t *testing.T) {
	t.Parallel()
	b := newPoolBench(t)
	m := b.site.Machine("one", pooled)
	b.expectReady(b.site, m)
	b.engine.cut(all)
	b.site.Delete(m)
	b.site.Expect(m, infrav1.DeletingCondition, "True/UnableToDecommission")

	pool := &infrav1.OLVMInventory{ObjectMeta: metav1.ObjectMeta{Namespace: b.site.Namespace, Name: "lab"}}
	b.site.Delete(pool)
	b.site.Expect(pool, infrav1.DeletingCondition, "True/UnableToDecommission")
	check.Equal(t, "generation observed", pool.Status.Conditions[0].ObservedGeneration, pool.Generation)

	b.engine.cut(nil)
	b.site.ExpectGone(m)
	b.site.ExpectGone(pool)
	vms := b.poolVMs()
	check.Length(t, "VMs", vms, 2)

	for _, vm := range vms {
		check.Equal(t, "power of "+vm.Name, vm.Status, "down")
		check.Equal(t, "comment of "+vm.Name, vm.Comment, "")
		check.Length(t, "tags of "+vm.Name, vm.Tags, 1)
	}
}
