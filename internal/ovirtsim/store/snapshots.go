package store

import (
	"fmt"
	"slices"
	"time"
)

// Active is the snapshot that is the VM as it is. It is stored when there are others.
func (s *Store) Active(v *VM) *Snapshot {
	for _, found := range s.SnapshotsOf(v.ID) {
		if found.Kind == SnapshotActive {
			return found
		}
	}

	return activeSnapshot(v, s.IDOf("", "snapshot", v.ID), v.Created)
}

// NewActive is a new snapshot that is the VM as it is, for the place of one that was dropped.
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

// SnapshotsOf lists the snapshots of a VM, the oldest first.
func (s *Store) SnapshotsOf(vmID string) []*Snapshot {
	return s.snapshotsByVM.where(vmID, func(found *Snapshot) string { return fmt.Sprintf("%020d", found.Order) })
}

// Preview is the snapshot that a VM shows for a while instead of itself, and what the VM was before; nil where it shows
// none.
func (s *Store) Preview(v *VM) (shown, before *Snapshot) {
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

// Keep stores a snapshot behind the others.
func (s *Store) Keep(made *Snapshot) {
	made.Order = s.Next("snapshots")
	s.Snapshots.Put(made.ID, made)
}

// Take is a snapshot of a VM and its disks.
func (s *Store) Take(v *VM, kind, description string) *Snapshot {
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

// RestoreDisks gives the disks of a VM the sizes that they had. profiled reports that they have their disk profile
// again, which those of a snapshot have not.
func (s *Store) RestoreDisks(from *Snapshot, profiled bool) {
	for _, was := range from.Disks {
		if d := s.Disks.Get(was.Disk); d != nil {
			d.Provisioned, d.NoProfile = was.Provisioned, !profiled
			s.Disks.Put(d.ID, d)
		}
	}
}

// InSnapshot reports whether a disk is part of a snapshot beside the active one.
func (s *Store) InSnapshot(vmID, diskID string) bool {
	return slices.ContainsFunc(s.SnapshotsOf(vmID), func(found *Snapshot) bool {
		return found.Kind != SnapshotActive &&
			slices.ContainsFunc(found.Disks, func(d snapshotDisk) bool { return d.Disk == diskID })
	})
}

// DropNewer forgets the snapshots that were made after one.
func (s *Store) DropNewer(v *VM, than *Snapshot) {
	for _, other := range s.SnapshotsOf(v.ID) {
		if other.Kind == SnapshotRegular && other.Order > than.Order {
			s.Snapshots.Drop(other.ID)
		}
	}
}
