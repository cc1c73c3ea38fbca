package ovirtsim_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// stubGuest comes up with the DHCP leases that it is offered, or with its configured addresses.
type stubGuest struct {
	mu                      sync.Mutex
	booted, halted, removed []string
	reported                []string // names of the VMs that have reported addresses
	// instances are the instance IDs on the drives of all boots.
	instances []string
	fail      error
	// drives receives the host name and user data of each boot; nil if the test does not use them.
	drives chan string
}

func (g *stubGuest) Boot(
	ctx context.Context, machine ovirtsim.GuestVM, ready func(ovirtsim.AgentReport),
) error {
	g.mu.Lock()
	g.booted = append(g.booted, machine.Name)
	g.instances = append(g.instances, machine.DriveID)
	fail := g.fail
	g.mu.Unlock()
	if g.drives != nil {
		g.drives <- machine.HostName + " " + machine.UserData
	}

	if fail != nil {
		return fail
	}

	var reported []ovirtsim.ReportedInterface

	for i, device := range machine.Interfaces {
		out := ovirtsim.ReportedInterface{Name: device.Name, MAC: device.MAC}
		if address, _, ok := strings.Cut(device.DHCP, "/"); ok {
			out.Addresses = append(out.Addresses, address)
		}

		if i < len(machine.NICs) {
			out.Addresses = append(out.Addresses, machine.NICs[i].Address, machine.NICs[i].IPv6Address)
		}

		reported = append(reported, out)
	}

	ready(ovirtsim.AgentReport{FQDN: machine.Name + ".example.com", Interfaces: reported})
	g.note(&g.reported, machine.Name)
	<-ctx.Done()

	return nil
}

func (*stubGuest) Shutdown(string) bool { return false }

func (g *stubGuest) HandleHalt(string) { g.note(&g.halted, "halted") }

func (g *stubGuest) HandleRemoval(string) { g.note(&g.removed, "removed") }

func (g *stubGuest) HandleDiskRemoval(string)              {}
func (g *stubGuest) SetDisks(string, []ovirtsim.GuestDisk) {}

func (g *stubGuest) note(list *[]string, what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*list = append(*list, what)
}

// hasReported reports whether the guest of the named VM has reported its addresses.
func (g *stubGuest) hasReported(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()

	return slices.Contains(g.reported, name)
}

func (*stubGuest) Node(string) (ovirtsim.GuestNode, bool)    { return ovirtsim.GuestNode{}, false }
func (*stubGuest) SetNodeReady(string, string, string) error { return nil }
func (*stubGuest) Close()                                    {}

func (r *raw) start(id string) {
	r.t.Helper()
	r.ok("POST", "/api/vms/"+id+"/start", "{}")
	r.until("/api/vms/"+id, "status", "up")
}

// stop powers a VM off.
func (r *raw) stop(id string) {
	r.t.Helper()
	r.ok("POST", "/api/vms/"+id+"/stop", "{}")
	r.until("/api/vms/"+id, "status", "down")
}

// hostOf returns the name of a VM's host.
func (r *raw) hostOf(id string) string {
	r.t.Helper()
	return r.ok("GET", "/api/vms/"+id+"?follow=host", "").at("host", "name")
}

func (r *raw) group(name, rules string, vms ...string) string {
	r.t.Helper()
	base := "/api/clusters/" + r.id("clusters", "cluster", "Default") + "/affinitygroups"
	made := r.ok("POST", base, fmt.Sprintf(`{"name":%q,%s}`, name, rules))

	path := base + "/" + made.at("id")
	for _, id := range vms {
		r.ok("POST", path+"/vms", fmt.Sprintf(`{"id":%q}`, id))
	}

	return path
}

func TestHardAffinityRulesAreEnforcedAndSoftOnesAreTried(t *testing.T) {
	r := newRaw(t)

	var vms []string
	for i := range 4 {
		vms = append(vms, r.newVM(fmt.Sprintf("cp-%d", i), ""))
	}

	path := r.group("apart", `"vms_rule":{"enabled":true,"enforcing":true,"positive":false}`, vms...)
	for _, id := range vms[:3] {
		r.start(id)
	}

	hosts := []string{r.hostOf(vms[0]), r.hostOf(vms[1]), r.hostOf(vms[2])}
	slices.Sort(hosts)
	if !slices.Equal(hosts, []string{"host-1", "host-2", "host-3"}) {
		t.Errorf("three VMs that must be apart run on %v", hosts)
	}

	r.refused(
		409,
		"There is no host that satisfies current scheduling constraints. See below for details:, The host host-1 "+
			"did not satisfy internal filter VmAffinityGroups because it matched negative affinity rules apart.",
		"POST",
		"/api/vms/"+vms[3]+"/start",
		"{}",
	)
	r.refused(409, "Cannot migrate VM. There is no host", "POST", "/api/vms/"+vms[0]+"/migrate", "{}")
	r.ok("PUT", path, `{"vms_rule":{"enabled":true,"enforcing":false,"positive":false}}`)
	r.start(vms[3])

	together := []string{r.newVM("a", ""), r.newVM("b", "")}
	r.start(together[0])
	r.group("together", `"vms_rule":{"enabled":true,"enforcing":true,"positive":true}`, together...)
	r.start(together[1])
	if a, b := r.hostOf(together[0]), r.hostOf(together[1]); a != b {
		t.Errorf("two VMs that must be together run on %s and %s", a, b)
	}

	pinned := r.newVM(
		"pinned",
		fmt.Sprintf(
			`"placement_policy":{"affinity":"pinned","hosts":{"host":[{"id":%q}]}}`,
			r.id("hosts", "host", "host-2"),
		),
	)
	r.start(pinned)
	if at := r.hostOf(pinned); at != "host-2" {
		t.Errorf("a pinned VM runs on %s", at)
	}

	r.refused(409, "VM is pinned to Host", "POST", "/api/vms/"+pinned+"/migrate", "{}")

	onHost := r.newVM("on-host", "")
	r.ok("POST", r.group("hosts", `"hosts_rule":{"enabled":true,"enforcing":true,"positive":true}`, onHost)+"/hosts",
		fmt.Sprintf(`{"id":%q}`, r.id("hosts", "host", "host-3")))
	r.start(onHost)
	if at := r.hostOf(onHost); at != "host-3" {
		t.Errorf("a VM bound to a host runs on %s", at)
	}

	labelled := r.newVM("labelled", "")
	label := "/api/affinitylabels/" + r.ok("POST", "/api/affinitylabels",
		`{"name":"gpu","has_implicit_affinity_group":"true"}`).
		at("id")
	r.ok("POST", label+"/vms", fmt.Sprintf(`{"id":%q}`, labelled))
	r.refused(409, "affinity label gpu", "POST", "/api/vms/"+labelled+"/start", "{}")
	r.ok("POST", label+"/hosts", fmt.Sprintf(`{"id":%q}`, r.id("hosts", "host", "host-1")))
	r.start(labelled)
	if at := r.hostOf(labelled); at != "host-1" {
		t.Errorf("a labelled VM runs on %s", at)
	}
}

