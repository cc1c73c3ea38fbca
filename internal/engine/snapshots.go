package engine

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
)

// Snapshot is a snapshot of a VM. Every VM has one of type "active" for its current state.
type Snapshot struct {
	XMLName     xml.Name `xml:"snapshot"`
	ID          ID       `xml:"id,attr,omitempty"`
	Description string   `xml:"description"`
	// Date is the time of creation. Requests do not have it.
	Date string `xml:"date,omitempty"`
	// Memory reports whether the snapshot includes the memory of a running VM.
	Memory *bool `xml:"persist_memorystate"`
	// Type is SnapshotRegular if a user made it.
	Type string `xml:"snapshot_type,omitempty"`
	// Status is SnapshotOK, locked or in_preview.
	Status string `xml:"snapshot_status,omitempty"`
}

// The type and statuses of a snapshot made by a user.
const (
	SnapshotRegular = "regular"
	SnapshotOK      = "ok"
	SnapshotLocked  = "locked"
)

func snapshotPath(vmID, id ID) string { return vmPath(vmID) + "/snapshots/" + id.pathSegment() }

// FetchSnapshot returns a snapshot of a VM. A missing snapshot is an IsNotFound error.
func (c *Client) FetchSnapshot(ctx context.Context, vmID, id ID) (*Snapshot, error) {
	var snapshot Snapshot
	if err := c.fetchInto(ctx, snapshotPath(vmID, id), nil, &snapshot); err != nil {
		return nil, fmt.Errorf("failed to get snapshot %s of VM %s: %w", id, vmID, err)
	}

	return &snapshot, nil
}

// CreateSnapshot starts a snapshot of a VM. It does not wait.
func (c *Client) CreateSnapshot(ctx context.Context, vmID ID, description string, memory bool) (*Snapshot, error) {
	wanted := Snapshot{Description: description, Memory: &memory}

	var made Snapshot
	if err := c.callEngine(ctx, http.MethodPost, vmPath(vmID)+"/snapshots", nil, &wanted, &made); err != nil {
		return nil, fmt.Errorf("failed to make snapshot %q of VM %s: %w", description, vmID, err)
	}

	return &made, nil
}

// CreateSnapshotOnce creates a snapshot of a VM, and looks for it if the answer is lost. It does not wait for the end
// of the operation.
func (c *Client) CreateSnapshotOnce(
	ctx context.Context, vmID ID, description string, memory bool, report func(seen string),
) (*Snapshot, error) {
	before, err := c.ListSnapshots(ctx, vmID)
	if err != nil {
		return nil, err
	}

	known := make([]ID, 0, len(before))
	for i := range before {
		known = append(known, before[i].ID)
	}

	made, err := CreateOnce(ctx, "snapshot "+description, report,
		func(ctx context.Context) (*Snapshot, error) { return c.CreateSnapshot(ctx, vmID, description, memory) },
		func(ctx context.Context) (*Snapshot, error) {
			now, err := c.ListSnapshots(ctx, vmID)
			for i := range now {
				if !slices.Contains(known, now[i].ID) && now[i].Description == description {
					return &now[i], nil
				}
			}

			return nil, err
		})

	return made, AddKnownIDs(err, known)
}

// DeleteSnapshot starts the removal of a snapshot. It does not wait.
func (c *Client) DeleteSnapshot(ctx context.Context, vmID, id ID) error {
	if err := c.callEngine(ctx, http.MethodDelete, snapshotPath(vmID, id), nil, nil, nil); err != nil {
		return fmt.Errorf("failed to remove snapshot %s of VM %s: %w", id, vmID, err)
	}

	return nil
}

// ListSnapshots lists the snapshots of a VM that users made.
func (c *Client) ListSnapshots(ctx context.Context, vmID ID) ([]Snapshot, error) {
	var list struct {
		XMLName xml.Name   `xml:"snapshots"`
		Items   []Snapshot `xml:"snapshot"`
	}
	if err := c.fetchInto(ctx, vmPath(vmID)+"/snapshots", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the snapshots of VM %s: %w", vmID, err)
	}

	var out []Snapshot

	for _, snapshot := range list.Items {
		if snapshot.Type == SnapshotRegular {
			out = append(out, snapshot)
		}
	}

	return out, nil
}

// RemoveSnapshots removes the users' snapshots of a VM one by one, and waits. The VM must be down, because the host of
// a running VM merges the disks, and this takes as long as copying the data.
func (c *Client) RemoveSnapshots(ctx context.Context, vmID ID, report func(seen string)) error {
	var asked ID

	return Wait(ctx, "the snapshots of VM "+vmID.String()+" to go", func(ctx context.Context) (bool, string, error) {
		left, err := c.ListSnapshots(ctx, vmID)
		if err != nil || len(left) == 0 {
			return err == nil, "", err
		}

		first := left[0]
		if first.ID == asked {
			return false, first.Description + " is " + first.Status, nil
		}

		if err = c.DeleteSnapshot(ctx, vmID, first.ID); err != nil && !IsNotFound(err) {
			return false, "", fmt.Errorf("snapshot %q: %w", first.Description, err)
		}

		asked = first.ID

		return false, first.Description + " is removed", nil
	}, report)
}
