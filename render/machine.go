package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// writer writes the resources of a machine as literals, without any others. With a module that has an argument for each
// possible part, Terraform takes twice the time.
type writer struct {
	file *hclwrite.File
	// before are the resources that the start of the VM depends on.
	before []Address
	// declared are the instances of all written resources.
	declared []Address
}

// beginResource begins a resource. why is a comment for readers, or "".
func (w *writer) beginResource(why string, address Address) *hclwrite.Body {
	w.declared = append(w.declared, address)

	return w.beginBlock(why, address)
}

// forEach begins a resource that has an instance for each value.
func (w *writer) forEach(why string, address Address, values map[string]cty.Value) *hclwrite.Body {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		w.declared = append(w.declared, address.WithKey(key))
	}

	body := w.beginBlock(why, address)
	body.SetAttributeRaw("for_each", objectTokens(values))
	body.AppendNewline()

	return body
}

// forEachText begins a resource that has an instance for each text.
func (w *writer) forEachText(why string, address Address, list []string) *hclwrite.Body {
	for _, key := range list {
		w.declared = append(w.declared, address.WithKey(key))
	}

	body := w.beginBlock(why, address)
	body.SetAttributeRaw("for_each", hclwrite.TokensForFunctionCall("toset", hclwrite.TokensForValue(toTuple(list))))

	return body
}

func (w *writer) beginBlock(why string, address Address) *hclwrite.Body {
	body := w.file.Body()
	if len(body.Blocks()) > 0 {
		body.AppendNewline()
	}

	if why != "" {
		writeComment(body, why)
	}

	if address != VMAddress && address != StartAddress {
		w.before = append(w.before, address)
	}

	return body.AppendNewBlock("resource", []string{address.kind, address.name}).Body()
}

// buildMainFile writes the resources in the order of their creation.
func buildMainFile(in Machine) *writer {
	w := &writer{file: hclwrite.NewEmptyFile()}
	w.writeVM(in)
	w.writeNICs(in)
	w.writeDisks(in)
	w.writeRemaining(in)

	if in.Pooled {
		w.writeTags(in, "By its tag the VM becomes one of the pool, which others see too: last, when it is complete.",
			w.before...)
	} else {
		w.writeTags(in, "")
		w.writeGroups(in)
		start := w.writeStart(
			"The VM starts when its hardware is complete: a network interface that comes later races "+
				"the guest's first boot.",
			VMAddress,
		)
		setDependsOn(start, w.before...)
		setIgnoreChanges(start, powerIsWatched, "status")
	}

	w.writeOutputs(in)

	return w
}

// powerIsWatched explains why a plan ignores the power of a VM.
const powerIsWatched = "Power is watched natively; a VM that reboots must not be restarted by a plan."

// writeStart writes the start of a VM.
func (w *writer) writeStart(why string, vm Address) *hclwrite.Body {
	body := w.beginResource(why, StartAddress)
	setTraversal(body, "vm_id", vm.kind, vm.name, "id")
	body.SetAttributeValue("status", cty.StringVal("up"))
	body.SetAttributeValue("stop_behavior", cty.StringVal("stop"))
	body.SetAttributeValue("force_stop", cty.True)

	return body
}

// writeVM writes the VM. It omits settings that the engine decides.
func (w *writer) writeVM(in Machine) {
	body := w.beginResource("", VMAddress)
	set := func(name, value string) { setText(body, name, value) }
	number := func(name string, value int64) {
		if value != 0 {
			body.SetAttributeValue(name, cty.NumberIntVal(value))
		}
	}
	flag := func(name string, value *bool) {
		if value != nil {
			body.SetAttributeValue(name, cty.BoolVal(*value))
		}
	}
	set("name", in.Name)
	set("comment", in.Comment)
	set("description", in.Description)
	set("cluster_id", in.ClusterID)
	set("template_id", in.TemplateID)
	flag("clone", in.Clone)
	set("instance_type_id", in.InstanceTypeID)
	number("cpu_cores", in.Cores)
	number("cpu_sockets", in.Sockets)
	number("cpu_threads", in.Threads)
	set("cpu_mode", in.CPUMode)
	number("memory", in.Memory)
	number("guaranteed_memory", in.GuaranteedMemory)
	number("maximum_memory", in.MaximumMemory)
	flag("memory_ballooning", in.MemoryBallooning)
	number("huge_pages", in.HugePages)
	set("vm_type", in.VMType)
	set("os_type", in.OSType)
	flag("serial_console", in.SerialConsole)
	flag("soundcard_enabled", in.SoundCard)
	if ha := in.HighAvailability; ha != nil {
		body.SetAttributeValue("high_availability", cty.True)
		number("high_availability_priority", ha.Priority)
		set("lease_storage_domain_id", ha.LeaseStorageDomainID)
		set("storage_error_resume_behaviour", ha.StorageError)
	}

	set("bios_type", in.BIOSType)
	flag("tpm_enabled", in.TPM)
	if len(in.CustomProperties) > 0 {
		body.SetAttributeRaw("custom_properties", objectTokens(toValues(in.CustomProperties)))
	}

	if in.Placement != nil {
		set("placement_policy_affinity", in.Placement.Affinity)
		body.SetAttributeValue("placement_policy_host_ids", toTuple(in.Placement.HostIDs))
	}

	set("initialization_hostname", in.HostName)
	if !in.Pooled {
		setTraversal(body, "initialization_custom_script", "var", "user_data")
	}

	writeTemplateDisks(body, in.TemplateDisks)
	const why = "What a guest reads at its first boot, what it is, and where its disks came from, matters once."
	setIgnoreChanges(body, why, in.ignoredAttributes()...)
}

