package tfprovider_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// This file takes each attribute of the released provider's schema. All that can be set are set, in an engine that
// starts empty; the engine must have them, so that an import of all objects plans nothing; and the state must have them
// and all that the provider computes.

// allReleased sets each attribute of each resource and data source of ovirt/ovirt 2.2.0.
const allReleased = `
data "ovirt_blank_template" "b" {}
data "ovirt_templates" "t" {
  name          = "ol9-k8s"
  fail_on_empty = true
}
data "ovirt_cluster_hosts" "h" { cluster_id = "$cluster" }
data "ovirt_template_disk_attachments" "t" { template_id = "$template" }
data "ovirt_disk_attachments" "b" {
  vm_id      = ovirt_vm.b.id
  depends_on = [ovirt_disk_attachments.b]
}
data "ovirt_affinity_group" "g" {
  cluster_id = ovirt_affinity_group.g.cluster_id
  name       = ovirt_affinity_group.g.name
}
data "ovirt_wait_for_ip" "a" { vm_id = ovirt_vm_start.a.vm_id }

resource "ovirt_vm" "a" {
  name                         = "a"
  comment                      = "as documented"
  cluster_id                   = "$cluster"
  template_id                  = tolist(data.ovirt_templates.t.templates)[0].id
  clone                        = true
  cpu_cores                    = 2
  cpu_sockets                  = 2
  cpu_threads                  = 1
  cpu_mode                     = "host_passthrough"
  huge_pages                   = 2048
  memory                       = 2147483648
  maximum_memory               = 4294967296
  memory_ballooning            = false
  os_type                      = "rhel_8x64"
  vm_type                      = "high_performance"
  serial_console               = true
  soundcard_enabled            = false
  placement_policy_affinity    = "pinned"
  placement_policy_host_ids    = [sort([for host in data.ovirt_cluster_hosts.h.hosts : host.id])[0]]
  initialization_custom_script = "#cloud-config\n"
  initialization_hostname      = "a.example.com"
  initialization_nic {
    name = "enp1s0"
    ipv4 {
      address = "10.0.0.9"
      netmask = "255.255.255.0"
      gateway = "10.0.0.1"
    }
    ipv6 {
      address = "fd00::9"
      netmask = "64"
      gateway = "fd00::1"
    }
  }
  template_disk_attachment_override {
    disk_id           = tolist(data.ovirt_template_disk_attachments.t.disk_attachments)[0].disk_id
    format            = "raw"
    provisioning      = "sparse"
    storage_domain_id = "$storage"
  }
}
resource "ovirt_nic" "a" {
  name            = "nic1"
  vm_id           = ovirt_vm.a.id
  vnic_profile_id = "$profile"
}
resource "ovirt_vm_graphics_consoles" "a" { vm_id = ovirt_vm.a.id }
resource "ovirt_vm_optimize_cpu_settings" "a" { vm_id = ovirt_vm.a.id }
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
  active         = true
  bootable       = false
  depends_on     = [ovirt_disk_resize.d]
}
resource "ovirt_vm_start" "a" {
  vm_id         = ovirt_vm.a.id
  status        = "up"
  stop_behavior = "stop"
  force_stop    = true
  depends_on    = [ovirt_nic.a, ovirt_disk_attachment.d, ovirt_vm_graphics_consoles.a, ovirt_vm_optimize_cpu_settings.a]
}

resource "ovirt_vm" "b" {
  name             = "b"
  cluster_id       = "$cluster"
  template_id      = "$template"
  instance_type_id = "$medium"
}
resource "ovirt_vm_disks_resize" "b" {
  vm_id = ovirt_vm.b.id
  size  = 214748364800
}
resource "ovirt_disk_from_image" "i" {
  alias             = "image"
  format            = "cow"
  sparse            = true
  source_file       = "$image"
  storage_domain_id = "$storage"
}
resource "ovirt_disk_attachments" "b" {
  vm_id            = ovirt_vm.b.id
  detach_unmanaged = false
  remove_unmanaged = false
  attachment {
    disk_id        = ovirt_disk_from_image.i.id
    disk_interface = "virtio"
    active         = true
    bootable       = false
  }
  depends_on = [ovirt_vm_disks_resize.b]
}
resource "ovirt_template" "b" {
  name        = "golden"
  description = "as documented"
  vm_id       = ovirt_vm.b.id
  depends_on  = [ovirt_disk_attachments.b]
}

resource "ovirt_tag" "t" {
  name        = "blue"
  description = "as documented"
}
resource "ovirt_vm_tag" "a" {
  tag_id = ovirt_tag.t.id
  vm_id  = ovirt_vm.a.id
}
resource "ovirt_affinity_group" "g" {
  name        = "apart"
  cluster_id  = "$cluster"
  description = "as documented"
  enforcing   = true
  priority    = 2
  hosts_rule {
    affinity  = "positive"
    enforcing = false
  }
  vms_rule {
    affinity  = "negative"
    enforcing = true
  }
}
resource "ovirt_vm_affinity_group" "a" {
  cluster_id        = "$cluster"
  affinity_group_id = ovirt_affinity_group.g.id
  vm_id             = ovirt_vm.b.id
}
`

