package machine

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// pooled makes the machine m take its VM from the inventory lab, and adds that inventory.
func (o *objects) pooled() *infrav1alpha1.OLVMInventory {
	lab := &infrav1alpha1.OLVMInventory{ObjectMeta: named("lab")}
	lab.Spec.OLVMOvirtAPIServer = o.olvmCluster.Spec.OLVMOvirtAPIServer
	o.more = append(o.more, lab)
	fromInventory(o.olvmMachine)

	return lab
}

// claimOf returns a claimed VM of an inventory. confirmed is the claim ID confirmed by the engine.
func claimOf(name, machine, confirmed string) *infrav1alpha1.OLVMInventoryVM {
	vm := &infrav1alpha1.OLVMInventoryVM{ObjectMeta: named(name), Spec: infrav1alpha1.OLVMInventoryVMSpec{VMID: vmID}}
	vm.Spec.ClaimRef = &infrav1alpha1.InventoryClaim{ID: "c1", MachineName: machine}
	vm.Status.ClaimID = confirmed

	return vm
}

// TestReconcileClaim covers the choice of the claimed VM, and whether the machine can use it yet.
func TestReconcileClaim(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*objects)
		claimed string
		reason  string
		after   time.Duration
	}{
		"a machine whose VM is made claims none": {
			func(o *objects) { o.more = append(o.more, claimOf("vm-a", "m", "c1/m")) }, "", "", 0,
		},
		"a claim that the engine has confirmed": {
			func(o *objects) { o.pooled(); o.more = append(o.more, claimOf("vm-a", "m", "c1/m")) }, "vm-a", "", 0,
		},
		"a claim that it has not": {
			func(o *objects) { o.pooled(); o.more = append(o.more, claimOf("vm-a", "m", "")) }, "vm-a",
			infrav1.WaitingForClaimReason, 0,
		},
		"a claim that it confirmed for another machine": {
			func(o *objects) { o.pooled(); o.more = append(o.more, claimOf("vm-a", "m", "c1/n")) }, "vm-a",
			infrav1.WaitingForClaimReason, 0,
		},
		"a VM that is in use needs no confirmation": {
			func(o *objects) {
				o.pooled()
				o.olvmMachine.Spec.ProviderID = providerID
				o.more = append(o.more, claimOf("vm-a", "m", ""))
			}, "vm-a", "", 0,
		},
		"the claim of another machine": {
			func(o *objects) { o.pooled(); o.more = append(o.more, claimOf("vm-a", "n", "c1/n")) }, "",
			infrav1.WaitingForClaimReason, steadyInterval,
		},
		"the claim of a machine of its name elsewhere": {
			func(o *objects) {
				o.pooled()
				claim := claimOf("vm-a", "m", "c1/m")
				claim.Namespace = "elsewhere"
				o.more = append(o.more, claim)
			}, "", infrav1.WaitingForClaimReason, steadyInterval,
		},
		"a claim that was released": {
			func(o *objects) {
				o.pooled()
				claim := claimOf("vm-a", "m", "c1/m")
				claim.Spec.ClaimRef.Released = true
				o.more = append(o.more, claim)
			}, "", infrav1.WaitingForClaimReason, steadyInterval,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tt.change)
			scope := b.scope()
			after, err := b.r.reconcileClaim(t.Context(), scope)
			check.Error(t, err, "")
			check.Equal(t, "when to look again", after, tt.after)
			check.Equal(t, "the VM", scope.claim.vmName(), tt.claimed)
			check.Equal(t, "the reason", reasonOf(scope.claim.err), tt.reason)
		})
	}
}

// reasonOf returns the reason of a blocker, or "" for nil.
func reasonOf(err *blocker.Error) string {
	if err == nil {
		return ""
	}

	return err.Reason
}

