package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	inventorycontroller "github.com/capolvm/cluster-api-provider-olvm/controllers/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/enginepool"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/poolvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// pool is a site with VMs tagged pool in its engine, and an OLVMInventory of these VMs.
type pool struct {
	*testsite.Site
	inventory *infrav1alpha1.OLVMInventory
	ids       map[string]engine.ID
}

// newPool creates an inventory of VMs with these names.
func newPool(t *testing.T, names ...string) *pool {
	t.Helper()

	p := &pool{Site: testsite.New(t, suite.client, testsite.Options{}), ids: map[string]engine.ID{}}
	for _, name := range names {
		p.addVM(name)
	}

	p.inventory = poolvm.NewInventory(p.OLVM, "lab")
	p.Create(p.inventory)
	t.Cleanup(func() { forget(p.inventory) })

	return p
}

// forget deletes an inventory without waiting for its controller, because its engine ends with the test.
func forget(lab *infrav1alpha1.OLVMInventory) {
	_ = suite.client.Patch(context.Background(), lab,
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	_ = suite.client.Delete(context.Background(), lab)
}

// addVM creates a VM of the inventory, with its own network configuration.
func (p *pool) addVM(name string) {
	p.T.Helper()
	p.ids[name] = poolvm.CreateVM(p.T, p.NewSession(), poolvm.Tag, name, fmt.Sprintf("10.0.0.%d", 100+len(p.ids)))
}

// machine creates a machine with a VM from the inventory. change may edit its spec.
func (p *pool) machine(name string, change func(*infrav1.OLVMMachineSpec)) *infrav1.OLVMMachine {
	p.T.Helper()

	return p.CreateMachine(name, func(spec *infrav1.OLVMMachineSpec) {
		*spec = infrav1.OLVMMachineSpec{FromInventory: &infrav1.FromInventory{InventoryName: "lab"}}
		if change != nil {
			change(spec)
		}
	})
}

// phases returns the phases of the inventory's VMs by name, each with its machine.
func (p *pool) phases() map[string]string {
	var list infrav1alpha1.OLVMInventoryVMList
	if err := p.Client.List(context.Background(), &list, client.InNamespace(p.Namespace)); err != nil {
		return map[string]string{"error": err.Error()}
	}

	out := map[string]string{}

	for _, vm := range list.Items {
		text := vm.Status.Phase
		if vm.Status.Reason != "" {
			text += "/" + vm.Status.Reason
		}

		if claim := vm.Spec.ClaimRef; claim != nil {
			text += " " + claim.MachineName
		}

		out[vm.Name] = text
	}

	return out
}

func (p *pool) expectPhases(want map[string]string) {
	p.T.Helper()
	p.Eventually("phases of the VMs", func() error {
		if got := p.phases(); !maps.Equal(got, want) {
			return fmt.Errorf("they are %v, want %v", got, want)
		}

		return nil
	})
}

// disk returns the root disk of a VM of the inventory.
func (p *pool) disk(name string) engine.ID {
	p.T.Helper()
	attached, err := p.NewSession().ListDiskAttachments(context.Background(), p.ids[name])
	check.Error(p.T, err, "")
	check.Length(p.T, "disks of "+name, attached, 1)

	return attached[0].DiskID()
}

// TestAMachineTakesAVMFromAnInventoryAndGivesItBack (row 48) claims a VM from an inventory, runs on it, and returns it
// with a new disk.
func TestAMachineTakesAVMFromAnInventoryAndGivesItBack(t *testing.T) {
	t.Parallel()
	p := newPool(t, "vm-a", "vm-b")
	p.expectPhases(map[string]string{"vm-a": "Available", "vm-b": "Available"})
	before := p.disk("vm-a")
	_, err := p.NewSession().UpdateVM(t.Context(), p.ids["vm-a"], &engine.VM{
		Initialization: &engine.Initialization{HostName: "lab-a", CustomScript: "#cloud-config\nof: the lab\n"},
	})
	check.Error(t, err, "")
	m := p.machine("m-0", nil)

	p.ExpectCondition(m, infrav1.VirtualMachineClaimedCondition, "True/VirtualMachineClaimed")
	p.ExpectCondition(m, infrav1.VirtualMachineRunningCondition, "True/VirtualMachineRunning")
	p.ExpectProvisioned(m)
	check.Equal(t, "provider ID", m.Spec.ProviderID, "olvm://"+p.ids["vm-a"].String())
	check.Equal(t, "address", m.Status.OLVM.IPAddress, "10.0.0.100")
	p.expectPhases(map[string]string{"vm-a": "Claimed m-0", "vm-b": "Available"})

	vm, err := p.NewSession().FetchFullVM(t.Context(), p.ids["vm-a"])
	check.Error(t, err, "")
	check.Equal(t, "host name", vm.Initialization.HostName, "m-0")
	check.Contains(t, "user data", vm.Initialization.CustomScript, "#cloud-config")
	check.Equal(t, "network configuration", vm.Initialization.NICs.Items[0].IP.Address, "10.0.0.100")
	check.Contains(t, "comment", vm.CommentText(), "capolvm owner="+p.Namespace+"/m-0 uid=")

	p.Delete(m)
	p.ExpectGone(m)
	p.expectPhases(map[string]string{"vm-a": "Available", "vm-b": "Available"})
	vm, err = p.NewSession().FetchFullVM(t.Context(), p.ids["vm-a"])
	check.Error(t, err, "")
	check.Equal(t, "power", vm.Status, engine.VMDown)
	check.Equal(t, "comment", vm.CommentText(), "")
	check.Equal(t, "host name", vm.Initialization.HostName, "lab-a")
	check.Equal(t, "user data", vm.Initialization.CustomScript, "#cloud-config\nof: the lab\n")
	check.Equal(t, "network configuration", vm.Initialization.NICs.Items[0].IP.Address, "10.0.0.100")
	check.Equal(t, "it has another disk", p.disk("vm-a") != before, true)
	tags, err := p.NewSession().ListVMTags(t.Context(), p.ids["vm-a"])
	check.Error(t, err, "")
	check.Length(t, "tags", tags, 1)

	// The VM has booted before. Still, its guest boots with the user data of the next machine.
	again := p.machine("m-1", nil)
	p.ExpectProvisioned(again)
	check.Equal(t, "provider ID", again.Spec.ProviderID, m.Spec.ProviderID)
}

// TestAGroupClaimsNothingUntilAllItsVMsAreThere (row 45) covers a group of three machines and an inventory of two VMs.
// The group claims no VM before there is a third.
func TestAGroupClaimsNothingUntilAllItsVMsAreThere(t *testing.T) {
	t.Parallel()
	p := newPool(t, "vm-a", "vm-b")
	set := &clusterv1.MachineSet{ObjectMeta: p.NewMeta("workers"), Spec: clusterv1.MachineSetSpec{
		ClusterName: "demo", Replicas: new(int32(3)),
		Selector: metav1.LabelSelector{MatchLabels: map[string]string{"set": "workers"}},
		Template: clusterv1.MachineTemplateSpec{
			ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"set": "workers"}},
			Spec: clusterv1.MachineSpec{
				ClusterName: "demo", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("none")},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{
					APIGroup: infrav1.GroupVersion.Group, Kind: "OLVMMachineTemplate", Name: "none",
				},
			},
		},
	}}
	p.Create(set)
	p.Maker = metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind("MachineSet"))

	var machines []*infrav1.OLVMMachine
	for i := range 3 {
		machines = append(machines, p.machine(fmt.Sprintf("w-%d", i), nil))
	}

	for _, m := range machines {
		message := p.ExpectCondition(m, infrav1.VirtualMachineClaimedCondition, "False/Unschedulable")
		check.Contains(t, "message", message,
			"Worker MachineSet/workers of cluster demo needs 3 more VMs, but 2 can be claimed")
	}

	p.expectPhases(map[string]string{"vm-a": "Available", "vm-b": "Available"})
	p.ExpectCondition(p.inventory, infrav1.ScheduledCondition, "False/Unschedulable")
	p.addVM("vm-c")
	wake(p)

	for _, m := range machines {
		p.ExpectProvisioned(m)
	}

	p.expectPhases(map[string]string{"vm-a": "Claimed w-0", "vm-b": "Claimed w-1", "vm-c": "Claimed w-2"})
	p.ExpectCondition(p.inventory, infrav1.ScheduledCondition, "True/Scheduled")
	check.Equal(t, "counts", p.inventory.Status.Claimed, int32(3))
}

