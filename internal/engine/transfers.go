package engine

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// DefaultChunk is how much of an image is sent in one request: what has to be sent again after a broken connection.
	DefaultChunk = 8 << 20
	// chunkTimeout bounds one chunk: 8 MiB over a line of 1 Mbit/s, and the flush of all chunks before the last one.
	chunkTimeout = 5 * time.Minute
	// chunkTries is how often a chunk is sent before the upload is given up.
	chunkTries = 5
	// transferIdle is after how many seconds without a request the engine may end a transfer: its end is no client of
	// ours that pauses between tries, but one that died.
	transferIdle = 120
	// cleanupLimit bounds what is done after a failed upload.
	cleanupLimit = 2 * time.Minute
)

// TransferPhase is where an image transfer stands.
type TransferPhase string

// The phases that decisions depend on; the engine has more.
const (
	TransferInitializing     TransferPhase = "initializing"
	TransferTransferring     TransferPhase = "transferring"
	TransferFinishedSuccess  TransferPhase = "finished_success"
	TransferFinishedFailure  TransferPhase = "finished_failure"
	TransferFinishedCleanup  TransferPhase = "finished_cleanup"
	TransferCancelled        TransferPhase = "cancelled"
	TransferCancelledSystem  TransferPhase = "cancelled_system"
	TransferCancelledUser    TransferPhase = "cancelled_user"
	TransferFinalizingFailed TransferPhase = "finalizing_failure"
)

// Failed says that nothing more will come of the transfer.
func (p TransferPhase) Failed() bool {
	switch p {
	case TransferFinishedFailure, TransferFinishedCleanup, TransferCancelled, TransferCancelledSystem, TransferCancelledUser, TransferFinalizingFailed:
		return true
	}
	return false
}

// ImageTransfer moves the data of a disk.
type ImageTransfer struct {
	XMLName           xml.Name      `xml:"image_transfer"`
	ID                string        `xml:"id,attr,omitempty"`
	Direction         string        `xml:"direction,omitempty"`
	Format            string        `xml:"format,omitempty"`
	Image             *Ref          `xml:"image"`
	InactivityTimeout int           `xml:"inactivity_timeout,omitempty"` // seconds
	TimeoutPolicy     string        `xml:"timeout_policy,omitempty"`
	Phase             TransferPhase `xml:"phase,omitempty"`
	TransferURL       string        `xml:"transfer_url,omitempty"`
	ProxyURL          string        `xml:"proxy_url,omitempty"`
}

func transferPath(id string) string { return "/imagetransfers/" + url.PathEscape(id) }

// CreateTransfer asks for a transfer. It does not wait until data can be sent.
func (c *Client) CreateTransfer(ctx context.Context, transfer *ImageTransfer) (*ImageTransfer, error) {
	var created ImageTransfer
	if err := c.do(ctx, http.MethodPost, "/imagetransfers", nil, transfer, &created); err != nil {
		return nil, fmt.Errorf("failed to begin the transfer to disk %s: %w", RefID(transfer.Image), err)
	}
	return &created, nil
}

// Transfer returns the transfer of that ID. The engine forgets transfers that ended: IsNotFound.
func (c *Client) Transfer(ctx context.Context, id string) (*ImageTransfer, error) {
	var transfer ImageTransfer
	if err := c.get(ctx, transferPath(id), nil, &transfer); err != nil {
		return nil, fmt.Errorf("failed to get transfer %s: %w", id, err)
	}
	return &transfer, nil
}

// FinalizeTransfer says that all data was sent. It does not wait.
func (c *Client) FinalizeTransfer(ctx context.Context, id string) error {
	return c.endTransfer(ctx, id, "finalize")
}

// CancelTransfer says that no more data will be sent. It does not wait.
func (c *Client) CancelTransfer(ctx context.Context, id string) error {
	return c.endTransfer(ctx, id, "cancel")
}

func (c *Client) endTransfer(ctx context.Context, id, verb string) error {
	if err := c.do(ctx, http.MethodPost, transferPath(id)+"/"+verb, nil, action{}, nil); err != nil {
		return fmt.Errorf("failed to %s transfer %s: %w", verb, id, err)
	}
	return nil
}

