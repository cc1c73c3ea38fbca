package tfprovider_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// machine is the configuration of a VM as CAPOLVM renders it.
const machine = `
resource "ovirt_vm" "a" {
  name        = "a"
  comment     = "owner <of> a && \"b\""
  cluster_id  = "$cluster"
  template_id = "$template"
  cpu_cores   = 2
  cpu_sockets = 1
  cpu_threads = 1
  memory      = 4294967296

  initialization_hostname      = "a"
  initialization_custom_script = "#cloud-config\nruncmd: ['test 1 < 2 && echo canary']\n"
  initialization_nic {
    name = "enp1s0"
    ipv4 {
      address = "10.0.0.9"
      netmask = "255.255.255.0"
      gateway = "10.0.0.1"
    }
  }
}
resource "ovirt_nic" "a" {
  name            = "nic1"
  vm_id           = ovirt_vm.a.id
  vnic_profile_id = "$profile"
}
resource "ovirt_vm_start" "a" {
  vm_id         = ovirt_vm.a.id
  stop_behavior = "stop"
  force_stop    = true
  depends_on    = [ovirt_nic.a]
}
`

func TestAMachineFromCreationToDestruction(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(machine)
	w.apply()
	w.settled()
	vm, err := s.client.FetchFullVM(t.Context(), s.vm(t, "a").ID)
	must(t, err)
	if vm.Status != engine.VMUp {
		t.Errorf("the VM is %s", vm.Status)
	}

	// R3: text arrives unchanged.
	if got := vm.CommentText(); got != `owner <of> a && "b"` {
		t.Errorf("the comment is %q", got)
	}

	if vm.Initialization == nil ||
		vm.Initialization.CustomScript != "#cloud-config\nruncmd: ['test 1 < 2 && echo canary']\n" {
		t.Errorf("the initialization is %+v", vm.Initialization)
	}

	w.destroy()
	if left := s.sim.Summarize(); left.VMs+left.Disks+left.NICs != 0 {
		t.Errorf("left in the engine: %+v", left)
	}
}

func TestWhatTheReleasedProviderDoesNotHave(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	extended := strings.Replace(
		strings.Replace(
			machine, "  memory      = 4294967296\n",
			"  memory      = 4294967296\n  guaranteed_memory = 1073741824\n  description = \"a <b>\"\n", 1,
		),
		"  vnic_profile_id = \"$profile\"\n",
		"  vnic_profile_id = \"$profile\"\n  mac = \"56:6F:1A:AA:00:01\"\n  interface = \"e1000e\"\n", 1,
	)
	w := newWorkspace(t, s).config(extended)
	w.apply()
	w.settled()
	vm := s.vm(t, "a")
	nics, err := s.client.ListNICs(t.Context(), vm.ID)
	must(t, err)
	check.Equal(t, "*vm.MemoryPolicy.Guaranteed", *vm.MemoryPolicy.Guaranteed, 1<<30)
	check.Equal(t, "vm.DescriptionText()", vm.DescriptionText(), "a <b>")
	check.Equal(t, "nics[0].MAC.Address", nics[0].MAC.Address, "56:6f:1a:aa:00:01")
	check.Equal(t, "nics[0].Interface", nics[0].Interface, "e1000e")

	w.config(strings.Replace(strings.Replace(extended, "1073741824", "2147483648", 1), "a <b>", "c", 1))
	if got := w.plans()["ovirt_vm.a"]; got != "update" {
		t.Errorf("the plan is %q", got)
	}

	w.apply()
	w.settled()
	if vm = s.vm(t, "a"); *vm.MemoryPolicy.Guaranteed != 2<<30 || vm.DescriptionText() != "c" {
		t.Errorf("the VM is %+v with %+v", vm, vm.MemoryPolicy)
	}
}

// TestAPlanShowsOnlyWhatIsAskedFor changes a running VM and a disk. The plan must not show their statuses.
func TestAPlanShowsOnlyWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	resources := machine + `
resource "ovirt_disk" "d" {
  storage_domain_id = "$storage"
  format            = "cow"
  size              = 1048576
  alias             = "d"
}
`
	w := newWorkspace(t, s).config(resources)
	w.apply()
	w.succeed("refresh", "-no-color", "-input=false") // the refresh finds the VM up
	check.Equal(t, "the status of the VM", w.value("ovirt_vm.a", "status"), any("up"))

	w.config(strings.NewReplacer(`alias             = "d"`, `alias             = "e"`, "memory      = 4294967296",
		"memory      = 4294967296\n  description = \"b\"").Replace(resources))
	plan := w.succeed("plan", "-no-color", "-input=false")
	check.Contains(t, "the plan", plan, "0 to add, 2 to change, 0 to destroy")
	check.Lacks(t, "the plan", plan, "~ status")

	w.apply()
	w.settled()
	check.Equal(t, "the description", s.vm(t, "a").DescriptionText(), "b")
}

