package engine

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// CDROM is the drive of a VM.
type CDROM struct {
	XMLName xml.Name   `xml:"cdrom"`
	ID      ID         `xml:"id,attr,omitempty"`
	File    *CDROMFile `xml:"file"`
}

// CDROMFile is the image in a drive, the UUID of an ISO disk. A request with an empty one takes the image out.
type CDROMFile struct {
	ID ID `xml:"id,attr"`
}

// Image is what is in the drive; empty if nothing is.
func (d *CDROM) Image() ID {
	if d.File == nil {
		return ""
	}

	return d.File.ID
}

// CDROMOf returns the drive of a VM, with the image that its next start has. A VM has one drive.
func (c *Client) CDROMOf(ctx context.Context, vmID ID) (*CDROM, error) {
	var list struct {
		XMLName xml.Name `xml:"cdroms"`
		Items   []CDROM  `xml:"cdrom"`
	}
	if err := c.get(ctx, vmPath(vmID)+"/cdroms", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the CD-ROM drives of VM %s: %w", vmID, err)
	}

	if len(list.Items) == 0 {
		return nil, fmt.Errorf("VM %s: %w", vmID, errNoDrive)
	}

	return &list.Items[0], nil
}

var errNoDrive = errors.New("the VM has no CD-ROM drive")

// ChangeCDROM puts an image into the drive of a VM, or takes it out: for its next start, or at once in a VM that runs.
// The answer to a change that an engine makes is in no recording; its refusals are.
func (c *Client) ChangeCDROM(ctx context.Context, vmID, drive, image ID, atOnce bool) error {
	query := url.Values{}
	if atOnce {
		query.Set("current", "true")
	}

	path := vmPath(vmID) + "/cdroms/" + drive.segment()
	if err := c.do(ctx, http.MethodPut, path, query, &CDROM{File: &CDROMFile{ID: image}}, nil); err != nil {
		return fmt.Errorf("failed to change the CD-ROM of VM %s: %w", vmID, err)
	}

	return nil
}
