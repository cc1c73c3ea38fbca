package ovirtsim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// This file has disks and how they are attached. What is written into them is in transfers.go.

// arrangeDisk locks a disk until an operation on it ends.
func (s *Server) arrangeDisk(d *disk, status string, in time.Duration) {
	d.Status, d.Until = statusLocked, transition{Status: status, At: time.Now().Add(in)}
	s.store.disks.put(d.ID, d)
	s.wakeDisk(d)
}

func (s *Server) wakeDisk(d *disk) {
	due := d.Until
	s.at(due.At, func() {
		if s.store.disks.get(d.ID) != d || d.Until != due {
			return
		}
		if due.Status == statusRemoved {
			s.dropDisk(d)
		} else {
			d.Status, d.Until = due.Status, transition{}
			s.store.disks.put(d.ID, d)
		}
		s.finish(d.ID)
	})
}

// on says whether a disk is on a storage domain; that of a template may be on several.
func (d *disk) on(domainID string) bool {
	return d.Domain == domainID || slices.Contains(d.Copies, domainID)
}

// dropDisk takes a disk out of the inventory, with its content and where it is attached.
func (s *Server) dropDisk(d *disk) {
	for _, a := range s.store.attachmentsOfDisk(d.ID) {
		s.store.attachments.drop(a.Owner + "/" + d.ID)
	}
	s.store.disks.drop(d.ID)
	_ = os.Remove(s.imagePath(d.ID))
}

func (s *Server) imagePath(diskID string) string { return filepath.Join(s.images, diskID+".img") }

func diskDocument(c *call, d *disk) *element {
	out := object("disk", d.ID, "disks", d.ID).links("statistics", "permissions").actions("copy", "move").str("name", d.Name).str("alias", d.Name).opt("description", d.Description).
		num("actual_size", d.Actual).str("backup", "none").str("content_type", d.ContentType).str("format", d.Format).str("image_id", c.store.idOf("", "image", d.ID)).
		num("initial_size", d.Initial).flag("propagate_errors", false).num("provisioned_size", d.Provisioned).flag("read_only", false).flag("shareable", d.Shareable).
		flag("sparse", d.Sparse).str("status", d.Status).str("storage_type", "image").num("total_size", d.Actual).flag("wipe_after_delete", d.WipeAfterDelete)
	if d.Format == "cow" {
		out.str("qcow_version", "qcow2_v3")
	}
	out.add(refs("storage_domains", "storage_domain", "storagedomains", append([]string{d.Domain}, d.Copies...)))
	var vms []string
	for _, a := range c.store.attachmentsOfDisk(d.ID) {
		if c.store.vms.get(a.Owner) != nil {
			vms = append(vms, a.Owner)
		}
	}
	if len(vms) > 0 {
		out.add(refs("vms", "vm", "vms", vms))
	}
	return out
}

func disksWhere(c *call, match func(*disk) bool) (*element, error) {
	of := fields[*disk]{
		"name": val(func(d *disk) string { return d.Name }), "alias": val(func(d *disk) string { return d.Name }), "id": val(func(d *disk) string { return d.ID }),
		"status": val(func(d *disk) string { return d.Status }), "format": val(func(d *disk) string { return d.Format }), "description": val(func(d *disk) string { return d.Description }),
		"provisioned_size": val(func(d *disk) string { return strconv.FormatInt(d.Provisioned>>30, 10) }),
		"vm_names": func(d *disk) []string {
			var names []string
			for _, a := range c.store.attachmentsOfDisk(d.ID) {
				if v := c.store.vms.get(a.Owner); v != nil {
					names = append(names, v.Name)
				}
			}
			return names
		},
	}
	return collect(c, "disks", c.store.disks.where(match, func(d *disk) string { return d.Name + d.ID }), of, diskDocument)
}

// listDisks leaves the disks of templates out unless somebody asks for them by ID: so does the engine.
func listDisks(c *call) (*element, error) {
	return disksWhere(c, func(d *disk) bool { return !c.store.ofTemplate(d) })
}

