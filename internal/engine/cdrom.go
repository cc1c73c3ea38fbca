package engine

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// CDROM is the CD drive of a VM.
type CDROM struct {
	XMLName xml.Name   `xml:"cdrom"`
	ID      ID         `xml:"id,attr,omitempty"`
	File    *CDROMFile `xml:"file"`
}

// CDROMFile is the image in a drive, identified by the UUID of an ISO disk. An empty ID in a request ejects the image.
type CDROMFile struct {
	ID ID `xml:"id,attr"`
}

// ImageID returns the image in the drive, or "".
func (d *CDROM) ImageID() ID {
	if d.File == nil {
		return ""
	}

	return d.File.ID
}

// FetchCDROM returns the drive of a VM, with the image the drive has after the VM's next start. A VM has one drive.
func (c *Client) FetchCDROM(ctx context.Context, vmID ID) (*CDROM, error) {
	var list struct {
		XMLName xml.Name `xml:"cdroms"`
		Items   []CDROM  `xml:"cdrom"`
	}
	if err := c.fetchInto(ctx, vmPath(vmID)+"/cdroms", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the CD-ROM drives of VM %s: %w", vmID, err)
	}

	if len(list.Items) == 0 {
		return nil, fmt.Errorf("VM %s: %w", vmID, errNoDrive)
	}

	return &list.Items[0], nil
}

var errNoDrive = errors.New("the VM has no CD-ROM drive")

// ChangeCDROM inserts an image into the drive of a VM, or ejects it. The change takes effect at the next start, or with
// atOnce immediately in the running VM. Recordings have refusals by an engine, but no successful change.
func (c *Client) ChangeCDROM(ctx context.Context, vmID, drive, image ID, atOnce bool) error {
	query := url.Values{}
	if atOnce {
		query.Set("current", "true")
	}

	path := vmPath(vmID) + "/cdroms/" + drive.pathSegment()
	if err := c.callEngine(ctx, http.MethodPut, path, query, &CDROM{File: &CDROMFile{ID: image}}, nil); err != nil {
		return fmt.Errorf("failed to change the CD-ROM of VM %s: %w", vmID, err)
	}

	return nil
}