// UploadOptions say what to upload, and where to.
type UploadOptions struct {
	// Image is the file, and Size its length in bytes. It is read once from begin to end, and a part of it again where
	// the connection broke.
	Image io.ReaderAt
	Size  int64
	// StorageDomainID is where the new disk is made.
	StorageDomainID string
	// Alias of the new disk; may be empty.
	Alias string
	// Format of the new disk, FormatRaw or FormatCow; empty means that of the image. A qcow2 image cannot become a raw
	// disk.
	Format string
	// Sparse is whether the disk takes space as it is written; nil leaves it to the engine.
	Sparse *bool
	// ChunkBytes is how much is sent in one request; 0 means DefaultChunk.
	ChunkBytes int64
	// Report is called when something new is seen that is waited for; may be nil.
	Report func(seen string)
}

// UploadImage makes a disk of an image file and returns it when it can be used. progress is called with the number of
// bytes sent and to send, once before the first and after each chunk; it may be nil. Where the upload fails, or ctx
// ends, the transfer is cancelled and the disk deleted; what could not be cleaned up is part of the error.
func (c *Client) UploadImage(ctx context.Context, options UploadOptions, progress func(sent, total int64)) (*Disk, error) {
	image, err := ReadImage(options.Image, options.Size)
	if err != nil {
		return nil, err
	}
	if options.Format == "" {
		options.Format = image.Format
	}
	if image.Format == FormatCow && options.Format == FormatRaw {
		return nil, errors.New("a qcow2 image cannot become a raw disk: ask for format cow, or convert the image with qemu-img")
	}
	if options.ChunkBytes <= 0 {
		options.ChunkBytes = DefaultChunk
	}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	wanted := &Disk{
		Format: options.Format, Sparse: options.Sparse, ProvisionedSize: image.VirtualSize, InitialSize: image.FileSize,
		StorageDomains: &StorageDomains{Items: []Ref{{ID: options.StorageDomainID}}},
	}
	if options.Alias != "" {
		wanted.Alias = &options.Alias
	}
	disk, err := c.CreateDiskOnce(ctx, "", wanted, options.Report)
	if err != nil {
		return nil, err
	}
	upload := &upload{Client: c, options: options, image: image, disk: disk.ID, progress: progress}
	if err := upload.run(ctx); err != nil {
		// The caller's context may have ended, which is one reason to be here.
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("failed to upload the image: %w", err), upload.undo(cleanup))
	}
	return c.Disk(ctx, disk.ID)
}

// upload is one upload that has its disk.
type upload struct {
	*Client
	options  UploadOptions
	image    Image
	disk     string
	transfer string // "" until the transfer exists
	progress func(sent, total int64)
}

func (u *upload) run(ctx context.Context) error {
	if err := u.WaitDisk(ctx, u.disk, u.options.Report); err != nil {
		return err
	}
	transfer, err := u.CreateTransfer(context.WithoutCancel(ctx), &ImageTransfer{
		Direction: "upload", Format: u.image.Format, Image: NewRef(u.disk), InactivityTimeout: transferIdle, TimeoutPolicy: "cancel",
	})
	if err != nil {
		return err
	}
	u.transfer = transfer.ID
	err = u.waitTransfer(ctx, "to accept data", func(seen *ImageTransfer) (bool, error) {
		if seen == nil || seen.Phase.Failed() {
			return false, u.failure(seen)
		}
		transfer = seen
		return seen.Phase == TransferTransferring, nil
	})
	if err != nil {
		return err
	}
	target, err := u.endpoint(ctx, transfer)
	if err != nil {
		return err
	}
	if err := u.send(ctx, target); err != nil {
		return err
	}
	if err := u.FinalizeTransfer(ctx, u.transfer); err != nil {
		return err
	}
	err = u.waitTransfer(ctx, "to finish", func(seen *ImageTransfer) (bool, error) {
		if seen != nil && seen.Phase.Failed() {
			return false, u.failure(seen)
		}
		return seen == nil || seen.Phase == TransferFinishedSuccess, nil
	})
	if err != nil {
		return err
	}
	return u.WaitDisk(ctx, u.disk, u.options.Report)
}

func (u *upload) failure(seen *ImageTransfer) error {
	if seen == nil {
		return fmt.Errorf("the engine has given up transfer %s", u.transfer)
	}
	return fmt.Errorf("the engine has given up transfer %s: its phase is %s", u.transfer, seen.Phase)
}

// waitTransfer waits for the transfer; it hands nil to done where the engine has forgotten it.
func (u *upload) waitTransfer(ctx context.Context, what string, done func(*ImageTransfer) (bool, error)) error {
	return Wait(ctx, "transfer "+u.transfer+" "+what, func(ctx context.Context) (bool, string, error) {
		seen, err := u.Transfer(ctx, u.transfer)
		if IsNotFound(err) {
			ok, err := done(nil)
			return ok, "", err
		} else if err != nil {
			return false, "", err
		}
		ok, err := done(seen)
		return ok, string(seen.Phase), err
	}, u.options.Report)
}

