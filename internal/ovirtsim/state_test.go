package ovirtsim_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// everything reads all collections of the API except jobs and events.
func (r *raw) everything() string {
	r.t.Helper()
	var out strings.Builder

	for _, collection := range []string{"datacenters", "clusters", "hosts", "networks", "vnicprofiles",
		"storagedomains", "templates?follow=disk_attachments.disk,nics", "instancetypes",
		"vms?follow=nics,disk_attachments.disk,tags,graphics_consoles",
		"disks", "tags", "affinitylabels", "imagetransfers", "users", "clusters?follow=affinitygroups"} {
		content, err := json.MarshalIndent(r.ok("GET", "/api/"+collection, ""), "", " ")
		if err != nil {
			r.t.Fatal(err)
		}

		fmt.Fprintf(&out, "%s %s\n", collection, content)
	}

	return out.String()
}

func TestARestartLosesNothing(t *testing.T) {
	folder := t.TempDir()
	clock := ovirtsim.NewManualClock()
	options := ovirtsim.Options{StateFolder: folder, Timings: timings, Clock: clock, Password: "p"}
	first, err := ovirtsim.New(options)
	if err != nil {
		t.Fatal(err)
	}

	r := connect(t, first, clock)
	up := r.newVM(
		"up",
		`"initialization":{"custom_script":"#cloud-config\nx: <&>"},"bios":{"boot_menu":{"enabled":"true"}}`,
	)
	down := r.newVM("down", `"comment":"é"`)

	profile := r.id("vnicprofiles", "vnic_profile", "kvm-vlan")
	for _, id := range []string{up, down} {
		r.ok("POST", "/api/vms/"+id+"/nics", fmt.Sprintf(`{"name":"nic1","vnic_profile":{"id":%q}}`, profile))
	}

	r.start(up)
	r.group("apart", `"vms_rule":{"enabled":true,"enforcing":true,"positive":false}`, up, down)
	tag := r.ok("POST", "/api/tags", `{"name":"blue"}`).at("id")
	r.ok("POST", "/api/vms/"+up+"/tags", fmt.Sprintf(`{"id":%q}`, tag))
	gone := r.newVM("gone", "")
	itsDisk := r.ok("GET", "/api/vms/"+gone+"/diskattachments", "").at("disk_attachment", 0, "id")
	r.ok("DELETE", "/api/vms/"+gone, "")
	r.gone("/api/disks/" + itsDisk)
	domain := r.id("storagedomains", "storage_domain", "olvm-data")
	disk := r.ok("POST", "/api/disks", fmt.Sprintf(`{"alias":"d","format":"raw","provisioned_size":"1048576","storage_domains":{"storage_domain":[{"id":%q}]}}`, domain)).
		at("id")
	r.until("/api/disks/"+disk, "status", "ok")
	err = first.MaintainHost(r.ok("GET", "/api/hosts/"+r.id("hosts", "host", r.hostOf(up)), "").at("name"))
	if err != nil {
		t.Fatal(err)
	}

	r.until("/api/vms/"+up, "status", "up")
	before := r.everything()
	locked := r.ok("POST", "/api/vms", `{"name":"locked","cluster":{"name":"Default"},"template":{"name":"ol9-k8s"}}`).
		at("id")

	// Do not close the simulator. A kill leaves everything that the simulator wrote before each response. A truncated
	// last line has no effect.
	journal := filepath.Join(folder, "inventory.jsonl")
	content, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}

	copied := t.TempDir()
	for name, text := range map[string][]byte{"inventory.jsonl": append(content, `{"kind":"vms","id":"`...)} {
		if err := os.WriteFile(filepath.Join(copied, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	ca, err := os.ReadFile(filepath.Join(folder, "ca.pem"))
	if err == nil {
		err = os.WriteFile(filepath.Join(copied, "ca.pem"), ca, 0o600)
	}

	if err != nil {
		t.Fatal(err)
	}

	first.Close()

	options.StateFolder = copied
	second, err := ovirtsim.New(options)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if string(second.CA()) != string(first.CA()) {
		t.Error("clients would not trust it any more")
	}

	r = connect(t, second, clock)
	if got := r.ok("GET", "/api/vms/"+locked, "").at("status"); got != "image_locked" {
		t.Errorf("the VM that was being made is %s", got)
	}

	r.until("/api/vms/"+locked, "status", "down") // pending operations continue
	lockedDisk := r.ok("GET", "/api/vms/"+locked+"/diskattachments", "").at("disk_attachment", 0, "id")
	r.ok("DELETE", "/api/vms/"+locked, "")
	r.gone("/api/disks/" + lockedDisk)
	after := r.everything()
	if a, b := before, after; a != b {
		al, bl := strings.Split(a, "\n"), strings.Split(b, "\n")
		for i := range min(len(al), len(bl)) {
			if al[i] != bl[i] {
				t.Errorf("line %d was %q and is %q", i, al[i], bl[i])
				break
			}
		}
	}

	r.refused(409, "already in use", "POST", "/api/vms",
		`{"name":"down","cluster":{"name":"Default"},"template":{"name":"ol9-k8s"}}`)
	vm := r.newVM("later", "")
	nic := r.ok("POST", "/api/vms/"+vm+"/nics", fmt.Sprintf(`{"name":"nic1","vnic_profile":{"id":%q}}`, profile))
	if strings.Contains(after, nic.at("mac", "address")) {
		t.Errorf("the MAC %s was given twice", nic.at("mac", "address"))
	}

	if len(r.ok("GET", "/api/jobs", "").each("job", "id")) < 5 ||
		len(r.ok("GET", "/api/events", "").each("event", "id")) < 5 {
		t.Error("jobs or events were lost")
	}
}

func TestAStateThatCannotBeReadIsNotOverwritten(t *testing.T) {
	folder := t.TempDir()
	for name, content := range map[string]string{
		"no JSON":         "nonsense\n",
		"an unknown kind": `{"kind":"unicorns","id":"x","row":{}}` + "\n",
		"another shape":   `{"kind":"vms","id":"x","row":{"Memory":"much"}}` + "\n",
	} {
		path := filepath.Join(folder, "inventory.jsonl")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}

		sim, err := ovirtsim.New(ovirtsim.Options{StateFolder: folder})
		if err == nil {
			sim.Close()
			t.Errorf("%s is accepted", name)
		} else if !strings.Contains(err.Error(), "inventory.jsonl:1") {
			t.Errorf("%s: %v", name, err)
		}

		if kept, _ := os.ReadFile(path); string(kept) != content {
			t.Errorf("%s was overwritten", name)
		}
	}
}

func TestInventoriesAreChecked(t *testing.T) {
	good := `
version: 4.5.5
dataCenters:
- name: Site
  networks:
  - {name: vlan, vlan: 7, vnicProfiles: [vlan], dhcp: {first: 10.0.0.10, last: 10.0.0.20, bits: 24, gateway: 10.0.0.1}}
  storageDomains:
  - {name: data, size: 2Ti, type: iscsi}
  clusters:
  - name: Prod
    hosts:
    - {name: h1, memory: 128Gi, cores: 16, affinityLabels: [rack-a]}
    - {name: h2, maintenance: true}
    affinityGroups:
    - {name: apart, vms: [a, b], enforcing: true}
  templates:
  - {name: t, cluster: Prod, os: ol_9x64, memory: 2Gi, disks: [{size: 10Gi}], nics: [{name: nic1, network: vlan}], kubernetes: v1.36.1}
  vms:
  - {name: a, cluster: Prod, template: t, up: true, tags: [blue]}
  - {name: b, cluster: Prod, template: t, deleteProtected: true}
instanceTypes:
- {name: Huge, memory: 64Gi, cores: 16}
tags: [green]
users:
- {name: reader@internal, password: secret}
`
	inventory, err := ovirtsim.ParseInventory([]byte(good))
	if err != nil {
		t.Fatal(err)
	}

	r := newRawWith(t, ovirtsim.Options{Inventory: inventory, Timings: timings})
	vms := r.ok("GET", "/api/vms?follow=nics,tags", "")
	got := vms.each("vm", "name")
	check.Equal(t, "fmt.Sprint(got)", fmt.Sprint(got), "[a b]")
	check.Equal(t, `vms.at("vm", 0, "status")`, vms.at("vm", 0, "status"), "up")
	check.Equal(t, `vms.at("vm", 0, "nics", "nic", 0, "name")`, vms.at("vm", 0, "nics", "nic", 0, "name"), "nic1")
	check.Equal(t, `vms.at("vm", 0, "tags", "tag", 0, "name")`, vms.at("vm", 0, "tags", "tag", 0, "name"), "blue")
	check.Equal(t, `vms.at("vm", 1, "delete_protected")`, vms.at("vm", 1, "delete_protected"), "true")

	labels := r.ok("GET", "/api/affinitylabels?follow=hosts", "")
	if labels.at("affinity_label", 0, "hosts", "host", 0, "name") != "h1" {
		t.Errorf("labels: %v", labels)
	}

	groups := r.ok("GET", "/api/clusters/"+r.id("clusters", "cluster", "Prod")+"/affinitygroups?follow=vms", "")
	if groups.at("affinity_group", 0, "vms", "vm", 1, "id") == "" ||
		groups.at("affinity_group", 0, "vms", "vm", 1, "name") != "" {
		t.Errorf("groups: %v", groups)
	}

	for name, change := range map[string]struct{ from, to, want string }{
		"an unknown field":        {"vlan: 7", "vlann: 7", "vlann"},
		"a size that is none":     {"size: 2Ti", "size: big", "size"},
		"a size that is negative": {"size: 2Ti", "size: -2Ti", "negative"},
		"a version that is none":  {"version: 4.5.5", "version: new", "version"},
		"a template in an unknown cluster": {"cluster: Prod, os", "cluster: Dev, os",
			"dataCenters[0].templates[0].cluster"},
		"a NIC on an unknown network": {"network: vlan", "network: lan",
			"dataCenters[0].templates[0].nics[0].network"},
		"a VM of an unknown template":         {"template: t, up", "template: u, up", "dataCenters[0].vms[0].template"},
		"two VMs of one name":                 {"{name: b,", "{name: a,", `the name "a" is used twice`},
		"a name with a blank":                 {"{name: b,", "{name: b b,", "only letters"},
		"an address range that goes backward": {"last: 10.0.0.20", "last: 10.0.0.2", "does not follow"},
		"a prefix that is too long":           {"bits: 24", "bits: 64", "length of a prefix"},
		"storage of an unknown type":          {"type: iscsi", "type: tape", "storageDomains[0].type"},
		"an ID that is no UUID": {"{name: h1,", "{name: h1, id: one,",
			"dataCenters[0].clusters[0].hosts[0].id"},
		"no data center": {good, "tags: []", "dataCenters"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ovirtsim.ParseInventory([]byte(strings.Replace(good, change.from, change.to, 1)))
			if err == nil || !strings.Contains(err.Error(), change.want) {
				t.Errorf("got %v, want one that names %s", err, change.want)
			}
		})
	}
}

