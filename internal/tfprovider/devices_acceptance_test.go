package tfprovider_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// available is a running, highly available VM with a lease, a watchdog and virtual GPUs.
const available = `
resource "ovirt_vm" "a" {
  name                       = "a"
  cluster_id                 = "$cluster"
  template_id                = "$template"
  os_type                    = "rhel_9x64"
  high_availability          = true
  high_availability_priority = 50
  lease_storage_domain_id    = "$storage"
  bios_type                  = "q35_ovmf"
  tpm_enabled                = true
  custom_properties          = { viodiskcache = "writeback" }
}

resource "ovirt_vm_watchdog" "a" {
  vm_id  = ovirt_vm.a.id
  model  = "i6300esb"
  action = "reset"
}

resource "ovirt_vm_mediated_device" "a" {
  count = 2
  vm_id = ovirt_vm.a.id
  type  = "nvidia-63"
}

resource "ovirt_vm_start" "a" {
  vm_id      = ovirt_vm.a.id
  depends_on = [ovirt_vm_mediated_device.a, ovirt_vm_watchdog.a]
}
`

func TestAHighlyAvailableVMFromCreationToDestruction(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(available)
	w.apply()
	w.settled()

	got, err := s.client.FetchFullVM(t.Context(), s.vm(t, "a").ID)
	must(t, err)
	check.Equal(t, "priority", *got.HighAvailability.Priority, 50)
	check.Equal(t, "lease", got.Lease.StorageDomain.ID.String(), s.ids["$storage"])
	check.Equal(t, "behaviour", got.StorageError, "kill")
	check.Equal(t, "TPM", *got.TPM, true)

	// A running VM accepts another priority, and can lose its lease and its high availability.
	running := strings.NewReplacer("= 50", "= 10", `"$storage"`, `""`, `"reset"`, `"poweroff"`).Replace(available)
	w.config(running)
	w.wants("ovirt_vm.a", "update", "ovirt_vm_watchdog.a", "update")
	w.apply()
	w.settled()

	w.config(strings.Replace(running, "high_availability          = true", "high_availability = false", 1))
	w.wants("ovirt_vm.a", "update")
	w.apply()
	w.settled()

	got, err = s.client.FetchFullVM(t.Context(), got.ID)
	must(t, err)
	watchdogs, err := s.client.ListWatchdogs(t.Context(), got.ID)
	must(t, err)
	check.Equal(t, "high availability", *got.HighAvailability.Enabled, false)
	check.Equal(t, "watchdogs", len(watchdogs), 1)
	check.Equal(t, "the watchdog's action", watchdogs[0].Action, "poweroff")

	w.forget()
	devices, err := s.client.ListMediatedDevices(t.Context(), got.ID)
	must(t, err)
	check.Equal(t, "mediated devices", len(devices), 2)
	w.importID("ovirt_vm.a", got.ID.String())
	w.importID("ovirt_vm_watchdog.a", got.ID.String()+"/"+watchdogs[0].ID.String())
	w.importID("ovirt_vm_mediated_device.a[0]", got.ID.String()+"/"+devices[0].ID.String())
	w.importID("ovirt_vm_mediated_device.a[1]", got.ID.String()+"/"+devices[1].ID.String())
	w.importID("ovirt_vm_start.a", got.ID.String())
	w.settled()

	must(t, s.client.RemoveWatchdog(t.Context(), got.ID, watchdogs[0].ID))
	must(t, s.client.RemoveMediatedDevice(t.Context(), got.ID, devices[0].ID))
	w.wants("ovirt_vm_watchdog.a", "create", "ovirt_vm_mediated_device.a[0]", "create")
	w.destroy()
}

// TestEachMediatedDeviceIsOneOfItsOwn loses the request for one of two devices added at the same time. The provider
// must not mistake the other device for the lost one.
func TestEachMediatedDeviceIsOneOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(available)
	must(t, s.sim.Inject(ovirtsim.Fault{
		Method: "POST", Path: "/mediateddevices$", Action: "cut-before", Count: 1,
	}))
	w.fail()
	w.apply()
	w.settled()

	devices, err := s.client.ListMediatedDevices(t.Context(), s.vm(t, "a").ID)
	must(t, err)
	check.Equal(t, "mediated devices", len(devices), 2)

	state, err := os.ReadFile(filepath.Join(w.dir, "terraform.tfstate"))
	must(t, err)

	for _, device := range devices {
		check.Contains(t, "the state", string(state), device.ID.String())
	}

	w.destroy()
}

func TestAHostDeviceFromCreationToDestruction(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	hosts, err := s.client.ListHosts(t.Context())
	must(t, err)

	s.ids["$host"] = hosts[0].ID.String()
	config := `
resource "ovirt_vm" "a" {
  name                      = "a"
  cluster_id                = "$cluster"
  template_id               = "$template"
  placement_policy_affinity = "pinned"
  placement_policy_host_ids = ["$host"]
}

resource "ovirt_vm_host_device" "a" {
  vm_id = ovirt_vm.a.id
  name  = "pci_0000_3b_00_0"
}
`
	w := newWorkspace(t, s).config(config)
	w.apply()
	w.settled()
	vm := w.text("ovirt_vm.a", "id")

	w.forget()
	w.importID("ovirt_vm.a", vm)
	w.importID("ovirt_vm_host_device.a", vm+"/pci_0000_3b_00_0")
	w.settled()

	must(t, s.client.RemoveHostDevice(t.Context(), engine.ID(vm), "pci_0000_3b_00_0"))
	w.wants("ovirt_vm_host_device.a", "create")
	w.apply()

	message := newWorkspace(t, s).config(strings.NewReplacer(`"a"`+"\n", `"b"`+"\n", "3b", "ff").Replace(config)).fail()
	check.Contains(t, "a device that the host does not have", message, "specified host devices not found")
	w.destroy()
}

// TestAHostDeviceIsImportedWithAnIDInUpperCase writes the UUID in upper case, like other tools. The engine knows it
// only in lower case.
func TestAHostDeviceIsImportedWithAnIDInUpperCase(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	hosts, err := s.client.ListHosts(t.Context())
	must(t, err)
	s.ids["$host"] = hosts[0].ID.String()
	config := strings.Replace(plainVM, "}\n", "  placement_policy_affinity = \"pinned\"\n"+
		"  placement_policy_host_ids = [\"$host\"]\n}\n", 1) +
		"resource \"ovirt_vm_host_device\" \"a\" {\n  vm_id = ovirt_vm.a.id\n  name  = \"pci_0000_3b_00_0\"\n}\n"
	w := newWorkspace(t, s).config(config)
	w.apply()
	w.succeed("state", "rm", "ovirt_vm_host_device.a")
	w.importID("ovirt_vm_host_device.a", strings.ToUpper(w.text("ovirt_vm.a", "id"))+"/pci_0000_3b_00_0")
	w.settled()
}