// TestTheWholeNetworkOfAGuest creates and imports an initialization beyond that of the released provider.
func TestTheWholeNetworkOfAGuest(t *testing.T) { // R13
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(`
resource "ovirt_vm" "a" {
  name                          = "a"
  cluster_id                    = "$cluster"
  template_id                   = "$template"
  initialization_dns_servers    = ["10.0.0.53", "fd00::53"]
  initialization_search_domains = ["example.com"]
  initialization_nic {
    name = "enp1s0"
    ipv4 {
      boot_protocol = "dhcp"
    }
    ipv6 {
      boot_protocol = "dhcp"
    }
  }
  initialization_nic {
    name = "enp2s0"
    ipv6 {
      address = "fd00::5"
      netmask = "64"
      gateway = "fe80::1"
    }
  }
}`)
	w.apply()
	w.settled()
	vm, err := s.client.FetchFullVM(t.Context(), s.vm(t, "a").ID)
	must(t, err)

	// An engine reports both families of every interface. A family without an address is empty.
	none := &engine.IP{}
	want := []engine.NICConfiguration{
		{Name: "enp1s0", OnBoot: true, BootProtocol: "dhcp", IP: none, IPv6Boot: "dhcp", IPv6: none},
		{
			Name:         "enp2s0",
			OnBoot:       true,
			BootProtocol: "none",
			IP:           none,
			IPv6Boot:     "static",
			IPv6:         &engine.IP{Address: "fd00::5", Netmask: "64", Gateway: "fe80::1"},
		},
	}
	in := vm.Initialization
	check.Equal(t, "in.DNSServers", in.DNSServers, "10.0.0.53 fd00::53")
	check.Equal(t, "in.DNSSearch", in.DNSSearch, "example.com")
	check.Equal(t, "reflect.DeepEqual(in.NICs.Items, want)", reflect.DeepEqual(in.NICs.Items, want), true)

	w.forget()
	w.importID("ovirt_vm.a", vm.ID.String())
	w.settled()
}

// TestAnOperatingSystemThatTheEngineDoesNotKnow requests an unknown operating system. An engine accepts any text, and
// creates the VM with another system.
func TestAnOperatingSystemThatTheEngineDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	vm := func(os string) string {
		return "resource \"ovirt_vm\" \"a\" {\n name = \"a\"\n cluster_id = \"$cluster\"\n template_id = " +
			"\"$template\"\n os_type = \"" + os + "\"\n}\n"
	}
	w := newWorkspace(t, s).config(vm("rhcos_64"))
	message := w.fail()
	if !strings.Contains(message, `no operating system named "rhcos_64" (it has rhcos_x64, `) ||
		s.sim.Summarize().VMs != 0 {
		t.Errorf("%s, and the engine has %+v", message, s.sim.Summarize())
	}

	w.config(vm("rhel_9x64")).apply()
	w.settled()
}

func TestAnImportedMachineThatMatchesPlansNothing(t *testing.T) { // R10
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s)
	defaults := strings.Replace(strings.Replace(machine, "  stop_behavior = \"stop\"\n", "", 1),
		"  force_stop    = true\n", "", 1)
	w.config(defaults).apply()
	vm, nic := w.text("ovirt_vm.a", "id"), w.text("ovirt_nic.a", "id")
	w.forget()
	w.importID("ovirt_vm.a", vm)
	w.importID("ovirt_nic.a", vm+"/"+nic)
	w.importID("ovirt_vm_start.a", vm)
	w.settled()

	t.Run("also where the configuration leaves the hardware to the template", func(t *testing.T) {
		w := newWorkspace(t, s).config(`
resource "ovirt_vm" "b" {
  name        = "b"
  cluster_id  = "$cluster"
  template_id = "$template"
}`)
		w.apply()
		w.settled()
		id := w.text("ovirt_vm.b", "id")
		w.forget()
		w.importID("ovirt_vm.b", id)
		w.settled()
	})
}

