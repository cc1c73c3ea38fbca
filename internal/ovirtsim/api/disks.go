package api

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains disks. The file transfers.go contains the transfer of their data.

var diskRoutes = []route{
	{"GET", "/disks", listDisks},
	{"POST", "/disks", addDisk},
	{"GET", "/disks/{id}", getDisk},
	{"PUT", "/disks/{id}", updateDisk},
	{"DELETE", "/disks/{id}", removeDisk},
	{"POST", "/disks/{id}/copy", copyDisk},
	{"POST", "/disks/{id}/move", moveDisk},
	{"GET", "/disks/{id}/permissions", permissionsOf("disk", "disks", "id")},
}

// scheduleDisk schedules the end of an operation on a disk, and locks the disk until then.
func (s *Engine) scheduleDisk(d *store.Disk, status string, in time.Duration) {
	d.Status, d.Until = store.StatusLocked, store.Transition{Status: status, At: s.now().Add(in)}
	s.store.Disks.Put(d.ID, d)
	s.startDiskTimer(d)
}

func (s *Engine) startDiskTimer(d *store.Disk) {
	due := d.Until
	s.scheduleChange(due.At, func() {
		if s.store.Disks.Get(d.ID) != d || d.Until != due {
			return
		}

		if due.Status == StatusRemoved {
			s.dropDisk(d)
		} else {
			if !d.Made && d.Actual < thinBytes {
				d.Actual = thinBytes
			}

			d.Status, d.Until, d.Made = due.Status, store.Transition{}, true
			s.store.Disks.Put(d.ID, d)
		}

		s.finishJobs(d.ID)
	})
}

// dropDisk removes a disk with its content and its attachments from the inventory.
func (s *Engine) dropDisk(d *store.Disk) {
	for _, a := range s.store.AttachmentsOfDisk(d.ID) {
		s.store.Attachments.Drop(a.Owner + "/" + d.ID)
	}

	s.store.Disks.Drop(d.ID)
	_ = os.Remove(s.imagePath(d.ID))

	id := d.ID
	s.callGuest(func() { s.settings.Guest.HandleDiskRemoval(id) })
}

// removeLater removes a disk after a delay, and locks it until then. Its template stays in use until then.
func (s *Engine) removeLater(d *store.Disk) {
	for _, a := range s.store.AttachmentsOfDisk(d.ID) {
		s.store.Attachments.Drop(a.Owner + "/" + d.ID)
	}

	if wait := s.settings.Timings.Remove; wait > 0 {
		s.scheduleDisk(d, StatusRemoved, wait)
		return
	}

	s.dropDisk(d)
	s.finishJobs(d.ID)
}

func (s *Engine) imagePath(diskID string) string {
	return filepath.Join(s.settings.Images, diskID+".img")
}

func diskDocument(c *call, d *store.Disk) *wire.Element {
	out := wire.NewObject("disk", d.ID, "disks", d.ID).Str("name", d.Name).Str("alias", d.Name).
		Str("description", d.Description).
		Num("actual_size", d.Actual).Str("backup", cmp.Or(d.Backup, "none")).Str("content_type", d.ContentType).
		Str("format", d.Format).
		Str("image_id", c.store.IDOf("", "image", d.ID)).Flag("propagate_errors", false).
		Num("provisioned_size", d.Provisioned).Flag("shareable", d.Shareable).
		Flag("sparse", d.Sparse).Str("status", d.Status).Str("storage_type", "image").Num("total_size", d.Actual).
		Flag("wipe_after_delete", d.WipeAfterDelete)
	if d.Format == "cow" && d.Made {
		out.Str("qcow_version", "qcow2_v3")
	}

	if !d.NoProfile {
		out.Add(wire.Ref("disk_profile", "diskprofiles", c.store.DiskProfileID(d.Domain)))
	}

	if domain := c.store.StorageDomains.Get(d.Domain); domain != nil {
		id := c.store.IDOf("", "quota", domain.DataCenter)
		out.Add(
			wire.El("quota").
				SetAttr("href", wire.Href("datacenters", domain.DataCenter, "quotas", id)).
				SetAttr("id", id),
		)
	}

	out.Add(wire.Refs("storage_domains", "storage_domain", "storagedomains", append([]string{d.Domain}, d.Copies...)))

	return out
}

