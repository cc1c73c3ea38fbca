package api

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains VMs as objects: it shows, creates, changes and removes them. The file life.go contains the life of
// VMs.

var vmRoutes = []route{
	{"GET", "/vms", listVMs},
	{"POST", "/vms", addVM},
	{"GET", "/vms/{vm}", getVM},
	{"PUT", "/vms/{vm}", updateVM},
	{"DELETE", "/vms/{vm}", removeVM},
	{"GET", "/vms/{vm}/applications", requireVM(listNothing("applications"))},
	{"GET", "/vms/{vm}/backups", listNothing("backups")},
	{"GET", "/vms/{vm}/checkpoints", listNothing("checkpoints")},
	{"GET", "/vms/{vm}/katelloerrata", listNothing("katello_errata")},
	{"GET", "/vms/{vm}/nics/{id}/networkfilterparameters", listNothing("network_filter_parameters")},
	{"GET", "/vms/{vm}/permissions", permissionsOf("vm", "vms", "vm")},
	{"GET", "/vms/{vm}/sessions", listNothing("sessions")},
	{"GET", "/vms/{vm}/statistics", vmStatistics},
	{"GET", "/vms/{vm}/statistics/{id}", readItem(vmStatistics)},
}

// describeDisplay adds the address of a VM's console to a document.
func (c *call) describeDisplay(v *store.VM, out *wire.Element) {
	if len(v.Consoles) == 0 {
		out.Kids = slices.DeleteFunc(out.Kids, func(e *wire.Element) bool { return e.Name == "display" })
		return
	}

	out.SetText(v.Consoles[0].Protocol, "display", "type")
	h := c.store.Hosts.Get(v.Host)
	if h == nil {
		return
	}

	out.SetText(h.Address, "display", "address").SetText("5900", "display", "port")
	certificate := wire.El("certificate").Str("content", string(c.settings.CA)).Str("organization", "ovirtsim").
		Str("subject", "O=ovirtsim,CN="+h.Address)
	out.Get("display").Add(certificate)
}

func vmDocument(c *call, v *store.VM) *wire.Element {
	shown, full := v.Hardware, c.allContent()

	// The response shows the VM as it is after its next start.
	if v.Next != nil && (c.flagParam("next_run") || c.query.Get("current") == "false") {
		shown = *v.Next
		keepDevices(&shown, &v.Hardware)
	}

	out := wire.NewObject("vm", v.ID, "vms", v.ID).Str("name", v.Name).Str("description", v.Description).
		Str("comment", v.Comment)
	describeHardware(&shown, out, "x86_64", full)
	if out.Value("bios", "type") == "" {
		out.SetText("q35_ovmf", "bios", "type")
	}

	large, small := c.iconRefs(strings.SplitN(v.OSType, "_", 2)[0])
	out.Str("creation_time", formatTime(v.Created)).Add(large, small, wire.Ref("cluster", "clusters", v.Cluster)).
		Add(wire.Ref("cpu_profile", "cpuprofiles", c.store.CPUProfileID(v.Cluster))).
		Add(wire.El("quota").SetAttr("id", c.store.QuotaID(v.Cluster))).
		Flag("next_run_configuration_exists", v.Next != nil).Str("status", v.Status)
	c.describeDisplay(v, out)
	if v.Host != "" {
		out.Flag("run_once", v.OnceRun).Str("start_time", formatTime(v.Started)).Add(wire.Ref("host", "hosts", v.Host))
	} else {
		out.Str("stop_time", formatTime(cmp.Or(v.Stopped, v.Created)))
		if v.StopReason != nil {
			out.Str("stop_reason", *v.StopReason)
		}
	}

	if len(v.Report.Interfaces) > 0 {
		if v.Report.FQDN != "" {
			out.Str("fqdn", v.Report.FQDN)
		}

		out.Add(guestSystem()...)
	}

	initialization := shownInitialization(v.Initialization)
	if full {
		initialization = cmp.Or(initialization, wire.El("initialization"))
		initialization.Add(wire.El("configuration").Str("data", c.buildOVF(v)).Str("type", "ovf"))
	}

	original := v.Original
	if c.store.Templates.Get(original) == nil {
		original = store.BlankTemplateID
	}

	out.Add(initialization, wire.Ref("original_template", "templates", original),
		wire.Ref("template", "templates", v.Template), wire.Ref("instance_type", "instancetypes", v.InstanceType))
	if c.filtered { // not everyone may see the VM's host
		out.Kids = slices.DeleteFunc(out.Kids, func(e *wire.Element) bool {
			return e.Name == "host" ||
				e.Name == "placement_policy"
		})
	}

	return out
}

