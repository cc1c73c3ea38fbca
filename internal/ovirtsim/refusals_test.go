package ovirtsim_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
)

// refusal is a rejected request, with the engine's text. These texts come from the sources of an engine 4.5.7: from the
// validation of its commands, and from earlier checks. No recording has confirmed them. TestRecordedAnswers covers
// recorded texts.
type refusal struct {
	name               string
	method, path, body string
	status             int
	reason, detail     string
}

const (
	failedReason = "Operation Failed"
	inputReason  = "Input validation failed."
	incomplete   = "Incomplete parameters"
)

// check sends a request. Before this, it replaces names such as $vm in the request's path and body.
func (r *raw) check(values map[string]string, want refusal) {
	r.t.Helper()

	fill := func(text string) string {
		for name, value := range values {
			text = strings.ReplaceAll(text, "$"+name+"$", value)
		}

		return text
	}
	status, out := r.do(want.method, fill(want.path), fill(want.body))

	reason := out.at("reason")
	if reason == "" {
		reason = out.at("fault", "reason")
	}

	if status != want.status || reason != want.reason || out.at("detail") != fill(want.detail) {
		r.t.Errorf("%s: %d %q: %q, want %d %q: %q", want.name, status, reason, out.at("detail"),
			want.status, want.reason, fill(want.detail))
	}
}

// refusalSite returns an engine whose VMs and disks conflict with the requests.
func refusalSite(t *testing.T) (*raw, map[string]string) {
	t.Helper()
	inventory := ovirtsim.DefaultInventory()
	inventory.DataCenters = append(inventory.DataCenters, ovirtsim.DataCenter{
		Name:           "far",
		Clusters:       []ovirtsim.Cluster{{Name: "far"}},
		StorageDomains: []ovirtsim.StorageDomain{{Name: "far-data"}},
		Networks:       []ovirtsim.Network{{Name: "far-net", VNICProfiles: []string{"far-net"}}},
	})
	r := newRawWith(t, ovirtsim.Options{Timings: timings, Inventory: inventory})

	values := map[string]string{
		"none":     "11111111-2222-3333-4444-555555555555",
		"domain":   r.id("storagedomains", "storage_domain", "olvm-data"),
		"far":      r.id("storagedomains", "storage_domain", "far-data"),
		"farnet":   r.id("vnicprofiles", "vnic_profile", "far-net"),
		"farhome":  r.id("clusters", "cluster", "far"),
		"template": r.id("templates", "template", "ol9-k8s"),
		"host":     r.id("hosts", "host", "host-1"),
		"host2":    r.id("hosts", "host", "host-2"),
		"network":  r.id("networks", "network", "ovirtmgmt"),
		"profile":  r.id("vnicprofiles", "vnic_profile", "ovirtmgmt"),
		"vm":       r.newVM("down", ""),
		"up":       r.newVM("up", ""),
		"asleep":   r.newVM("asleep", ""),
	}
	disk := func(name, domain, more string) string {
		made := r.ok("POST", "/api/disks", fmt.Sprintf(`{"alias":%q,"provisioned_size":"1073741824",`+
			`"storage_domains":{"storage_domain":[{"id":%q}]}%s}`, name, domain, more)).at("id")
		r.until("/api/disks/"+made, "status", "ok")

		return made
	}
	values["free"] = disk("free", values["domain"], `,"format":"cow"`)
	values["fardisk"] = disk("far", values["far"], `,"format":"cow"`)
	values["taken"] = disk("taken", values["domain"], `,"format":"cow"`)
	values["shared"] = disk("shared", values["domain"], `,"format":"raw","shareable":"true"`)

	attach := `{"interface":"virtio","active":"true","disk":{"id":%q}}`
	for _, vm := range []string{"vm", "up"} {
		r.ok("POST", "/api/vms/"+values[vm]+"/diskattachments", fmt.Sprintf(attach, values["shared"]))
	}

	r.ok("POST", "/api/vms/"+values["up"]+"/diskattachments", fmt.Sprintf(attach, values["taken"]))
	values["nic"] = r.ok("POST", "/api/vms/"+values["up"]+"/nics",
		fmt.Sprintf(`{"name":"data","vnic_profile":{"id":%q}}`, values["profile"])).at("id")
	values["console"] = r.ok("GET", "/api/vms/"+values["vm"]+"/graphicsconsoles", "").
		at("graphics_console", 0, "protocol")
	values["templatedisk"] = r.ok("GET", "/api/templates/"+values["template"]+"/diskattachments", "").
		at("disk_attachment", 0, "id")

	r.start(values["up"])
	r.start(values["asleep"])
	r.ok("POST", "/api/vms/"+values["asleep"]+"/suspend", "{}")
	r.until("/api/vms/"+values["asleep"], "status", "suspended")

	return r, values
}

