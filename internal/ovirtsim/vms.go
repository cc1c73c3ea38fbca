package ovirtsim

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file has VMs as objects: how they look, and how they are made, changed and removed. Their life is in life.go.

func topologyElement(t topology) *element {
	return el("topology").num("cores", t.Cores).num("sockets", t.Sockets).num("threads", t.Threads)
}

func cpuElement(mode string, t topology) *element {
	return el("cpu").str("architecture", "x86_64").opt("mode", mode).add(topologyElement(t))
}

func (t topology) count() int64 { return t.Cores * t.Sockets * t.Threads }

func vmDocument(c *call, v *vm) *element {
	if c.query.Get("current") == "false" || c.flagParam("next_run") { // as it will be after its next start
		next := *v
		if v.NextMemory != 0 {
			next.Memory, next.GuaranteedMemory = v.NextMemory, min(v.GuaranteedMemory, v.NextMemory)
		}
		if v.NextCPU.Cores != 0 {
			next.CPU = v.NextCPU
		}
		v = &next
	}
	out := object("vm", v.ID, "vms", v.ID).
		links("affinitylabels", "applications", "cdroms", "diskattachments", "graphicsconsoles", "hostdevices", "nics", "numanodes", "permissions", "reporteddevices", "sessions", "snapshots", "statistics", "tags", "watchdogs").
		actions("autopincpuandnumanodes", "detach", "migrate", "reboot", "reset", "shutdown", "start", "stop", "suspend", "ticket").
		str("name", v.Name).str("description", v.Description).str("comment", v.Comment).
		add(cpuElement(v.CPUMode, v.CPU)).num("memory", v.Memory).
		add(el("memory_policy").flag("ballooning", v.Ballooning).num("guaranteed", v.GuaranteedMemory).num("max", v.MaxMemory)).
		add(el("os").str("type", v.OSType)).str("type", v.Type).
		flag("delete_protected", v.DeleteProtected).add(el("high_availability").flag("enabled", v.HighlyAvailable).num("priority", 1)).
		str("origin", "ovirt").flag("next_run_configuration_exists", v.NextMemory != 0 || v.NextCPU.Cores != 0).flag("run_once", false).flag("stateless", false).
		str("creation_time", stamp(v.Created)).str("status", v.Status).opt("stop_reason", v.StopReason)
	if !v.Started.IsZero() {
		out.str("start_time", stamp(v.Started))
	}
	if !v.Stopped.IsZero() {
		out.str("stop_time", stamp(v.Stopped))
	}
	if len(v.CustomProperties) > 0 {
		properties := el("custom_properties")
		for _, p := range v.CustomProperties {
			properties.items(el("custom_property").str("name", p.Name).str("value", p.Value))
		}
		out.add(properties)
	}
	policy := el("placement_policy").str("affinity", orElse(v.PlacementAffinity, "migratable"))
	if len(v.PlacementHosts) > 0 {
		policy.add(refs("hosts", "host", "hosts", v.PlacementHosts))
	}
	out.add(policy).opt("auto_pinning_policy", v.AutoPinning)
	if len(v.Consoles) > 0 {
		display := el("display").str("type", v.Consoles[0].Protocol)
		if h := c.store.hosts.get(v.Host); h != nil {
			display.str("address", h.Address).num("port", 5900)
		}
		out.add(display.num("monitors", 1))
	}
	full := c.allContent()
	for _, e := range v.Kept {
		if full || !costly[e.name] {
			out.add(e.clone())
		}
	}
	if full {
		out.add(el("console").flag("enabled", v.Console)).flag("soundcard_enabled", v.Soundcard)
	}
	out.add(shown(v.Initialization))
	original := v.Original
	if c.store.templates.get(original) == nil {
		original = blankTemplateID
	}
	return out.add(ref("cluster", "clusters", v.Cluster), ref("template", "templates", v.Template), ref("original_template", "templates", original),
		ref("instance_type", "instancetypes", v.InstanceType), ref("host", "hosts", v.Host))
}

// costly are elements that are only in full answers.
var costly = map[string]bool{"virtio_scsi": true, "rng_device": true}

// shown is the initialization of a VM as the engine tells it: everything but the password.
func shown(initialization *element) *element {
	out := initialization.clone()
	if out != nil {
		out.kids = slices.DeleteFunc(out.kids, func(e *element) bool { return e.name == "root_password" })
	}
	return out
}