func TestGroupsAndTagsKeepTheirMembers(t *testing.T) {
	r := newRaw(t)
	id := r.newVM("a", "")
	path := r.group("g", `"description":"<d>","priority":"5.0"`, id)
	group := r.ok("GET", path, "")
	check.Equal(t, `group.at("vms", "vm", 0, "id")`, group.at("vms", "vm", 0, "id"), id)
	check.Equal(t, `group.at("priority")`, group.at("priority"), "5")
	check.Equal(t, `group.at("description")`, group.at("description"), "<d>")
	check.Equal(t, `group.at("hosts_rule", "enabled")`, group.at("hosts_rule", "enabled"), "false")

	r.refused(400, "Duplicate VM", "POST", path+"/vms", fmt.Sprintf(`{"id":%q}`, id))
	r.refused(400, "The selected VM does not exist", "POST", path+"/vms",
		`{"id":"6a0d7b86-6c0a-4b9e-8a52-000000000000"}`)
	r.refused(400, "are mandatory", "POST", path+"/vms", `{}`)
	r.refused(400, "already exists", "POST", path[:strings.LastIndex(path, "/")], `{"name":"g"}`)

	tag := r.ok("POST", "/api/tags", `{"name":"blue","description":"b"}`).at("id")
	child := r.ok("POST", "/api/tags", fmt.Sprintf(`{"name":"navy","parent":{"id":%q}}`, tag)).at("id")
	r.refused(409, "already exists", "POST", "/api/tags", `{"name":"blue"}`)
	r.refused(
		409, "recursive Tag hierarchy cannot be defined", "PUT", "/api/tags/"+tag, fmt.Sprintf(
			`{"parent":{"id":%q}}`, child,
		),
	)
	r.ok("POST", "/api/vms/"+id+"/tags", fmt.Sprintf(`{"id":%q}`, child))
	if got := r.ok("GET", "/api/vms?search=tag%3Dblue", "").each("vm", "name"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("a tag stands for those below it: %v", got)
	}

	r.ok("DELETE", "/api/vms/"+id+"/tags/"+child, "")
	r.refused(404, "", "DELETE", "/api/vms/"+id+"/tags/"+child, "")

	r.ok("POST", "/api/vms/"+id+"/tags", `{"name":"blue"}`)
	r.ok("DELETE", "/api/vms/"+id, "")
	r.gone("/api/vms/" + id)
	if group = r.ok("GET", path, ""); group.at("vms", "vm", 0, "id") != "" {
		t.Errorf("a removed VM is still in the group: %v", group)
	}
}

func TestHostsFailAndAreMaintained(t *testing.T) {
	guest := &stubGuest{}
	r := newRawWith(t, ovirtsim.Options{Timings: timings, Guest: guest})
	plain, available := r.newVM("plain", ""), r.newVM("available", `"high_availability":{"enabled":true}`)
	r.start(plain)
	r.start(available)
	from := r.hostOf(plain)
	r.ok("POST", "/api/hosts/"+r.id("hosts", "host", from)+"/deactivate", "{}")
	r.until("/api/hosts/"+r.id("hosts", "host", from), "status", "maintenance")
	to := r.hostOf(plain)
	if to == from {
		t.Errorf("the VM is still on %s, which is in maintenance", from)
	}

	if err := r.sim.FailHost(to); err != nil {
		t.Fatal(err)
	}

	r.until("/api/vms/"+plain, "status", "down")
	if at := r.hostOf(available); at == to {
		r.until("/api/vms/"+available, "status", "up")
		t.Errorf("the highly available VM is on the failed host %s", at)
	}

	r.until("/api/vms/"+available, "status", "up")
	if err := r.sim.RecoverHost(to); err != nil {
		t.Fatal(err)
	}

	r.ok("POST", "/api/hosts/"+r.id("hosts", "host", from)+"/activate", "{}")
	r.until("/api/hosts/"+r.id("hosts", "host", from), "status", "up")
	r.start(plain)
	if err := r.sim.CrashVM("plain"); err != nil {
		t.Fatal(err)
	}

	r.until("/api/vms/"+plain, "status", "down")
	if err := r.sim.CrashVM("plain"); err == nil {
		t.Error("a VM that is down crashed")
	}

	if err := r.sim.FailHost("nowhere"); err == nil {
		t.Error("a host that does not exist failed")
	}
}

func TestAVMThatDoesNotFitIsNotStarted(t *testing.T) {
	r := newRaw(t)
	big := r.newVM("big", fmt.Sprintf(`"memory":"%d"`, 65<<30))
	r.refused(409, "internal filter Memory because its available memory is too low", "POST", "/api/vms/"+big+"/start",
		"{}")
	wide := r.newVM("wide", `"cpu":{"topology":{"cores":"16","sockets":"4","threads":"2"}}`)
	r.refused(409, "it has an insufficient amount of CPU cores", "POST", "/api/vms/"+wide+"/start", "{}")

	half := []string{}
	for i := range 4 {
		half = append(half, r.newVM(fmt.Sprintf("half-%d", i), fmt.Sprintf(`"memory":"%d"`, 40<<30)))
	}

	for _, id := range half[:3] {
		r.start(id)
	}

	r.refused(409, "There is no host", "POST", "/api/vms/"+half[3]+"/start", "{}")
	r.ok("POST", "/api/vms/"+half[0]+"/stop", "{}")
	r.until("/api/vms/"+half[0], "status", "down")
	r.start(half[3])
}

