package preview

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// claim is an inventory VM claimed by a machine, or chosen for a machine.
type claim struct {
	vm engine.VM
	// entry is the name of its OLVMInventoryVM.
	entry string
	// addresses are the addresses configured in the VM.
	addresses []string
}

// findClaims finds the inventory VMs of machines that use an inventory. The marks in the engine show the existing
// claims. The other machines get the VMs the inventory would choose now. If the inventory has too few VMs, findClaims
// rejects the remaining machines.
func (m *Manifests) findClaims(
	ctx context.Context, machines []Machine, credentials Credentials, sessions *engine.Sessions, refused refusals,
) (map[types.NamespacedName]claim, error) {
	byPool := map[types.NamespacedName][]Machine{}

	for _, machine := range machines {
		if from := machine.spec.FromInventory; from != nil && refused[machine.key()] == nil {
			key := types.NamespacedName{Namespace: machine.Namespace, Name: from.InventoryName}
			byPool[key] = append(byPool[key], machine)
		}
	}

	out := map[types.NamespacedName]claim{}

	for key, wanting := range byPool {
		pool := m.Inventories[key]
		if pool == nil {
			for _, machine := range wanting {
				refused[machine.key()] = machine.explainError(blocker.New(infrav1.InventoryNotFoundReason,
					"spec.fromInventory.inventoryName", "OLVMInventory %s not found in the manifests or in the "+
						"management cluster; add it, or correct the name", key), credentials.Places)
			}

			continue
		}

		session, _, err := m.openSession(connection.InventoryEngine(pool), credentials, sessions)
		if err != nil {
			return nil, fmt.Errorf("OLVMInventory %s: %w", key, blocker.AddRemedy(err, credentials.Places))
		}

		there, err := inventory.FetchPool(ctx, session, pool.Spec)
		if err != nil {
			return nil, fmt.Errorf("OLVMInventory %s: %w", key, blocker.AddRemedy(err, credentials.Places))
		}

		assignVMs(pool, there, wanting, credentials.Places, out, refused)
	}

	return out, nil
}

// assignVMs assigns the VMs of one inventory to its machines.
func assignVMs(
	pool *infrav1alpha1.OLVMInventory,
	there *inventory.Pool,
	wanting []Machine,
	at blocker.Places,
	out map[types.NamespacedName]claim,
	refused refusals,
) {
	entries := map[string]engine.DescribedVM{}
	var vms []inventory.VM
	taken := map[string]bool{}

	for _, vm := range there.VMs {
		name := inventory.ChooseObjectName(vm, taken)
		taken[name], entries[name] = true, vm
		claimed := claimOf(vm, wanting)
		vms = append(vms, there.ToCandidate(name, inventory.BuildLabels(pool, vm, there.Hosts), vm, claimed))
	}

	plan := inventory.Schedule(vms, groupsOf(wanting), nil)
	has := map[string]string{}

	for _, vm := range vms {
		if vm.Claim != nil {
			has[vm.Claim.MachineName] = vm.Name
		}
	}

	for _, change := range plan.Changes {
		if change.Claim != nil && change.Claim.MachineName != "" {
			has[change.Claim.MachineName] = change.VM
		}
	}

	for _, machine := range wanting {
		if entry, ok := has[machine.infraName]; ok {
			out[machine.key()] = newClaim(entry, entries[entry], machine)
			continue
		}

		short := slices.IndexFunc(plan.Unschedulable, func(g infrav1alpha1.UnschedulableGroup) bool {
			return g.ClusterName == machine.Cluster && g.Group == machine.From
		})
		message := "no matching VM in the inventory"
		if short >= 0 {
			message = inventory.FormatShortage(plan.Unschedulable[short])
		}

		refused[machine.key()] = machine.explainError(
			blocker.New(infrav1.UnschedulableReason, "spec.fromInventory", "%s",
				message),
			at,
		)
	}
}

// newClaim returns the claim of a machine on a VM. If the machine has a network configuration, its addresses replace
// those of the VM.
func newClaim(entry string, vm engine.DescribedVM, machine Machine) claim {
	out := claim{vm: vm.VM, entry: entry}
	if machine.spec.VirtualMachine.Network.IsConfigured() {
		return out
	}

	for _, network := range inventory.CollectNetworks(vm) {
		out.addresses = append(out.addresses, network.IPAddresses...)
	}

	return out
}

// claimOf returns the claim on a VM if the marks in the engine say that one of the machines holds it. Otherwise it
// returns nil.
func claimOf(vm engine.DescribedVM, machines []Machine) *infrav1alpha1.InventoryClaim {
	mark, tagged := inventory.GetMark(vm)
	owner, owned := ownermark.ParseOwner(vm.CommentText())
	if tagged && !owned {
		return reservationOf(mark, machines)
	}

	if !tagged {
		return nil
	}

	for _, machine := range machines {
		if machine.Namespace == owner.Namespace && machine.infraName == owner.Name && machine.live {
			out := mark.ToClaim()
			out.MachineName = owner.Name

			return out
		}
	}

	return nil
}

// reservationOf returns the claim on a VM reserved for a machine like these. It returns nil if the VM is reserved for
// other machines.
func reservationOf(mark inventory.Mark, machines []Machine) *infrav1alpha1.InventoryClaim {
	for _, machine := range machines {
		if mark.Machine == "" && mark.Namespace == machine.Namespace && mark.Cluster == machine.Cluster &&
			mark.Role == roleOf(machine) {
			out := mark.ToClaim()
			out.Group = machine.From

			return out
		}
	}

	return nil
}

// groupsOf groups machines by the object that creates them.
func groupsOf(machines []Machine) []inventory.Group {
	var out []inventory.Group

	for _, machine := range machines {
		at := slices.IndexFunc(out, func(g inventory.Group) bool {
			return g.Cluster == machine.Cluster && g.Name == machine.From
		})

		if at < 0 {
			want := machine.spec.FromInventory
			selector, err := metav1.LabelSelectorAsSelector(want.Selector.ToKubernetes())
			if err != nil {
				continue // the machine is refused because no VM matches
			}

			out = append(out, inventory.Group{
				Cluster:     machine.Cluster,
				Role:        roleOf(machine),
				Name:        machine.From,
				Selector:    selector,
				TopologyKey: want.TopologyKey,
				Network:     want.NetworkName,
			})
			at = len(out) - 1
		}

		out[at].Machines = append(out[at].Machines, machine.infraName)
	}

	return out
}

func roleOf(machine Machine) string {
	if machine.role == infrav1.ControlPlaneRole {
		return infrav1.RoleControlPlane
	}

	return infrav1.RoleWorker
}
