package tfprovider_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"k8s.io/utils/ptr"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// This file tests that plans are correct, and that everything they start comes to an end.

// TestMemoryThatIsKnownLaterCrossesItsLimits takes the memory from another resource. The value is first below the
// guaranteed memory, and then above the maximum.
func TestMemoryThatIsKnownLaterCrossesItsLimits(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	config := func(memory string) string {
		return `
resource "terraform_data" "memory" { input = ` + memory + ` }
resource "ovirt_vm" "a" {
  name        = "a"
  cluster_id  = "$cluster"
  template_id = "$template"
  memory      = terraform_data.memory.output
}
`
	}
	w := newWorkspace(t, s).config(config("4294967296"))
	w.apply()

	for _, memory := range []string{"1073741824", "34359738368"} {
		w.config(config(memory)).apply()
		w.settled()
	}
}

func TestADiskThatIsReplacedMayBeSmaller(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(strings.Replace(disk, "1073741824", "2147483648", 1))
	w.apply()
	w.config(strings.Replace(disk, `"raw"`, `"cow"`, 1)).wants("ovirt_disk.d", "delete+create")
	w.apply()
	w.settled()
}

// TestWhatWaitsOutlivesTheRemovalOfOtherResources removes resources that change the VM when they are destroyed.
func TestWhatWaitsOutlivesTheRemovalOfOtherResources(t *testing.T) {
	t.Parallel()

	for name, resource := range map[string]string{
		"CPU settings": "resource \"ovirt_vm_optimize_cpu_settings\" \"a\" { vm_id = ovirt_vm.a.id }\n",
		"an adoption": "resource \"ovirt_adopted_vm\" \"a\" {\n  vm_id = ovirt_vm.a.id\n" +
			"  initialization_hostname = \"n\"\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, quick)
			w := newWorkspace(t, s).config(plainVM + resource)
			w.apply()
			id := engine.ID(w.text("ovirt_vm.a", "id"))
			must(t, s.client.StartVM(t.Context(), id, false))
			wait.Until(t, "the VM is up", func() bool { return s.vm(t, "a").Status == engine.VMUp })

			changes := []engine.VM{
				{BIOS: &engine.BIOS{Type: "q35_sea_bios"}}, {CPU: &engine.CPU{Mode: "host_passthrough"}},
				{OS: &engine.OS{Boot: &engine.Boot{Devices: []string{"network", "hd"}}}},
				{MemoryPolicy: &engine.MemoryPolicy{Ballooning: ptr.To(false)}},
			}
			for i := range changes {
				_, err := s.client.ChangeVM(t.Context(), id, &changes[i])
				must(t, err)
			}

			before, err := s.client.FetchVMSettings(t.Context(), id)
			must(t, err)
			_, waited := before.PendingChanges()
			w.config(plainVM).apply()
			after, err := s.client.FetchVMSettings(t.Context(), id)
			must(t, err)
			_, waits := after.PendingChanges()

			for _, setting := range []string{"firmware", "CPU mode", "operating system", "memory ballooning"} {
				check.Contains(t, "what waited", strings.Join(waited, ", "), setting)
				check.Contains(t, "what waits", strings.Join(waits, ", "), setting)
			}
		})
	}
}

