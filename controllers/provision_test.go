package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/poolvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// template creates an OLVMMachineTemplate of the site's machines. change may edit its spec.
func (p *pool) template(name string, change func(*infrav1.OLVMMachineSpec)) {
	p.T.Helper()
	out := &infrav1.OLVMMachineTemplate{ObjectMeta: p.NewMeta(name)}
	out.Spec.Template.Spec = p.MachineSpec()
	if change != nil {
		change(&out.Spec.Template.Spec)
	}

	p.Create(out)
}

// provision makes the inventory create these VMs.
func (p *pool) provision(provisions ...infrav1alpha1.InventoryProvision) {
	p.T.Helper()
	testsite.UpdateObject(p.Site, p.inventory, func(i *infrav1alpha1.OLVMInventory) { i.Spec.Provision = provisions })
}

// newProvision returns an inventory that creates count VMs from a template of small VMs.
func newProvision(t *testing.T, count int32) *pool {
	t.Helper()
	p := newPool(t)
	p.template("small", nil)
	p.provision(infrav1alpha1.InventoryProvision{Name: "small", MachineTemplateName: "small", Count: &count})

	return p
}

// available returns the phases of an inventory in which all of these VMs are available.
func available(names ...string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		out[name] = infrav1alpha1.InventoryVMAvailable
	}

	return out
}

// byName returns the engine's VMs by name.
func (p *pool) byName() map[string]ovirtsim.VMInfo {
	out := map[string]ovirtsim.VMInfo{}
	for _, vm := range p.Sim.ListVMs() {
		out[vm.Name] = vm
	}

	return out
}

// expectNoVMs waits until the engine has no VM, and the API server no state.
func (p *pool) expectNoVMs() {
	p.T.Helper()
	p.Eventually("the engine is empty", func() error {
		if left := p.Sim.ListVMs(); len(left) > 0 {
			return fmt.Errorf("left are %+v", left)
		}

		if left := p.ListStates(); len(left) > 0 {
			return fmt.Errorf("left are %d states", len(left))
		}

		return nil
	})
}

// TestAnInventoryProvisionsItsVMs (row 57) creates VMs of two flavors, one of each per host, with MAC addresses and
// addresses from ranges. It claims one and deletes the inventory: the claimed VM stays until its release.
func TestAnInventoryProvisionsItsVMs(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	one := int32(1)
	p.template("small", nil)
	p.template("large", func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.Memory = "8GB"
		spec.VirtualMachine.DataDisks = []infrav1.DataDisk{{Name: "data", Size: "1GB"}}
	})
	p.provision(
		infrav1alpha1.InventoryProvision{Name: "small", MachineTemplateName: "small", CountPerHost: &one,
			MACAddresses: []string{"56:6f:00:00:01:00-56:6f:00:00:01:0f"}},
		infrav1alpha1.InventoryProvision{Name: "large", MachineTemplateName: "large", CountPerHost: &one,
			MACAddresses: []string{"56:6f:00:00:02:00", "56:6f:00:00:02:02-56:6f:00:00:02:0f"}},
	)

	names := []string{
		"lab-large-host-1-0", "lab-large-host-2-0", "lab-large-host-3-0",
		"lab-small-host-1-0", "lab-small-host-2-0", "lab-small-host-3-0",
	}
	p.expectPhases(available(names...))
	p.ExpectCondition(p.inventory, infrav1.ProvisionedCondition, "True/Provisioned")
	check.Equal(t, "VMs", slices.Sorted(maps.Keys(p.byName())), names)
	p.expectSpread(names)

	m := p.machine("m-0", func(spec *infrav1.OLVMMachineSpec) {
		spec.FromInventory.Selector.MatchLabels = map[string]string{
			infrav1alpha1.InventoryLabelPrefix + "host": "host-2",
		}
	})
	p.ExpectProvisioned(m)
	check.Equal(t, "its VM", m.Spec.ProviderID, "olvm://"+p.byName()["lab-large-host-2-0"].ID)

	p.Delete(p.inventory)
	p.expectPhases(map[string]string{"lab-large-host-2-0": "Claimed m-0"})
	check.Equal(t, "VMs", slices.Collect(maps.Keys(p.byName())), []string{"lab-large-host-2-0"})
	check.Contains(t, "what the inventory waits for",
		p.ExpectCondition(p.inventory, infrav1.DeletingCondition, "True/WaitingForClaims"), "lab-large-host-2-0")
	p.ExpectProvisioned(m)

	p.Delete(m)
	p.ExpectGone(m)
	p.ExpectGone(p.inventory)
	p.expectNoVMs()
}

