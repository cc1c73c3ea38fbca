package inventory

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// provisioning returns an inventory "lab" with these provisions.
func provisioning(provisions ...infrav1alpha1.InventoryProvision) *infrav1alpha1.OLVMInventory {
	return &infrav1alpha1.OLVMInventory{
		ObjectMeta: metav1.ObjectMeta{Name: "lab"},
		Spec:       infrav1alpha1.OLVMInventorySpec{Provision: provisions},
	}
}

// madeVM returns a complete OLVMInventoryVM of provision p. change may edit it.
func madeVM(name string, change func(*infrav1alpha1.OLVMInventoryVM)) infrav1alpha1.OLVMInventoryVM {
	out := infrav1alpha1.OLVMInventoryVM{ObjectMeta: metav1.ObjectMeta{Name: name}}
	out.Spec.VMID = name
	out.Spec.FromProvision = &infrav1alpha1.ProvisionedVM{ProvisionName: "p", MachineTemplateName: "t"}
	out.Status.Conditions = []metav1.Condition{
		{Type: infrav1.InfrastructureAppliedCondition, Status: metav1.ConditionTrue},
	}

	if change != nil {
		change(&out)
	}

	return out
}

func claimedVM(vm *infrav1alpha1.OLVMInventoryVM) {
	vm.Spec.ClaimRef = &infrav1alpha1.InventoryClaim{ID: "c"}
}
func deletedVM(vm *infrav1alpha1.OLVMInventoryVM) { vm.DeletionTimestamp = &metav1.Time{} }
func unmadeVM(vm *infrav1alpha1.OLVMInventoryVM)  { vm.Spec.VMID, vm.Status.Conditions = "", nil }
func otherVM(vm *infrav1alpha1.OLVMInventoryVM)   { vm.Spec.FromProvision.MachineTemplateName = "old" }
func bothOf(a, b func(*infrav1alpha1.OLVMInventoryVM)) func(*infrav1alpha1.OLVMInventoryVM) {
	return func(vm *infrav1alpha1.OLVMInventoryVM) {
		a(vm)
		b(vm)
	}
}

