package reliability

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/poolvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// newPoolBench returns a bench with a pool of two VMs for machines.
func newPoolBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, withoutGroups)
	b.live = b.poolLife

	for i := range 2 {
		poolvm.CreateVM(t, b.site.NewSession(), poolvm.Tag, fmt.Sprintf("vm-%d", i), ownAddress)
	}

	b.site.Create(poolvm.NewInventory(b.site.OLVM, "lab"))
	b.expectFreePool(t)

	return b
}

// ownAddress is the address of the pool's VMs while no machine uses them.
const ownAddress = "10.0.0.200"

// provisioned creates an inventory with one VM. This VM needs every kind of call. It has two network interfaces, a
// larger root disk, a data disk and a MAC address from a range.
func (b *bench) provisioned(t *testing.T, name string) *infrav1alpha1.OLVMInventory {
	t.Helper()
	s := b.site.ForSubtest(t)
	template := &infrav1.OLVMMachineTemplate{ObjectMeta: s.NewMeta(name + "-t")}
	template.Spec.Template.Spec = s.MachineSpec()
	full(&template.Spec.Template.Spec)
	template.Spec.Template.Spec.VirtualMachine.Network = s.MachineSpec().VirtualMachine.Network
	s.Create(template)

	out := poolvm.NewInventory(s.OLVM, name)
	out.Spec.Provision = []infrav1alpha1.InventoryProvision{{
		Name: "vm", MachineTemplateName: template.Name, Count: new(int32(1)),
		MACAddresses: []string{"56:6f:00:00:01:00-56:6f:00:00:01:ff"},
	}}
	s.Create(out)

	return out
}

// expectProvisioned waits until the VM of an inventory is available, and checks everything that belongs to the VM.
func (b *bench) expectProvisioned(s *testsite.Site, lab *infrav1alpha1.OLVMInventory) {
	s.T.Helper()
	vm := &infrav1alpha1.OLVMInventoryVM{ObjectMeta: s.NewMeta(lab.Name + "-vm-0")}
	s.Eventually("the VM is available", func() error {
		err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(vm), vm)
		if err == nil && vm.Status.Phase != infrav1alpha1.InventoryVMAvailable {
			err = fmt.Errorf("it is %s %s %s", vm.Status.Phase, vm.Status.Reason, vm.Status.Message)
		}

		return err
	})

	vms := s.Sim.ListVMs()
	if len(vms) != 1 || vms[0].ID != vm.Spec.VMID || vms[0].Status != "down" || len(vms[0].Tags) != 1 ||
		len(vms[0].NICs) != 2 || len(vms[0].Disks) != 2 {
		s.T.Fatalf("OLVMInventoryVM with %s, the engine has %+v", vm.Spec.VMID, vms)
	}

	if got := s.Sim.Summarize(); got.NICs != 2 || got.Disks != 2 {
		s.T.Errorf("the engine has %+v", got)
	}
}

// provisionLife creates an inventory with a VM, and deletes both.
func (b *bench) provisionLife(t *testing.T, name string) {
	t.Helper()
	s := b.site.ForSubtest(t)
	lab := b.provisioned(t, name)
	b.expectProvisioned(s, lab)
	s.Delete(lab)
	s.ExpectGone(lab)
	b.expectNone(s)
}

// TestCrashMatrixOfAProvision interrupts each call that creates or deletes a VM for a pool. It kills the manager or
// Terraform, or cuts the connection. At first there must be exactly one VM, and later nothing of it may be left. The
// matrix of a machine covers network interfaces and disks, because the run is the same.
func TestCrashMatrixOfAProvision(t *testing.T) {
	testenv.SkipInShort(t, "kills a manager at each call that makes VMs of a pool")
	crashMatrix(t, func(t *testing.T) *bench {
		t.Helper()
		b := newBench(t, withoutGroups)
		b.live = b.provisionLife

		return b
	}, func(c call) bool {
		for _, other := range []string{"GET ", "/status", "/sso/", "/nics", "disk"} {
			if strings.Contains(c.name, other) {
				return false
			}
		}

		return c.nth == 1 || c.nth == 2 && !strings.Contains(c.name, "secrets")
	})
}