func TestRequestsThatLackWhatTheyNeedAreRefusedAsByAnEngine(t *testing.T) {
	t.Parallel()
	r, values := refusalSite(t)
	const unmatched = "No matching signature found, make sure that mandatory attributes are provided."
	lacks := func(what string) string { return "Parameter '" + what + "' is mandatory but was not provided." }

	for _, want := range []refusal{
		{"a disk without anything", "POST", "/api/disks", "{}", 400, incomplete,
			"Disk [provisionedSize, format] required for add"},
		{"a disk without a format", "POST", "/api/disks", `{"provisioned_size":"1"}`, 400, incomplete,
			"Disk [format] required for add"},
		{"a new disk of a VM without anything", "POST", "/api/vms/$vm$/diskattachments", `{"disk":{"alias":"a"}}`, 400,
			incomplete, "Disk [provisionedSize|size, format] required for invoke"},
		{"an attachment without an interface", "POST", "/api/vms/$vm$/diskattachments", `{"disk":{"id":"$free$"}}`, 400,
			failedReason, "[Interface is required, Attribute: diskVmElement.diskInterface]"},
		{"a template without anything", "POST", "/api/templates", "{}", 400, inputReason, unmatched},
		{"a template without a VM", "POST", "/api/templates", `{"name":"t"}`, 400, inputReason, unmatched},
		{"a label without a name", "POST", "/api/affinitylabels", "{}", 400, incomplete,
			"AffinityLabel [name] required for add"},
		{"a vNIC profile without a name", "POST", "/api/vnicprofiles", "{}", 400, inputReason, lacks("profile.name")},
		{"a vNIC profile without a network", "POST", "/api/vnicprofiles", `{"name":"p"}`, 400, inputReason,
			lacks("profile.network.id")},
		{"a console without a protocol", "POST", "/api/vms/$vm$/graphicsconsoles", "{}", 400, inputReason,
			lacks("console.protocol")},
		{"a host device without a name", "POST", "/api/vms/$vm$/hostdevices", "{}", 400, inputReason,
			"Parameters 'device.id' or 'device.name' are mandatory but both were not provided."},
		{"a mediated device without a type", "POST", "/api/vms/$vm$/mediateddevices", "{}", 400, failedReason,
			"[Cannot ${action} ${type}. Mediated device ID or VM/Template ID or a parameter value is null.]"},
		{"a move to nowhere", "POST", "/api/disks/$free$/move", "{}", 400, inputReason,
			"Parameters 'storage_domain.id' or 'storage_domain.name' are mandatory but both were not provided."},
		{"a preview of nothing", "POST", "/api/vms/$vm$/previewsnapshot", "{}", 400, inputReason, lacks("snapshot.id")},
	} {
		r.check(values, want)
	}
}

func TestReferencesToWhatIsNotThereAreRefusedAsByAnEngine(t *testing.T) {
	t.Parallel()
	r, values := refusalSite(t)
	create := `{"name":"a","cluster":{"name":"Default"},"template":{"name":"Blank"},%s}`
	disk := `"format":"cow","provisioned_size":"1","storage_domains":{"storage_domain":[%s]}`

	for _, want := range []refusal{
		{"an instance type", "POST", "/api/vms", fmt.Sprintf(create, `"instance_type":{"id":"$none$"}`), 404,
			failedReason, "Entity not found: GetInstanceType"},
		{"the storage domain of a disk", "POST", "/api/disks", "{" + fmt.Sprintf(disk, `{"id":"$none$"}`) + "}", 404,
			failedReason, "Entity not found: $none$"},
		{"its name", "POST", "/api/disks", "{" + fmt.Sprintf(disk, `{"name":"nowhere"}`) + "}", 404, failedReason,
			"Entity not found: nowhere"},
		{"that of a new disk of a VM", "POST", "/api/vms/$vm$/diskattachments",
			`{"interface":"virtio","disk":{` + fmt.Sprintf(disk, `{"id":"$none$"}`) + "}}", 404, failedReason,
			"Entity not found: $none$"},
		{"no storage domain at all", "POST", "/api/disks", `{"format":"cow","provisioned_size":"1"}`, 400, failedReason,
			"[Cannot add Virtual Disk. Storage Domain hasn't been specified.]"},
		{"a disk", "POST", "/api/vms/$none$/diskattachments", `{"interface":"virtio","disk":{"id":"$none$"}}`, 400,
			failedReason, "[Cannot attach Virtual Disk. The specified disk does not exist.]"},
		{"the VM of a disk that is there", "POST", "/api/vms/$none$/diskattachments",
			`{"interface":"virtio","disk":{"id":"$free$"}}`, 400, failedReason,
			"[Cannot attach Virtual Disk. VM is not found.]"},
		{"the VM of a console", "POST", "/api/vms/$none$/graphicsconsoles", `{"protocol":"vnc"}`, 400, failedReason,
			"[Cannot ${action} ${type}. VM is not found.]"},
		{"the network of a vNIC profile", "POST", "/api/vnicprofiles", `{"name":"p","network":{"id":"$none$"}}`, 404,
			failedReason, "Entity not found: Network: id=$none$"},
		{"an image in the drive", "PUT", "/api/vms/$vm$/cdroms/00000000-0000-0000-0000-000000000000",
			`{"file":{"id":"nothing.iso"}}`, 400, failedReason, "[Invalid ISO image path]"},
		{"a disk that is removed from a VM", "DELETE", "/api/vms/$vm$/diskattachments/$none$?detach_only=false", "",
			400, failedReason, "[Cannot remove Virtual Disk. VM's Image does not exist.\nIn order to import partial VM, " +
				"select " +
				"'allow partial' checkbox.]"},
	} {
		r.check(values, want)
	}
}

