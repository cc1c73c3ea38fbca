package ovirtsim

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// This file has what VMs, templates and instance types have in common: how it looks, and how requests change it.

// hardware is what a VM is made of. It is a value: what a request asks for is worked out on a copy.
type hardware struct {
	Memory, GuaranteedMemory, MaxMemory int64
	Ballooning                          bool
	CPU                                 topology
	CPUMode, CPUPinning                 string
	OSType, Type                        string
	Console, Soundcard, DeleteProtected bool
	HighlyAvailable                     bool
	CustomProperties                    []property
	PlacementAffinity                   string
	PlacementHosts                      []string
	// Settings are elements that have no effect here and are shown as they were sent.
	Settings *element `json:",omitempty"`
}

// blankSettings are those of the Blank template.
const blankSettings = `<vm>
<bios><boot_menu><enabled>false</enabled></boot_menu></bios><cpu_shares>0</cpu_shares>
<display><allow_override>false</allow_override><copy_paste_enabled>true</copy_paste_enabled><disconnect_action>LOCK_SCREEN</disconnect_action>
<disconnect_action_delay>0</disconnect_action_delay><file_transfer_enabled>true</file_transfer_enabled><monitors>1</monitors>
<smartcard_enabled>false</smartcard_enabled><video_type>vga</video_type></display>
<high_availability><priority>0</priority></high_availability><io><threads>1</threads></io>
<migration><auto_converge>inherit</auto_converge><compressed>inherit</compressed><encrypted>inherit</encrypted>
<parallel_migrations_policy>inherit</parallel_migrations_policy></migration><migration_downtime>-1</migration_downtime>
<multi_queues_enabled>true</multi_queues_enabled><os><boot><devices><device>hd</device></devices></boot></os>
<rng_device><source>urandom</source></rng_device><sso><methods><method id="guest_agent"/></methods></sso>
<start_paused>false</start_paused><stateless>false</stateless><storage_error_resume_behaviour>auto_resume</storage_error_resume_behaviour>
<time_zone><name>Etc/GMT</name></time_zone><tpm_enabled>false</tpm_enabled><usb><enabled>false</enabled></usb>
<virtio_scsi><enabled>true</enabled></virtio_scsi><virtio_scsi_multi_queues_enabled>false</virtio_scsi_multi_queues_enabled></vm>`

// settingNames are the elements of a VM that are kept in Settings, whole or in part.
var settingNames = []string{
	"bios", "cpu_shares", "custom_compatibility_version", "custom_cpu_model", "custom_emulated_machine", "display", "high_availability", "io", "lease", "migration",
	"migration_downtime", "multi_queues_enabled", "os", "rng_device", "serial_number", "sso", "start_paused", "stateless", "storage_error_resume_behaviour",
	"time_zone", "tpm_enabled", "usb", "virtio_scsi", "virtio_scsi_multi_queues_enabled", "use_latest_template_version",
}

// typedSettings are the parts of settings that are kept as fields instead.
var typedSettings = map[string][]string{"os": {"type"}, "display": {"type", "address", "port", "secure_port", "proxy", "certificate"}, "high_availability": {"enabled"}}

// costly are elements that are only in full answers.
var costly = []string{"virtio_scsi", "rng_device", "tpm_enabled"}

// blankHardware is what the Blank template has.
func blankHardware() hardware {
	settings, err := parseXML(strings.NewReader(blankSettings))
	if err == nil {
		err = api().shape(settings, "Vm")
	}
	if err != nil { // the text is ours
		panic(err)
	}
	return hardware{
		Memory: gib, GuaranteedMemory: gib, MaxMemory: 4 * gib, Ballooning: true, CPU: topology{1, 1, 1}, CPUPinning: pinNone, OSType: "other", Type: "server",
		Soundcard: true, PlacementAffinity: "migratable", Settings: settings,
	}
}

