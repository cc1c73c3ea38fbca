package api

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file has VMs as objects: how they look, and how they are made, changed and removed. Their life is in life.go.

var vmRoutes = []route{
	{"GET", "/vms", listVMs},
	{"POST", "/vms", addVM},
	{"GET", "/vms/{vm}", getVM},
	{"PUT", "/vms/{vm}", updateVM},
	{"DELETE", "/vms/{vm}", removeVM},
	{"GET", "/vms/{vm}/applications", ofVM(listNothing("applications"))},
	{"GET", "/vms/{vm}/backups", listNothing("backups")},
	{"GET", "/vms/{vm}/checkpoints", listNothing("checkpoints")},
	{"GET", "/vms/{vm}/hostdevices", listNothing("host_devices")},
	{"GET", "/vms/{vm}/katelloerrata", listNothing("katello_errata")},
	{"GET", "/vms/{vm}/nics/{id}/networkfilterparameters", listNothing("network_filter_parameters")},
	{"GET", "/vms/{vm}/permissions", permissionsOf("vm", "vms", "vm")},
	{"GET", "/vms/{vm}/sessions", listNothing("sessions")},
	{"GET", "/vms/{vm}/statistics", vmStatistics},
	{"GET", "/vms/{vm}/statistics/{id}", itemOf(vmStatistics)},
}

// describeDisplay adds where the console of a VM is.
func (c *call) describeDisplay(v *store.VM, out *wire.Element) {
	if len(v.Consoles) == 0 {
		out.Kids = slices.DeleteFunc(out.Kids, func(e *wire.Element) bool { return e.Name == "display" })
		return
	}

	out.Put(v.Consoles[0].Protocol, "display", "type")
	h := c.store.Hosts.Get(v.Host)
	if h == nil {
		return
	}

	out.Put(h.Address, "display", "address").Put("5900", "display", "port")
	certificate := wire.El("certificate").Str("content", string(c.settings.CA)).Str("organization", "ovirtsim").
		Str("subject", "O=ovirtsim,CN="+h.Address)
	out.Get("display").Add(certificate)
}

func vmDocument(c *call, v *store.VM) *wire.Element {
	shown, full := v.Hardware, c.allContent()

	// as it will be after its next start
	if v.Next != nil && (c.flagParam("next_run") || c.query.Get("current") == "false") {
		shown = *v.Next
	}

	out := wire.Object("vm", v.ID, "vms", v.ID).Str("name", v.Name).Str("description", v.Description).
		Str("comment", v.Comment)
	describeHardware(&shown, out, "x86_64", full)
	if out.Value("bios", "type") == "" {
		out.Put("q35_ovmf", "bios", "type")
	}

	large, small := c.icons(strings.SplitN(v.OSType, "_", 2)[0])
	out.Str("creation_time", stamp(v.Created)).Add(large, small, wire.Ref("cluster", "clusters", v.Cluster)).
		Add(wire.Ref("cpu_profile", "cpuprofiles", c.store.CPUProfileID(v.Cluster))).
		Add(wire.El("quota").Set("id", c.store.QuotaID(v.Cluster))).
		Flag("next_run_configuration_exists", v.Next != nil).Str("status", v.Status)
	c.describeDisplay(v, out)
	if v.Host != "" {
		out.Flag("run_once", v.OnceRun).Str("start_time", stamp(v.Started)).Add(wire.Ref("host", "hosts", v.Host))
	} else {
		out.Str("stop_time", stamp(cmp.Or(v.Stopped, v.Created)))
		if v.StopReason != nil {
			out.Str("stop_reason", *v.StopReason)
		}
	}

	if len(v.Reported) > 0 {
		out.Add(guestSystem()...)
	}

	initialization := shownInitialization(v.Initialization)
	if full {
		initialization = cmp.Or(initialization, wire.El("initialization"))
		initialization.Add(wire.El("configuration").Str("data", c.ovf(v)).Str("type", "ovf"))
	}

	original := v.Original
	if c.store.Templates.Get(original) == nil {
		original = store.BlankTemplateID
	}

	out.Add(initialization, wire.Ref("original_template", "templates", original),
		wire.Ref("template", "templates", v.Template), wire.Ref("instance_type", "instancetypes", v.InstanceType))
	if c.filtered { // where a VM runs is not for everybody
		out.Kids = slices.DeleteFunc(out.Kids, func(e *wire.Element) bool {
			return e.Name == "host" ||
				e.Name == "placement_policy"
		})
	}

	return out
}