// deviates are the attributes of the released schema that behave otherwise, and where that is said and shown.
var deviates = map[string]string{
	"resource ovirt_vm_graphics_consoles.console":    "no block is accepted; TestMistakesAreFoundBeforeAnythingIsPlanned",
	"resource ovirt_vm_graphics_consoles.console.id": "no block is accepted",
}

// releasedBlock is a block of the released schema.
type releasedBlock map[string]struct{ Block releasedBlock }

// attributesOf are the paths of the attributes and blocks of the released schema.
func attributesOf(prefix string, block releasedBlock) []string {
	var out []string

	for name, one := range block {
		out = append(out, prefix+"."+name)
		out = append(out, attributesOf(prefix+"."+name, one.Block)...)
	}

	return out
}

// pathsOf are the paths in a value of a state that have one.
func pathsOf(prefix string, value any, out map[string]bool) {
	switch v := value.(type) {
	case nil:
		return
	case map[string]any:
		for name, one := range v {
			pathsOf(prefix+"."+name, one, out)
		}
	case []any:
		for _, one := range v {
			pathsOf(prefix, one, out)
		}

		if len(v) > 0 {
			out[prefix] = true
		}
	default:
		out[prefix] = true
	}
}

// valuesInState are the paths of all attributes in a state that have a value.
func (w *workspace) valuesInState() map[string]bool {
	w.t.Helper()
	content, err := os.ReadFile(filepath.Join(w.dir, "terraform.tfstate"))
	must(w.t, err)
	var state struct {
		Resources []struct {
			Mode, Type string
			Instances  []struct{ Attributes map[string]any }
		}
	}
	must(w.t, json.Unmarshal(content, &state))
	out := map[string]bool{}

	for _, r := range state.Resources {
		kind := map[string]string{"managed": "resource ", "data": "data "}[r.Mode] + r.Type
		for _, instance := range r.Instances {
			for name, value := range instance.Attributes {
				pathsOf(kind+"."+name, value, out)
			}
		}
	}

	return out
}

// audited applies allReleased at an engine of its own.
func audited(t *testing.T) (*site, *workspace) {
	t.Helper()
	s := newSite(t, quick)
	medium, err := s.client.InstanceType(t.Context(), "Medium")
	must(t, err)
	s.ids["$medium"], s.ids["$image"] = medium.ID.String(), image(t, 20<<20, gib)
	w := newWorkspace(t, s).config(allReleased)
	w.apply()
	w.settled()

	return s, w
}

func TestEveryAttributeOfTheReleasedProviderIsAsDocumented(t *testing.T) {
	t.Parallel()
	s, w := audited(t)
	content, err := os.ReadFile("testdata/released-2.2.0.json")
	must(t, err)
	var all map[string]releasedBlock
	must(t, json.Unmarshal(content, &all))
	seen, looked := w.valuesInState(), 0

	for kind, block := range all {
		if kind == "provider" { // each has a test of its own in configuration_acceptance_test.go and vm_acceptance_test.go
			continue
		}

		for _, path := range attributesOf(kind, block) {
			looked++
			if deviates[path] == "" && !seen[path] {
				t.Errorf("%s has no value in the state", path)
			}
		}
	}

	check.Equal(t, "many attributes were looked at", looked > 130, true)

	t.Run("an import of all reads the same", func(t *testing.T) { w.importsAll(s, t) })
}