// TestAPoolMovesWithItsCluster moves a namespace to another management plane with clusterctl. The namespace contains an
// inventory with a created VM, and a machine that uses this VM. During the move, nothing is created, stopped or
// deleted. In the new plane, the VM is returned and created again. Everything disappears with the inventory.
func TestAPoolMovesWithItsCluster(t *testing.T) {
	testenv.SkipInShort(t, "moves a namespace between two management planes")
	t.Parallel()
	here, there := planes(t)
	lab := here.provisioned(t, "lab")
	here.expectProvisioned(here.site, lab)
	m := here.site.CreateMachine("one", pooled)
	here.settle(here.site, m)
	vm := m.Spec.ProviderID

	here.move(t, there)
	moved := m.DeepCopy()
	there.play(there.site, m.Name)
	there.expectReady(there.site, moved)
	check.Equal(t, "provider ID", moved.Spec.ProviderID, vm)
	there.letPass(t, there.api.Client, moved)
	there.letPass(t, there.api.Client, &infrav1alpha1.OLVMInventory{ObjectMeta: there.site.NewMeta(lab.Name)})
	there.expectUntouched(t)
	there.expectClaimed(t, "lab-vm-0", m.Name)
	here.expectNoPool(t)

	there.site.Delete(moved)
	there.site.ExpectGone(moved)
	there.site.Eventually("another VM", func() error {
		if vms := there.site.Sim.ListVMs(); len(vms) != 1 || "olvm://"+vms[0].ID == vm {
			return fmt.Errorf("the engine has %+v", vms)
		}

		return nil
	})
	there.expectProvisioned(there.site, lab)
	there.site.Delete(lab)
	there.site.ExpectGone(lab)
	there.expectNone(there.site)
}

// expectClaimed waits until a machine has claimed a VM of the pool, both in Kubernetes and in the engine.
func (p *plane) expectClaimed(t *testing.T, name, machine string) {
	t.Helper()
	vm := &infrav1alpha1.OLVMInventoryVM{ObjectMeta: p.site.NewMeta(name)}
	p.site.ForSubtest(t).Eventually("the claim is confirmed", func() error {
		err := p.site.Client.Get(context.Background(), client.ObjectKeyFromObject(vm), vm)
		if err == nil && (vm.Spec.ClaimRef == nil || vm.Spec.ClaimRef.MachineName != machine ||
			vm.Status.Phase != infrav1alpha1.InventoryVMClaimed || vm.Status.Reason != "") {
			err = fmt.Errorf("it is %s %s %s %+v", vm.Status.Phase, vm.Status.Reason, vm.Status.Message, vm.Spec.ClaimRef)
		}

		return err
	})
}

// expectNoPool fails if a plane still has objects of an inventory.
func (p *plane) expectNoPool(t *testing.T) {
	t.Helper()

	for _, list := range []client.ObjectList{
		&infrav1alpha1.OLVMInventoryList{}, &infrav1alpha1.OLVMInventoryVMList{}, &infrav1.OLVMMachineTemplateList{},
		&corev1.SecretList{},
	} {
		err := p.api.Client.List(t.Context(), list, client.InNamespace(p.site.Namespace))
		check.Error(t, err, "")

		if n := meta.LenList(list); n != 0 {
			t.Errorf("%d objects of %T are left", n, list)
		}
	}
}

// pooled requests a VM from the pool, with static addresses.
func pooled(spec *infrav1.OLVMMachineSpec) {
	network := spec.VirtualMachine.Network
	*spec = infrav1.OLVMMachineSpec{
		FromInventory:  &infrav1.FromInventory{InventoryName: "lab"},
		VirtualMachine: infrav1.VirtualMachine{Network: network},
	}
}

