package ovirtsim

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// This file has snapshots of VMs. Every VM has the active one, which is the VM as it is.

// The kinds of snapshots, and a status that only they have.
const (
	snapshotActive   = "active"
	snapshotRegular  = "regular"
	snapshotPreview  = "preview"
	statusInPreview  = "in_preview"
	activeText       = "Active VM"
	beforePreview    = "Active VM before the preview"
	snapshotWaitText = "The VM is performing an operation on a Snapshot. Please wait for the operation to finish, and try again."
)

// active is the snapshot that is the VM as it is. It is stored when there are others.
func (s *store) active(v *vm) *snapshot {
	for _, found := range s.snapshotsOf(v.ID) {
		if found.Kind == snapshotActive {
			return found
		}
	}
	return &snapshot{ID: s.idOf("", "snapshot", v.ID), VM: v.ID, Description: activeText, Kind: snapshotActive, Status: statusOK, Date: v.Created}
}

func (s *store) snapshotsOf(vmID string) []*snapshot {
	return s.snapshotsByVM.where(vmID, func(found *snapshot) string { return fmt.Sprintf("%020d", found.Order) })
}

// preview is the snapshot that a VM shows for a while instead of itself, and what the VM was before; nil where it shows none.
func (s *store) preview(v *vm) (shown, before *snapshot) {
	for _, found := range s.snapshotsOf(v.ID) {
		if found.Kind == snapshotPreview {
			before = found
		}
		if found.Status == statusInPreview {
			shown = found
		}
	}
	return shown, before
}

// notPreviewing refuses a command such as "create Snapshot" while the VM shows a snapshot.
func (s *store) notPreviewing(v *vm, command string) error {
	if shown, _ := s.preview(v); shown != nil {
		return conflict("Cannot %s. VM is previewing a Snapshot.", command)
	}
	return nil
}

// keep stores a snapshot behind the others.
func (s *store) keep(made *snapshot) {
	made.Order = s.next("snapshots")
	s.snapshots.put(made.ID, made)
}

// take is a snapshot of a VM and its disks.
func (s *store) take(v *vm, kind, description string) *snapshot {
	made := &snapshot{ID: newID(), VM: v.ID, Description: description, Kind: kind, Status: statusOK, Date: time.Now(), Hardware: v.copyOf()}
	for _, a := range s.attachmentsOf(v.ID) {
		if d := s.disks.get(a.Disk); d != nil {
			made.Disks = append(made.Disks, snapshotDisk{Disk: d.ID, Provisioned: d.Provisioned})
		}
	}
	return made
}

// lockForSnapshot locks a VM while its disks change over to those of a snapshot.
func (s *Engine) lockForSnapshot(v *vm) {
	v.Status = statusImageLocked
	s.arrange(v, statusDown, s.settings.Timings.Clone)
}

// restoreDisks gives the disks of a VM the sizes that they had. profiled says that they have their disk profile again, which
// those of a snapshot have not.
func (s *store) restoreDisks(from *snapshot, profiled bool) {
	for _, was := range from.Disks {
		if d := s.disks.get(was.Disk); d != nil {
			d.Provisioned, d.NoProfile = was.Provisioned, !profiled
			s.disks.put(d.ID, d)
		}
	}
}

// inSnapshot says whether a disk is part of a snapshot beside the active one.
func (s *store) inSnapshot(vmID, diskID string) bool {
	return slices.ContainsFunc(s.snapshotsOf(vmID), func(found *snapshot) bool {
		return found.Kind != snapshotActive && slices.ContainsFunc(found.Disks, func(d snapshotDisk) bool { return d.Disk == diskID })
	})
}

func snapshotDocument(c *call, v *vm, shown *snapshot) *element {
	out := object("snapshot", shown.ID, "vms", v.ID, "snapshots", shown.ID).str("description", shown.Description).str("date", stamp(shown.Date)).
		flag("persist_memorystate", shown.Memory).str("snapshot_status", shown.Status).str("snapshot_type", shown.Kind)
	if shown.Kind == snapshotActive {
		out.kids = slices.DeleteFunc(out.kids, func(kid *element) bool { return kid.name == "link" })
		return out
	}

	// The VM is told as it is, apart from its hardware, and is no link.
	then := *v
	then.hardware, then.Next = shown.Hardware, nil
	document := vmDocument(c, &then)
	document.attrs = nil
	document.set("id", v.ID)
	document.kids = slices.DeleteFunc(document.kids, func(kid *element) bool { return kid.name == "link" || kid.name == "actions" })
	if display := document.get("display"); display != nil {
		display.kids = slices.DeleteFunc(display.kids, func(kid *element) bool { return kid.name == "type" })
	}
	return out.add(document)
}