// importsAll forgets the state, and imports all objects at once. What the engine does not remember may be recorded in
// place; nothing may be replaced.
func (w *workspace) importsAll(s *site, t *testing.T) {
	t.Helper()
	a, b, group := w.text("ovirt_vm.a", "id"), w.text("ovirt_vm.b", "id"), w.text("ovirt_affinity_group.g", "id")
	image := w.text("ovirt_disk_from_image.i", "id")
	imports := map[string]string{
		"ovirt_vm.a": a, "ovirt_vm.b": b, "ovirt_nic.a": a + "/" + w.text("ovirt_nic.a", "id"), "ovirt_vm_start.a": a,
		"ovirt_vm_graphics_consoles.a": a, "ovirt_vm_optimize_cpu_settings.a": a,
		"ovirt_disk.d": w.text("ovirt_disk.d", "id"), "ovirt_disk_resize.d": w.text("ovirt_disk.d", "id"),
		"ovirt_disk_attachment.d": a + "/" + w.text("ovirt_disk.d", "id"), "ovirt_vm_disks_resize.b": b,
		"ovirt_disk_attachments.b": b, "ovirt_template.b": w.text("ovirt_template.b", "id"),
		"ovirt_tag.t": w.text("ovirt_tag.t", "id"), "ovirt_vm_tag.a": w.text("ovirt_tag.t", "id") + "/" + a,
		"ovirt_affinity_group.g":    s.ids["$cluster"] + "/" + group,
		"ovirt_vm_affinity_group.a": s.ids["$cluster"] + "/" + group + "/" + b,
	}

	w.forget()

	var blocks strings.Builder
	for address, id := range imports {
		blocks.WriteString("import {\n  to = " + address + "\n  id = \"" + id + "\"\n}\n")
	}

	// A disk of an image has no import: its block becomes the ID that it has.
	before, rest, _ := strings.Cut(allReleased, "resource \"ovirt_disk_from_image\"")
	_, after, _ := strings.Cut(rest, "\n}\n")
	config := strings.ReplaceAll(before+after, "ovirt_disk_from_image.i.id", `"`+image+`"`)
	w.config(config + blocks.String())

	remembered := []string{ // what an import cannot know, in the words of docs/develop/terraform-provider.md
		"ovirt_vm.a",       // the way in which the disks of its template were copied
		"ovirt_vm_start.a", // how to stop the VM
		"ovirt_template.b", // the VM that it was made of
		"ovirt_disk.d",     // a size that a resize has changed
	}

	for address, action := range w.plans() {
		if action != "update" || !slices.Contains(remembered, address) {
			t.Errorf("after an import of all, the plan for %s is %s", address, action)
		}
	}

	w.apply()
	w.settled()
}

// drift is a change by hand of one attribute.
type drift struct {
	address string
	// change makes it; replaces says that the plan makes another object instead of changing the one that there is.
	change   func() error
	replaces bool
}

func (s *site) changeVM(t *testing.T, id string, change engine.VM) func() error {
	t.Helper()

	return func() error {
		_, err := s.client.ChangeVM(t.Context(), engine.ID(id), &change)
		return err
	}
}

