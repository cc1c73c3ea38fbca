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

// TestNICsOfATemplateThatNobodyNamesAreRemoved also adds a removed interface again. It stays, as it would after a
// rename. The simulator answers like the engine in the recording nics.
func TestNICsOfATemplateThatNobodyNamesAreRemoved(t *testing.T) {
	t.Parallel()
	s := newSiteWithTemplateNICs(t)
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

	for _, name := range []string{"by-hand", "nic2"} {
		_, err := s.client.CreateNIC(t.Context(), vm, &engine.NIC{
			Name: name, VNICProfile: engine.NewRef(engine.ID(s.ids["$profile"])),
		})
		must(t, err)
	}

	w.settled()
	w.forget()
	w.importID("ovirt_vm.a", vm.String())
	w.importID("ovirt_vm_template_nics.a", vm.String())
	w.apply()
	check.Equal(t, "network interfaces", strings.Join(nicsOf(t, s, vm), ","), "by-hand,nic1,nic2")
	w.destroy()
}

// newSiteWithTemplateNICs returns a site whose template has three network interfaces.
func newSiteWithTemplateNICs(t *testing.T) *site {
	t.Helper()

	return newSiteWith(t, ovirtsim.Options{Timings: quick}, func(inventory *ovirtsim.Inventory) {
		for i := range inventory.DataCenters[0].Templates {
			inventory.DataCenters[0].Templates[i].NICs = []ovirtsim.TemplateNIC{
				{Name: "nic1", Network: "kvm-vlan"}, {Name: "nic2", Network: "kvm-vlan"}, {Name: "lan", Network: "kvm-vlan"},
			}
		}
	})
}

// TestARenamedNICIsNotRemovedAsOneOfTheTemplate updates the kept names before the network interface has its new name,
// as parallel runs may do. It also creates the resource for a VM that is up.
func TestARenamedNICIsNotRemovedAsOneOfTheTemplate(t *testing.T) {
	t.Parallel()
	d := newDirect(t, newSiteWithTemplateNICs(t))
	vm := d.vm("a", nil)
	removed := d.resource("ovirt_vm_template_nics")
	check.Equal(t, "the problems", strings.Join(removed.apply(set{"vm_id": vm, "kept": []string{"nic1"}}), "\n"), "")
	check.Equal(t, "at first", strings.Join(nicsOf(t, d.site, engine.ID(vm)), ","), "nic1")

	wait.For(t, "the VM starts", func() error { return d.site.client.StartVM(t.Context(), engine.ID(vm), false) })
	check.Equal(t, "the problems", strings.Join(removed.apply(set{"vm_id": vm, "kept": []string{"lan0"}}), "\n"), "")
	check.Equal(t, "after the update", strings.Join(nicsOf(t, d.site, engine.ID(vm)), ","), "nic1")

	again := d.resource("ovirt_vm_template_nics")
	_ = again.apply(set{"vm_id": vm, "kept": []string{"lan0"}})
	check.Equal(t, "after a create", strings.Join(nicsOf(t, d.site, engine.ID(vm)), ","), "nic1")
}

// nicsOf returns the sorted names of a VM's network interfaces.
func nicsOf(t *testing.T, s *site, vm engine.ID) []string {
	t.Helper()
	all, err := s.client.ListNICs(t.Context(), vm)
	must(t, err)

	var names []string
	for _, nic := range all {
		names = append(names, nic.Name)
	}

	slices.Sort(names)

	return names
}
