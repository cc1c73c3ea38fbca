package ovirtsim_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// These tests cover the findings of a review.

func TestNoRequestStopsTheEngine(t *testing.T) {
	folder := t.TempDir()
	r := newRawWith(t, ovirtsim.Options{Timings: timings, StateFolder: folder})
	domain := r.id("storagedomains", "storage_domain", "olvm-data")
	disk := func(id string) string {
		return fmt.Sprintf(
			`{"id":%q,"format":"raw","provisioned_size":"1048576","storage_domains":{"storage_domain":[{"id":%q}]}}`,
			id,
			domain,
		)
	}
	r.refused(400, "Invalid UUID string", "POST", "/api/disks", disk("../../outside"))
	r.refused(400, "Invalid UUID string", "POST", "/api/disks", disk("x"))

	for _, search := range []string{"page%209223372036854775807",
		strings.TrimSuffix(strings.Repeat("(a%20or%20b)%20and%20", 20), "%20and%20")} {
		if found := r.ok("GET", "/api/vms?search="+search, ""); len(found) != 0 {
			t.Errorf("%s found %v", search, found)
		}
	}

	r.refused(
		400, "apidoc", "POST", "/api/vms",
		`{"name":"a","cluster":{"name":"Default"},"template":{"name":"ol9-k8s"},"bios":{"x y<":"1"}}`,
	)
	r.refused(400, "apidoc", "POST", "/api/vms", strings.Repeat(`{"vm":`, 5000)+"1"+strings.Repeat("}", 5000))
	status, body := r.call("POST", "/api/vms", "application/xml",
		strings.Repeat("<vm>", 5000)+strings.Repeat("</vm>", 5000))
	if status != 400 || !strings.Contains(body, "apidoc") {
		t.Errorf("deep XML: %d %s", status, body)
	}

	for _, path := range []string{"/api/vms", "/api/disks", "/api/templates", "/api/tags", "/api/imagetransfers",
		"/api/affinitylabels"} {
		if status, _ := r.do("POST", path, ""); status != 400 {
			t.Errorf("POST %s without a body: %d", path, status)
		}
	}

	if _, err := os.Stat(filepath.Join(folder, "..", "outside.img")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a disk was written outside of its folder")
	}

	r.ok("GET", "/api", "") // the engine still runs
}

func TestADHCPRangeAtTheEndOfTheAddressesEnds(t *testing.T) {
	inventory := ovirtsim.DefaultInventory()
	inventory.DataCenters[0].Networks[1].DHCP = &ovirtsim.DHCP{
		First: "255.255.255.254",
		Last:  "255.255.255.255",
		Bits:  24,
	}
	r := newRawWith(t, ovirtsim.Options{Timings: timings, Guest: &stubGuest{}, Inventory: inventory})

	profile := r.id("vnicprofiles", "vnic_profile", "kvm-vlan")
	for i := range 3 {
		id := r.newVM(fmt.Sprint("vm-", i), "")
		r.ok("POST", "/api/vms/"+id+"/nics", fmt.Sprintf(`{"name":"nic1","vnic_profile":{"id":%q}}`, profile))
		r.start(id)
	}
}