// wake starts a pass for the inventory at once, instead of within 30 seconds.
func wake(p *pool) {
	p.T.Helper()
	testsite.UpdateObject(p.Site, p.inventory, func(i *infrav1alpha1.OLVMInventory) {
		i.Annotations = map[string]string{"look": "again"}
	})
}

// TestAVMWithoutAnAddressIsPassedOver (row 46) covers machines that need an address on a network. The scheduler skips a
// VM without one, records an event, and claims another VM.
func TestAVMWithoutAnAddressIsPassedOver(t *testing.T) {
	t.Parallel()
	p := newPool(t, "vm-a", "vm-b", "vm-c")
	_, err := p.NewSession().UpdateVM(t.Context(), p.ids["vm-a"], &engine.VM{Initialization: &engine.Initialization{}})
	check.Error(t, err, "")
	m := p.machine("m-0", func(spec *infrav1.OLVMMachineSpec) { spec.FromInventory.NetworkName = "kvm-vlan" })
	p.ExpectProvisioned(m)
	p.expectPhases(map[string]string{
		"vm-a": "Ineligible/NoAddress", "vm-b": "Claimed m-0", "vm-c": "Available",
	})
	p.Eventually("the event", func() error {
		var events corev1.EventList
		if err := p.Client.List(t.Context(), &events, client.InNamespace(p.Namespace)); err != nil {
			return err
		}

		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == inventory.ReasonNoAddress && e.InvolvedObject.Name == "vm-a" &&
				strings.Contains(e.Message, "kvm-vlan")
		}) {
			return fmt.Errorf("there is none among %d", len(events.Items))
		}

		return nil
	})
}