// TestAnImportOfAVMWhoseTemplateHasAnInitialization imports a VM that has the host name and script of its template: m8.
// A configuration without them replaces nothing. The next apply removes them from the state, but they stay in the
// engine.
func TestAnImportOfAVMWhoseTemplateHasAnInitialization(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	golden := newWorkspace(t, s).config(machine)
	golden.apply()
	must(t, s.client.StopVM(t.Context(), engine.ID(golden.text("ovirt_vm.a", "id")), true))
	var template *engine.Template
	wait.Until(t, "a template is made of the VM", func() bool {
		var err error
		template, err = s.client.CreateTemplate(t.Context(), "golden", "", engine.ID(golden.text("ovirt_vm.a", "id")))
		return err == nil
	})
	wait.Until(t, "the template is ready", func() bool {
		found, err := s.client.FetchTemplate(t.Context(), template.ID)
		return err == nil && found.Status == "ok"
	})

	w := newWorkspace(
		t,
		s,
	).config("resource \"ovirt_vm\" \"b\" {\n name = \"b\"\n cluster_id = \"$cluster\"\n " +
		"template_id = \"" + template.ID.String() + "\"\n}\n")
	w.apply()
	w.settled()
	id := w.text("ovirt_vm.b", "id")
	vm, err := s.client.FetchFullVM(t.Context(), engine.ID(id))
	must(t, err)
	if vm.Initialization == nil {
		t.Fatal("vm.Initialization is nil")
	}

	check.Equal(t, "vm.Initialization.HostName", vm.Initialization.HostName, "a")
	check.Set(t, "vm.Initialization.CustomScript", vm.Initialization.CustomScript)

	if t.Failed() {
		t.FailNow()
	}

	w.forget()
	w.importID("ovirt_vm.b", id)
	w.wants("ovirt_vm.b", "update")
	w.apply()
	w.settled()
	after, err := s.client.FetchFullVM(t.Context(), engine.ID(id))
	must(t, err)
	if after.Initialization == nil {
		t.Fatal("after.Initialization is nil")
	}

	check.Equal(t, "after.Initialization.HostName", after.Initialization.HostName, "a")
	check.Equal(
		t, "after.Initialization.CustomScript", after.Initialization.CustomScript, vm.Initialization.CustomScript,
	)
}

func TestAChangeOfAVMIsSentOrNeedsReplacement(t *testing.T) { // R8, R9
	t.Parallel()

	tests := map[string]struct {
		from, to string
		want     string
		check    func(*engine.VM) bool
	}{
		"less memory takes what is guaranteed along": {
			`memory      = 4294967296`,
			`memory      = 1073741824`,
			"update",
			nil,
		},
		"memory is sent": {`memory      = 4294967296`, `memory      = 8589934592`, "update", func(vm *engine.VM) bool {
			return *vm.Memory == 8<<30
		}},
		"the comment is sent": {`owner <of> a`, `other <owner> of a`, "update", func(vm *engine.VM) bool {
			return strings.HasPrefix(vm.CommentText(), "other <owner>")
		}},
		"the comment can be cleared": {
			"  comment     = \"owner <of> a && \\\"b\\\"\"\n",
			"",
			"update",
			func(vm *engine.VM) bool {
				return vm.CommentText() == ""
			},
		},
		"the name is sent": {`name        = "a"`, `name        = "renamed"`, "update", func(vm *engine.VM) bool {
			return vm.Name == "renamed"
		}},
		"CPUs are sent": {`cpu_cores   = 2`, `cpu_cores   = 4`, "update", nil},
		"sockets are sent": {`cpu_sockets = 1`, `cpu_sockets = 2`, "update", func(vm *engine.VM) bool {
			return vm.CPU.Topology.Sockets == 2
		}},
		"user data needs another VM": {`echo canary`, `echo other`, "delete+create", nil},
		"memory that is no longer configured stays as it is": {
			"  memory      = 4294967296\n",
			"",
			"",
			func(vm *engine.VM) bool {
				return *vm.Memory == 4<<30
			},
		},
		"an instance type is sent (R8)": {
			"  cpu_cores   = 2\n  cpu_sockets = 1\n  cpu_threads = 1\n  memory      = 4294967296\n",
			"  instance_type_id = \"99999999-9999-4999-8999-999999999999\"\n",
			"update",
			nil,
		},
		"another template needs another VM": {
			`template_id = "$template"`,
			`template_id = "99999999-9999-4999-8999-999999999999"`,
			"delete+create",
			nil,
		},
		"the clone of a VM that is linked needs another VM (R8)": {
			`memory      = 4294967296`,
			"memory      = 4294967296\n  clone = true",
			"delete+create",
			nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, quick)
			w := newWorkspace(t, s).config(machine)
			w.options.ReturnOnStart = true
			w.apply()
			id := w.text("ovirt_vm.a", "id")
			w.config(strings.Replace(machine, test.from, test.to, 1))
			if got := w.plans()["ovirt_vm.a"]; got != test.want {
				t.Fatalf("the plan is %q, want %q", got, test.want)
			}

			if test.check == nil {
				return
			}

			w.apply()
			w.settled()
			vm, err := s.client.FetchVM(t.Context(), engine.ID(id))
			must(t, err)
			if !test.check(vm) {
				t.Errorf("the engine has %+v", vm)
			}
		})
	}
}

