package ovirtsim

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// This file has VMs as objects: how they look, and how they are made, changed and removed. Their life is in life.go.

func vmDocument(c *call, v *vm) *element {
	shown, full := v.hardware, c.allContent()
	if v.Next != nil && (c.flagParam("next_run") || c.query.Get("current") == "false") { // as it will be after its next start
		shown = *v.Next
	}
	out := object("vm", v.ID, "vms", v.ID).str("name", v.Name).str("description", v.Description).str("comment", v.Comment)
	shown.describe(out, "x86_64", full)
	if out.value("bios", "type") == "" {
		out.put("q35_ovmf", "bios", "type")
	}
	large, small := c.icons(strings.SplitN(v.OSType, "_", 2)[0])
	out.str("creation_time", stamp(v.Created)).add(large, small, ref("cluster", "clusters", v.Cluster)).
		add(ref("cpu_profile", "cpuprofiles", c.store.cpuProfileID(v.Cluster))).add(el("quota").set("id", c.store.quotaID(v.Cluster))).
		flag("next_run_configuration_exists", v.Next != nil).str("status", v.Status)
	if len(v.Consoles) > 0 {
		out.put(v.Consoles[0].Protocol, "display", "type")
	} else {
		out.kids = slices.DeleteFunc(out.kids, func(e *element) bool { return e.name == "display" })
	}
	if h := c.store.hosts.get(v.Host); h != nil && len(v.Consoles) > 0 {
		out.put(h.Address, "display", "address").put("5900", "display", "port")
		certificate := el("certificate").str("content", string(c.settings.CA)).str("organization", "ovirtsim").str("subject", "O=ovirtsim,CN="+h.Address)
		out.get("display").add(certificate)
	}
	if v.Host != "" {
		out.flag("run_once", v.OnceRun).str("start_time", stamp(v.Started)).add(ref("host", "hosts", v.Host))
	} else {
		out.str("stop_time", stamp(orElse(v.Stopped, v.Created)))
		if v.StopReason != nil {
			out.str("stop_reason", *v.StopReason)
		}
	}
	if len(v.reported) > 0 {
		out.add(guestSystem()...)
	}
	initialization := shownInitialization(v.Initialization)
	if full {
		initialization = orElse(initialization, el("initialization"))
		initialization.add(el("configuration").str("data", c.store.ovf(v)).str("type", "ovf"))
	}
	original := v.Original
	if c.store.templates.get(original) == nil {
		original = blankTemplateID
	}
	out.add(initialization, ref("original_template", "templates", original), ref("template", "templates", v.Template), ref("instance_type", "instancetypes", v.InstanceType))
	if c.filtered { // where a VM runs is not for everybody
		out.kids = slices.DeleteFunc(out.kids, func(e *element) bool { return e.name == "host" || e.name == "placement_policy" })
	}
	return out
}

// guestSystem is what the agent reports of the guest.
func guestSystem() []*element {
	kernel := el("kernel").add(el("version").num("build", 0).str("full_version", "5.15.0-sim.el9").num("major", 5).num("minor", 15))
	return []*element{
		el("guest_operating_system").str("architecture", "x86_64").str("codename", "").str("distribution", "Oracle Linux Server").str("family", "Linux").
			add(kernel, el("version").str("full_version", "9").num("major", 9)),
		el("guest_time_zone").str("name", "UTC").str("utc_offset", "+00:00"),
	}
}

func (s *store) cpuProfileID(clusterID string) string { return s.idOf("", "cpuprofile", clusterID) }

func (s *store) quotaID(clusterID string) string {
	return s.idOf("", "quota", s.dataCenterOf(clusterID))
}

// ovf is the description of a VM that full answers have. It holds the user data as well.
func (s *store) ovf(v *vm) string {
	content := el("Content").str("Name", v.Name).str("Description", v.Description).str("Comment", v.Comment).str("CreationDate", v.Created.UTC().Format("2006/01/02 15:04:05")).
		str("ClusterName", s.clusterName(v.Cluster)).str("TemplateId", v.Template).str("VmType", v.Type).num("MinAllocatedMem", v.GuaranteedMemory>>20).
		num("MaxMemorySizeMb", v.MaxMemory>>20).num("NumOfCpus", v.CPU.count())
	if script := v.Initialization.value("custom_script"); script != "" {
		content.add(el("VmInit").set("ovf:customScript", script).set("ovf:hostname", v.Initialization.value("host_name")))
	}
	var out strings.Builder
	out.WriteString(`<?xml version="1.0" encoding="UTF-8"?>`)
	text, _ := el("ovf:Envelope").set("xmlns:ovf", "http://schemas.dmtf.org/ovf/envelope/1/").set("ovf:version", "4.4.0.0").add(content).MarshalText()
	out.Write(text)
	return out.String()
}

