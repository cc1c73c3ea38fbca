package preview

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
)

// newTag replaces the UUID of a tag created with the inventory, because the provider accepts only UUIDs.
const newTag = "00000000-0000-0000-0000-000000000000"

// planInventoryVMs returns the VMs missing from inventories. It refuses the VMs that cannot be created.
func (m *Manifests) planInventoryVMs(
	ctx context.Context, credentials Credentials, sessions *engine.Sessions, held *heldAddresses,
) (out []Machine, refused []Refused, err error) {
	for _, pool := range m.provisioningInventories() {
		if reason := m.pruneReason(pool); reason != "" { // it creates no VMs, so its engine is not needed
			out = append(out, m.goingPoolVMs(pool, nil, reason)...)
			continue
		}

		session, _, err := m.openSession(connection.InventoryEngine(pool), credentials, sessions)
		if err != nil {
			return nil, nil, fmt.Errorf("OLVMInventory %s: %w", keyOf(pool), blocker.AddRemedy(err, credentials.Places))
		}

		there, err := inventory.FetchPool(ctx, session, pool.Spec)
		if err != nil {
			return nil, nil, fmt.Errorf("OLVMInventory %s: %w", keyOf(pool), blocker.AddRemedy(err, credentials.Places))
		}

		made, wrong := m.planInventory(pool, held, m.inUse(pool, there.VMs),
			func(template infrav1.OLVMMachineSpec) ([]string, error) {
				return there.ListHostNames(ctx, session, pool, template)
			})

		if err := expectTag(ctx, session, pool, made); err != nil {
			return nil, nil, fmt.Errorf("OLVMInventory %s: %w", keyOf(pool), blocker.AddRemedy(err, credentials.Places))
		}

		for _, vm := range there.VMs { // without a management cluster, only the engine knows the existing VMs
			made = slices.DeleteFunc(made, func(machine Machine) bool {
				return machine.Destroyed == "" && machine.Name == vm.Name
			})
		}

		out, refused = append(out, made...), append(refused, wrong...)
	}

	return out, refused, nil
}

// expectTag marks the VMs of an inventory if the engine lacks its tag, because the controllers create the tag before
// the VMs.
func expectTag(ctx context.Context, session *engine.Client, pool *infrav1alpha1.OLVMInventory, made []Machine) error {
	name := pool.Spec.VirtualMachines.Tag
	tags, err := session.ListTagsNamed(ctx, name)
	if err != nil || len(tags) > 0 {
		return err
	}

	for i := range made {
		made[i].newTag = true
		made[i].spec.VirtualMachine.Tags = slices.DeleteFunc(made[i].spec.VirtualMachine.Tags,
			func(tag string) bool { return tag == name })
	}

	return nil
}

// planInventoryVMsOffline is like planInventoryVMs, but makes no requests to the engine. It uses the hosts named in the
// templates.
func (m *Manifests) planInventoryVMsOffline(held *heldAddresses) (out []Machine, refused []Refused) {
	for _, pool := range m.provisioningInventories() {
		if reason := m.pruneReason(pool); reason != "" {
			out = append(out, m.goingPoolVMs(pool, nil, reason)...)
			continue
		}

		made, wrong := m.planInventory(pool, held, nil, func(template infrav1.OLVMMachineSpec) ([]string, error) {
			return template.VirtualMachine.Placement.HostNames, nil
		})
		out, refused = append(out, made...), append(refused, wrong...)
	}

	return out, refused
}

// provisioningInventories returns the inventories that create VMs or have created VMs, sorted by name.
func (m *Manifests) provisioningInventories() []*infrav1alpha1.OLVMInventory {
	var out []*infrav1alpha1.OLVMInventory

	for _, pool := range m.Inventories {
		if len(pool.Spec.Provision) > 0 || len(m.goingPoolVMs(pool, nil, "")) > 0 {
			out = append(out, pool)
		}
	}

	slices.SortFunc(out, func(a, b *infrav1alpha1.OLVMInventory) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})

	return out
}

func keyOf(pool *infrav1alpha1.OLVMInventory) types.NamespacedName {
	return types.NamespacedName{Namespace: pool.Namespace, Name: pool.Name}
}