func TestRefusedRequestsChangeNothing(t *testing.T) {
	inventory := ovirtsim.DefaultInventory()
	inventory.DataCenters[0].StorageDomains = append(inventory.DataCenters[0].StorageDomains, ovirtsim.StorageDomain{
		Name: "small",
		Size: 6 << 30,
	})
	inventory.DataCenters[0].Templates = append(inventory.DataCenters[0].Templates, ovirtsim.Template{
		Name: "two-disks", Cluster: "Default", Disks: []ovirtsim.TemplateDisk{{Size: 4 << 30}, {Size: 4 << 30}},
	})
	r := newRawWith(t, ovirtsim.Options{Timings: timings, Inventory: inventory})
	id := r.newVM("a", "")
	before := r.sim.Summarize()
	r.ok(
		"POST",
		"/api/vms/"+id+"/diskattachments",
		fmt.Sprintf(
			`{"bootable":"false","interface":"virtio","disk":{"name":"data","format":"cow","provisioned_size":"%d",`+
				`"storage_domains":{"storage_domain":[{"id":%q}]}}}`,
			1<<30, r.id("storagedomains", "storage_domain", "small"),
		),
	)
	r.refused(409, "disks are locked: data", "POST", "/api/templates", fmt.Sprintf(`{"name":"t","vm":{"id":%q}}`, id))
	if after := r.sim.Summarize(); after.Templates != before.Templates || after.Disks != before.Disks+1 {
		t.Errorf("a template that was refused left something: %+v", after)
	}

	r.refused(
		400, "The relevant Template doesn't exist", "POST", "/api/templates",
		fmt.Sprintf(
			`{"name":"t","version":{"base_template":{"id":"6a0d7b86-6c0a-4b9e-8a52-000000000000"}},"vm":{"id":%q}}`,
			id,
		),
	)

	memory := r.ok("GET", "/api/vms/"+id, "").at("memory")
	r.refused(400, "special characters", "PUT", "/api/vms/"+id,
		fmt.Sprintf(`{"instance_type":{"id":%q},"name":"a b"}`, r.id("instancetypes", "instance_type", "XLarge")))
	if got := r.ok("GET", "/api/vms/"+id, "").at("memory"); got != memory {
		t.Errorf("a refused change resized the VM from %s to %s", memory, got)
	}

	r.refused(500, "Internal Server Error", "PUT", "/api/vms/"+id, `{"instance_type":{"name":"Gigantic"}}`)
	vm := r.ok(
		"PUT",
		"/api/vms/"+id,
		fmt.Sprintf(`{"instance_type":{"id":%q}}`, r.id("instancetypes", "instance_type", "XLarge")),
	)
	check.Equal(t, `vm.at("memory")`, vm.at("memory"), fmt.Sprint(16<<30))
	check.Equal(t, `vm.at("cpu", "topology", "sockets")`, vm.at("cpu", "topology", "sockets"), "4")
	if vm.at("memory_policy", "max") == "0" {
		t.Errorf("vm.at(\"memory_policy\", \"max\") == \"0\": %v", vm.at("memory_policy", "max"))
	}

	template := r.id("templates", "template", "two-disks")
	small := r.id("storagedomains", "storage_domain", "small")

	overrides := []string{}
	for i := range 2 {
		overrides = append(
			overrides,
			fmt.Sprintf(
				`{"disk":{"id":%q,"format":"raw","sparse":"false","storage_domains":{"storage_domain":[{"id":%q}]}}}`,
				r.ok("GET", "/api/templates/"+template+"/diskattachments", "").at("disk_attachment", i, "id"),
				small,
			),
		)
	}

	r.refused(
		409, "Low disk space on Storage Domain small", "POST", "/api/vms?clone=true",
		fmt.Sprintf(
			`{"name":"b","cluster":{"name":"Default"},"template":{"id":%q},"disk_attachments":{"disk_attachment":[%s]}}`,
			template,
			strings.Join(overrides, ","),
		),
	)

	r.refused(409, "already in use", "PUT", "/api/templates/"+template, `{"name":"ol9-k8s"}`)
	r.refused(400, "special characters", "PUT", "/api/templates/"+template, `{"name":""}`)

	path := r.group("g", `"vms_rule":{"enabled":true,"enforcing":true,"positive":true}`, id)
	g := r.ok("PUT", path, `{"vms_rule":{"enforcing":"false"}}`)
	check.Equal(t, `g.at("vms_rule", "positive")`, g.at("vms_rule", "positive"), "true")
	check.Equal(t, `g.at("vms_rule", "enforcing")`, g.at("vms_rule", "enforcing"), "false")
	check.Equal(t, `g.at("vms_rule", "enabled")`, g.at("vms_rule", "enabled"), "true")

	big := r.newVM("big", fmt.Sprintf(`"memory":"%d","initialization":{"custom_script":"kept"}`, 65<<30))
	r.refused(409, "There is no host", "POST", "/api/vms/"+big+"/start",
		`{"vm":{"initialization":{"custom_script":"once"}}}`)
	if got := r.ok("GET", "/api/vms/"+big, "").at("initialization", "custom_script"); got != "kept" {
		t.Errorf("a start that was refused left user data %q", got)
	}
}

