package tfprovider_test

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestANameInUseIsBlamedOnItsDataCenter has VMs and templates with the same name in two data centers.
func TestANameInUseIsBlamedOnItsDataCenter(t *testing.T) {
	t.Parallel()

	other := ovirtsim.DataCenter{
		Name: "A first one", Clusters: []ovirtsim.Cluster{{Name: "Default"}},
		VMs: []ovirtsim.VM{{
			Name: "a", ID: "00000000-0000-4000-8000-000000000001", Cluster: "Default", Template: "Blank",
			Comment: "of the other data center",
		}},
		Templates: []ovirtsim.Template{{
			Name: "made", ID: "00000000-0000-4000-8000-000000000002", Cluster: "Default",
		}},
	}
	s := newSiteWith(t, ovirtsim.Options{
		Timings: quick, Inventory: ovirtsim.Inventory{DataCenters: []ovirtsim.DataCenter{other}},
	})

	config := plainVM + `
resource "ovirt_template" "t" {
  name  = "made"
  vm_id = ovirt_vm.a.id
}
`
	w := newWorkspace(t, s).config(config)
	w.apply() // names used only in the other data center are free

	message := newWorkspace(t, s).config(plainVM).fail()
	check.Contains(t, "the VM", message, w.text("ovirt_vm.a", "id"))
	check.Lacks(t, "the VM", message, "other data center")

	message = newWorkspace(t, s).config(`resource "ovirt_template" "t" {
  name  = "made"
  vm_id = "` + w.text("ovirt_vm.a", "id") + `"
}`).fail()
	check.Contains(t, "the template", message, w.text("ovirt_template.t", "id"))
	check.Lacks(t, "the template", message, "000000000002")
}