// guestSystem is what the agent reports of the guest.
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

// ovf is the description of a VM that full answers have. It holds the user data as well.
func (s *Engine) ovf(v *store.VM) string {
	content := wire.El("Content").Str("Name", v.Name).Str("Description", v.Description).Str("Comment", v.Comment).
		Str("CreationDate", v.Created.UTC().Format("2006/01/02 15:04:05")).
		Str("ClusterName", s.store.ClusterName(v.Cluster)).Str("TemplateId", v.Template).Str("VmType", v.Type).
		Num("MinAllocatedMem", v.GuaranteedMemory>>20).
		Num("MaxMemorySizeMb", v.MaxMemory>>20).Num("NumOfCpus", v.CPU.Count())
	if script := v.Initialization.Value("custom_script"); script != "" {
		content.Add(
			wire.El("VmInit").Set("ovf:customScript", script).Set("ovf:hostname", v.Initialization.Value("host_name")),
		)
	}

	var out strings.Builder
	out.WriteString(`<?xml version="1.0" encoding="UTF-8"?>`)
	text, _ := wire.El("ovf:Envelope").Set("xmlns:ovf", "http://schemas.dmtf.org/ovf/envelope/1/").
		Set("ovf:version", "4.4.0.0").Add(content).MarshalText()
	out.Write(text)

	return out.String()
}

func vmFields(c *call) fields[*store.VM] {
	s := c.store

	return fields[*store.VM]{
		"name":        val(func(v *store.VM) string { return v.Name }),
		"id":          val(func(v *store.VM) string { return v.ID }),
		"status":      val(func(v *store.VM) string { return v.Status }),
		"description": val(func(v *store.VM) string { return v.Description }),
		"comment":     val(func(v *store.VM) string { return v.Comment }),
		"cluster":     val(func(v *store.VM) string { return s.ClusterName(v.Cluster) }),
		"datacenter":  val(func(v *store.VM) string { return s.DataCenterName(s.DataCenterOf(v.Cluster)) }),
		"host":        val(func(v *store.VM) string { return s.HostName(v.Host) }),
		"hosts.name":  val(func(v *store.VM) string { return s.HostName(v.Host) }),
		"os":          val(func(v *store.VM) string { return v.OSType }),
		"type":        val(func(v *store.VM) string { return v.Type }),
		"memory":      val(func(v *store.VM) string { return strconv.FormatInt(v.Memory>>20, 10) }),
		"template": val(func(v *store.VM) string {
			if t := s.Templates.Get(v.Original); t != nil {
				return t.Name
			}

			return "Blank"
		}),
		"ip": func(v *store.VM) []string { return v.Addresses() },
		"tag": func(v *store.VM) []string {
			var names []string

			for _, t := range s.Tags.Rows {
				if slices.Contains(t.VMs, v.ID) {
					names = append(names, s.TagLine(t)...) // a tag stands for those above it
				}
			}

			return names
		},
	}
}

func listVMs(c *call) (*wire.Element, error) {
	return collect(c, "vms", c.store.VMs.Where(nil, store.VMKey), vmFields(c), vmDocument)
}

func (c *call) vm() (*store.VM, error) { return one(c.store.VMs, c.id("vm")) }

func getVM(c *call) (*wire.Element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}

	return vmDocument(c, v), nil
}