// snapshot is the one that the path names, of a VM that there is.
func (c *call) snapshot() (*vm, *snapshot, error) {
	v, id := c.store.vms.get(c.id("vm")), c.id("id")
	if v != nil {
		if active := c.store.active(v); active.ID == id {
			return v, active, nil
		}
		if found := c.store.snapshots.get(id); found != nil && found.VM == v.ID {
			return v, found, nil
		}
	}
	return nil, nil, noSnapshot(id)
}

func noSnapshot(id string) error {
	return entityNotFound("GetSnapshotBySnapshotId: snapshot id=" + id)
}

func listSnapshots(c *call) (*element, error) {
	out := el("snapshots")
	v := c.store.vms.get(c.id("vm"))
	if v == nil {
		return out, nil
	}
	all := c.store.snapshotsOf(v.ID)
	if len(all) == 0 {
		all = []*snapshot{c.store.active(v)}
	}
	for _, shown := range all {
		out.items(snapshotDocument(c, v, shown))
	}
	return out, nil
}

func getSnapshot(c *call) (*element, error) {
	v, found, err := c.snapshot()
	if err != nil {
		return nil, err
	}
	return snapshotDocument(c, v, found), nil
}

func addSnapshot(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	if err := mandatory(c.body, "snapshot", "description"); err != nil {
		return nil, err
	}
	if err := c.store.notPreviewing(v, "create Snapshot"); err != nil {
		return nil, err
	}
	if err := c.store.settledSnapshots(v, "create Snapshot"); err != nil {
		return nil, err
	}
	if v.Status == statusImageLocked {
		return nil, conflict("Cannot create Snapshot: VM is locked. Please try again in a few minutes.")
	}

	active := *c.store.active(v)
	made := c.store.take(v, snapshotRegular, c.body.value("description"))
	made.Memory, made.Status = v.running() && c.body.value("persist_memorystate") != "false", statusLocked
	c.store.snapshots.drop(active.ID)
	active.ID, active.Date, active.Order = newID(), made.Date, 0 // it comes first, until a preview is undone or committed
	c.store.snapshots.put(active.ID, &active)
	c.store.keep(made)
	c.work("Creating VM Snapshot "+made.Description+" for VM "+v.Name, made.ID)
	c.event(45, "normal", "Snapshot '"+made.Description+"' creation for VM '"+v.Name+"' was initiated by "+c.user.Name+".", eventOf{vm: v.ID})
	c.arrangeSnapshot(made, statusOK)

	out := object("snapshot", made.ID, "vms", v.ID, "snapshots", made.ID).str("description", made.Description).
		add(el("initialization").add(el("configuration").str("data", c.store.ovf(v)).str("type", "ovf"))).
		str("date", stamp(made.Date)).flag("persist_memorystate", made.Memory).str("snapshot_status", made.Status).str("snapshot_type", made.Kind).add(ref("vm", "vms", v.ID))
	return c.created(out), nil
}

// arrangeSnapshot locks a snapshot until an operation on it ends.
func (s *Engine) arrangeSnapshot(of *snapshot, status string) {
	of.Status, of.Until = statusLocked, transition{Status: status, At: time.Now().Add(s.settings.Timings.Clone)}
	s.store.snapshots.put(of.ID, of)
	s.wakeSnapshot(of)
}

func (s *Engine) wakeSnapshot(of *snapshot) {
	due := of.Until
	s.at(due.At, func() {
		if s.store.snapshots.get(of.ID) != of || of.Until != due {
			return
		}
		if due.Status == statusRemoved {
			s.store.snapshots.drop(of.ID)
		} else {
			of.Status, of.Until = due.Status, transition{}
			s.store.snapshots.put(of.ID, of)
		}
		s.finish(of.ID)
	})
}

// settledSnapshots refuses a command such as "run VM" while something is done to a snapshot of the VM.
func (s *store) settledSnapshots(v *vm, command string) error {
	for _, found := range s.snapshotsOf(v.ID) {
		switch {
		case found.Status != statusLocked:
		case found.Kind == snapshotRegular && found.Until.Status == statusOK:
			return conflict("Cannot %s. Snapshot is currently being created for VM %s.", command, v.Name)
		default:
			return conflict("Cannot %s. %s", command, snapshotWaitText)
		}
	}
	return nil
}