// TestAGeneratedConfigurationPlansNothing imports with import blocks, and lets Terraform generate the configuration.
func TestAGeneratedConfigurationPlansNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	everything := machine + disk + `
resource "ovirt_vm" "sized" {
  name             = "sized"
  cluster_id       = "$cluster"
  template_id      = "$template"
  instance_type_id = "$medium"
}
resource "ovirt_vm_start" "down" { vm_id = ovirt_vm.sized.id }
resource "ovirt_disk_attachment" "d" {
  vm_id          = ovirt_vm.a.id
  disk_id        = ovirt_disk.d.id
  disk_interface = "virtio_scsi"
  active         = true
}
resource "ovirt_tag" "t" { name = "blue" }
resource "ovirt_vm_tag" "t" {
  tag_id = ovirt_tag.t.id
  vm_id  = ovirt_vm.a.id
}
resource "ovirt_affinity_group" "g" {
  name       = "g"
  cluster_id = "$cluster"
  vms_rule { affinity = "negative" }
}
resource "ovirt_vm_affinity_group" "g" {
  cluster_id        = "$cluster"
  affinity_group_id = ovirt_affinity_group.g.id
  vm_id             = ovirt_vm.a.id
}
resource "ovirt_template" "t" {
  name  = "golden"
  vm_id = ovirt_vm.sized.id
}
`
	medium, err := s.client.FindInstanceType(t.Context(), "Medium")
	must(t, err)
	s.ids["$medium"] = medium.ID.String()
	w := newWorkspace(t, s).config(strings.Replace(everything, "resource \"ovirt_vm_start\" \"down\" { vm_id = "+
		"ovirt_vm.sized.id }\n", "", 1))
	w.apply()
	vm, group := w.text("ovirt_vm.a", "id"), w.text("ovirt_affinity_group.g", "id")
	imports := map[string]string{
		"ovirt_vm.a": vm, "ovirt_nic.a": vm + "/" + w.text("ovirt_nic.a", "id"), "ovirt_vm_start.a": vm,
		"ovirt_disk.d": w.text("ovirt_disk.d", "id"), "ovirt_disk_attachment.d": vm + "/" + w.text("ovirt_disk.d", "id"),
		"ovirt_vm.sized": w.text("ovirt_vm.sized", "id"), "ovirt_vm_start.down": w.text("ovirt_vm.sized", "id"),
		"ovirt_tag.t": w.text("ovirt_tag.t", "id"), "ovirt_vm_tag.t": w.text("ovirt_tag.t", "id") + "/" + vm,
		"ovirt_affinity_group.g":    s.ids["$cluster"] + "/" + group,
		"ovirt_vm_affinity_group.g": s.ids["$cluster"] + "/" + group + "/" + vm,
		"ovirt_disk_attachments.a":  w.text("ovirt_vm.sized", "id"),
		"ovirt_adopted_vm.a":        vm,
	}
	w.forget()

	var blocks strings.Builder
	for address, id := range imports {
		blocks.WriteString("import {\n  to = " + address + "\n  id = \"" + strings.ToUpper(id) + "\"\n}\n")
	}

	w.config(blocks.String())
	output, exit := w.run("plan", "-no-color", "-input=false", "-generate-config-out=generated.tf")
	if exit != 0 || !strings.Contains(output, "0 to add, 0 to change, 0 to destroy") {
		generated, _ := os.ReadFile(filepath.Join(w.dir, "generated.tf"))
		t.Errorf("the plan (%d) is\n%s\nof\n%s", exit, output, generated)
	}
}

func TestAnImportOfAnInterfaceOfTheGuestThatNoConfigurationCanSay(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(plainVM)
	w.apply()
	id := engine.ID(w.text("ovirt_vm.a", "id"))
	wait.For(t, "the VM has it", func() error {
		_, err := s.client.UpdateVM(t.Context(), id, &engine.VM{Initialization: &engine.Initialization{
			NICs: &engine.NICConfigurations{Items: []engine.NICConfiguration{
				{Name: "eth0", OnBoot: true, BootProtocol: "none"},
				{Name: "eth1", OnBoot: true, BootProtocol: "dhcp"},
			}},
		}})

		return err
	})
	w.forget()
	w.config("import {\n  to = ovirt_vm.a\n  id = \"" + id.String() + "\"\n}\n")
	output, exit := w.run("plan", "-no-color", "-input=false", "-generate-config-out=generated.tf")
	check.Equal(t, "the exit of\n"+output, exit, 0)
	check.Contains(t, "the plan", output, "1 to import, 0 to add, 0 to change")
}

func TestAddressesOfAGuestAreChecked(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	block := func(family, attributes string) string {
		return strings.Replace(plainVM, "  template_id = \"$template\"\n",
			"  template_id = \"$template\"\n  initialization_nic {\n    name = \"eth0\"\n    "+family+" {\n"+attributes+
				"    }\n  }\n", 1)
	}
	set := func(address, netmask, gateway string) string {
		return "      address = \"" + address + "\"\n      netmask = \"" + netmask + "\"\n      gateway = \"" + gateway + "\"\n"
	}

	for _, test := range []struct{ family, attributes, want string }{
		{"ipv4", set("300.1.1.1", "255.255.255.0", "10.0.0.1"), "IPv4 address"},
		{"ipv4", set("10.0.0.9", "24", "10.0.0.1"), "dotted netmask"},
		{"ipv4", set("10.0.0.9", "255.0.255.0", "10.0.0.1"), "dotted netmask"},
		{"ipv4", set("10.0.0.9", "0.0.0.0", "10.0.0.1"), "dotted netmask"},
		{"ipv4", set("10.0.0.9", "255.255.255.0", "gw"), "IPv4 address"},
		{"ipv4", set("fd00::1", "255.255.255.0", "10.0.0.1"), "IPv4 address"},
		{"ipv4", "      address = \"10.0.0.9\"\n", "Write the netmask"},
		{"ipv6", set("10.0.0.9", "64", "fd00::1"), "IPv6 address"},
		{"ipv6", set("fd00::1%eth0", "64", "fd00::1"), "IPv6 address"},
		{"ipv6", set("fd00::9", "129", "fd00::1"), "length of a prefix"},
		{"ipv6", set("fd00::9", "ffff::", "fd00::1"), "length of a prefix"},
	} {
		check.Contains(t, test.family+test.attributes, newWorkspace(t, s).config(block(test.family, test.attributes)).fail(),
			test.want)
	}
}