func vmKey(v *vm) string { return v.Name + v.ID }

func vmFields(c *call) fields[*vm] {
	s := c.store
	return fields[*vm]{
		"name": val(func(v *vm) string { return v.Name }), "id": val(func(v *vm) string { return v.ID }), "status": val(func(v *vm) string { return v.Status }),
		"description": val(func(v *vm) string { return v.Description }), "comment": val(func(v *vm) string { return v.Comment }),
		"cluster":    val(func(v *vm) string { return s.clusterName(v.Cluster) }),
		"datacenter": val(func(v *vm) string { return s.dataCenterName(s.dataCenterOf(v.Cluster)) }),
		"host":       val(func(v *vm) string { return s.hostName(v.Host) }), "hosts.name": val(func(v *vm) string { return s.hostName(v.Host) }),
		"os": val(func(v *vm) string { return v.OSType }), "type": val(func(v *vm) string { return v.Type }),
		"memory": val(func(v *vm) string { return strconv.FormatInt(v.Memory>>20, 10) }),
		"template": val(func(v *vm) string {
			if t := s.templates.get(v.Original); t != nil {
				return t.Name
			}
			return "Blank"
		}),
		"ip": func(v *vm) []string { return v.addresses() },
		"tag": func(v *vm) []string {
			var names []string
			for _, t := range s.tags.rows {
				if slices.Contains(t.VMs, v.ID) {
					names = append(names, s.tagLine(t)...) // a tag stands for those above it
				}
			}
			return names
		},
	}
}

// addresses are all that the guest agent reports.
func (v *vm) addresses() []string {
	var out []string
	for _, device := range v.reported {
		out = append(out, device.Addresses...)
	}
	return out
}

func listVMs(c *call) (*element, error) {
	return collect(c, "vms", c.store.vms.where(nil, vmKey), vmFields(c), vmDocument)
}

func (c *call) vm() (*vm, error) { return one(c.store.vms, "VM", c.id("vm")) }

func getVM(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	return vmDocument(c, v), nil
}

// referred finds the object that an element names by ID or name.
func referred[T any](t *table[T], e *element, name func(*T) string) *T {
	if id := refID(e); id != "" {
		return t.get(id)
	}
	want := e.value("name")
	if want == "" {
		return nil
	}
	for _, id := range sortedKeys(t.rows) { // in an order, so that the same request has the same effect
		if row := t.rows[id]; name(row) == want {
			return row
		}
	}
	return nil
}

func addVM(c *call) (*element, error) {
	in := c.body
	if err := require(in, "Vm", "name", "template.id|name", "cluster.id|name"); err != nil {
		return nil, err
	}
	group := referred(c.store.clusters, in.get("cluster"), func(g *cluster) string { return g.Name })
	if group == nil {
		return nil, invalid("Cannot add VM. Cluster ID is not valid.")
	}
	source := c.templateFor(in.get("template"), group.DataCenter)
	switch {
	case source == nil:
		return nil, notFound("Template", refID(in.get("template")))
	case source.DataCenter != "" && source.DataCenter != group.DataCenter:
		return nil, conflict("Cannot add VM. The Template is not in the Data Center of the Cluster.")
	case source.Status != statusOK:
		return nil, conflict("Cannot add VM: Template is locked. Please try again later.")
	}
	made := &vm{
		ID: newID(), Cluster: group.ID, Status: statusDown, Template: source.ID, Original: source.ID, Memory: source.Memory, CPU: source.CPU, OSType: source.OSType,
		Kubernetes: source.Kubernetes, Ignition: source.Ignition, Type: source.Type, Ballooning: true, Created: time.Now(), Consoles: []graphicsConsole{{ID: "766e63", Protocol: "vnc"}},
		Soundcard: source.ID == blankTemplateID, // which has one, whatever the type of the VM
	}
	if err := c.change(made, in, "add"); err != nil {
		return nil, err
	}
	clone := c.flagParam("clone") || in.yes("clone") || in.yes("disk_attachments", "clone")
	disks, err := c.copyDisks(made, source, in.list("disk_attachments", "disk_attachment"), clone)
	if err != nil {
		return nil, err
	}
	if clone {
		made.Template = blankTemplateID
	}
	c.store.vms.put(made.ID, made)
	c.store.outfit(made, source, disks)
	if len(disks) > 0 {
		made.Status = statusImageLocked
		wait := c.options.Timings.Clone
		if clone {
			wait *= 2
		}
		c.arrange(made, statusDown, wait)
	}
	c.work("Creating VM "+made.Name, made.ID)
	c.event(34, "normal", "VM "+made.Name+" creation was initiated by "+c.user+".", eventOf{vm: made.ID})
	c.created = true
	return vmDocument(c, made), nil
}