// copyOf is a copy that shares nothing.
func (h hardware) copyOf() hardware {
	h.CustomProperties, h.PlacementHosts, h.Settings = slices.Clone(h.CustomProperties), slices.Clone(h.PlacementHosts), h.Settings.clone()
	return h
}

// setMemory gives hardware its memory and what follows from it.
func (h *hardware) setMemory(bytes int64) {
	h.Memory, h.GuaranteedMemory, h.MaxMemory = bytes, bytes, 4*bytes
}

// The CPU pinning policies that the simulator tells apart.
const (
	pinNone   = "none"
	pinResize = "resize_and_pin_numa"
)

func topologyElement(t topology) *element {
	return el("topology").num("cores", t.Cores).num("sockets", t.Sockets).num("threads", t.Threads)
}

func (t topology) count() int64 { return t.Cores * t.Sockets * t.Threads }

// put sets the text of a part of a document, which is made where it is not there.
func (e *element) put(value string, path ...string) *element {
	at := e
	for _, name := range path {
		next := at.get(name)
		if next == nil {
			next = el(name)
			at.add(next)
		}
		at = next
	}
	at.text = value
	at.structured = false
	return e
}

// describe adds hardware to a document. What a template leaves to the cluster is not in it: architecture is the answer
// for the CPU, and full says whether all of it is wanted.
func (h *hardware) describe(out *element, architecture string, full bool) {
	for _, e := range h.Settings.kids {
		if full || !slices.Contains(costly, e.name) {
			out.add(e.clone())
		}
	}
	out.put(strconv.FormatBool(h.HighlyAvailable), "high_availability", "enabled")
	out.put(h.OSType, "os", "type")
	cpu := el("cpu").str("architecture", architecture)
	if h.CPUMode == "host_passthrough" {
		cpu.str("mode", h.CPUMode)
	}
	out.add(cpu.add(topologyElement(h.CPU))).num("memory", h.Memory).
		add(el("memory_policy").flag("ballooning", h.Ballooning).num("guaranteed", h.GuaranteedMemory).num("max", h.MaxMemory)).
		str("type", h.Type).flag("delete_protected", h.DeleteProtected).str("origin", "ovirt").
		str("auto_pinning_policy", map[bool]string{true: "adjust", false: "disabled"}[h.CPUPinning == pinResize]).str("cpu_pinning_policy", h.CPUPinning)
	policy := el("placement_policy").str("affinity", h.PlacementAffinity)
	if len(h.PlacementHosts) > 0 {
		policy.add(refs("hosts", "host", "hosts", h.PlacementHosts))
	}
	out.add(policy)
	if len(h.CustomProperties) > 0 {
		properties := el("custom_properties")
		for _, p := range h.CustomProperties {
			properties.items(el("custom_property").str("name", p.Name).str("value", p.Value))
		}
		out.add(properties)
	}
	if full {
		out.add(el("console").flag("enabled", h.Console)).flag("soundcard_enabled", h.Soundcard)
	}
}

// merge lays the elements of a request over those that are there: lists and texts are replaced, structures are gone into.
func (e *element) merge(in *element, skip []string) {
	for _, kid := range in.kids {
		if slices.Contains(skip, kid.name) {
			continue
		}
		isList := slices.ContainsFunc(kid.kids, func(k *element) bool { return k.item })
		there := e.get(kid.name)
		switch {
		case there == nil:
			e.add(kid.clone())
		case isList || len(kid.kids) == 0:
			there.kids, there.text, there.attrs = kid.clone().kids, kid.text, kid.attrs
		default:
			there.merge(kid, nil)
		}
	}
}

// failure makes the refusals of a command, such as "Cannot add VM. ...".
type failure func(format string, args ...any) error

