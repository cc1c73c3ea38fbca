package tfprovider_test

import (
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// onlyAdministrators are the resources that a user without the role of an administrator cannot have, as
// docs/develop/terraform-provider.md says.
var onlyAdministrators = map[string]bool{
	"ovirt_affinity_group":    true,
	"ovirt_affinity_label":    true,
	"ovirt_disk_from_image":   true, // the engine does not show such a user the transfer
	"ovirt_tag":               true,
	"ovirt_vm_affinity_group": true,
	"ovirt_vm_tag":            true,
}

// TestAUserWithoutTheRoleOfAnAdministratorHasEachResource makes, reads, changes and destroys each resource as such a
// user, of what an administrator has prepared. What a user may do in the simulator follows from recordings of the roles
// VmCreator, UserTemplateBasedVm and DiskCreator; of permissions, snapshots, templates and devices there are none.
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
				d.user = nil // prepares what the change needs
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
