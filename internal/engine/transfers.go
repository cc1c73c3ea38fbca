package engine

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
)

// TransferPhase is the phase of an image transfer.
type TransferPhase string

// These are the phases that decisions depend on. The engine has more.
const (
	TransferInitializing     TransferPhase = "initializing"
	TransferTransferring     TransferPhase = "transferring"
	TransferPausedSystem     TransferPhase = "paused_system"
	TransferPausedUser       TransferPhase = "paused_user"
	TransferFinishedSuccess  TransferPhase = "finished_success"
	TransferFinishedFailure  TransferPhase = "finished_failure"
	TransferFinishedCleanup  TransferPhase = "finished_cleanup"
	TransferCancelled        TransferPhase = "cancelled"
	TransferCancelledSystem  TransferPhase = "cancelled_system"
	TransferCancelledUser    TransferPhase = "cancelled_user"
	TransferFinalizingFailed TransferPhase = "finalizing_failure"
)

// HasFailed reports whether the transfer has failed for good.
func (p TransferPhase) HasFailed() bool {
	switch p {
	case TransferFinishedFailure,
		TransferFinishedCleanup,
		TransferCancelled,
		TransferCancelledSystem,
		TransferCancelledUser,
		TransferFinalizingFailed:
		return true
	}

	return false
}

// HasEnded reports whether the engine has released the disk. A failed transfer passes through finished_cleanup before.
func (p TransferPhase) HasEnded() bool {
	return p == TransferFinishedSuccess || p == TransferFinishedFailure
}

// ImageTransfer moves the data of a disk.
type ImageTransfer struct {
	XMLName           xml.Name      `xml:"image_transfer"`
	ID                ID            `xml:"id,attr,omitempty"`
	Direction         string        `xml:"direction,omitempty"`
	Format            string        `xml:"format,omitempty"`
	Image             *Ref          `xml:"image"`
	InactivityTimeout int           `xml:"inactivity_timeout,omitempty"` // seconds
	TimeoutPolicy     string        `xml:"timeout_policy,omitempty"`
	Phase             TransferPhase `xml:"phase,omitempty"`
	TransferURL       string        `xml:"transfer_url,omitempty"`
	ProxyURL          string        `xml:"proxy_url,omitempty"`
	Transferred       int64         `xml:"transferred,omitempty"` // bytes received, as far as the engine knows
	Disk              *Ref          `xml:"disk"`
}

func transferPath(id ID) string { return "/imagetransfers/" + id.pathSegment() }

// CreateTransfer creates a transfer. It does not wait until the transfer accepts data.
func (c *Client) CreateTransfer(ctx context.Context, transfer *ImageTransfer) (*ImageTransfer, error) {
	var created ImageTransfer
	if err := c.callEngine(ctx, http.MethodPost, "/imagetransfers", nil, transfer, &created); err != nil {
		return nil, fmt.Errorf("failed to begin the transfer to disk %s: %w", RefID(transfer.Image), err)
	}

	return &created, nil
}

// FetchTransfer returns the transfer with this ID. The engine forgets ended transfers, so they are IsNotFound errors.
func (c *Client) FetchTransfer(ctx context.Context, id ID) (*ImageTransfer, error) {
	var transfer ImageTransfer
	if err := c.fetchInto(ctx, transferPath(id), nil, &transfer); err != nil {
		return nil, fmt.Errorf("failed to get transfer %s: %w", id, err)
	}

	return &transfer, nil
}

// FindTransfer returns the current transfer of a disk, or nil.
func (c *Client) FindTransfer(ctx context.Context, diskID ID) (*ImageTransfer, error) {
	var list struct {
		XMLName xml.Name        `xml:"image_transfers"`
		Items   []ImageTransfer `xml:"image_transfer"`
	}
	if err := c.fetchInto(ctx, "/imagetransfers", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to look up the transfer of disk %s: %w", diskID, err)
	}

	for i := range list.Items {
		t := &list.Items[i]
		if (RefID(t.Disk) == diskID || RefID(t.Image) == diskID) && !t.Phase.HasFailed() &&
			t.Phase != TransferFinishedSuccess {
			return t, nil
		}
	}

	return nil, nil
}

// ResumeTransfer resumes a paused transfer. It does not wait.
func (c *Client) ResumeTransfer(ctx context.Context, id ID) error {
	return c.changeTransfer(ctx, id, "resume")
}

// FinalizeTransfer tells the engine that all data was sent. It does not wait.
func (c *Client) FinalizeTransfer(ctx context.Context, id ID) error {
	return c.changeTransfer(ctx, id, "finalize")
}

// CancelTransfer tells the engine that no more data will come. It does not wait.
func (c *Client) CancelTransfer(ctx context.Context, id ID) error {
	return c.changeTransfer(ctx, id, "cancel")
}

func (c *Client) changeTransfer(ctx context.Context, id ID, verb string) error {
	if err := c.callEngine(ctx, http.MethodPost, transferPath(id)+"/"+verb, nil, action{}, nil); err != nil {
		return fmt.Errorf("failed to %s transfer %s: %w", verb, id, err)
	}

	return nil
}