// ofTemplate says whether a disk belongs to a template.
func (s *store) ofTemplate(d *disk) bool {
	for _, a := range s.attachmentsOfDisk(d.ID) {
		if s.templates.get(a.Owner) != nil {
			return true
		}
	}
	return false
}

func (c *call) disk() (*disk, error) { return one(c.store.disks, "Disk", c.id("id")) }

func getDisk(c *call) (*element, error) {
	d, err := c.disk()
	if err != nil {
		return nil, err
	}
	return diskDocument(c, d), nil
}

// domainFor is the storage domain that a disk's document names, else the first of the data center.
func (c *call) domainFor(in *element, dataCenterID string) (*storageDomain, error) {
	named := append(in.list("storage_domains", "storage_domain"), in.list("storage_domain")...)
	if len(named) == 0 {
		domains := c.store.storageDomains.where(func(d *storageDomain) bool { return d.DataCenter == dataCenterID }, func(d *storageDomain) string { return d.Name })
		if len(domains) == 0 || dataCenterID == "" {
			return nil, incomplete("Disk", "storage_domains")
		}
		return domains[0], nil
	}
	found := referred(c.store.storageDomains, named[0], func(d *storageDomain) string { return d.Name })
	if found == nil {
		return nil, notFound("StorageDomain", refID(named[0]))
	}
	return found, nil
}

// fits checks that a disk's shape is possible on its storage domain, and that there is room for it.
func (c *call) fits(d *disk, domain *storageDomain, needs int64) error {
	block := domain.StorageType == "iscsi" || domain.StorageType == "fcp"
	if d.Format == "raw" && d.Sparse && block || d.Format == "cow" && !d.Sparse {
		shape := map[string]string{"raw": "RAW", "cow": "COW"}[d.Format] + map[bool]string{true: " Sparse", false: " Preallocated"}[d.Sparse]
		return conflict("Cannot add Virtual Disk. Disk configuration (%s backup-None) is incompatible with the storage domain type.", shape)
	}
	return c.space(domain, needs)
}

// space refuses what does not go onto a storage domain any more.
func (c *call) space(domain *storageDomain, needs int64) error {
	if used, _ := c.store.usage(domain.ID); domain.Bytes-used < needs {
		return conflict("Cannot add Virtual Disk. Low disk space on Storage Domain %s.", domain.Name)
	}
	return nil
}

// room checks that several disks together go onto their storage domains.
func (c *call) room(disks []*disk) error {
	needs := map[string]int64{}
	for _, d := range disks {
		needs[d.Domain] += d.Actual
	}
	for _, id := range sortedKeys(needs) {
		if err := c.space(c.store.storageDomains.get(id), needs[id]); err != nil {
			return err
		}
	}
	return nil
}

// sameCenter refuses to bring a disk into another data center.
func (c *call) sameCenter(d *disk, domain *storageDomain) error {
	if c.store.storageDomains.get(d.Domain).DataCenter != domain.DataCenter {
		return conflict("Cannot move Virtual Disk. The storage domain %s is in another data center.", domain.Name)
	}
	return nil
}

// newDisk makes a disk as a document describes it; it is not stored yet.
func (c *call) newDisk(in *element, dataCenterID string) (*disk, error) {
	if err := require(in, "Disk", "provisioned_size", "format"); err != nil {
		return nil, err
	}
	domain, err := c.domainFor(in, dataCenterID)
	if err != nil {
		return nil, err
	}
	made := &disk{
		ID: orElse(refID(in), newID()), Name: orElse(in.value("alias"), in.value("name")), Description: in.value("description"), Domain: domain.ID, Format: in.value("format"),
		ContentType: orElse(in.value("content_type"), "data"), Provisioned: in.number("provisioned_size"), Initial: in.number("initial_size"),
		Shareable: in.yes("shareable"), WipeAfterDelete: in.yes("wipe_after_delete"), Sparse: in.yes("sparse"),
	}
	parsed, err := uuid.Parse(made.ID)
	switch {
	case err != nil || parsed.String() != made.ID: // it names a file too
		return nil, malformed("the disk's ID is not a UUID: " + made.ID)
	case made.Initial < 0:
		return nil, invalid("Cannot add Virtual Disk. The initial size must not be negative.")
	case c.store.disks.get(made.ID) != nil:
		return nil, conflict("Cannot add Virtual Disk. A disk with this ID already exists.")
	case made.Format != "raw" && made.Format != "cow":
		return nil, malformed("format is neither raw nor cow: " + made.Format)
	case made.Provisioned <= 0:
		return nil, invalid("Cannot add Virtual Disk. The disk's size must be positive.")
	}
	if !in.has("sparse") {
		made.Sparse = made.Format == "cow"
	}
	if made.Sparse {
		made.Actual = made.Initial
	} else {
		made.Actual = made.Provisioned
	}
	if made.Name == "" {
		made.Name = "Disk-" + made.ID[:8]
	}
	return made, c.fits(made, domain, made.Actual)
}