// writeTemplateDisks writes the settings for copying the template's disks.
func writeTemplateDisks(body *hclwrite.Body, disks []TemplateDisk) {
	for _, disk := range disks {
		body.AppendNewline()
		block := body.AppendNewBlock("template_disk_attachment_override", nil).Body()
		block.SetAttributeValue("disk_id", cty.StringVal(disk.ID))
		setText(block, "format", disk.Format)
		setText(block, "provisioning", disk.Provisioning)
		setText(block, "storage_domain_id", disk.StorageDomainID)
	}
}

// ignoredAttributes returns the attributes of a VM whose changes a plan ignores.
func (in *Machine) ignoredAttributes() []string {
	out := []string{
		"initialization_custom_script",
		"initialization_hostname",
		"initialization_nic",
		"template_id",
		"template_disk_attachment_override",
		"clone",
		"os_type",
	}
	if in.Placement == nil { // the released provider takes the engine's value for a change
		out = append(out, "placement_policy_affinity", "placement_policy_host_ids")
	}

	// A change of these attributes would need another VM, so a plan ignores it. The released provider lacks these
	// attributes.
	if in.BIOSType != "" {
		out = append(out, "bios_type")
	}

	if in.TPM != nil {
		out = append(out, "tpm_enabled")
	}

	if len(in.CustomProperties) > 0 {
		out = append(out, "custom_properties")
	}

	if in.hasGuestDNS() {
		out = append(out, "initialization_dns_servers", "initialization_search_domains")
	}

	if in.Pooled { // the comment marks the holder of the VM
		out = append(out, "comment")
	}

	return out
}

// hasGuestDNS reports whether the guest has DNS settings. The released provider has no attributes for them.
func (in *Machine) hasGuestDNS() bool { return len(in.DNSServers)+len(in.SearchDomains) > 0 }

// writeNICs writes the network interfaces. Each depends on the previous one, because a guest finds them in the order of
// their creation.
func (w *writer) writeNICs(in Machine) {
	for i, nic := range in.NICs {
		body := w.beginResource("", NICAddress(i))
		setVMID(body)
		body.SetAttributeValue("name", cty.StringVal(nic.Name))
		body.SetAttributeValue("vnic_profile_id", cty.StringVal(nic.VNICProfileID))
		var ignored []string

		for _, part := range [][2]string{{"mac", nic.MAC}, {"interface", nic.Interface}} {
			if setText(body, part[0], part[1]) {
				ignored = append(ignored, part[0])
			}
		}

		if i > 0 {
			setDependsOn(body, NICAddress(i-1))
		}

		if len(ignored) > 0 {
			setIgnoreChanges(body, "Hardware of a VM that runs is not exchanged.", ignored...)
		}
	}

	if in.RemoveTemplateNICs {
		var kept []string
		for _, nic := range in.NICs {
			kept = append(kept, nic.Name)
		}

		body := w.beginResource("The template may give the VM other network interfaces; these go.", templateNICsAddress)
		setVMID(body)
		body.SetAttributeValue("kept", toTuple(kept))

		if last := len(in.NICs) - 1; last >= 0 { // a renamed interface is not the template's
			setDependsOn(body, NICAddress(last))
		}
	}
}