func TestChangesOfARunningVMWaitForItsNextStart(t *testing.T) {
	r := newRaw(t)
	id := r.newVM("a", fmt.Sprintf(`"memory":"%d"`, 4<<30))
	path := "/api/vms/" + id
	r.start(id)
	vm := r.ok("PUT", path, fmt.Sprintf(`{"memory":"%d"}`, 8<<30))
	if vm.at("memory") != fmt.Sprint(8<<30) || vm.at("next_run_configuration_exists") != "false" {
		t.Errorf("more memory is given at once: %v", vm)
	}

	vm = r.ok("PUT", path, fmt.Sprintf(`{"memory":"%d"}`, 4<<30))
	if vm.at("memory") != fmt.Sprint(8<<30) || vm.at("next_run_configuration_exists") != "false" {
		t.Errorf("less memory has no effect while the guest offers none: %v", vm)
	}

	r.refused(400, "Physical Memory Guaranteed cannot exceed Memory Size", "PUT", path,
		fmt.Sprintf(`{"memory":"%d"}`, 2<<30))
	r.refused(409, "cannot exceed maximum memory size", "PUT", path, fmt.Sprintf(`{"memory":"%d"}`, 32<<30))
	r.refused(409, "cannot exceed maximum memory size", "PUT", path,
		fmt.Sprintf(`{"memory":"%d","memory_policy":{"max":"%d"}}`, 32<<30, 64<<30))
	r.refused(400, "Amount of added memory (100MiB) is not dividable by 128MiB", "PUT", path,
		fmt.Sprintf(`{"memory":"%d"}`, 8<<30+100<<20))
	r.refused(400, "The requested number of vCPUs is not available", "PUT", path,
		`{"cpu":{"topology":{"sockets":"100"}}}`)
	vm = r.ok("PUT", path, `{"cpu":{"topology":{"cores":"2","sockets":"1","threads":"1"}}}`)
	if vm.at("cpu", "topology", "cores") != "1" || vm.at("next_run_configuration_exists") != "true" {
		t.Errorf("cores wait: %v", vm)
	}

	if vm := r.ok("GET", path+"?next_run=true", ""); vm.at("cpu", "topology", "cores") != "2" {
		t.Errorf("as it will be: %v", vm)
	}

	r.ok("PUT", path, `{"comment":"x"}`)
	vm = r.ok("GET", path+"?next_run=true", "")
	if vm.at("cpu", "topology", "cores") != "1" || vm.at("next_run_configuration_exists") != "true" {
		t.Errorf("a later change drops what waited: %v", vm)
	}

	vm = r.ok("PUT", path+"?next_run=true", fmt.Sprintf(`{"memory":"%d"}`, 5<<30))
	if vm.at("memory") != fmt.Sprint(5<<30) {
		t.Errorf("asked for the next start: %v", vm)
	}

	r.refused(400, "memory next run configuration already exists", "PUT", path, `{"comment":"z"}`)
	r.ok(
		"PUT",
		path,
		fmt.Sprintf(`{"memory":"%d","cpu":{"topology":{"cores":"2","sockets":"1","threads":"1"}}}`, 5<<30),
	)
	r.ok("POST", path+"/shutdown", "{}")
	r.until(path, "status", "down")
	r.refused(409, "VM is being updated", "PUT", path, `{"comment":"y"}`)
	vm = r.ok("GET", path, "")
	if vm.at("cpu", "topology", "cores") != "1" || vm.at("next_run_configuration_exists") != "false" {
		t.Errorf("right after the stop: %v", vm)
	}

	r.until(path, "cpu.topology.cores", "2")
	r.refused(409, "cannot exceed maximum memory size", "PUT", path, `{"memory_policy":{"max":"1048576"}}`)
	r.refused(400, "Physical Memory Guaranteed cannot exceed Memory Size", "PUT", path,
		fmt.Sprintf(`{"memory_policy":{"guaranteed":"%d"}}`, 9<<30))
	r.ok("PUT", path, `{"delete_protected":"true"}`)
	r.refused(409, "Delete protection is enabled", "DELETE", path, "")
	r.ok("PUT", path, `{"delete_protected":false}`)
	r.ok("DELETE", path, "")
	r.gone(path)
}

// TestTheDriveOfAStart replays the starts in the recording adopt-vm, and checks the contents of the drive after each
// start.
func TestTheDriveOfAStart(t *testing.T) {
	const stored = `{"initialization":{"host_name":"stored","custom_script":"data"}}`
	const none = " "

	for name, c := range map[string]struct {
		os, start, want string
		wasUp           bool
	}{
		"the first start": {start: `{}`, want: "stored data"},
		"a later start":   {start: `{}`, want: none, wasUp: true},
		"a later start that asks for it": {
			start: `{"use_initialization":"true"}`, want: "stored data", wasUp: true,
		},
		"a later start that asks for cloud-init": {
			start: `{"use_cloud_init":"true"}`, want: "stored data", wasUp: true,
		},
		"a later start that does not want it": {start: `{"use_cloud_init":"false"}`, want: none, wasUp: true},
		"Ignition, and a start that asks for it": {
			os: "rhcos_x64", start: `{"use_initialization":"true"}`, want: "stored data", wasUp: true,
		},
		"Ignition, and a start with the other's": {
			os: "rhcos_x64", start: `{"use_cloud_init":"true"}`, want: none, wasUp: true,
		},
		"a start with its own, and without a flag": {
			start: `{"vm":{"initialization":{"host_name":"own"}}}`, want: none, wasUp: true,
		},
		"a start with a host name of its own": {
			start: `{"use_initialization":"true","vm":{"initialization":{"host_name":"own"}}}`, want: "own data",
			wasUp: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			guest := &stubGuest{drives: make(chan string, 2)}
			r := newRawWith(t, ovirtsim.Options{Timings: timings, Guest: guest})
			id := r.newVM("a", "")
			if c.os != "" {
				r.ok("PUT", "/api/vms/"+id, fmt.Sprintf(`{"os":{"type":%q}}`, c.os))
			}

			if c.wasUp {
				r.start(id)
				<-guest.drives
				r.stop(id)
			}

			r.ok("PUT", "/api/vms/"+id, stored)
			r.ok("POST", "/api/vms/"+id+"/start", c.start)
			r.until("/api/vms/"+id, "status", "up")
			check.Equal(t, "drive", <-guest.drives, c.want)
		})
	}
}

func TestAVMRebootsSuspendsAndMigrates(t *testing.T) {
	guest := &stubGuest{}
	r := newRawWith(t, ovirtsim.Options{Timings: timings, Guest: guest})
	id := r.newVM("a", "")
	path := "/api/vms/" + id
	r.start(id)
	if got := r.ok("POST", path+"/reboot", "{}"); got.at("status") != "complete" {
		t.Errorf("reboot: %v", got)
	}

	r.until(path, "status", "up")
	if boots := r.sim.ListVMs()[0].Boots; boots != 2 {
		t.Errorf("%d boots", boots)
	}

	before := r.hostOf(id)
	r.ok("POST", path+"/migrate", "{}")
	r.until(path, "status", "up")
	if r.hostOf(id) == before || r.sim.ListVMs()[0].Boots != 2 {
		t.Errorf("a migration went from %s to %s with %d boots", before, r.hostOf(id), r.sim.ListVMs()[0].Boots)
	}

	r.ok("POST", path+"/suspend", "{}")
	r.until(path, "status", "suspended")
	r.refused(409, "Cannot restart VM because the VM is in Suspended status", "POST", path+"/reboot", "{}")
	r.start(id)
	if ticket := r.ok("POST", path+"/ticket", `{"ticket":{"expiry":"60"}}`); ticket.at("ticket", "value") == "" {
		t.Errorf("ticket %v", ticket)
	}
}