// waiting is a running VM with settings that an engine changes only at the next start.
const waiting = `
resource "ovirt_vm" "a" {
  name              = "a"
  comment           = "first"
  description       = ""
  cluster_id        = "$cluster"
  template_id       = "$template"
  memory            = 2147483648
  serial_console    = true
  soundcard_enabled = true
  memory_ballooning = true
}
resource "ovirt_vm_start" "a" {
  vm_id = ovirt_vm.a.id
}
`

func TestWhatWaitsForTheNextStartIsNoDifferenceAndNotForgotten(t *testing.T) { // P4, P6, P9
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(waiting)
	w.apply()
	w.settled() // an engine reports the console and the sound card only on request
	id := w.text("ovirt_vm.a", "id")
	settings := func() engine.Settings {
		t.Helper()
		settings, err := s.client.FetchVMSettings(t.Context(), engine.ID(id))
		must(t, err)

		return settings
	}

	config := waiting
	for _, step := range []struct {
		name, from, to string
		waits          []string
	}{
		{"console and sound card", "serial_console    = true\n  soundcard_enabled = true", "serial_console    = " +
			"false\n  soundcard_enabled = false", []string{"serial console", "sound card"}},
		{"a comment does not drop them", `"first"`, `"second"`, []string{"serial console", "sound card"}},
		{"less memory waits beside them", "2147483648", "1073741824",
			[]string{"memory", "serial console", "sound card"}},
		{"a comment says the memory again", `"second"`, `"third"`, []string{"memory", "serial console", "sound card"}},
		{"memory beyond the maximum", "1073741824", "34359738368",
			[]string{"memory", "guaranteed memory", "maximum memory", "serial console", "sound card"}},
		{"ballooning", "memory_ballooning = true", "memory_ballooning = false",
			[]string{"memory", "maximum memory", "memory ballooning", "serial console", "sound card"}},
	} {
		config = strings.Replace(config, step.from, step.to, 1)
		w.config(config).apply()
		w.settled()

		_, names := settings().PendingChanges()
		for _, name := range step.waits {
			if name != "guaranteed memory" && !slices.Contains(names, name) {
				t.Errorf("%s: %v wait, not %q", step.name, names, name)
			}
		}

		if vm := s.vm(t, "a"); vm.Status != engine.VMUp {
			t.Errorf("%s: the VM is %s", step.name, vm.Status)
		}
	}

	must(t, s.client.StopVM(t.Context(), engine.ID(id), true))
	wait.Until(t, "the VM is down and has what waited for that", func() bool {
		return settings().Now.Status == engine.VMDown && *settings().Now.Memory == 32<<30
	})
	now := settings().Now
	check.Equal(t, "now.Console.Enabled", now.Console.Enabled, false)
	check.Equal(t, "*now.Soundcard", *now.Soundcard, false)
	check.Equal(t, "*now.MemoryPolicy.Ballooning", *now.MemoryPolicy.Ballooning, false)
	if *now.MemoryPolicy.Max < 32<<30 {
		t.Errorf("*now.MemoryPolicy.Max < 32<<30: %v", *now.MemoryPolicy.Max)
	}

	check.Equal(t, "now.CommentText()", now.CommentText(), "third")

	w.apply() // starts the VM again
	w.settled()
}

func TestReadsDetectWhatWasChangedOutside(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(machine)
	w.apply()
	id := w.text("ovirt_vm.a", "id")
	memory, comment := int64(2<<30), "changed by hand"
	_, err := s.client.UpdateVM(t.Context(), engine.ID(id), &engine.VM{
		Memory:       &memory,
		MemoryPolicy: &engine.MemoryPolicy{Guaranteed: &memory},
		Comment:      &comment,
	})
	must(t, err)
	w.wants("ovirt_vm.a", "update")
	w.apply()
	if vm := s.vm(t, "a"); *vm.Memory != 4<<30 || vm.CommentText() == comment {
		t.Errorf("the engine has %d bytes of memory and the comment %q", *vm.Memory, vm.CommentText())
	}

	nic := w.text("ovirt_nic.a", "id")
	_ = s.client.UnplugNIC(t.Context(), engine.ID(id), engine.ID(nic)) // necessary because the VM runs
	must(t, s.client.DeleteNIC(t.Context(), engine.ID(id), engine.ID(nic)))
	w.wants("ovirt_nic.a", "create")
}