// outfit stores what a new VM has of its template: a NIC for each of the template's, and the disks that copyDisks made.
func (s *store) outfit(made *vm, source *template, disks []copied) {
	for _, n := range s.nicsOf(source.ID) {
		own := *n
		own.ID, own.Owner, own.MAC, own.Order = newID(), made.ID, s.nextMAC(), s.next("nics")
		s.nics.put(own.ID, &own)
	}
	for _, d := range disks {
		s.disks.put(d.disk.ID, d.disk)
		s.attachments.put(made.ID+"/"+d.disk.ID, d.attachment)
	}
}

// change applies the elements of a request to a VM, which is new or not; on an error the VM is as it was.
func (c *call) change(v *vm, in *element, verb string) error {
	next := *v
	fail := func(format string, args ...any) error { return invalid("Cannot "+verb+" VM. "+format, args...) }
	running := v.Status != statusDown && v.Status != statusImageLocked
	for element, field := range map[string]*string{"description": &next.Description, "comment": &next.Comment, "type": &next.Type} {
		if e := in.get(element); e != nil {
			*field = e.text
		}
	}
	if in.has("name") {
		next.Name = in.value("name")
		if err := c.nameFree(&next, verb); err != nil {
			return err
		}
	}
	if os := in.value("os", "type"); os != "" {
		next.OSType = os
	}
	if in.has("type") && !slices.Contains([]string{"server", "desktop", "high_performance"}, next.Type) {
		return fail("The VM type %q is none of desktop, server, high_performance.", next.Type)
	}
	for path, field := range map[string]*bool{
		"soundcard_enabled": &next.Soundcard, "delete_protected": &next.DeleteProtected, "console.enabled": &next.Console,
		"memory_policy.ballooning": &next.Ballooning, "high_availability.enabled": &next.HighlyAvailable,
	} {
		if e := in.get(strings.Split(path, ".")...); e != nil {
			*field = e.text == "true"
		}
	}
	if mode := in.value("cpu", "mode"); mode != "" {
		if !slices.Contains([]string{"custom", "host_model", "host_passthrough"}, mode) {
			return fail("The CPU mode %q is none of custom, host_model, host_passthrough.", mode)
		}
		next.CPUMode = mode
	}
	sized, err := c.sized(in)
	if err != nil {
		return err
	}
	cores := in.get("cpu", "topology")
	if sized != nil {
		next.InstanceType = sized.ID
		if cores == nil {
			cores = topologyElement(sized.CPU)
		}
	}
	if t := cores; t != nil {
		asked := topology{orElse(t.number("cores"), 1), orElse(t.number("sockets"), 1), orElse(t.number("threads"), 1)}
		if asked.Cores < 1 || asked.Sockets < 1 || asked.Threads < 1 {
			return fail("CPU topology must be positive.")
		}
		if asked.count() > 710 {
			return fail("The maximum number of virtual CPUs is 710, asked for are %d.", asked.count())
		}
		hotplug := asked.Cores == v.CPU.Cores && asked.Threads == v.CPU.Threads && asked.Sockets > v.CPU.Sockets
		if running && !hotplug && asked != v.CPU {
			next.NextCPU = asked
		} else {
			next.CPU, next.NextCPU = asked, topology{}
		}
	}
	if err := c.changeMemory(&next, v, in, sized, running, fail); err != nil {
		return err
	}
	if list := in.get("custom_properties"); list != nil {
		next.CustomProperties = nil
		for _, p := range in.list("custom_properties", "custom_property") {
			next.CustomProperties = append(next.CustomProperties, property{p.value("name"), p.value("value")})
			if p.value("name") != "hugepages" && p.value("name") != "sap_agent" && p.value("name") != "viodiskcache" {
				return fail("Invalid key in custom properties: %s", p.value("name"))
			}
		}
	}
	if policy := in.get("placement_policy"); policy != nil {
		if affinity := policy.value("affinity"); affinity != "" {
			if !slices.Contains([]string{"migratable", "pinned", "user_migratable"}, affinity) {
				return fail("The placement policy %q is none of migratable, pinned, user_migratable.", affinity)
			}
			next.PlacementAffinity = affinity
		}
		if policy.has("hosts") {
			next.PlacementHosts = nil
			for _, h := range policy.list("hosts", "host") {
				found := referred(c.store.hosts, h, func(h *host) string { return h.Name })
				if found == nil || found.Cluster != next.Cluster {
					return conflict("Cannot %s VM. The specified host is not in the VM's cluster.", verb)
				}
				next.PlacementHosts = append(next.PlacementHosts, found.ID)
			}
		}
	}
	if in.has("initialization") {
		next.Initialization = in.get("initialization")
	}
	next.Kept = keep(v.Kept, in)
	*v = next
	return nil
}