// poolLife is the life of a machine whose VM comes from the pool.
func (b *bench) poolLife(t *testing.T, name string) {
	t.Helper()
	s := b.site.ForSubtest(t)
	m := s.CreateMachine(name, pooled)
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
	if left := s.ListStates(); len(left) != 0 {
		t.Errorf("left of states: %d", len(left))
	}
}

// poolVMs returns the VMs of the engine.
func (b *bench) poolVMs() []ovirtsim.VMInfo { return b.site.Sim.ListVMs() }

// expectFreePool waits until both VMs of the pool are free. Then it verifies in the engine that no VM is lost or left
// from a rebuild, that each VM has one disk, and that nothing mentions a claim.
func (b *bench) expectFreePool(t *testing.T) {
	t.Helper()
	s := b.site.ForSubtest(t)
	s.Eventually("both VMs are available", func() error {
		var list infrav1alpha1.OLVMInventoryVMList
		if err := s.Client.List(context.Background(), &list, client.InNamespace(s.Namespace)); err != nil {
			return err
		}

		for _, vm := range list.Items {
			if vm.Status.Phase != infrav1alpha1.InventoryVMAvailable || vm.Spec.ClaimRef != nil {
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

		full, err := s.NewSession().FetchFullVM(context.Background(), engine.ID(vm.ID))
		check.Error(t, err, "")
		own := full.Initialization
		if own == nil || own.NICs == nil || len(own.NICs.Items) != 1 || own.NICs.Items[0].IP == nil ||
			own.NICs.Items[0].IP.Address != ownAddress || own.CustomScript+own.HostName != "" {
			t.Errorf("a VM that nobody has is initialized with %+v", own)
		}
	}

	if got := s.Sim.Summarize().Disks; got != 2 {
		t.Errorf("the engine has %d disks", got)
	}

	tags, err := s.NewSession().ListTags(context.Background())
	check.Error(t, err, "")
	if at := slices.IndexFunc(tags, func(tag engine.Tag) bool {
		return strings.HasPrefix(tag.Name, "capolvm-claim-")
	}); at >= 0 {
		t.Errorf("left of claims: tag %s", tags[at].Name)
	}
}

// TestCrashMatrixOfAPool interrupts each call that claims, takes over, returns or rebuilds a VM of a pool. It kills the
// manager or cuts the connection. No VM may be claimed twice, lost or destroyed.
func TestCrashMatrixOfAPool(t *testing.T) {
	testenv.SkipInShort(t, "kills a manager at each call that claims VMs of a pool")
	crashMatrix(t, newPoolBench, func(c call) bool {
		// Each pass writes the status again. The matrix of a machine covers patches of the status.
		if strings.HasPrefix(c.name, "GET ") || strings.HasSuffix(c.name, "/status") || c.nth > 4 {
			return false
		}

		return strings.Contains(c.name, "olvminventoryvms") || c.name == "PATCH olvmmachines" || strings.HasPrefix(c.name, "POST /tags") ||
			strings.HasPrefix(c.name, "DELETE ") || strings.Contains(c.name, "/vms") || strings.Contains(c.name, "/disks")
	})
}

// TestAMachineOfAnInventoryIsDeletedWhenTheEngineIsBack (row 56) deletes a machine and its inventory while the engine
// is unreachable. Both deletions must complete when the engine is back, and the VM stays.
func TestAMachineOfAnInventoryIsDeletedWhenTheEngineIsBack(t *testing.T) {
	t.Parallel()
	b := newPoolBench(t)
	m := b.site.CreateMachine("one", pooled)
	b.expectReady(b.site, m)
	b.engine.cut(all)
	b.site.Delete(m)
	b.site.ExpectCondition(m, infrav1.DeletingCondition, "True/UnableToDecommission")

	pool := &infrav1alpha1.OLVMInventory{ObjectMeta: metav1.ObjectMeta{Namespace: b.site.Namespace, Name: "lab"}}
	b.site.Delete(pool)
	b.site.ExpectCondition(pool, infrav1.DeletingCondition, "True/UnableToDecommission")
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