func TestWhatWasDeletedOutsideIsPlannedAnew(t *testing.T) { // R11
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(machine)
	w.apply()
	id := w.text("ovirt_vm.a", "id")
	gone := func() {
		must(t, s.client.StopVM(t.Context(), engine.ID(id), true))
		s.deleteVM(t, engine.ID(id))
	}
	gone()
	w.wants("ovirt_vm.a", "create", "ovirt_nic.a", "create", "ovirt_vm_start.a", "create")
	w.apply()
	id = w.text("ovirt_vm.a", "id")
	gone()
	w.succeed("destroy", "-auto-approve", "-no-color", "-input=false", "-refresh=false")
}

func TestADuplicateNameFailsAtOnceAndNamesTheOwner(t *testing.T) { // R4
	s := newSite(t, quick)
	first := newWorkspace(t, s).config(machine)
	first.apply()
	second := newWorkspace(t, s).config(strings.Replace(machine, `"owner <of>`, `"another <of>`, 1))
	tried := s.count("POST", "/api/vms")
	message := second.fail()
	check.Equal(t, "tries", s.count("POST", "/api/vms")-tried, 1)
	check.Contains(t, "message", message, "already in use")
	check.Contains(t, "message", message, first.text("ovirt_vm.a", "id"))
	check.Contains(t, "message", message, "owner <of> a")
}

func TestAVMThatRunsIsStartedAndDeletedAsAnyOther(t *testing.T) { // R4
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(machine)
	w.apply()
	w.succeed("state", "rm", "ovirt_vm_start.a")
	w.apply() // starts a running VM
	if n := s.count("POST", "/start"); n != 1 {
		t.Errorf("%d starts were asked for", n)
	}

	w.succeed("state", "rm", "ovirt_vm_start.a")
	w.destroy() // deletes a running VM
	if left := s.sim.Summarize(); left.VMs != 0 {
		t.Errorf("left in the engine: %+v", left)
	}
}

func TestAnInterruptedBootLeavesNothingPoisoned(t *testing.T) { // R2, R4
	t.Parallel()
	var interrupted atomic.Bool
	boots := func(s *site) bool {
		return slices.ContainsFunc(s.sim.ListVMs(), func(vm ovirtsim.VMInfo) bool {
			return vm.Name == "a" && vm.Status == "powering_up"
		})
	}
	s := newHeldSite(t, func(s *site) bool { return boots(s) && !interrupted.Load() })
	w := newWorkspace(t, s).config(machine)

	// Another run at the same time must not be affected.
	other := newWorkspace(t, s).config(strings.Replace(machine, `name        = "a"`, `name        = "other"`, 1))
	var others sync.WaitGroup
	others.Go(func() {
		if output, exit := other.run("apply", "-auto-approve", "-no-color", "-input=false"); exit != 0 {
			t.Errorf("the other run ended with %d:\n%s", exit, output)
		}
	})
	w.interruptWhen(func() bool { return boots(s) })
	interrupted.Store(true)
	w.apply()
	w.settled()
	others.Wait()
	w.destroy()
}

func TestATransientStatusPlansNothing(t *testing.T) { // R7
	t.Parallel()
	slow := quick
	slow.PowerUp = time.Hour
	s := newSite(t, slow)
	w := newWorkspace(t, s).config(machine)
	w.options.ReturnOnStart = true
	w.apply()
	wait.Until(t, "the VM boots", func() bool { return s.vm(t, "a").Status == "powering_up" })
	w.settled()

	t.Run("but a VM that is down is started, not made anew", func(t *testing.T) {
		s := newSite(t, quick)
		w := newWorkspace(t, s).config(machine)
		w.apply()
		id := w.text("ovirt_vm.a", "id")
		must(t, s.client.StopVM(t.Context(), engine.ID(id), true))
		wait.Until(t, "the VM is down", func() bool { return s.vm(t, "a").Status == engine.VMDown })
		w.wants("ovirt_vm_start.a", "update")
		w.apply()
		if vm := s.vm(t, "a"); vm.ID.String() != id || vm.Status != engine.VMUp {
			t.Errorf("the VM is %s %s", vm.ID, vm.Status)
		}

		w.settled()
	})
}