// changeMemory applies sizes. A running VM gets more at once, where its maximum allows it, and less with its next start.
func (c *call) changeMemory(next, v *vm, in *element, sized *instanceType, running bool, fail func(string, ...any) error) error {
	asked := in.number("memory")
	if !in.has("memory") && sized != nil {
		asked = sized.Memory
	}
	if in.has("memory") || sized != nil {
		if asked < 1<<20 || asked%(1<<20) != 0 {
			return fail("Memory size must be a positive multiple of 1 MiB.")
		}
		next.Memory, next.NextMemory = asked, 0
	}
	policy := in.get("memory_policy")
	for path, field := range map[string]*int64{"max": &next.MaxMemory, "guaranteed": &next.GuaranteedMemory} {
		if e := policy.get(path); e != nil && e.text != "" {
			*field = policy.number(path)
		}
	}
	if next.MaxMemory == 0 || !policy.has("max") && next.MaxMemory < next.Memory {
		next.MaxMemory = 4 * next.Memory
	}
	if !policy.has("guaranteed") && (next.GuaranteedMemory == 0 || next.GuaranteedMemory > next.Memory || v.GuaranteedMemory == v.Memory) {
		next.GuaranteedMemory = next.Memory
	}
	switch {
	case next.MaxMemory < next.Memory:
		return fail("Maximum memory must not be less than memory.")
	case next.GuaranteedMemory > next.Memory:
		return fail("Physical Memory Guaranteed cannot exceed Memory Size.")
	}
	if running && next.Memory < v.Memory {
		next.NextMemory, next.Memory, next.GuaranteedMemory = next.Memory, v.Memory, v.GuaranteedMemory
	}
	return nil
}

// sized is the instance type that a request names; nil where it names none.
func (c *call) sized(in *element) (*instanceType, error) {
	t := in.get("instance_type")
	if t == nil {
		return nil, nil
	}
	if found := referred(c.store.instanceTypes, t, func(t *instanceType) string { return t.Name }); found != nil {
		return found, nil
	}
	return nil, notFound("InstanceType", refID(t))
}

// templateFor is the template that an element names: by ID, or the newest version of a name in the data center.
func (c *call) templateFor(e *element, dataCenterID string) *template {
	if id := refID(e); id != "" {
		return c.store.templates.get(id)
	}
	var newest *template
	for _, t := range c.store.templates.where(nil, templateKey) {
		if t.Name == e.value("name") && (t.DataCenter == "" || t.DataCenter == dataCenterID) && (newest == nil || t.Version > newest.Version) {
			newest = t
		}
	}
	return newest
}

// nameFree checks the name of a VM: its letters, and that no other in the data center has it.
func (c *call) nameFree(v *vm, verb string) error {
	if !vmNamePattern.MatchString(v.Name) {
		return invalid("Can not %s VM. The given name contains special characters. Only lower-case and upper-case letters, numbers, '_', '-', '.' are allowed.", verb)
	}
	center := c.store.dataCenterOf(v.Cluster)
	for _, other := range c.store.vms.rows {
		if other.ID != v.ID && other.Name == v.Name && c.store.dataCenterOf(other.Cluster) == center {
			return conflict("Cannot %s VM. The VM name is already in use, please choose a unique name and try again.", verb)
		}
	}
	return nil
}

// kept are the elements of a VM that have no effect here and are shown as they were sent.
var kept = []string{"bios", "cpu_shares", "io", "lease", "migration", "multi_queues_enabled", "rng_device", "time_zone", "tpm_enabled", "usb", "virtio_scsi", "custom_cpu_model", "custom_emulated_machine", "storage_error_resume_behaviour"}