func TestTheGuestAgentReportsWhatTheGuestHas(t *testing.T) {
	inventory := ovirtsim.DefaultInventory()
	inventory.DataCenters[0].Networks[1].DHCP = &ovirtsim.DHCP{
		First:   "10.0.0.10",
		Last:    "10.0.0.11",
		Bits:    24,
		Gateway: "10.0.0.1",
	}
	guest := &stubGuest{}
	r := newRawWith(t, ovirtsim.Options{Timings: timings, Guest: guest, Inventory: inventory})
	profile := r.id("vnicprofiles", "vnic_profile", "kvm-vlan")
	add := func(name string) string {
		id := r.newVM(name, "")
		r.ok("POST", "/api/vms/"+id+"/nics", fmt.Sprintf(`{"name":"nic1","vnic_profile":{"id":%q}}`, profile))
		r.start(id)

		return id
	}
	reported := func(id string) doc { return r.ok("GET", "/api/vms/"+id+"/reporteddevices", "") }
	reports := func(id, want string) {
		t.Helper()
		wait.For(t, "the guest agent reports "+want, func() error {
			if d := reported(id); d.at("reported_device", 0, "ips", "ip", 0, "address") != want {
				return fmt.Errorf("it reports %v", d)
			}

			return nil
		})
	}
	a, b := add("a"), add("b")
	reports(a, "10.0.0.10")
	reports(b, "10.0.0.11")
	check.Equal(t, "the name of the guest", r.ok("GET", "/api/vms/"+a, "").at("fqdn"), "a.example.com")
	d := reported(a)
	check.Equal(t, `d.at("reported_device", 0, "type")`, d.at("reported_device", 0, "type"), "network")
	check.Equal(t, `d.at("reported_device", 0, "name")`, d.at("reported_device", 0, "name"), "enp1s0")
	check.Equal(
		t, `d.at("reported_device", 0, "ips", "ip", 0, "version")`,
		d.at("reported_device", 0, "ips", "ip", 0, "version"), "v4",
	)

	r.ok("POST", "/api/vms/"+a+"/stop", "{}")
	r.until("/api/vms/"+a, "status", "down")
	if d := reported(a); len(d) != 0 {
		t.Errorf("a VM that is down reports %v", d)
	}

	r.ok("DELETE", "/api/vms/"+a, "")
	r.gone("/api/vms/" + a)
	reports(add("c"), "10.0.0.10") // the lease was released

	if err := r.sim.Inject(ovirtsim.Fault{Guest: "no-agent", VM: "^quiet$"}); err != nil {
		t.Fatal(err)
	}

	r.ok("POST", "/api/vms/"+b+"/stop", "{}")
	r.until("/api/vms/"+b, "status", "down")
	quiet := add("quiet")
	wait.Until(t, "the guest has reported", func() bool { return guest.hasReported("quiet") })
	if d := reported(quiet); len(d) != 0 {
		t.Errorf("a VM without guest agent reports %v", d)
	}
}