// expectSpread checks each VM: it is off and pinned to the host in its name. It has a MAC address from its flavor's
// range, and a unique address from the template.
func (p *pool) expectSpread(names []string) {
	p.T.Helper()
	macs, addresses := map[string]bool{}, map[string]bool{}

	for _, name := range names {
		vm := p.byName()[name]
		full, err := p.NewSession().FetchFullVM(p.T.Context(), engine.ID(vm.ID))
		check.Error(p.T, err, "")
		check.Equal(p.T, "power of "+name, full.Status, engine.VMDown)
		check.Equal(p.T, "user data of "+name, full.Initialization.CustomScript+full.Initialization.HostName, "")
		check.Contains(
			p.T, "comment of "+name, full.CommentText(), "capolvm inventory-vm="+p.Namespace+"/"+name+" uid=",
		)

		var object infrav1alpha1.OLVMInventoryVM
		check.Error(p.T, p.Client.Get(p.T.Context(), client.ObjectKey{Namespace: p.Namespace, Name: name}, &object), "")
		flavor, host := name[len("lab-"):len("lab-small")], strings.TrimSuffix(name[len("lab-small-"):], "-0")
		check.Equal(p.T, "host label of "+name, object.Labels[infrav1alpha1.InventoryLabelPrefix+"host"], host)

		nics, err := p.NewSession().ListNICs(p.T.Context(), engine.ID(vm.ID))
		check.Error(p.T, err, "")
		prefix := map[string]string{"small": "56:6f:00:00:01:0", "large": "56:6f:00:00:02:0"}[flavor]
		check.Contains(p.T, "MAC address of "+name, nics[0].MAC.Address, prefix)
		macs[nics[0].MAC.Address] = true
		address := full.Initialization.NICs.Items[0].IP.Address
		check.Contains(p.T, "address of "+name, address, "10.0.0.1")
		addresses[address] = true
	}

	check.Length(p.T, "MAC addresses", slices.Collect(maps.Keys(macs)), len(names))
	check.Length(p.T, "addresses", slices.Collect(maps.Keys(addresses)), len(names))
}

// expectNoMarks waits until no tag marks a VM as about to be deleted. Such a tag is deleted with its VM.
func (p *pool) expectNoMarks() {
	p.T.Helper()
	p.Eventually("the marks of deleted VMs are gone", func() error {
		tags, err := p.NewSession().ListTags(p.T.Context())
		if err != nil {
			return err
		}

		for _, tag := range tags {
			if strings.HasPrefix(tag.Name, "capolvm-deleting") {
				return fmt.Errorf("there is %s", tag.Name)
			}
		}

		return nil
	})
}

// TestProvisionedVMsAreKeptAtCount deletes VMs in the engine, and decreases and increases the count of the inventory.
func TestProvisionedVMsAreKeptAtCount(t *testing.T) {
	skipProved(t, "TestPlanProvision of internal/inventory")
	t.Parallel()
	p := newProvision(t, 2)
	p.expectPhases(available("lab-small-0", "lab-small-1"))
	lost := p.byName()["lab-small-0"].ID
	check.Error(t, p.NewSession().DeleteVM(t.Context(), engine.ID(lost)), "")
	wake(p)
	p.Eventually("another VM", func() error {
		if now := p.byName()["lab-small-0"].ID; now == "" || now == lost {
			return fmt.Errorf("it is %q", now)
		}

		return nil
	})
	p.expectPhases(available("lab-small-0", "lab-small-1"))

	p.inventory.Spec.Provision[0].Count = new(int32(1))
	p.provision(p.inventory.Spec.Provision...)
	p.expectPhases(available("lab-small-0"))

	p.inventory.Spec.Provision[0].Count = new(int32(2))
	p.provision(p.inventory.Spec.Provision...)
	p.expectPhases(available("lab-small-0", "lab-small-1"))

	p.provision()
	p.expectNoVMs()
	p.expectNoMarks()
	p.Eventually("the condition is gone", func() error {
		check.Error(t, p.Client.Get(t.Context(), client.ObjectKeyFromObject(p.inventory), p.inventory), "")

		for _, c := range p.inventory.Status.Conditions {
			if c.Type == infrav1.ProvisionedCondition {
				return fmt.Errorf("it is %s", c.Reason)
			}
		}

		return nil
	})
}

// TestAProvisionedVMIsMadeAgainAfterItsMachine verifies that no machine boots from the disk of another machine.
func TestAProvisionedVMIsMadeAgainAfterItsMachine(t *testing.T) {
	t.Parallel()
	p := newProvision(t, 1)
	p.expectPhases(available("lab-small-0"))
	first := p.byName()["lab-small-0"].ID
	m := p.machine("m-0", nil)
	p.ExpectProvisioned(m)
	check.Equal(t, "provider ID", m.Spec.ProviderID, "olvm://"+first)
	p.Delete(m)
	p.ExpectGone(m)
	p.Eventually("another VM", func() error {
		if now := p.byName()["lab-small-0"].ID; now == "" || now == first {
			return fmt.Errorf("it is %q", now)
		}

		return nil
	})
	p.expectPhases(available("lab-small-0"))
	p.expectNoMarks()
}