// TestAMachineSaysWhereItsVMComesFrom (row 42) verifies that the API server rejects machines with settings for both an
// inventory VM and a new VM. It also rejects a change of the VM's source.
func TestAMachineSaysWhereItsVMComesFrom(t *testing.T) {
	s := newSite(t, nil)
	pooled := infrav1.OLVMMachineSpec{FromInventory: &infrav1.FromInventory{InventoryName: "lab"}}
	made := s.MachineSpec()

	for name, c := range map[string]struct {
		spec infrav1.OLVMMachineSpec
		want string
	}{
		"neither": {infrav1.OLVMMachineSpec{VMTemplateName: "t"}, "or fromInventory for one of a pool"},
		"both": {func() infrav1.OLVMMachineSpec {
			both := made
			both.FromInventory = pooled.FromInventory

			return both
		}(), "remove vmTemplateName"},
		"memory": {func() infrav1.OLVMMachineSpec {
			out := pooled
			out.VirtualMachine.Memory = "4GB"

			return out
		}(), "only network and shutdown can be set"},
		"tags": {func() infrav1.OLVMMachineSpec {
			out := pooled
			out.VirtualMachine.Tags = []string{"a"}

			return out
		}(), "only network and shutdown can be set"},
		"no inventory": {infrav1.OLVMMachineSpec{FromInventory: &infrav1.FromInventory{TopologyKey: "a"}},
			"spec.fromInventory.inventoryName"},
		"a VM that is made": {made, ""},
		"a VM of a pool":    {pooled, ""},
		"network of its own": {infrav1.OLVMMachineSpec{
			FromInventory:  pooled.FromInventory,
			VirtualMachine: infrav1.VirtualMachine{Network: made.VirtualMachine.Network},
		}, ""},
	} {
		m := &infrav1.OLVMMachine{ObjectMeta: s.NewMeta("m"), Spec: c.spec}
		err := suite.client.Create(t.Context(), m, client.DryRunAll)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}

	m := &infrav1.OLVMMachine{ObjectMeta: s.NewMeta("m"), Spec: pooled}
	s.Create(m)
	m.Spec.FromInventory = &infrav1.FromInventory{InventoryName: "other"}
	check.Error(t, suite.client.Update(t.Context(), m, client.DryRunAll), "fromInventory is immutable")

	lab := poolvm.NewInventory(s.OLVM, "lab")
	s.Create(lab)
	t.Cleanup(func() { forget(lab) })
	other := lab.DeepCopy()
	other.Spec.VirtualMachines.Tag = "other"
	err := suite.client.Patch(t.Context(), other, client.MergeFrom(lab), client.DryRunAll)
	check.Error(t, err, "virtualMachines.tag are immutable")

	c := s.OLVM.DeepCopy()
	c.Spec.Standby = []infrav1.Standby{{Name: "a", Role: "Master", FromInventory: *pooled.FromInventory}}
	err = suite.client.Patch(t.Context(), c, client.MergeFrom(s.OLVM), client.DryRunAll)
	check.Error(t, err, `Unsupported value: "Master"`)
	check.Error(t, err, "spec.standby[0].count: Required value")
}