func TestTwoEnginesAtOnceNeverMix(t *testing.T) { // R1
	t.Parallel()
	var runs sync.WaitGroup

	for range 2 {
		s := newSite(t, quick)
		w := newWorkspace(t, s).config(machine)
		runs.Go(func() {
			if output, exit := w.run("apply", "-auto-approve", "-no-color", "-input=false"); exit != 0 {
				t.Errorf("apply ended with %d:\n%s", exit, output)
			} else if left := s.sim.Summarize(); left.VMs != 1 || left.NICs != 1 {
				t.Errorf("the engine has %+v", left)
			}
		})
	}

	runs.Wait()
}

func TestUserDataIsHiddenInPlans(t *testing.T) { // R15
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(machine)
	plan := w.succeed("plan", "-no-color", "-input=false")
	if strings.Contains(plan, "canary") || !strings.Contains(plan, "(sensitive value)") {
		t.Errorf("the plan is\n%s", plan)
	}
}

func TestSessionsAreReusedAndRevoked(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(machine)
	before := s.sim.Summarize()
	w.apply()
	w.destroy()
	after := s.sim.Summarize()
	if after.Sessions != before.Sessions || after.Logins-before.Logins != 2 {
		t.Errorf("two runs made %d logins and left %d sessions", after.Logins-before.Logins,
			after.Sessions-before.Sessions)
	}

	t.Run("also by the stand-alone plug-in", func(t *testing.T) {
		plugin := t.TempDir()
		build := exec.CommandContext(t.Context(), "go", "build", "-o",
			filepath.Join(plugin, "terraform-provider-ovirt"), "../../cmd/terraform-provider-ovirt")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}

		settings := filepath.Join(plugin, "cli.tfrc")
		must(t, os.WriteFile(settings, []byte(`provider_installation {
  dev_overrides { "registry.terraform.io/ovirt/ovirt" = "`+plugin+`" }
  direct {}
}`), 0o600))
		before := s.sim.Summarize()
		command := exec.CommandContext(
			t.Context(), testenv.FindExecutable(t).Path, "apply", "-auto-approve", "-no-color", "-input=false",
		)
		command.Dir = w.dir
		command.Env = []string{
			"PATH=" + os.Getenv("PATH"),
			"HOME=" + plugin,
			"TF_CLI_CONFIG_FILE=" + settings,
			"CHECKPOINT_DISABLE=1",
		}
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}

		after := s.sim.Summarize()
		if after.Logins == before.Logins || after.Sessions != before.Sessions {
			t.Errorf("a run made %d logins and left %d sessions", after.Logins-before.Logins,
				after.Sessions-before.Sessions)
		}
	})
}

func TestAVMWhoseCreationGotNoAnswerIsFoundAndNotMadeTwice(t *testing.T) { // R17
	t.Parallel()

	for name, config := range map[string]string{
		"by its comment": machine,
		"without one, by not being there yet": strings.Replace(machine,
			"  comment     = \"owner <of> a && \\\"b\\\"\"\n", "", 1),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, quick)
			w := newWorkspace(t, s)
			w.through(lossy(t, s, "/vms")).config(config).apply()
			if n := s.sim.Summarize().VMs; n != 1 {
				t.Errorf("the engine has %d VMs", n)
			}

			w.settled()
		})
	}
}

// through makes the workspace send its requests through a proxy.
func (w *workspace) through(proxy *httptest.Server) *workspace {
	w.url = proxy.URL + "/ovirt-engine"
	w.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})
	return w
}

// lossy returns a proxy before the engine. It drops the first answer to a create in this collection.
func lossy(t *testing.T, s *site, collection string) *httptest.Server {
	t.Helper()
	var lost atomic.Bool

	return between(t, s, nil, func(r *http.Response) error {
		if r.Request.Method == http.MethodPost && strings.HasSuffix(r.Request.URL.Path,
			collection) && lost.CompareAndSwap(false, true) {
			r.Body = io.NopCloser(strings.NewReader("<vm><name>cut off"))
			r.ContentLength = -1
			r.Header.Del("Content-Length")
		}

		return nil
	})
}

// between returns a proxy before the engine. It calls before with each request, and after with each answer.
func between(t *testing.T, s *site, before func(*http.Request), after func(*http.Response) error) *httptest.Server {
	t.Helper()
	target, err := url.Parse(s.sim.URL())
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.sim.CA())
	proxy := httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			if before != nil {
				before(r.In)
			}

			r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host})
		},
		Transport:      &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
		ModifyResponse: after,
	})
	t.Cleanup(proxy.Close)

	return proxy
}