func diskFields(c *call) fields[*store.Disk] {
	alias := singleValue(func(d *store.Disk) string { return d.Name })
	domains := func(d *store.Disk) []string {
		var names []string

		for _, id := range append([]string{d.Domain}, d.Copies...) {
			if domain := c.store.StorageDomains.Get(id); domain != nil {
				names = append(names, domain.Name)
			}
		}

		return names
	}

	return fields[*store.Disk]{
		"name":             alias,
		"alias":            alias,
		"id":               singleValue(func(d *store.Disk) string { return d.ID }),
		"disk_type":        singleValue(func(*store.Disk) string { return "image" }),
		"status":           singleValue(func(d *store.Disk) string { return d.Status }),
		"format":           singleValue(func(d *store.Disk) string { return d.Format }),
		"description":      singleValue(func(d *store.Disk) string { return d.Description }),
		"provisioned_size": singleValue(func(d *store.Disk) string { return strconv.FormatInt(d.Provisioned>>30, 10) }),
		"storage.name":     domains,
		"storages.name":    domains,
		"number_of_vms": singleValue(func(d *store.Disk) string {
			return strconv.Itoa(len(c.store.AttachmentsOfDisk(d.ID)))
		}),
		"vm_names": func(d *store.Disk) []string {
			var names []string

			for _, a := range c.store.AttachmentsOfDisk(d.ID) {
				if v := c.store.VMs.Get(a.Owner); v != nil {
					names = append(names, v.Name)
				}
			}

			return names
		},
	}
}

func disksWhere(c *call, match func(*store.Disk) bool) (*wire.Element, error) {
	return answerList(c, "disks", c.store.Disks.Where(match, func(d *store.Disk) string { return d.Name + d.ID }),
		diskFields(c), diskDocument)
}

// listDisks lists all disks, including those of templates. The disks of a template's VMs have the same alias as the
// template's disks.
func listDisks(c *call) (*wire.Element, error) { return disksWhere(c, nil) }

func (c *call) findDisk() (*store.Disk, error) { return findRow(c.store.Disks, c.pathID("id")) }

func getDisk(c *call) (*wire.Element, error) {
	d, err := c.findDisk()
	if err != nil {
		return nil, err
	}

	return diskDocument(c, d), nil
}

// domainFor returns the storage domain named in a disk's document. It returns an error if none is named, or if it does
// not exist.
func (c *call) domainFor(in *wire.Element, command string) (*store.StorageDomain, error) {
	named := append(in.List("storage_domains", "storage_domain"), in.List("storage_domain")...)
	if len(named) == 0 {
		return nil, wire.Invalid("Cannot %s. Storage Domain hasn't been specified.", command)
	}

	if err := checkRef(named[0]); err != nil {
		return nil, err
	}

	found := findReferred(c.store.StorageDomains, named[0], func(d *store.StorageDomain) string { return d.Name })
	switch {
	case found != nil:
		return found, nil
	case wire.RefID(named[0]) == "":
		return nil, wire.EntityNotFound(named[0].Value("name"))
	case command == addDiskCommand: // the engine looks up the domain before the command begins
		return nil, wire.EntityNotFound(wire.RefID(named[0]))
	default:
		return nil, wire.Invalid("Cannot %s. Storage Domain doesn't exist.", command)
	}
}

// checkDomain checks that a storage domain is active, supports the disk's format, and has enough space. The text for an
// inactive domain follows the engine, but no recording confirms it.
func (c *call) checkDomain(d *store.Disk, domain *store.StorageDomain, needs int64, command string) error {
	if domain.Maintenance {
		return wire.Conflict("Cannot %s. The relevant Storage Domain's status is Maintenance.", command)
	}

	if d.Format == "raw" && d.Sparse && domain.IsBlock() || d.Format == "cow" && !d.Sparse {
		shape := map[string]string{
			"raw": "RAW",
			"cow": "COW",
		}[d.Format] + map[bool]string{true: " Sparse", false: " Preallocated"}[d.Sparse]

		return wire.Conflict(
			"Cannot %s. Disk configuration (%s backup-None) is incompatible with the storage domain type.", command,
			shape,
		)
	}

	return c.checkFreeSpace(domain, needs)
}