// keepDevices replaces devices in the shown hardware by the VM's present devices. An engine reads devices from a table
// that the next start updates. It shows pending devices only in the OVF. A recording confirms this for the sound card
// and the console. For other devices, it follows the engine's sources.
func keepDevices(shown, now *store.Hardware) {
	shown.Console, shown.Soundcard = now.Console, now.Soundcard
	shown.Settings = shown.Settings.Clone()

	for _, name := range store.Costly {
		shown.Settings.ReplaceKid(name, now.Settings.Get(name).Clone())
	}
}

// guestSystem returns the guest agent's report about the guest's system.
func guestSystem() []*wire.Element {
	kernel := wire.El("kernel").
		Add(wire.El("version").Num("build", 0).Str("full_version", "5.15.0-sim.el9").Num("major", 5).Num("minor", 15))

	return []*wire.Element{
		wire.El("guest_operating_system").Str("architecture", "x86_64").Str("codename", "").
			Str("distribution", "Oracle Linux Server").Str("family", "Linux").
			Add(kernel, wire.El("version").Str("full_version", "9").Num("major", 9)),
		wire.El("guest_time_zone").Str("name", "UTC").Str("utc_offset", "+00:00"),
	}
}

// buildOVF returns the OVF of a VM with its pending configuration, for full responses. The OVF also contains the user
// data.
func (s *Engine) buildOVF(v *store.VM) string {
	const snapshots = "ovf:SnapshotsSection_Type"
	saved := func(id, kind, text string, date time.Time) *wire.Element {
		return wire.El("Snapshot").SetAttr("ovf:id", id).Str("Type", kind).Str("Description", text).
			Str("CreationDate", ovfDate(date))
	}
	active := s.store.ActiveSnapshot(v)
	section := wire.El("Section").SetAttr("xsi:type", snapshots).
		Add(saved(active.ID, "ACTIVE", active.Description, active.Date))

	if v.Next != nil {
		next := base64.StdEncoding.EncodeToString([]byte(s.buildEnvelope(v, v.Next, nil)))
		section.Add(saved(s.store.IDOf("", "next run", v.ID), "NEXT_RUN", "Next Run configuration snapshot", v.Started).
			Str("VmConfiguration", next))
	}

	return s.buildEnvelope(v, &v.Hardware, section)
}

func ovfDate(t time.Time) string { return t.UTC().Format("2006/01/02 15:04:05") }

// buildEnvelope returns the OVF of a VM with the given hardware. The OVF contains only those devices that a request can
// switch on or off.
func (s *Engine) buildEnvelope(v *store.VM, h *store.Hardware, more *wire.Element) string {
	content := wire.El("Content").Str("Name", v.Name).Str("Description", v.Description).Str("Comment", v.Comment).
		Str("CreationDate", ovfDate(v.Created)).
		Str("ClusterName", s.store.ClusterName(v.Cluster)).Str("TemplateId", v.Template).Str("VmType", h.Type).
		Num("MinAllocatedMem", h.GuaranteedMemory>>20).
		Num("MaxMemorySizeMb", h.MaxMemory>>20).Num("NumOfCpus", h.CPU.CountCPUs())
	if script := v.Initialization.Value("custom_script"); script != "" {
		content.Add(
			wire.El("VmInit").
				SetAttr("ovf:customScript", script).
				SetAttr("ovf:hostname", v.Initialization.Value("host_name")),
		)
	}

	hardware := wire.El("Section").SetAttr("xsi:type", "ovf:VirtualHardwareSection_Type").
		Str("Info", fmt.Sprintf("%d CPU, %d Memory", h.CPU.CountCPUs(), h.Memory>>20))

	for _, device := range []struct {
		kind string
		has  bool
	}{
		{"sound", h.Soundcard}, {"console", h.Console}, {"tpm", h.Settings.IsTrue("tpm_enabled")},
	} {
		if device.has {
			hardware.Add(wire.El("Item").Str("Type", device.kind).Str("IsPlugged", "true"))
		}
	}

	var out strings.Builder
	out.WriteString(`<?xml version="1.0" encoding="UTF-8"?>`)
	text, _ := wire.El("ovf:Envelope").SetAttr("xmlns:ovf", "http://schemas.dmtf.org/ovf/envelope/1/").
		SetAttr("xmlns:xsi", "http://www.w3.org/2001/XMLSchema-instance").
		SetAttr("ovf:version", "4.4.0.0").Add(content.Add(hardware, more)).MarshalText()
	out.Write(text)

	return out.String()
}