func TestAddressesAreWaitedForOnlyWhereTheyMayCome(t *testing.T) { // R5, R6
	t.Parallel()
	config := machine + `
data "ovirt_wait_for_ip" "a" {
  vm_id      = ovirt_vm.a.id
  depends_on = [ovirt_vm_start.a]
}`
	t.Run("a VM that is gone is an error, not a crash", func(t *testing.T) {
		s := newSite(t, quick)
		w := newWorkspace(
			t,
			s,
		).config(`data "ovirt_wait_for_ip" "a" { vm_id = "99999999-9999-4999-8999-999999999999" }`)
		if message := w.fail(); !strings.Contains(message, "99999999-9999-4999-8999-999999999999") {
			t.Errorf("the message is %q", message)
		}
	})
	t.Run("a VM that is down is not waited for", func(t *testing.T) {
		s := newSite(t, quick)
		w := newWorkspace(
			t,
			s,
		).config(strings.Split(machine, `resource "ovirt_vm_start"`)[0] +
			`data "ovirt_wait_for_ip" "a" { vm_id = ovirt_vm.a.id }`)
		w.apply()
		wait.Until(t, "the VM is down", func() bool { return s.vm(t, "a").Status == engine.VMDown })
		before := s.count("GET", "/reporteddevices")
		w.apply()
		w.destroy()
		if looks := s.count("GET", "/reporteddevices") - before; looks > 3 { // one for each read
			t.Errorf("it looked for an address %d times", looks)
		}
	})
	t.Run("a wait can be interrupted", func(t *testing.T) {
		s := newSite(t, quick)
		w := newWorkspace(t, s).config(config)
		w.interruptWhen(func() bool { return s.count("GET", "/reporteddevices") > 0 })
	})
}

func TestAStateOfTheReleasedProviderIsTakenOver(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(machine)
	w.apply()

	// For omitted attributes, the released provider records only the types and the live status.
	content, err := os.ReadFile(filepath.Join(w.dir, "terraform.tfstate"))
	must(t, err)

	text := string(content)
	for _, attribute := range []string{"clone", "maximum_memory", "memory_ballooning", "serial_console",
		"soundcard_enabled", "cpu_mode", "huge_pages", "placement_policy_affinity"} {
		text = nullAttribute(text, attribute)
	}

	for _, attribute := range []string{"boot_protocol", "initialization_dns_servers", "initialization_search_domains",
		"guaranteed_memory", "description", "mac", "interface"} {
		before := text
		if text = regexp.MustCompile(`\n *"`+attribute+`": [^\n]*,`).ReplaceAllString(text, ""); text == before {
			t.Errorf("the state has no %s that the released provider would not write", attribute)
		}
	}

	text = strings.ReplaceAll(text, `"status": "up"`, `"status": "powering_up"`)
	must(t, os.WriteFile(filepath.Join(w.dir, "terraform.tfstate"), []byte(text), 0o600))
	w.settled()
	w.wants()
	w.config(strings.Replace(machine, `memory      = 4294967296`, `memory      = 8589934592`, 1))
	output := w.succeed("plan", "-no-color", "-input=false", "-refresh=false")
	if !strings.Contains(output, "0 to add, 2 to change, 0 to destroy") &&
		!strings.Contains(output, "0 to add, 1 to change, 0 to destroy") {
		t.Errorf("without a refresh the plan is\n%s", output)
	}
}

// nullAttribute sets an attribute to null in the text of a state.
func nullAttribute(state, attribute string) string {
	lines := strings.Split(state, "\n")
	for i, line := range lines {
		key, _, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == `"`+attribute+`"` && !strings.HasSuffix(line, "[") {
			lines[i] = key + ": null,"
		}
	}

	return strings.Join(lines, "\n")
}