// checkFreeSpace rejects a size larger than the free space of the storage domain.
func (c *call) checkFreeSpace(domain *store.StorageDomain, needs int64) error {
	if used, _ := c.store.Usage(domain.ID); domain.Bytes-used < needs {
		return wire.Conflict("Cannot add Virtual Disk. Low disk space on Storage Domain %s.", domain.Name)
	}

	return nil
}

// checkTotalSpace rejects disks without enough space for all of them together on their storage domains.
func (c *call) checkTotalSpace(disks []*store.Disk) error {
	needs := map[string]int64{}
	for _, d := range disks {
		needs[d.Domain] += d.Actual
	}

	for _, id := range wire.SortedKeys(needs) {
		if err := c.checkFreeSpace(c.store.StorageDomains.Get(id), needs[id]); err != nil {
			return err
		}
	}

	return nil
}

// checkSameCenter rejects the move of a disk to another data center.
func (c *call) checkSameCenter(d *store.Disk, domain *store.StorageDomain) error {
	if c.store.StorageDomains.Get(d.Domain).DataCenter != domain.DataCenter {
		return wire.Conflict("Cannot move Virtual Disk. The storage domain %s is in another data center.", domain.Name)
	}

	return nil
}

// newDisk returns the disk described by a document, but does not store it. Refusals are in the order of the engine's
// AddDiskCommand. The texts for a missing storage domain and for a used ID are from the engine's sources.
func (c *call) newDisk(in *wire.Element) (*store.Disk, error) {
	domain, err := c.domainFor(in, addDiskCommand)
	if err != nil {
		return nil, err
	}

	if err := checkRef(in); err != nil {
		return nil, err
	}

	made := &store.Disk{
		ID:              cmp.Or(wire.RefID(in), store.NewID()),
		Name:            cmp.Or(in.Value("alias"), in.Value("name")),
		Description:     in.Value("description"),
		Domain:          domain.ID,
		Format:          in.Value("format"),
		ContentType:     cmp.Or(in.Value("content_type"), "data"),
		Provisioned:     in.Number("provisioned_size"),
		Initial:         in.Number("initial_size"),
		Backup:          in.Value("backup"),
		Shareable:       in.IsTrue("shareable"),
		WipeAfterDelete: in.IsTrue("wipe_after_delete"),
		Sparse:          in.Value("sparse") != "false",
	}
	if !made.Sparse {
		made.Actual = made.Provisioned
	} else if domain.IsBlock() {
		made.Actual = made.Initial
	}

	if err := c.checkNewDisk(made, domain); err != nil {
		return nil, err
	}

	if made.Name == "" {
		made.Name = "Disk-" + made.ID[:8]
	}

	return made, nil
}

// checkNewDisk rejects a disk that the engine cannot create.
func (c *call) checkNewDisk(made *store.Disk, domain *store.StorageDomain) error {
	if made.ID == store.BlankTemplateID || utf8.RuneCountInString(made.Name) > maxDiskAlias ||
		utf8.RuneCountInString(made.Description) > maxDiskDescription {
		return wire.Invalid("")
	}

	if err := c.checkDomain(made, domain, made.Actual, addDiskCommand); err != nil {
		return err
	}

	if made.Shareable && made.Format == "cow" {
		return wire.Conflict("Cannot add Virtual Disk. Disk's volume format is not supported for shareable disk.")
	}

	if there := c.store.Disks.Get(made.ID); there != nil {
		return wire.Conflict("Cannot add Virtual Disk. The selected disk ID: %s is already used by the following "+
			"existing disk: %s.", there.ID, there.Name)
	}

	if made.Provisioned == 0 {
		return wire.Invalid("Cannot add Virtual Disk. Disk's provisioned size has to be greater than 0.")
	}

	return nil
}

const (
	addDiskCommand = "add Virtual Disk"
	// These constants limit the lengths of a disk's texts.
	maxDiskAlias       = 255
	maxDiskDescription = 500
)

func addDisk(c *call) (*wire.Element, error) {
	if err := requireElements(c.body, "Disk", "provisionedSize", "format"); err != nil {
		return nil, err
	}

	made, err := c.newDisk(c.body)
	if err != nil {
		return nil, err
	}

	c.recordJob("Adding Disk "+made.Name, made.ID)
	c.scheduleDisk(made, store.StatusOK, c.settings.Timings.Disk)
	c.recordEvent(
		2020,
		"normal",
		fmt.Sprintf("Add-Disk operation of %s was initiated by %s.", made.Name, c.user.Name),
		eventOf{},
	)

	return c.answerCreated(diskDocument(c, made)), nil
}