// TestAStandbyIsClaimedAndPoweredOff (row 49) reserves a standby VM. Later, a new machine gets this VM.
func TestAStandbyIsClaimedAndPoweredOff(t *testing.T) {
	t.Parallel()
	p := newPool(t, "vm-a", "vm-b")
	testsite.UpdateObject(p.Site, p.OLVM, func(c *infrav1.OLVMCluster) {
		c.Spec.Standby = []infrav1.Standby{{
			Name: "spare", Role: infrav1.RoleWorker, Count: new(int32(1)),
			FromInventory: infrav1.FromInventory{InventoryName: "lab"},
		}}
	})
	p.expectPhases(map[string]string{"vm-a": "Claimed ", "vm-b": "Available"})
	vm, err := p.NewSession().FetchVM(t.Context(), p.ids["vm-a"])
	check.Error(t, err, "")
	check.Equal(t, "power of the VM that is kept", vm.Status, engine.VMDown)
	tags, err := p.NewSession().ListVMTags(t.Context(), p.ids["vm-a"])
	check.Error(t, err, "")
	check.Length(t, "tags of the VM that is kept", tags, 2)

	m := p.machine("m-0", nil)
	p.ExpectProvisioned(m)
	p.expectPhases(map[string]string{"vm-a": "Claimed m-0", "vm-b": "Claimed "})

	p.Delete(m)
	p.ExpectGone(m)
	p.expectPhases(map[string]string{"vm-a": "Available", "vm-b": "Claimed "})
	check.Error(t, suite.client.Delete(t.Context(), p.OLVM), "")
	p.ExpectGone(p.OLVM)
	p.expectPhases(map[string]string{"vm-a": "Available", "vm-b": "Available"})
}

// TestASteadyInventoryWritesNothing (row 50) runs fifty passes for an unchanged inventory. They write neither to the
// engine nor to the API server.
func TestASteadyInventoryWritesNothing(t *testing.T) {
	t.Parallel()
	p := newPool(t, "vm-a", "vm-b")
	m := p.machine("m-0", nil)
	p.ExpectProvisioned(m)
	p.expectPhases(map[string]string{"vm-a": "Claimed m-0", "vm-b": "Available"})
	p.ExpectCondition(p.inventory, infrav1.ReadyCondition, "True/Ready")

	versions := func() map[string]string {
		var list infrav1alpha1.OLVMInventoryVMList
		check.Error(t, p.Client.List(t.Context(), &list, client.InNamespace(p.Namespace)), "")

		out := map[string]string{}
		for _, vm := range list.Items {
			out[vm.Name] = vm.ResourceVersion + " " + vm.Status.VMStatus
		}

		return out
	}

	r := &inventorycontroller.Reconciler{
		Client:    suite.client,
		APIReader: suite.client,
		Engines:   &enginepool.Registry{Reader: suite.client, Sessions: suite.sessions},
		Recorder:  events.NewFakeRecorder(1000),
	}
	look := func() error {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p.inventory)})

		return err
	}

	// The manager of the suite still writes, because vm-a is starting.
	p.Eventually("the last news of the VMs are written", func() error {
		if err := look(); err != nil {
			return err
		}

		list := versions()
		if !strings.HasSuffix(list["vm-a"], " up") || !strings.HasSuffix(list["vm-b"], " down") {
			return fmt.Errorf("the VMs are %v, want vm-a up and vm-b down", list)
		}

		return nil
	})

	before, changes := versions(), p.CountChanges()

	for range 50 {
		check.Error(t, look(), "")
	}

	check.Equal(t, "versions of the OLVMInventoryVMs", versions(), before)
	check.Equal(t, "changes in the engine", p.CountChanges(), changes)
	check.Equal(t, "generation observed", p.inventory.Status.Conditions[0].ObservedGeneration, p.inventory.Generation)
}