// referred finds the object that an element names by ID or name.
func referred[T any](t *store.Table[T], e *wire.Element, name func(*T) string) *T {
	if id := wire.RefID(e); id != "" {
		return t.Get(id)
	}

	want := e.Value("name")
	if want == "" {
		return nil
	}

	for _, id := range wire.SortedKeys(t.Rows) { // in an order, so that the same request has the same effect
		if row := t.Rows[id]; name(row) == want {
			return row
		}
	}

	return nil
}

// maxVMName is the length of the name of a VM.
const maxVMName = 64

// checkNames refuses names and descriptions that no VM may have.
func checkNames(in *wire.Element, kind, attribute string, longest int, fail failure) error {
	name := in.Value("name")
	switch length := utf8.RuneCountInString(name); {
	case !in.Has("name"):
	case length < 1 || length > 255:
		return wire.Invalid("size must be between 1 and 255, Attribute: %s.name", attribute)
	case !store.PlainName(name):
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

// commandOn makes the refusals of a command.
func commandOn(command string) failure {
	return func(format string, args ...any) error {
		return wire.Invalid("%s", "Cannot "+command+". "+fmt.Sprintf(format, args...))
	}
}

// nameFree checks that no other VM in the data center has the name.
func (c *call) nameFree(v *store.VM, command string) error {
	center := c.store.DataCenterOf(v.Cluster)
	for _, other := range c.store.VMs.Rows {
		if other.ID != v.ID && other.Name == v.Name && c.store.DataCenterOf(other.Cluster) == center {
			return wire.Conflict("Cannot %s. The VM name is already in use, please choose a unique name and try again.",
				command)
		}
	}

	return nil
}

// clusterOf is the cluster that a request names.
func (c *call) clusterOf(e *wire.Element) (*store.Cluster, error) {
	if err := checkRef(e); err != nil {
		return nil, err
	}

	found := referred(c.store.Clusters, e, func(g *store.Cluster) string { return g.Name })
	switch {
	case found != nil:
		return found, nil
	case wire.RefID(e) != "":
		return nil, wire.EntityNotFound("GetClusterById")
	default:
		return nil, wire.EntityNotFound("Cluster: name=" + e.Value("name"))
	}
}

// templateFor is the template that an element names: by ID, or the newest version of a name in the data center.
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

// sized is the instance type that a request names; nil where it names none.
func (c *call) sized(in *wire.Element) (*store.InstanceType, error) {
	e := in.Get("instance_type")
	if e == nil {
		return nil, nil
	}

	if wire.RefID(e) == "" { // by name: the engine takes it and fails
		return nil, wire.BrokenPage()
	}

	if err := checkRef(e); err != nil {
		return nil, err
	}

	if found := c.store.InstanceTypes.Get(wire.RefID(e)); found != nil {
		return found, nil
	}

	return nil, wire.BrokenPage()
}

func addVM(c *call) (*wire.Element, error) {
	in := c.body
	if err := require(in, "Vm", "cluster.id|name"); err != nil {
		return nil, err
	}

	if in.Has("snapshots") {
		return c.addVMOfSnapshot()
	}

	if err := require(in, "Vm", "name", "template.id|name"); err != nil {
		return nil, err
	}

	home, err := c.clusterOf(in.Get("cluster"))
	if err != nil {
		return nil, err
	}

	if err := checkRef(in.Get("template")); err != nil {
		return nil, err
	}

	source := c.templateFor(in.Get("template"), home.DataCenter)
	switch {
	case source == nil:
		return nil, wire.EntityNotFound("GetVmTemplate")
	case source.DataCenter != "" && source.DataCenter != home.DataCenter:
		return nil, wire.Conflict("Cannot add VM. The Template is not in the Data Center of the Cluster.")
	case source.Status != store.StatusOK:
		return nil, wire.Conflict("Cannot add VM. Template ${TemplateName} is being created.")
	}

	return c.makeVM(source, home, c.flagParam("clone") || in.Yes("clone") || in.Yes("disk_attachments", "clone"), false)
}

// makeVM makes the VM that a request asks for. goesOn reports that the engine answers before it has done its work,
// although it copies the disks.
func (c *call) makeVM(source *store.Template, home *store.Cluster, clone, goesOn bool) (*wire.Element, error) {
	in := c.body
	made := c.vmOf(source, home)
	if err := c.equip(made, in, "add VM"); err != nil {
		return nil, err
	}

	disks, err := c.copyDisks(made, source, in.List("disk_attachments", "disk_attachment"), clone)
	if err != nil {
		return nil, err
	}

	if clone {
		made.Template = store.BlankTemplateID
	}

	c.store.VMs.Put(made.ID, made)
	c.outfit(made, source, disks)
	c.lockNew(made, clone, len(disks) > 0)
	c.work("Creating VM "+made.Name, made.ID)
	c.event(34, "normal", "VM "+made.Name+" creation was initiated by "+c.user.Name+".", eventOf{vm: made.ID})

	// The answer to a create that goes on names no place.
	document := c.created(vmDocument(c, made))
	if len(disks) > 0 && (!clone || goesOn) {
		c.status, c.made = http.StatusAccepted, ""
		document.Str("creation_status", "pending")
	}

	return document, nil
}

// vmOf is a new VM with what its template gives it; it is not stored yet.
func (c *call) vmOf(source *store.Template, home *store.Cluster) *store.VM {
	made := &store.VM{
		Hardware:       source.CopyOf(),
		ID:             store.NewID(),
		Cluster:        home.ID,
		Status:         store.StatusDown,
		Template:       source.ID,
		Original:       source.ID,
		Kubernetes:     source.Kubernetes,
		Ignition:       source.Ignition,
		Created:        time.Now(),
		Consoles:       slices.Clone(source.Consoles),
		Initialization: source.Initialization.Clone(),
	}
	if home.BiosType != "" && !made.Settings.Has("bios", "type") {
		made.Settings.Put(home.BiosType, "bios", "type")
	}

	return made
}

// equip applies the elements of a create.
func (c *call) equip(made *store.VM, in *wire.Element, command string) error {
	fail := commandOn(command)
	if err := checkNames(in, "VM", "vmStatic", maxVMName, fail); err != nil {
		return err
	}

	made.Name, made.Description, made.Comment = in.Value("name"), in.Value("description"), in.Value("comment")
	if err := c.nameFree(made, command); err != nil {
		return err
	}

	if err := c.changeHardware(&made.Hardware, in, true, c.store.Clusters.Get(made.Cluster), fail); err != nil {
		return err
	}

	sized, err := c.sized(in)
	if err != nil {
		return err
	}

	if sized != nil {
		made.InstanceType = sized.ID
		made.Resize(sized, in)
	}

	if kind := in.Value("display", "type"); kind != "" {
		made.Consoles = []store.GraphicsConsole{{ID: store.ConsoleIDs[kind], Protocol: kind}}
	}

	made.Initialization, err = layInitialization(made.Initialization, in.Get("initialization"), fail)

	return err
}

// lockNew keeps a VM locked while its disks are made. A clone of a template without disks is locked for a moment, too.
func (c *call) lockNew(made *store.VM, clone, disks bool) {
	if !disks {
		return
	}

	wait := c.settings.Timings.Clone
	if clone {
		wait *= 2
	}

	made.Status = store.StatusImageLocked
	c.arrange(made, store.StatusDown, wait)
}

// outfit stores what a new VM has of its template: a NIC for each of the template's, and the disks that copyDisks made.
func (s *Engine) outfit(made *store.VM, source *store.Template, disks []copied) {
	for _, n := range s.store.NICsOf(source.ID) {
		own := *n
		own.ID, own.Owner, own.MAC, own.Order = store.NewID(), made.ID, s.store.NextMAC(), s.store.Next("nics")
		s.store.NICs.Put(own.ID, &own)
	}

	for _, d := range disks {
		s.store.Disks.Put(d.disk.ID, d.disk)
		s.store.Attachments.Put(made.ID+"/"+d.disk.ID, d.attachment)
	}
}

func updateVM(c *call) (*wire.Element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}

	const command = "edit VM"
	fail, in := commandOn(command), c.body
	if id := wire.RefID(in); id != "" && id != v.ID {
		return nil, &wire.Refusal{
			Status: http.StatusConflict,
			Reason: "Broken immutability constraint",
			Detail: "Attempt to set immutable field: id",
		}
	}

	if err := checkNames(in, "VM", "vmStatic", maxVMName, fail); err != nil {
		return nil, err
	}

	if err := notUpdating(v, command); err != nil {
		return nil, err
	}

	if err := c.moveToCluster(v, in.Get("cluster")); err != nil {
		return nil, err
	}

	next, wanted, err := c.nextVM(v, command)
	if err != nil {
		return nil, err
	}

	leased := !v.Running() && wanted.Lease() != v.Lease() && wanted.Lease() != ""
	next.Take(wanted, v.Running(), c.flagParam("next_run"))
	*v = next
	c.store.VMs.Put(v.ID, v)
	if leased { // which takes its storage domain a while
		after := v.CopyOf()
		v.Applied = &after
		c.arrange(v, store.StatusDown, c.settings.Timings.PowerDown)
	}

	c.work("Editing VM "+v.Name, "")
	c.event(35, "normal", "VM "+v.Name+" configuration was updated by "+c.user.Name+".", eventOf{vm: v.ID})

	return vmDocument(c, v), nil
}

// nextVM is the VM as the request has it, and its hardware apart, which may have to wait for the next start.
func (c *call) nextVM(v *store.VM, command string) (next store.VM, wanted store.Hardware, err error) {
	fail, in := commandOn(command), c.body
	next, wanted = *v, v.CopyOf()
	next.Name = textOr(in, "name", v.Name)
	next.Description = textOr(in, "description", v.Description)
	next.Comment = textOr(in, "comment", v.Comment)
	if err := c.nameFree(&next, command); err != nil {
		return next, wanted, err
	}

	next.Initialization, err = layInitialization(v.Initialization, in.Get("initialization"), fail)
	if err != nil {
		return next, wanted, err
	}

	if err := c.changeHardware(&wanted, in, false, c.store.Clusters.Get(v.Cluster), fail); err != nil {
		return next, wanted, err
	}

	sized, err := c.sized(in)
	if err != nil {
		return next, wanted, err
	}

	if sized != nil {
		next.InstanceType = sized.ID
		wanted.Resize(sized, in)
	}

	if v.Running() && !c.flagParam("next_run") {
		err = c.checkHotChange(v, &wanted, fail)
	}

	return next, wanted, err
}

// textOr is the text of an element of a request, and what is there where the request has none.
func textOr(in *wire.Element, name, there string) string {
	if in.Has(name) {
		return in.Value(name)
	}

	return there
}

// memoryStep is what memory of a VM that runs is added in.
const memoryStep = 128 << 20

// checkHotChange refuses changes that a VM that runs cannot take.
func (c *call) checkHotChange(v *store.VM, wanted *store.Hardware, fail failure) error {
	added := wanted.Memory - v.Memory
	switch {
	case v.Lease() != "" && wanted.Lease() != "" && v.Lease() != wanted.Lease():
		return asConflict(
			fail("Hot swapping of VM leases is not supported, please remove the current lease and then set a new one."),
		)
	case wanted.Memory > v.MaxMemory:
		return asConflict(
			fail("Memory size (%dMB) cannot exceed maximum memory size (%dMB).", wanted.Memory>>20, v.MaxMemory>>20),
		)
	case v.MemoryWaits() && v.Next.Memory != wanted.Memory:
		return wire.Invalid("Cannot hot change memory because memory next run configuration already exists.")
	case added > 0 && added%memoryStep != 0:
		return fail("Amount of added memory (%dMiB) is not dividable by %dMiB.", added>>20, memoryStep>>20)
	}

	h := c.store.Hosts.Get(v.Host)
	if h != nil && wanted.CPU.Sockets > v.CPU.Sockets && wanted.CPU.Count() > h.CPU.Count() {
		return wire.Invalid("The requested number of vCPUs is not available on the host the VM is running on")
	}

	return nil
}

// moveToCluster changes the cluster of a VM that is down, within its data center.
func (c *call) moveToCluster(v *store.VM, e *wire.Element) error {
	if e == nil {
		return nil
	}

	to, err := c.clusterOf(e)
	switch {
	case err != nil && wire.RefID(e) != "":
		return wire.Failed(http.StatusInternalServerError, "[General command validation failure.]")
	case err != nil:
		return err
	case to.ID == v.Cluster:
		return nil
	case v.Running():
		return wire.Conflict("Cannot update a VM in this status. Try stopping the VM first.")
	case to.DataCenter != c.store.DataCenterOf(v.Cluster):
		return wire.Conflict("Cannot edit VM. VM can be moved only to a Cluster in the same Data Center.")
	}

	v.Cluster = to.ID

	return nil
}

func removeVM(c *call) (*wire.Element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}

	detachOnly := c.flagParam("detach_only") || c.body.Yes("vm", "detach_only")
	switch {
	case v.Applied != nil:
		return nil, notUpdating(v, "remove VM")
	case v.DeleteProtected:
		return nil, wire.Conflict(
			"Cannot remove VM. Delete protection is enabled. In order to delete, disable Delete protection first.",
		)
	case v.Running() || v.Status == store.StatusSuspended:
		return nil, wire.Conflict("Cannot remove VM. VM is running.")
	case detachOnly && v.Template != store.BlankTemplateID:
		return nil, wire.Conflict("Cannot remove VM with detaching disks, VM is based from template.")
	}

	var doomed []*store.Disk

	for _, a := range c.store.AttachmentsOf(v.ID) {
		d := c.store.Disks.Get(a.Disk)
		if d.Status == store.StatusLocked {
			return nil, wire.Conflict(
				"Cannot remove VM: The following disks are locked: %s. Please try again in a few minutes.",
				d.Name,
			)
		}

		if !detachOnly && len(c.store.AttachmentsOfDisk(d.ID)) == 1 {
			doomed = append(doomed, d)
		}
	}

	if v.Status == store.StatusImageLocked {
		return nil, wire.Conflict("Cannot remove VM: VM is locked. Please try again in a few minutes.")
	}

	c.work("Removing VM "+v.Name, "")
	c.event(113, "normal", "VM "+v.Name+" was successfully removed.", eventOf{vm: v.ID})
	c.forget(v)

	for _, d := range doomed {
		c.removeLater(d)
	}

	return c.complete(), nil
}