func TestClaimsThatCannotBeRead(t *testing.T) {
	b := newBench(t, func(o *objects) { o.pooled() })
	b.refuse("list", &infrav1alpha1.OLVMInventoryVMList{})
	_, err := b.r.reconcileClaim(t.Context(), b.scope())
	check.Error(t, err, "failed to list the OLVMInventoryVMs claimed by OLVMMachine m")

	b = newBench(t, func(o *objects) { o.pooled() })
	b.refuse("get", &infrav1alpha1.OLVMInventory{})
	_, err = b.r.reconcileClaim(t.Context(), b.scope())
	check.Error(t, err, "failed to get OLVMInventory ns/lab")
}

// TestWhyUnclaimed covers the reasons for a machine without a VM.
func TestWhyUnclaimed(t *testing.T) {
	short := infrav1alpha1.UnschedulableGroup{
		ClusterName: "demo", Role: "Worker", Group: "MachineSet/set", Wanted: 3, Found: 2, Message: "1 is retained",
	}
	ofSet := func(o *objects) {
		o.machine.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: "set", Controller: new(true)}}
	}

	for name, tt := range map[string]struct {
		change  func(o *objects, lab *infrav1alpha1.OLVMInventory)
		reason  string
		message string
	}{
		"it is to be given one": {
			func(*objects, *infrav1alpha1.OLVMInventory) {}, infrav1.WaitingForClaimReason,
			"Waiting for OLVMInventory lab to assign a VM",
		},
		"it had one": {
			func(o *objects, _ *infrav1alpha1.OLVMInventory) { o.olvmMachine.Spec.ProviderID = providerID }, "", "",
		},
		"its inventory does not exist": {
			func(o *objects, _ *infrav1alpha1.OLVMInventory) {
				o.olvmMachine.Spec.FromInventory.InventoryName = "lap"
			},
			infrav1.InventoryNotFoundReason,
			`spec.fromInventory.inventoryName: there is no OLVMInventory "lap" in namespace ns; create it, or correct ` +
				`the name`,
		},
		"its selector is none": {
			func(o *objects, _ *infrav1alpha1.OLVMInventory) {
				o.olvmMachine.Spec.FromInventory.Selector.MatchExpressions = []infrav1.LabelRule{
					{Key: "a", Operator: "Near"},
				}
			},
			infrav1.InventoryInvalidReason, "spec.fromInventory.selector: ",
		},
		"its inventory is of another engine": {
			func(_ *objects, lab *infrav1alpha1.OLVMInventory) {
				lab.Spec.OLVMOvirtAPIServer.ServerURL = "https://other.example.com/ovirt-engine"
			},
			infrav1.InventoryInvalidReason, "select an inventory of the same engine",
		},
		"the engine of the cluster is not known": {
			func(o *objects, lab *infrav1alpha1.OLVMInventory) {
				o.olvmCluster = nil
				lab.Spec.OLVMOvirtAPIServer.ServerURL = "https://other.example.com/ovirt-engine"
			},
			infrav1.WaitingForClaimReason, "Waiting for OLVMInventory lab",
		},
		"there are too few for its group": {
			func(o *objects, lab *infrav1alpha1.OLVMInventory) {
				ofSet(o)
				lab.Status.Unschedulable = []infrav1alpha1.UnschedulableGroup{short}
			},
			infrav1.UnschedulableReason,
			"Worker MachineSet/set of cluster demo needs 3 more VMs, but 2 can be claimed (1 is retained)",
		},
		"there are too few for another group": {
			func(_ *objects, lab *infrav1alpha1.OLVMInventory) {
				lab.Status.Unschedulable = []infrav1alpha1.UnschedulableGroup{short}
			},
			infrav1.WaitingForClaimReason, "Waiting for OLVMInventory lab",
		},
		"there are too few for a group of this name of another cluster": {
			func(o *objects, lab *infrav1alpha1.OLVMInventory) {
				ofSet(o)
				other := short
				other.ClusterName = "other"
				lab.Status.Unschedulable = []infrav1alpha1.UnschedulableGroup{other}
			},
			infrav1.WaitingForClaimReason, "Waiting for OLVMInventory lab",
		},
		"the group of a Machine that is gone is not known": {
			func(o *objects, lab *infrav1alpha1.OLVMInventory) {
				o.machine = nil
				lab.Status.Unschedulable = []infrav1alpha1.UnschedulableGroup{short}
			},
			infrav1.WaitingForClaimReason, "Waiting for OLVMInventory lab",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(o *objects) { tt.change(o, o.pooled()) })
			got, err := b.r.explainUnclaimed(t.Context(), b.scope())
			check.Error(t, err, "")
			check.Equal(t, "the reason", reasonOf(got), tt.reason)

			if got != nil {
				check.Contains(t, "the message", got.Error(), tt.message)
			}
		})
	}
}