// manyVMs returns an inventory with n VMs, half of them running.
func manyVMs(n int) ovirtsim.Inventory {
	inventory := ovirtsim.DefaultInventory()

	dc := &inventory.DataCenters[0]
	for i := range 100 {
		dc.Clusters[0].Hosts = append(dc.Clusters[0].Hosts, ovirtsim.Host{
			Name:   fmt.Sprintf("big-%d", i),
			Memory: 1 << 40,
		})
	}

	dc.Templates[0].NICs = []ovirtsim.TemplateNIC{{Name: "nic1", Network: "kvm-vlan"}}
	for i := range n {
		dc.VMs = append(dc.VMs, ovirtsim.VM{
			Name:     fmt.Sprintf("vm-%05d", i),
			Cluster:  "Default",
			Template: "ol9-k8s",
			Up:       i%2 == 0,
			Comment:  "a comment that says who owns it",
		})
	}

	return inventory
}

// BenchmarkListing5000VMs measures a controller's periodic list request, and the memory that the VMs use.
func BenchmarkListing5000VMs(b *testing.B) {
	for _, n := range []int{500, 5000} {
		var empty, full runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&empty)
		sim, err := ovirtsim.New(ovirtsim.Options{Inventory: manyVMs(n)})
		if err != nil {
			b.Fatal(err)
		}

		runtime.GC()
		runtime.ReadMemStats(&full)
		r := connect(&testing.T{}, sim, nil)

		for name, path := range map[string]string{
			"plain":     "/api/vms",
			"with NICs": "/api/vms?follow=nics",
			"by name":   "/api/vms?search=name%3Dvm-00007",
		} {
			b.Run(fmt.Sprintf("%d VMs %s", n, name), func(b *testing.B) {
				r.t = &testing.T{}
				for b.Loop() {
					if status, body := get(b, r, path); status != 200 || len(body) < 100 {
						b.Fatal(status)
					}
				}

				b.ReportMetric(float64(full.HeapAlloc-empty.HeapAlloc)/float64(n)/1024, "KiB/VM")
			})
		}

		sim.Close()
	}
}

func get(tb testing.TB, r *raw, path string) (int, []byte) {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, r.sim.URL()+path, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}

	request.Header.Set("Authorization", "Bearer "+r.token)
	response, err := r.http.Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}

	return response.StatusCode, content
}
