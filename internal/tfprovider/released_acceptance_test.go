package tfprovider_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// This file covers each attribute of the released provider's schema. It sets all configurable attributes in an engine
// that is empty at first. The engine must store them, so that a plan after an import of all objects shows no change.
// The state must have these and all computed attributes.

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

// deviates lists the attributes of the released schema that behave differently here. The values name the documentation
// and the test.
var deviates = map[string]string{
	"resource ovirt_vm_graphics_consoles.console":    "no block is accepted; TestTheSchemaIsThatOfTheReleasedProvider",
	"resource ovirt_vm_graphics_consoles.console.id": "no block is accepted",
}

// releasedBlock is a block of the released schema.
type releasedBlock map[string]struct{ Block releasedBlock }

// attributesOf returns the paths of the attributes and blocks of the released schema.
func attributesOf(prefix string, block releasedBlock) []string {
	var out []string

	for name, one := range block {
		out = append(out, prefix+"."+name)
		out = append(out, attributesOf(prefix+"."+name, one.Block)...)
	}

	return out
}

// pathsOf collects the paths that have a value in a part of a state.
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

// valuesInState returns the paths of all attributes with a value in a state.
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

// talkingGuest is a guest with an agent that reports addresses.
type talkingGuest struct{}

func (talkingGuest) Boot(ctx context.Context, _ ovirtsim.GuestVM, ready func(ovirtsim.AgentReport)) error {
	ready(ovirtsim.AgentReport{Interfaces: []ovirtsim.ReportedInterface{
		{Name: "enp1s0", Addresses: []string{"10.0.0.9", "fd00::9"}},
	}})
	<-ctx.Done()

	return nil
}

func (talkingGuest) Shutdown(string) bool                      { return false }
func (talkingGuest) HandleHalt(string)                         {}
func (talkingGuest) HandleRemoval(string)                      {}
func (talkingGuest) SetDisks(string, []ovirtsim.GuestDisk)     {}
func (talkingGuest) HandleDiskRemoval(string)                  {}
func (talkingGuest) Node(string) (ovirtsim.GuestNode, bool)    { return ovirtsim.GuestNode{}, false }
func (talkingGuest) SetNodeReady(string, string, string) error { return nil }
func (talkingGuest) Close()                                    {}

