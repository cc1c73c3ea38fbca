package api

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

var snapshotRoutes = []route{
	{"POST", "/vms/{vm}/commitsnapshot", commitSnapshot},
	{"POST", "/vms/{vm}/previewsnapshot", previewSnapshot},
	{"GET", "/vms/{vm}/snapshots", listSnapshots},
	{"POST", "/vms/{vm}/snapshots", addSnapshot},
	{"GET", "/vms/{vm}/snapshots/{id}", getSnapshot},
	{"DELETE", "/vms/{vm}/snapshots/{id}", removeSnapshot},
	{"GET", "/vms/{vm}/snapshots/{id}/cdroms", requireSnapshot(listNothing("cdroms"))},
	{"GET", "/vms/{vm}/snapshots/{id}/disks", listSnapshotDisks},
	{"GET", "/vms/{vm}/snapshots/{id}/nics", requireSnapshot(listNothing("nics"))},
	{"POST", "/vms/{vm}/snapshots/{id}/restore", restoreSnapshot},
	{"POST", "/vms/{vm}/undosnapshot", undoSnapshot},
}

// checkNotPreviewing rejects a command such as "create Snapshot" while the VM previews a snapshot.
func (s *Engine) checkNotPreviewing(v *store.VM, command string) error {
	if shown, _ := s.store.PreviewSnapshots(v); shown != nil {
		return wire.Conflict("Cannot %s. VM is previewing a Snapshot.", command)
	}

	return nil
}

// lockForSnapshot locks a VM while its disks change to those of a snapshot.
func (s *Engine) lockForSnapshot(v *store.VM) {
	v.Status = store.StatusImageLocked
	s.scheduleVM(v, store.StatusDown, s.settings.Timings.Clone)
}

func snapshotDocument(c *call, v *store.VM, shown *store.Snapshot) *wire.Element {
	out := wire.NewObject("snapshot", shown.ID, "vms", v.ID, "snapshots", shown.ID).
		Str("description", shown.Description).
		Str("date", formatTime(shown.Date)).
		Flag("persist_memorystate", shown.Memory).
		Str("snapshot_status", shown.Status).
		Str("snapshot_type", shown.Kind)
	if shown.Kind == store.SnapshotActive {
		out.Kids = slices.DeleteFunc(out.Kids, func(kid *wire.Element) bool { return kid.Name == "link" })
		return out
	}

	// The document shows the VM's present state, but the hardware of the snapshot. It is not a link.
	then := *v
	then.Hardware, then.Next = shown.Hardware, nil
	document := vmDocument(c, &then)
	document.Attrs = nil
	document.SetAttr("id", v.ID)
	document.Kids = slices.DeleteFunc(document.Kids, func(kid *wire.Element) bool {
		return kid.Name == "link" ||
			kid.Name == "actions"
	})
	if display := document.Get("display"); display != nil {
		display.Kids = slices.DeleteFunc(display.Kids, func(kid *wire.Element) bool { return kid.Name == "type" })
	}

	return out.Add(document)
}

// findSnapshot returns the snapshot in the path, with its VM.
func (c *call) findSnapshot() (*store.VM, *store.Snapshot, error) {
	v, id := c.store.VMs.Get(c.pathID("vm")), c.pathID("id")
	if v != nil {
		if active := c.store.ActiveSnapshot(v); active.ID == id {
			return v, active, nil
		}

		if found := c.store.Snapshots.Get(id); found != nil && found.VM == v.ID {
			return v, found, nil
		}
	}

	return nil, nil, noSnapshot(id)
}

func noSnapshot(id string) error {
	return wire.EntityNotFound("GetSnapshotBySnapshotId: snapshot id=" + id)
}

func listSnapshots(c *call) (*wire.Element, error) {
	out := wire.El("snapshots")
	v := c.store.VMs.Get(c.pathID("vm"))
	if v == nil {
		return out, nil
	}

	all := c.store.SnapshotsOf(v.ID)
	if len(all) == 0 {
		all = []*store.Snapshot{c.store.ActiveSnapshot(v)}
	}

	for _, shown := range all {
		out.AddItems(snapshotDocument(c, v, shown))
	}

	return out, nil
}

func getSnapshot(c *call) (*wire.Element, error) {
	v, found, err := c.findSnapshot()
	if err != nil {
		return nil, err
	}

	return snapshotDocument(c, v, found), nil
}