func addDisk(c *call) (*element, error) {
	made, err := c.newDisk(c.body, "")
	if err != nil {
		return nil, err
	}
	c.work("Adding Disk "+made.Name, made.ID)
	c.arrangeDisk(made, statusOK, c.options.Timings.Disk)
	c.event(2020, "normal", fmt.Sprintf("Add-Disk operation of %s was initiated by %s.", made.Name, c.user), eventOf{})
	c.created = true
	return diskDocument(c, made), nil
}

// editDisk applies a document to a disk: its alias, and a size that may only grow.
func (c *call) editDisk(d *disk, in *element) error {
	if d.Status == statusLocked {
		return conflict("Cannot edit Virtual Disk: Disk is locked. Please try again later.")
	}
	if c.store.ofTemplate(d) {
		return conflict("Cannot edit Virtual Disk. The disk belongs to a template.")
	}
	size := in.number("provisioned_size")
	if in.has("provisioned_size") && size != d.Provisioned {
		if size < d.Provisioned {
			return conflict("Cannot edit Virtual Disk. New disk size must be larger than the current disk size.")
		}
		grow := int64(0)
		if !d.Sparse {
			grow = size - d.Provisioned
		}
		if used, _ := c.store.usage(d.Domain); c.store.storageDomains.get(d.Domain).Bytes-used < grow {
			return conflict("Cannot extend disk size. Low disk space on Storage Domain %s.", c.store.storageDomains.get(d.Domain).Name)
		}
		d.Provisioned = size
		d.Actual += grow
		c.arrangeDisk(d, statusOK, c.options.Timings.Disk)
	}
	for name, field := range map[string]*string{"alias": &d.Name, "name": &d.Name, "description": &d.Description} {
		if in.has(name) {
			*field = in.value(name)
		}
	}
	if in.has("wipe_after_delete") {
		d.WipeAfterDelete = in.yes("wipe_after_delete")
	}
	if in.has("shareable") {
		d.Shareable = in.yes("shareable")
	}
	c.store.disks.put(d.ID, d)
	return nil
}

func updateDisk(c *call) (*element, error) {
	d, err := c.disk()
	if err != nil {
		return nil, err
	}
	if err := c.editDisk(d, c.body); err != nil {
		return nil, err
	}
	waits := ""
	if d.Status == statusLocked {
		waits = d.ID
	}
	c.work("Editing Disk "+d.Name, waits)
	return diskDocument(c, d), nil
}

func removeDisk(c *call) (*element, error) {
	d, err := c.disk()
	if err != nil {
		return nil, err
	}
	switch {
	case d.Status == statusLocked:
		return nil, conflict("Cannot remove Virtual Disk: Disk is locked. Please try again later.")
	case c.store.ofTemplate(d):
		return nil, conflict("Cannot remove Virtual Disk. The disk belongs to a template.")
	}
	for _, a := range c.store.attachmentsOfDisk(d.ID) {
		if v := c.store.vms.get(a.Owner); v != nil && v.Status != statusDown && a.Active {
			return nil, conflict("Cannot remove Virtual Disk. At least one of the VMs is not down.")
		}
	}
	c.work("Removing Disk "+d.Name, d.ID)
	if wait := c.options.Timings.Remove; wait > 0 {
		c.arrangeDisk(d, statusRemoved, wait)
	} else {
		c.dropDisk(d)
		c.finish(d.ID)
	}
	return c.complete(), nil
}