func TestFaultsAreRules(t *testing.T) {
	r := newRawWith(t, ovirtsim.Options{Timings: timings, Seed: 1})
	inject := func(f ovirtsim.Fault) {
		t.Helper()
		r.sim.ClearFaults()
		if err := r.sim.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
	try := func(method, path string) (int, error) {
		request, err := http.NewRequestWithContext(t.Context(), method, r.sim.URL()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}

		request.Header.Set("Authorization", "Bearer "+r.token)
		response, err := r.http.Do(request)
		if err != nil {
			return 0, err
		}

		_ = response.Body.Close()

		return response.StatusCode, nil
	}
	inject(ovirtsim.Fault{Method: "GET", Path: "^/api/vms$", Nth: 2, Count: 2, Status: 503})
	var got []int

	for range 5 {
		status, _ := try("GET", "/api/vms")
		got = append(got, status)
	}

	if !slices.Equal(got, []int{200, 503, 503, 200, 200}) {
		t.Errorf("the second and third of five: %v", got)
	}

	if faults := r.sim.ListFaults(); faults[0].Seen != 5 || faults[0].Hits != 2 {
		t.Errorf("counts: %+v", faults[0])
	}

	inject(ovirtsim.Fault{Path: "^/api$", Probability: 0.5, Status: 500})
	failed := 0

	for range 200 {
		if status, _ := try("GET", "/api"); status == 500 {
			failed++
		}
	}

	if failed < 70 || failed > 130 {
		t.Errorf("with probability 0.5, %d of 200 failed", failed)
	}

	inject(ovirtsim.Fault{Path: "^/api$", Status: 400, Reason: "Operation Failed", Detail: "[No.]"})
	r.refused(400, "[No.]", "GET", "/api", "")
	inject(ovirtsim.Fault{Method: "POST", Path: "^/api/tags$", Action: "cut-before", Count: 1})
	tags := func() int { return r.sim.Summarize().Tags }
	post := func() error {
		request, err := http.NewRequestWithContext(t.Context(), "POST", r.sim.URL()+"/api/tags",
			strings.NewReader(fmt.Sprintf("<tag><name>t%d</name></tag>", tags())))
		if err != nil {
			t.Fatal(err)
		}

		request.GetBody = nil // otherwise the transport retries by itself
		request.Header.Set("Authorization", "Bearer "+r.token)
		request.Header.Set("Content-Type", "application/xml")
		response, err := r.http.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}

		return err
	}
	if err := post(); err == nil || tags() != 0 {
		t.Errorf("cut before the effect: %v, %d tags", err, tags())
	}

	inject(ovirtsim.Fault{Method: "POST", Path: "^/api/tags$", Action: "cut-after", Count: 1})
	if err := post(); err == nil || tags() != 1 {
		t.Errorf("cut after the effect: %v, %d tags", err, tags())
	}

	inject(ovirtsim.Fault{Path: "^/api/tags$", Action: "malformed", Count: 1})
	if status, body := r.call("GET", "/api/tags", "", ""); status != 200 || strings.HasSuffix(body, "</tags>") {
		t.Errorf("malformed: %d %s", status, body)
	}

	inject(ovirtsim.Fault{Path: "^/api$", Action: "expire-token", Count: 1})
	if status, _ := try("GET", "/api"); status != 401 {
		t.Errorf("expired token: %d", status)
	}

	if status, _ := try("GET", "/api"); status != 401 {
		t.Errorf("the session is back: %d", status)
	}

	r.login()
	inject(ovirtsim.Fault{Path: "^/api$", Action: "hang", Count: 1})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, "GET", r.sim.URL()+"/api", http.NoBody)
	go func() { // the client gives up after the engine has received the request
		wait.Until(t, "the request meets the fault", func() bool { return r.sim.CountHits() == 1 })
		cancel()
	}()
	if response, err := r.http.Do(request); err == nil {
		_ = response.Body.Close()
		t.Error("a request that hangs was answered")
	}

	inject(ovirtsim.Fault{Method: "POST", Path: "^/api/tags$", Action: "hold"})
	posted := make(chan error, 1)
	go func() { posted <- post() }()
	wait.Until(t, "the request meets the fault", func() bool { return r.sim.CountHits() == 1 })
	check.Equal(t, "tags while the request is held", tags(), 1)
	r.sim.ClearFaults()
	check.Error(t, wait.Receive(t, "the request is answered once nothing holds it", posted), "")
	check.Equal(t, "tags after that", tags(), 2)

	for name, bad := range map[string]ovirtsim.Fault{
		"a path that is no expression": {Path: "(", Status: 500},
		"an unknown action":            {Action: "explode"},
		"an unknown guest fault":       {Guest: "explode"},
		"nothing":                      {Path: "x"},
		"a probability of two":         {Status: 500, Probability: 2},
		"guest and status":             {Guest: "no-agent", Status: 500},
		"a negative count":             {Status: 500, Count: -1},
		"no HTTP status":               {Status: 9},
	} {
		if err := r.sim.Inject(bad); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestGuestsGoWrong(t *testing.T) {
	guest := &stubGuest{}
	r := newRawWith(t, ovirtsim.Options{Timings: timings, Guest: guest, Faults: []ovirtsim.Fault{
		{Guest: "never-boots", VM: "^never"},
		{Guest: "lost-boot", VM: "^lost", Count: 1},
		{Guest: "ignores-shutdown", VM: "^deaf"},
		{Guest: "crashes", VM: "^crash"},
	}})
	never, lost, deaf, crash := r.newVM("never", ""), r.newVM("lost", ""), r.newVM("deaf", ""), r.newVM("crash", "")
	r.ok("POST", "/api/vms/"+never+"/start", "{}")
	r.until("/api/vms/"+never, "status", "powering_up")
	r.ok("POST", "/api/vms/"+lost+"/start", "{}")
	r.until("/api/vms/"+lost, "status", "powering_up")
	r.until("/api/vms/"+lost, "status", "down")
	r.start(lost) // the fault affected only one start
	r.start(deaf)
	r.ok("POST", "/api/vms/"+deaf+"/shutdown", "{}")
	r.until("/api/vms/"+deaf, "status", "powering_down")
	r.until("/api/vms/"+deaf, "status", "up")
	if boots := r.sim.ListVMs()[1].Boots; boots != 1 {
		t.Errorf("a VM that ignored a shutdown booted %d times", boots)
	}

	r.ok("POST", "/api/vms/"+deaf+"/stop", "{}")
	r.until("/api/vms/"+deaf, "status", "down")
	r.ok("POST", "/api/vms/"+crash+"/start", "{}")

	r.until("/api/vms/"+crash, "status", "up")
	r.until("/api/vms/"+crash, "status", "down")
	check.Equal(t, "boots of the VM that crashes", r.sim.ListVMs()[0].Boots, 1)
	if got := r.ok("GET", "/api/vms/"+never, "").at("status"); got != "powering_up" {
		t.Errorf("the VM that never boots is %s", got)
	}

	r.ok("POST", "/api/vms/"+never+"/stop", "{}")
	r.until("/api/vms/"+never, "status", "down")
}

func TestDisksHaveShapesSizesAndPhases(t *testing.T) {
	inventory := ovirtsim.DefaultInventory()
	dc := &inventory.DataCenters[0]
	dc.StorageDomains = append(dc.StorageDomains, ovirtsim.StorageDomain{Name: "block", Type: "iscsi", Size: 100 << 30})
	r := newRawWith(t, ovirtsim.Options{Timings: timings, Inventory: inventory})
	file := r.id("storagedomains", "storage_domain", "olvm-data")
	block := r.id("storagedomains", "storage_domain", "block")
	body := func(format, sparse, domain string, gigabytes int) string {
		return fmt.Sprintf(
			`{"alias":"d","format":%q,"sparse":%q,"provisioned_size":"%d","storage_domains":{"storage_domain":[{"id":%q}]}}`,
			format,
			sparse,
			gigabytes<<30,
			domain,
		)
	}
	r.refused(409, "(RAW Sparse backup-None) is incompatible with the storage domain type", "POST", "/api/disks",
		body("raw", "true", block, 1))
	r.refused(409, "(COW Preallocated backup-None) is incompatible", "POST", "/api/disks",
		body("cow", "false", file, 1))
	r.refused(409, "Low disk space on Storage Domain block", "POST", "/api/disks", body("raw", "false", block, 101))
	r.refused(404, "Entity not found: 6a0d7b86-6c0a-4b9e-8a52-000000000000", "POST", "/api/disks",
		body("raw", "false", "6a0d7b86-6c0a-4b9e-8a52-000000000000", 1))
	r.refused(400, "Disk [provisionedSize] required for add", "POST", "/api/disks", `{"alias":"d","format":"cow"}`)
	r.refused(400, "Disk [provisionedSize, format] required for add", "POST", "/api/disks", `{"alias":"d"}`)
	r.refused(400, "Storage Domain hasn't been specified", "POST", "/api/disks",
		`{"format":"raw","provisioned_size":"1"}`)

	id := r.ok("POST", "/api/disks", body("raw", "false", block, 60)).at("id")
	path := "/api/disks/" + id
	r.refused(409, "The following disks are locked", "PUT", path, `{"alias":"e"}`)
	r.refused(409, "The following disks are locked", "DELETE", path, "")
	r.until(path, "status", "ok")
	domain := r.ok("GET", "/api/storagedomains/"+block, "")
	if domain.at("available") != fmt.Sprint(40<<30) || domain.at("used") != fmt.Sprint(60<<30) {
		t.Errorf("space: %v", domain)
	}

	r.refused(400, "must be larger", "PUT", path, fmt.Sprintf(`{"provisioned_size":"%d"}`, 59<<30))
	r.refused(409, "Low disk space", "PUT", path, fmt.Sprintf(`{"provisioned_size":"%d"}`, 200<<30))

	// The VM stays unchanged.
	d := r.ok("PUT", path, fmt.Sprintf(`{"provisioned_size":"%d","alias":"e"}`, 70<<30))
	if d.at("status") != "ok" || d.at("alias") != "d" {
		t.Errorf("resize: %v", d)
	}

	r.until(path, "status", "ok")

	vm, other := r.newVM("a", ""), r.newVM("b", "")
	attachments := "/api/vms/" + vm + "/diskattachments"
	attach := fmt.Sprintf(`{"active":"true","bootable":"false","interface":"virtio_scsi","disk":{"id":%q}}`, id)
	r.ok("POST", attachments, attach)
	r.refused(409, "already attached", "POST", attachments, attach)
	r.refused(
		409, "The disk is not shareable and is already attached to a VM", "POST", "/api/vms/"+other+"/diskattachments",
		attach,
	)
	r.refused(409, "already marked as boot", "PUT", attachments+"/"+id, `{"bootable":true}`)
	r.refused(
		400, "Interface is required, Attribute: diskVmElement.diskInterface", "POST", attachments, fmt.Sprintf(
			`{"disk":{"id":%q}}`, id,
		),
	)
	r.start(vm)
	r.refused(409, "At least one of the VMs is not down", "DELETE", path, "")
	r.ok("DELETE", attachments+"/"+id, "") // like CSI while the VM runs
	r.ok("GET", path, "")
	inline := r.ok(
		"POST",
		attachments,
		fmt.Sprintf(
			`{"bootable":"false","interface":"virtio","disk":{"name":"data","format":"cow","provisioned_size":"%d",`+
				`"storage_domains":{"storage_domain":[{"id":%q}]}}}`,
			1<<30, file,
		),
	)
	r.until("/api/disks/"+inline.at("id"), "status", "ok")
	r.ok("POST", "/api/vms/"+vm+"/stop", "{}")
	r.until("/api/vms/"+vm, "status", "down")
	r.ok("DELETE", path, "")
	r.gone(path)
	r.ok("DELETE", "/api/vms/"+vm, "")
	r.gone("/api/vms/" + vm)
	r.gone("/api/disks/" + inline.at("id"))

	keep := r.newVM("keep", "")
	disk := r.ok("GET", "/api/vms/"+keep+"/diskattachments", "").at("disk_attachment", 0, "id")
	r.refused(409, "VM is based from template", "DELETE", "/api/vms/"+keep+"?detach_only=true", "")
	own := r.ok("POST", "/api/vms?clone=true",
		`{"name":"own","cluster":{"name":"Default"},"template":{"name":"ol9-k8s"}}`).
		at("id")
	r.until("/api/vms/"+own, "status", "down")
	kept := r.ok("GET", "/api/vms/"+own+"/diskattachments", "").at("disk_attachment", 0, "id")
	r.ok("DELETE", "/api/vms/"+own+"?detach_only=true", "")
	r.gone("/api/vms/" + own)

	for _, id := range []string{disk, kept} {
		r.ok("GET", "/api/disks/"+id, "")
	}
}

func TestVMsAreLinkedToTheirTemplateOrCopies(t *testing.T) {
	r := newRaw(t)
	template := r.id("templates", "template", "ol9-k8s")
	origin := r.ok("GET", "/api/templates/"+template+"/diskattachments", "").at("disk_attachment", 0, "id")
	second := r.id("storagedomains", "storage_domain", "olvm-data-2")
	override := func(disk string) string {
		return fmt.Sprintf(`"disk_attachments":{"disk_attachment":[{"disk":{"id":%q,%s}}]}`, origin, disk)
	}
	disk := func(vm string) doc {
		return r.ok(
			"GET",
			"/api/disks/"+r.ok("GET", "/api/vms/"+vm+"/diskattachments", "").at("disk_attachment", 0, "id"),
			"",
		)
	}
	linked := r.newVM("linked", "")
	if vm := r.ok("GET", "/api/vms/"+linked, ""); vm.at("template", "id") != template {
		t.Errorf("a linked VM depends on %v", vm["template"])
	}

	create := func(query, name, extra string) doc {
		made := r.ok(
			"POST",
			"/api/vms"+query,
			fmt.Sprintf(`{"name":%q,"cluster":{"name":"Default"},"template":{"id":%q},%s}`, name, template, extra),
		)
		r.until("/api/vms/"+made.at("id"), "status", "down")

		return r.ok("GET", "/api/vms/"+made.at("id"), "")
	}
	raw := create(
		"?clone=true",
		"raw",
		override(
			fmt.Sprintf(`"format":"raw","sparse":"false","storage_domains":{"storage_domain":[{"id":%q}]}`, second),
		),
	)
	if raw.at("template", "id") != "00000000-0000-0000-0000-000000000000" ||
		raw.at("original_template", "id") != template {
		t.Errorf("a copy depends on %v", raw["template"])
	}

	d := disk(raw.at("id"))
	check.Equal(t, `d.at("format")`, d.at("format"), "raw")
	check.Equal(t, `d.at("sparse")`, d.at("sparse"), "false")
	check.Equal(
		t, `d.at("storage_domains", "storage_domain", 0, "id")`, d.at("storage_domains", "storage_domain", 0, "id"),
		second,
	)
	check.Equal(t, `d.at("total_size")`, d.at("total_size"), fmt.Sprint(20<<30))

	for name, test := range map[string]struct{ query, extra, detail string }{
		"a linked disk elsewhere": {"",
			override(fmt.Sprintf(`"storage_domains":{"storage_domain":[{"id":%q}]}`, second)),
			"does not contain the VM Template"},
		"a linked raw disk": {"", override(`"format":"raw"`), "can not be defined as Raw"},
		"a disk of another template": {"",
			`"disk_attachments":{"disk_attachment":[{"disk":{"id":"6a0d7b86-6c0a-4b9e-8a52-000000000000"}}]}`, ""},
		"a disk that cannot be so shaped": {"?clone=true", override(`"format":"cow","sparse":"false"`), "incompatible"},
	} {
		status, out := r.do("POST", "/api/vms"+test.query,
			fmt.Sprintf(`{"name":"x","cluster":{"name":"Default"},"template":{"id":%q},%s}`, template, test.extra))
		if status < 400 || !strings.Contains(out.at("detail"), test.detail) {
			t.Errorf("%s: %d %v", name, status, out)
		}
	}

	r.refused(409, "Template is being used by the following VMs: linked", "DELETE", "/api/templates/"+template, "")

	made := r.ok("POST", "/api/templates", fmt.Sprintf(`{"name":"golden","description":"<d>","vm":{"id":%q}}`, linked))
	path := "/api/templates/" + made.at("id")
	if made.at("status") != "locked" || made.at("description") != "<d>" {
		t.Errorf("a new template: %v", made)
	}

	r.refused(409, "locked", "POST", "/api/vms/"+linked+"/start", "{}")
	r.refused(409, "is being created", "POST", "/api/vms",
		fmt.Sprintf(`{"name":"x","cluster":{"name":"Default"},"template":{"id":%q}}`, made.at("id")))
	r.until(path, "status", "ok")
	r.until("/api/vms/"+linked, "status", "down")
	r.refused(409, "already in use", "POST", "/api/templates", fmt.Sprintf(`{"name":"golden","vm":{"id":%q}}`, linked))
	next := r.ok(
		"POST",
		"/api/templates",
		fmt.Sprintf(
			`{"name":"golden","version":{"base_template":{"id":%q},"version_name":"2"},"vm":{"id":%q}}`,
			made.at("id"),
			linked,
		),
	)
	if next.at("version", "version_number") != "2" || next.at("version", "base_template", "id") != made.at("id") {
		t.Errorf("the second version: %v", next)
	}

	r.until("/api/templates/"+next.at("id"), "status", "ok")
	r.refused(409, "base of version 2", "DELETE", path, "")
	r.ok("DELETE", "/api/templates/"+next.at("id"), "")
	r.gone("/api/templates/" + next.at("id"))
	r.ok("DELETE", path, "")
	r.gone(path)
}

// qcow2 returns the header of an image with the given virtual size, and some content.
func qcow2(virtual uint64, size int) []byte {
	image := bytes.Repeat([]byte("data"), size/4)
	copy(image, "QFI\xfb")
	binary.BigEndian.PutUint32(image[4:], 3)
	binary.BigEndian.PutUint64(image[8:], 0)
	binary.BigEndian.PutUint64(image[24:], virtual)

	return image
}

func TestImagesAreUploadedInPieces(t *testing.T) {
	r := newRaw(t)
	domain := r.id("storagedomains", "storage_domain", "olvm-data")
	begin := func(extra string) (disk, transfer, url string) {
		disk = r.ok("POST", "/api/disks", fmt.Sprintf(`{"alias":"image","format":"cow","provisioned_size":"%d","storage_domains":{"storage_domain":[{"id":%q}]}}`, 1<<30, domain)).
			at("id")
		r.until("/api/disks/"+disk, "status", "ok")
		transfer = r.ok("POST", "/api/imagetransfers",
			fmt.Sprintf(`{"disk":{"id":%q},"direction":"upload","format":"cow"%s}`, disk, extra)).
			at("id")
		r.until("/api/imagetransfers/"+transfer, "phase", "transferring")

		return disk, transfer, r.ok("GET", "/api/imagetransfers/"+transfer, "").at("transfer_url")
	}
	put := func(url string, header string, body []byte) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}

		if header != "" {
			request.Header.Set("Content-Range", header)
		}

		response, err := r.http.Do(request)
		if err != nil {
			t.Fatal(err)
		}

		_ = response.Body.Close()

		return response.StatusCode
	}
	disk, transfer, url := begin("")
	path := "/api/imagetransfers/" + transfer
	image := qcow2(1<<30, 3<<20)
	half := len(image) / 2
	if status := put(url+"?flush=y", fmt.Sprintf("bytes 0-%d/*", half-1), image[:half]); status != 200 {
		t.Fatalf("the first half: %d", status)
	}

	if status := put(url+"?flush=y", fmt.Sprintf("bytes 0-%d/*", half-1), image[:half]); status != 200 {
		t.Fatalf("the first half again: %d", status)
	}

	if got := r.ok("GET", path, "").at("transferred"); got != fmt.Sprint(half) {
		t.Errorf("transferred %s, want %d", got, half)
	}

	status := put(url+"?close=y", fmt.Sprintf("bytes %d-%d/%d", half, len(image)-1, len(image)), image[half:])
	if status != 200 {
		t.Fatalf("the second half: %d", status)
	}

	for name, test := range map[string]struct {
		url, header string
		status      int
	}{
		"an unknown ticket":                 {strings.TrimSuffix(url, url[len(url)-3:]) + "xyz", "", 403},
		"a range that is none":              {url, "bytes some", 400},
		"a range whose end nobody looks at": {url, fmt.Sprintf("bytes %d-%d/*", half, half+10), 200},
		"a range beyond the disk":           {url, fmt.Sprintf("bytes %d-%d/*", 2<<30, 2<<30+3), 416},
	} {
		if status := put(test.url, test.header, image[half:half+4]); status != test.status {
			t.Errorf("%s: %d, want %d", name, status, test.status)
		}
	}

	r.ok("POST", path+"/finalize", "")
	r.until(path, "phase", "finished_success")
	r.until("/api/disks/"+disk, "status", "ok")
	if got := r.sim.ListDisks()[0].SHA256; got != fmt.Sprintf("%x", sha256.Sum256(image)) {
		t.Errorf("the disk holds %s", got)
	}

	if status := put(url, "", []byte("four")); status != 403 {
		t.Errorf("after the end: %d", status)
	}

	disk, transfer, url = begin("")
	put(url, "", []byte("this is not an image of that format"))
	r.ok("POST", "/api/imagetransfers/"+transfer+"/finalize", "{}")
	r.until("/api/imagetransfers/"+transfer, "phase", "finished_failure")
	r.gone("/api/disks/" + disk)

	disk, transfer, _ = begin("")
	r.ok("POST", "/api/imagetransfers/"+transfer+"/cancel", "")
	r.until("/api/imagetransfers/"+transfer, "phase", "finished_failure") // finished_cleanup is not the final phase
	r.gone("/api/disks/" + disk)

	disk, transfer, _ = begin(`,"inactivity_timeout":"1","timeout_policy":"cancel"`)
	r.until("/api/imagetransfers/"+transfer, "phase", "finished_failure")
	r.gone("/api/disks/" + disk)

	disk, transfer, _ = begin(`,"inactivity_timeout":"1"`)
	r.until("/api/imagetransfers/"+transfer, "phase", "paused_system")
	r.ok("POST", "/api/imagetransfers/"+transfer+"/resume", "{}")
	r.until("/api/imagetransfers/"+transfer, "phase", "transferring")
	r.refused(409, "Disk image is being transferred", "DELETE", "/api/disks/"+disk, "")
}