func keep(old []*element, in *element) []*element {
	out := slices.Clone(old)
	for _, name := range kept {
		if e := in.get(name); e != nil {
			out = slices.DeleteFunc(out, func(other *element) bool { return other.name == name })
			out = append(out, e)
		}
	}
	return out
}

func updateVM(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	if c.body == nil {
		return nil, malformed("the document is missing")
	}
	if id := refID(c.body.get("cluster")); id != "" && id != v.Cluster {
		return nil, conflict("Cannot edit VM. Changing the cluster of a VM is not simulated.")
	}
	if err := c.change(v, c.body, "edit"); err != nil {
		return nil, err
	}
	c.store.vms.put(v.ID, v)
	c.work("Editing VM "+v.Name, "")
	c.event(35, "normal", "VM "+v.Name+" configuration was updated by "+c.user+".", eventOf{vm: v.ID})
	return vmDocument(c, v), nil
}

func removeVM(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	switch {
	case v.DeleteProtected:
		return nil, conflict("Cannot remove VM. Delete protection is enabled. In order to delete, disable Delete protection first.")
	case v.Status == statusImageLocked:
		return nil, conflict("Cannot remove VM: VM is locked. Please try again later.")
	case v.Status != statusDown:
		return nil, conflict("Cannot remove VM. VM is running.")
	}
	var doomed []*disk
	for _, a := range c.store.attachmentsOf(v.ID) {
		d := c.store.disks.get(a.Disk)
		if d.Status == statusLocked {
			return nil, conflict("Cannot remove VM: The following disks are locked: %s. Please try again in a few minutes.", d.Name)
		}
		if !c.flagParam("detach_only") && !c.body.yes("vm", "detach_only") && len(c.store.attachmentsOfDisk(d.ID)) == 1 {
			doomed = append(doomed, d)
		}
	}
	c.work("Removing VM "+v.Name, v.ID)
	c.event(113, "normal", "VM "+v.Name+" was successfully removed.", eventOf{vm: v.ID})
	gone := func() { c.forget(v, doomed) }
	if wait := c.options.Timings.Remove; wait > 0 && len(doomed) > 0 {
		v.Status = statusImageLocked
		c.arrange(v, statusRemoved, wait)
	} else {
		gone()
	}
	return c.complete(), nil
}

// statusRemoved is where a VM or a disk is on its way to that is being removed.
const statusRemoved = "removed"

// forget takes a VM out of the inventory, with the disks that go with it.
func (s *Server) forget(v *vm, doomed []*disk) {
	for _, n := range s.store.nicsOf(v.ID) {
		s.store.release(n.MAC)
		s.store.nics.drop(n.ID)
	}
	for _, a := range s.store.attachmentsOf(v.ID) {
		s.store.attachments.drop(v.ID + "/" + a.Disk)
	}
	for _, d := range doomed {
		s.dropDisk(d)
	}
	for _, t := range s.store.tags.rows {
		if member(&t.VMs, v.ID, false) {
			s.store.tags.put(t.ID, t)
		}
	}
	for _, g := range s.store.groups.rows {
		if member(&g.VMs, v.ID, false) {
			s.store.groups.put(g.ID, g)
		}
	}
	for _, l := range s.store.labels.rows {
		if member(&l.VMs, v.ID, false) {
			s.store.labels.put(l.ID, l)
		}
	}
	s.store.vms.drop(v.ID)
	s.finish(v.ID)
	id := v.ID
	s.tell(func() { s.options.Guest.Removed(id) })
}

func vmStatistics(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	document, up := vmDocument(c, v), int64(0)
	if v.Status == statusUp {
		up = 1
	}
	return el("statistics").items(statistic(document, "memory.installed", "bytes", "integer", v.Memory), statistic(document, "memory.used", "bytes", "integer", up*v.Memory/2),
		statistic(document, "cpu.current.total", "percent", "decimal", 5*up), statistic(document, "elapsed.time", "seconds", "integer", up*int64(time.Since(v.Started).Seconds()))), nil
}

func listConsoles(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	out := el("graphics_consoles")
	for i := range v.Consoles {
		out.items(consoleDocument(c, v, &v.Consoles[i]))
	}
	return out, nil
}