// copyDisk makes another disk with the same content, or copies a template's disk to another storage domain.
func copyDisk(c *call) (*element, error) {
	d, err := c.disk()
	if err != nil {
		return nil, err
	}
	if d.Status != statusOK {
		return nil, conflict("Cannot copy Virtual Disk: Disk is locked. Please try again later.")
	}
	domain, err := c.domainFor(c.body, c.store.storageDomains.get(d.Domain).DataCenter)
	if err != nil {
		return nil, err
	}
	if err := c.sameCenter(d, domain); err != nil {
		return nil, err
	}
	if c.store.ofTemplate(d) && (c.body.value("disk", "alias") == "" && c.body.value("disk", "name") == "") { // the same disk, on one more storage domain
		if d.on(domain.ID) {
			return nil, conflict("Cannot copy Virtual Disk. The disk already exists on the target Storage Domain %s.", domain.Name)
		}
		if err := c.fits(d, domain, d.Actual); err != nil {
			return nil, err
		}
		d.Copies = append(d.Copies, domain.ID)
		c.work("Copying Disk "+d.Name, d.ID)
		c.arrangeDisk(d, statusOK, 2*c.options.Timings.Disk)
		return c.complete(), nil
	}
	made := *d
	made.Copies = nil
	made.ID, made.Domain, made.Parent, made.Name = newID(), domain.ID, "", orElse(c.body.value("disk", "alias"), orElse(c.body.value("disk", "name"), d.Name))
	if err := c.fits(&made, domain, made.Actual); err != nil {
		return nil, err
	}
	c.work("Copying Disk "+d.Name, made.ID)
	c.arrangeDisk(&made, statusOK, 2*c.options.Timings.Disk)
	return c.complete(), nil
}

func moveDisk(c *call) (*element, error) {
	d, err := c.disk()
	if err != nil {
		return nil, err
	}
	if d.Status != statusOK {
		return nil, conflict("Cannot move Virtual Disk: Disk is locked. Please try again later.")
	}
	domain, err := c.domainFor(c.body, "")
	if err != nil {
		return nil, err
	}
	if err := c.sameCenter(d, domain); err != nil {
		return nil, err
	}
	if err := c.fits(d, domain, d.Actual); err != nil {
		return nil, err
	}
	d.Domain = domain.ID
	c.work("Moving Disk "+d.Name, d.ID)
	c.arrangeDisk(d, statusOK, 2*c.options.Timings.Disk)
	return c.complete(), nil
}

// copied is a disk that comes with a new VM.
type copied struct {
	disk       *disk
	attachment *attachment
}