// TestInGroup covers the names of groups. A group is a set of machines, or one machine of a set.
func TestInGroup(t *testing.T) {
	scope := &machineScope{machine: newObjects().machine, olvmMachine: newMachine("")}
	check.Equal(t, "of a Machine that nobody made", isInGroup(scope, "Machine/m"), true)

	scope.machine.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: "set", Controller: new(true)}}

	for group, want := range map[string]bool{
		"MachineSet/set":     true,
		"MachineSet/set/a/m": true,
		"MachineSet/set/m":   true,
		"MachineSet/set/a/n": false,
		"MachineSet/set-2":   false,
		"MachineSet/set-2/m": false,
		"MachineSet/setm":    false,
		"Machine/m":          false,
	} {
		check.Equal(t, group, isInGroup(scope, group), want)
	}
}

// TestClaimedVM verifies that a machine uses its claimed VM only after a phase has seen the VM with the machine's mark.
func TestClaimedVM(t *testing.T) {
	seen := &engine.VM{ID: vmID}

	pooled := newBench(t, func(o *objects) { o.pooled() }).scope()
	check.Equal(t, "a machine without a claim", pooled.getClaimedVM(), nil)
	pooled.vm.current = seen
	check.Equal(t, "a machine with a claim", pooled.getClaimedVM(), seen)

	made := newBench(t, nil).scope()
	made.vm.current = seen
	check.Equal(t, "a machine whose VM is made", made.getClaimedVM(), nil)
}

// TestReleaseClaim verifies that a machine releases its own VM only.
func TestReleaseClaim(t *testing.T) {
	objectsOf := func(o *objects) {
		o.pooled()
		free := &infrav1alpha1.OLVMInventoryVM{ObjectMeta: named("free")}
		elsewhere := claimOf("elsewhere", "m", "")
		elsewhere.Namespace = "elsewhere"
		before := claimOf("before", "m", "")
		before.Spec.ClaimRef.Released = true
		o.more = append(o.more, free, elsewhere, before, claimOf("other", "n", ""), claimOf("own", "m", "c1/m"))
	}
	released := func(b *bench) map[string]bool {
		var list infrav1alpha1.OLVMInventoryVMList
		check.Error(t, b.api.List(t.Context(), &list), "")

		out := map[string]bool{}
		for _, vm := range list.Items {
			out[vm.Name] = vm.Spec.ClaimRef != nil && vm.Spec.ClaimRef.Released
		}

		return out
	}

	b := newBench(t, objectsOf)
	check.Error(t, b.r.releaseClaim(t.Context(), b.scope()), "")
	want := map[string]bool{"free": false, "elsewhere": false, "before": true, "other": false, "own": true}
	check.Equal(t, "released", released(b), want)

	made := newBench(t, func(o *objects) { objectsOf(o); o.olvmMachine.Spec.FromInventory = nil })
	check.Error(t, made.r.releaseClaim(t.Context(), made.scope()), "")
	want["own"] = false
	check.Equal(t, "released by a machine whose VM was made", released(made), want)

	for verb, object := range map[string]client.Object{"patch": &infrav1alpha1.OLVMInventoryVM{}} {
		b := newBench(t, objectsOf)
		b.refuse(verb, object)
		check.Error(t, b.r.releaseClaim(t.Context(), b.scope()), "failed to release OLVMInventoryVM own")
		check.Equal(t, "released", released(b), want)
	}

	b = newBench(t, objectsOf)
	b.refuse("list", &infrav1alpha1.OLVMInventoryVMList{})
	check.Error(t, b.r.releaseClaim(t.Context(), b.scope()), "failed to list OLVMInventoryVMs")
}

