package tfprovider_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// permissionOf returns a permission of a user on a VM.
func permissionOf(d *direct, role string) set {
	return set{"object_type": "vm", "object_id": d.vm("a", nil), "role": role, "user_id": d.userID()}
}

func TestAPermissionFromCreationToDestruction(t *testing.T) {
	t.Parallel()
	d := newDirect(t, newSite(t, quick))
	of := permissionOf(d, "UserVmManager")
	m := d.make("ovirt_permission", of)
	m.settled(of)

	id := "vm/" + textOf(of, "object_id") + "/" + m.text("id")

	t.Run("one that is there is not taken", func(t *testing.T) {
		wrong := strings.Join(d.resource("ovirt_permission").apply(of), "\n")
		check.Contains(t, "the problem", wrong, "import it with the ID "+id)
	})
	t.Run("it is imported", func(t *testing.T) {
		other := d.resource("ovirt_permission")
		check.Length(t, "the problems", other.imports(id), 0)
		other.settled(of)
		check.Contains(t, "the problem", strings.Join(other.imports(strings.TrimPrefix(id, "vm")), "\n"), "OBJECT_TYPE")
	})
	t.Run("another user needs another permission", func(t *testing.T) {
		check.Equal(t, "the plan", m.plan(with(of, set{"user_id": textOf(of, "object_id")})).action, "replace")
	})
	t.Run("a role that is not there is named", func(t *testing.T) {
		wrong := strings.Join(d.resource("ovirt_permission").apply(with(of, set{"role": "UserVmManagr"})), "\n")
		check.Contains(t, "the problem", wrong, "UserVmManager")
	})

	d.begin()
	check.Length(t, "the problems", m.destroy(), 0)
	check.Equal(t, "the permissions", lostCases()["ovirt_permission"].count(d, of), 0)
}

// TestAPermissionThatIsInheritedIsAnother gives a user a role on one VM. The user already has the role on the whole
// system, so the list of the VM has both permissions.
func TestAPermissionThatIsInheritedIsAnother(t *testing.T) {
	t.Parallel()
	d := newDirect(t, newSite(t, quick))
	of := permissionOf(d, "SuperUser")
	d.make("ovirt_permission", of).settled(of)
}

// TestAPermissionOfAGroupOnEachKindOfObject gives a role to the group of all users.
func TestAPermissionOfAGroupOnEachKindOfObject(t *testing.T) {
	t.Parallel()
	d := newDirect(t, newSite(t, quick))
	group := firstID.FindStringSubmatch(d.site.request(t, "GET", "/groups", ""))[1]
	dataCenter := firstID.FindStringSubmatch(d.site.request(t, "GET", "/datacenters", ""))[1]

	for kind, id := range map[string]string{
		"cluster": d.site.ids["$cluster"], "data_center": dataCenter, "disk": d.disk("d"),
		"storage_domain": d.site.ids["$storage"], "template": d.site.ids["$template"], "vm": d.vm("a", nil),
		"vnic_profile": d.site.ids["$profile"],
	} {
		of := set{"object_type": kind, "object_id": id, "role": "UserRole", "group_id": group}
		m := d.make("ovirt_permission", of)
		m.settled(of)
		d.begin()
		check.Length(t, "the problems with "+kind, m.destroy(), 0)
	}
}

func TestAPermissionIsOfAUserOrAGroup(t *testing.T) {
	t.Parallel()
	d := newDirect(t, newSiteWith(t, ovirtsim.Options{Timings: quick}))
	m := d.resource("ovirt_permission")
	id := d.site.ids["$cluster"]

	for name, changes := range map[string]set{"both": {"user_id": id, "group_id": id}, "none": {}} {
		of := with(set{"object_type": "cluster", "object_id": id, "role": "UserRole"}, changes)
		valid, err := d.ValidateResourceTypeConfig(t.Context(), &tfprotov5.ValidateResourceTypeConfigRequest{
			TypeName: m.typeName, Config: m.packed(blockValue(m.schema().Block, of)),
		})
		must(t, err)
		check.Length(t, "the problems of "+name, problems(valid.Diagnostics), 1)
	}
}
