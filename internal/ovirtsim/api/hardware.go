package api

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

func topologyElement(t store.Topology) *wire.Element {
	return wire.El("topology").Num("cores", t.Cores).Num("sockets", t.Sockets).Num("threads", t.Threads)
}

// describeHardware adds hardware to a document. For a template, it omits the defaults of the cluster. The architecture
// is the CPU's; full requests all elements.
func describeHardware(h *store.Hardware, out *wire.Element, architecture string, full bool) {
	for _, e := range h.Settings.Kids {
		if full || !slices.Contains(store.Costly, e.Name) {
			out.Add(e.Clone())
		}
	}

	out.SetText(strconv.FormatBool(h.HighlyAvailable), "high_availability", "enabled")
	out.SetText(h.OSType, "os", "type")
	cpu := wire.El("cpu").Str("architecture", architecture)
	if h.CPUMode == "host_passthrough" {
		cpu.Str("mode", h.CPUMode)
	}

	out.Add(cpu.Add(topologyElement(h.CPU))).Num("memory", h.Memory).
		Add(wire.El("memory_policy").Flag("ballooning", h.Ballooning).Num("guaranteed", h.GuaranteedMemory).
			Num("max", h.MaxMemory)).
		Str("type", h.Type).Flag("delete_protected", h.DeleteProtected).Str("origin", "ovirt").
		Str("auto_pinning_policy", map[bool]string{
			true:  "adjust",
			false: "disabled",
		}[h.CPUPinning == store.PinResize]).Str("cpu_pinning_policy", h.CPUPinning)
	policy := wire.El("placement_policy").Str("affinity", h.PlacementAffinity)
	if len(h.PlacementHosts) > 0 {
		policy.Add(wire.Refs("hosts", "host", "hosts", h.PlacementHosts))
	}

	out.Add(policy)
	if len(h.CustomProperties) > 0 {
		properties := wire.El("custom_properties")
		for _, p := range h.CustomProperties {
			properties.AddItems(wire.El("custom_property").Str("name", p.Name).Str("value", p.Value))
		}

		out.Add(properties)
	}

	if full {
		out.Add(wire.El("console").Flag("enabled", h.Console)).Flag("soundcard_enabled", h.Soundcard)
	}
}

// failure creates the errors of a refused command, such as "Cannot add VM. ...".
type failure func(format string, args ...any) error