func TestConflictsOfDisksAreRefusedAsByAnEngine(t *testing.T) {
	t.Parallel()
	r, values := refusalSite(t)
	attach := func(disk, more string) string {
		return `{"interface":"virtio"` + more + `,"disk":{"id":"` + disk + `"}}`
	}

	for _, want := range []refusal{
		{"attached already", "POST", "/api/vms/$up$/diskattachments", attach("$taken$", ""), 409, failedReason,
			"[Cannot attach Virtual Disk. The disk is already attached to VM.]"},
		{"attached to another VM", "POST", "/api/vms/$vm$/diskattachments", attach("$taken$", ""), 409, failedReason,
			"[Cannot attach Virtual Disk. The disk is not shareable and is already attached to a VM.]"},
		{"in another data center", "POST", "/api/vms/$vm$/diskattachments", attach("$fardisk$", ""), 409, failedReason,
			"[Cannot attach Virtual Disk. The target Data Center does not contain the Virtual Disk.]"},
		{"a bus that the guest does not know", "POST", "/api/vms/$vm$/diskattachments",
			`{"interface":"ide","disk":{"id":"$free$"}}`, 400, failedReason,
			"[Cannot attach Virtual Disk: The disk interface is not supported by the VM OS: Other OS.]"},
		{"discards on VirtIO", "POST", "/api/vms/$vm$/diskattachments", attach("$free$", `,"pass_discard":"true"`), 400,
			failedReason, "[Cannot attach Virtual Disk. Enable discard for free is supported only by VirtIO-SCSI " +
				"and IDE disk " +
				"interfaces.]"},
		{"a bus while the VM runs", "PUT", "/api/vms/$up$/diskattachments/$taken$", `{"interface":"virtio_scsi"}`, 409,
			failedReason, "[Cannot edit Virtual Disk. At least one of the VMs is not down.]"},
		{"not attached", "DELETE", "/api/vms/$vm$/diskattachments/$free$", "", 400, failedReason,
			"[Cannot detach Virtual Disk. The specified disk is not attached to the VM ${VmName}., down]"},
		{"an ID in use", "POST", "/api/disks", `{"id":"$free$","format":"cow","provisioned_size":"1",` +
			`"storage_domains":{"storage_domain":[{"id":"$domain$"}]}}`, 409, failedReason,
			"[Cannot add Virtual Disk. The selected disk ID: $free$ is already used by the following existing disk: " +
				"free.]"},
		{"shared on", "PUT", "/api/disks/$free$", `{"shareable":"true"}`, 409, failedReason,
			"[Cannot edit Virtual Disk. Disk's volume format is not supported for shareable disk.]"},
		{"no more shared", "PUT", "/api/disks/$shared$", `{"shareable":"false"}`, 409, failedReason,
			"[Cannot edit Virtual Disk. Disk is shared between VMs and cannot be made unshareable. Detach the disk " +
				"from the " +
				"rest of the VMs it is attached to and then update the disk to be unshareable.]"},
		{"a template's", "DELETE", "/api/disks/$templatedisk$", "", 400, failedReason,
			"[Cannot remove Virtual Disk. A storage domain must be specified when deleting one of a template's " +
				"disk's copies.]"},
		{"moved to where it is", "POST", "/api/disks/$free$/move", `{"storage_domain":{"id":"$domain$"}}`, 400,
			failedReason, "[Cannot move Virtual Disk. The source and target storage domains are the same.]"},
	} {
		r.check(values, want)
	}
}

