package api

import (
	"cmp"
	"net/http"
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

// attachmentDocument shows how a disk is attached.
func attachmentDocument(a *store.Attachment, owner string) *wire.Element {
	out := wire.Object("disk_attachment", a.Disk, owner+"s", a.Owner, "diskattachments", a.Disk).
		Flag("active", a.Active).Flag("bootable", a.Bootable).Str("interface", a.Interface).
		Flag("pass_discard", a.PassDiscard).Flag("read_only", a.ReadOnly).
		Flag("uses_scsi_reservation", a.UsesSCSIReservation).Opt("logical_name", a.LogicalName)

	return out.Add(wire.Ref("disk", "disks", a.Disk), wire.Ref(owner, owner+"s", a.Owner))
}

func attachmentsDocument(c *call, ownerID, owner string) *wire.Element {
	out := wire.El("disk_attachments")
	for _, a := range c.store.AttachmentsOf(ownerID) {
		out.Items(attachmentDocument(a, owner))
	}

	return out
}

func listAttachments(c *call) (*wire.Element, error) {
	return attachmentsDocument(c, c.id("vm"), "vm"), nil
}

func (c *call) attachment() (*store.VM, *store.Attachment, error) {
	a, err := one(c.store.Attachments, c.id("vm")+"/"+c.id("id"))
	if err != nil {
		return nil, nil, err
	}

	return c.store.VMs.Get(a.Owner), a, nil
}

func getAttachment(c *call) (*wire.Element, error) {
	_, a, err := c.attachment()
	if err != nil {
		return nil, err
	}

	return attachmentDocument(a, "vm"), nil
}

// checkInterface refuses buses that the guest does not know. A guest that runs takes no SATA disk.
func checkInterface(v *store.VM, name string) error {
	if name == "ide" || name == "spapr_vscsi" || name == "sata" && v.Running() {
		return wire.Invalid("Cannot attach Virtual Disk. The disk interface is not supported by the VM OS: %s.",
			cmp.Or(catalog().osNamed(v.OSType), &operatingSystem{}).description)
	}

	return nil
}

// attachable are the statuses in which disks are attached and taken away.
var attachable = []string{store.StatusUp, store.StatusDown, store.StatusSuspended, store.StatusPaused}

func addAttachment(c *call) (*wire.Element, error) {
	in := c.body
	if !in.Has("disk") { // the engine takes it and fails
		return nil, wire.BrokenPage()
	}

	v := c.store.VMs.Get(c.id("vm"))
	if v == nil {
		return nil, wire.Invalid("Cannot attach Virtual Disk. VM is not found.")
	}

	if err := checkAttachment(in); err != nil {
		return nil, err
	}

	d := c.store.Disks.Get(wire.RefID(in.Get("disk")))
	fresh := d == nil && in.Has("disk", "provisioned_size")
	if fresh {
		var err error
		if d, err = c.newDisk(in.Get("disk"), c.store.DataCenterOf(v.Cluster)); err != nil {
			return nil, err
		}
	} else if err := c.checkAttach(v, d); err != nil {
		return nil, err
	}

	if v.Status == store.StatusImageLocked {
		return nil, wire.Conflict("Cannot attach Virtual Disk: VM is locked. Please try again in a few minutes.")
	}

	if err := checkInterface(v, in.Value("interface")); err != nil {
		return nil, err
	}

	made := newAttachment(in, v, d, fresh)
	if made.Active && !slices.Contains(attachable, v.Status) {
		return nil, inStatus(v, "attach Virtual Disk")
	}

	err := c.bootable(v, made, map[bool]string{true: "add Virtual Disk", false: "attach Virtual Disk"}[fresh])
	if err != nil {
		return nil, err
	}

	waits := ""
	if fresh {
		c.arrangeDisk(d, store.StatusOK, c.settings.Timings.Disk)
		waits = d.ID
	}

	c.store.Attachments.Put(v.ID+"/"+d.ID, made)
	c.plugDisks(v)
	c.work("Attaching Disk "+d.Name+" to VM "+v.Name, waits)

	return c.created(attachmentDocument(made, "vm")), nil
}

// newAttachment is what a request asks for; a disk that is there already stays unplugged unless the client says
// otherwise.
func newAttachment(in *wire.Element, v *store.VM, d *store.Disk, fresh bool) *store.Attachment {
	return &store.Attachment{
		Owner:       v.ID,
		Disk:        d.ID,
		Interface:   in.Value("interface"),
		Bootable:    in.Yes("bootable"),
		Active:      fresh && !in.Has("active") || in.Yes("active"),
		ReadOnly:    in.Yes("read_only"),
		PassDiscard: in.Yes("pass_discard"),
	}
}

// checkAttachment refuses a request that lacks what every attachment needs.
func checkAttachment(in *wire.Element) error {
	if err := mandatory(in, "attachment", "interface"); err != nil {
		return err
	}

	if err := checkRef(in.Get("disk")); err != nil {
		return err
	}

	if wire.RefID(in.Get("disk")) == "" && !in.Has("disk", "provisioned_size") {
		return &wire.Refusal{
			Status: http.StatusBadRequest,
			Reason: "Incomplete parameters",
			Detail: "Disk [provisionedSize|size] required for invoke",
		}
	}

	return nil
}

// checkAttach refuses a disk that exists and cannot be attached.
func (c *call) checkAttach(v *store.VM, d *store.Disk) error {
	const command = "attach Virtual Disk"
	if d == nil {
		return wire.Invalid("Cannot attach Virtual Disk. The specified disk does not exist.")
	}

	if err := c.busy(d, command); err != nil {
		return err
	}

	switch {
	case c.store.Attachments.Get(v.ID+"/"+d.ID) != nil:
		return wire.Conflict("Cannot attach Virtual Disk. Disk %s is already attached to the VM %s.", d.Name, v.Name)
	case c.store.OfTemplate(d):
		return wire.Conflict("Cannot attach Virtual Disk. The disk is not shareable and is already attached to a VM.")
	case !d.Shareable && len(c.store.AttachmentsOfDisk(d.ID)) > 0:
		return wire.Conflict("Cannot attach Virtual Disk. Non Shareable Disk is already attached to a VM.")
	case c.store.StorageDomains.Get(d.Domain).DataCenter != c.store.DataCenterOf(v.Cluster):
		return wire.Conflict("Cannot attach Virtual Disk. The disk is not in the data center of the VM.")
	}

	return nil
}

// bootable checks for a command such as "attach Virtual Disk" that the VM has no other disk that is.
func (c *call) bootable(v *store.VM, a *store.Attachment, command string) error {
	for _, other := range c.store.AttachmentsOf(v.ID) {
		if a.Bootable && other.Disk != a.Disk && other.Bootable {
			return wire.Conflict("Cannot %s. Disk %s in VM %s is already marked as boot.", command,
				c.store.Disks.Get(other.Disk).Name, v.Name)
		}
	}

	return nil
}

func updateAttachment(c *call) (*wire.Element, error) {
	v, a, err := c.attachment()
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
			*field = in.Yes(name)
		}
	}

	if next.Interface = cmp.Or(in.Value("interface"), a.Interface); next.Interface != a.Interface {
		if err := checkInterface(v, next.Interface); err != nil {
			return nil, err
		}
	}

	if err := c.bootable(v, &next, "attach Virtual Disk"); err != nil {
		return nil, err
	}

	if in.Has("disk") {
		if err := c.editDisk(c.store.Disks.Get(a.Disk), in.Get("disk")); err != nil {
			return nil, err
		}
	}

	*a = next
	c.store.Attachments.Put(v.ID+"/"+a.Disk, a)
	c.plugDisks(v)

	return attachmentDocument(a, "vm"), nil
}