func TestVMsDoNotGetStuck(t *testing.T) {
	guest := &stubGuest{}
	r := newRawWith(t, ovirtsim.Options{
		Timings: timings,
		Guest:   guest,
		Faults:  []ovirtsim.Fault{{Guest: "ignores-shutdown", VM: "^deaf"}},
	})
	other := func(host string) string {
		for _, name := range []string{"host-1", "host-2"} {
			if name != host {
				return name
			}
		}

		return ""
	}
	deaf := r.newVM("deaf", "")
	r.ok("POST", "/api/vms/"+deaf+"/start", "{}")
	r.until("/api/vms/"+deaf, "status", "powering_up")
	r.ok("POST", "/api/vms/"+deaf+"/shutdown", "{}") // no guest runs yet that could ignore the request
	r.until("/api/vms/"+deaf, "status", "down")

	a := r.newVM("a", "")
	r.start(a)
	from := r.hostOf(a)
	to := other(from)
	r.ok("POST", "/api/vms/"+a+"/migrate", fmt.Sprintf(`{"host":{"name":%q}}`, to))
	if err := r.sim.FailHost(to); err != nil {
		t.Fatal(err)
	}

	r.until("/api/vms/"+a, "status", "up")
	if at := r.hostOf(a); at != from {
		t.Errorf("a VM that was moving to a host that failed is on %s", at)
	}

	if err := r.sim.RecoverHost(to); err != nil {
		t.Fatal(err)
	}

	if err := r.sim.FailHost(from); err != nil {
		t.Fatal(err)
	}

	r.ok("POST", "/api/hosts/"+r.id("hosts", "host", from)+"/activate", "{}")
	r.until("/api/vms/"+a, "status", "down") // the VM's status does not stay unknown

	r.ok("POST", "/api/vms/"+a+"/start", "{}")
	from = r.hostOf(a)
	r.ok("POST", "/api/hosts/"+r.id("hosts", "host", from)+"/deactivate", "{}") // while the VM starts
	r.until("/api/hosts/"+r.id("hosts", "host", from), "status", "maintenance")
	r.until("/api/vms/"+a, "status", "up")
}