func TestPlanProvision(t *testing.T) {
	count := func(n int32) infrav1alpha1.InventoryProvision {
		return infrav1alpha1.InventoryProvision{Name: "p", MachineTemplateName: "t", Count: &n}
	}
	perHost := func(n int32) infrav1alpha1.InventoryProvision {
		return infrav1alpha1.InventoryProvision{Name: "p", MachineTemplateName: "t", CountPerHost: &n}
	}
	on := func(host string) func(*infrav1alpha1.OLVMInventoryVM) {
		return func(vm *infrav1alpha1.OLVMInventoryVM) { vm.Spec.FromProvision.HostName = host }
	}

	for name, c := range map[string]struct {
		pool  *infrav1alpha1.OLVMInventory
		there []infrav1alpha1.OLVMInventoryVM
		taken []string
		inUse []string
		make  []string
		drop  []string
	}{
		"nothing is there": {pool: provisioning(count(2)), make: []string{"lab-p-0", "lab-p-1"}},
		"one is there":     {pool: provisioning(count(2)), there: []infrav1alpha1.OLVMInventoryVM{madeVM("lab-p-1", nil)}, make: []string{"lab-p-0"}},
		"the name of one is taken": {
			pool: provisioning(count(2)), taken: []string{"lab-p-0"}, make: []string{"lab-p-1", "lab-p-2"},
		},
		"one is being deleted": {
			pool: provisioning(count(1)), there: []infrav1alpha1.OLVMInventoryVM{madeVM("lab-p-0", deletedVM)},
		},
		"too many: the highest numbers go": {
			pool:  provisioning(count(1)),
			there: []infrav1alpha1.OLVMInventoryVM{madeVM("lab-p-10", nil), madeVM("lab-p-2", nil), madeVM("lab-p-1", nil)},
			drop:  []string{"lab-p-10", "lab-p-2"},
		},
		"too many: the claimed stay": {
			pool:  provisioning(count(1)),
			there: []infrav1alpha1.OLVMInventoryVM{madeVM("lab-p-0", nil), madeVM("lab-p-1", claimedVM), madeVM("lab-p-2", claimedVM)},
			drop:  []string{"lab-p-0"},
		},
		"too many: what somebody has in the engine stays": {
			pool:  provisioning(count(1)),
			there: []infrav1alpha1.OLVMInventoryVM{madeVM("lab-p-0", nil), madeVM("lab-p-1", nil)},
			inUse: []string{"lab-p-1"},
			drop:  []string{"lab-p-0"},
		},
		"another template: what somebody has in the engine stays": {
			pool:  provisioning(count(2)),
			there: []infrav1alpha1.OLVMInventoryVM{madeVM("lab-p-0", otherVM), madeVM("lab-p-1", otherVM)},
			inUse: []string{"lab-p-0"},
			drop:  []string{"lab-p-1"},
		},
		"a provision is gone": {
			pool:  provisioning(),
			there: []infrav1alpha1.OLVMInventoryVM{madeVM("lab-p-0", nil), madeVM("lab-p-1", claimedVM)},
			drop:  []string{"lab-p-0"},
		},
		"for each host": {
			pool:  provisioning(perHost(2)),
			there: []infrav1alpha1.OLVMInventoryVM{madeVM("lab-p-b-0", on("B")), madeVM("lab-p-c-0", on("c"))},
			make:  []string{"lab-p-a-0", "lab-p-a-1", "lab-p-b-1"},
			drop:  []string{"lab-p-c-0"},
		},
		"another template: one at a time": {
			pool:  provisioning(count(2)),
			there: []infrav1alpha1.OLVMInventoryVM{madeVM("lab-p-0", otherVM), madeVM("lab-p-1", otherVM)},
			drop:  []string{"lab-p-0"},
		},
		"another template: not while one is made": {
			pool:  provisioning(count(2)),
			there: []infrav1alpha1.OLVMInventoryVM{madeVM("lab-p-0", unmadeVM), madeVM("lab-p-1", otherVM)},
		},
		"another template: not while one is missing": {
			pool:  provisioning(count(2)),
			there: []infrav1alpha1.OLVMInventoryVM{madeVM("lab-p-1", otherVM)},
			make:  []string{"lab-p-0"},
		},
		"another template: the claimed stay": {
			pool:  provisioning(count(1)),
			there: []infrav1alpha1.OLVMInventoryVM{madeVM("lab-p-0", bothOf(otherVM, claimedVM))},
		},
		"another template: those that are not made": {
			pool:  provisioning(count(2)),
			there: []infrav1alpha1.OLVMInventoryVM{madeVM("lab-p-0", bothOf(otherVM, unmadeVM)), madeVM("lab-p-1", bothOf(otherVM, unmadeVM))},
			drop:  []string{"lab-p-0", "lab-p-1"},
		},
		"VMs of others": {
			pool: provisioning(count(0)),
			there: []infrav1alpha1.OLVMInventoryVM{
				madeVM("found", func(vm *infrav1alpha1.OLVMInventoryVM) { vm.Spec.FromProvision = nil }),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			names := map[string]bool{}
			for _, taken := range c.taken {
				names[taken] = true
			}

			for _, vm := range c.there {
				names[vm.Name] = true
			}

			inUse := map[string]bool{}
			for _, name := range c.inUse {
				inUse[name] = true
			}

			plan := PlanProvision(c.pool, map[string][]string{"p": {"A", "B"}}, c.there, names, inUse)

			var made []string
			for _, vm := range plan.Make {
				made = append(made, vm.Name)
			}

			check.Equal(t, "made", made, c.make)
			check.Equal(t, "removed", plan.Remove, c.drop)
		})
	}
}