// planInventory returns the VMs missing from one inventory, and the surplus VMs of the inventory. inUse has the names
// of the claimed VMs. It is nil if the engine was not asked.
func (m *Manifests) planInventory(
	pool *infrav1alpha1.OLVMInventory,
	held *heldAddresses,
	inUse map[string]bool,
	hostNames func(infrav1.OLVMMachineSpec) ([]string, error),
) (out []Machine, refused []Refused) {
	refuse := func(name string, err error) {
		machine := Machine{
			Namespace: pool.Namespace, Name: name, From: "OLVMInventory/" + pool.Name, pool: pool,
		}
		refused = append(refused, Refused{machine, fmt.Errorf("OLVMInventory %s: %w", keyOf(pool), err)})
	}

	inputs, err := inventory.ReadProvision(pool, func(name string) (infrav1.OLVMMachineSpec, error) {
		template := m.Templates[types.NamespacedName{Namespace: pool.Namespace, Name: name}]
		if template == nil {
			return infrav1.OLVMMachineSpec{}, inventory.NewNoTemplateError("OLVMMachineTemplate %s not found in "+
				"the manifests or in the management cluster; add it, or correct the name", name)
		}

		return template.Spec.Template.Spec, nil
	}, hostNames)
	if err != nil {
		refuse(pool.Name, err)
		return nil, refused
	}

	there, taken, macs := m.inventoryVMsOf(pool)
	taking := held.addressesOn(m.withInstallation(connection.InventoryEngine(pool)))

	plan := inventory.PlanProvision(pool, inputs.Hosts, there, taken, inUse)
	if len(plan.Remove) > 0 {
		reason := fmt.Sprintf("OLVMInventory %s no longer requests it, or requests another template", keyOf(pool))
		out = m.goingPoolVMs(pool, plan.Remove, reason)
	}

	for _, vm := range plan.Make {
		template := inputs.Templates[pool.Spec.Provision[vm.Index].MachineTemplateName]
		decided, err := inputs.AssignAddresses(pool, vm, macs, taking)
		if err != nil {
			refuse(vm.Name, err)
			continue
		}

		out = append(out, Machine{
			Namespace: pool.Namespace,
			Name:      vm.Name,
			From:      "OLVMInventory/" + pool.Name,
			infraName: vm.Name,
			template:  pool.Spec.Provision[vm.Index].MachineTemplateName,
			spec:      inventory.BuildMachineSpec(template, pool.Spec.VirtualMachines.Tag, *decided),
			recorded:  addressing.ParseProvisioned(*decided),
			pool:      pool,
		})
	}

	return out, refused
}

// inventoryVMsOf returns the OLVMInventoryVMs of an inventory, all names used in the namespace, and the MAC addresses
// already assigned.
func (m *Manifests) inventoryVMsOf(
	pool *infrav1alpha1.OLVMInventory,
) (there []infrav1alpha1.OLVMInventoryVM, taken, macs map[string]bool) {
	taken, macs = map[string]bool{}, map[string]bool{}

	for vm := range maps.Values(m.InventoryVMs) {
		if vm.Namespace != pool.Namespace {
			continue
		}

		taken[vm.Name] = true
		if vm.Spec.InventoryName == pool.Name {
			there = append(there, *vm)
		}

		if vm.Spec.FromProvision == nil {
			continue
		}

		for _, nic := range vm.Spec.FromProvision.NICs {
			macs[nic.MACAddress] = true
		}
	}

	return there, taken, macs
}

// pruneReason returns the reason why an inventory is deleted, or "" if it stays.
func (m *Manifests) pruneReason(pool *infrav1alpha1.OLVMInventory) string {
	for _, object := range m.Pruned() {
		isIts := object.Kind == "Namespace" || object.Kind == "OLVMInventory" && object.Name == pool.Name
		if isIts && object.Namespace == pool.Namespace {
			return reasonOf(object)
		}
	}

	return ""
}

// inUse returns the names of an inventory's OLVMInventoryVMs that are in use in the engine.
func (m *Manifests) inUse(
	pool *infrav1alpha1.OLVMInventory, vms map[engine.ID]engine.DescribedVM,
) map[string]bool {
	out := map[string]bool{}
	there, _, _ := m.inventoryVMsOf(pool)

	for i := range there {
		if vm, found := vms[engine.ID(there[i].Spec.VMID)]; found && inventory.IsInUse(vm) {
			out[there[i].Name] = true
		}
	}

	return out
}

// goingPoolVMs returns VMs created by an inventory as machines destroyed for the given reason. It returns the VMs with
// the given names, or all VMs if names is nil. A claimed VM is destroyed only after its machine is deleted.
func (m *Manifests) goingPoolVMs(pool *infrav1alpha1.OLVMInventory, names []string, reason string) []Machine {
	var out []Machine

	there, _, _ := m.inventoryVMsOf(pool)
	slices.SortFunc(there, func(a, b infrav1alpha1.OLVMInventoryVM) int { return cmp.Compare(a.Name, b.Name) })

	for i := range there {
		made := there[i].Spec.FromProvision
		if made == nil || names != nil && !slices.Contains(names, there[i].Name) {
			continue
		}

		machine := Machine{
			Namespace: pool.Namespace, Name: there[i].Name, From: "OLVMInventory/" + pool.Name,
			Destroyed: reason, live: true, pool: pool,
		}

		key := types.NamespacedName{Namespace: pool.Namespace, Name: made.MachineTemplateName}
		if template := m.Templates[key]; template != nil {
			machine.spec = template.Spec.Template.Spec
		}

		if claim := there[i].Spec.ClaimRef; claim != nil {
			machine.Destroyed += "; it is destroyed after machine " + claim.MachineName + " is deleted"
		}

		out = append(out, machine)
	}

	return out
}