// changeHardware applies the elements of a request. made says that the object is new, so that what depends on its
// memory follows it.
func (c *call) changeHardware(h *hardware, in *element, made bool, home *cluster, fail failure) error {
	for path, field := range map[string]*bool{
		"soundcard_enabled": &h.Soundcard, "delete_protected": &h.DeleteProtected, "console.enabled": &h.Console,
		"memory_policy.ballooning": &h.Ballooning, "high_availability.enabled": &h.HighlyAvailable,
	} {
		if e := in.get(strings.Split(path, ".")...); e != nil && e.text != "" {
			*field = e.text == "true"
		}
	}
	h.Type = orElse(in.value("type"), h.Type)
	if os := in.value("os", "type"); os != "" {
		h.OSType = "other" // what the engine does not know it stores as this
		if catalog().osNamed(os) != nil {
			h.OSType = os
		}
	}
	if mode := in.value("cpu", "mode"); mode != "" {
		h.CPUMode = mode
	}
	if policy := in.value("cpu_pinning_policy"); policy != "" {
		h.CPUPinning = policy
	} else if policy := in.value("auto_pinning_policy"); policy != "" {
		h.CPUPinning = map[bool]string{true: pinResize, false: pinNone}[policy == "adjust"]
	}
	if err := c.changeCPU(h, in); err != nil {
		return err
	}
	if err := c.changeMemory(h, in, made, fail); err != nil {
		return err
	}
	if err := changeProperties(h, in, fail); err != nil {
		return err
	}
	if err := c.changePlacement(h, in, home, fail); err != nil {
		return err
	}
	return c.changeSettings(h, in, fail)
}

func (c *call) changeCPU(h *hardware, in *element) error {
	if in.has("cpu", "cpu_tune") && len(h.PlacementHosts) == 0 && !in.has("placement_policy", "hosts") {
		return invalid("Cannot set host CPU pinning when a host is not selected")
	}
	t := in.get("cpu", "topology")
	for name, field := range map[string]*int64{"cores": &h.CPU.Cores, "sockets": &h.CPU.Sockets, "threads": &h.CPU.Threads} {
		if t.value(name) != "" {
			*field = t.number(name)
		}
	}
	switch {
	case t == nil:
		return nil
	case h.CPU.Cores < 1:
		return conflict("Minimum number of CPU per socket cannot be less than 1")
	case h.CPU.Sockets < 1:
		return conflict("Minimum number of CPU sockets cannot be less than 1")
	case h.CPU.Threads < 1:
		return conflict("Minimum number of threads per CPU cannot be less than 1")
	case h.CPU.Threads > maxThreads:
		return conflict("Cannot add VM. Maximum number of threads per cpu exceeded")
	case h.CPU.count() > maxCPUs:
		return conflict("Cannot add VM. Maximum number of CPUs exceeded.")
	}
	return nil
}

const (
	maxThreads = 8
	maxCPUs    = 710
	// maxPlatformMiB is the largest memory of the platform.
	maxPlatformMiB = 64 << 20
)

// changeMemory applies sizes, which are cut to MiB. The maximum and what is guaranteed follow the memory of an object
// that is new, and stay where it is not.
func (c *call) changeMemory(h *hardware, in *element, made bool, fail failure) error {
	policy := in.get("memory_policy")
	asked := in.value("memory") != ""
	if asked {
		h.Memory = in.number("memory") >> 20 << 20
	}
	given := func(name string, field *int64) bool {
		if policy.value(name) == "" {
			return false
		}
		*field = policy.number(name) >> 20 << 20
		return true
	}
	if !given("max", &h.MaxMemory) && made && asked {
		h.MaxMemory = 4 * h.Memory
	}
	if !given("guaranteed", &h.GuaranteedMemory) && made && asked {
		h.GuaranteedMemory = h.Memory
	}
	const low = "must be greater than or equal to 1, Attribute: vmStatic."
	switch {
	case in.number("memory") < 0 || h.MaxMemory>>20 < 1 && in.number("memory") > 0:
		return invalid("%s", low+"maxMemorySizeMb, "+low+"maxMemorySizeMb")
	case h.Memory < 1<<20:
		return invalid("%s", low+"memSizeMb, "+low+"memSizeMb")
	case h.MaxMemory>>20 > maxPlatformMiB:
		return fail("Maximum memory (%dMB) cannot exceed platform limit (%dMB).", h.MaxMemory>>20, maxPlatformMiB)
	case h.GuaranteedMemory > h.Memory:
		return fail("Physical Memory Guaranteed cannot exceed Memory Size.")
	case h.Memory > h.MaxMemory:
		return asConflict(fail("Memory size (%dMB) cannot exceed maximum memory size (%dMB).", h.Memory>>20, h.MaxMemory>>20))
	}
	return nil
}