func addSnapshot(c *call) (*wire.Element, error) {
	v, err := c.findVM()
	if err != nil {
		return nil, err
	}

	if err := requireParameter(c.body, "snapshot", "description"); err != nil {
		return nil, err
	}

	if err := c.checkNotPreviewing(v, "create Snapshot"); err != nil {
		return nil, err
	}

	if err := c.checkSnapshotsSettled(v, "create Snapshot"); err != nil {
		return nil, err
	}

	if v.Status == store.StatusImageLocked {
		return nil, wire.Conflict("Cannot create Snapshot: VM is locked. Please try again in a few minutes.")
	}

	active := *c.store.ActiveSnapshot(v)
	made := c.store.TakeSnapshot(v, store.SnapshotRegular, c.body.Value("description"))
	made.Memory, made.Status = v.IsRunning() && c.body.Value("persist_memorystate") != "false", store.StatusLocked
	c.store.Snapshots.Drop(active.ID)

	// it comes first until the end of the preview
	active.ID, active.Date, active.Order = store.NewID(), made.Date, 0
	c.store.Snapshots.Put(active.ID, &active)
	c.store.AppendSnapshot(made)
	c.recordJob("Creating VM Snapshot "+made.Description+" for VM "+v.Name, made.ID)
	c.recordEvent(
		45,
		"normal",
		"Snapshot '"+made.Description+"' creation for VM '"+v.Name+"' was initiated by "+c.user.Name+".",
		eventOf{
			vm: v.ID,
		},
	)
	c.scheduleSnapshot(made, store.StatusOK)

	out := wire.NewObject("snapshot", made.ID, "vms", v.ID, "snapshots", made.ID).Str("description", made.Description).
		Add(wire.El("initialization").Add(wire.El("configuration").Str("data", c.buildOVF(v)).Str("type", "ovf"))).
		Str("date", formatTime(made.Date)).Flag("persist_memorystate", made.Memory).Str("snapshot_status", made.Status).
		Str("snapshot_type", made.Kind).Add(wire.Ref("vm", "vms", v.ID))

	return c.answerCreated(out), nil
}

// scheduleSnapshot schedules the end of an operation on a snapshot, and locks the snapshot until then.
func (s *Engine) scheduleSnapshot(of *store.Snapshot, status string) {
	of.Status = store.StatusLocked
	of.Until = store.Transition{Status: status, At: s.now().Add(s.settings.Timings.Clone)}
	s.store.Snapshots.Put(of.ID, of)
	s.startSnapshotTimer(of)
}

func (s *Engine) startSnapshotTimer(of *store.Snapshot) {
	due := of.Until
	s.scheduleChange(due.At, func() {
		if s.store.Snapshots.Get(of.ID) != of || of.Until != due {
			return
		}

		if due.Status == StatusRemoved {
			s.store.Snapshots.Drop(of.ID)
		} else {
			of.Status, of.Until = due.Status, store.Transition{}
			s.store.Snapshots.Put(of.ID, of)
		}

		s.finishJobs(of.ID)
	})
}

// checkSnapshotsSettled rejects a command such as "run VM" while an operation on a snapshot of the VM runs.
func (s *Engine) checkSnapshotsSettled(v *store.VM, command string) error {
	for _, found := range s.store.SnapshotsOf(v.ID) {
		switch {
		case found.Status != store.StatusLocked:
		case found.Kind == store.SnapshotRegular && found.Until.Status == store.StatusOK:
			return wire.Conflict("Cannot %s. Snapshot is currently being created for VM %s.", command, v.Name)
		default:
			return wire.Conflict("Cannot %s. %s", command, store.SnapshotWaitText)
		}
	}

	return nil
}

func removeSnapshot(c *call) (*wire.Element, error) {
	v, found, err := c.findSnapshot()
	if err != nil {
		return nil, err
	}

	if err := c.checkNotPreviewing(v, "remove Snapshot"); err != nil {
		return nil, err
	}

	if err := c.checkSnapshotsSettled(v, "remove Snapshot"); err != nil {
		return nil, err
	}

	if found.Kind != store.SnapshotRegular {
		return nil, wire.Conflict("Cannot remove Snapshot. The operation is only allowed for regular snapshots.")
	}

	c.recordJob("Removing Snapshot "+found.Description+" of VM "+v.Name, found.ID)
	c.scheduleSnapshot(found, StatusRemoved)

	return c.answerComplete(), nil
}