func vmFields(c *call) fields[*store.VM] {
	s := c.store

	return fields[*store.VM]{
		"name":        singleValue(func(v *store.VM) string { return v.Name }),
		"id":          singleValue(func(v *store.VM) string { return v.ID }),
		"status":      singleValue(func(v *store.VM) string { return v.Status }),
		"description": singleValue(func(v *store.VM) string { return v.Description }),
		"comment":     singleValue(func(v *store.VM) string { return v.Comment }),
		"cluster":     singleValue(func(v *store.VM) string { return s.ClusterName(v.Cluster) }),
		"datacenter":  singleValue(func(v *store.VM) string { return s.DataCenterName(s.DataCenterOf(v.Cluster)) }),
		"host":        singleValue(func(v *store.VM) string { return s.HostName(v.Host) }),
		"hosts.name":  singleValue(func(v *store.VM) string { return s.HostName(v.Host) }),
		"os":          singleValue(func(v *store.VM) string { return v.OSType }),
		"type":        singleValue(func(v *store.VM) string { return v.Type }),
		"memory":      singleValue(func(v *store.VM) string { return strconv.FormatInt(v.Memory>>20, 10) }),
		"template": singleValue(func(v *store.VM) string {
			if t := s.Templates.Get(v.Original); t != nil {
				return t.Name
			}

			return "Blank"
		}),
		"ip": func(v *store.VM) []string { return v.ReportedAddresses() },
		"tag": func(v *store.VM) []string {
			var names []string

			for _, t := range s.Tags.Rows {
				if slices.Contains(t.VMs, v.ID) {
					names = append(names, s.TagLine(t)...) // a tag includes its ancestors
				}
			}

			return names
		},
	}
}

func listVMs(c *call) (*wire.Element, error) {
	return answerList(c, "vms", c.store.VMs.Where(nil, store.VMKey), vmFields(c), vmDocument)
}

func (c *call) findVM() (*store.VM, error) { return findRow(c.store.VMs, c.pathID("vm")) }

func getVM(c *call) (*wire.Element, error) {
	v, err := c.findVM()
	if err != nil {
		return nil, err
	}

	return vmDocument(c, v), nil
}

// findReferred finds the object to which an element refers by ID or name.
func findReferred[T any](t *store.Table[T], e *wire.Element, name func(*T) string) *T {
	if id := wire.RefID(e); id != "" {
		return t.Get(id)
	}

	want := e.Value("name")
	if want == "" {
		return nil
	}

	for _, id := range wire.SortedKeys(t.Rows) { // sorted, so the same request always has the same effect
		if row := t.Rows[id]; name(row) == want {
			return row
		}
	}

	return nil
}

// maxVMName is the maximum number of characters in a VM's name.
const maxVMName = 64

