package store

import (
	"fmt"
	"slices"
	"time"
)

// ActiveSnapshot returns the snapshot with the VM's present state. The store contains it only if the VM has other
// snapshots.
func (s *Store) ActiveSnapshot(v *VM) *Snapshot {
	for _, found := range s.SnapshotsOf(v.ID) {
		if found.Kind == SnapshotActive {
			return found
		}
	}

	return activeSnapshot(v, s.IDOf("", "snapshot", v.ID), v.Created)
}

// NewActive returns a new active snapshot that replaces a dropped one.
func NewActive(v *VM) *Snapshot { return activeSnapshot(v, NewID(), time.Now()) }

func activeSnapshot(v *VM, id string, date time.Time) *Snapshot {
	return &Snapshot{
		ID:          id,
		VM:          v.ID,
		Description: ActiveText,
		Kind:        SnapshotActive,
		Status:      StatusOK,
		Date:        date,
	}
}

// SnapshotsOf returns the snapshots of a VM, the oldest first.
func (s *Store) SnapshotsOf(vmID string) []*Snapshot {
	return s.snapshotsByVM.findRows(vmID, func(found *Snapshot) string { return fmt.Sprintf("%020d", found.Order) })
}

// PreviewSnapshots returns the snapshot that a VM previews, and the VM's state before the preview. Both are nil if
// there is no preview.
func (s *Store) PreviewSnapshots(v *VM) (shown, before *Snapshot) {
	for _, found := range s.SnapshotsOf(v.ID) {
		if found.Kind == SnapshotPreview {
			before = found
		}

		if found.Status == StatusInPreview {
			shown = found
		}
	}

	return shown, before
}

// AppendSnapshot stores a snapshot as the last one of its VM.
func (s *Store) AppendSnapshot(made *Snapshot) {
	made.Order = s.NextNumber("snapshots")
	s.Snapshots.Put(made.ID, made)
}

// TakeSnapshot returns a snapshot of a VM and its disks.
func (s *Store) TakeSnapshot(v *VM, kind, description string) *Snapshot {
	made := &Snapshot{
		ID:          NewID(),
		VM:          v.ID,
		Description: description,
		Kind:        kind,
		Status:      StatusOK,
		Date:        time.Now(),
		Hardware:    v.CopyOf(),
	}
	for _, a := range s.AttachmentsOf(v.ID) {
		if d := s.Disks.Get(a.Disk); d != nil {
			made.Disks = append(made.Disks, snapshotDisk{Disk: d.ID, Provisioned: d.Provisioned})
		}
	}

	return made
}

// RestoreDisks restores the sizes of a VM's disks from a snapshot. With profiled, the disks have their disk profile
// again, because disks of a snapshot have none.
func (s *Store) RestoreDisks(from *Snapshot, profiled bool) {
	for _, was := range from.Disks {
		if d := s.Disks.Get(was.Disk); d != nil {
			d.Provisioned, d.NoProfile = was.Provisioned, !profiled
			s.Disks.Put(d.ID, d)
		}
	}
}

// IsInSnapshot reports whether a disk is part of a snapshot, except the active one.
func (s *Store) IsInSnapshot(vmID, diskID string) bool {
	return slices.ContainsFunc(s.SnapshotsOf(vmID), func(found *Snapshot) bool {
		return found.Kind != SnapshotActive &&
			slices.ContainsFunc(found.Disks, func(d snapshotDisk) bool { return d.Disk == diskID })
	})
}

// DropNewer drops the snapshots newer than the given one.
func (s *Store) DropNewer(v *VM, than *Snapshot) {
	for _, other := range s.SnapshotsOf(v.ID) {
		if other.Kind == SnapshotRegular && other.Order > than.Order {
			s.Snapshots.Drop(other.ID)
		}
	}
}