// lockedDisk returns the error for a change of a disk while another operation uses the disk. As in the engine's text,
// the disk's name is missing.
func lockedDisk(command string) error {
	return wire.Conflict(
		"Cannot %s: The following disks are locked: ${diskAliases}. Please try again in a few minutes.",
		command,
	)
}

// checkDiskFree rejects a change of a disk that is locked or in transfer.
func (c *call) checkDiskFree(d *store.Disk, command string) error {
	for _, t := range c.store.Transfers.Rows {
		if t.Disk == d.ID && !hasEnded(t) {
			return wire.Conflict("Cannot %s. Disk %s is being transferred.", command, d.Name)
		}
	}

	if d.Status == store.StatusLocked {
		return lockedDisk(command)
	}

	return nil
}

// growable are the VM statuses in which a disk can grow.
var growable = []string{store.StatusUp, store.StatusDown}

// editDisk applies a document to a disk: it can change the alias and increase the size. Any change locks the disk
// briefly. Refusals are in the order of the engine's UpdateDiskCommand. The texts about shareable disks are from the
// engine's sources.
func (c *call) editDisk(d *store.Disk, in *wire.Element) error {
	if err := c.checkDiskFree(d, "edit Virtual Disk"); err != nil {
		return err
	}

	size := in.Number("provisioned_size")
	if in.Value("provisioned_size") != "" && size != d.Provisioned {
		if size < d.Provisioned {
			return wire.Invalid("Cannot edit Virtual Disk. New disk size must be larger than the current disk size.")
		}

		for _, a := range c.store.AttachmentsOfDisk(d.ID) {
			if v := c.store.VMs.Get(a.Owner); v != nil && !slices.Contains(growable, v.Status) {
				return inStatus(v, "edit Virtual Disk")
			}
		}

		grow := int64(0)
		if !d.Sparse {
			grow = size - d.Provisioned
		}

		domain := c.store.StorageDomains.Get(d.Domain)
		if used, _ := c.store.Usage(d.Domain); domain.Bytes-used < grow {
			return wire.Conflict("Cannot edit Virtual Disk. Low disk space on Storage Domain %s.", domain.Name)
		}

		d.Provisioned = size
		d.Actual += grow
	}

	if in.Has("shareable") && in.IsTrue("shareable") != d.Shareable {
		if err := c.checkShareable(d, in.IsTrue("shareable")); err != nil {
			return err
		}
	}

	d.Name, d.Description = textOr(in, "alias", textOr(in, "name", d.Name)), textOr(in, "description", d.Description)
	if in.Has("wipe_after_delete") {
		d.WipeAfterDelete = in.IsTrue("wipe_after_delete")
	}

	if in.Has("shareable") {
		d.Shareable = in.IsTrue("shareable")
	}

	c.scheduleDisk(d, store.StatusOK, c.settings.Timings.Disk)

	return nil
}

// checkShareable rejects sharing of an unsuitable disk. It also rejects the end of sharing while several VMs use the
// disk.
func (c *call) checkShareable(d *store.Disk, shareable bool) error {
	attached := c.store.AttachmentsOfDisk(d.ID)
	switch {
	case !shareable && len(attached) > 1:
		return wire.Conflict("Cannot edit Virtual Disk. Disk is shared between VMs and cannot be made unshareable. " +
			"Detach the disk from the rest of the VMs it is attached to and then update the disk to be unshareable.")
	case !shareable:
		return nil
	case d.Parent != "" || len(attached) > 0 && c.store.IsInSnapshot(attached[0].Owner, d.ID):
		return wire.Conflict("Cannot edit Virtual Disk. Disk cannot be shareable if it depends on a snapshot. In " +
			"order to " +
			"share it, remove the disk's snapshots.")
	case d.Format == "cow":
		return wire.Conflict("Cannot edit Virtual Disk. Disk's volume format is not supported for shareable disk.")
	default:
		return nil
	}
}

// updateDisk changes a disk, and answers with the disk as it was before.
func updateDisk(c *call) (*wire.Element, error) {
	d, err := c.findDisk()
	if err != nil {
		return nil, err
	}

	before := diskDocument(c, d)
	if err := c.editDisk(d, c.body); err != nil {
		return nil, err
	}

	c.recordJob("Editing Disk "+d.Name, d.ID)

	return before, nil
}

