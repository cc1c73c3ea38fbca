package api

import (
	"net/http"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

func addVM(c *call) (*wire.Element, error) {
	in := c.body
	if err := requireElements(in, "Vm", "cluster.id|name"); err != nil {
		return nil, err
	}

	if in.Has("snapshots") {
		return c.addVMOfSnapshot()
	}

	if err := requireElements(in, "Vm", "name", "template.id|name"); err != nil {
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
		return nil, wire.Invalid("The specified Template doesn't exist in the current Data Center.") // from its source
	case source.Status != store.StatusOK:
		return nil, wire.Conflict("Cannot add VM. Template ${TemplateName} is being created.")
	}

	return c.makeVM(
		source, home, c.flagParam("clone") || in.IsTrue("clone") || in.IsTrue("disk_attachments", "clone"), false,
	)
}

// makeVM creates the requested VM. With goesOn, the engine responds before it has copied the disks.
func (c *call) makeVM(source *store.Template, home *store.Cluster, clone, goesOn bool) (*wire.Element, error) {
	in := c.body
	made := c.newVMOf(source, home)
	if err := c.applyCreate(made, in, "add VM"); err != nil {
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
	c.copyTemplateParts(made, source, disks)
	c.lockNew(made, clone, len(disks) > 0)
	c.recordJob("Creating VM "+made.Name, made.ID)
	c.recordEvent(34, "normal", "VM "+made.Name+" creation was initiated by "+c.user.Name+".", eventOf{vm: made.ID})

	// The response to an unfinished creation has no Location header.
	document := c.answerCreated(vmDocument(c, made))
	if len(disks) > 0 && (!clone || goesOn) {
		c.status, c.made = http.StatusAccepted, ""
		document.Str("creation_status", "pending")
	}

	return document, nil
}

// newVMOf returns a new VM with the settings of its template, but does not store it.
func (c *call) newVMOf(source *store.Template, home *store.Cluster) *store.VM {
	made := &store.VM{
		Hardware:       source.CopyOf(),
		ID:             store.NewID(),
		Cluster:        home.ID,
		Status:         store.StatusDown,
		Template:       source.ID,
		Original:       source.ID,
		Kubernetes:     source.Kubernetes,
		Ignition:       source.Ignition,
		Image:          source.Image,
		Created:        c.now(),
		Consoles:       slices.Clone(source.Consoles),
		Initialization: source.Initialization.Clone(),
	}
	if home.BiosType != "" && !made.Settings.Has("bios", "type") {
		made.Settings.SetText(home.BiosType, "bios", "type")
	}

	return made
}

// applyCreate applies the elements of a create request to a new VM.
func (c *call) applyCreate(made *store.VM, in *wire.Element, command string) error {
	fail := commandOn(command)
	if err := checkNames(in, "VM", "vmStatic", maxVMName, fail); err != nil {
		return err
	}

	made.Name, made.Description, made.Comment = in.Value("name"), in.Value("description"), in.Value("comment")
	if err := c.checkVMName(made, command); err != nil {
		return err
	}

	if err := c.changeHardware(&made.Hardware, in, true, c.store.Clusters.Get(made.Cluster), fail); err != nil {
		return err
	}

	sized, err := c.findInstanceType(in)
	if err != nil {
		return err
	}

	if sized != nil {
		made.InstanceType = sized.ID
		made.ApplyInstanceType(sized, in)
	}

	if kind := in.Value("display", "type"); kind != "" {
		made.Consoles = []store.GraphicsConsole{{ID: store.ConsoleIDs[kind], Protocol: kind}}
	}

	made.Initialization, err = mergeInitialization(made.Initialization, in.Get("initialization"), fail)

	return err
}

// lockNew locks a VM until its disks exist. Even a clone of a template without disks is locked for a moment.
func (c *call) lockNew(made *store.VM, clone, disks bool) {
	if !disks {
		return
	}

	wait := c.settings.Timings.Clone
	if clone {
		wait *= 2
	}

	made.Status = store.StatusImageLocked
	c.scheduleVM(made, store.StatusDown, wait)
}

// copyTemplateParts stores the parts of a new VM: a NIC for each NIC of its template, and the disks from copyDisks.
func (s *Engine) copyTemplateParts(made *store.VM, source *store.Template, disks []copied) {
	for _, n := range s.store.NICsOf(source.ID) {
		own := *n
		own.ID, own.Owner, own.MAC, own.Order = store.NewID(), made.ID, s.store.NextMAC(), s.store.NextNumber("nics")
		s.store.NICs.Put(own.ID, &own)
	}

	for _, d := range disks {
		s.store.Disks.Put(d.disk.ID, d.disk)
		s.store.Attachments.Put(made.ID+"/"+d.disk.ID, d.attachment)
	}
}

func updateVM(c *call) (*wire.Element, error) {
	v, err := c.findVM()
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

	if err := checkNotUpdating(v, command); err != nil {
		return nil, err
	}

	if err := c.moveToCluster(v, in.Get("cluster")); err != nil {
		return nil, err
	}

	next, wanted, err := c.nextVM(v, command)
	if err != nil {
		return nil, err
	}

	leased := !v.IsRunning() && wanted.LeaseDomain() != v.LeaseDomain() && wanted.LeaseDomain() != ""
	next.SetHardware(wanted, v.IsRunning(), c.flagParam("next_run"))
	*v = next
	c.store.VMs.Put(v.ID, v)
	if leased { // the storage domain needs some time for the lease
		after := v.CopyOf()
		v.Applied = &after
		c.scheduleVM(v, store.StatusDown, c.settings.Timings.PowerDown)
	}

	c.recordJob("Editing VM "+v.Name, "")
	c.recordEvent(35, "normal", "VM "+v.Name+" configuration was updated by "+c.user.Name+".", eventOf{vm: v.ID})

	return vmDocument(c, v), nil
}

// nextVM returns the VM after the request. It returns the new hardware separately, because new hardware may have to
// wait for the next start.
func (c *call) nextVM(v *store.VM, command string) (next store.VM, wanted store.Hardware, err error) {
	fail, in := commandOn(command), c.body
	next, wanted = *v, v.CopyOf()
	next.Name = textOr(in, "name", v.Name)
	next.Description = textOr(in, "description", v.Description)
	next.Comment = textOr(in, "comment", v.Comment)
	if err := c.checkVMName(&next, command); err != nil {
		return next, wanted, err
	}

	next.Initialization, err = mergeInitialization(v.Initialization, in.Get("initialization"), fail)
	if err != nil {
		return next, wanted, err
	}

	if err := c.changeHardware(&wanted, in, false, c.store.Clusters.Get(v.Cluster), fail); err != nil {
		return next, wanted, err
	}

	sized, err := c.findInstanceType(in)
	if err != nil {
		return next, wanted, err
	}

	if sized != nil {
		next.InstanceType = sized.ID
		wanted.ApplyInstanceType(sized, in)
	}

	if v.IsRunning() && !c.flagParam("next_run") {
		err = c.checkHotChange(v, &wanted, fail)
	}

	return next, wanted, err
}

// textOr returns the text of an element in the request, or the existing value if the request lacks this element.
func textOr(in *wire.Element, name, there string) string {
	if in.Has(name) {
		return in.Value(name)
	}

	return there
}

// checkHotChange rejects changes that are impossible while the VM runs.
func (c *call) checkHotChange(v *store.VM, wanted *store.Hardware, fail failure) error {
	added := wanted.Memory - v.Memory
	switch {
	case v.LeaseDomain() != "" && wanted.LeaseDomain() != "" && v.LeaseDomain() != wanted.LeaseDomain():
		return asConflict(
			fail("Hot swapping of VM leases is not supported, please remove the current lease and then set a new one."),
		)
	case wanted.Memory > v.MaxMemory:
		return asConflict(
			fail("Memory size (%dMB) cannot exceed maximum memory size (%dMB).", wanted.Memory>>20, v.MaxMemory>>20),
		)
	case v.HasPendingMemory() && v.Next.Memory != wanted.Memory:
		return wire.Invalid("Cannot hot change memory because memory next run configuration already exists.")
	case added > 0 && added%memoryStep != 0:
		return fail("Amount of added memory (%dMiB) is not dividable by %dMiB.", added>>20, memoryStep>>20)
	}

	h := c.store.Hosts.Get(v.Host)
	if h != nil && wanted.CPU.Sockets > v.CPU.Sockets && wanted.CPU.CountCPUs() > h.CPU.CountCPUs() {
		return wire.Invalid("The requested number of vCPUs is not available on the host the VM is running on")
	}

	return nil
}

// moveToCluster changes the cluster of a stopped VM, within its data center.
func (c *call) moveToCluster(v *store.VM, e *wire.Element) error {
	if e == nil {
		return nil
	}

	to, err := c.clusterOf(e)
	switch {
	case err != nil && wire.RefID(e) != "":
		return wire.PlainFault(http.StatusInternalServerError, "[General command validation failure.]")
	case err != nil:
		return err
	case to.ID == v.Cluster:
		return nil
	case v.IsRunning():
		return wire.Conflict("Cannot update a VM in this status. Try stopping the VM first.")
	case to.DataCenter != c.store.DataCenterOf(v.Cluster):
		return wire.Conflict("VM can be moved only to a Cluster in the same Data Center.") // from the engine's sources
	}

	v.Cluster = to.ID

	return nil
}

// removeVM removes a VM. Its checks follow the order of the engine's RemoveVmCommand.
func removeVM(c *call) (*wire.Element, error) {
	v, err := c.findVM()
	if err != nil {
		return nil, err
	}

	detachOnly := c.flagParam("detach_only") || c.body.IsTrue("vm", "detach_only")
	switch {
	case v.Applied != nil:
		return nil, checkNotUpdating(v, "remove VM")
	case v.DeleteProtected:
		return nil, wire.Conflict(
			"Cannot remove VM. Delete protection is enabled. In order to delete, disable Delete protection first.",
		)
	case detachOnly && v.Template != store.BlankTemplateID:
		return nil, wire.Conflict("Cannot remove VM with detaching disks, VM is based from template.")
	case v.Status == store.StatusSuspended: // from the engine's sources
		return nil, wire.Conflict("Cannot remove VM that its state is not down.\n-Please stop the VM first.")
	case v.IsRunning():
		return nil, wire.Conflict("Cannot remove VM. VM is running.")
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

	c.recordJob("Removing VM "+v.Name, "")
	c.recordEvent(113, "normal", "VM "+v.Name+" was successfully removed.", eventOf{vm: v.ID})
	c.dropVM(v)

	for _, d := range doomed {
		c.removeLater(d)
	}

	return c.answerComplete(), nil
}

// dropVM removes a VM from the inventory. The VM's disks stay.
func (s *Engine) dropVM(v *store.VM) {
	for _, n := range s.store.NICsOf(v.ID) {
		s.store.ReleaseLeases(n.MAC)
		s.store.NICs.Drop(n.ID)
	}

	for _, a := range s.store.AttachmentsOf(v.ID) {
		s.store.Attachments.Drop(v.ID + "/" + a.Disk)
	}

	for _, t := range s.store.Tags.Rows {
		if store.SetMember(&t.VMs, v.ID, false) {
			s.store.Tags.Put(t.ID, t)
		}
	}

	for _, g := range s.store.Groups.Rows {
		if store.SetMember(&g.VMs, v.ID, false) {
			s.store.Groups.Put(g.ID, g)
		}
	}

	for _, l := range s.store.Labels.Rows {
		if store.SetMember(&l.VMs, v.ID, false) {
			s.store.Labels.Put(l.ID, l)
		}
	}

	for _, found := range s.store.SnapshotsOf(v.ID) {
		s.store.Snapshots.Drop(found.ID)
	}

	s.store.VMs.Drop(v.ID)
	s.finishJobs(v.ID)
	id := v.ID
	s.callGuest(func() { s.settings.Guest.HandleRemoval(id) })
}