// TestAPausedInventorySaysSo covers the conditions of a paused inventory and of its VMs.
func TestAPausedInventorySaysSo(t *testing.T) {
	t.Parallel()
	p := newPool(t, "vm-a")
	p.ExpectCondition(p.inventory, infrav1.ReadyCondition, "True/Ready")
	p.ExpectCondition(p.inventory, clusterv1.PausedCondition, "False/NotPaused")

	vm := &infrav1alpha1.OLVMInventoryVM{}
	p.Eventually("the pool lists its VM", func() error {
		var list infrav1alpha1.OLVMInventoryVMList
		if err := p.Client.List(t.Context(), &list, client.InNamespace(p.Namespace)); err != nil {
			return err
		}

		if len(list.Items) != 1 {
			return fmt.Errorf("it has %d", len(list.Items))
		}

		vm = &list.Items[0]

		return nil
	})
	p.ExpectCondition(vm, infrav1.ReadyCondition, "True/"+infrav1alpha1.InventoryVMAvailable)

	paused := p.inventory.DeepCopy()
	testsite.UpdateObject(p.Site, paused, func(i *infrav1alpha1.OLVMInventory) {
		metav1.SetMetaDataAnnotation(&i.ObjectMeta, clusterv1.PausedAnnotation, "")
	})
	message := p.ExpectCondition(p.inventory, clusterv1.PausedCondition, "True/Paused")
	check.Contains(t, "the message", message, clusterv1.PausedAnnotation)

	testsite.UpdateObject(p.Site, paused, func(i *infrav1alpha1.OLVMInventory) {
		delete(i.Annotations, clusterv1.PausedAnnotation)
	})
	p.ExpectCondition(p.inventory, clusterv1.PausedCondition, "False/NotPaused")
}

// TestAnInventoryReportsEachReason (row 55) covers the reasons of inventories and their machines. e2e/reliability
// covers the reasons of an unreachable engine. Each condition carries the object's generation.
func TestAnInventoryReportsEachReason(t *testing.T) {
	t.Parallel()
	p := newPool(t, "vm-a")
	expect := func(o testsite.Object, condition, want string) {
		t.Helper()
		p.ExpectCondition(o, condition, want)
		p.Eventually(condition+" is of this generation", func() error {
			check.Error(t, p.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o), "")

			if got := conditions.Get(o, condition); got == nil || got.ObservedGeneration != o.GetGeneration() {
				return fmt.Errorf("it is %+v, and the object of generation %d", got, o.GetGeneration())
			}

			return nil
		})
	}

	expect(p.inventory, infrav1.ReadyCondition, "True/Ready")
	expect(p.inventory, infrav1.EngineAvailableCondition, "True/EngineAvailable")
	expect(p.inventory, infrav1.ScheduledCondition, "True/Scheduled")
	expect(p.inventory, infrav1.DeletingCondition, "False/NotDeleting")

	nowhere := p.machine("nowhere", func(spec *infrav1.OLVMMachineSpec) { spec.FromInventory.InventoryName = "none" })
	expect(nowhere, infrav1.VirtualMachineClaimedCondition, "False/InventoryNotFound")
	picky := p.machine("picky", func(spec *infrav1.OLVMMachineSpec) {
		spec.FromInventory.Selector.MatchLabels = map[string]string{"a": "b"}
	})
	expect(picky, infrav1.VirtualMachineClaimedCondition, "False/Unschedulable")
	expect(p.inventory, infrav1.ScheduledCondition, "False/Unschedulable")
	expect(p.inventory, infrav1.ReadyCondition, "False/Unschedulable")

	served := p.machine("served", nil)
	p.ExpectProvisioned(served)
	expect(served, infrav1.VirtualMachineClaimedCondition, "True/VirtualMachineClaimed")
	p.Delete(p.inventory)
	expect(p.inventory, infrav1.DeletingCondition, "True/WaitingForClaims")
	p.Delete(served)
	p.ExpectGone(served)
	p.ExpectGone(p.inventory)

	wrong := poolvm.NewInventory(p.OLVM, "wrong")
	wrong.Spec.OLVMDatacenterName = "None"
	p.Create(wrong)
	t.Cleanup(func() { forget(wrong) })
	expect(wrong, infrav1.EngineAvailableCondition, "False/DataCenterNotFound")
	expect(wrong, infrav1.ScheduledCondition, "Unknown/WaitingForEngine")
}

