package tfprovider_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// This file shows that the provider never destroys or takes over an object unexpectedly.

const plainNIC = `
resource "ovirt_nic" "a" {
  name            = "nic1"
  vm_id           = ovirt_vm.a.id
  vnic_profile_id = "$profile"
}
`

// newSiteWithNICs returns a site whose template has a network interface nic1.
func newSiteWithNICs(t *testing.T) *site {
	t.Helper()

	return newSiteWith(t, ovirtsim.Options{Timings: quick}, func(inventory *ovirtsim.Inventory) {
		templates := inventory.DataCenters[0].Templates
		for i := range templates {
			templates[i].NICs = []ovirtsim.TemplateNIC{{Name: "nic1", Network: "kvm-vlan"}}
		}
	})
}

func (s *site) nics(t *testing.T, vm string) []engine.NIC {
	t.Helper()
	nics, err := s.client.ListNICs(t.Context(), engine.ID(vm))
	must(t, err)

	return nics
}

// replaceFirst is a lifecycle block: create the new object before destroying the old one.
const replaceFirst = "  lifecycle {\n    create_before_destroy = true\n  }\n}\n"

func TestANetworkInterfaceThatExistsIsNotTaken(t *testing.T) {
	t.Parallel()

	t.Run("one that somebody made", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, quick)
		w := newWorkspace(t, s).config(plainVM)
		w.apply()
		vm := w.text("ovirt_vm.a", "id")
		made, err := s.client.CreateNIC(t.Context(), engine.ID(vm), &engine.NIC{
			Name: "nic1", VNICProfile: engine.NewRef(engine.ID(s.ids["$profile"])),
		})
		must(t, err)
		check.Contains(t, "the message", w.config(plainVM+plainNIC).fail(), "import it with the ID "+vm+"/"+made.ID.String())
		w.importID("ovirt_nic.a", vm+"/"+made.ID.String())
		w.settled()
	})
	t.Run("two resources of one name", func(t *testing.T) {
		t.Parallel()

		for name, s := range map[string]*site{"a plain template": newSite(t, quick), "one with NICs": newSiteWithNICs(t)} {
			twice := plainVM + plainNIC + strings.Replace(plainNIC, `"a"`, `"b"`, 1)
			check.Contains(t, "the message of "+name, newWorkspace(t, s).config(twice).fail(), "exists already")
		}
	})
	t.Run("that of the template is, once", func(t *testing.T) {
		t.Parallel()
		s := newSiteWithNICs(t)
		config := plainVM + strings.TrimSuffix(plainNIC, "}\n") + replaceFirst
		w := newWorkspace(t, s).config(config)
		w.apply()
		w.settled()
		vm := w.text("ovirt_vm.a", "id")
		check.Length(t, "the interfaces", s.nics(t, vm), 1)
		w.succeed("apply", "-auto-approve", "-no-color", "-input=false", "-replace=ovirt_nic.a")
		check.Length(t, "the interfaces after create_before_destroy", s.nics(t, vm), 1)
		w.settled()
	})
}

func TestAnInterfaceChangesInPlace(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	config := plainVM + plainNIC + "\nresource \"ovirt_vm_start\" \"a\" {\n  vm_id = ovirt_vm.a.id\n" +
		"  stop_behavior = \"stop\"\n  depends_on = [ovirt_nic.a]\n}\n"
	w := newWorkspace(t, s).config(config)
	w.apply()
	vm := w.text("ovirt_vm.a", "id")
	before := s.nics(t, vm)[0]

	for _, change := range [][2]string{
		{`"nic1"`, `"front"`},
		{"  vm_id           = ovirt_vm.a.id\n", "  vm_id           = ovirt_vm.a.id\n  interface = \"e1000e\"\n"},
		{"e1000e\"\n", "e1000e\"\n  mac = \"56:6f:1a:aa:00:09\"\n"},
	} {
		config = strings.Replace(config, change[0], change[1], 1)
		w.config(config).wants("ovirt_nic.a", "update")
		w.apply()
		w.settled()
		now := s.nics(t, vm)
		check.Length(t, "the interfaces", now, 1)
		check.Equal(t, "the ID", now[0].ID, before.ID)
		check.Equal(t, "plugged", *now[0].Plugged, true)
	}

	now := s.nics(t, vm)[0]
	check.Equal(t, "the name", now.Name, "front")
	check.Equal(t, "the kind", now.Interface, "e1000e")
	check.Equal(t, "the address", now.MAC.Address, "56:6f:1a:aa:00:09")
}