func TestConflictsOfVMsAreRefusedAsByAnEngine(t *testing.T) {
	t.Parallel()
	r, values := refusalSite(t)

	for _, want := range []refusal{
		{"removed while suspended", "DELETE", "/api/vms/$asleep$", "", 409, failedReason,
			"[Cannot remove VM that its state is not down.\n-Please stop the VM first.]"},
		{"a template of one that runs", "POST", "/api/templates", `{"name":"t","vm":{"id":"$up$"}}`, 409, failedReason,
			"[Cannot add Template. VM is locked or still running, try again once VM is in the Down state.]"},
		{"a template that is in use", "DELETE", "/api/templates/$template$", "", 409, failedReason,
			"[Cannot delete Template. Template is being used by the following VMs: asleep,down,up.]"},
		{"another data center", "PUT", "/api/vms/$vm$", `{"cluster":{"id":"$farhome$"}}`, 409, failedReason,
			"[VM can be moved only to a Cluster in the same Data Center.]"},
		{"a console twice", "POST", "/api/vms/$vm$/graphicsconsoles", `{"protocol":"$console$"}`, 400, failedReason,
			"[Cannot ${action} ${type}. One VM can not contain more than one device with the same graphics type.]"},
		{"a host device of any host", "POST", "/api/vms/$vm$/hostdevices", `{"name":"pci_0"}`, 409, failedReason,
			"[Cannot add Host devices. VM must be pinned to a host.]"},
		{"a host device while it runs", "POST", "/api/vms/$up$/hostdevices", `{"name":"pci_0"}`, 409, failedReason,
			"[Cannot add Host devices because the VM is in Up status.]"},
		{"another image in the drive of one that is down", "PUT",
			"/api/vms/$vm$/cdroms/00000000-0000-0000-0000-000000000000?current=true", `{"file":{"id":"a.iso"}}`, 409,
			failedReason, "[Cannot Change CD VM because the VM is in Down status.]"},
		{"an interface on a network of elsewhere", "POST", "/api/vms/$vm$/nics",
			`{"name":"n","vnic_profile":{"id":"$farnet$"}}`, 409, failedReason,
			"[The specified Logical Network doesn't exist in the current Cluster.]"},
		{"the address of an interface in use", "PUT", "/api/vms/$up$/nics/$nic$",
			`{"mac":{"address":"56:6f:00:00:00:99"}}`, 409, failedReason, "[Cannot edit Interface. Updating some of " +
				"the " +
				"properties is not supported while the interface is plugged into a running virtual machine. Please " +
				"un-plug " +
				"the interface, update the properties, and then plug it back.]"},
		{"an interface while suspended", "POST", "/api/vms/$asleep$/nics", `{"name":"n"}`, 409, failedReason,
			"[Cannot add a Network Interface when VM is not Down, Up or Image-Locked.]"},
		{"a vNIC profile in use", "DELETE", "/api/vnicprofiles/$profile$", "", 409, failedReason,
			"[Cannot remove VM network interface profile. This VM network interface profile is used by virtual " +
				"machine:  " +
				"\tup.\n - Please remove it from this virtual machine and try again.]"},
	} {
		r.check(values, want)
	}
}

func TestRefusalsOfTheSchedulerAreThoseOfAnEngine(t *testing.T) {
	t.Parallel()
	r, values := refusalSite(t)
	r.ok("PUT", "/api/vms/"+values["vm"], fmt.Sprintf(
		`{"placement_policy":{"affinity":"pinned","hosts":{"host":[{"id":%q},{"id":%q}]}},`+
			`"cpu":{"topology":{"cores":"99"}}}`,
		values["host"], values["host2"]))
	r.check(values, refusal{"pinned to two hosts", "POST", "/api/vms/$vm$/hostdevices", `{"name":"pci_0"}`, 409,
		failedReason, "[Cannot add Host devices. VM must be pinned to a single host.]"})

	_, out := r.do("POST", "/api/vms/"+values["vm"]+"/start", "{}")
	for _, line := range []string{
		"The host host-1 did not satisfy internal filter CPU because it has an insufficient amount of CPU cores to " +
			"run the VM.",
		"The host host-3 did not satisfy internal filter PinToHost because the host is not present in the pinning " +
			"list..",
	} {
		if !strings.Contains(out.at("detail"), line) {
			t.Errorf("%q does not say %q", out.at("detail"), line)
		}
	}

	r.start(values["asleep"])
	r.ok("PUT", "/api/vms/"+values["up"], `{"placement_policy":{"affinity":"pinned"}}`)
	r.check(values, refusal{"migrated though pinned", "POST", "/api/vms/$up$/migrate", "{}", 409, failedReason,
		"[Cannot migrate VM. VM is pinned to Host.]"})
	r.ok("PUT", "/api/vms/"+values["up"], `{"placement_policy":{"affinity":"user_migratable"}}`)
	r.check(values, refusal{"migrated by nobody", "POST", "/api/vms/$up$/migrate", "{}", 409, failedReason,
		"[Cannot migrate VM. VM is non migratable and user did not specify the force-migration flag]"})
}
