package tfprovider_test

import (
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// This file shows that a change of the timeouts changes nothing in the engine.

// withTimeouts adds a timeouts block to each resource of the provider that has none.
func withTimeouts(config string) string {
	var out strings.Builder

	for line := range strings.Lines(config) {
		out.WriteString(line)
		if strings.HasPrefix(line, `resource "ovirt_`) {
			out.WriteString("  timeouts { update = \"20m\" }\n")
		}
	}

	return out.String()
}

// everyKind has resources of the kinds that cannot update their objects, and some others.
const everyKind = `
resource "ovirt_vm" "a" {
  name                      = "a"
  cluster_id                = "$cluster"
  template_id               = "$template"
  placement_policy_affinity = "pinned"
  placement_policy_host_ids = [tolist(data.ovirt_cluster_hosts.h.hosts)[0].id]
}
data "ovirt_cluster_hosts" "h" {
  cluster_id = "$cluster"
}
resource "ovirt_nic" "a" {
  name            = "nic1"
  vm_id           = ovirt_vm.a.id
  vnic_profile_id = "$profile"
}
resource "ovirt_tag" "t" {
  name = "blue"
}
resource "ovirt_vm_tag" "t" {
  tag_id = ovirt_tag.t.id
  vm_id  = ovirt_vm.a.id
}
resource "ovirt_affinity_group" "g" {
  name       = "g"
  cluster_id = "$cluster"
  vms_rule {
    affinity = "negative"
  }
}
resource "ovirt_vm_affinity_group" "g" {
  cluster_id        = "$cluster"
  affinity_group_id = ovirt_affinity_group.g.id
  vm_id             = ovirt_vm.a.id
}
resource "ovirt_vm_watchdog" "a" {
  vm_id  = ovirt_vm.a.id
  model  = "i6300esb"
  action = "reset"
}
resource "ovirt_vm_host_device" "a" {
  vm_id = ovirt_vm.a.id
  name  = "pci_0000_3b_00_0"
}
resource "ovirt_vm_mediated_device" "a" {
  vm_id = ovirt_vm.a.id
  type  = "nvidia-63"
}
resource "ovirt_vm_optimize_cpu_settings" "a" {
  vm_id = ovirt_vm.a.id
}
resource "ovirt_vm_graphics_consoles" "a" {
  vm_id = ovirt_vm.a.id
}
resource "ovirt_disk" "d" {
  alias             = "data"
  format            = "raw"
  sparse            = true
  size              = 1073741824
  storage_domain_id = "$storage"
}
resource "ovirt_disk_resize" "d" {
  disk_id = ovirt_disk.d.id
  size    = 2147483648
}
resource "ovirt_disk_attachment" "d" {
  vm_id          = ovirt_vm.a.id
  disk_id        = ovirt_disk.d.id
  disk_interface = "virtio_scsi"
}
resource "ovirt_template" "t" {
  name  = "golden"
  vm_id = ovirt_vm.a.id
  depends_on = [ovirt_disk_attachment.d, ovirt_disk_resize.d, ovirt_vm_watchdog.a, ovirt_vm_host_device.a,
    ovirt_vm_mediated_device.a, ovirt_vm_optimize_cpu_settings.a, ovirt_vm_graphics_consoles.a]
}
`

func TestAChangeOfTimeoutsSendsNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(everyKind)
	w.apply()

	before := changesOf(s)
	w.config(withTimeouts(everyKind)).apply()
	check.Equal(t, "what was sent", strings.Join(changesOf(s)[len(before):], ", "), "")
	w.settled()
}

// changesOf returns the requests that change something, without the login.
func changesOf(s *site) []string {
	var out []string

	for _, r := range s.sim.ListRequests() {
		if r.Method != "GET" && !strings.Contains(r.Path, "/sso/") && !strings.Contains(r.Path, "logout") {
			out = append(out, r.Method+" "+r.Path)
		}
	}

	return out
}

// TestTimeoutsOfAnAdoptedVMThatRunsChange has an engine forget the user data after the guest has read it.
func TestTimeoutsOfAnAdoptedVMThatRunsChange(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	const config = plainVM + `
resource "ovirt_adopted_vm" "a" {
  vm_id                        = ovirt_vm.a.id
  initialization_custom_script = "#cloud-config"
}
`
	w := newWorkspace(t, s).config(config)
	w.apply()
	id := engine.ID(w.text("ovirt_vm.a", "id"))
	wait.For(t, "the VM starts", func() error { return s.client.StartVM(t.Context(), id, true) })
	wait.Until(t, "the VM is up", func() bool { return s.vm(t, "a").Status == engine.VMUp })
	must(t, s.client.ForgetUserData(t.Context(), id))

	w.config(withTimeouts(config)).apply()
	w.settled()
}

// TestTimeoutsOfAResizeChangeWhileTheDiskIsLarger has a disk grown by hand.
func TestTimeoutsOfAResizeChangeWhileTheDiskIsLarger(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	config := disk + "resource \"ovirt_disk_resize\" \"d\" {\n  disk_id = ovirt_disk.d.id\n  size = 2147483648\n}\n"
	w := newWorkspace(t, s).config(config)
	w.apply()
	must(t, s.client.GrowDisk(t.Context(), engine.ID(w.text("ovirt_disk.d", "id")), 4<<30, nil))
	w.config(withTimeouts(config)).apply()
	w.settled()
}