// copyDisks makes the disks of a VM from those of its template: dependent on them, or copied. Nothing is stored yet.
func (c *call) copyDisks(v *vm, source *template, overrides []*element, clone bool) ([]copied, error) {
	var out []copied
	seen := 0
	for i, a := range c.store.attachmentsOf(source.ID) {
		origin := c.store.disks.get(a.Disk)
		domain := c.store.storageDomains.get(origin.Domain)
		made := &disk{
			ID: newID(), Name: fmt.Sprintf("%s_Disk%d", v.Name, i+1), Domain: domain.ID, Format: origin.Format, Sparse: origin.Sparse, Status: statusLocked,
			ContentType: origin.ContentType, Provisioned: origin.Provisioned, Actual: 1 << 20, Parent: origin.ID, SHA256: origin.SHA256,
		}
		if !clone {
			made.Format, made.Sparse = "cow", true // what depends on another disk holds only the difference
		}
		for _, override := range overrides {
			in := override.get("disk")
			if refID(in) != origin.ID {
				continue
			}
			seen++
			if alias := orElse(in.value("alias"), in.value("name")); alias != "" {
				made.Name = alias
			}
			if format := in.value("format"); format != "" {
				made.Format = format
				made.Sparse = format == "cow"
			}
			if in.has("sparse") {
				made.Sparse = in.yes("sparse")
			}
			if len(in.list("storage_domains", "storage_domain")) > 0 {
				named, err := c.domainFor(in, "")
				if err != nil {
					return nil, err
				}
				domain = named
			}
		}
		made.Domain = domain.ID
		switch {
		case made.Format != "raw" && made.Format != "cow":
			return nil, malformed("format is neither raw nor cow: " + made.Format)
		case !clone && !origin.on(domain.ID):
			return nil, conflict("Cannot add VM. The selected Storage Domain does not contain the VM Template.")
		case !clone && made.Format == "raw":
			return nil, conflict("Cannot add VM. Thin provisioned VMs need disks of the cow format; clone the template for raw ones.")
		}
		if clone {
			made.Parent, made.Actual = "", origin.Actual
			if !made.Sparse {
				made.Actual = made.Provisioned
			}
		}
		if err := c.fits(made, domain, made.Actual); err != nil {
			return nil, err
		}
		out = append(out, copied{made, &attachment{Owner: v.ID, Disk: made.ID, Interface: a.Interface, Bootable: a.Bootable, Active: true}})
	}
	if seen < len(overrides) {
		return nil, invalid("Cannot add VM. A disk that is to be copied does not belong to the template.")
	}
	var all []*disk
	for _, d := range out {
		all = append(all, d.disk)
	}
	return out, c.room(all)
}

func attachmentDocument(a *attachment, owner string) *element {
	out := object("disk_attachment", a.Disk, owner+"s", a.Owner, "diskattachments", a.Disk).flag("active", a.Active).flag("bootable", a.Bootable).str("interface", a.Interface).
		flag("pass_discard", a.PassDiscard).flag("read_only", a.ReadOnly).flag("uses_scsi_reservation", a.UsesSCSIReservation).opt("logical_name", a.LogicalName)
	return out.add(ref("disk", "disks", a.Disk), ref(owner, owner+"s", a.Owner))
}

func attachmentsDocument(c *call, ownerID, owner string) *element {
	out := el("disk_attachments")
	for _, a := range c.store.attachmentsOf(ownerID) {
		out.items(attachmentDocument(a, owner))
	}
	return out
}

func listAttachments(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	return attachmentsDocument(c, v.ID, "vm"), nil
}

func (c *call) attachment() (*vm, *attachment, error) {
	v, err := c.vm()
	if err != nil {
		return nil, nil, err
	}
	a, err := one(c.store.attachments, "DiskAttachment", v.ID+"/"+c.id("id"))
	if err != nil {
		return nil, nil, notFound("DiskAttachment", c.id("id"))
	}
	return v, a, nil
}

func getAttachment(c *call) (*element, error) {
	_, a, err := c.attachment()
	if err != nil {
		return nil, err
	}
	return attachmentDocument(a, "vm"), nil
}

// diskInterfaces are the buses by which disks are attached.
var diskInterfaces = []string{"virtio", "virtio_scsi", "ide", "sata", "spapr_vscsi"}