// TestAPoolThatIsMovedAwayIsNotListedAgain deletes the objects of an inventory in the source cluster of clusterctl
// move. The Cluster is deleted before the inventory, so a pass may find VMs without objects. It must not create these
// objects again. clusterctl move removes finalizers after the deletion. The manager must not add them again.
func TestAPoolThatIsMovedAwayIsNotListedAgain(t *testing.T) {
	t.Parallel()
	p := newProvision(t, 1)
	p.expectPhases(available("lab-small-0"))
	cluster := &clusterv1.Cluster{ObjectMeta: p.NewMeta(p.OLVM.Name)}
	testsite.UpdateObject(p.Site, cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	p.ExpectCondition(p.inventory, infrav1.ProvisionedCondition, "False/WaitingForMove")

	release := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	vm := &infrav1alpha1.OLVMInventoryVM{ObjectMeta: p.NewMeta("lab-small-0")}

	for _, moved := range []struct{ object, seenBy client.Object }{{vm, vm}, {cluster, p.OLVM}} {
		check.Error(t, p.Client.Patch(t.Context(), moved.object, release), "")
		letPass(t, moved.seenBy) // nothing restores the finalizers
		letPass(t, p.inventory)
		check.Error(t, client.IgnoreNotFound(p.Client.Delete(t.Context(), moved.object)), "")
		p.ExpectGone(moved.object)
	}

	letPass(t, p.inventory)
	check.Equal(t, "VMs that are listed", p.phases(), map[string]string{})
	check.Length(t, "VMs of the engine", p.Sim.ListVMs(), 1)
}

// TestProvisionedVMsOfAnotherTemplate verifies that unclaimed VMs are replaced after a change of the template.
func TestProvisionedVMsOfAnotherTemplate(t *testing.T) {
	skipProved(t, "TestPlanProvision of internal/inventory")
	t.Parallel()
	p := newProvision(t, 2)
	p.expectPhases(available("lab-small-0", "lab-small-1"))
	m := p.machine("m-0", nil)
	p.ExpectProvisioned(m)
	p.template("other", func(spec *infrav1.OLVMMachineSpec) { spec.VirtualMachine.Memory = "8GB" })
	p.inventory.Spec.Provision[0].MachineTemplateName = "other"
	p.provision(p.inventory.Spec.Provision...)

	p.expectMemory("lab-small-1", 8)
	p.expectMemory("lab-small-0", 4)
	p.expectPhases(map[string]string{"lab-small-0": "Claimed m-0", "lab-small-1": "Available"})
	p.Delete(m)
	p.ExpectGone(m)
	p.expectMemory("lab-small-0", 8)
}

// expectMemory waits until a VM has this much memory, in GiB.
func (p *pool) expectMemory(name string, want int64) {
	p.T.Helper()
	p.Eventually("memory of "+name, func() error {
		vm, err := p.NewSession().FetchVM(context.Background(), engine.ID(p.byName()[name].ID))
		if err == nil && *vm.Memory>>30 != want {
			err = fmt.Errorf("it is %d", *vm.Memory)
		}

		return err
	})
}

// TestProvisionSaysWhatIsWrong covers conditions that name the invalid field, and the progress after its correction.
func TestProvisionSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	p.template("claims", func(spec *infrav1.OLVMMachineSpec) {
		*spec = infrav1.OLVMMachineSpec{FromInventory: &infrav1.FromInventory{InventoryName: "lab"}}
	})
	p.template("mac", func(spec *infrav1.OLVMMachineSpec) { spec.OLVMNetwork.MACAddress = "56:6f:00:00:01:00" })
	p.template("wrong", func(spec *infrav1.OLVMMachineSpec) { spec.VMTemplateName = "ol9-k9s" })
	p.template("small", nil)

	for _, c := range []struct {
		provision infrav1alpha1.InventoryProvision
		want      string
		message   string
	}{
		{infrav1alpha1.InventoryProvision{MachineTemplateName: "none"}, "False/MachineTemplateNotFound",
			`spec.provision[0].machineTemplateName: there is no OLVMMachineTemplate "none"`},
		{infrav1alpha1.InventoryProvision{MachineTemplateName: "claims"}, "False/ProvisionInvalid",
			"OLVMMachineTemplate claims spec.template.spec.fromInventory: a VM of a pool is created"},
		{infrav1alpha1.InventoryProvision{MachineTemplateName: "mac"}, "False/ProvisionInvalid",
			"OLVMMachineTemplate mac spec.template.spec.olvmNetwork.macAddress: all VMs of the template"},
		{infrav1alpha1.InventoryProvision{MachineTemplateName: "small", MACAddresses: []string{"56:6f:00:00:01:00"}},
			"False/MACAddressesExhausted", "spec.provision[0].macAddresses: all MAC addresses of 56:6f:00:00:01:00"},
		{infrav1alpha1.InventoryProvision{MachineTemplateName: "wrong"}, "False/ProvisionFailed",
			"OLVMMachineTemplate wrong spec.template.spec.vmTemplateName: "},
		{infrav1alpha1.InventoryProvision{MachineTemplateName: "small"}, "True/Provisioned", ""},
	} {
		c.provision.Name, c.provision.Count = "small", new(int32(2))
		p.provision(c.provision)
		p.Eventually("the condition says "+c.message, func() error {
			got := p.ExpectCondition(p.inventory, infrav1.ProvisionedCondition, c.want)
			if !strings.Contains(got, c.message) {
				return fmt.Errorf("it says %q", got)
			}

			return nil
		})
	}

	p.expectPhases(available("lab-small-0", "lab-small-1"))
}