func TestManyClientsAtOnceGetOneVMPerName(t *testing.T) {
	r := newRawWith(t, ovirtsim.Options{Timings: timings, Guest: &stubGuest{}})
	var clients sync.WaitGroup
	var made, conflicts sync.Map

	for i := range 8 {
		clients.Go(func() {
			mine := connect(t, r.sim, r.clock)
			for n := range 10 {
				status, out := mine.do("POST", "/api/vms",
					fmt.Sprintf(`{"name":"vm-%d","cluster":{"name":"Default"},"template":{"name":"ol9-k8s"}}`, n))
				switch status {
				case 202:
					made.Store(out.at("id"), i)
				case 409:
					conflicts.Store(fmt.Sprint(i, n), true)
				default:
					t.Errorf("%d %v", status, out)
				}

				mine.ok("GET", "/api/vms?follow=disk_attachments.disk,nics", "")
				_ = r.sim.DescribeSite()
			}
		})
	}

	clients.Wait()
	count := func(m *sync.Map) (n int) {
		m.Range(func(any, any) bool { n++; return true })
		return n
	}
	check.Equal(t, "count(&made)", count(&made), 10)
	check.Equal(t, "count(&conflicts)", count(&conflicts), 70)
	check.Equal(t, "r.sim.Summary().VMs", r.sim.Summarize().VMs, 10)
}