func TestAnIDInUpperCaseIsRefusedBeforeThePlan(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	upper := strings.Replace(plainVM, "$cluster", "ABCDEF00-0000-4000-8000-000000000000", 1)
	check.Contains(t, "the message", newWorkspace(t, s).config(upper).fail(), "lower case")
}

// TestAShutdownThatTheGuestDidNotHearIsAskedAgain has a guest that receives only the second request.
func TestAShutdownThatTheGuestDidNotHearIsAskedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(strings.Replace(machine, `"stop"`, `"shutdown"`, 1))
	w.apply()
	must(t, s.sim.Inject(ovirtsim.Fault{Guest: "ignores-shutdown", VM: "^a$"}))
	go func() {
		for s.count("POST", "/shutdown") == 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}

		time.Sleep(20 * time.Millisecond) // by now, the guest has received the request
		s.sim.ClearFaults()
	}()
	w.destroy()
	check.Equal(t, "the guest was asked again", s.count("POST", "/shutdown") >= 2, true)
}

func TestAVMThatIsAsleepBlocksNoPlanAndIsStarted(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	config := machine + "data \"ovirt_wait_for_ip\" \"a\" {\n  vm_id = ovirt_vm.a.id\n  timeouts {\n    read = \"20s\"\n  }\n}\n"
	w := newWorkspace(t, s).config(machine)
	w.apply()
	id := w.text("ovirt_vm.a", "id")

	for _, status := range []string{"paused", "suspended", "not_responding", "unknown"} {
		proxy := between(t, s, nil, func(r *http.Response) error {
			return rewrite(r, "<status>up</status>", "<status>"+status+"</status>")
		})
		other := newWorkspace(t, s).through(proxy).config("data \"ovirt_wait_for_ip\" \"a\" { vm_id = \"" + id + "\" }\n")
		check.Contains(t, status, other.apply(), "The VM has no address")
	}

	_, err := s.client.UpdateVM(t.Context(), engine.ID(id), &engine.VM{Comment: ptr.To("asleep")})
	must(t, err)
	check.Contains(t, "a time-out", newWorkspace(t, s).config(strings.Replace(config, "20s", "soon", 1)).fail(), "30m or 1h30m")
}

func TestAWaitEndsWithItsTimeOut(t *testing.T) { // R16
	t.Parallel()
	s := newHeldSite(t, func(s *site) bool { return s.count("POST", "/start") > 0 })
	config := plainVM + "resource \"ovirt_vm_start\" \"a\" {\n  vm_id = ovirt_vm.a.id\n  timeouts {\n    create = \"3s\"\n  }\n}\n"
	w := newWorkspace(t, s).config(config)
	check.Contains(t, "the message", w.fail(), "gave up waiting for VM")
}