// writeDisks writes the size of the root disk, and the data disks.
func (w *writer) writeDisks(in Machine) {
	if in.RootDiskSize != 0 {
		body := w.beginResource("", resizeAddress)
		setVMID(body)
		body.SetAttributeValue("size", cty.NumberIntVal(in.RootDiskSize))
	}

	if len(in.DataDisks) == 0 {
		return
	}

	disks, interfaces := map[string]cty.Value{}, map[string]cty.Value{}
	for _, disk := range in.DataDisks {
		disks[disk.Name] = cty.ObjectVal(map[string]cty.Value{
			"alias":             cty.StringVal(DiskAlias(in.Name, disk.Name)),
			"size":              cty.NumberIntVal(disk.Size),
			"format":            cty.StringVal(disk.Format),
			"sparse":            cty.BoolVal(disk.Sparse),
			"storage_domain_id": cty.StringVal(disk.StorageDomainID),
		})
		interfaces[disk.Name] = cty.StringVal(disk.Interface)
	}

	body := w.forEach("A disk without its VM could not be told from one that somebody else made.", dataDiskAddress,
		disks)

	for _, name := range []string{"alias", "size", "format", "sparse", "storage_domain_id"} {
		setTraversal(body, name, "each", "value", name)
	}

	setDependsOn(body, VMAddress)
	setIgnoreChanges(body, "Where a disk was made is not undone by a template that moves.", "format", "sparse",
		"storage_domain_id")

	body = w.forEach("", dataDiskAttachmentAddress, interfaces)
	setVMID(body)
	body.SetAttributeRaw("disk_id", diskOfEach())
	setTraversal(body, "disk_interface", "each", "value")
	body.SetAttributeValue("active", cty.True)
	body.SetAttributeValue("bootable", cty.False)
	if in.RootDiskSize != 0 { // the released provider resizes every disk it finds
		setDependsOn(body, resizeAddress)
	}
}

// writeRemaining writes the other changes of the VM that come before its start.
func (w *writer) writeRemaining(in Machine) {
	if in.OptimizeCPU {
		setVMID(
			w.beginResource(
				"The engine sizes the CPU by the VM's hosts, and pins it; only while the VM is down.",
				OptimizeCPUAddress,
			),
		)
	}

	if in.RemoveGraphicsConsoles {
		setVMID(w.beginResource("", graphicsConsolesAddress))
	}

	if in.WatchdogAction != "" {
		body := w.beginResource("", WatchdogAddress)
		setVMID(body)
		body.SetAttributeValue("model", cty.StringVal("i6300esb"))
		body.SetAttributeValue("action", cty.StringVal(in.WatchdogAction))
	}

	w.writeHostDevices(in)
}

// writeHostDevices writes the VM's host devices.
func (w *writer) writeHostDevices(in Machine) {
	if len(in.HostDevices) > 0 {
		body := w.forEachText("", hostDeviceAddress, in.HostDevices)
		setVMID(body)
		setTraversal(body, "name", "each", "value")
	}

	if len(in.MediatedDevices) > 0 {
		kinds := map[string]cty.Value{}
		for i, kind := range in.MediatedDevices {
			kinds[MediatedDeviceKey(i)] = cty.StringVal(kind)
		}

		body := w.forEach("", mediatedDeviceAddress, kinds)
		setVMID(body)
		setTraversal(body, "type", "each", "value")
	}
}

// MediatedDeviceKey returns the key of the mediated device at this index: "1" for the first one.
func MediatedDeviceKey(index int) string { return strconv.Itoa(index + 1) }

// writeTags writes the tags of the VM. They depend on the resources in after.
func (w *writer) writeTags(in Machine, why string, after ...Address) {
	if len(in.TagIDs) == 0 {
		return
	}

	body := w.forEachText(why, tagAddress, in.TagIDs)
	setVMID(body)
	setTraversal(body, "tag_id", "each", "value")

	if len(after) > 0 {
		setDependsOn(body, after...)
	}
}

// writeGroups writes the memberships in affinity groups.
func (w *writer) writeGroups(in Machine) {
	if len(in.AffinityGroups) == 0 {
		return
	}

	body := w.forEach(
		"The engine obeys an affinity group when it chooses a host, so that the VM is in it before it starts.",
		membershipAddress, toValues(in.AffinityGroups),
	)
	body.SetAttributeValue("cluster_id", cty.StringVal(in.ClusterID))
	setTraversal(body, "affinity_group_id", "each", "value")
	setVMID(body)
}

// beginOutput begins an output.
func (w *writer) beginOutput(name, description string) *hclwrite.Body {
	w.file.Body().AppendNewline()
	body := w.file.Body().AppendNewBlock("output", []string{name}).Body()
	body.SetAttributeValue("description", cty.StringVal(description))

	return body
}

