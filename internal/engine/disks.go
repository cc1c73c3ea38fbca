package engine

import (
	"context"
	"crypto/rand"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// DiskStatus is the status of a disk as spelled by the engine.
type DiskStatus string

// The statuses of a disk.
const (
	DiskOK      DiskStatus = "ok"
	DiskLocked  DiskStatus = "locked"
	DiskIllegal DiskStatus = "illegal"
)

// The formats of a disk.
const (
	FormatRaw = "raw"
	FormatCow = "cow"
)

// Disk is a virtual disk. Sizes are in bytes. In a request, nil pointers and zero sizes leave the value to the engine.
type Disk struct {
	XMLName         xml.Name        `xml:"disk"`
	ID              ID              `xml:"id,attr,omitempty"`
	Alias           *string         `xml:"alias"`
	Description     string          `xml:"description,omitempty"`
	Format          string          `xml:"format,omitempty"`
	ProvisionedSize int64           `xml:"provisioned_size,omitempty"`
	InitialSize     int64           `xml:"initial_size,omitempty"`
	TotalSize       int64           `xml:"total_size,omitempty"`
	Sparse          *bool           `xml:"sparse"`
	Status          DiskStatus      `xml:"status,omitempty"`
	StorageDomains  *StorageDomains `xml:"storage_domains"`
	StorageDomain   *Ref            `xml:"storage_domain"`
}

// AliasText returns the alias, or "".
func (d *Disk) AliasText() string {
	if d.Alias == nil {
		return ""
	}

	return *d.Alias
}

// StorageDomainIDs returns the storage domains with the disk.
func (d *Disk) StorageDomainIDs() []ID {
	var ids []ID
	if d.StorageDomains != nil {
		for _, ref := range d.StorageDomains.Items {
			ids = append(ids, ref.ID)
		}
	}

	if id := RefID(d.StorageDomain); id != "" {
		ids = append(ids, id)
	}

	return ids
}

// DiskAttachment is a disk in a VM or in a template. It has the ID of the disk.
type DiskAttachment struct {
	XMLName   xml.Name `xml:"disk_attachment"`
	ID        ID       `xml:"id,attr,omitempty"`
	Active    *bool    `xml:"active"`
	Bootable  *bool    `xml:"bootable"`
	Interface string   `xml:"interface,omitempty"`
	Disk      *Disk    `xml:"disk"`
	VM        *Ref     `xml:"vm"`
	Template  *Ref     `xml:"template"`
}

// DiskID returns the ID of the attached disk.
func (a *DiskAttachment) DiskID() ID {
	if a.Disk != nil && a.Disk.ID != "" {
		return a.Disk.ID
	}

	return a.ID
}

// IsBootDisk reports whether the VM boots from the disk.
func (a *DiskAttachment) IsBootDisk() bool { return a.Bootable != nil && *a.Bootable }

func diskPath(id ID) string { return "/disks/" + id.pathSegment() }

func attachmentPath(vmID, id ID) string {
	return vmPath(vmID) + "/diskattachments/" + id.pathSegment()
}

// FetchDisk returns the disk with this ID. A missing disk is an IsNotFound error.
func (c *Client) FetchDisk(ctx context.Context, id ID) (*Disk, error) {
	var disk Disk
	if err := c.fetchInto(ctx, diskPath(id), nil, &disk); err != nil {
		return nil, fmt.Errorf("failed to get disk %s: %w", id, err)
	}

	return &disk, nil
}

// ListDisks returns all disks, including those of templates.
func (c *Client) ListDisks(ctx context.Context) ([]Disk, error) {
	var list struct {
		XMLName xml.Name `xml:"disks"`
		Items   []Disk   `xml:"disk"`
	}
	if err := c.fetchInto(ctx, "/disks", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list disks: %w", err)
	}

	return list.Items, nil
}

// FindDisks returns the disks with this alias in the data center, or in the whole engine if dc is nil. An alias is not
// unique.
func (c *Client) FindDisks(ctx context.Context, dc *DataCenter, alias string) ([]Disk, error) {
	var list struct {
		XMLName xml.Name `xml:"disks"`
		Items   []Disk   `xml:"disk"`
	}
	err := c.fetchInto(ctx, "/disks", nil, &list)

	var found []Disk
	if err == nil {
		found, err = FilterByDataCenter(
			ctx, c, dc, filterItems(list.Items, func(d Disk) bool { return d.AliasText() == alias }),
		)
	}

	if err != nil {
		return nil, fmt.Errorf("failed to look up disk %q: %w", alias, err)
	}

	return found, nil
}

// ListDisksMadeFor returns all disks of the engine with the mark of an owner; see IsMadeFor. CreateDiskOnce created
// them, or the engine copied them from such disks; see ExcludeTemplateCopies. It lists all disks, because no recorded
// engine searches descriptions. Callers may not know their aliases.
func (c *Client) ListDisksMadeFor(ctx context.Context, owner string) ([]Disk, error) {
	var list struct {
		XMLName xml.Name `xml:"disks"`
		Items   []Disk   `xml:"disk"`
	}

	if err := c.fetchInto(ctx, "/disks", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to look up the disks of %q: %w", owner, err)
	}

	return filterItems(list.Items, func(d Disk) bool { return d.IsMadeFor(owner) }), nil
}

// FindDisksNotFromTemplates returns the results of FindDisks without copies from templates; see ExcludeTemplateCopies.
func (c *Client) FindDisksNotFromTemplates(ctx context.Context, dc *DataCenter, alias string) ([]Disk, error) {
	found, err := c.FindDisks(ctx, dc, alias)
	if err != nil {
		return nil, err
	}

	out, err := c.ExcludeTemplateCopies(ctx, found)
	if err != nil {
		return nil, fmt.Errorf("failed to look up disk %q: %w", alias, err)
	}

	return out, nil
}

// ExcludeTemplateCopies removes disks of templates, and of VMs created from templates, from the list. The engine gives
// such copies the alias and the description of the template's original disk. It sends no request for an empty list.
func (c *Client) ExcludeTemplateCopies(ctx context.Context, disks []Disk) ([]Disk, error) {
	if len(disks) == 0 {
		return nil, nil
	}

	copies, err := c.listHeldDisks(ctx, true)
	if err != nil {
		return nil, err
	}

	return slices.DeleteFunc(slices.Clone(disks), func(d Disk) bool { return copies[d.ID] }), nil
}

// ExcludeUsedDisks removes disks used by templates and VMs from the list. It sends no request for an empty list.
func (c *Client) ExcludeUsedDisks(ctx context.Context, disks []Disk) ([]Disk, error) {
	if len(disks) == 0 {
		return nil, nil
	}

	used, err := c.listHeldDisks(ctx, false)
	if err != nil {
		return nil, err
	}

	return slices.DeleteFunc(slices.Clone(disks), func(d Disk) bool { return used[d.ID] }), nil
}

// listHeldDisks returns the IDs of the disks of all templates and VMs. If copies is set, it ignores VMs created without
// a template.
func (c *Client) listHeldDisks(ctx context.Context, copies bool) (map[ID]bool, error) {
	type holder struct {
		Template    *Ref             `xml:"template"`
		Original    *Ref             `xml:"original_template"` // also of a clone, whose template is Blank
		Attachments []DiskAttachment `xml:"disk_attachments>disk_attachment"`
	}
	var templates struct {
		XMLName xml.Name `xml:"templates"`
		Items   []holder `xml:"template"`
	}
	var vms struct {
		XMLName xml.Name `xml:"vms"`
		Items   []holder `xml:"vm"`
	}
	with := url.Values{"follow": {"disk_attachments"}}
	if err := c.callEngine(ctx, http.MethodGet, "/templates", with, nil, &templates); err != nil {
		return nil, fmt.Errorf("failed to list the disks of templates: %w", err)
	}

	if err := c.callEngine(ctx, http.MethodGet, "/vms", with, nil, &vms); err != nil {
		return nil, fmt.Errorf("failed to list the disks of VMs: %w", err)
	}

	isBlankTemplate := func(template *Ref) bool { return template == nil || template.ID == BlankTemplateID }
	made := slices.DeleteFunc(vms.Items, func(vm holder) bool {
		return copies && isBlankTemplate(vm.Template) && isBlankTemplate(vm.Original)
	})
	held := map[ID]bool{}

	for _, each := range slices.Concat(templates.Items, made) {
		for i := range each.Attachments {
			held[each.Attachments[i].DiskID()] = true
		}
	}

	return held, nil
}

// CreateDisk creates a disk and returns it without waiting. The disk is usually still locked.
func (c *Client) CreateDisk(ctx context.Context, disk *Disk) (*Disk, error) {
	var created Disk
	if err := c.callEngine(ctx, http.MethodPost, "/disks", nil, disk, &created); err != nil {
		return nil, fmt.Errorf("failed to create disk %q: %w", disk.AliasText(), err)
	}

	return &created, nil
}

// UpdateDisk changes the set fields of the disk: its alias, or its provisioned size. The size can only grow. It does
// not wait.
func (c *Client) UpdateDisk(ctx context.Context, id ID, change *Disk) error {
	if err := c.callEngine(ctx, http.MethodPut, diskPath(id), nil, change, nil); err != nil {
		return fmt.Errorf("failed to update disk %s: %w", id, err)
	}

	return nil
}

// DeleteDisk deletes a disk with its data. It does not wait.
func (c *Client) DeleteDisk(ctx context.Context, id ID) error {
	if err := c.callEngine(ctx, http.MethodDelete, diskPath(id), nil, nil, nil); err != nil {
		return fmt.Errorf("failed to delete disk %s: %w", id, err)
	}

	return nil
}

// ListDiskAttachments lists the disks of a VM. A missing VM is an IsNotFound error.
func (c *Client) ListDiskAttachments(ctx context.Context, vmID ID) ([]DiskAttachment, error) {
	attached, err := c.listAttachments(ctx, vmPath(vmID), "VM "+vmID.String())
	if err == nil && len(attached) == 0 { // an engine answers like this for a deleted VM
		_, err = c.FetchVM(ctx, vmID)
	}

	return attached, err
}

// ListTemplateDiskAttachments lists the disks of a template.
func (c *Client) ListTemplateDiskAttachments(ctx context.Context, templateID ID) ([]DiskAttachment, error) {
	return c.listAttachments(ctx, templatePath(templateID), "template "+templateID.String())
}

func (c *Client) listAttachments(ctx context.Context, owner, name string) ([]DiskAttachment, error) {
	var list struct {
		XMLName xml.Name         `xml:"disk_attachments"`
		Items   []DiskAttachment `xml:"disk_attachment"`
	}
	if err := c.fetchInto(ctx, owner+"/diskattachments", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the disks of %s: %w", name, err)
	}

	return list.Items, nil
}

// FetchDiskAttachment returns one disk of a VM.
func (c *Client) FetchDiskAttachment(ctx context.Context, vmID, id ID) (*DiskAttachment, error) {
	var attachment DiskAttachment
	if err := c.fetchInto(ctx, attachmentPath(vmID, id), nil, &attachment); err != nil {
		return nil, fmt.Errorf("failed to get disk %s of VM %s: %w", id, vmID, err)
	}

	return &attachment, nil
}

// AttachDisk attaches a disk to a VM.
func (c *Client) AttachDisk(ctx context.Context, vmID ID, attachment *DiskAttachment) (*DiskAttachment, error) {
	var created DiskAttachment
	if err := c.callEngine(
		ctx, http.MethodPost, vmPath(vmID)+"/diskattachments", nil, attachment, &created,
	); err != nil {
		return nil, fmt.Errorf("failed to attach disk %s to VM %s: %w", attachment.DiskID(), vmID, err)
	}

	return &created, nil
}

// UpdateAttachment changes the set fields of an attachment. While the VM runs and the disk is active, the engine allows
// only a change of the field active.
func (c *Client) UpdateAttachment(ctx context.Context, vmID, id ID, change *DiskAttachment) error {
	if err := c.callEngine(ctx, http.MethodPut, attachmentPath(vmID, id), nil, change, nil); err != nil {
		return fmt.Errorf("failed to change disk %s of VM %s: %w", id, vmID, err)
	}

	return nil
}

// DetachDisk detaches a disk from a VM. The disk and its data stay. Engines answer 400 if the disk is not attached.
// DetachDisk then returns a 404.
func (c *Client) DetachDisk(ctx context.Context, vmID, id ID) error {
	err := c.callEngine(ctx, http.MethodDelete, attachmentPath(vmID, id), nil, nil, nil)
	if IsRefused(err) {
		if _, fetchErr := c.FetchDiskAttachment(ctx, vmID, id); IsNotFound(fetchErr) {
			err = fetchErr
		}
	}

	if err != nil {
		return fmt.Errorf("failed to detach disk %s from VM %s: %w", id, vmID, err)
	}

	return nil
}

// DeleteAttachedDisk detaches a disk from a VM and deletes it with its data, in one step. It does not wait.
func (c *Client) DeleteAttachedDisk(ctx context.Context, vmID, id ID) error {
	query := url.Values{"detach_only": {"false"}}
	if err := c.callEngine(ctx, http.MethodDelete, attachmentPath(vmID, id), query, nil, nil); err != nil {
		return fmt.Errorf("failed to remove disk %s of VM %s: %w", id, vmID, err)
	}

	return nil
}

// DetachForeignDisks detaches all disks of a VM except its own, because the engine deletes attached disks together
// with the VM.
func (c *Client) DetachForeignDisks(ctx context.Context, vmID ID, own func(*DiskAttachment, *Disk) bool) error {
	attached, err := c.ListDiskAttachments(ctx, vmID)
	if IsNotFound(err) {
		return nil
	}

	if err != nil {
		return err
	}

	for i := range attached {
		disk, err := c.FetchDisk(ctx, attached[i].DiskID())
		if err != nil && !IsNotFound(err) {
			return err
		}

		if err != nil || own(&attached[i], disk) {
			continue
		}

		if err := c.DetachDisk(ctx, vmID, attached[i].DiskID()); err != nil && !IsNotFound(err) {
			return err
		}
	}

	return nil
}

// CreateDiskOnce creates a disk and returns it, usually still locked. If the answer is lost, it finds the disk by a
// mark in its description, because an alias is not unique. It never repeats a request that may have had an effect. An
// interrupt does not stop the request, because the disk would then be missing from every state. owner is the
// mark for IsMadeFor, and may be empty.
//
// mayAct is called before each request, and again after the disk exists. It may be nil. While this process was paused,
// another one may have created the disk as well. If mayAct then returns ErrSuperseded, CreateDiskOnce
// removes the disk and returns that error. It keeps the disk if a VM uses it, or if the time is up.
func (c *Client) CreateDiskOnce(
	ctx context.Context, owner string, wanted *Disk, mayAct func(context.Context) error, report func(seen string),
) (*Disk, error) {
	if mayAct == nil {
		mayAct = func(context.Context) error { return nil }
	}

	marked := *wanted
	marked.Description = strings.TrimSpace(owner + requestMark + rand.Text())

	made, err := CreateOnce(ctx, "disk "+wanted.AliasText(), report,
		func(ctx context.Context) (*Disk, error) {
			if err := callWithTimeout(ctx, mayActTimeout, mayAct); err != nil {
				return nil, &finalError{err}
			}

			return c.CreateDisk(ctx, &marked)
		},
		func(ctx context.Context) (*Disk, error) {
			disks, err := c.ListDisks(ctx) // find the disk by its mark, because the engine may have changed the alias
			for i := range disks {
				if err == nil && disks[i].Description == marked.Description {
					return &disks[i], nil
				}
			}

			return nil, err
		})
	if err != nil {
		var lost *UnansweredError
		if errors.As(err, &lost) {
			lost.Mark = marked.Description
		}

		return nil, err
	}

	// Neither an interrupt nor an unreachable API server is a reason to lose the disk.
	ctx = context.WithoutCancel(ctx)
	if refused := callWithTimeout(ctx, mayActTimeout, mayAct); errors.Is(refused, ErrSuperseded) {
		return nil, errors.Join(refused, c.removeOrphanedDisk(ctx, made, report))
	}

	return made, nil
}

// removeOrphanedDisk removes a disk created by a process that may no longer act. It keeps a disk in use, because the
// acting process may have found it by its mark and attached it to its VM. An engine would delete even the disk of a VM
// that is down.
func (c *Client) removeOrphanedDisk(ctx context.Context, made *Disk, report func(seen string)) error {
	left, err := c.ExcludeUsedDisks(ctx, []Disk{*made})
	if err != nil || len(left) == 0 {
		return err
	}

	return c.RemoveDisk(context.WithValue(ctx, tidying{}, true), made.ID, report)
}

// ErrSuperseded reports that a process may no longer act, because another one leads.
var ErrSuperseded = errors.New("another manager leads")

// mayActTimeout limits the check whether a process may act.
const mayActTimeout = 10 * time.Second

// callWithTimeout calls a function with a time limit.
func callWithTimeout(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	return call(ctx)
}

// requestMark precedes the mark of a request in the description of a disk.
const requestMark = " request="

// OwnerMark returns the mark of the disk's owner, or "" if CreateDiskOnce did not create the disk.
func (d *Disk) OwnerMark() string {
	mark, _, made := strings.Cut(d.Description, requestMark)
	if !made {
		return ""
	}

	return mark
}

// IsMadeFor reports whether CreateDiskOnce created the disk for this owner. The alias alone is not enough.
func (d *Disk) IsMadeFor(owner string) bool {
	return owner != "" && strings.HasPrefix(d.Description, owner+requestMark)
}

// WaitDisk waits until the disk is usable. It fails if the engine marks the disk as illegal.
func (c *Client) WaitDisk(ctx context.Context, id ID, report func(seen string)) error {
	status, err := c.waitDiskUnlocked(ctx, id, report)
	if err == nil && status == DiskIllegal {
		return fmt.Errorf("disk %s is illegal: the engine failed to create it", id)
	}

	return err
}

// waitDiskUnlocked waits until the engine unlocks the disk, and returns its final status: DiskOK or DiskIllegal. The
// engine locks a disk while it checks written data, and during each change of the description.
func (c *Client) waitDiskUnlocked(ctx context.Context, id ID, report func(seen string)) (status DiskStatus, err error) {
	err = Wait(ctx, "disk "+id.String()+" to be ready", func(ctx context.Context) (bool, string, error) {
		disk, err := c.FetchDisk(ctx, id)
		if err != nil {
			return false, "", err
		}

		status = disk.Status

		return status == DiskOK || status == DiskIllegal, string(status), nil
	}, report)

	return status, err
}

// GrowDisk grows the disk to at least this size in bytes, and waits. It does not change a larger disk, because disks
// cannot shrink.
func (c *Client) GrowDisk(ctx context.Context, id ID, size int64, report func(seen string)) error {
	asked := false

	return Wait(ctx, "disk "+id.String()+" to grow", func(ctx context.Context) (bool, string, error) {
		disk, err := c.FetchDisk(ctx, id)
		if err != nil {
			return false, "", err
		}

		if disk.ProvisionedSize >= size && disk.Status == DiskOK {
			return true, "", nil
		}

		if disk.Status == DiskOK && !asked {
			err = c.UpdateDisk(ctx, id, &Disk{ProvisionedSize: size})
			asked = err == nil
		}

		return false, string(disk.Status), err
	}, report)
}

// MoveDisk moves a disk to a storage domain, and waits. It does nothing if the disk is already there. Even a disk of a
// running VM can be moved.
func (c *Client) MoveDisk(ctx context.Context, id, domain ID, report func(seen string)) error {
	what := "disk " + id.String() + " to be moved to storage domain " + domain.String()

	return Wait(ctx, what, func(ctx context.Context) (bool, string, error) {
		disk, err := c.FetchDisk(ctx, id)
		if err != nil || disk.Status != DiskOK {
			return false, string(getDiskStatus(disk)), err
		}

		if slices.Contains(disk.StorageDomainIDs(), domain) {
			return true, "", nil
		}

		err = c.callEngine(ctx, http.MethodPost, diskPath(id)+"/move", nil, action{StorageDomain: NewRef(domain)}, nil)
		if err != nil {
			err = fmt.Errorf("failed to move disk %s: %w", id, err)
		}

		return false, string(disk.Status), err // the engine's acceptance proves no move, so look again
	}, report)
}

// getDiskStatus returns the status of a disk, or "" for nil.
func getDiskStatus(disk *Disk) DiskStatus {
	if disk == nil {
		return ""
	}

	return disk.Status
}

// RemoveDisk deletes a disk and waits until it is gone.
func (c *Client) RemoveDisk(ctx context.Context, id ID, report func(seen string)) error {
	return Wait(ctx, "disk "+id.String()+" to be deleted", func(ctx context.Context) (bool, string, error) {
		disk, err := c.FetchDisk(ctx, id)
		if IsNotFound(err) {
			return true, "", nil
		} else if err != nil {
			return false, "", err
		}

		if disk.Status == DiskLocked {
			return false, string(disk.Status), nil
		}

		if err = c.DeleteDisk(ctx, id); IsNotFound(err) {
			return true, "", nil
		}

		return false, string(disk.Status), err // the engine's acceptance proves no deletion, so look again
	}, report)
}
