package api

import (
	"cmp"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

var diskAttachmentRoutes = []route{
	{"DELETE", "/templates/{template}/diskattachments/{id}", removeTemplateDisk},
	{"GET", "/vms/{vm}/diskattachments", listAttachments},
	{"POST", "/vms/{vm}/diskattachments", addAttachment},
	{"GET", "/vms/{vm}/diskattachments/{id}", getAttachment},
	{"PUT", "/vms/{vm}/diskattachments/{id}", updateAttachment},
	{"DELETE", "/vms/{vm}/diskattachments/{id}", removeAttachment},
}

// attachmentDocument shows a disk attachment.
func attachmentDocument(a *store.Attachment, owner string) *wire.Element {
	out := wire.NewObject("disk_attachment", a.Disk, owner+"s", a.Owner, "diskattachments", a.Disk).
		Flag("active", a.Active).Flag("bootable", a.Bootable).Str("interface", a.Interface).
		Flag("pass_discard", a.PassDiscard).Flag("read_only", a.ReadOnly).
		Flag("uses_scsi_reservation", a.UsesSCSIReservation).StrIfSet("logical_name", a.LogicalName)

	return out.Add(wire.Ref("disk", "disks", a.Disk), wire.Ref(owner, owner+"s", a.Owner))
}

func attachmentsDocument(c *call, ownerID, owner string) *wire.Element {
	out := wire.El("disk_attachments")
	for _, a := range c.store.AttachmentsOf(ownerID) {
		out.AddItems(attachmentDocument(a, owner))
	}

	return out
}

func listAttachments(c *call) (*wire.Element, error) {
	return attachmentsDocument(c, c.pathID("vm"), "vm"), nil
}

func (c *call) findAttachment() (*store.VM, *store.Attachment, error) {
	a, err := findRow(c.store.Attachments, c.pathID("vm")+"/"+c.pathID("id"))
	if err != nil {
		return nil, nil, err
	}

	return c.store.VMs.Get(a.Owner), a, nil
}

func getAttachment(c *call) (*wire.Element, error) {
	_, a, err := c.findAttachment()
	if err != nil {
		return nil, err
	}

	return attachmentDocument(a, "vm"), nil
}

// checkInterface rejects interfaces unknown to the guest. A running guest accepts no SATA disk.
func checkInterface(v *store.VM, name, command string) error {
	if name == "ide" || name == "spapr_vscsi" || name == "sata" && v.IsRunning() {
		return wire.Invalid("Cannot %s: The disk interface is not supported by the VM OS: %s.", command,
			cmp.Or(catalog().osNamed(v.OSType), catalog().osNamed("other")).description)
	}

	return nil
}

// attachable are the VM statuses in which disks can be attached and detached.
var attachable = []string{store.StatusUp, store.StatusDown, store.StatusSuspended, store.StatusPaused}

const attachCommand = "attach Virtual Disk"

// addAttachment attaches an existing disk if the request names its ID. Otherwise, it creates a disk.
func addAttachment(c *call) (*wire.Element, error) {
	in := c.body
	if !in.Has("disk") { // the engine accepts such a request and then fails
		return nil, wire.BrokenPage()
	}

	if err := checkRef(in.Get("disk")); err != nil {
		return nil, err
	}

	if wire.RefID(in.Get("disk")) == "" {
		return c.attachNewDisk(in)
	}

	return c.attachExistingDisk(in, c.store.VMs.Get(c.pathID("vm")), c.store.Disks.Get(wire.RefID(in.Get("disk"))))
}

// attachNewDisk creates a disk for a VM, with checks in the order of the engine's AddDiskCommand. The texts about a
// missing interface and about discards are from the engine's sources.
func (c *call) attachNewDisk(in *wire.Element) (*wire.Element, error) {
	if missing := missingElements(in.Get("disk"), "provisionedSize|size", "format"); len(missing) > 0 {
		return nil, incompleteErrorFor("invoke", "Disk", missing...)
	}

	named := in.Get("disk").List("storage_domains", "storage_domain")
	if len(named) > 0 { // the engine looks up the domain before the command begins
		if _, err := c.domainFor(in.Get("disk"), addDiskCommand); err != nil {
			return nil, err
		}
	}

	if in.Value("interface") == "" {
		return nil, noInterface()
	}

	v := c.store.VMs.Get(c.pathID("vm"))
	if v == nil {
		return nil, wire.Invalid("Cannot add Virtual Disk. VM is not found.")
	}

	made := newAttachment(in, v, true)
	if err := c.checkBootDisk(v, made, addDiskCommand); err != nil {
		return nil, err
	}

	alias := cmp.Or(in.Value("disk", "alias"), in.Value("disk", "name"))
	if err := checkDiscards(made, alias, addDiskCommand); err != nil {
		return nil, err
	}

	d, err := c.newDisk(in.Get("disk"))
	if err != nil {
		return nil, err
	}

	if err := checkInterface(v, made.Interface, addDiskCommand); err != nil {
		return nil, err
	}

	if c.store.StorageDomains.Get(d.Domain).DataCenter != c.store.DataCenterOf(v.Cluster) {
		return nil, wire.Conflict(
			"Cannot add Virtual Disk. The target Data Center does not contain the Virtual Machine.")
	}

	if v.Status == store.StatusImageLocked {
		return nil, wire.Conflict("Cannot add Virtual Disk: VM is locked. Please try again in a few minutes.")
	}

	if made.Active && !slices.Contains(attachable, v.Status) {
		return nil, inStatus(v, attachCommand)
	}

	made.Disk = d.ID
	c.scheduleDisk(d, store.StatusOK, c.settings.Timings.Disk)

	return c.storeAttachment(v, d, made, d.ID), nil
}

// attachExistingDisk attaches a disk, with checks in the order of the engine's AttachDiskToVmCommand. Three texts are
// from the engine's sources: for a missing interface, for an attached disk, and for a disk in another data center.
func (c *call) attachExistingDisk(in *wire.Element, v *store.VM, d *store.Disk) (*wire.Element, error) {
	if in.Value("interface") == "" {
		return nil, noInterface()
	}

	if d == nil {
		return nil, wire.Invalid("Cannot attach Virtual Disk. The specified disk does not exist.")
	}

	if d.Status == store.StatusIllegal {
		return nil, wire.Invalid("Cannot attach Virtual Disk. Disk is in an illegal state. Disks in an illegal " +
			"state can " +
			"only be deleted.")
	}

	if err := c.checkDiskFree(d, attachCommand); err != nil {
		return nil, err
	}

	if v == nil {
		return nil, wire.Invalid("Cannot attach Virtual Disk. VM is not found.")
	}

	if v.Status == store.StatusImageLocked {
		return nil, wire.Conflict("Cannot attach Virtual Disk: VM is locked. Please try again in a few minutes.")
	}

	if !slices.Contains(attachable, v.Status) {
		return nil, inStatus(v, attachCommand)
	}

	made := newAttachment(in, v, false)
	made.Disk = d.ID
	if err := c.checkBootDisk(v, made, attachCommand); err != nil {
		return nil, err
	}

	switch {
	case c.store.Attachments.Get(v.ID+"/"+d.ID) != nil:
		return nil, wire.Conflict("Cannot attach Virtual Disk. The disk is already attached to VM.")
	case c.store.IsTemplateDisk(d), !d.Shareable && len(c.store.AttachmentsOfDisk(d.ID)) > 0:
		return nil, wire.Conflict("Cannot attach Virtual Disk. The disk is not shareable and is already attached to " +
			"a VM.")
	case c.store.StorageDomains.Get(d.Domain).DataCenter != c.store.DataCenterOf(v.Cluster):
		return nil, wire.Conflict("Cannot attach Virtual Disk. The target Data Center does not contain the Virtual " +
			"Disk.")
	}

	if err := checkInterface(v, made.Interface, attachCommand); err != nil {
		return nil, err
	}

	if err := checkDiscards(made, d.Name, attachCommand); err != nil {
		return nil, err
	}

	return c.storeAttachment(v, d, made, ""), nil
}

// storeAttachment stores an attachment and answers with it. The job waits for the object with the ID waits, unless this
// is "".
func (c *call) storeAttachment(v *store.VM, d *store.Disk, made *store.Attachment, waits string) *wire.Element {
	c.store.Attachments.Put(v.ID+"/"+d.ID, made)
	c.passDisksToGuest(v)
	c.recordJob("Attaching Disk "+d.Name+" to VM "+v.Name, waits)

	return c.answerCreated(attachmentDocument(made, "vm"))
}

func noInterface() error {
	return wire.Invalid("Interface is required, Attribute: diskVmElement.diskInterface")
}

// checkDiscards rejects options that the interface does not support: passing on discards, or read-only access.
func checkDiscards(a *store.Attachment, name, command string) error {
	switch {
	case a.PassDiscard && a.Interface == "virtio":
		return wire.Invalid("Cannot %s. Enable discard for %s is supported only by VirtIO-SCSI and IDE disk "+
			"interfaces.",
			command, name)
	case a.ReadOnly && a.Interface == "sata":
		return wire.Invalid("Cannot %s. SATA disks can't be read-only.", command)
	default:
		return nil
	}
}

// newAttachment returns the requested attachment. An existing disk stays unplugged unless the client requests an active
// disk.
func newAttachment(in *wire.Element, v *store.VM, fresh bool) *store.Attachment {
	return &store.Attachment{
		Owner:       v.ID,
		Interface:   in.Value("interface"),
		Bootable:    in.IsTrue("bootable"),
		Active:      fresh && !in.Has("active") || in.IsTrue("active"),
		ReadOnly:    in.IsTrue("read_only"),
		PassDiscard: in.IsTrue("pass_discard"),
	}
}

// checkBootDisk rejects a command such as "attach Virtual Disk" if the VM already has another plugged boot disk.
func (c *call) checkBootDisk(v *store.VM, a *store.Attachment, command string) error {
	for _, other := range c.store.AttachmentsOf(v.ID) {
		if a.Bootable && other.Bootable && other.Active {
			return wire.Conflict("Cannot %s. Disk %s in VM %s is already marked as boot.", command,
				c.store.Disks.Get(other.Disk).Name, v.Name)
		}
	}

	return nil
}

func updateAttachment(c *call) (*wire.Element, error) {
	v, a, err := c.findAttachment()
	if err != nil {
		return nil, err
	}

	in, next := c.body, *a
	for name, field := range map[string]*bool{
		"active":       &next.Active,
		"bootable":     &next.Bootable,
		"read_only":    &next.ReadOnly,
		"pass_discard": &next.PassDiscard,
	} {
		if in.Has(name) {
			*field = in.IsTrue(name)
		}
	}

	next.Interface = cmp.Or(in.Value("interface"), a.Interface)
	if err := c.checkAttachmentChange(v, a, &next); err != nil {
		return nil, err
	}

	if in.Has("disk") {
		if err := c.editDisk(c.store.Disks.Get(a.Disk), in.Get("disk")); err != nil {
			return nil, err
		}
	}

	*a = next
	c.store.Attachments.Put(v.ID+"/"+a.Disk, a)
	c.passDisksToGuest(v)

	return attachmentDocument(a, "vm"), nil
}

// checkAttachmentChange rejects invalid changes of an attachment, in the order of the engine's UpdateDiskCommand.
func (c *call) checkAttachmentChange(v *store.VM, a, next *store.Attachment) error {
	const command = "edit Virtual Disk"

	changed := *next
	changed.Active = a.Active // the engine has applied this before, even while the VM runs
	if a.Active && v.IsRunning() && changed != *a {
		return wire.Conflict("Cannot edit Virtual Disk. At least one of the VMs is not down.")
	}

	if !a.Bootable {
		if err := c.checkBootDisk(v, next, command); err != nil {
			return err
		}
	}

	if next.Interface != a.Interface {
		if err := checkInterface(v, next.Interface, command); err != nil {
			return err
		}
	}

	return checkDiscards(next, c.store.Disks.Get(a.Disk).Name, command)
}

const detachCommand = "detach Virtual Disk"

// removeAttachment detaches a disk, even from a running VM. With detach_only=false, it removes the disk. Refusals are
// in the order of the engine's DetachDiskFromVmCommand. The text about a disk without an attachment is from the
// engine's sources.
func removeAttachment(c *call) (*wire.Element, error) {
	if c.query.Get("detach_only") == "false" {
		return c.removeAttached(c.store.Disks.Get(c.pathID("id")))
	}

	v := c.store.VMs.Get(c.pathID("vm"))
	if v == nil {
		return nil, wire.Invalid("Cannot detach Virtual Disk. VM is not found.")
	}

	a := c.store.Attachments.Get(v.ID + "/" + c.pathID("id"))
	switch {
	case v.Status == store.StatusImageLocked:
		return nil, wire.Conflict("Cannot detach Virtual Disk: VM is locked. Please try again in a few minutes.")
	case v.Status != store.StatusUp && v.Status != store.StatusDown:
		return nil, inStatus(v, detachCommand)
	case a == nil:
		return nil, wire.Invalid(
			"Cannot detach Virtual Disk. The specified disk is not attached to the VM ${VmName}., %s", v.Name)
	}

	d := c.store.Disks.Get(a.Disk)
	if err := c.checkDiskFree(d, detachCommand); err != nil {
		return nil, err
	}

	if c.store.IsInSnapshot(v.ID, d.ID) {
		return nil, wire.Conflict(
			"Cannot detach Virtual Disk. The disk is already configured in a snapshot. In order to detach it, " +
				"remove the disk's snapshots.",
		)
	}

	c.store.Attachments.Drop(v.ID + "/" + d.ID)
	c.passDisksToGuest(v)

	return c.answerComplete(), nil
}

// removeAttached removes a disk. Like the engine, it ignores the VM in the path. The text about a missing disk is from
// the engine's sources.
func (c *call) removeAttached(d *store.Disk) (*wire.Element, error) {
	if d == nil {
		return nil, wire.Invalid("Cannot remove Virtual Disk. VM's Image does not exist.\nIn order to import " +
			"partial VM, " +
			"select 'allow partial' checkbox.")
	}

	if err := c.checkRemovable(d); err != nil {
		return nil, err
	}

	c.recordJob("Removing Disk "+d.Name, d.ID)

	for _, a := range c.store.AttachmentsOfDisk(d.ID) {
		c.store.Attachments.Drop(a.Owner + "/" + d.ID)
		if v := c.store.VMs.Get(a.Owner); v != nil {
			c.passDisksToGuest(v)
		}
	}

	c.removeLater(d)

	return c.answerComplete(), nil
}

// removeTemplateDisk removes a template's disk from one of its storage domains.
func removeTemplateDisk(c *call) (*wire.Element, error) {
	a := c.store.Attachments.Get(c.pathID("template") + "/" + c.pathID("id"))
	if a == nil || c.store.Templates.Get(c.pathID("template")) == nil {
		return nil, wire.NotFound()
	}

	d, domain := c.store.Disks.Get(a.Disk), c.query.Get("storage_domain")
	if err := c.checkDiskFree(d, "remove Template Disk"); err != nil {
		return nil, err
	}

	switch {
	case domain == "":
		return nil, invalidInput("Parameter 'storage_domain' is mandatory but was not provided.")
	case !d.IsOnDomain(domain):
		return nil, wire.NotFound()
	case len(d.Copies) == 0:
		return nil, wire.Conflict(
			"Cannot remove Template Disk. A disk of a template must be on one storage domain at least.",
		)
	}

	all := slices.DeleteFunc(append([]string{d.Domain}, d.Copies...), func(id string) bool { return id == domain })
	d.Domain, d.Copies = all[0], all[1:]
	c.recordJob("Removing Disk "+d.Name, d.ID)
	c.scheduleDisk(d, store.StatusOK, c.settings.Timings.Disk)

	return c.answerComplete(), nil
}