// asConflict makes a refusal a 409.
func asConflict(err error) error {
	if refused, ok := err.(*refusal); ok { //nolint:errorlint // made just before
		refused.status = http.StatusConflict
	}
	return err
}

// predefinedProperties are the custom properties that every engine knows, with what they may be.
const predefinedProperties = `sap_agent=^(true|false)$;sndbuf=^[0-9]+$;vhost=^(([a-zA-Z0-9_-]*):(true|false))(,(([a-zA-Z0-9_-]*):(true|false)))*$;` +
	`viodiskcache=^(none|writeback|writethrough)$;hugepages=^[0-9]+$;scsi_hostdev=^(scsi_generic|scsi_block|scsi_hd|virtio_blk_pci)$;nvram_template=^.*$;` +
	`extra_cpu_flags=^([+-]?[a-zA-Z0-9_-]+)(,[+-]?[a-zA-Z0-9_-]+)*$`

// knownProperties are the custom properties that VMs may have. mdev_type is taken although it is not told.
var knownProperties = sync.OnceValue(func() map[string]*regexp.Regexp {
	out := map[string]*regexp.Regexp{"mdev_type": regexp.MustCompile(".*")}
	for property := range strings.SplitSeq(predefinedProperties, ";") {
		name, pattern, _ := strings.Cut(property, "=")
		out[name] = regexp.MustCompile(pattern)
	}
	return out
})

// changeProperties replaces the custom properties. One without a value is passed over, and of two of a name the first counts.
func changeProperties(h *hardware, in *element, fail failure) error {
	if !in.has("custom_properties") {
		return nil
	}
	h.CustomProperties = nil
	for _, p := range in.list("custom_properties", "custom_property") {
		name, value := p.value("name"), p.value("value")
		legal := knownProperties()[name]
		switch {
		case legal == nil:
			return withoutStop(fail("if some of the specified custom properties are not configured by the system. The keys are: %s", name))
		case value == "" || slices.ContainsFunc(h.CustomProperties, func(other property) bool { return other.Name == name }):
			continue
		case !legal.MatchString(value):
			return withoutStop(fail("if some of the specified custom properties have illegal values. The keys are: %s", name))
		}
		h.CustomProperties = append(h.CustomProperties, property{name, value})
	}
	return nil
}

// withoutStop takes the full stop behind "Cannot add VM" away, for messages that go on in the sentence.
func withoutStop(err error) error {
	if refused, ok := err.(*refusal); ok { //nolint:errorlint // made just before
		refused.detail = strings.Replace(refused.detail, "VM. if", "VM if", 1)
	}
	return err
}

// changePlacement applies a placement policy, which says anew which hosts there are, also by naming none.
func (c *call) changePlacement(h *hardware, in *element, home *cluster, fail failure) error {
	policy := in.get("placement_policy")
	if policy == nil {
		return nil
	}
	h.PlacementAffinity = orElse(policy.value("affinity"), h.PlacementAffinity)
	h.PlacementHosts = nil
	for _, e := range policy.list("hosts", "host") {
		if err := checkRef(e); err != nil {
			return err
		}
		found := referred(c.store.hosts, e, func(h *host) string { return h.Name })
		if found == nil || home != nil && found.Cluster != home.ID {
			return asConflict(fail("VM is pinned to a specific host. The required host doesn't exist."))
		}
		h.PlacementHosts = append(h.PlacementHosts, found.ID)
	}
	return nil
}