func TestDevicesThatHostsDoNotHave(t *testing.T) {
	r := newRaw(t)
	id := r.newVM("a", "")
	path := "/api/vms/" + id

	node := r.ok("POST", path+"/numanodes", `{"index":"0","memory":"512","cpu":{"cores":{"core":[{"index":"0"}]}}}`)
	r.refused(400, "The index 0 is in use", "POST", path+"/numanodes", `{"index":"0","memory":"512"}`)
	r.refused(400, "does not have NUMA nodes", "POST", path+"/numanodes",
		`{"index":"1","numa_node_pins":{"numa_node_pin":[{"index":"0"}]}}`)
	if nodes := r.ok("GET", path+"/numanodes", ""); nodes.at("vm_numa_node", 0, "memory") != "512" {
		t.Errorf("nodes: %v", nodes)
	}

	r.ok("DELETE", path+"/numanodes/"+node.at("id"), "")

	device := r.ok(
		"POST",
		path+"/mediateddevices",
		`{"spec_params":{"property":[{"name":"mdevType","value":"nvidia-11"}]}}`,
	)
	r.refused(409, "no host that satisfies", "POST", path+"/start", "{}")
	r.refused(403, "not authorized", "PUT", path+"/mediateddevices/"+device.at("id"), "{}")
	r.ok("DELETE", path+"/mediateddevices/"+device.at("id"), "")

	r.refused(409, "VM must be pinned to a host", "POST", path+"/hostdevices", `{"name":"pci_0000_00_00_0"}`)
	r.refused(400, "Parameters 'device.id' or 'device.name' are mandatory", "POST", path+"/hostdevices", `{}`)
	r.start(id)
}