// checkNames rejects invalid names and descriptions of VMs.
func checkNames(in *wire.Element, kind, attribute string, longest int, fail failure) error {
	name := in.Value("name")
	switch length := utf8.RuneCountInString(name); {
	case !in.Has("name"):
	case length < 1 || length > 255:
		return wire.Invalid("size must be between 1 and 255, Attribute: %s.name", attribute)
	case !store.IsPlainName(name):
		return wire.Invalid(
			"Can not add %s. The given name contains special characters. Only lower-case and upper-case letters, "+
				"numbers, '_', '-', '.' are allowed., Attribute: %s.name",
			kind,
			attribute,
		)
	case length > longest:
		return fail("The given name is too long.")
	}

	description := in.Value("description")

	isWord := func(c rune) bool { return c <= unicode.MaxASCII || unicode.IsLetter(c) || unicode.IsMark(c) }
	switch {
	case utf8.RuneCountInString(description) > 255:
		return wire.Invalid("size must be between 0 and 255, Attribute: %s.description", attribute)
	case strings.IndexFunc(description, func(c rune) bool { return !isWord(c) }) >= 0:
		return fail(
			"The given description contains special characters.\nOnly alpha-numeric and some special characters "+
				"that conform to the standard ASCII character set are allowed., Attribute: %s.description",
			attribute,
		)
	}

	return nil
}

// commandOn returns a function that creates the refusals of a command.
func commandOn(command string) failure {
	return func(format string, args ...any) error {
		return wire.Invalid("%s", "Cannot "+command+". "+fmt.Sprintf(format, args...))
	}
}

// checkVMName rejects a VM's name if another VM in the data center has it.
func (c *call) checkVMName(v *store.VM, command string) error {
	center := c.store.DataCenterOf(v.Cluster)
	for _, other := range c.store.VMs.Rows {
		if other.ID != v.ID && other.Name == v.Name && c.store.DataCenterOf(other.Cluster) == center {
			return wire.Conflict("Cannot %s. The VM name is already in use, please choose a unique name and try again.",
				command)
		}
	}

	return nil
}

// clusterOf returns the cluster to which a request refers.
func (c *call) clusterOf(e *wire.Element) (*store.Cluster, error) {
	if err := checkRef(e); err != nil {
		return nil, err
	}

	found := findReferred(c.store.Clusters, e, func(g *store.Cluster) string { return g.Name })
	switch {
	case found != nil:
		return found, nil
	case wire.RefID(e) != "":
		return nil, wire.EntityNotFound("GetClusterById")
	default:
		return nil, wire.EntityNotFound("Cluster: name=" + e.Value("name"))
	}
}

// templateFor returns the template to which an element refers. For a name, it returns the newest version in the data
// center.
func (c *call) templateFor(e *wire.Element, dataCenterID string) *store.Template {
	if id := wire.RefID(e); id != "" {
		return c.store.Templates.Get(id)
	}

	var newest *store.Template
	for _, t := range c.store.Templates.Where(nil, store.TemplateKey) {
		if t.Name == e.Value("name") && (t.DataCenter == "" || t.DataCenter == dataCenterID) &&
			(newest == nil || t.Version > newest.Version) {
			newest = t
		}
	}

	return newest
}

// findInstanceType returns the instance type to which a request refers, or nil.
func (c *call) findInstanceType(in *wire.Element) (*store.InstanceType, error) {
	e := in.Get("instance_type")
	if e == nil {
		return nil, nil
	}

	if wire.RefID(e) == "" { // a reference by name: the engine accepts it and then fails
		return nil, wire.BrokenPage()
	}

	if err := checkRef(e); err != nil {
		return nil, err
	}

	if found := c.store.InstanceTypes.Get(wire.RefID(e)); found != nil {
		return found, nil
	}

	return nil, wire.EntityNotFound("GetInstanceType") // from the engine's sources
}

// memoryStep is the step size for an increase of a running VM's memory, in bytes.
const memoryStep = 128 << 20

// StatusRemoved is the target status of a VM or a disk during its removal.
const StatusRemoved = "removed"

// atLeast reports whether the engine has at least the given version.
func (s *Engine) atLeast(version ...int) bool {
	for i, part := range strings.Split(s.version, ".") {
		n, _ := strconv.Atoi(part)
		if i >= len(version) || n > version[i] {
			return true
		}

		if n < version[i] {
			return false
		}
	}

	return true
}