// lease is the storage domain on which a lease of the VM is; empty where it has none.
func (h *hardware) lease() string { return refID(h.Settings.get("lease", "storage_domain")) }

// changeLease checks a lease. With one, a VM is always killed when its storage fails, also after the lease was taken away.
func (c *call) changeLease(h *hardware, in *element, fail failure) error {
	if h.lease() == "" {
		h.Settings.kids = slices.DeleteFunc(h.Settings.kids, func(e *element) bool { return e.name == "lease" })
		return nil
	}
	switch {
	case c.store.storageDomains.get(h.lease()) == nil:
		return fail("Storage Domain doesn't exist.")
	case in.has("lease") && !h.HighlyAvailable:
		return asConflict(fail("A VM lease was defined but high availability option is set to false."))
	}
	h.Settings.get("lease").kids = []*element{ref("storage_domain", "storagedomains", h.lease())}
	h.Settings.put("kill", "storage_error_resume_behaviour")
	return nil
}

// changeSettings lays the passive elements of a request over those that are there.
func (c *call) changeSettings(h *hardware, in *element, fail failure) error {
	h.Settings = h.Settings.clone()
	for _, name := range settingNames {
		e := in.get(name)
		if e == nil {
			continue
		}
		passive := without(e, typedSettings[name])
		if len(passive.kids) < len(e.kids) && len(passive.kids) == 0 {
			continue // only what is kept elsewhere was sent
		}
		h.Settings.merge(el("vm").add(passive), nil)
	}
	if in.yes("stateless") && !h.Settings.has("use_latest_template_version") {
		h.Settings.flag("use_latest_template_version", false)
	}
	if kind := in.value("display", "type"); kind != "" && in.value("display", "video_type") == "" {
		h.Settings.put(map[string]string{"vnc": "bochs", "spice": "qxl"}[kind], "display", "video_type")
	}
	if priority := h.Settings.number("high_availability", "priority"); priority < 0 || priority > 100 {
		return invalid("VM priority value passed the permitted max value, value should be between 0 and 100.")
	}
	if err := c.changeLease(h, in, fail); err != nil {
		return err
	}
	zone := h.Settings.value("time_zone", "name")
	region, _, isGeneral := strings.Cut(zone, "/")
	isGeneral = isGeneral && slices.Contains(timeZoneRegions, region)
	windows := strings.HasPrefix(h.OSType, "windows")
	if (in.has("time_zone") || in.has("os", "type")) && (windows && isGeneral || !windows && !isGeneral) {
		return invalid("%s", strings.TrimSuffix(strings.TrimPrefix(fail("Invalid time zone for given OS type.").Error(), "["), "]")+", Attribute: vmStatic")
	}
	if in.yes("tpm_enabled") && !catalog().tpm(h.OSType) {
		return fail("TPM device is not supported on 'x86_64' architecture, or for the guest OS, or UEFI firmware is not enabled, " +
			"or insufficient compatibility level (4.6 required by default).")
	}
	return nil
}

// timeZoneRegions are the first parts of the time zones of guests that are not Windows.
var timeZoneRegions = []string{"Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Etc", "Europe", "Indian", "Pacific"}

// without is a copy of a structure that lacks some of its elements.
func without(e *element, names []string) *element {
	out := e.clone()
	out.kids = slices.DeleteFunc(out.kids, func(kid *element) bool { return slices.Contains(names, kid.name) })
	return out
}

// resize applies an instance type: its sizes win over those of the request, whose memory still decides the maximum. It has no
// sound card; that a request can ask for one all the same is not recorded.
func (h *hardware) resize(t *instanceType, in *element) {
	asked := h.MaxMemory
	h.Memory, h.GuaranteedMemory, h.CPU = t.Memory, t.Memory, t.CPU
	h.Soundcard = in.yes("soundcard_enabled")
	h.MaxMemory = max(asked, 4*t.Memory)
	h.Settings.put("0", "io", "threads")
}
