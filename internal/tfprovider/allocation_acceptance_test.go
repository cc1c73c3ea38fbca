package tfprovider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestWhatNoDiskCanBeIsRefusedAtThePlan plans impossible disks. An engine rejects them only after the VM in the same
// configuration exists.
func TestWhatNoDiskCanBeIsRefusedAtThePlan(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)

	disk := func(format, sparse, domain string) string {
		return plainVM + fmt.Sprintf("resource \"ovirt_disk\" \"d\" {\n  format = %q\n  sparse = %s\n"+
			"  size = 1073741824\n  storage_domain_id = %q\n}\n", format, sparse, domain)
	}
	override := func(clone, settings string) string {
		return fmt.Sprintf("resource \"ovirt_vm\" \"a\" {\n  name = \"a\"\n  cluster_id = \"$cluster\"\n"+
			"  template_id = \"$template\"\n  %s\n  template_disk_attachment_override {\n"+
			"    disk_id = \"00000000-0000-4000-8000-000000000001\"\n    %s\n  }\n}\n", clone, settings)
	}

	for name, test := range map[string]struct{ config, want string }{
		"raw and sparse on block storage": {disk("raw", "true", "$block"), `"block" is block storage (iscsi)`},
		"cow and preallocated":            {disk("cow", "false", "$storage"), "cow disk is always sparse"},
		"a raw link":                      {override("", `format = "raw"`), `set clone = true`},
		"a preallocated link": {
			override("clone = false", `provisioning = "non-sparse"`), `set clone = true`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			message := strings.Join(strings.Fields(newWorkspace(t, s).config(test.config).fail()), " ")
			check.Contains(t, "message", message, test.want)
			check.Length(t, "VMs", s.sim.ListVMs(), 0)
			check.Length(t, "disks", s.sim.ListDisks(), 0)
		})
	}
}

// TestACopyIsAsItsOverrideSaysOrAsTheTemplate checks the disks of copies. If an override omits a setting, the engine
// uses the template's setting, even if the storage does not support it.
func TestACopyIsAsItsOverrideSaysOrAsTheTemplate(t *testing.T) {
	t.Parallel()

	s := newSiteWith(t, ovirtsim.Options{Timings: quick})
	attached, err := s.client.ListTemplateDiskAttachments(t.Context(), engine.ID(s.ids["$template"]))
	must(t, err)
	s.ids["$disk"] = attached[0].DiskID().String()

	wants := map[string]struct {
		override, format string
		sparse           bool
	}{
		"raw-on-block":     {"format = \"raw\"\n    storage_domain_id = \"$block\"", "raw", false},
		"raw-on-file":      {`format = "raw"`, "raw", true}, // as in the template
		"raw-preallocated": {"format = \"raw\"\n    provisioning = \"non-sparse\"", "raw", false},
		"elsewhere":        {`storage_domain_id = "$block"`, "cow", true},
	}

	var config strings.Builder
	for name, want := range wants {
		fmt.Fprintf(&config, "resource \"ovirt_vm\" %q {\n  name = %q\n  cluster_id = \"$cluster\"\n"+
			"  template_id = \"$template\"\n  clone = true\n  template_disk_attachment_override {\n"+
			"    disk_id = \"$disk\"\n    %s\n  }\n}\n", name, name, want.override)
	}

	w := newWorkspace(t, s).config(config.String())
	w.apply()
	w.settled()

	for name, want := range wants {
		attached, err := s.client.ListDiskAttachments(t.Context(), engine.ID(w.text("ovirt_vm."+name, "id")))
		must(t, err)

		disk := s.disk(t, attached[0].DiskID())
		check.Equal(t, name+": format", disk.Format, want.format)
		check.Equal(t, name+": sparse", *disk.Sparse, want.sparse)
	}
}

// TestAStorageDomainOutOfUseIsRefusedAtThePlan names an unusable domain in every possible attribute. It also applies a
// plan made before the domain became unusable.
func TestAStorageDomainOutOfUseIsRefusedAtThePlan(t *testing.T) {
	t.Parallel()
	s := newSiteWith(t, ovirtsim.Options{Timings: quick, Inventory: ovirtsim.Inventory{
		DataCenters: []ovirtsim.DataCenter{{
			Name: "far", StorageDomains: []ovirtsim.StorageDomain{{
				Name: "idle", ID: "00000000-0000-4000-8000-00000000000a", Maintenance: true,
			}},
		}},
	}})
	s.ids["$idle"] = "00000000-0000-4000-8000-00000000000a"
	attached, err := s.client.ListTemplateDiskAttachments(t.Context(), engine.ID(s.ids["$template"]))
	must(t, err)
	s.ids["$disk"] = attached[0].DiskID().String()

	disk := func(allocation string) string {
		return "resource \"ovirt_disk\" \"d\" {\n  size = 1073741824\n  storage_domain_id = \"$idle\"\n  " + allocation + "\n}\n"
	}
	vm := func(settings string) string {
		return "resource \"ovirt_vm\" \"a\" {\n  name = \"a\"\n  cluster_id = \"$cluster\"\n" +
			"  template_id = \"$template\"\n  clone = true\n" + settings + "\n}\n"
	}

	for name, config := range map[string]string{
		"a disk":           disk(`format = "cow"`),
		"a raw disk":       disk("format = \"raw\"\n  sparse = false"),
		"a copy of a disk": vm("template_disk_attachment_override {\n  disk_id = \"$disk\"\n  storage_domain_id = \"$idle\"\n  format = \"cow\"\n}"),
		"a lease":          vm("high_availability = true\n  lease_storage_domain_id = \"$idle\""),
		"a disk of an image": "resource \"ovirt_disk_from_image\" \"d\" {\n  source_file = \"main.tf\"\n  format = \"raw\"\n" +
			"  storage_domain_id = \"$idle\"\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			message := newWorkspace(t, s).config(config).fail()
			check.Contains(t, "message", message, `storage domain "idle" has the status maintenance`)
			check.Lacks(t, "message", message, "Creating...")
		})
	}
}