// TestGiveBack verifies that a VM loses its user data, unless it already belongs to someone else.
func TestGiveBack(t *testing.T) {
	own := ownermark.Owner{Namespace: "ns", Name: "m", UID: ownUID}
	script := &engine.VM{Initialization: &engine.Initialization{CustomScript: "secret", HostName: "m"}}

	for name, tt := range map[string]struct {
		id      engine.ID
		comment string
		cleaned bool
	}{
		"its own":                  {vmID, ownComment, true},
		"another machine's":        {vmID, "capolvm owner=ns/n uid=1", false},
		"somebody else's":          {vmID, "the payroll database", false},
		"one that is gone":         {noVMID, ownComment, false},
		"none that was ever known": {"", ownComment, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, nil, ovirtsim.VM{Name: "vm-a", ID: vmID, Comment: tt.comment})
			_, err := b.session.UpdateVM(t.Context(), vmID, script)
			check.Error(t, err, "")
			check.Error(t, cleanClaimedVM(t.Context(), b.session, tt.id, own), "")
			vm := b.vm(vmID)
			check.Equal(t, "cleaned", vm.Initialization.CustomScript+vm.Initialization.HostName == "", tt.cleaned)
		})
	}

	// A machine deleted before its first run has changed nothing.
	unused := withEngine(t, nil, ovirtsim.VM{Name: "vm-a", ID: vmID, Comment: "of the lab"})
	_, err := unused.session.UpdateVM(t.Context(), vmID, script)
	check.Error(t, err, "")
	full, err := unused.session.FetchFullVM(t.Context(), vmID)
	check.Error(t, err, "")
	described := engine.DescribedVM{VM: *full}
	_, _, err = inventory.NewMarker(t.Context(), unused.session, "ns").EnsureClaim(t.Context(), described,
		infrav1alpha1.InventoryClaim{
			ID: "one", ClusterName: "demo", Role: infrav1.RoleWorker, Group: "MachineSet/a", MachineName: "m",
		}, &own, false)
	check.Error(t, err, "")
	comment := ownComment
	_, err = unused.session.UpdateVM(t.Context(), vmID, &engine.VM{Comment: &comment})
	check.Error(t, err, "")
	check.Error(t, cleanClaimedVM(t.Context(), unused.session, vmID, own), "")
	left := unused.vm(vmID).Initialization
	check.Equal(t, "what is left", left.HostName+" "+left.CustomScript, "m secret")

	b := withEngine(t, nil, ovirtsim.VM{Name: "vm-a", ID: vmID, Comment: ownComment, Up: true})
	check.Error(t, cleanClaimedVM(t.Context(), b.session, vmID, own), "")
	check.Equal(t, "power of the VM", b.vm(vmID).Status, engine.VMDown)
	check.Equal(t, "it is never deleted", errors.Is(b.session.DeleteVM(t.Context(), vmID), nil), true)
}

// TestConfiguringWaitsForTheClaim verifies that nothing is resolved before the machine has a claimed VM.
func TestConfiguringWaitsForTheClaim(t *testing.T) {
	b := withEngine(t, func(o *objects) {
		o.pooled()
		o.cluster.Spec.ClusterNetwork = clusterv1.ClusterNetwork{}
	})
	scope := b.connected()
	_, err := b.r.reconcileClaim(t.Context(), scope)
	check.Error(t, err, "")
	after, err := b.r.reconcileConfiguration(t.Context(), scope)
	check.Error(t, err, "")
	check.Equal(t, "when to look again", after, 0)
	check.Error(t, scope.desired.err, "")
}
