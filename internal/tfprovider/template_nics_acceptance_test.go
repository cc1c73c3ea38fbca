package tfprovider_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// TestNICsOfATemplateThatNobodyNamesAreRemoved also removes an interface restored while the VM runs. The simulator
// answers like the engine in the recording nics.
func TestNICsOfATemplateThatNobodyNamesAreRemoved(t *testing.T) {
	t.Parallel()
	s := newSiteWith(t, ovirtsim.Options{Timings: quick}, func(inventory *ovirtsim.Inventory) {
		for i := range inventory.DataCenters[0].Templates {
			inventory.DataCenters[0].Templates[i].NICs = []ovirtsim.TemplateNIC{
				{Name: "nic1", Network: "kvm-vlan"}, {Name: "nic2", Network: "kvm-vlan"}, {Name: "lan", Network: "kvm-vlan"},
			}
		}
	})
	w := newWorkspace(t, s).config(plainVM + `
resource "ovirt_vm_template_nics" "a" {
  vm_id = ovirt_vm.a.id
  kept  = ["nic1", "nic9"]
}
`)
	w.apply()
	w.settled()
	vm := s.vm(t, "a").ID
	check.Equal(t, "network interfaces", strings.Join(nicsOf(t, s, vm), ","), "nic1")

	add := func(name string) {
		t.Helper()
		_, err := s.client.CreateNIC(t.Context(), vm, &engine.NIC{
			Name: name, VNICProfile: engine.NewRef(engine.ID(s.ids["$profile"])),
		})
		must(t, err)
	}
	add("by-hand")
	w.settled()
	add("nic2")
	wait.For(t, "the VM starts", func() error { return s.client.StartVM(t.Context(), vm, false) })
	w.wants("ovirt_vm_template_nics.a", "update")
	w.apply()
	check.Equal(t, "network interfaces", strings.Join(nicsOf(t, s, vm), ","), "by-hand,nic1")

	w.forget()
	w.importID("ovirt_vm.a", vm.String())
	w.importID("ovirt_vm_template_nics.a", vm.String())
	w.apply()
	check.Equal(t, "network interfaces", strings.Join(nicsOf(t, s, vm), ","), "by-hand,nic1")
	w.destroy()
}

// nicsOf returns the names of the network interfaces of a VM, sorted.
func nicsOf(t *testing.T, s *site, vm engine.ID) []string {
	t.Helper()
	all, err := s.client.NICs(t.Context(), vm)
	must(t, err)

	var names []string
	for _, nic := range all {
		names = append(names, nic.Name)
	}

	slices.Sort(names)

	return names
}