// TestClaimsOfMachinesThatAreGone covers claims of machines that no longer exist. An unused VM becomes available again.
// A VM with the machine's mark stays claimed until a user releases it.
func TestClaimsOfMachinesThatAreGone(t *testing.T) {
	t.Parallel()
	p := newPool(t, "vm-a", "vm-b")
	p.expectPhases(map[string]string{"vm-a": "Available", "vm-b": "Available"})
	comment := "capolvm owner=" + p.Namespace + "/ghost-b uid=gone"
	_, err := p.NewSession().UpdateVM(t.Context(), p.ids["vm-b"], &engine.VM{Comment: &comment})
	check.Error(t, err, "")

	for _, letter := range []string{"a", "b"} {
		vm := &infrav1alpha1.OLVMInventoryVM{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "vm-" + letter},
		}
		testsite.UpdateObject(p.Site, vm, func(vm *infrav1alpha1.OLVMInventoryVM) {
			vm.Spec.ClaimRef = &infrav1alpha1.InventoryClaim{
				ID: letter, ClusterName: "demo", Role: infrav1.RoleWorker, Group: "MachineSet/gone",
				MachineName: "ghost-" + letter,
			}
		})
	}

	p.expectPhases(map[string]string{"vm-a": "Available", "vm-b": "Claimed/ClaimantGone ghost-b"})
	disk := p.disk("vm-b")
	vm := &infrav1alpha1.OLVMInventoryVM{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "vm-b"}}
	err = p.Client.Patch(t.Context(), vm, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+infrav1alpha1.ReleaseClaimAnnotation+`":"b"}}}`)))
	check.Error(t, err, "")
	p.expectPhases(map[string]string{"vm-a": "Available", "vm-b": "Available"})
	check.Error(t, p.Client.Get(t.Context(), client.ObjectKeyFromObject(vm), vm), "")
	check.Equal(t, "the request is done", vm.Annotations[infrav1alpha1.ReleaseClaimAnnotation], "")
	check.Equal(t, "it has another disk", p.disk("vm-b") != disk, true)
}

// TestRetainedVMsStayAsTheyAre covers an inventory that retains the disks of former nodes.
func TestRetainedVMsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	p := newPool(t, "vm-a")
	testsite.UpdateObject(
		p.Site, p.inventory, func(i *infrav1alpha1.OLVMInventory) { i.Spec.Recycle = infrav1alpha1.RecycleRetain },
	)
	disk := p.disk("vm-a")
	m := p.machine("m-0", nil)
	p.ExpectProvisioned(m)
	p.Delete(m)
	p.ExpectGone(m)
	p.expectPhases(map[string]string{"vm-a": "Ineligible/Retained"})
	check.Equal(t, "disk", p.disk("vm-a"), disk)

	tags, err := p.NewSession().ListTagsNamed(t.Context(), "capolvm-retained")
	check.Error(t, err, "")
	check.Error(t, p.NewSession().UntagVM(t.Context(), p.ids["vm-a"], tags[0].ID), "")
	wake(p)
	p.expectPhases(map[string]string{"vm-a": "Available"})
}

// TestAClaimIsFoundAgainInTheEngine deletes the management cluster's record of a claim, as a restore from an older
// backup does. The machine keeps its VM, and nobody else gets it.
func TestAClaimIsFoundAgainInTheEngine(t *testing.T) {
	t.Parallel()
	p := newPool(t, "vm-a")
	m := p.machine("m-0", nil)
	p.ExpectProvisioned(m)
	p.expectPhases(map[string]string{"vm-a": "Claimed m-0"})

	vm := &infrav1alpha1.OLVMInventoryVM{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "vm-a"}}
	check.Error(t, p.Client.Get(t.Context(), client.ObjectKeyFromObject(vm), vm), "")
	lost := vm.UID
	check.Error(t, p.Client.Delete(t.Context(), vm), "") // first: an object in deletion accepts no new finalizer
	err := p.Client.Patch(t.Context(), vm, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null},"spec":{"claimRef":null}}`)))
	check.Error(t, err, "")
	p.Eventually("the claim to be found again", func() error {
		if err := p.Client.Get(t.Context(), client.ObjectKeyFromObject(vm), vm); err != nil {
			return err
		}

		claim := vm.Spec.ClaimRef
		if vm.UID == lost || claim == nil || claim.MachineName != "m-0" {
			return fmt.Errorf("%s has the claim %+v", vm.UID, claim)
		}

		return nil
	})
	p.expectPhases(map[string]string{"vm-a": "Claimed m-0"})

	now, err := p.NewSession().FetchVM(t.Context(), p.ids["vm-a"])
	check.Error(t, err, "")
	check.Equal(t, "power of the VM", now.Status, engine.VMUp)
	p.Delete(m)
	p.ExpectGone(m)
	p.expectPhases(map[string]string{"vm-a": "Available"})
}