// TestAnUploadWhoseDiskCannotBeReadIsKnown lets the last request of an upload fail for a while.
func TestAnUploadWhoseDiskCannotBeReadIsKnown(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	file := filepath.Join(t.TempDir(), "image.raw")
	must(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
	var finished, failed atomic.Int32
	proxy := between(t, s, nil, func(r *http.Response) error {
		switch path := r.Request.URL.Path; {
		case strings.HasSuffix(path, "/finalize"):
			finished.Store(1)
		case finished.Load() > 0 && strings.Contains(path, "/api/disks/") && failed.Add(1) <= 2:
			r.StatusCode = http.StatusServiceUnavailable
		}

		return nil
	})
	w := newWorkspace(t, s).through(proxy)
	w.ca = append(w.ca, s.sim.CA()...) // for the data endpoint
	w.config("resource \"ovirt_disk_from_image\" \"i\" {\n  format = \"raw\"\n  sparse = true\n" +
		"  source_file = \"" + file + "\"\n  storage_domain_id = \"$storage\"\n}\n")
	w.apply()
	check.Equal(t, "the disks", s.sim.Summarize().Disks, 1)
	w.destroy()
	check.Equal(t, "the disks", s.sim.Summarize().Disks, 0)
}

// TestASizeThatIsNotKnownYetIsNoSecondSize has a size beside an instance type, and the size may become null. A known
// size stays an error.
func TestASizeThatIsNotKnownYetIsNoSecondSize(t *testing.T) {
	t.Parallel()
	d := newDirect(t, newSite(t, quick))
	m := d.resource("ovirt_vm")

	for _, unknown := range []string{"memory", "maximum_memory", "guaranteed_memory", "cpu_cores", "instance_type_id"} {
		of := set{
			"name": "a", "cluster_id": d.site.ids["$cluster"], "template_id": d.site.ids["$template"],
			"instance_type_id": d.site.ids["$profile"],
		}
		if unknown == "instance_type_id" {
			of["memory"] = gib
		}

		unsure := with(of, set{unknown: tftypes.UnknownValue})
		check.Length(t, "the problems of an unknown "+unknown, m.problemsOf(unsure), 0)

		known := with(of, set{"memory": gib, "cpu_cores": tftypes.UnknownValue})
		check.Length(t, "the problems of a known size", m.problemsOf(known), 1)
	}
}

// TestARuleThatIsKnownLaterDecidesWhetherAnAffinityGroupIsEnforced has a block from another resource. Terraform rejects
// an apply with another value than the planned one.
func TestARuleThatIsKnownLaterDecidesWhetherAnAffinityGroupIsEnforced(t *testing.T) {
	t.Parallel()
	d := newDirect(t, newSite(t, quick))
	m := d.resource("ovirt_affinity_group")
	of := set{"name": "g", "cluster_id": d.site.ids["$cluster"], "vms_rule": tftypes.UnknownValue}
	check.Equal(t, "enforcing is known", attributes(m.plan(of).state)["enforcing"].IsKnown(), false)

	of["enforcing"] = true
	check.Equal(t, "a configured value is known", attributes(m.plan(of).state)["enforcing"].IsKnown(), true)
}

// problemsOf validates a configuration, and returns the problems.
func (m *managed) problemsOf(of set) []string {
	m.d.t.Helper()
	got, err := m.d.ValidateResourceTypeConfig(m.d.t.Context(), &tfprotov5.ValidateResourceTypeConfigRequest{
		TypeName: m.typeName, Config: m.packed(blockValue(m.schema().Block, of)),
	})
	must(m.d.t, err)

	return problems(got.Diagnostics)
}

// TestInterfacesOfAGuestThatAreKnownLaterAreOneReplacement takes the blocks from another resource. Terraform rejects an
// update that becomes a replacement during the apply.
func TestInterfacesOfAGuestThatAreKnownLaterAreOneReplacement(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	config := func(address string) string {
		return `
resource "terraform_data" "addresses" { input = ["` + address + `"] }
resource "ovirt_vm" "a" {
  name        = "a"
  cluster_id  = "$cluster"
  template_id = "$template"
  dynamic "initialization_nic" {
    for_each = terraform_data.addresses.output
    content {
      name = "enp1s0"
      ipv4 {
        address = initialization_nic.value
        netmask = "255.255.255.0"
      }
    }
  }
}
`
	}
	w := newWorkspace(t, s).config(config("10.20.30.161"))
	w.apply()
	w.config(config("10.20.30.162"))
	w.wants("terraform_data.addresses", "update", "ovirt_vm.a", "delete+create")
	w.apply()
	w.settled()
}

func TestAWayToCopyThatIsKnownLaterIsOneReplacement(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	config := func(clone string) string {
		return "resource \"terraform_data\" \"clone\" { input = " + clone + " }\n" +
			strings.Replace(plainVM, "}\n", "  clone = terraform_data.clone.output\n}\n", 1)
	}
	w := newWorkspace(t, s).config(config("false"))
	w.apply()
	w.config(config("true"))
	w.wants("terraform_data.clone", "update", "ovirt_vm.a", "delete+create")
	w.apply()
	w.settled()
}