// endpoint picks the host's own address where it can be reached from here, else the proxy on the engine.
func (u *upload) endpoint(ctx context.Context, transfer *ImageTransfer) (string, error) {
	var problems []error
	for _, target := range []string{transfer.TransferURL, transfer.ProxyURL} {
		if target == "" {
			continue
		}
		err := u.data(ctx, http.MethodOptions, target, nil, nil)
		var refused *Fault
		if err == nil || errors.As(err, &refused) && refused.StatusCode < 500 {
			return target, nil // somebody answers, even if not to this
		}
		problems = append(problems, err)
	}
	return "", fmt.Errorf("no data endpoint can be reached: %w", errors.Join(problems...))
}

// send sends the image in chunks.
func (u *upload) send(ctx context.Context, target string) error {
	total := u.options.Size
	u.progress(0, total)
	for begin := int64(0); begin < total; {
		end := min(begin+u.options.ChunkBytes, total)
		if err := u.sendChunk(ctx, target, begin, end); err != nil {
			return err
		}
		begin = end
		u.progress(begin, total)
	}
	return nil
}

// sendChunk sends the bytes from begin to before end, again where the connection breaks and the engine still waits.
func (u *upload) sendChunk(ctx context.Context, target string, begin, end int64) error {
	flush := "n"
	if end == u.options.Size {
		flush = "y"
	}
	separator := "?"
	if strings.Contains(target, "?") {
		separator = "&"
	}
	header := http.Header{
		"Content-Type":  {"application/octet-stream"},
		"Content-Range": {fmt.Sprintf("bytes %d-%d/*", begin, end-1)},
	}
	pause := waitFirst
	for try := 1; ; try++ {
		err := u.data(ctx, http.MethodPut, target+separator+"flush="+flush, header, io.NewSectionReader(u.options.Image, begin, end-begin))
		if err == nil {
			return nil
		}
		if !AnswerLost(err) || try == chunkTries || ctx.Err() != nil {
			return fmt.Errorf("failed to send bytes %d to %d: %w", begin, end, err)
		}
		if seen, lookErr := u.Transfer(ctx, u.transfer); lookErr == nil && seen.Phase != TransferTransferring {
			return u.failure(seen)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause *= 3
	}
}

// data sends a request to a data endpoint: the engine's CA signs its certificate too, and the URL is the ticket, so no
// session is shown.
func (u *upload) data(ctx context.Context, method, target string, header http.Header, body *io.SectionReader) error {
	parsed, err := url.Parse(target)
	if err != nil || parsed.Scheme != "https" {
		return fmt.Errorf("the engine names a data endpoint that is not an https URL: %q", target)
	}
	ctx, cancel := context.WithTimeout(ctx, chunkTimeout)
	defer cancel()
	var payload io.Reader
	if body != nil {
		payload = body
	}
	request, err := http.NewRequestWithContext(ctx, method, target, payload)
	if err != nil {
		return fmt.Errorf("failed to build the request: %w", err)
	}
	if header != nil {
		request.Header = header.Clone()
	}
	if body != nil {
		request.ContentLength = body.Size()
	}
	response, err := u.http.Do(request)
	if err != nil {
		return transportError(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err != nil {
		return &UnreachableError{Err: err}
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		// The path is the ticket, which is a secret as long as the transfer lives.
		return &Fault{Method: method, Path: parsed.Host, StatusCode: response.StatusCode, Detail: strings.TrimSpace(string(content))}
	}
	return nil
}

// undo cancels the transfer and deletes the disk.
func (u *upload) undo(ctx context.Context) error {
	if u.transfer != "" {
		if err := u.CancelTransfer(ctx, u.transfer); err != nil && !IsNotFound(err) && !IsConflict(err) {
			return fmt.Errorf("disk %s was left behind: %w", u.disk, err)
		}
		err := u.waitTransfer(ctx, "to be cancelled", func(seen *ImageTransfer) (bool, error) {
			return seen == nil || seen.Phase.Failed() || seen.Phase == TransferFinishedSuccess, nil
		})
		if err != nil {
			return fmt.Errorf("disk %s was left behind: %w", u.disk, err)
		}
	}
	// A cancelled upload takes its disk with it.
	if err := u.RemoveDisk(ctx, u.disk, nil); err != nil {
		return fmt.Errorf("disk %s was left behind: %w", u.disk, err)
	}
	return nil
}