func addAttachment(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	if err := require(c.body, "DiskAttachment", "disk", "interface"); err != nil {
		return nil, err
	}
	in := c.body
	if v.Status == statusImageLocked {
		return nil, conflict("Cannot attach Virtual Disk: VM is locked. Please try again in a few minutes.")
	}
	if !slices.Contains(diskInterfaces, in.value("interface")) {
		return nil, malformed("interface is none of the known ones: " + in.value("interface"))
	}
	d := c.store.disks.get(refID(in.get("disk")))
	fresh := d == nil && in.has("disk", "provisioned_size")
	switch {
	case fresh:
		if d, err = c.newDisk(in.get("disk"), c.store.dataCenterOf(v.Cluster)); err != nil {
			return nil, err
		}
	case d == nil:
		return nil, notFound("Disk", refID(in.get("disk")))
	case d.Status == statusLocked:
		return nil, conflict("Cannot attach Virtual Disk: Disk is locked. Please try again later.")
	case c.store.attachments.get(v.ID+"/"+d.ID) != nil:
		return nil, conflict("Cannot attach Virtual Disk. The disk is already attached to the VM.")
	case !d.Shareable && len(c.store.attachmentsOfDisk(d.ID)) > 0:
		return nil, conflict("Cannot attach Virtual Disk. The disk is not shareable and is attached to another VM.")
	case c.store.storageDomains.get(d.Domain).DataCenter != c.store.dataCenterOf(v.Cluster):
		return nil, conflict("Cannot attach Virtual Disk. The disk is not in the data center of the VM.")
	}
	made := &attachment{ // a disk that is there already stays unplugged unless the client says otherwise
		Owner: v.ID, Disk: d.ID, Interface: in.value("interface"), Bootable: in.yes("bootable"), Active: fresh && !in.has("active") || in.yes("active"),
		ReadOnly: in.yes("read_only"), PassDiscard: in.yes("pass_discard"),
	}
	if err := c.bootable(v, made); err != nil {
		return nil, err
	}
	waits := ""
	if fresh {
		c.arrangeDisk(d, statusOK, c.options.Timings.Disk)
		waits = d.ID
	}
	c.store.attachments.put(v.ID+"/"+d.ID, made)
	c.work("Attaching Disk "+d.Name+" to VM "+v.Name, waits)
	c.created = true
	return attachmentDocument(made, "vm"), nil
}

// bootable checks that the VM has no other disk that is.
func (c *call) bootable(v *vm, a *attachment) error {
	for _, other := range c.store.attachmentsOf(v.ID) {
		if a.Bootable && other.Disk != a.Disk && other.Bootable {
			return conflict("Cannot attach Virtual Disk. Disk %s in VM %s is already marked as boot.", c.store.disks.get(other.Disk).Name, v.Name)
		}
	}
	return nil
}

func updateAttachment(c *call) (*element, error) {
	v, a, err := c.attachment()
	if err != nil {
		return nil, err
	}
	in, next := c.body, *a
	for name, field := range map[string]*bool{"active": &next.Active, "bootable": &next.Bootable, "read_only": &next.ReadOnly, "pass_discard": &next.PassDiscard} {
		if in.has(name) {
			*field = in.yes(name)
		}
	}
	if kind := in.value("interface"); kind != "" {
		if !slices.Contains(diskInterfaces, kind) {
			return nil, malformed("interface is none of the known ones: " + kind)
		}
		next.Interface = kind
	}
	if err := c.bootable(v, &next); err != nil {
		return nil, err
	}
	if in.has("disk") {
		if err := c.editDisk(c.store.disks.get(a.Disk), in.get("disk")); err != nil {
			return nil, err
		}
	}
	*a = next
	c.store.attachments.put(v.ID+"/"+a.Disk, a)
	return attachmentDocument(a, "vm"), nil
}

// removeAttachment detaches a disk, from a running VM too. With detach_only=false the disk is removed.
func removeAttachment(c *call) (*element, error) {
	v, a, err := c.attachment()
	if err != nil {
		return nil, err
	}
	d, remove := c.store.disks.get(a.Disk), c.query.Get("detach_only") == "false"
	switch {
	case remove && len(c.store.attachmentsOfDisk(d.ID)) > 1:
		return nil, conflict("Cannot remove Virtual Disk. The disk is attached to other VMs too.")
	case v.Status == statusImageLocked:
		return nil, conflict("Cannot detach Virtual Disk: VM is locked. Please try again in a few minutes.")
	case d.Status == statusLocked:
		return nil, conflict("Cannot detach Virtual Disk: Disk is locked. Please try again later.")
	case v.Status != statusDown && a.Bootable && a.Active:
		return nil, conflict("Cannot detach Virtual Disk. The VM runs from the disk.")
	}
	c.store.attachments.drop(v.ID + "/" + d.ID)
	c.work("Detaching Disk "+d.Name+" from VM "+v.Name, "")
	if remove {
		c.dropDisk(d)
	}
	return c.complete(), nil
}
