package engine

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
)

// Snapshot of a VM. Every VM has one of type "active", which is the VM as it is.
type Snapshot struct {
	ID          ID     `xml:"id,attr"`
	Description string `xml:"description"`
	// Type is "regular" for one that a user made.
	Type string `xml:"snapshot_type"`
	// Status is ok, locked or in_preview.
	Status string `xml:"snapshot_status"`
}

// Snapshots lists the snapshots of a VM that users made.
func (c *Client) Snapshots(ctx context.Context, vmID ID) ([]Snapshot, error) {
	var list struct {
		XMLName xml.Name   `xml:"snapshots"`
		Items   []Snapshot `xml:"snapshot"`
	}
	if err := c.get(ctx, vmPath(vmID)+"/snapshots", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the snapshots of VM %s: %w", vmID, err)
	}

	var out []Snapshot

	for _, snapshot := range list.Items {
		if snapshot.Type == "regular" {
			out = append(out, snapshot)
		}
	}

	return out, nil
}

// RemoveSnapshots removes the snapshots of a VM that users made, one after the other, and waits. The VM must be
// down: the disks of one that runs are merged by its host, which takes as long as there is to copy.
func (c *Client) RemoveSnapshots(ctx context.Context, vmID ID, report func(seen string)) error {
	var asked ID

	return Wait(ctx, "the snapshots of VM "+vmID.String()+" to go", func(ctx context.Context) (bool, string, error) {
		left, err := c.Snapshots(ctx, vmID)
		if err != nil || len(left) == 0 {
			return err == nil, "", err
		}

		first := left[0]
		if first.ID == asked {
			return false, first.Description + " is " + first.Status, nil
		}

		err = c.do(ctx, http.MethodDelete, vmPath(vmID)+"/snapshots/"+first.ID.segment(), nil, nil, nil)
		if err != nil && !IsNotFound(err) {
			return false, "", fmt.Errorf("failed to remove snapshot %q of VM %s: %w", first.Description, vmID, err)
		}

		asked = first.ID

		return false, first.Description + " is removed", nil
	}, report)
}