// checkPreviewable returns an error if the VM cannot preview or restore a snapshot.
func (c *call) checkPreviewable(v *store.VM) error {
	const command = "preview Snapshot"

	switch {
	case v.IsRunning() || v.Status == store.StatusSuspended:
		return wire.Conflict("Cannot preview Snapshot. At least one of the VMs is not down.")
	case v.Status == store.StatusImageLocked:
		return wire.Conflict("Cannot preview Snapshot: VM is locked. Please try again in a few minutes.")
	}

	if err := c.checkSnapshotsSettled(v, command); err != nil {
		return err
	}

	return c.checkNotPreviewing(v, command)
}

// restoreSnapshot permanently returns a VM to a snapshot. The VM loses newer snapshots.
func restoreSnapshot(c *call) (*wire.Element, error) {
	v, found, err := c.findSnapshot()
	if err != nil {
		return nil, err
	}

	if err := c.checkPreviewable(v); err != nil {
		return nil, withAsync(err)
	}

	c.store.DropNewer(v, found)
	v.Hardware = found.Hardware.CopyOf()
	c.store.RestoreDisks(found, false)
	c.recordJob("Restoring VM "+v.Name+" to Snapshot "+found.Description, v.ID)
	c.lockForSnapshot(v)
	restored := wire.El("snapshot").
		SetAttr("href", wire.Href("vms", v.ID, "snapshots", found.ID)).
		SetAttr("id", found.ID).
		Add(wire.Ref("vm", "vms", v.ID))

	return c.answerComplete(wire.NewLeaf("async", "false"), restored), nil
}

// withAsync adds the element async to the refusal of an action.
func withAsync(err error) error {
	if refused, ok := err.(*wire.Refusal); ok { //nolint:errorlint // made just before
		refused.Beside = wire.NewLeaf("async", "false")
	}

	return err
}

func previewSnapshot(c *call) (*wire.Element, error) {
	if wire.RefID(c.body.Get("snapshot")) == "" {
		return nil, invalidInput("Parameter 'snapshot.id' is mandatory but was not provided.")
	}

	v, err := c.findVMForAction("preview Snapshot")
	if err != nil {
		return nil, err
	}

	if err := c.checkPreviewable(v); err != nil {
		return nil, err
	}

	id := wire.RefID(c.body.Get("snapshot"))
	found := c.store.Snapshots.Get(id)
	if found == nil || found.VM != v.ID {
		return nil, wire.Invalid("Cannot preview Snapshot. VM's Snapshot does not exist.")
	}

	// Undoing the preview returns to the present active state.
	was := c.store.TakeSnapshot(v, store.SnapshotPreview, store.BeforePreview)
	was.ID = c.store.ActiveSnapshot(v).ID
	c.store.Snapshots.Drop(was.ID)
	c.store.AppendSnapshot(was)
	now := store.NewActive(v)
	c.store.Snapshots.Put(now.ID, now)
	v.Hardware = found.Hardware.CopyOf()
	c.store.RestoreDisks(found, false)
	found.Previews = true
	c.recordJob("Previewing Snapshot "+found.Description+" of VM "+v.Name, v.ID)
	c.lockForSnapshot(v)

	return c.answerPending(), nil
}

// showPreview ends an operation that previews or restores a snapshot of a VM. It returns false for a VM without
// snapshots, because such a VM is locked for another reason.
func (s *Engine) showPreview(v *store.VM) bool {
	all := s.store.SnapshotsOf(v.ID)
	for _, found := range all {
		if found.Previews {
			found.Previews, found.Status = false, store.StatusInPreview
			s.store.Snapshots.Put(found.ID, found)
		}
	}

	if len(all) == 0 {
		return false
	}

	s.setStableStatus(v, store.StatusDown)
	s.finishJobs(v.ID)

	return true
}

// answerPending returns the response to an action that is still in progress.
func (c *call) answerPending() *wire.Element {
	c.status = http.StatusAccepted
	out := wire.El("action").SetAttr("id", store.NewID()).Str("async", "true").Add(wire.Ref("job", "jobs", c.job))
	if c.body != nil {
		out.Add(c.body.Kids...)
	}

	return out.Str("status", "pending")
}

