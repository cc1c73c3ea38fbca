package ovirtsim

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// This file has disks and how they are attached. What is written into them is in transfers.go.

// arrangeDisk locks a disk until an operation on it ends.
func (s *Engine) arrangeDisk(d *disk, status string, in time.Duration) {
	d.Status, d.Until = statusLocked, transition{Status: status, At: time.Now().Add(in)}
	s.store.disks.put(d.ID, d)
	s.wakeDisk(d)
}

func (s *Engine) wakeDisk(d *disk) {
	due := d.Until
	s.at(due.At, func() {
		if s.store.disks.get(d.ID) != d || d.Until != due {
			return
		}
		if due.Status == statusRemoved {
			s.dropDisk(d)
		} else {
			if !d.Made && d.Actual < thinBytes {
				d.Actual = thinBytes
			}
			d.Status, d.Until, d.Made = due.Status, transition{}, true
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
func (s *Engine) dropDisk(d *disk) {
	for _, a := range s.store.attachmentsOfDisk(d.ID) {
		s.store.attachments.drop(a.Owner + "/" + d.ID)
	}
	s.store.disks.drop(d.ID)
	_ = os.Remove(s.imagePath(d.ID))
}

// removeLater removes a disk that is locked until it is gone. Its template is in use meanwhile.
func (s *Engine) removeLater(d *disk) {
	for _, a := range s.store.attachmentsOfDisk(d.ID) {
		s.store.attachments.drop(a.Owner + "/" + d.ID)
	}
	if wait := s.settings.Timings.Remove; wait > 0 {
		s.arrangeDisk(d, statusRemoved, wait)
		return
	}
	s.dropDisk(d)
	s.finish(d.ID)
}

func (s *Engine) imagePath(diskID string) string {
	return filepath.Join(s.settings.Images, diskID+".img")
}

func diskDocument(c *call, d *disk) *element {
	out := object("disk", d.ID, "disks", d.ID).str("name", d.Name).str("alias", d.Name).str("description", d.Description).
		num("actual_size", d.Actual).str("backup", orElse(d.Backup, "none")).str("content_type", d.ContentType).str("format", d.Format).
		str("image_id", c.store.idOf("", "image", d.ID)).flag("propagate_errors", false).num("provisioned_size", d.Provisioned).flag("shareable", d.Shareable).
		flag("sparse", d.Sparse).str("status", d.Status).str("storage_type", "image").num("total_size", d.Actual).flag("wipe_after_delete", d.WipeAfterDelete)
	if d.Format == "cow" && d.Made {
		out.str("qcow_version", "qcow2_v3")
	}
	if !d.NoProfile {
		out.add(ref("disk_profile", "diskprofiles", c.store.diskProfileID(d.Domain)))
	}
	if domain := c.store.storageDomains.get(d.Domain); domain != nil {
		id := c.store.idOf("", "quota", domain.DataCenter)
		out.add(el("quota").set("href", href("datacenters", domain.DataCenter, "quotas", id)).set("id", id))
	}
	out.add(refs("storage_domains", "storage_domain", "storagedomains", append([]string{d.Domain}, d.Copies...)))
	return out
}

func diskFields(c *call) fields[*disk] {
	alias := val(func(d *disk) string { return d.Name })
	domains := func(d *disk) []string {
		var names []string
		for _, id := range append([]string{d.Domain}, d.Copies...) {
			if domain := c.store.storageDomains.get(id); domain != nil {
				names = append(names, domain.Name)
			}
		}
		return names
	}
	return fields[*disk]{
		"name": alias, "alias": alias, "id": val(func(d *disk) string { return d.ID }), "disk_type": val(func(*disk) string { return "image" }),
		"status": val(func(d *disk) string { return d.Status }), "format": val(func(d *disk) string { return d.Format }), "description": val(func(d *disk) string { return d.Description }),
		"provisioned_size": val(func(d *disk) string { return strconv.FormatInt(d.Provisioned>>30, 10) }), "storage.name": domains, "storages.name": domains,
		"number_of_vms": val(func(d *disk) string { return strconv.Itoa(len(c.store.attachmentsOfDisk(d.ID))) }),
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
}

func disksWhere(c *call, match func(*disk) bool) (*element, error) {
	return collect(c, "disks", c.store.disks.where(match, func(d *disk) string { return d.Name + d.ID }), diskFields(c), diskDocument)
}

// listDisks has those of templates, too, and those of their VMs have the same alias.
func listDisks(c *call) (*element, error) { return disksWhere(c, nil) }

// ofTemplate says whether a disk belongs to a template.
func (s *store) ofTemplate(d *disk) bool {
	for _, a := range s.attachmentsOfDisk(d.ID) {
		if s.templates.get(a.Owner) != nil {
			return true
		}
	}
	return false
}

func (c *call) disk() (*disk, error) { return one(c.store.disks, c.id("id")) }

func getDisk(c *call) (*element, error) {
	d, err := c.disk()
	if err != nil {
		return nil, err
	}
	return diskDocument(c, d), nil
}

// domainFor is the storage domain that a disk's document names, else the first of the data center.
func (c *call) domainFor(in *element, dataCenterID, command string) (*storageDomain, error) {
	named := append(in.list("storage_domains", "storage_domain"), in.list("storage_domain")...)
	if len(named) == 0 {
		domains := c.store.storageDomains.where(func(d *storageDomain) bool { return d.DataCenter == dataCenterID }, func(d *storageDomain) string { return d.Name })
		if len(domains) == 0 || dataCenterID == "" {
			return nil, incomplete("Disk", "storage_domains")
		}
		return domains[0], nil
	}
	if err := checkRef(named[0]); err != nil {
		return nil, err
	}
	found := referred(c.store.storageDomains, named[0], func(d *storageDomain) string { return d.Name })
	switch {
	case found != nil:
		return found, nil
	case refID(named[0]) == "":
		return nil, entityNotFound("StorageDomain: name=" + named[0].value("name"))
	default:
		return nil, invalid("Cannot %s. Storage Domain doesn't exist.", command)
	}
}

// fits checks that a disk's shape is possible on its storage domain, and that there is room for it.
func (c *call) fits(d *disk, domain *storageDomain, needs int64, command string) error {
	if d.Format == "raw" && d.Sparse && domain.block() || d.Format == "cow" && !d.Sparse {
		shape := map[string]string{"raw": "RAW", "cow": "COW"}[d.Format] + map[bool]string{true: " Sparse", false: " Preallocated"}[d.Sparse]
		return conflict("Cannot %s. Disk configuration (%s backup-None) is incompatible with the storage domain type.", command, shape)
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
	if err := require(in, "Disk", "provisionedSize|size", "format"); err != nil {
		return nil, err
	}
	domain, err := c.domainFor(in, dataCenterID, addDiskCommand)
	if err != nil {
		return nil, err
	}
	if err := checkRef(in); err != nil {
		return nil, err
	}
	made := &disk{
		ID: orElse(refID(in), newID()), Name: orElse(in.value("alias"), in.value("name")), Description: in.value("description"), Domain: domain.ID, Format: in.value("format"),
		ContentType: orElse(in.value("content_type"), "data"), Provisioned: in.number("provisioned_size"), Initial: in.number("initial_size"), Backup: in.value("backup"),
		Shareable: in.yes("shareable"), WipeAfterDelete: in.yes("wipe_after_delete"), Sparse: in.value("sparse") != "false",
	}
	switch {
	case made.ID == blankTemplateID || utf8.RuneCountInString(made.Name) > maxDiskAlias || utf8.RuneCountInString(made.Description) > maxDiskDescription:
		return nil, invalid("")
	case c.store.disks.get(made.ID) != nil:
		return nil, conflict("Cannot add Virtual Disk. The specified disk already exists.")
	case made.Provisioned == 0:
		return nil, invalid("Cannot add Virtual Disk. Disk's provisioned size has to be greater than 0.")
	case made.Shareable && made.Format == "cow":
		return nil, conflict("Cannot add Virtual Disk. Disk's volume format is not supported for shareable disk.")
	}
	if !made.Sparse {
		made.Actual = made.Provisioned
	} else if domain.block() {
		made.Actual = made.Initial
	}
	if made.Name == "" {
		made.Name = "Disk-" + made.ID[:8]
	}
	return made, c.fits(made, domain, made.Actual, addDiskCommand)
}

const (
	addDiskCommand = "add Virtual Disk"
	// The limits of texts of disks.
	maxDiskAlias       = 255
	maxDiskDescription = 500
)

// block says whether disks of a storage domain are block devices.
func (d *storageDomain) block() bool { return d.StorageType == "iscsi" || d.StorageType == "fcp" }

func addDisk(c *call) (*element, error) {
	if err := mandatory(c.body, "disk", "format"); err != nil {
		return nil, err
	}
	made, err := c.newDisk(c.body, "")
	if err != nil {
		return nil, err
	}
	c.work("Adding Disk "+made.Name, made.ID)
	c.arrangeDisk(made, statusOK, c.settings.Timings.Disk)
	c.event(2020, "normal", fmt.Sprintf("Add-Disk operation of %s was initiated by %s.", made.Name, c.user.Name), eventOf{})
	return c.created(diskDocument(c, made)), nil
}

// lockedDisk is what a change says of a disk that another one is at. The engine forgets to put in which disk it is.
func lockedDisk(command string) error {
	return conflict("Cannot %s: The following disks are locked: ${diskAliases}. Please try again in a few minutes.", command)
}

// busy refuses a change of a disk that is transferred or locked.
func (c *call) busy(d *disk, command string) error {
	for _, t := range c.store.transfers.rows {
		if t.Disk == d.ID && !t.ended() {
			return conflict("Cannot %s. Disk %s is being transferred.", command, d.Name)
		}
	}
	if d.Status == statusLocked {
		return lockedDisk(command)
	}
	return nil
}

// growable are the statuses of VMs whose disks can grow.
var growable = []string{statusUp, statusDown}

// editDisk applies a document to a disk: its alias, and a size that may only grow. Any change locks it for a moment.
func (c *call) editDisk(d *disk, in *element) error {
	if err := c.busy(d, "edit Virtual Disk"); err != nil {
		return err
	}
	size := in.number("provisioned_size")
	if in.value("provisioned_size") != "" && size != d.Provisioned {
		if size < d.Provisioned {
			return invalid("Cannot edit Virtual Disk. New disk size must be larger than the current disk size.")
		}
		for _, a := range c.store.attachmentsOfDisk(d.ID) {
			if v := c.store.vms.get(a.Owner); v != nil && !slices.Contains(growable, v.Status) {
				return inStatus(v, "edit Virtual Disk")
			}
		}
		grow := int64(0)
		if !d.Sparse {
			grow = size - d.Provisioned
		}
		domain := c.store.storageDomains.get(d.Domain)
		if used, _ := c.store.usage(d.Domain); domain.Bytes-used < grow {
			return conflict("Cannot edit Virtual Disk. Low disk space on Storage Domain %s.", domain.Name)
		}
		d.Provisioned = size
		d.Actual += grow
	}
	d.Name, d.Description = textOr(in, "alias", textOr(in, "name", d.Name)), textOr(in, "description", d.Description)
	if in.has("wipe_after_delete") {
		d.WipeAfterDelete = in.yes("wipe_after_delete")
	}
	if in.has("shareable") {
		d.Shareable = in.yes("shareable")
	}
	c.arrangeDisk(d, statusOK, c.settings.Timings.Disk)
	return nil
}

// updateDisk answers with the disk as it was.
func updateDisk(c *call) (*element, error) {
	d, err := c.disk()
	if err != nil {
		return nil, err
	}
	before := diskDocument(c, d)
	if err := c.editDisk(d, c.body); err != nil {
		return nil, err
	}
	c.work("Editing Disk "+d.Name, d.ID)
	return before, nil
}

func removeDisk(c *call) (*element, error) {
	d, err := c.disk()
	if err != nil {
		return nil, err
	}
	if err := c.busy(d, "remove Virtual Disk"); err != nil {
		return nil, err
	}
	for _, a := range c.store.attachmentsOfDisk(d.ID) {
		if c.store.templates.get(a.Owner) != nil {
			return nil, conflict("Cannot remove Virtual Disk. Template disks cannot be removed.")
		}
		if v := c.store.vms.get(a.Owner); v != nil && v.running() && a.Active {
			return nil, conflict("Cannot remove Virtual Disk. At least one of the VMs is not down.")
		}
	}
	c.work("Removing Disk "+d.Name, d.ID)
	c.removeLater(d)
	return c.complete(), nil
}

// copyDisk makes another disk with the same content, or copies a template's disk to another storage domain.
func copyDisk(c *call) (*element, error) {
	d, err := c.disk()
	if err != nil {
		return nil, err
	}
	const command = "copy Virtual Disk"
	if err := mandatoryRef(c.body.get("storage_domain"), "storage_domain"); err != nil {
		return nil, err
	}
	if err := c.busy(d, command); err != nil {
		return nil, err
	}
	domain, err := c.domainFor(c.body, c.store.storageDomains.get(d.Domain).DataCenter, command)
	if err != nil {
		return nil, err
	}
	if err := c.sameCenter(d, domain); err != nil {
		return nil, err
	}
	answer := ref("disk", "disks", d.ID)
	if c.store.ofTemplate(d) { // the same disk, on one more storage domain, whatever name is asked for
		if d.on(domain.ID) {
			return nil, conflict("Cannot copy Virtual Disk. One of the Template Images already exists.")
		}
		if err := c.fits(d, domain, d.Actual, command); err != nil {
			return nil, err
		}
		d.Copies = append(d.Copies, domain.ID)
		c.work("Copying Disk "+d.Name, d.ID)
		c.arrangeDisk(d, statusOK, 2*c.settings.Timings.Disk)
		return c.complete(answer), nil
	}
	made := *d
	made.Copies, made.NoProfile = nil, true
	made.ID, made.Domain, made.Parent, made.Name = newID(), domain.ID, "", orElse(c.body.value("disk", "alias"), orElse(c.body.value("disk", "name"), d.Name))
	if err := c.fits(&made, domain, made.Actual, command); err != nil {
		return nil, err
	}
	c.work("Copying Disk "+d.Name, made.ID)
	c.arrangeDisk(&made, statusOK, 2*c.settings.Timings.Disk)
	return c.complete(answer), nil
}

func moveDisk(c *call) (*element, error) {
	d, err := c.disk()
	if err != nil {
		return nil, err
	}
	const command = "move Virtual Disk"
	if err := c.busy(d, command); err != nil {
		return nil, err
	}
	domain, err := c.domainFor(c.body, "", command)
	if err != nil {
		return nil, err
	}
	if d.Domain == domain.ID {
		return nil, invalid("Cannot move Virtual Disk. Source and target storage domains are the same.")
	}
	if err := c.sameCenter(d, domain); err != nil {
		return nil, err
	}
	if err := c.fits(d, domain, d.Actual, command); err != nil {
		return nil, err
	}
	d.Domain = domain.ID
	c.work("Moving Disk "+d.Name, d.ID)
	c.arrangeDisk(d, statusOK, 2*c.settings.Timings.Disk)
	return c.complete(), nil
}

// copied is a disk that comes with a new VM.
type copied struct {
	disk       *disk
	attachment *attachment
}

// copyDisks makes the disks of a VM from those of its template: dependent on them, or copied. Nothing is stored yet. A
// request changes all of them or none; they keep the aliases, and where they are copied the allocation, of the template's.
func (c *call) copyDisks(v *vm, source *template, overrides []*element, clone bool) ([]copied, error) {
	changes := map[string]*element{}
	for _, override := range overrides {
		in := override.get("disk")
		if err := checkRef(in); err != nil {
			return nil, err
		}
		changes[refID(in)] = in
	}
	attached := c.store.attachmentsOf(source.ID)
	for id := range changes {
		if !slices.ContainsFunc(attached, func(a *attachment) bool { return a.Disk == id }) {
			return nil, gone()
		}
	}
	if len(changes) > 0 && len(changes) < len(attached) {
		return nil, invalid("Cannot add VM. One or more provided storage domains are either not in active status or of an illegal type for the requested operation.")
	}

	var out []copied
	var all []*disk
	for _, a := range attached {
		made, err := c.copyOfDisk(c.store.disks.get(a.Disk), changes[a.Disk], clone)
		if err != nil {
			return nil, err
		}
		out = append(out, copied{made, &attachment{Owner: v.ID, Disk: made.ID, Interface: a.Interface, Bootable: a.Bootable, Active: true}})
		all = append(all, made)
	}
	return out, c.room(all)
}

// copyOfDisk is the disk that a VM gets for one of its template's.
func (c *call) copyOfDisk(origin *disk, in *element, clone bool) (*disk, error) {
	made := &disk{
		ID: newID(), Name: origin.Name, Description: origin.Description, Domain: origin.Domain, Format: origin.Format, Sparse: origin.Sparse, Status: statusLocked,
		ContentType: origin.ContentType, Provisioned: origin.Provisioned, Actual: thinBytes, Parent: origin.ID, SHA256: origin.SHA256, Made: true,
	}
	if !clone {
		made.Format, made.Sparse = "cow", true // what depends on another disk holds only the difference
	}
	made.Name = orElse(orElse(in.value("alias"), in.value("name")), made.Name)
	made.Format = orElse(in.value("format"), made.Format)
	if in.value("sparse") != "" {
		made.Sparse = in.yes("sparse")
	}
	if len(in.list("storage_domains", "storage_domain")) > 0 {
		named, err := c.domainFor(in, "", "add VM")
		if err != nil {
			return nil, err
		}
		made.Domain = named.ID
	}
	domain := c.store.storageDomains.get(made.Domain)
	switch {
	case !clone && made.Format == "raw":
		return nil, invalid("Cannot add VM. Thin provisioned template disks can not be defined as Raw.")
	case !clone && !origin.on(domain.ID):
		return nil, invalid("Cannot add VM. The selected Storage Domain does not contain the VM Template.")
	}
	if clone {
		made.Parent, made.Actual = "", origin.Actual
		if !made.Sparse {
			made.Actual = made.Provisioned
		}
	}
	return made, c.fits(made, domain, made.Actual, "add VM")
}

// thinBytes is what a disk takes that holds nothing yet.
const thinBytes = 200704

// attachmentDocument shows how a disk is attached.
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
	return attachmentsDocument(c, c.id("vm"), "vm"), nil
}

func (c *call) attachment() (*vm, *attachment, error) {
	a, err := one(c.store.attachments, c.id("vm")+"/"+c.id("id"))
	if err != nil {
		return nil, nil, err
	}
	return c.store.vms.get(a.Owner), a, nil
}

func getAttachment(c *call) (*element, error) {
	_, a, err := c.attachment()
	if err != nil {
		return nil, err
	}
	return attachmentDocument(a, "vm"), nil
}

// checkInterface refuses buses that the guest does not know. A guest that runs takes no SATA disk.
func checkInterface(v *vm, name string) error {
	if name == "ide" || name == "spapr_vscsi" || name == "sata" && v.running() {
		return invalid("Cannot attach Virtual Disk. The disk interface is not supported by the VM OS: %s.", orElse(catalog().osNamed(v.OSType), &operatingSystem{}).description)
	}
	return nil
}

// attachable are the statuses in which disks are attached and taken away.
var attachable = []string{statusUp, statusDown, statusSuspended, statusPaused}

func addAttachment(c *call) (*element, error) {
	in := c.body
	if !in.has("disk") { // the engine takes it and fails
		return nil, brokenPage()
	}
	v := c.store.vms.get(c.id("vm"))
	if v == nil {
		return nil, invalid("Cannot attach Virtual Disk. VM is not found.")
	}
	if err := mandatory(in, "attachment", "interface"); err != nil {
		return nil, err
	}
	if err := checkRef(in.get("disk")); err != nil {
		return nil, err
	}
	if refID(in.get("disk")) == "" && !in.has("disk", "provisioned_size") {
		return nil, &refusal{status: http.StatusBadRequest, reason: "Incomplete parameters", detail: "Disk [provisionedSize|size] required for invoke"}
	}
	d := c.store.disks.get(refID(in.get("disk")))
	fresh := d == nil && in.has("disk", "provisioned_size")
	if fresh {
		var err error
		if d, err = c.newDisk(in.get("disk"), c.store.dataCenterOf(v.Cluster)); err != nil {
			return nil, err
		}
	} else if err := c.checkAttach(v, d); err != nil {
		return nil, err
	}
	if v.Status == statusImageLocked {
		return nil, conflict("Cannot attach Virtual Disk: VM is locked. Please try again in a few minutes.")
	}
	if err := checkInterface(v, in.value("interface")); err != nil {
		return nil, err
	}
	made := &attachment{ // a disk that is there already stays unplugged unless the client says otherwise
		Owner: v.ID, Disk: d.ID, Interface: in.value("interface"), Bootable: in.yes("bootable"), Active: fresh && !in.has("active") || in.yes("active"),
		ReadOnly: in.yes("read_only"), PassDiscard: in.yes("pass_discard"),
	}
	if made.Active && !slices.Contains(attachable, v.Status) {
		return nil, inStatus(v, "attach Virtual Disk")
	}
	if err := c.bootable(v, made, map[bool]string{true: "add Virtual Disk", false: "attach Virtual Disk"}[fresh]); err != nil {
		return nil, err
	}
	waits := ""
	if fresh {
		c.arrangeDisk(d, statusOK, c.settings.Timings.Disk)
		waits = d.ID
	}
	c.store.attachments.put(v.ID+"/"+d.ID, made)
	c.work("Attaching Disk "+d.Name+" to VM "+v.Name, waits)
	return c.created(attachmentDocument(made, "vm")), nil
}

// checkAttach refuses a disk that exists and cannot be attached.
func (c *call) checkAttach(v *vm, d *disk) error {
	const command = "attach Virtual Disk"
	if d == nil {
		return invalid("Cannot attach Virtual Disk. The specified disk does not exist.")
	}
	if err := c.busy(d, command); err != nil {
		return err
	}
	switch {
	case c.store.attachments.get(v.ID+"/"+d.ID) != nil:
		return conflict("Cannot attach Virtual Disk. Disk %s is already attached to the VM %s.", d.Name, v.Name)
	case c.store.ofTemplate(d):
		return conflict("Cannot attach Virtual Disk. The disk is not shareable and is already attached to a VM.")
	case !d.Shareable && len(c.store.attachmentsOfDisk(d.ID)) > 0:
		return conflict("Cannot attach Virtual Disk. Non Shareable Disk is already attached to a VM.")
	case c.store.storageDomains.get(d.Domain).DataCenter != c.store.dataCenterOf(v.Cluster):
		return conflict("Cannot attach Virtual Disk. The disk is not in the data center of the VM.")
	}
	return nil
}

// bootable checks for a command such as "attach Virtual Disk" that the VM has no other disk that is.
func (c *call) bootable(v *vm, a *attachment, command string) error {
	for _, other := range c.store.attachmentsOf(v.ID) {
		if a.Bootable && other.Disk != a.Disk && other.Bootable {
			return conflict("Cannot %s. Disk %s in VM %s is already marked as boot.", command, c.store.disks.get(other.Disk).Name, v.Name)
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
	if next.Interface = orElse(in.value("interface"), a.Interface); next.Interface != a.Interface {
		if err := checkInterface(v, next.Interface); err != nil {
			return nil, err
		}
	}
	if err := c.bootable(v, &next, "attach Virtual Disk"); err != nil {
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
	v := c.store.vms.get(c.id("vm"))
	if v == nil {
		return nil, invalid("Cannot detach Virtual Disk. VM is not found.")
	}
	a := c.store.attachments.get(v.ID + "/" + c.id("id"))
	if a == nil {
		return nil, invalid("Cannot detach Virtual Disk. The disk is not attached to the VM ${VmName}., %s", v.Name)
	}
	const command = "detach Virtual Disk"
	d, remove := c.store.disks.get(a.Disk), c.query.Get("detach_only") == "false"
	if err := c.busy(d, command); err != nil {
		return nil, err
	}
	switch {
	case c.store.inSnapshot(v.ID, d.ID):
		return nil, conflict("Cannot detach Virtual Disk. The disk is already configured in a snapshot. In order to detach it, remove the disk's snapshots.")
	case remove && len(c.store.attachmentsOfDisk(d.ID)) > 1:
		return nil, conflict("Cannot remove Virtual Disk. The disk is attached to other VMs too.")
	case v.Status == statusImageLocked:
		return nil, conflict("Cannot detach Virtual Disk: VM is locked. Please try again in a few minutes.")
	case a.Active && !slices.Contains(attachable, v.Status):
		return nil, inStatus(v, command)
	}
	c.store.attachments.drop(v.ID + "/" + d.ID)
	if remove {
		c.work("Removing Disk "+d.Name, d.ID)
		c.removeLater(d)
	}
	return c.complete(), nil
}

// removeTemplateDisk takes a template's disk from one of its storage domains.
func removeTemplateDisk(c *call) (*element, error) {
	a := c.store.attachments.get(c.id("template") + "/" + c.id("id"))
	if a == nil || c.store.templates.get(c.id("template")) == nil {
		return nil, gone()
	}
	d, domain := c.store.disks.get(a.Disk), c.query.Get("storage_domain")
	if err := c.busy(d, "remove Template Disk"); err != nil {
		return nil, err
	}
	switch {
	case domain == "":
		return nil, notMandatory("Parameter 'storage_domain' is mandatory but was not provided.")
	case !d.on(domain):
		return nil, gone()
	case len(d.Copies) == 0:
		return nil, conflict("Cannot remove Template Disk. A disk of a template must be on one storage domain at least.")
	}
	all := slices.DeleteFunc(append([]string{d.Domain}, d.Copies...), func(id string) bool { return id == domain })
	d.Domain, d.Copies = all[0], all[1:]
	c.work("Removing Disk "+d.Name, d.ID)
	c.arrangeDisk(d, statusOK, c.settings.Timings.Disk)
	return c.complete(), nil
}
