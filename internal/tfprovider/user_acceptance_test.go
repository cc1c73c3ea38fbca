package tfprovider_test

import (
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// onlyAdministrators lists the resources that need an administrator's role, as documented in
// docs/develop/terraform-provider.md.
var onlyAdministrators = map[string]bool{
	"ovirt_affinity_group":      true,
	"ovirt_affinity_label":      true,
	"ovirt_disk_from_image":     true, // the engine hides the transfer from such a user
	"ovirt_host_affinity_label": true,
	"ovirt_tag":                 true,
	"ovirt_vm_affinity_group":   true,
	"ovirt_vm_affinity_label":   true,
	"ovirt_vm_tag":              true,
}

// TestAUserWithoutTheRoleOfAnAdministratorHasEachResource creates, reads, changes and destroys each resource as such a
// user. An administrator prepares the other objects. The rights in the simulator follow from recordings of the roles
// VmCreator, UserTemplateBasedVm and DiskCreator. There are no recordings for permissions, snapshots, templates and
// devices.
func TestAUserWithoutTheRoleOfAnAdministratorHasEachResource(t *testing.T) {
	t.Parallel()

	for typeName, c := range lostCases() {
		t.Run(typeName, func(t *testing.T) {
			t.Parallel()
			user := ovirtsim.User{Name: "builder@internal", Password: "secret1", Role: "PowerUserRole"}
			d := newDirect(t, newSiteWith(t, ovirtsim.Options{Timings: quick}, func(inventory *ovirtsim.Inventory) {
				inventory.Users = append(inventory.Users, user)
			}))
			of := c.prepare(d)
			d.user = &user
			d.begin()

			m := d.resource(typeName)
			wrong := strings.Join(m.apply(of), "\n")

			if onlyAdministrators[typeName] {
				check.Equal(t, "it is refused", wrong != "", true)
				return
			}

			check.Equal(t, "the problems of the creation", wrong, "")
			m.settled(of)

			if c.change != nil {
				d.user = nil // prepare the change as the administrator
				changed := with(of, c.change(d))
				d.user = &user
				check.Equal(t, "the problems of the update", strings.Join(m.apply(changed), "\n"), "")
				m.settled(changed)
			}

			d.begin()
			check.Equal(t, "the problems of the destruction", strings.Join(m.destroy(), "\n"), "")
		})
	}
}