func TestAMembershipThatIsMadeAnewIsNotDestroyed(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	first := func(kind, attributes string) string {
		return "resource \"" + kind + "\" \"a\" {\n" + attributes + replaceFirst
	}
	config := machine + disk + "resource \"ovirt_tag\" \"t\" { name = \"blue\" }\n" +
		"resource \"ovirt_affinity_group\" \"g\" {\n  name = \"g\"\n  cluster_id = \"$cluster\"\n}\n" +
		first("ovirt_vm_tag", "  tag_id = ovirt_tag.t.id\n  vm_id = ovirt_vm.a.id\n") +
		first("ovirt_vm_affinity_group", "  cluster_id = \"$cluster\"\n  affinity_group_id = ovirt_affinity_group.g.id\n"+
			"  vm_id = ovirt_vm.a.id\n") +
		first("ovirt_disk_attachment", "  disk_id = ovirt_disk.d.id\n  vm_id = ovirt_vm.a.id\n"+
			"  disk_interface = \"virtio\"\n  active = true\n")
	config = strings.Replace(config, "  depends_on    = [ovirt_nic.a]\n}\n", "  depends_on    = [ovirt_nic.a]\n"+replaceFirst, 1)
	w := newWorkspace(t, s).config(config)
	w.apply()
	vm := engine.ID(w.text("ovirt_vm.a", "id"))

	for _, address := range []string{
		"ovirt_vm_tag.a", "ovirt_vm_affinity_group.a", "ovirt_disk_attachment.a", "ovirt_vm_start.a",
	} {
		output, _ := w.run("apply", "-auto-approve", "-no-color", "-input=false", "-replace="+address)
		if strings.Contains(output, "is there already") || strings.Contains(output, "already: import") {
			continue // the engine rejects it, and nothing is lost
		}

		check.Contains(t, address, output, "was kept")
	}

	w.settled()
	tags, err := s.client.ListVMTags(t.Context(), vm)
	must(t, err)
	check.Length(t, "the tags", tags, 1)
	attached, err := s.client.ListDiskAttachments(t.Context(), vm)
	must(t, err)
	check.Length(t, "the disks", attached, 2)
	check.Equal(t, "the status", s.vm(t, "a").Status, engine.VMUp)
}

func TestADiskThatIsAttachedIsNotTaken(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(plainVM + disk)
	w.apply()
	vm, id := w.text("ovirt_vm.a", "id"), w.text("ovirt_disk.d", "id")
	wait.For(t, "the disk is attached", func() error {
		_, err := s.client.AttachDisk(t.Context(), engine.ID(vm), &engine.DiskAttachment{
			Interface: "virtio", Active: ptr.To(true), Disk: &engine.Disk{ID: engine.ID(id)},
		})

		return err
	})
	w.config(plainVM + disk + `
resource "ovirt_disk_attachment" "d" {
  vm_id          = ovirt_vm.a.id
  disk_id        = ovirt_disk.d.id
  disk_interface = "virtio_scsi"
}
`)
	check.Contains(t, "the message", w.fail(), "import the attachment with the ID "+vm+"/"+id)
	w.importID("ovirt_disk_attachment.d", vm+"/"+id)
	w.wants("ovirt_disk_attachment.d", "update")
	w.apply()
	w.settled()
}

// TestALostAnswerDoesNotAdoptTheVMOfSomebodyElse has a VM with the same name, comment and cluster. The engine answers
// the create with 503.
func TestALostAnswerDoesNotAdoptTheVMOfSomebodyElse(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	commented := strings.Replace(plainVM, "  name        = \"a\"\n", "  name = \"a\"\n  comment = \"managed by terraform\"\n", 1)
	newWorkspace(t, s).config(commented).apply()
	theirs := s.vm(t, "a").ID

	must(t, s.sim.Inject(ovirtsim.Fault{Method: http.MethodPost, Path: "^/api/vms$", Status: 503}))
	other := newWorkspace(t, s).config(commented)
	other.fail()
	check.Equal(t, "what is in the state", other.text("ovirt_vm.a", "id"), "")
	other.destroy()
	check.Equal(t, "the VM", s.vm(t, "a").ID, theirs)
}