func removeDisk(c *call) (*wire.Element, error) {
	d, err := c.findDisk()
	if err != nil {
		return nil, err
	}

	if err := c.checkRemovable(d); err != nil {
		return nil, err
	}

	c.recordJob("Removing Disk "+d.Name, d.ID)
	c.removeLater(d)

	return c.answerComplete(), nil
}

// checkRemovable rejects removals, in the order of the engine's RemoveDiskCommand. The texts about a template's disks
// are from the engine's sources.
func (c *call) checkRemovable(d *store.Disk) error {
	if err := c.checkDiskFree(d, "remove Virtual Disk"); err != nil {
		return err
	}

	for _, a := range c.store.AttachmentsOfDisk(d.ID) {
		if v := c.store.VMs.Get(a.Owner); v != nil && v.Status != store.StatusDown && a.Active {
			return wire.Conflict("Cannot remove Virtual Disk. At least one of the VMs is not down.")
		}

		if c.store.Templates.Get(a.Owner) != nil {
			return wire.Invalid("Cannot remove Virtual Disk. A storage domain must be specified when deleting one " +
				"of a " +
				"template's disk's copies.")
		}
	}

	return nil
}

// copyDisk creates a disk with the same content. For a template's disk, it adds a storage domain to the disk.
func copyDisk(c *call) (*wire.Element, error) {
	d, err := c.findDisk()
	if err != nil {
		return nil, err
	}

	const command = "copy Virtual Disk"
	if err := requireRef(c.body.Get("storage_domain"), "storage_domain"); err != nil {
		return nil, err
	}

	if err := c.checkDiskFree(d, command); err != nil {
		return nil, err
	}

	domain, err := c.domainFor(c.body, command)
	if err != nil {
		return nil, err
	}

	if err := c.checkSameCenter(d, domain); err != nil {
		return nil, err
	}

	answer := wire.Ref("disk", "disks", d.ID)
	if c.store.IsTemplateDisk(d) { // the disk gets one more storage domain, whatever name the request has
		if d.IsOnDomain(domain.ID) {
			return nil, wire.Conflict("Cannot copy Virtual Disk. One of the Template Images already exists.")
		}

		if err := c.checkDomain(d, domain, d.Actual, command); err != nil {
			return nil, err
		}

		d.Copies = append(d.Copies, domain.ID)
		c.recordJob("Copying Disk "+d.Name, d.ID)
		c.scheduleDisk(d, store.StatusOK, 2*c.settings.Timings.Disk)

		return c.answerComplete(answer), nil
	}

	made := *d
	made.Copies, made.NoProfile = nil, true
	made.ID = store.NewID()
	made.Domain = domain.ID
	made.Parent = ""
	made.Name = cmp.Or(c.body.Value("disk", "alias"), cmp.Or(c.body.Value("disk", "name"), d.Name))
	if err := c.checkDomain(&made, domain, made.Actual, command); err != nil {
		return nil, err
	}

	c.recordJob("Copying Disk "+d.Name, made.ID)
	c.scheduleDisk(&made, store.StatusOK, 2*c.settings.Timings.Disk)

	return c.answerComplete(answer), nil
}

// moveDisk moves a disk to another storage domain. The text about a disk already on this domain is from the engine's
// sources.
func moveDisk(c *call) (*wire.Element, error) {
	d, err := c.findDisk()
	if err != nil {
		return nil, err
	}

	const command = "move Virtual Disk"
	if err := requireRef(c.body.Get("storage_domain"), "storage_domain"); err != nil {
		return nil, err
	}

	if err := c.checkDiskFree(d, command); err != nil {
		return nil, err
	}

	domain, err := c.domainFor(c.body, command)
	if err != nil {
		return nil, err
	}

	if d.Domain == domain.ID {
		return nil, wire.Invalid("Cannot move Virtual Disk. The source and target storage domains are the same.")
	}

	if err := c.checkSameCenter(d, domain); err != nil {
		return nil, err
	}

	if err := c.checkDomain(d, domain, d.Actual, command); err != nil {
		return nil, err
	}

	d.Domain = domain.ID
	c.recordJob("Moving Disk "+d.Name, d.ID)
	c.scheduleDisk(d, store.StatusOK, 2*c.settings.Timings.Disk)

	return c.answerComplete(), nil
}

