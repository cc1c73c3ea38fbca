package tfprovider_test

import (
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

const byName = `
data "ovirt_cluster" "a" {
  name        = "Default"
  data_center = "Default"
}
data "ovirt_storage_domain" "a" { name = "olvm-data" }
data "ovirt_vnic_profile" "a" {
  name    = "kvm-vlan"
  network = "kvm-vlan"
}
data "ovirt_template" "a" { name = "ol9-k8s" }
data "ovirt_host" "a" { name = "$host" }
data "ovirt_vm" "a" {
  name       = "a"
  depends_on = [ovirt_vm.a]
}
data "ovirt_disk" "d" {
  name       = "data <1> & more"
  depends_on = [ovirt_disk.d]
}
`

func TestObjectsAreFoundByTheirNames(t *testing.T) { // R14
	t.Parallel()
	s := newSite(t, quick)
	hosts, err := s.client.ListHosts(t.Context())
	must(t, err)
	s.ids["$host"] = hosts[0].Name
	w := newWorkspace(t, s).config(plainVM + disk + byName)
	w.apply()

	for address, want := range map[string]string{
		"data.ovirt_cluster.a": s.ids["$cluster"], "data.ovirt_storage_domain.a": s.ids["$storage"],
		"data.ovirt_vnic_profile.a": s.ids["$profile"], "data.ovirt_template.a": s.ids["$template"],
		"data.ovirt_host.a": hosts[0].ID.String(), "data.ovirt_vm.a": w.text("ovirt_vm.a", "id"),
		"data.ovirt_disk.d": w.text("ovirt_disk.d", "id"),
	} {
		check.Equal(t, address, w.text(address, "id"), want)
	}

	w.settled()
}

func TestANameThatIsNotOneObjectsIsAnError(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)

	for kind, find := range map[string]string{
		"cluster": "cluster", "host": "host", "storage_domain": "storage domain", "vnic_profile": "vNIC profile",
		"vm": "VM", "disk": "disk", "template": "template",
	} {
		w := newWorkspace(t, s).config("data \"ovirt_" + kind + "\" \"x\" { name = \"nobody\" }\n")
		message := w.fail()
		check.Contains(t, kind, message, find)
		check.Contains(t, kind, message, "nobody")
	}

	w := newWorkspace(t, s).config(disk + strings.Replace(disk, `"d"`, `"e"`, 1))
	w.apply()
	first, second := w.text("ovirt_disk.d", "id"), w.text("ovirt_disk.e", "id")
	message := newWorkspace(t, s).config("data \"ovirt_disk\" \"x\" { name = \"data <1> & more\" }\n").fail()
	check.Contains(t, "the message", message, first)
	check.Contains(t, "the message", message, second)
	check.Equal(t, "two disks", engine.ID(first) == engine.ID(second), false)
}