func (s *store) vmName(id string) string {
	if v := s.vms.get(id); v != nil {
		return v.Name
	}
	return ""
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

func (c *call) vm() (*vm, error) { return one(c.store.vms, c.id("vm")) }

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

// maxVMName is the length of the name of a VM.
const maxVMName = 64

// checkNames refuses names and descriptions that no VM may have.
func checkNames(in *element, kind, attribute string, longest int, fail failure) error {
	name := in.value("name")
	switch length := utf8.RuneCountInString(name); {
	case !in.has("name"):
	case length < 1 || length > 255:
		return invalid("size must be between 1 and 255, Attribute: %s.name", attribute)
	case !plainName(name):
		return invalid("Can not add %s. The given name contains special characters. Only lower-case and upper-case letters, numbers, '_', '-', '.' are allowed., Attribute: %s.name",
			kind, attribute)
	case length > longest:
		return fail("The given name is too long.")
	}
	description := in.value("description")
	isWord := func(c rune) bool { return c <= unicode.MaxASCII || unicode.IsLetter(c) || unicode.IsMark(c) }
	switch {
	case utf8.RuneCountInString(description) > 255:
		return invalid("size must be between 0 and 255, Attribute: %s.description", attribute)
	case strings.IndexFunc(description, func(c rune) bool { return !isWord(c) }) >= 0:
		return fail("The given description contains special characters.\nOnly alpha-numeric and some special characters that conform to the standard ASCII character set are allowed., Attribute: %s.description", attribute)
	}
	return nil
}

func isNameRune(c rune) bool {
	return unicode.IsLetter(c) || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}

// commandOn makes the refusals of a command.
func commandOn(command string) failure {
	return func(format string, args ...any) error {
		return invalid("%s", "Cannot "+command+". "+fmt.Sprintf(format, args...))
	}
}

// nameFree checks that no other VM in the data center has the name.
func (c *call) nameFree(v *vm, command string) error {
	center := c.store.dataCenterOf(v.Cluster)
	for _, other := range c.store.vms.rows {
		if other.ID != v.ID && other.Name == v.Name && c.store.dataCenterOf(other.Cluster) == center {
			return conflict("Cannot %s. The VM name is already in use, please choose a unique name and try again.", command)
		}
	}
	return nil
}

// clusterOf is the cluster that a request names.
func (c *call) clusterOf(e *element) (*cluster, error) {
	if err := checkRef(e); err != nil {
		return nil, err
	}
	found := referred(c.store.clusters, e, func(g *cluster) string { return g.Name })
	switch {
	case found != nil:
		return found, nil
	case refID(e) != "":
		return nil, entityNotFound("GetClusterById")
	default:
		return nil, entityNotFound("Cluster: name=" + e.value("name"))
	}
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

// sized is the instance type that a request names; nil where it names none.
func (c *call) sized(in *element) (*instanceType, error) {
	e := in.get("instance_type")
	if e == nil {
		return nil, nil
	}
	if refID(e) == "" { // by name: the engine takes it and fails
		return nil, brokenPage()
	}
	if err := checkRef(e); err != nil {
		return nil, err
	}
	if found := c.store.instanceTypes.get(refID(e)); found != nil {
		return found, nil
	}
	return nil, brokenPage()
}

func addVM(c *call) (*element, error) {
	in := c.body
	if err := require(in, "Vm", "cluster.id|name"); err != nil {
		return nil, err
	}
	if in.has("snapshots") {
		return c.addVMOfSnapshot()
	}
	if err := require(in, "Vm", "name", "template.id|name"); err != nil {
		return nil, err
	}
	home, err := c.clusterOf(in.get("cluster"))
	if err != nil {
		return nil, err
	}
	if err := checkRef(in.get("template")); err != nil {
		return nil, err
	}
	source := c.templateFor(in.get("template"), home.DataCenter)
	switch {
	case source == nil:
		return nil, entityNotFound("GetVmTemplate")
	case source.DataCenter != "" && source.DataCenter != home.DataCenter:
		return nil, conflict("Cannot add VM. The Template is not in the Data Center of the Cluster.")
	case source.Status != statusOK:
		return nil, conflict("Cannot add VM. Template ${TemplateName} is being created.")
	}

	return c.makeVM(source, home, c.flagParam("clone") || in.yes("clone") || in.yes("disk_attachments", "clone"), false)
}

// makeVM makes the VM that a request asks for. goesOn says that the engine answers before it has done its work, although it
// copies the disks.
func (c *call) makeVM(source *template, home *cluster, clone, goesOn bool) (*element, error) {
	in := c.body
	made := c.vmOf(source, home)
	if err := c.equip(made, in, "add VM"); err != nil {
		return nil, err
	}
	disks, err := c.copyDisks(made, source, in.list("disk_attachments", "disk_attachment"), clone)
	if err != nil {
		return nil, err
	}
	if clone {
		made.Template = blankTemplateID
	}
	c.store.vms.put(made.ID, made)
	c.store.outfit(made, source, disks)
	c.lockNew(made, clone, len(disks) > 0)
	c.work("Creating VM "+made.Name, made.ID)
	c.event(34, "normal", "VM "+made.Name+" creation was initiated by "+c.user.Name+".", eventOf{vm: made.ID})

	// The answer to a create that goes on names no place.
	document := c.created(vmDocument(c, made))
	if len(disks) > 0 && (!clone || goesOn) {
		c.status, c.made = http.StatusAccepted, ""
		document.str("creation_status", "pending")
	}
	return document, nil
}

// vmOf is a new VM with what its template gives it; it is not stored yet.
func (c *call) vmOf(source *template, home *cluster) *vm {
	made := &vm{
		hardware: source.copyOf(), ID: newID(), Cluster: home.ID, Status: statusDown, Template: source.ID, Original: source.ID,
		Kubernetes: source.Kubernetes, Ignition: source.Ignition, Created: time.Now(), Consoles: slices.Clone(source.Consoles), Initialization: source.Initialization.clone(),
	}
	if home.BiosType != "" && !made.Settings.has("bios", "type") {
		made.Settings.put(home.BiosType, "bios", "type")
	}
	return made
}

// equip applies the elements of a create.
func (c *call) equip(made *vm, in *element, command string) error {
	fail := commandOn(command)
	if err := checkNames(in, "VM", "vmStatic", maxVMName, fail); err != nil {
		return err
	}
	made.Name, made.Description, made.Comment = in.value("name"), in.value("description"), in.value("comment")
	if err := c.nameFree(made, command); err != nil {
		return err
	}
	if err := c.changeHardware(&made.hardware, in, true, c.store.clusters.get(made.Cluster), fail); err != nil {
		return err
	}
	sized, err := c.sized(in)
	if err != nil {
		return err
	}
	if sized != nil {
		made.InstanceType = sized.ID
		made.resize(sized, in)
	}
	if kind := in.value("display", "type"); kind != "" {
		made.Consoles = []graphicsConsole{{ID: consoleIDs[kind], Protocol: kind}}
	}
	made.Initialization, err = layInitialization(made.Initialization, in.get("initialization"), fail)
	return err
}

// lockNew keeps a VM locked while its disks are made. A clone of a template without disks is locked for a moment, too.
func (c *call) lockNew(made *vm, clone, disks bool) {
	if !disks {
		return
	}
	wait := c.settings.Timings.Clone
	if clone {
		wait *= 2
	}
	made.Status = statusImageLocked
	c.arrange(made, statusDown, wait)
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

func updateVM(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	const command = "edit VM"
	fail, in := commandOn(command), c.body
	if id := refID(in); id != "" && id != v.ID {
		return nil, &refusal{status: http.StatusConflict, reason: "Broken immutability constraint", detail: "Attempt to set immutable field: id"}
	}
	if err := checkNames(in, "VM", "vmStatic", maxVMName, fail); err != nil {
		return nil, err
	}
	if err := v.notUpdating(command); err != nil {
		return nil, err
	}
	if err := c.moveToCluster(v, in.get("cluster")); err != nil {
		return nil, err
	}

	next := *v
	next.Name, next.Description, next.Comment = textOr(in, "name", v.Name), textOr(in, "description", v.Description), textOr(in, "comment", v.Comment)
	if err := c.nameFree(&next, command); err != nil {
		return nil, err
	}
	if next.Initialization, err = layInitialization(v.Initialization, in.get("initialization"), fail); err != nil {
		return nil, err
	}
	wanted := v.copyOf()
	if err := c.changeHardware(&wanted, in, false, c.store.clusters.get(v.Cluster), fail); err != nil {
		return nil, err
	}
	if sized, err := c.sized(in); err != nil {
		return nil, err
	} else if sized != nil {
		next.InstanceType = sized.ID
		wanted.resize(sized, in)
	}
	if v.running() && !c.flagParam("next_run") {
		if err := c.checkHotChange(v, &wanted, fail); err != nil {
			return nil, err
		}
	}
	leased := !v.running() && wanted.lease() != v.lease() && wanted.lease() != ""
	next.take(wanted, v.running(), c.flagParam("next_run"))
	*v = next
	c.store.vms.put(v.ID, v)
	if leased { // which takes its storage domain a while
		after := v.copyOf()
		v.Applied = &after
		c.arrange(v, statusDown, c.settings.Timings.PowerDown)
	}
	c.work("Editing VM "+v.Name, "")
	c.event(35, "normal", "VM "+v.Name+" configuration was updated by "+c.user.Name+".", eventOf{vm: v.ID})
	return vmDocument(c, v), nil
}

// textOr is the text of an element of a request, and what is there where the request has none.
func textOr(in *element, name, there string) string {
	if in.has(name) {
		return in.value(name)
	}
	return there
}

func (v *vm) running() bool {
	return v.Status != statusDown && v.Status != statusImageLocked && v.Status != statusSuspended
}

// memoryStep is what memory of a VM that runs is added in.
const memoryStep = 128 << 20

// checkHotChange refuses changes that a VM that runs cannot take.
func (c *call) checkHotChange(v *vm, wanted *hardware, fail failure) error {
	added := wanted.Memory - v.Memory
	switch {
	case v.lease() != "" && wanted.lease() != "" && v.lease() != wanted.lease():
		return asConflict(fail("Hot swapping of VM leases is not supported, please remove the current lease and then set a new one."))
	case wanted.Memory > v.MaxMemory:
		return asConflict(fail("Memory size (%dMB) cannot exceed maximum memory size (%dMB).", wanted.Memory>>20, v.MaxMemory>>20))
	case v.memoryWaits() && v.Next.Memory != wanted.Memory:
		return invalid("Cannot hot change memory because memory next run configuration already exists.")
	case added > 0 && added%memoryStep != 0:
		return fail("Amount of added memory (%dMiB) is not dividable by %dMiB.", added>>20, memoryStep>>20)
	}
	if h := c.store.hosts.get(v.Host); h != nil && wanted.CPU.Sockets > v.CPU.Sockets && wanted.CPU.count() > h.CPU.count() {
		return invalid("The requested number of vCPUs is not available on the host the VM is running on")
	}
	return nil
}

// memoryWaits says that the VM has other memory after its next start.
func (v *vm) memoryWaits() bool { return v.Next != nil && v.Next.Memory != v.Memory }

// take gives a VM the hardware that a request asks for. A VM that runs takes some of it at once; the rest waits for its next
// start. What waits is what the VM is now and what this request says: what an earlier request left waiting is lost.
func (v *vm) take(wanted hardware, running, onlyNext bool) {
	if !running {
		v.hardware, v.Next = wanted, nil
		return
	}
	now := v.copyOf()
	if !onlyNext {
		now.OSType, now.DeleteProtected, now.GuaranteedMemory = wanted.OSType, wanted.DeleteProtected, wanted.GuaranteedMemory
		now.PlacementAffinity, now.PlacementHosts = wanted.PlacementAffinity, wanted.PlacementHosts
		for _, name := range []string{"high_availability", "lease", "storage_error_resume_behaviour"} {
			now.Settings.replace(name, wanted.Settings.get(name).clone())
		}
		now.HighlyAvailable, now.CPU.Sockets = wanted.HighlyAvailable, max(wanted.CPU.Sockets, now.CPU.Sockets)
		now.Memory = max(wanted.Memory, now.Memory) // a guest gives nothing back that it does not offer
		if !v.memoryWaits() {
			wanted.Memory = now.Memory
		}
	}
	waits := v.Next != nil || !reflect.DeepEqual(now, wanted)
	v.hardware = now
	if waits {
		v.Next = &wanted
	}
}

// moveToCluster changes the cluster of a VM that is down, within its data center.
func (c *call) moveToCluster(v *vm, e *element) error {
	if e == nil {
		return nil
	}
	to, err := c.clusterOf(e)
	switch {
	case err != nil && refID(e) != "":
		return failed(http.StatusInternalServerError, "[General command validation failure.]")
	case err != nil:
		return err
	case to.ID == v.Cluster:
		return nil
	case v.running():
		return conflict("Cannot update a VM in this status. Try stopping the VM first.")
	case to.DataCenter != c.store.dataCenterOf(v.Cluster):
		return conflict("Cannot edit VM. VM can be moved only to a Cluster in the same Data Center.")
	}
	v.Cluster = to.ID
	return nil
}

func removeVM(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	detachOnly := c.flagParam("detach_only") || c.body.yes("vm", "detach_only")
	switch {
	case v.Applied != nil:
		return nil, v.notUpdating("remove VM")
	case v.DeleteProtected:
		return nil, conflict("Cannot remove VM. Delete protection is enabled. In order to delete, disable Delete protection first.")
	case v.running() || v.Status == statusSuspended:
		return nil, conflict("Cannot remove VM. VM is running.")
	case detachOnly && v.Template != blankTemplateID:
		return nil, conflict("Cannot remove VM with detaching disks, VM is based from template.")
	}
	var doomed []*disk
	for _, a := range c.store.attachmentsOf(v.ID) {
		d := c.store.disks.get(a.Disk)
		if d.Status == statusLocked {
			return nil, conflict("Cannot remove VM: The following disks are locked: %s. Please try again in a few minutes.", d.Name)
		}
		if !detachOnly && len(c.store.attachmentsOfDisk(d.ID)) == 1 {
			doomed = append(doomed, d)
		}
	}
	if v.Status == statusImageLocked {
		return nil, conflict("Cannot remove VM: VM is locked. Please try again in a few minutes.")
	}
	c.work("Removing VM "+v.Name, "")
	c.event(113, "normal", "VM "+v.Name+" was successfully removed.", eventOf{vm: v.ID})
	c.forget(v)
	for _, d := range doomed {
		c.removeLater(d)
	}
	return c.complete(), nil
}

// statusRemoved is where a VM or a disk is on its way to that is being removed.
const statusRemoved = "removed"

// forget takes a VM out of the inventory. Its disks stay.
func (s *Engine) forget(v *vm) {
	for _, n := range s.store.nicsOf(v.ID) {
		s.store.release(n.MAC)
		s.store.nics.drop(n.ID)
	}
	for _, a := range s.store.attachmentsOf(v.ID) {
		s.store.attachments.drop(v.ID + "/" + a.Disk)
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
	for _, found := range s.store.snapshotsOf(v.ID) {
		s.store.snapshots.drop(found.ID)
	}
	s.store.vms.drop(v.ID)
	s.finish(v.ID)
	id := v.ID
	s.tell(func() { s.settings.Guest.Removed(id) })
}

func vmStatistics(c *call) (*element, error) {
	v := c.store.vms.get(c.id("vm"))
	if v == nil {
		return nil, entityNotFound(c.id("vm"))
	}
	values := map[string]int64{"memory.installed": v.Memory}
	if v.Status == statusUp {
		values["memory.used"] = v.Memory / 2
	}
	if v.Host != "" {
		values["elapsed.time"] = int64(time.Since(v.Started).Seconds())
	}
	return c.statistics(vmStatisticNames, ref("vm", "vms", v.ID), values), nil
}

// atLeast compares the version of the engine.
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