// TestAProvisionedVMThatOthersHaveStays covers a VM that another management cluster has claimed in the engine. The VM
// does not count as surplus. A deletion of its object deletes the VM only after the claim ends.
func TestAProvisionedVMThatOthersHaveStays(t *testing.T) {
	t.Parallel()
	p := newProvision(t, 1)
	p.expectPhases(available("lab-small-0"))
	id := engine.ID(p.byName()["lab-small-0"].ID)
	tag, err := p.NewSession().CreateTag(t.Context(), &engine.Tag{
		Name:        inventory.TagName(id),
		Description: `{"id":"theirs","namespace":"other","cluster":"c","role":"Worker","group":"MachineSet/g"}`,
	})
	check.Error(t, err, "")
	check.Error(t, p.NewSession().TagVM(t.Context(), id, tag.ID), "")
	p.inventory.Spec.Provision[0].Count = new(int32(0))
	p.provision(p.inventory.Spec.Provision...)
	p.expectPhases(map[string]string{"lab-small-0": "Ineligible/ClaimedByAnother"})

	object := &infrav1alpha1.OLVMInventoryVM{ObjectMeta: p.NewMeta("lab-small-0")}
	p.Delete(object)
	check.Contains(t, "why it stays", p.ExpectCondition(object, infrav1.DeletingCondition, "True/DeletionBlocked"),
		"cluster other/c claims it")
	check.Equal(t, "the VM", p.byName()["lab-small-0"].ID, id.String())

	check.Error(t, p.NewSession().DeleteTag(t.Context(), tag.ID), "")
	p.ExpectGone(object)
	p.expectNoVMs()
}

// TestProvisionLeavesVMsOfOthersAlone covers VMs of others with the names that the inventory would use next. The
// inventory uses other names.
func TestProvisionLeavesVMsOfOthersAlone(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	foreign := poolvm.CreateVM(t, p.NewSession(), "foreign", "lab-small-0", "")
	p.template("small", nil)
	p.provision(infrav1alpha1.InventoryProvision{Name: "small", MachineTemplateName: "small", Count: new(int32(2))})
	p.expectPhases(available("lab-small-1", "lab-small-2"))
	p.Delete(p.inventory)
	p.ExpectGone(p.inventory)
	left := p.byName()
	check.Equal(t, "left", slices.Collect(maps.Keys(left)), []string{"lab-small-0"})
	check.Equal(t, "the VM", left["lab-small-0"].ID, foreign.String())
}

// TestAHalfMadeVMThatIsDeletedIsMadeAgain deletes the VM of a failed run in the engine.
func TestAHalfMadeVMThatIsDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	p.template("small", nil)
	check.Error(t, p.Sim.Inject(ovirtsim.Fault{Method: "POST", Path: "/nics$", Status: 409, Count: 1000}), "")
	p.provision(infrav1alpha1.InventoryProvision{Name: "small", MachineTemplateName: "small", Count: new(int32(1))})
	p.ExpectCondition(p.inventory, infrav1.ProvisionedCondition, "False/ProvisionFailed")
	first := p.byName()["lab-small-0"].ID
	check.Error(t, p.NewSession().DeleteVM(t.Context(), engine.ID(first)), "")
	p.Sim.ClearFaults()
	p.expectPhases(available("lab-small-0"))
	check.Equal(t, "it is another one", p.byName()["lab-small-0"].ID != first, true)
	check.Length(t, "VMs", p.Sim.ListVMs(), 1)
	p.provision()
	p.expectNoVMs()
}