// TestProvisionInRandomLives changes counts, and claims, releases and loses VMs. A claimed VM must never be removed. In
// the end, the inventory must have the requested number of VMs.
func TestProvisionInRandomLives(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
		there := map[string]infrav1alpha1.OLVMInventoryVM{}
		pool := provisioning(infrav1alpha1.InventoryProvision{Name: "p", MachineTemplateName: "t"})

		step := func() ProvisionPlan {
			taken := map[string]bool{}
			for name := range there {
				taken[name] = true
			}

			plan := PlanProvision(pool, nil, slices.Collect(maps.Values(there)), taken, nil)

			for _, name := range plan.Remove {
				if there[name].Spec.ClaimRef != nil {
					t.Fatalf("seed %d: %s is claimed and removed", seed, name)
				}

				delete(there, name)
			}

			for _, vm := range plan.Make {
				if taken[vm.Name] {
					t.Fatalf("seed %d: %s is made twice", seed, vm.Name)
				}

				there[vm.Name] = madeVM(vm.Name, func(made *infrav1alpha1.OLVMInventoryVM) {
					made.Spec.FromProvision.MachineTemplateName = pool.Spec.Provision[0].MachineTemplateName
				})
			}

			return plan
		}

		for range 30 {
			pool.Spec.Provision[0].Count = new(random.Int32N(6))
			pool.Spec.Provision[0].MachineTemplateName = fmt.Sprint("t", random.IntN(2))

			for name, vm := range there {
				switch random.IntN(4) {
				case 0:
					claimedVM(&vm)
					there[name] = vm
				case 1:
					delete(there, name)
				}
			}

			step()
		}

		for name, vm := range there {
			vm.Spec.ClaimRef = nil
			there[name] = vm
		}

		for range 20 {
			step()
		}

		check.Equal(t, "VMs at the end", len(there), int(*pool.Spec.Provision[0].Count))

		for name, vm := range there {
			check.Equal(t, "template of "+name, vm.Spec.FromProvision.MachineTemplateName,
				pool.Spec.Provision[0].MachineTemplateName)
		}
	}
}

func TestMACAddressesOfRanges(t *testing.T) {
	used := map[string]bool{"56:6f:00:00:00:ff": true}

	var got []string

	for range 3 {
		mac, err := findFreeMAC([]string{"56:6F:00:00:00:FE-56:6F:00:00:01:00", "56:6f:00:00:02:00"}, used, "field")
		check.Error(t, err, "")
		got = append(got, mac)
	}

	check.Equal(t, "given", got, []string{"56:6f:00:00:00:fe", "56:6f:00:00:01:00", "56:6f:00:00:02:00"})
	_, err := findFreeMAC([]string{"56:6f:00:00:02:00"}, used, "field")
	check.Error(t, err, "field: all MAC addresses of 56:6f:00:00:02:00 are in use")

	for text, want := range map[string]string{
		"57:6f:00:00:00:00":                   "contains multicast addresses",
		"56:6f:00:00:00:00-58:00:00:00:00:00": "contains multicast addresses",
		"56:6f:00:00:00:01-56:6f:00:00:00:00": "ends before it begins",
		"56:6f":                               "neither a MAC address nor a range",
	} {
		_, err := findFreeMAC([]string{text}, map[string]bool{}, "field")
		check.Error(t, err, want)
	}
}

// TestDecideGivesEachVMItsOwn creates two VMs from a range with two addresses, and refuses a third VM.
func TestDecideGivesEachVMItsOwn(t *testing.T) {
	pool := provisioning(infrav1alpha1.InventoryProvision{Name: "p", MachineTemplateName: "t",
		MACAddresses: []string{"56:6f:00:00:00:00-56:6f:00:00:00:ff"}})
	template := infrav1.OLVMMachineSpec{OLVMNetwork: infrav1.OLVMNetwork{NetworkName: "net"}}
	template.VirtualMachine.Network.IPv4 = &infrav1.IPv4Network{
		Subnet: "10.0.0.0/24", IPAddresses: []string{"10.0.0.10-10.0.0.12"},
	}
	inputs := ProvisionInputs{Templates: map[string]infrav1.OLVMMachineSpec{"t": template}}
	macs, held := map[string]bool{}, addressing.Held{}
	held.AddAddress("net", netip.MustParseAddr("10.0.0.11"), "somebody")

	for i, want := range []string{"10.0.0.10", "10.0.0.12"} {
		decided, err := inputs.AssignAddresses(pool, NewVM{Name: "vm"}, macs, held)
		check.Error(t, err, "")
		check.Equal(t, "decided", decided.NICs, []infrav1alpha1.ProvisionedNIC{{
			Name: "nic1", NetworkName: "net", MACAddress: fmt.Sprintf("56:6f:00:00:00:0%d", i), IPAddresses: []string{want},
		}})
	}

	_, err := inputs.AssignAddresses(pool, NewVM{Name: "vm"}, macs, held)
	check.Error(t, err, "OLVMMachineTemplate t spec.template.spec.virtualMachine.network")
}