func (w *writer) writeOutputs(in Machine) {
	setTraversal(w.beginOutput("vm_id", "UUID of the VM."), "value", "ovirt_vm", "this", "id")

	var nics []hclwrite.ObjectAttrTokens
	for i, nic := range in.NICs {
		nics = append(nics, hclwrite.ObjectAttrTokens{
			Name:  hclwrite.TokensForValue(cty.StringVal(nic.Name)),
			Value: hclwrite.TokensForTraversal(newTraversal("ovirt_nic", nicName(i), "id")),
		})
	}

	w.beginOutput("nic_ids", "UUIDs of the network interfaces, by name.").
		SetAttributeRaw("value", hclwrite.TokensForObject(nics))
}

// setText sets an attribute, unless the text is empty and the engine decides. It reports whether it has set the
// attribute.
func setText(body *hclwrite.Body, name, value string) bool {
	if value != "" {
		body.SetAttributeValue(name, cty.StringVal(value))
	}

	return value != ""
}

// setVMID sets the VM that a resource belongs to.
func setVMID(body *hclwrite.Body) { setTraversal(body, "vm_id", "ovirt_vm", "this", "id") }

// objectTokens returns an object with quoted keys, because the unquoted key for would begin another kind of expression.
func objectTokens(values map[string]cty.Value) hclwrite.Tokens {
	var out []hclwrite.ObjectAttrTokens
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, hclwrite.ObjectAttrTokens{
			Name:  hclwrite.TokensForValue(cty.StringVal(name)),
			Value: hclwrite.TokensForValue(values[name]),
		})
	}

	return hclwrite.TokensForObject(out)
}

// diskOfEach returns the data disk that has the same key as an attachment.
func diskOfEach() hclwrite.Tokens {
	tokens := hclwrite.TokensForTraversal(dataDiskAddress.toTraversal())
	tokens = append(tokens, &hclwrite.Token{Type: hclsyntax.TokenOBrack, Bytes: []byte("[")})
	tokens = append(tokens, hclwrite.TokensForTraversal(newTraversal("each", "key"))...)
	tokens = append(tokens, &hclwrite.Token{Type: hclsyntax.TokenCBrack, Bytes: []byte("]")})
	tokens = append(tokens, &hclwrite.Token{Type: hclsyntax.TokenDot, Bytes: []byte(".")})

	return append(tokens, hclwrite.TokensForIdentifier("id")...)
}

// nicName returns the resource name of the network interface at this index.
func nicName(index int) string { return fmt.Sprintf("nic%d", index+1) }

func setDependsOn(body *hclwrite.Body, addresses ...Address) {
	body.AppendNewline()

	traversals := make([]hcl.Traversal, 0, len(addresses))
	for _, address := range addresses {
		traversals = append(traversals, address.toTraversal())
	}

	body.SetAttributeRaw("depends_on", referenceTokens(traversals))
}

// setIgnoreChanges writes the attributes whose changes a plan ignores, and the reason.
func setIgnoreChanges(body *hclwrite.Body, why string, attributes ...string) {
	body.AppendNewline()
	lifecycle := body.AppendNewBlock("lifecycle", nil).Body()
	writeComment(lifecycle, why)

	names := make([]hcl.Traversal, 0, len(attributes))
	for _, attribute := range attributes {
		names = append(names, newTraversal(attribute))
	}

	lifecycle.SetAttributeRaw("ignore_changes", referenceTokens(names))
}

// writeComment writes a comment. The text must come from this package. A text from an engine or a manifest could end
// the line, and the rest of the text would become configuration.
func writeComment(body *hclwrite.Body, text string) {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		panic(fmt.Sprintf("a comment has more than printable ASCII: %q", text))
	}

	body.AppendUnstructuredTokens(hclwrite.Tokens{{Type: hclsyntax.TokenComment, Bytes: []byte("# " + text + "\n")}})
}

// referenceTokens returns a list of references.
func referenceTokens(traversals []hcl.Traversal) hclwrite.Tokens {
	items := make([]hclwrite.Tokens, 0, len(traversals))
	for _, one := range traversals {
		items = append(items, hclwrite.TokensForTraversal(one))
	}

	return hclwrite.TokensForTuple(items)
}

func toValues(texts map[string]string) map[string]cty.Value {
	out := map[string]cty.Value{}
	for name, text := range texts {
		out[name] = cty.StringVal(text)
	}

	return out
}

func toTuple(list []string) cty.Value {
	values := make([]cty.Value, 0, len(list))
	for _, text := range list {
		values = append(values, cty.StringVal(text))
	}

	return cty.TupleVal(values)
}