func removeSnapshot(c *call) (*element, error) {
	v, found, err := c.snapshot()
	if err != nil {
		return nil, err
	}
	if err := c.store.notPreviewing(v, "remove Snapshot"); err != nil {
		return nil, err
	}
	if err := c.store.settledSnapshots(v, "remove Snapshot"); err != nil {
		return nil, err
	}
	if found.Kind != snapshotRegular {
		return nil, conflict("Cannot remove Snapshot. Removing the VM active Snapshot is not allowed.")
	}
	c.work("Removing Snapshot "+found.Description+" of VM "+v.Name, found.ID)
	c.arrangeSnapshot(found, statusRemoved)
	return c.complete(), nil
}

// previewable refuses to show or restore a snapshot.
func (c *call) previewable(v *vm) error {
	const command = "preview Snapshot"
	switch {
	case v.running() || v.Status == statusSuspended:
		return conflict("Cannot preview Snapshot. At least one of the VMs is not down.")
	case v.Status == statusImageLocked:
		return conflict("Cannot preview Snapshot: VM is locked. Please try again in a few minutes.")
	}
	if err := c.store.settledSnapshots(v, command); err != nil {
		return err
	}
	return c.store.notPreviewing(v, command)
}

// restoreSnapshot goes back to a snapshot for good. Newer ones are lost.
func restoreSnapshot(c *call) (*element, error) {
	v, found, err := c.snapshot()
	if err != nil {
		return nil, err
	}
	if err := c.previewable(v); err != nil {
		return nil, withAsync(err)
	}
	c.store.dropNewer(v, found)
	v.hardware = found.Hardware.copyOf()
	c.store.restoreDisks(found, false)
	c.work("Restoring VM "+v.Name+" to Snapshot "+found.Description, v.ID)
	c.lockForSnapshot(v)
	restored := el("snapshot").set("href", href("vms", v.ID, "snapshots", found.ID)).set("id", found.ID).add(ref("vm", "vms", v.ID))
	return c.complete(leaf("async", "false"), restored), nil
}

// withAsync makes a refusal one of an action that shows whether it was asynchronous.
func withAsync(err error) error {
	if refused, ok := err.(*refusal); ok { //nolint:errorlint // made just before
		refused.beside = leaf("async", "false")
	}
	return err
}

// dropNewer forgets the snapshots that were made after one.
func (s *store) dropNewer(v *vm, than *snapshot) {
	for _, other := range s.snapshotsOf(v.ID) {
		if other.Kind == snapshotRegular && other.Order > than.Order {
			s.snapshots.drop(other.ID)
		}
	}
}

func previewSnapshot(c *call) (*element, error) {
	v, err := c.actionVM("preview Snapshot")
	if err != nil {
		return nil, err
	}
	if err := mandatoryRef(c.body.get("snapshot"), "snapshot"); err != nil {
		return nil, err
	}
	if err := c.previewable(v); err != nil {
		return nil, err
	}
	id := refID(c.body.get("snapshot"))
	found := c.store.snapshots.get(id)
	if found == nil || found.VM != v.ID {
		return nil, invalid("Cannot preview Snapshot. VM's Snapshot does not exist.")
	}

	// What was active becomes what the preview is undone to.
	was := c.store.take(v, snapshotPreview, beforePreview)
	was.ID = c.store.active(v).ID
	c.store.snapshots.drop(was.ID)
	c.store.keep(was)
	now := &snapshot{ID: newID(), VM: v.ID, Description: activeText, Kind: snapshotActive, Status: statusOK, Date: time.Now()}
	c.store.snapshots.put(now.ID, now)
	v.hardware = found.Hardware.copyOf()
	c.store.restoreDisks(found, false)
	found.Previews = true
	c.work("Previewing Snapshot "+found.Description+" of VM "+v.Name, v.ID)
	c.lockForSnapshot(v)
	return c.pending(), nil
}

// showPreview ends the work on a VM that has snapshots; false where it has none, and was locked for something else.
func (s *Engine) showPreview(v *vm) bool {
	all := s.store.snapshotsOf(v.ID)
	for _, found := range all {
		if found.Previews {
			found.Previews, found.Status = false, statusInPreview
			s.store.snapshots.put(found.ID, found)
		}
	}
	if len(all) == 0 {
		return false
	}
	s.settle(v, statusDown)
	s.finish(v.ID)
	return true
}