func (c *call) endPreview() (v *store.VM, shown, before *store.Snapshot, err error) {
	if v, err = c.findVMForAction("revert to Snapshot"); err != nil {
		return nil, nil, nil, err
	}

	if shown, before = c.store.PreviewSnapshots(v); shown == nil || before == nil {
		return nil, nil, nil, wire.Invalid("Cannot revert to Snapshot. VM's Snapshot does not exist.")
	}

	if v.Status != store.StatusDown {
		return nil, nil, nil, wire.Conflict("Cannot revert to Snapshot. At least one of the VMs is not down.")
	}

	shown.Status = store.StatusOK
	c.store.Snapshots.Put(shown.ID, shown)
	c.store.Snapshots.Drop(c.store.ActiveSnapshot(v).ID)

	return v, shown, before, nil
}

// undoSnapshot returns a VM to its state before the preview. The VM looks settled at once, but its active snapshot
// stays locked for a while.
func undoSnapshot(c *call) (*wire.Element, error) {
	v, _, before, err := c.endPreview()
	if err != nil {
		return nil, err
	}

	v.Hardware = before.Hardware.CopyOf()
	c.store.VMs.Put(v.ID, v)
	c.store.RestoreDisks(before, true)
	before.Kind, before.Description = store.SnapshotActive, store.ActiveText
	c.recordJob("Undoing the preview of VM "+v.Name, before.ID)
	c.scheduleSnapshot(before, store.StatusOK)

	return c.answerPending(), nil
}

// commitSnapshot makes the previewed state permanent. The VM loses newer snapshots.
func commitSnapshot(c *call) (*wire.Element, error) {
	v, shown, before, err := c.endPreview()
	if err != nil {
		return nil, err
	}

	c.store.DropNewer(v, shown)
	c.store.Snapshots.Drop(before.ID)
	c.store.AppendSnapshot(store.NewActive(v))
	c.recordJob("Committing the preview of VM "+v.Name, v.ID)
	c.lockForSnapshot(v)

	return c.answerPending(), nil
}

// addVMOfSnapshot creates a VM from a snapshot of another VM.
func (c *call) addVMOfSnapshot() (*wire.Element, error) {
	in := c.body
	if err := requireElements(in, "Vm", "name"); err != nil {
		return nil, err
	}

	home, err := c.clusterOf(in.Get("cluster"))
	if err != nil {
		return nil, err
	}

	asked := in.List("snapshots", "snapshot")
	if len(asked) == 0 {
		return nil, requireElements(in, "Vm", "snapshots.snapshot")
	}

	found := c.store.Snapshots.Get(wire.RefID(asked[0]))
	if found == nil {
		return nil, noSnapshot(wire.RefID(asked[0]))
	}

	v := c.store.VMs.Get(found.VM)
	if err := c.checkSnapshotsSettled(v, "add VM"); err != nil {
		return nil, err
	}

	then := &store.Template{
		Hardware:       found.Hardware.CopyOf(),
		ID:             v.ID,
		Cluster:        v.Cluster,
		Kubernetes:     v.Kubernetes,
		Ignition:       v.Ignition,
		Image:          v.Image,
		Consoles:       v.Consoles,
		Initialization: v.Initialization,
	}

	return c.makeVM(then, home, true, true)
}

func listSnapshotDisks(c *call) (*wire.Element, error) {
	_, found, err := c.findSnapshot()
	if err != nil {
		return nil, err
	}

	out := wire.El("disks")

	for _, was := range found.Disks {
		d := c.store.Disks.Get(was.Disk)
		if d == nil {
			continue
		}

		one := wire.El("disk").SetAttr("id", d.ID).Str("name", d.Name).Str("description", d.Description).
			Num("actual_size", d.Actual).Str("alias", d.Name).
			Str("backup", cmp.Or(d.Backup, "none")).Str("content_type", d.ContentType).Str("format", d.Format).
			Str("image_id", c.store.IDOf("", "image", d.ID, found.ID)).
			Flag("propagate_errors", false).Num("provisioned_size", was.Provisioned).Flag("shareable", d.Shareable).
			Flag("sparse", d.Sparse).Str("status", store.StatusOK).
			Str("storage_type", "image").Num("total_size", 0).Flag("wipe_after_delete", d.WipeAfterDelete).
			Add(wire.El("snapshot").SetAttr("id", found.ID))
		one.Add(wire.El("storage_domains").AddItems(wire.El("storage_domain").SetAttr("id", d.Domain)))
		out.AddItems(one)
	}

	return out, nil
}

// requireSnapshot wraps a list that requires an existing snapshot.
func requireSnapshot(list operation) operation {
	return func(c *call) (*wire.Element, error) {
		if _, _, err := c.findSnapshot(); err != nil {
			return nil, err
		}

		return list(c)
	}
}