func TestDevicesOfHosts(t *testing.T) {
	inventory := ovirtsim.DefaultInventory()
	host := &inventory.DataCenters[0].Clusters[0].Hosts[0]
	host.Devices, host.MediatedDeviceTypes = []string{"pci_0000_3b_00_0"}, []string{"nvidia-63"}
	r := newRawWith(t, ovirtsim.Options{Timings: timings, Inventory: inventory})

	id := r.newVM("a", "")
	path := "/api/vms/" + id
	body := `{"spec_params":{"property":[{"name":"mdevType","value":"nvidia-63"}]}}`
	r.ok("POST", path+"/mediateddevices", body)
	r.start(id)
	on := r.ok("GET", path, "").at("host", "id")
	check.Equal(t, "the host with the device", r.ok("GET", "/api/hosts/"+on, "").at("name"), host.Name)
	devices := r.ok("GET", "/api/hosts/"+on+"/devices", "")
	check.Equal(t, "its device", devices.at("host_device", 0, "name"), "pci_0000_3b_00_0")

	pinned := r.newVM("b", fmt.Sprintf(`"placement_policy":{"affinity":"pinned","hosts":{"host":[{"id":%q}]}}`, on))
	path = "/api/vms/" + pinned + "/hostdevices"
	r.refused(400, "One or more of specified host devices not found", "POST", path, `{"name":"pci_0000_00_00_0"}`)
	made := r.ok("POST", path, `{"name":"pci_0000_3b_00_0"}`)
	check.Equal(t, "the VM's device", r.ok("GET", path, "").at("host_device", 0, "name"), "pci_0000_3b_00_0")
	r.ok("DELETE", path+"/"+made.at("id"), "")
	check.Equal(t, "a device that was taken away", r.ok("GET", path, "").at("host_device", 0, "name"), "")
}

// TestATPMNeedsUEFI requests a TPM with each firmware, and with an operating system that does not support a TPM.
func TestATPMNeedsUEFI(t *testing.T) {
	r := newRaw(t)
	cluster := r.ok("GET", "/api/clusters", "").at("cluster", 0, "id")

	for bios, legal := range map[string]bool{
		"q35_ovmf": true, "q35_secure_boot": true, "q35_sea_bios": false, "i440fx_sea_bios": false,
	} {
		body := fmt.Sprintf(`{"name":%q,"cluster":{"id":%q},"template":{"name":"Blank"},"os":{"type":"rhel_9x64"},`+
			`"bios":{"type":%q},"tpm_enabled":"true"}`, bios, cluster, bios)
		if legal {
			r.ok("POST", "/api/vms", body)
		} else {
			r.refused(400, "UEFI firmware is not enabled", "POST", "/api/vms", body)
		}
	}
}

// TestAVMReadsAsUpUntilItsHostTellsThatItEnded stops a VM. Until the VM ends, its host rejects a second stop: S1.
func TestAVMReadsAsUpUntilItsHostTellsThatItEnded(t *testing.T) {
	r := newRaw(t)
	id := r.newVM("a", "")
	r.start(id)
	path := "/api/vms/" + id
	r.until(path, "status", "up")

	r.ok("POST", path+"/stop", "{}")
	if seen := r.ok("GET", path, "").at("status"); seen != "up" {
		t.Errorf("the VM is %s", seen)
	}

	r.refused(400, "Desktop does not exist", "POST", path+"/stop", "{}")
	r.until(path, "status", "down")
	r.ok("POST", path+"/stop", "{}") // stopping a stopped VM is not an error
}

// TestALeaseMayNameItsStorageDomain requests leases by name, like Ansible.
func TestALeaseMayNameItsStorageDomain(t *testing.T) {
	r := newRaw(t)
	body := func(name, available, domain string) string {
		return fmt.Sprintf(
			`{"name":%q,"cluster":{"name":"Default"},"template":{"name":"Blank"},"high_availability":{"enabled":%q},"lease":{"storage_domain":{"name":%q}}}`,
			name, available, domain,
		)
	}
	r.refused(409, "A VM lease was defined but high availability option is set to false.", "POST", "/api/vms",
		body("a", "false", "olvm-data"))
	r.refused(400, "Storage Domain doesn't exist.", "POST", "/api/vms", body("a", "true", "none"))
	r.ok("POST", "/api/vms", body("a", "true", "olvm-data"))
}

// TestTheInstanceOnADriveIsThatOfTheRun reboots a VM. The guest must not take itself for a new machine. Then it starts
// the VM again, with and without a drive.
func TestTheInstanceOnADriveIsThatOfTheRun(t *testing.T) {
	guest := &stubGuest{}
	r := newRawWith(t, ovirtsim.Options{Timings: timings, Guest: guest})
	id := r.newVM("vm", `"initialization":{"host_name":"one"}`)
	path := "/api/vms/" + id
	r.start(id)
	r.ok("POST", path+"/reboot", "{}")
	r.until(path, "status", "up")

	for _, start := range []string{`{"use_initialization":true}`, "{}"} {
		r.stop(id)
		r.ok("POST", path+"/start", start)
		r.until(path, "status", "up")
	}

	seen := func() []string {
		guest.mu.Lock()
		defer guest.mu.Unlock()

		return slices.Clone(guest.instances)
	}
	wait.Until(t, "the guest has started four times", func() bool { return len(seen()) >= 4 })

	got := seen()
	if len(got) != 4 || got[0] == "" || got[1] != got[0] || got[2] == "" || got[2] == got[0] || got[3] != "" {
		t.Errorf("the instances of a start, a reboot, a start with a drive and one without are %q", got)
	}
}

// endingGuest ends by itself when the test commands it, and powers itself off on request.
type endingGuest struct {
	stubGuest
	end chan error
}

func (g *endingGuest) Boot(
	ctx context.Context, machine ovirtsim.GuestVM, ready func(ovirtsim.AgentReport),
) error {
	ready(ovirtsim.AgentReport{Interfaces: []ovirtsim.ReportedInterface{
		{Name: "enp1s0", Addresses: []string{"10.0.0.10"}},
	}})

	select {
	case err := <-g.end:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (g *endingGuest) Shutdown(string) bool {
	g.end <- ovirtsim.ErrPoweredOff
	return true
}

// TestGuestsThatEndByThemselves powers off guests from inside, crashes them, and asks them to shut down.
func TestGuestsThatEndByThemselves(t *testing.T) {
	for name, end := range map[string]func(r *raw, g *endingGuest, id string){
		"powered off inside": func(_ *raw, g *endingGuest, _ string) { g.end <- ovirtsim.ErrPoweredOff },
		"crashed":            func(_ *raw, g *endingGuest, _ string) { g.end <- ovirtsim.ErrCrashed },
		"asked to shut down": func(r *raw, _ *endingGuest, id string) {
			r.ok("POST", "/api/vms/"+id+"/shutdown", "{}")
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := &endingGuest{end: make(chan error, 1)}
			r := newRawWith(t, ovirtsim.Options{Timings: timings, Guest: g})
			id := r.newVM("vm", "")
			r.start(id)
			end(r, g, id)
			r.until("/api/vms/"+id, "status", "down")
			r.start(id)
		})
	}
}