// TestDriftOfEachAttributeIsChangedBack changes by hand what an administrator can change of each object, one after the
// other, and expects a plan that changes it back in place, and nothing else.
func TestDriftOfEachAttributeIsChangedBack(t *testing.T) {
	t.Parallel()
	s, w := audited(t)
	ctx := t.Context()
	text := func(address, name string) string { return w.text(address, name) }
	a, nic := text("ovirt_vm.a", "id"), engine.ID(text("ovirt_nic.a", "id"))
	disk, tag := engine.ID(text("ovirt_disk.d", "id")), engine.ID(text("ovirt_tag.t", "id"))
	cluster, group := engine.ID(s.ids["$cluster"]), engine.ID(text("ovirt_affinity_group.g", "id"))
	template := engine.ID(text("ovirt_template.b", "id"))
	other := "changed by hand"
	flag := func(value bool) *bool { return &value }
	ofVM := func(change engine.VM) drift {
		return drift{address: "ovirt_vm.a", change: s.changeVM(t, a, change)}
	}
	ofGroup := func(change engine.AffinityGroup) drift {
		return drift{address: "ovirt_affinity_group.g", change: func() error {
			_, err := s.client.UpdateAffinityGroup(ctx, cluster, group, &change)
			return err
		}}
	}

	for name, d := range map[string]drift{
		"comment of a VM":    ofVM(engine.VM{Comment: &other}),
		"name of a VM":       ofVM(engine.VM{Name: "renamed"}),
		"system of a VM":     ofVM(engine.VM{OS: &engine.OS{Type: "rhel_9x64"}}),
		"kind of a VM":       ofVM(engine.VM{Type: "server"}),
		"console of a VM":    ofVM(engine.VM{Console: &engine.Console{}}),
		"sound card of a VM": ofVM(engine.VM{Soundcard: flag(true)}),
		"huge pages of a VM": ofVM(engine.VM{Properties: &engine.Properties{}}),
		"ballooning of a VM": ofVM(engine.VM{MemoryPolicy: &engine.MemoryPolicy{Ballooning: flag(true)}}),
		"placement of a VM":  ofVM(engine.VM{PlacementPolicy: &engine.PlacementPolicy{Affinity: "migratable"}}),
		"name of a NIC": {"ovirt_nic.a", func() error {
			_, err := s.client.UpdateNIC(ctx, engine.ID(a), nic, &engine.NIC{Name: "renamed"})
			return err
		}, false},
		"alias of a disk": {"ovirt_disk.d", func() error {
			return s.client.UpdateDisk(ctx, disk, &engine.Disk{Alias: &other})
		}, false},
		"an attachment": {"ovirt_disk_attachment.d", func() error {
			return s.client.UpdateAttachment(ctx, engine.ID(a), disk, &engine.DiskAttachment{Active: flag(false)})
		}, false},
		"name of a tag":        {"ovirt_tag.t", func() error { return s.client.UpdateTag(ctx, tag, "red", "as documented") }, false},
		"description of a tag": {"ovirt_tag.t", func() error { return s.client.UpdateTag(ctx, tag, "blue", other) }, false},
		"a tag of a VM":        {"ovirt_vm_tag.a", func() error { return s.client.UntagVM(ctx, engine.ID(a), tag) }, true},
		"a member of a group": {"ovirt_vm_affinity_group.a", func() error {
			return s.client.RemoveFromAffinityGroup(ctx, cluster, group, engine.ID(text("ovirt_vm.b", "id")))
		}, true},
		"description of a group": ofGroup(engine.AffinityGroup{Description: &other}),
		"name of a group":        ofGroup(engine.AffinityGroup{Name: "renamed"}),
		"a template": {"ovirt_template.b", func() error {
			_, err := s.client.UpdateTemplate(ctx, template, "golden", other)
			return err
		}, false},
		"a VM that was stopped": {"ovirt_vm_start.a", func() error {
			if err := s.client.StopVM(ctx, engine.ID(a), true); err != nil {
				return err
			}

			wait.Until(t, "the VM is down", func() bool { return s.vm(t, "a").Status == engine.VMDown })

			return nil
		}, false},
	} {
		wait.For(t, name+" is changed", d.change)
		w.wants(d.address, map[bool]string{true: "create", false: "update"}[d.replaces])
		w.apply()
		w.settled()
		check.Equal(t, "VM a after "+name, s.vm(t, "a").ID.String(), a)
		check.Equal(t, "the VM has its name after "+name, fmt.Sprint(s.vm(t, "a").Name), "a")
	}
}