// copied is a disk of a new VM, made from a template's disk.
type copied struct {
	disk       *store.Disk
	attachment *store.Attachment
}

// copyDisks creates the disks of a VM from its template's disks: as dependent disks, or as copies. It does not store
// them. A request changes all of these disks or none. All of them keep the alias of the template's disk. Copies also
// keep its allocation.
func (c *call) copyDisks(v *store.VM, source *store.Template, overrides []*wire.Element, clone bool) ([]copied, error) {
	changes := map[string]*wire.Element{}

	for _, override := range overrides {
		in := override.Get("disk")
		if err := checkRef(in); err != nil {
			return nil, err
		}

		changes[wire.RefID(in)] = in
	}

	attached := c.store.AttachmentsOf(source.ID)
	for id := range changes {
		if !slices.ContainsFunc(attached, func(a *store.Attachment) bool { return a.Disk == id }) {
			return nil, wire.NotFound()
		}
	}

	if len(changes) > 0 && len(changes) < len(attached) {
		return nil, wire.Invalid(
			"Cannot add VM. One or more provided storage domains are either not in active status or of an illegal " +
				"type for the requested operation.",
		)
	}

	var out []copied
	var all []*store.Disk

	for _, a := range attached {
		made, err := c.copyOfDisk(c.store.Disks.Get(a.Disk), changes[a.Disk], clone)
		if err != nil {
			return nil, err
		}

		out = append(out, copied{made, &store.Attachment{
			Owner:     v.ID,
			Disk:      made.ID,
			Interface: a.Interface,
			Bootable:  a.Bootable,
			Active:    true,
		}})
		all = append(all, made)
	}

	return out, c.checkTotalSpace(all)
}

// firstActiveDomain returns the first active storage domain of a template's disk. If none is active, it returns the
// first one. This follows the engine's sources; no recording confirms it.
func (c *call) firstActiveDomain(d *store.Disk) string {
	for _, id := range append([]string{d.Domain}, d.Copies...) {
		if !c.store.StorageDomains.Get(id).Maintenance {
			return id
		}
	}

	return d.Domain
}

// copyOfDisk returns a new VM's disk for one of its template's disks.
func (c *call) copyOfDisk(origin *store.Disk, in *wire.Element, clone bool) (*store.Disk, error) {
	made := &store.Disk{
		ID:          store.NewID(),
		Name:        origin.Name,
		Description: origin.Description,
		Domain:      origin.Domain,
		Format:      origin.Format,
		Sparse:      origin.Sparse,
		Status:      store.StatusLocked,
		ContentType: origin.ContentType,
		Provisioned: origin.Provisioned,
		Actual:      thinBytes,
		Parent:      origin.ID,
		SHA256:      origin.SHA256,
		Made:        true,
	}
	if !clone {
		made.Format, made.Sparse = "cow", true // a dependent disk holds only the difference
	}

	if in == nil {
		made.Domain = c.firstActiveDomain(origin)
	}

	made.Name = cmp.Or(cmp.Or(in.Value("alias"), in.Value("name")), made.Name)
	made.Format = cmp.Or(in.Value("format"), made.Format)
	if in.Value("sparse") != "" {
		made.Sparse = in.IsTrue("sparse")
	}

	if len(in.List("storage_domains", "storage_domain")) > 0 {
		named, err := c.domainFor(in, "add VM")
		if err != nil {
			return nil, err
		}

		made.Domain = named.ID
	}

	domain := c.store.StorageDomains.Get(made.Domain)
	switch {
	// The request refers to the template's disk, with changes.
	case !clone && in != nil && cmp.Or(in.Value("format"), origin.Format) == "raw":
		return nil, wire.Invalid("Cannot add VM. Thin provisioned template disks can not be defined as Raw.")
	case !clone && !origin.IsOnDomain(domain.ID):
		return nil, wire.Invalid("Cannot add VM. The selected Storage Domain does not contain the VM Template.")
	}

	if clone {
		made.Parent, made.Actual = "", origin.Actual
		if !made.Sparse {
			made.Actual = made.Provisioned
		}
	}

	return made, c.checkDomain(made, domain, made.Actual, "add VM")
}

// thinBytes is the size of an empty thin disk in bytes.
const thinBytes = 200704