// removeAttachment detaches a disk, from a running VM too. With detach_only=false the disk is removed.
func removeAttachment(c *call) (*wire.Element, error) {
	v := c.store.VMs.Get(c.id("vm"))
	if v == nil {
		return nil, wire.Invalid("Cannot detach Virtual Disk. VM is not found.")
	}

	a := c.store.Attachments.Get(v.ID + "/" + c.id("id"))
	if a == nil {
		return nil, wire.Invalid("Cannot detach Virtual Disk. The disk is not attached to the VM ${VmName}., %s",
			v.Name)
	}

	const command = "detach Virtual Disk"
	d, remove := c.store.Disks.Get(a.Disk), c.query.Get("detach_only") == "false"
	if err := c.busy(d, command); err != nil {
		return nil, err
	}

	switch {
	case c.store.InSnapshot(v.ID, d.ID):
		return nil, wire.Conflict(
			"Cannot detach Virtual Disk. The disk is already configured in a snapshot. In order to detach it, " +
				"remove the disk's snapshots.",
		)
	case remove && len(c.store.AttachmentsOfDisk(d.ID)) > 1:
		return nil, wire.Conflict("Cannot remove Virtual Disk. The disk is attached to other VMs too.")
	case v.Status == store.StatusImageLocked:
		return nil, wire.Conflict("Cannot detach Virtual Disk: VM is locked. Please try again in a few minutes.")
	case a.Active && !slices.Contains(attachable, v.Status):
		return nil, inStatus(v, command)
	}

	c.store.Attachments.Drop(v.ID + "/" + d.ID)
	c.plugDisks(v)

	if remove {
		c.work("Removing Disk "+d.Name, d.ID)
		c.removeLater(d)
	}

	return c.complete(), nil
}

// removeTemplateDisk takes a template's disk from one of its storage domains.
func removeTemplateDisk(c *call) (*wire.Element, error) {
	a := c.store.Attachments.Get(c.id("template") + "/" + c.id("id"))
	if a == nil || c.store.Templates.Get(c.id("template")) == nil {
		return nil, wire.Gone()
	}

	d, domain := c.store.Disks.Get(a.Disk), c.query.Get("storage_domain")
	if err := c.busy(d, "remove Template Disk"); err != nil {
		return nil, err
	}

	switch {
	case domain == "":
		return nil, notMandatory("Parameter 'storage_domain' is mandatory but was not provided.")
	case !d.On(domain):
		return nil, wire.Gone()
	case len(d.Copies) == 0:
		return nil, wire.Conflict(
			"Cannot remove Template Disk. A disk of a template must be on one storage domain at least.",
		)
	}

	all := slices.DeleteFunc(append([]string{d.Domain}, d.Copies...), func(id string) bool { return id == domain })
	d.Domain, d.Copies = all[0], all[1:]
	c.work("Removing Disk "+d.Name, d.ID)
	c.arrangeDisk(d, store.StatusOK, c.settings.Timings.Disk)

	return c.complete(), nil
}