// audited applies allReleased to an engine of its own.
func audited(t *testing.T) (*site, *workspace) {
	t.Helper()
	s := newSiteWith(t, ovirtsim.Options{Timings: quick, Guest: talkingGuest{}})
	medium, err := s.client.FindInstanceType(t.Context(), "Medium")
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
		if kind == "provider" { // each attribute has its own test, most of them in configuration_acceptance_test.go
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

// importsAll forgets the state, and imports all objects at once. Attributes the engine does not store may change in
// place. No object may be replaced.
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

	// A disk from an image cannot be imported, so use its ID instead of its block.
	before, rest, _ := strings.Cut(allReleased, "resource \"ovirt_disk_from_image\"")
	_, after, _ := strings.Cut(rest, "\n}\n")
	config := strings.ReplaceAll(before+after, "ovirt_disk_from_image.i.id", `"`+image+`"`)
	w.config(config + blocks.String())

	remembered := []string{ // values an import cannot know, in the order of docs/develop/terraform-provider.md
		"ovirt_vm.a",               // how the disks of its template were copied
		"ovirt_vm_start.a",         // how to stop the VM
		"ovirt_template.b",         // the VM it was created from
		"ovirt_disk.d",             // a size that a resize has changed
		"ovirt_disk_attachments.b", // which of its disks the configuration has
	}

	for address, action := range w.plans() {
		if action != "update" || !slices.Contains(remembered, address) {
			t.Errorf("after an import of all, the plan for %s is %s", address, action)
		}
	}

	w.apply()
	w.settled()
	attached, err := s.client.ListDiskAttachments(t.Context(), engine.ID(b))
	must(t, err)
	check.Length(t, "the disks of VM b", attached, 2) // including the boot disk, which has no block
}

// changes returns the attributes that a plan changes, by address. For an object to create, it returns "created".
func (w *workspace) changes() map[string][]string {
	w.t.Helper()
	w.succeed("plan", "-out=plan.tfplan", "-no-color", "-input=false")
	var plan struct {
		Changes []struct {
			Address string
			Change  struct {
				Actions       []string
				Before, After map[string]any
			}
		} `json:"resource_changes"`
	}
	must(w.t, json.Unmarshal([]byte(w.succeed("show", "-json", "plan.tfplan")), &plan))
	out := map[string][]string{}

	for _, c := range plan.Changes {
		switch action := strings.Join(c.Change.Actions, "+"); action {
		case "no-op", "read":
		case "update":
			for name, value := range c.Change.After {
				if !reflect.DeepEqual(value, c.Change.Before[name]) {
					out[c.Address] = append(out[c.Address], name)
				}
			}

			slices.Sort(out[c.Address])
		default:
			out[c.Address] = []string{action}
		}
	}

	return out
}

// drift is a manual change, and the plan expected after it.
type drift struct {
	address string
	want    []string
	change  func() error
}

// drifts returns a manual change of every attribute of allReleased that an administrator can change.
func (w *workspace) drifts(s *site) []drift {
	ctx := w.t.Context()
	a, b := engine.ID(w.text("ovirt_vm.a", "id")), engine.ID(w.text("ovirt_vm.b", "id"))
	nic, disk := engine.ID(w.text("ovirt_nic.a", "id")), engine.ID(w.text("ovirt_disk.d", "id"))
	cluster, group := engine.ID(s.ids["$cluster"]), engine.ID(w.text("ovirt_affinity_group.g", "id"))
	tag, other := engine.ID(w.text("ovirt_tag.t", "id")), "changed by hand"
	flag := func(value bool) *bool { return &value }

	return []drift{
		{"ovirt_vm.a", []string{
			"comment", "cpu_cores", "huge_pages", "memory_ballooning", "name", "os_type", "placement_policy_affinity",
			"placement_policy_host_ids", "serial_console", "soundcard_enabled", "vm_type",
		}, func() error {
			_, err := s.client.ChangeVM(ctx, a, &engine.VM{
				Name: "renamed", Comment: &other, OS: &engine.OS{Type: "rhel_9x64"}, Type: "server",
				CPU:     &engine.CPU{Topology: &engine.Topology{Cores: 1, Sockets: 2, Threads: 1}},
				Console: &engine.Console{}, Soundcard: flag(true), Properties: &engine.Properties{},
				MemoryPolicy:    &engine.MemoryPolicy{Ballooning: flag(true)},
				PlacementPolicy: &engine.PlacementPolicy{Affinity: "migratable"},
			})

			return err
		}},
		{"ovirt_nic.a", []string{"name"}, func() error {
			_, err := s.client.UpdateNIC(ctx, a, nic, &engine.NIC{Name: "renamed"})
			return err
		}},
		{"ovirt_disk.d", []string{"alias"}, func() error {
			return s.client.UpdateDisk(ctx, disk, &engine.Disk{Alias: &other})
		}},
		{"ovirt_disk_attachment.d", []string{"active"}, func() error {
			return s.client.UpdateAttachment(ctx, a, disk, &engine.DiskAttachment{Active: flag(false)})
		}},
		{"ovirt_tag.t", []string{"description", "name"}, func() error {
			return s.client.UpdateTag(ctx, tag, "red", other)
		}},
		{"ovirt_vm_tag.a", []string{"create"}, func() error { return s.client.UntagVM(ctx, a, tag) }},
		{"ovirt_vm_affinity_group.a", []string{"create"}, func() error {
			return s.client.RemoveFromAffinityGroup(ctx, cluster, group, b)
		}},
		{"ovirt_affinity_group.g", []string{"description", "name"}, func() error {
			_, err := s.client.UpdateAffinityGroup(ctx, cluster, group,
				&engine.AffinityGroup{Name: "renamed", Description: &other})
			return err
		}},
		{"ovirt_template.b", []string{"description", "name"}, func() error {
			_, err := s.client.UpdateTemplate(ctx, engine.ID(w.text("ovirt_template.b", "id")), "renamed", other)
			return err
		}},
	}
}

// TestDriftOfEachAttributeIsChangedBack changes all objects by hand. It expects a plan to undo each change in place,
// and to change nothing else.
func TestDriftOfEachAttributeIsChangedBack(t *testing.T) {
	t.Parallel()
	s, w := audited(t)
	a, want := w.text("ovirt_vm.a", "id"), map[string][]string{}

	for _, d := range w.drifts(s) {
		wait.For(t, d.address+" is changed", d.change)
		want[d.address] = d.want
	}

	got := w.changes()
	for address, attributes := range want {
		check.Equal(t, "what is changed of "+address, strings.Join(got[address], " "), strings.Join(attributes, " "))
		delete(got, address)
	}

	check.Equal(t, "what else is changed", len(got), 0)
	w.apply()
	w.settled()
	check.Equal(t, "the VM", s.vm(t, "a").ID.String(), a)

	must(t, s.client.StopVM(t.Context(), engine.ID(a), true))
	wait.Until(t, "the VM is down", func() bool { return s.vm(t, "a").Status == engine.VMDown })
	check.Equal(t, "what is changed of the start", strings.Join(w.changes()["ovirt_vm_start.a"], " "), "status")
	w.apply()
	w.settled()
}