// changeHardware applies the elements of a request to hardware. For a new object (made), values derived from the memory
// size follow a change of the memory size.
func (c *call) changeHardware(h *store.Hardware, in *wire.Element, made bool, home *store.Cluster, fail failure) error {
	for path, field := range map[string]*bool{
		"soundcard_enabled": &h.Soundcard, "delete_protected": &h.DeleteProtected, "console.enabled": &h.Console,
		"memory_policy.ballooning": &h.Ballooning, "high_availability.enabled": &h.HighlyAvailable,
	} {
		if e := in.Get(strings.Split(path, ".")...); e != nil && e.Text != "" {
			*field = e.Text == "true"
		}
	}

	h.Type = cmp.Or(in.Value("type"), h.Type)
	if os := in.Value("os", "type"); os != "" {
		h.OSType = "other" // the engine stores unknown values as "other"
		if catalog().osNamed(os) != nil {
			h.OSType = os
		}
	}

	if mode := in.Value("cpu", "mode"); mode != "" {
		h.CPUMode = mode
	}

	if policy := in.Value("cpu_pinning_policy"); policy != "" {
		h.CPUPinning = policy
	} else if policy := in.Value("auto_pinning_policy"); policy != "" {
		h.CPUPinning = map[bool]string{true: store.PinResize, false: store.PinNone}[policy == "adjust"]
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

func (c *call) changeCPU(h *store.Hardware, in *wire.Element) error {
	if in.Has("cpu", "cpu_tune") && len(h.PlacementHosts) == 0 && !in.Has("placement_policy", "hosts") {
		return wire.Invalid("Cannot set host CPU pinning when a host is not selected")
	}

	t := in.Get("cpu", "topology")
	for name, field := range map[string]*int64{
		"cores":   &h.CPU.Cores,
		"sockets": &h.CPU.Sockets,
		"threads": &h.CPU.Threads,
	} {
		if t.Value(name) != "" {
			*field = t.Number(name)
		}
	}

	switch {
	case t == nil:
		return nil
	case h.CPU.Cores < 1:
		return wire.Conflict("Minimum number of CPU per socket cannot be less than 1")
	case h.CPU.Sockets < 1:
		return wire.Conflict("Minimum number of sockets cannot be less then 1")
	case h.CPU.Threads < 1:
		return wire.Conflict("Minimum number of threads per CPU cannot be less than 1")
	case h.CPU.Threads > maxThreads:
		return wire.Conflict("Cannot add VM. Maximum number of threads per cpu exceeded")
	case h.CPU.CountCPUs() > maxCPUs:
		return wire.Conflict("Cannot add VM. Maximum number of CPUs exceeded.")
	}

	return nil
}

const (
	maxThreads = 8
	maxCPUs    = 710
	// maxPlatformMiB is the platform's memory limit in MiB.
	maxPlatformMiB = 64 << 20
)

// changeMemory applies memory sizes, rounded down to MiB. For a new object, the maximum and the guaranteed memory
// follow the memory size. For an existing object, they stay unchanged.
func (c *call) changeMemory(h *store.Hardware, in *wire.Element, made bool, fail failure) error {
	policy := in.Get("memory_policy")
	asked := in.Value("memory") != ""
	if asked {
		h.Memory = in.Number("memory") >> 20 << 20
	}

	given := func(name string, field *int64) bool {
		if policy.Value(name) == "" {
			return false
		}

		*field = policy.Number(name) >> 20 << 20

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
	case in.Number("memory") < 0 || h.MaxMemory>>20 < 1 && in.Number("memory") > 0:
		return wire.Invalid("%s", low+"maxMemorySizeMb, "+low+"maxMemorySizeMb")
	case h.Memory < 1<<20:
		return wire.Invalid("%s", low+"memSizeMb, "+low+"memSizeMb")
	case h.MaxMemory>>20 > maxPlatformMiB:
		return fail("Maximum memory (%dMB) cannot exceed platform limit (%dMB).", h.MaxMemory>>20, maxPlatformMiB)
	case h.GuaranteedMemory > h.Memory:
		return fail("Physical Memory Guaranteed cannot exceed Memory Size.")
	case h.Memory > h.MaxMemory:
		return asConflict(
			fail("Memory size (%dMB) cannot exceed maximum memory size (%dMB).", h.Memory>>20, h.MaxMemory>>20),
		)
	}

	return nil
}

// asConflict changes the status of a refusal to 409.
func asConflict(err error) error {
	if refused, ok := err.(*wire.Refusal); ok { //nolint:errorlint // made just before
		refused.Status = http.StatusConflict
	}

	return err
}

// predefinedProperties are the custom properties known to every engine, with the patterns of their values.
const predefinedProperties = `sap_agent=^(true|false)$;sndbuf=^[0-9]+$;` +
	`vhost=^(([a-zA-Z0-9_-]*):(true|false))(,(([a-zA-Z0-9_-]*):(true|false)))*$;` +
	`viodiskcache=^(none|writeback|writethrough)$;hugepages=^[0-9]+$;` +
	`scsi_hostdev=^(scsi_generic|scsi_block|scsi_hd|virtio_blk_pci)$;nvram_template=^.*$;` +
	`extra_cpu_flags=^([+-]?[a-zA-Z0-9_-]+)(,[+-]?[a-zA-Z0-9_-]+)*$`

// knownProperties are the custom properties available to VMs. They include mdev_type, because the engine accepts this
// property without listing it.
var knownProperties = sync.OnceValue(func() map[string]*regexp.Regexp {
	out := map[string]*regexp.Regexp{"mdev_type": regexp.MustCompile(".*")}

	for property := range strings.SplitSeq(predefinedProperties, ";") {
		name, pattern, _ := strings.Cut(property, "=")
		out[name] = regexp.MustCompile(pattern)
	}

	return out
})

// changeProperties replaces the custom properties of the hardware. It ignores properties without a value. Of several
// properties with one name, it uses the first.
func changeProperties(h *store.Hardware, in *wire.Element, fail failure) error {
	if !in.Has("custom_properties") {
		return nil
	}

	h.CustomProperties = nil

	for _, p := range in.List("custom_properties", "custom_property") {
		name, value := p.Value("name"), p.Value("value")

		legal := knownProperties()[name]
		switch {
		case legal == nil:
			return withoutStop(
				fail(
					"if some of the specified custom properties are not configured by the system. The keys are: %s",
					name,
				),
			)
		case value == "" ||
			slices.ContainsFunc(h.CustomProperties, func(other store.Property) bool { return other.Name == name }):
			continue
		case !legal.MatchString(value):
			return withoutStop(
				fail("if some of the specified custom properties have illegal values. The keys are: %s", name),
			)
		}

		h.CustomProperties = append(h.CustomProperties, store.Property{Name: name, Value: value})
	}

	return nil
}

// withoutStop removes the period after "Cannot add VM" for messages that continue the sentence.
func withoutStop(err error) error {
	if refused, ok := err.(*wire.Refusal); ok { //nolint:errorlint // made just before
		refused.Detail = strings.Replace(refused.Detail, "VM. if", "VM if", 1)
	}

	return err
}

// changePlacement applies a placement policy. It replaces the set of hosts, even with an empty set.
func (c *call) changePlacement(h *store.Hardware, in *wire.Element, home *store.Cluster, fail failure) error {
	policy := in.Get("placement_policy")
	if policy == nil {
		return nil
	}

	h.PlacementAffinity = cmp.Or(policy.Value("affinity"), h.PlacementAffinity)
	h.PlacementHosts = nil

	for _, e := range policy.List("hosts", "host") {
		if err := checkRef(e); err != nil {
			return err
		}

		found := findReferred(c.store.Hosts, e, func(h *store.Host) string { return h.Name })
		if found == nil || home != nil && found.Cluster != home.ID {
			return asConflict(fail("VM is pinned to a specific host. The required host doesn't exist."))
		}

		h.PlacementHosts = append(h.PlacementHosts, found.ID)
	}

	return nil
}

// changeLease checks and applies a lease. A lease makes the engine kill the VM on a storage failure, even after the
// lease is removed.
func (c *call) changeLease(h *store.Hardware, in *wire.Element, fail failure) error {
	if given := h.Settings.Get("lease", "storage_domain"); given.Has("name") && h.LeaseDomain() == "" {
		domain := findReferred(c.store.StorageDomains, given, func(d *store.StorageDomain) string { return d.Name })
		if domain == nil {
			return fail("Storage Domain doesn't exist.")
		}

		given.SetAttr("id", domain.ID)
	}

	if h.LeaseDomain() == "" {
		h.Settings.Kids = slices.DeleteFunc(h.Settings.Kids, func(e *wire.Element) bool { return e.Name == "lease" })
		return nil
	}

	switch {
	case c.store.StorageDomains.Get(h.LeaseDomain()) == nil:
		return fail("Storage Domain doesn't exist.")
	case in.Has("lease") && !h.HighlyAvailable:
		return asConflict(fail("A VM lease was defined but high availability option is set to false."))
	}

	h.Settings.Get("lease").Kids = []*wire.Element{wire.Ref("storage_domain", "storagedomains", h.LeaseDomain())}
	h.Settings.SetText("kill", "storage_error_resume_behaviour")

	return nil
}

// changeSettings merges the elements of a request without a field of their own into the existing settings.
func (c *call) changeSettings(h *store.Hardware, in *wire.Element, fail failure) error {
	h.Settings = h.Settings.Clone()

	for _, name := range store.SettingNames {
		e := in.Get(name)
		if e == nil {
			continue
		}

		passive := withoutElements(e, store.TypedSettings[name])
		if len(passive.Kids) < len(e.Kids) && len(passive.Kids) == 0 {
			continue // other fields store all parts of this element
		}

		h.Settings.MergeRequest(wire.El("vm").Add(passive), nil)
	}

	if in.IsTrue("stateless") && !h.Settings.Has("use_latest_template_version") {
		h.Settings.Flag("use_latest_template_version", false)
	}

	if kind := in.Value("display", "type"); kind != "" && in.Value("display", "video_type") == "" {
		h.Settings.SetText(map[string]string{"vnc": "bochs", "spice": "qxl"}[kind], "display", "video_type")
	}

	if priority := h.Settings.Number("high_availability", "priority"); priority < 0 || priority > 100 {
		return wire.Invalid("VM priority value passed the permitted max value, value should be between 0 and 100.")
	}

	if err := c.changeLease(h, in, fail); err != nil {
		return err
	}

	zone := h.Settings.Value("time_zone", "name")
	region, _, isGeneral := strings.Cut(zone, "/")
	isGeneral = isGeneral && slices.Contains(timeZoneRegions, region)
	windows := strings.HasPrefix(h.OSType, "windows")
	if (in.Has("time_zone") || in.Has("os", "type")) && (windows && isGeneral || !windows && !isGeneral) {
		return wire.Invalid(
			"%s",
			strings.TrimSuffix(
				strings.TrimPrefix(fail("Invalid time zone for given OS type.").Error(), "["),
				"]",
			)+", Attribute: vmStatic",
		)
	}

	firmware := h.Settings.Value("bios", "type") // an empty type means the cluster's type, UEFI
	legacy := strings.HasSuffix(firmware, "_sea_bios")
	if in.IsTrue("tpm_enabled") && (legacy || !catalog().supportsTPM(h.OSType)) {
		return fail(
			"TPM device is not supported on 'x86_64' architecture, or for the guest OS, or UEFI " +
				"firmware is not enabled, " +
				"or insufficient compatibility level (4.6 required by default).",
		)
	}

	return nil
}

// timeZoneRegions are the first parts of the names of time zones, for guests other than Windows.
var timeZoneRegions = []string{
	"Africa",
	"America",
	"Antarctica",
	"Arctic",
	"Asia",
	"Atlantic",
	"Australia",
	"Etc",
	"Europe",
	"Indian",
	"Pacific",
}

// withoutElements returns a copy of an element without the named child elements.
func withoutElements(e *wire.Element, names []string) *wire.Element {
	out := e.Clone()
	out.Kids = slices.DeleteFunc(out.Kids, func(kid *wire.Element) bool { return slices.Contains(names, kid.Name) })
	return out
}