func TestARestartInTheMiddleOfThingsGoesOn(t *testing.T) {
	folder := t.TempDir()
	clock := ovirtsim.NewManualClock() // the engine stops before operations in progress complete
	inventory := ovirtsim.DefaultInventory()
	inventory.Version = "4.4.10"
	inventory.DataCenters[0].Networks[1].DHCP = &ovirtsim.DHCP{First: "10.0.0.10", Last: "10.0.0.20", Bits: 24}
	first, err := ovirtsim.New(ovirtsim.Options{
		Timings:     timings,
		Clock:       clock,
		StateFolder: folder,
		Inventory:   inventory,
		Guest:       &stubGuest{},
		Password:    "p",
	})
	if err != nil {
		t.Fatal(err)
	}

	r := connect(t, first, clock)
	vm := r.newVM(
		"a",
		`"initialization":{"nic_configurations":{"nic_configuration":[{"name":"enp1s0","on_boot":"true"},{"name":"enp2s0","on_boot":"true"}]}}`,
	)
	r.ok(
		"POST",
		"/api/vms/"+vm+"/nics",
		fmt.Sprintf(`{"name":"nic1","vnic_profile":{"id":%q}}`, r.id("vnicprofiles", "vnic_profile", "kvm-vlan")),
	)
	r.start(vm)
	domain := r.id("storagedomains", "storage_domain", "olvm-data")
	disk := r.ok("POST", "/api/disks", fmt.Sprintf(`{"format":"raw","provisioned_size":"%d","storage_domains":{"storage_domain":[{"id":%q}]}}`, 1<<20, domain)).
		at("id")
	r.until("/api/disks/"+disk, "status", "ok")
	transfer := "/api/imagetransfers/" + r.ok("POST", "/api/imagetransfers", fmt.Sprintf(`{"disk":{"id":%q}}`, disk)).
		at("id")
	r.until(transfer, "phase", "transferring")
	put := func(offset int) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut,
			r.ok("GET", transfer, "").at("transfer_url"), bytes.NewReader(make([]byte, 1<<19)))
		if err != nil {
			t.Fatal(err)
		}

		request.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/*", offset, offset+1<<19-1))
		response, err := r.http.Do(request)
		if err != nil {
			t.Fatal(err)
		}

		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatal(response.Status)
		}
	}
	put(0)
	r.ok("POST", "/api/vms/"+vm+"/migrate", "{}")
	first.Close()

	guest := &stubGuest{}
	second, err := ovirtsim.New(ovirtsim.Options{
		Timings:     timings,
		Clock:       clock,
		StateFolder: folder,
		Guest:       guest,
		Password:    "p",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	r = connect(t, second, clock)
	if got := r.ok("GET", "/api", "").at("product_info", "version", "build"); got != "10" {
		t.Errorf("the version is that of the command line: build %s", got)
	}

	names := r.ok("GET", "/api/vms/"+vm, "").at("initialization", "nic_configurations", "nic_configuration", 1, "name")
	if names != "enp2s0" {
		t.Errorf("a list lost its shape: %q", names)
	}

	r.until("/api/vms/"+vm, "status", "up")
	wait.Until(t, "the VM that was migrating runs its guest after the restart", func() bool {
		devices := r.ok("GET", "/api/vms/"+vm+"/reporteddevices", "")
		return devices.at("reported_device", 0, "name") == "enp1s0"
	})
	put(1 << 19)
	if got := r.ok("GET", transfer, "").at("transferred"); got != fmt.Sprint(1<<20) {
		t.Errorf("transferred %s", got)
	}

	r.ok("POST", transfer+"/finalize", "")
	r.until("/api/disks/"+disk, "status", "ok")
}

func TestAFailedFirstStartLeavesNoHalfInventory(t *testing.T) {
	folder := t.TempDir()
	taken, err := ovirtsim.New(ovirtsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	inventory := ovirtsim.DefaultInventory()
	inventory.DataCenters[0].VMs = []ovirtsim.VM{{Name: "a", Cluster: "Default", Template: "ol9-k8s", Up: true}}
	address := strings.TrimSuffix(strings.TrimPrefix(taken.URL(), "https://"), "/ovirt-engine")
	if sim, err := ovirtsim.New(ovirtsim.Options{
		StateFolder: folder,
		Inventory:   inventory,
		Listen:      address,
	}); err == nil {
		sim.Close()
		t.Fatal("two simulators share an address")
	}

	sim, err := ovirtsim.New(ovirtsim.Options{StateFolder: folder, Inventory: inventory})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	if sim.Summarize().VMs != 1 {
		t.Errorf("the inventory's VM is missing: %+v", sim.Summarize())
	}

	inventory.DataCenters[0].VMs[0].Memory = 1 << 50
	if sim, err := ovirtsim.New(ovirtsim.Options{Inventory: inventory}); err == nil {
		sim.Close()
		t.Error("a VM that fits nowhere is accepted")
	}
}

func TestAnUploadDoesNotOutliveItsTransfer(t *testing.T) {
	r := newRaw(t)
	domain := r.id("storagedomains", "storage_domain", "olvm-data")
	disk := r.ok("POST", "/api/disks", fmt.Sprintf(`{"format":"raw","provisioned_size":"%d","storage_domains":{"storage_domain":[{"id":%q}]}}`, 64<<20, domain)).
		at("id")
	r.until("/api/disks/"+disk, "status", "ok")
	transfer := "/api/imagetransfers/" + r.ok("POST", "/api/imagetransfers", fmt.Sprintf(`{"disk":{"id":%q}}`, disk)).
		at("id")
	r.until(transfer, "phase", "transferring")
	body, feed := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut,
		r.ok("GET", transfer, "").at("transfer_url"), body)
	if err != nil {
		t.Fatal(err)
	}

	request.ContentLength = 64 << 20
	status := make(chan int, 1)
	go func() {
		response, err := r.http.Do(request)
		if err != nil {
			status <- 0 // the connection closes in the middle of the body
			return
		}

		_ = response.Body.Close()
		status <- response.StatusCode
	}()
	if _, err := feed.Write(make([]byte, 8<<20)); err != nil {
		t.Fatal(err)
	}

	r.ok("POST", transfer+"/cancel", "")
	r.until(transfer, "phase", "finished_failure")
	go func() {
		_, _ = feed.Write(make([]byte, 56<<20))
		_ = feed.Close()
	}()
	if got := <-status; got == http.StatusOK {
		t.Error("the upload was accepted to its end after the transfer was cancelled")
	}

	r.gone("/api/disks/" + disk)
}

func TestFaultsReachEverything(t *testing.T) {
	r := newRaw(t)
	if err := r.sim.Inject(ovirtsim.Fault{Path: "^/sso/", Action: "cut-after", Count: 1}); err != nil {
		t.Fatal(err)
	}

	logins := r.sim.CountLogins()
	if status, _ := r.askToken(r.sim.Username(), r.sim.Password()); status != 0 {
		t.Error("the login was answered")
	}

	if r.sim.CountLogins() != logins+1 {
		t.Error("the login had no effect")
	}

	if err := r.sim.Inject(ovirtsim.Fault{Status: 503, Action: "cut-after"}); err == nil {
		t.Error("a fault with two answers is accepted")
	}

	for _, path := range []string{"/api/operatingsystems", "/api/affinitylabels"} {
		r.ok("GET", path, "")
	}

	label := r.ok("POST", "/api/affinitylabels", `{"name":"a"}`).at("id")
	if got := r.ok("PUT", "/api/affinitylabels/"+label, `{"name":"b"}`).at("name"); got != "b" {
		t.Errorf("the label is called %s", got)
	}
}