// StatusRemoved is where a VM or a disk is on its way to that is being removed.
const StatusRemoved = "removed"

// forget takes a VM out of the inventory. Its disks stay.
func (s *Engine) forget(v *store.VM) {
	for _, n := range s.store.NICsOf(v.ID) {
		s.store.Release(n.MAC)
		s.store.NICs.Drop(n.ID)
	}

	for _, a := range s.store.AttachmentsOf(v.ID) {
		s.store.Attachments.Drop(v.ID + "/" + a.Disk)
	}

	for _, t := range s.store.Tags.Rows {
		if store.Member(&t.VMs, v.ID, false) {
			s.store.Tags.Put(t.ID, t)
		}
	}

	for _, g := range s.store.Groups.Rows {
		if store.Member(&g.VMs, v.ID, false) {
			s.store.Groups.Put(g.ID, g)
		}
	}

	for _, l := range s.store.Labels.Rows {
		if store.Member(&l.VMs, v.ID, false) {
			s.store.Labels.Put(l.ID, l)
		}
	}

	for _, found := range s.store.SnapshotsOf(v.ID) {
		s.store.Snapshots.Drop(found.ID)
	}

	s.store.VMs.Drop(v.ID)
	s.finish(v.ID)
	id := v.ID
	s.tell(func() { s.settings.Guest.Removed(id) })
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