// pending is the answer to an action that goes on.
func (c *call) pending() *element {
	c.status = http.StatusAccepted
	out := el("action").set("id", newID()).str("async", "true").add(ref("job", "jobs", c.job))
	if c.body != nil {
		out.add(c.body.kids...)
	}
	return out.str("status", "pending")
}

func (c *call) endPreview() (v *vm, shown, before *snapshot, err error) {
	if v, err = c.actionVM("revert to Snapshot"); err != nil {
		return nil, nil, nil, err
	}
	if shown, before = c.store.preview(v); shown == nil || before == nil {
		return nil, nil, nil, invalid("Cannot revert to Snapshot. VM's Snapshot does not exist.")
	}
	if v.Status != statusDown {
		return nil, nil, nil, conflict("Cannot revert to Snapshot. At least one of the VMs is not down.")
	}
	shown.Status = statusOK
	c.store.snapshots.put(shown.ID, shown)
	c.store.snapshots.drop(c.store.active(v).ID)
	return v, shown, before, nil
}

// undoSnapshot goes back to the VM as it was before the preview. The VM looks settled at once; its active snapshot is locked.
func undoSnapshot(c *call) (*element, error) {
	v, _, before, err := c.endPreview()
	if err != nil {
		return nil, err
	}
	v.hardware = before.Hardware.copyOf()
	c.store.vms.put(v.ID, v)
	c.store.restoreDisks(before, true)
	before.Kind, before.Description = snapshotActive, activeText
	c.work("Undoing the preview of VM "+v.Name, before.ID)
	c.arrangeSnapshot(before, statusOK)
	return c.pending(), nil
}

// commitSnapshot keeps what the preview shows. Newer snapshots are lost.
func commitSnapshot(c *call) (*element, error) {
	v, shown, before, err := c.endPreview()
	if err != nil {
		return nil, err
	}
	c.store.dropNewer(v, shown)
	c.store.snapshots.drop(before.ID)
	c.store.keep(&snapshot{ID: newID(), VM: v.ID, Description: activeText, Kind: snapshotActive, Status: statusOK, Date: time.Now()})
	c.work("Committing the preview of VM "+v.Name, v.ID)
	c.lockForSnapshot(v)
	return c.pending(), nil
}

// addVMOfSnapshot makes a VM that is a copy of another one as it was.
func (c *call) addVMOfSnapshot() (*element, error) {
	in := c.body
	if err := require(in, "Vm", "name"); err != nil {
		return nil, err
	}
	home, err := c.clusterOf(in.get("cluster"))
	if err != nil {
		return nil, err
	}
	asked := in.list("snapshots", "snapshot")
	if len(asked) == 0 {
		return nil, require(in, "Vm", "snapshots.snapshot")
	}
	found := c.store.snapshots.get(refID(asked[0]))
	if found == nil {
		return nil, noSnapshot(refID(asked[0]))
	}
	v := c.store.vms.get(found.VM)
	if err := c.store.settledSnapshots(v, "add VM"); err != nil {
		return nil, err
	}

	then := &template{
		hardware: found.Hardware.copyOf(), ID: v.ID, Cluster: v.Cluster, Kubernetes: v.Kubernetes, Ignition: v.Ignition, Consoles: v.Consoles, Initialization: v.Initialization,
	}
	return c.makeVM(then, home, true, true)
}

func listSnapshotDisks(c *call) (*element, error) {
	_, found, err := c.snapshot()
	if err != nil {
		return nil, err
	}
	out := el("disks")
	for _, was := range found.Disks {
		d := c.store.disks.get(was.Disk)
		if d == nil {
			continue
		}
		one := el("disk").set("id", d.ID).str("name", d.Name).str("description", d.Description).num("actual_size", d.Actual).str("alias", d.Name).
			str("backup", orElse(d.Backup, "none")).str("content_type", d.ContentType).str("format", d.Format).str("image_id", c.store.idOf("", "image", d.ID, found.ID)).
			flag("propagate_errors", false).num("provisioned_size", was.Provisioned).flag("shareable", d.Shareable).flag("sparse", d.Sparse).str("status", statusOK).
			str("storage_type", "image").num("total_size", 0).flag("wipe_after_delete", d.WipeAfterDelete).add(el("snapshot").set("id", found.ID))
		one.add(el("storage_domains").items(el("storage_domain").set("id", d.Domain)))
		out.items(one)
	}
	return out, nil
}

// ofSnapshot is a list below a snapshot that there must be.
func ofSnapshot(list operation) operation {
	return func(c *call) (*element, error) {
		if _, _, err := c.snapshot(); err != nil {
			return nil, err
		}
		return list(c)
	}
}