func TestMistakesAreFoundBeforeAnythingIsPlanned(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	vm := func(body string) string {
		return `resource "ovirt_vm" "a" {
  name        = "a"
  cluster_id  = "$cluster"
  template_id = "$template"
` + body + "}\n"
	}

	tests := map[string]struct{ config, want string }{
		"a network interface with a space in its name": {`resource "ovirt_nic" "n" {
  name            = "first one"
  vm_id           = "$template"
  vnic_profile_id = "$profile"
}
`, "letters, digits, dash, underscore and dot"},
		"half a topology":                {vm("cpu_cores = 2\n"), "cpu_threads"},
		"a cluster by its name":          {strings.Replace(vm(""), "$cluster", "Default", 1), "must be a UUID"},
		"a name that the engine refuses": {strings.Replace(vm(""), `"a"`+"\n", `"a b"`+"\n", 1), "letters, digits"},
		"a name that is too long": {
			strings.Replace(vm(""), `"a"`+"\n", `"`+strings.Repeat("a", 65)+`"`+"\n", 1),
			"at most 64",
		},
		"a description that is too long": {
			vm("description = \"" + strings.Repeat("a", 256) + "\"\n"),
			"255 characters",
		},
		"a description with emoji": {vm("description = \"\U0001F600\"\n"), "emoji"},
		"memory that is no MiB":    {vm("memory = 1073741825\n"), "1 MiB"},
		"a lease without high availability": {
			vm("lease_storage_domain_id = \"$storage\"\n"),
			"Set high_availability",
		},
		"a lease, and no kill": {
			vm("high_availability = true\n lease_storage_domain_id = \"$storage\"\n" +
				" storage_error_resume_behaviour = \"auto_resume\"\n"),
			"write kill",
		},
		"huge pages as a property": {
			vm("custom_properties = { hugepages = \"2048\" }\n"),
			"custom_properties",
		},
		"more guaranteed than there is": {
			vm("memory = 1073741824\n guaranteed_memory = 2147483648\n"),
			"Lower guaranteed_memory",
		},
		"a maximum that is too low": {
			vm("memory = 2147483648\n maximum_memory = 1073741824\n"),
			"Raise maximum_memory",
		},
		"memory beside an instance type": {
			vm("memory = 1073741824\n instance_type_id = \"99999999-9999-4999-8999-999999999999\"\n"),
			"remove memory",
		},
		"a tag with a blank": {
			"resource \"ovirt_tag\" \"a\" {\n name = \"a b\"\n}\n",
			"letters, digits",
		},
		"an affinity group with a blank": {
			"resource \"ovirt_affinity_group\" \"a\" {\n name = \"a b\"\n cluster_id = \"$cluster\"\n}\n",
			"letters, digits",
		},
		"a priority that is too exact": {
			"resource \"ovirt_affinity_group\" \"a\" {\n name = \"a\"\n cluster_id = \"$cluster\"\n " +
				"priority = 0.123456789\n}\n",
			"seven decimals",
		},
		"a static address that is not there": {
			vm("initialization_nic {\n name = \"e\"\n ipv4 {\n }\n}\n"),
			"Write the address",
		},
		"an address beside DHCP": {
			vm(
				"initialization_nic {\n name = \"e\"\n ipv4 {\n boot_protocol = \"dhcp\"\n " +
					"address = \"10.0.0.5\"\n }\n}\n",
			),
			"Remove the address",
		},
		"SLAAC for IPv4": {
			vm("initialization_nic {\n name = \"e\"\n ipv4 {\n boot_protocol = \"autoconf\"\n }\n}\n"),
			"dhcp",
		},
		"SLAAC, which the engine refuses": {
			vm("initialization_nic {\n name = \"e\"\n ipv6 {\n boot_protocol = \"autoconf\"\n }\n}\n"),
			"dhcp",
		},
		"two DNS servers in one":          {vm("initialization_dns_servers = [\"10.0.0.5 10.0.0.6\"]\n"), "spaces"},
		"initialization_nic without IPv4": {vm("initialization_nic {\n name = \"e\"\n}\n"), "ipv4"},
		"a status other than up": {
			"resource \"ovirt_vm_start\" \"a\" {\n vm_id = " +
				"\"99999999-9999-4999-8999-999999999999\"\n status = \"down\"\n}\n",
			"up",
		},
		"attachments without one": {
			"resource \"ovirt_disk_attachments\" \"a\" {\n vm_id = \"99999999-9999-4999-8999-999999999999\"\n}\n",
			"attachment",
		},
		"enforcing twice": {
			"resource \"ovirt_affinity_group\" \"a\" {\n name = \"a\"\n cluster_id = \"$cluster\"\n enforcing = " +
				"true\n vms_rule {\n enforcing = false\n }\n}\n",
			"contradicts",
		},
		"a console that cannot be made": {
			"resource \"ovirt_vm_graphics_consoles\" \"a\" {\n vm_id = " +
				"\"99999999-9999-4999-8999-999999999999\"\n console {}\n}\n",
			"console",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if message := newWorkspace(t, s).config(test.config).fail(); !strings.Contains(message, test.want) {
				t.Errorf("the message is %q", message)
			}
		})
	}

	if n := s.sim.Summarize().VMs; n != 0 {
		t.Errorf("the engine has %d VMs", n)
	}
}