func TestADiskThatWasMovedIsMovedBackAndKeepsItsData(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(disk)
	w.apply()
	id := engine.ID(w.text("ovirt_disk.d", "id"))
	home := engine.ID(s.ids["$storage"])
	second := s.otherStorage(t)
	must(t, s.client.MoveDisk(t.Context(), id, second, nil))
	w.wants("ovirt_disk.d", "update")
	w.apply()
	w.settled()
	check.Equal(t, "where it is", s.disk(t, id).StorageDomainIDs()[0], home)

	w.config(strings.Replace(disk, "$storage", second.String(), 1)).wants("ovirt_disk.d", "update")
	w.apply()
	w.settled()
	check.Equal(t, "where it is", s.disk(t, id).StorageDomainIDs()[0], second)
}

// otherStorage returns a storage domain other than $storage.
func (s *site) otherStorage(t *testing.T) engine.ID {
	t.Helper()
	dc, err := s.client.FindDataCenter(t.Context(), "Default")
	must(t, err)
	all, err := s.client.ListStorageDomains(t.Context(), dc)
	must(t, err)

	for _, domain := range all {
		if domain.ID.String() != s.ids["$storage"] && domain.ID.String() != s.ids["$block"] {
			return domain.ID
		}
	}

	t.Fatal("there is no other storage domain")

	return ""
}

func TestATemplateThatIsNotReadyInTimeIsKept(t *testing.T) {
	t.Parallel()
	s := newHeldSite(t, func(s *site) bool { return s.count("POST", "/templates") > 0 })
	config := plainVM + "resource \"ovirt_template\" \"t\" {\n  name = \"golden\"\n  vm_id = ovirt_vm.a.id\n" +
		"  timeouts {\n    create = \"15s\"\n  }\n}\n"
	w := newWorkspace(t, s).config(config)
	output := w.apply()
	check.Contains(t, "the warning", output, "The template is not ready yet")
	w.settled() // it must not be tainted
}

func TestAnImportedAdoptionThatMatchesPlansNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(plainVM)
	w.apply()
	vm := w.text("ovirt_vm.a", "id")
	adopted := plainVM + `
resource "ovirt_adopted_vm" "a" {
  vm_id                         = ovirt_vm.a.id
  initialization_hostname       = "node-1"
  initialization_custom_script  = "#cloud-config\n"
  initialization_search_domains = ["example.com"]
  initialization_nic {
    name = "enp1s0"
    ipv4 {
      address = "10.0.0.9"
      netmask = "255.255.255.0"
      gateway = "10.0.0.1"
    }
  }
}
`
	w.config(adopted).apply()
	w.settled()
	w.succeed("state", "rm", "ovirt_adopted_vm.a")
	w.importID("ovirt_adopted_vm.a", vm)
	w.settled()
}