func consoleDocument(c *call, v *vm, g *graphicsConsole) *element {
	out := object("graphics_console", g.ID, "vms", v.ID, "graphicsconsoles", g.ID).actions("proxyticket", "remoteviewerconnectionfile").str("protocol", g.Protocol)
	if h := c.store.hosts.get(v.Host); h != nil {
		out.str("address", h.Address).num("port", 5900)
	}
	return out.add(ref("vm", "vms", v.ID))
}

func (c *call) console() (*vm, int, error) {
	v, err := c.vm()
	if err != nil {
		return nil, 0, err
	}
	at := slices.IndexFunc(v.Consoles, func(g graphicsConsole) bool { return g.ID == c.id("id") })
	if at < 0 {
		return nil, 0, notFound("GraphicsConsole", c.id("id"))
	}
	return v, at, nil
}

func getConsole(c *call) (*element, error) {
	v, at, err := c.console()
	if err != nil {
		return nil, err
	}
	return consoleDocument(c, v, &v.Consoles[at]), nil
}

var consoleIDs = map[string]string{"vnc": "766e63", "spice": "7370696365"}

func addConsole(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	protocol := c.body.value("protocol")
	if consoleIDs[protocol] == "" {
		return nil, incomplete("GraphicsConsole", "protocol")
	}
	if slices.ContainsFunc(v.Consoles, func(g graphicsConsole) bool { return g.Protocol == protocol }) {
		return nil, conflict("Cannot add Graphics Device. The VM already has a graphics device of this type.")
	}
	v.Consoles = append(v.Consoles, graphicsConsole{consoleIDs[protocol], protocol})
	c.store.vms.put(v.ID, v)
	c.created = true
	return consoleDocument(c, v, &v.Consoles[len(v.Consoles)-1]), nil
}

func removeConsole(c *call) (*element, error) {
	v, at, err := c.console()
	if err != nil {
		return nil, err
	}
	v.Consoles = slices.Delete(slices.Clone(v.Consoles), at, at+1)
	c.store.vms.put(v.ID, v)
	return c.complete(), nil
}

func listCDROMs(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	return el("cdroms").items(cdrom(v)), nil
}

func cdrom(v *vm) *element {
	return object("cdrom", blankTemplateID, "vms", v.ID, "cdroms", blankTemplateID).add(ref("vm", "vms", v.ID))
}

func getCDROM(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	return cdrom(v), nil
}

// listSnapshots shows the one that every VM has.
func listSnapshots(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	return el("snapshots").items(object("snapshot", v.ID, "vms", v.ID, "snapshots", v.ID).str("description", "Active VM").str("snapshot_type", "active").
		str("snapshot_status", "ok").str("date", stamp(v.Created)).flag("persist_memorystate", false)), nil
}

func ticketVM(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	if v.Status != statusUp && v.Status != statusPoweringUp {
		return nil, conflict("Cannot set VM ticket. VM is not running.")
	}
	return c.complete().add(el("ticket").num("expiry", 120).str("value", randomHex(6))), nil
}

func detachVM(c *call) (*element, error) {
	if _, err := c.vm(); err != nil {
		return nil, err
	}
	return nil, conflict("Cannot detach VM from VM-Pool. VM is not attached to a VM-Pool.")
}

func autoPinVM(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	switch {
	case !c.atLeast(4, 4, 5):
		return nil, &refusal{http.StatusNotFound, "Not Found", "There is nothing at " + c.r.URL.Path}
	case v.Status != statusDown:
		return nil, conflict("Cannot edit VM. VM must be down for CPU and NUMA pinning.")
	case len(v.PlacementHosts) == 0 && c.body.yes("optimize_cpu_settings"):
		return nil, conflict("Cannot edit VM. The VM must be pinned to at least one host for automatic CPU pinning.")
	}
	v.AutoPinning = "disabled"
	if c.body.yes("optimize_cpu_settings") {
		v.AutoPinning = "adjust"
		if h := c.store.hosts.get(v.PlacementHosts[0]); h != nil { // the VM gets the shape of its host, less one core for the host
			v.CPU = topology{Cores: max(h.CPU.Cores-1, 1), Sockets: h.CPU.Sockets, Threads: h.CPU.Threads}
		}
	}
	c.store.vms.put(v.ID, v)
	return c.complete(), nil
}

// atLeast compares the version of the engine.
func (s *Server) atLeast(version ...int) bool {
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