// TestNoChangeByHandReplacesAVM changes each setting of a VM that an administrator can change, and checks the plan.
func TestNoChangeByHandReplacesAVM(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	config := `
resource "ovirt_vm" "a" {
  name              = "a"
  cluster_id        = "$cluster"
  template_id       = "$template"
  cpu_cores         = 2
  cpu_sockets       = 1
  cpu_threads       = 1
  cpu_mode          = "custom"
  memory            = 2147483648
  os_type           = "rhel_8x64"
  vm_type           = "server"
  bios_type         = "q35_ovmf"
  tpm_enabled       = false
  huge_pages        = 2048
  custom_properties = { sap_agent = "true" }
  storage_error_resume_behaviour = "auto_resume"
}
`
	w := newWorkspace(t, s).config(config)
	w.apply()
	w.settled()
	id := engine.ID(w.text("ovirt_vm.a", "id"))

	for name, change := range map[string]engine.VM{
		"sockets":      {CPU: &engine.CPU{Topology: &engine.Topology{Cores: 2, Sockets: 2, Threads: 1}}},
		"the CPU mode": {CPU: &engine.CPU{Mode: "host_passthrough"}},
		"the system":   {OS: &engine.OS{Type: "rhel_9x64"}},
		"the kind":     {Type: "desktop"},
		"the firmware": {BIOS: &engine.BIOS{Type: "q35_sea_bios"}},
		"properties":   {Properties: &engine.Properties{}},
		"a property": {Properties: &engine.Properties{Items: []engine.Property{
			{Name: "hugepages", Value: "1048576"}, {Name: "viodiskcache", Value: "writeback"},
		}}},
	} {
		wait.For(t, name+" is changed", func() error {
			_, err := s.client.UpdateVM(t.Context(), id, &change)
			return err
		})
		w.wants("ovirt_vm.a", "update")
		w.apply()
		w.settled()
	}

	vm, err := s.client.FetchFullVM(t.Context(), id)
	must(t, err)
	check.Equal(t, "the sockets", vm.CPU.Topology.Sockets, 1)
	check.Equal(t, "the mode", vm.CPU.Mode, "")
	check.Equal(t, "the firmware", vm.BIOS.Type, "q35_ovmf")
	check.Length(t, "the properties", vm.Properties.Items, 2)
}

// rewrite replaces a text in an answer.
func rewrite(r *http.Response, from, to string) error {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}

	changed := strings.ReplaceAll(string(content), from, to)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(changed)), int64(len(changed))
	r.Header.Del("Content-Length")

	return nil
}

// TestADiskThatWasConvertedIsKept has an engine show another format than the requested one, as after its action
// convert. The simulator does not support this action.
func TestADiskThatWasConvertedIsKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(disk)
	w.apply()
	converted := between(t, s, nil, func(r *http.Response) error {
		return rewrite(r, "<format>raw</format>", "<format>cow</format>")
	})
	w.through(converted).config(disk)
	output, exit := w.run("plan", "-detailed-exitcode", "-no-color", "-input=false")
	check.Contains(t, "the plan", output, "The disk was converted")
	if strings.Contains(output, "must be replaced") || exit == 1 {
		t.Errorf("the plan (%d) is\n%s", exit, output)
	}

	w.config(strings.Replace(disk, `"raw"`, `"cow"`, 1)).settled()
	w.url, w.ca = s.sim.URL()+"/api/", s.sim.CA()
	w.config(strings.Replace(disk, `"raw"`, `"cow"`, 1))
	w.wants("ovirt_disk.d", "delete+create") // the configuration requests it
}

// TestANetworkInterfaceIsPluggedAgainWhateverAnswerIsLost changes the address of an interface in a running VM. For this
// change, the interface must be unplugged.
func TestANetworkInterfaceIsPluggedAgainWhateverAnswerIsLost(t *testing.T) {
	t.Parallel()

	for name, fault := range map[string]ovirtsim.Fault{
		"plugging is unavailable once": {Method: "POST", Path: "/nics/[^/]+/activate$", Status: 503, Count: 1},
		"unplugging has no answer":     {Method: "POST", Path: "/nics/[^/]+/deactivate$", Action: "cut-after", Count: 1},
		"plugging has no answer":       {Method: "POST", Path: "/nics/[^/]+/activate$", Action: "cut-after", Count: 1},
		"the change is unavailable":    {Method: "PUT", Path: "/nics/[^/]+$", Nth: 2, Status: 503, Count: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, quick)
			w := newWorkspace(t, s).config(plainVM + plainNIC)
			w.apply()
			vm := w.text("ovirt_vm.a", "id")
			wait.For(t, "the VM starts", func() error { return s.client.StartVM(t.Context(), engine.ID(vm), false) })
			wait.Until(t, "the VM is up", func() bool { return s.vm(t, "a").Status == engine.VMUp })

			const address = "56:6f:1a:00:00:99"
			must(t, s.sim.Inject(fault))
			w.config(plainVM + strings.Replace(plainNIC, "}\n", "  mac = \""+address+"\"\n}\n", 1)).apply()

			nic := s.nics(t, vm)[0]
			check.Equal(t, "the address", nic.MAC.Address, address)
			check.Equal(t, "plugged", *nic.Plugged, true)
			w.settled()
		})
	}
}
