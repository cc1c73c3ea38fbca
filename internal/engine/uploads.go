package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// DefaultChunk is the number of bytes of an image in one request. After a broken connection, the client sends at
	// most one chunk again.
	DefaultChunk = 8 << 20
	// chunkTimeout is enough for 8 MiB over a line of 1 Mbit/s, and for the flush of all chunks before the last one.
	chunkTimeout = 5 * time.Minute
	// chunkTries is the number of attempts to send a chunk. Then the upload fails.
	chunkTries = 5
	// DefaultIdle is the time without a request after which the engine may end a transfer. It is longer than the pauses
	// of a client between its tries, so only the transfers of dead clients end.
	DefaultIdle = 2 * time.Minute
	// DefaultPause is longer than the time an upload takes from its disk to its transfer, and from its transfer to its
	// end.
	DefaultPause = 15 * time.Second
	// cleanupLimit limits the cleanup after a failed upload.
	cleanupLimit = 2 * time.Minute
)

// UploadOptions describe an upload and its target.
type UploadOptions struct {
	// Image is the file, and Size its length in bytes. The upload reads it once from begin to end. After a broken
	// connection, it reads a part again.
	Image io.ReaderAt
	Size  int64
	// StorageDomainID is the storage domain for the new disk.
	StorageDomainID ID
	// Alias of the new disk. It may be empty.
	Alias string
	// Format of the new disk, FormatRaw or FormatCow. Empty means the format of the image. A qcow2 image cannot become
	// a raw disk.
	Format string
	// Sparse reports whether the disk allocates space as it is written. nil leaves it to the engine.
	Sparse *bool
	// ChunkBytes is the number of bytes per request. 0 means DefaultChunk.
	ChunkBytes int64
	// Fingerprint identifies the image, for example by its SHA-256. With it, an upload resumes an interrupted upload of
	// the same image to the same alias and storage domain. It does not repeat a finished one. Without it, each upload
	// creates a new disk.
	Fingerprint string
	// Run marks the finished disk as belonging to a run of a command. If empty, the disk is permanent.
	Run string
	// Resume is called before a partial upload is resumed, with the number of bytes already there. An error stops the
	// upload without changes. It may be nil.
	Resume func(sent int64) error
	// Idle is the time without a request after which the engine ends the transfer. So it is the longest interruption an
	// upload survives. 0 means DefaultIdle.
	Idle time.Duration
	// Pause is how long the disk of a running upload may be without a transfer. 0 means DefaultPause.
	Pause time.Duration
	// Report is called with each new observation during a wait. It may be nil.
	Report func(seen string)
}

// unfinishedMark and finishedMark return the descriptions of the disks of uploads with a fingerprint.
func (o *UploadOptions) unfinishedMark() string { return "capolvm upload " + o.Fingerprint }
func (o *UploadOptions) finishedMark() string {
	if o.Run != "" {
		return o.permanentMark() + runMark + o.Run
	}

	return o.permanentMark()
}

// permanentMark returns the description of a permanent disk.
func (o *UploadOptions) permanentMark() string { return "capolvm image " + o.Fingerprint }

// isFinished reports whether a disk is the usable result of a finished upload of the same image.
func (o *UploadOptions) isFinished(d *Disk) bool {
	return d.Description == o.permanentMark() || d.Description == o.finishedMark()
}

// runMark precedes the run of a command in the description of a disk.
const runMark = " run="

// UploadRun returns the run the disk belongs to, or "" for a permanent disk.
func (d *Disk) UploadRun() string {
	if before, run, ok := strings.Cut(d.Description, runMark); ok && strings.HasPrefix(before, "capolvm image ") {
		return run
	}

	return ""
}

// IsEarlierUpload reports whether a disk with the alias comes from an earlier upload of the same image.
func (o *UploadOptions) IsEarlierUpload(d *Disk) bool {
	return slices.Contains(d.StorageDomainIDs(), o.StorageDomainID) &&
		(d.IsMadeFor(o.unfinishedMark()) || o.isFinished(d))
}

// UploadImage creates a disk from an image file and returns it when it is usable. made reports whether this call
// created the disk, or found it. progress is called with the number of bytes sent and the total, once before the first
// chunk and then after each chunk. It may be nil. A disk returned together with an error exists. If the upload fails,
// or ctx ends, UploadImage cancels the transfer and deletes the disk. The error also reports a failed cleanup.
func (c *Client) UploadImage(
	ctx context.Context, options UploadOptions, progress func(sent, total int64),
) (disk *Disk, made bool, err error) {
	image, err := ReadImage(options.Image, options.Size)
	if err != nil {
		return nil, false, err
	}

	if options.Format == "" {
		options.Format = image.Format
	}

	if image.Format == FormatCow && options.Format == FormatRaw {
		return nil, false, errors.New(
			"a qcow2 image cannot become a raw disk; use format cow, or convert the image with qemu-img",
		)
	}

	if options.ChunkBytes <= 0 {
		options.ChunkBytes = DefaultChunk
	}

	if options.Idle <= 0 {
		options.Idle = DefaultIdle
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

	for {
		disk, made, err = c.uploadOnce(ctx, options, image, wanted, progress)
		if !errors.Is(err, errTicketLost) && !errors.Is(err, errEndedElsewhere) {
			return disk, made, err
		}

		if options.Report != nil {
			options.Report(err.Error() + ": it is looked for again")
		}
	}
}

var (
	// errTicketLost reports that an earlier upload could not be resumed and no longer exists.
	errTicketLost = errors.New("the host has forgotten the earlier upload")
	// errEndedElsewhere reports that another process has ended the upload, and that the disk is good.
	errEndedElsewhere = errors.New("another upload of the image has ended its transfer")
)

// uploadOnce performs an upload, or resumes an earlier one. made is false if it found the disk of a finished upload.
func (c *Client) uploadOnce(
	ctx context.Context, options UploadOptions, image Image, wanted *Disk, progress func(sent, total int64),
) (disk *Disk, made bool, err error) {
	upload := &upload{Client: c, options: options, image: image, progress: progress}
	if options.Fingerprint != "" {
		if done, err := upload.findEarlier(ctx); err != nil || done != nil {
			return done, false, err
		}
	}

	if upload.disk == "" {
		if done, err := upload.makeDisk(ctx, wanted); err != nil || done != nil {
			return done, false, err
		}
	}

	resumed := upload.transfer != ""
	if err := upload.runTransfer(ctx); err != nil {
		// The end of the caller's context may be the reason for this cleanup.
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
		defer cancel()
		undone := upload.cancelAndRemove(cleanup)
		if errors.Is(undone, errEndedElsewhere) && ctx.Err() == nil {
			return nil, false, undone
		}

		if resumed && undone == nil && ctx.Err() == nil && hasStatus(err, http.StatusForbidden) {
			return nil, false, errTicketLost
		}

		err = errors.Join(fmt.Errorf("failed to upload the image: %w", err), undone)
		if undone == nil || errors.Is(undone, errEndedElsewhere) {
			return nil, false, err
		}

		return &Disk{ID: upload.disk}, true, err
	}

	if options.Fingerprint != "" {
		if err := upload.writeDescription(ctx); err != nil {
			return nil, false, err
		}
	}

	return c.fetchUploadedDisk(ctx, upload.disk, options.Report)
}

// fetchUploadedDisk reads the disk of a successful upload. The disk exists, so it tries until the engine answers. If
// the engine does not answer in time, the result has only an ID.
func (c *Client) fetchUploadedDisk(
	ctx context.Context, id ID, report func(seen string),
) (disk *Disk, made bool, err error) {
	disk = &Disk{ID: id}
	what := "disk " + id.String() + " to be read"
	err = Wait(context.WithoutCancel(ctx), what, func(ctx context.Context) (bool, string, error) {
		seen, err := c.FetchDisk(ctx, id)
		if err == nil {
			disk = seen
		}

		return err == nil, "", err
	}, report)

	return disk, true, err
}

// upload is one upload with its disk.
type upload struct {
	*Client
	options  UploadOptions
	image    Image
	disk     ID
	transfer ID // "" until the transfer exists
	// isUnanswered reports that the engine may have begun the transfer without an answer.
	isUnanswered bool
	// sent is the number of bytes of the image already there.
	sent     int64
	zeroes   bool // the data endpoint writes zeroes by itself
	progress func(sent, total int64)
}

// makeDisk creates the disk, unless another process has just finished an upload of the same image. done is then the
// disk of that upload.
func (u *upload) makeDisk(ctx context.Context, wanted *Disk) (done *Disk, err error) {
	owner := ""
	if u.options.Fingerprint != "" {
		owner = u.options.unfinishedMark()
	}

	begun, err := u.CreateDiskOnce(ctx, owner, wanted, nil, u.options.Report)
	if err != nil {
		return nil, err
	}

	u.disk = begun.ID
	if u.options.Fingerprint == "" {
		return nil, nil
	}

	done, err = u.waitUntilAlone(ctx)
	if err != nil || done != nil {
		err = errors.Join(err, u.RemoveDisk(context.WithoutCancel(ctx), begun.ID, u.options.Report))
	}

	return done, err
}

// writeDescription writes the image's identity to the disk.
func (u *upload) writeDescription(ctx context.Context) error {
	update := func(ctx context.Context) (bool, string, error) {
		err := u.UpdateDisk(ctx, u.disk, &Disk{Description: u.options.finishedMark()})
		return err == nil, "", err
	}
	err := Wait(context.WithoutCancel(ctx), "disk "+u.disk.String()+" to be described", update, u.options.Report)
	if err != nil {
		return fmt.Errorf("disk %s has the image, and does not say so: %w", u.disk, err)
	}

	return u.WaitDisk(context.WithoutCancel(ctx), u.disk, u.options.Report) // a change locks the disk for a moment
}

// findEarlier looks for an earlier upload of the image. It returns the disk of a finished upload, and resumes an
// interrupted one if the engine still waits for it.
func (u *upload) findEarlier(ctx context.Context) (done *Disk, err error) {
	var idleSince time.Time // first time the disk was seen without a transfer
	err = Wait(ctx, "an earlier upload of the image to end", func(ctx context.Context) (bool, string, error) {
		disk, err := u.findOther(ctx)
		if disk == nil || err != nil {
			return true, "", err
		}

		switch {
		case disk.Status == DiskOK && u.options.isFinished(disk):
			done = disk
			return true, "", nil
		case disk.Status == DiskOK:
			return false, string(disk.Status), u.checkIdle(ctx, disk, &idleSince)
		case disk.Status == DiskIllegal && disk.IsMadeFor(u.options.unfinishedMark()):
			return true, "", u.RemoveDisk(ctx, disk.ID, u.options.Report)
		case disk.Status == DiskIllegal:
			return false, "", fmt.Errorf("disk %s contains the image, but is illegal; check its events in the engine",
				disk.ID)
		}

		return u.takeOver(ctx, disk)
	}, u.options.Report)

	return done, err
}

// checkIdle fails if an unfinished disk has been without a transfer for a while. The disk of a running upload also has
// no transfer for a moment before the transfer begins, and after it ends. checkIdle does not remove the disk, because
// another client may already use it. since is the time of the first observation without a transfer.
func (u *upload) checkIdle(ctx context.Context, disk *Disk, since *time.Time) error {
	transfer, err := u.FindTransfer(ctx, disk.ID)
	if transfer != nil || err != nil {
		*since = time.Time{}
		return err
	}

	if since.IsZero() {
		*since = time.Now()
	}

	if time.Since(*since) < cmp.Or(u.options.Pause, DefaultPause) {
		return nil
	}

	return fmt.Errorf("disk %s is left over from an upload interrupted at its start or end; delete it if "+
		"nothing uses it, and try again", disk.ID)
}

// takeOver resumes the transfer of a disk if the engine still waits for it.
func (u *upload) takeOver(ctx context.Context, disk *Disk) (bool, string, error) {
	transfer, err := u.FindTransfer(ctx, disk.ID)
	if transfer == nil || err != nil {
		return false, string(disk.Status), err // the engine may still remove the disk
	}

	switch transfer.Phase {
	case TransferPausedSystem, TransferPausedUser, TransferTransferring:
	default:
		return false, string(transfer.Phase), nil
	}

	// An upload sends the chunks one after the other, and the last one may be incomplete.
	sent := transfer.Transferred / u.options.ChunkBytes * u.options.ChunkBytes
	if u.options.Resume != nil {
		if err := u.options.Resume(sent); err != nil {
			return false, "", err
		}
	}

	if transfer.Phase != TransferTransferring {
		if err := u.ResumeTransfer(ctx, transfer.ID); err != nil {
			return false, "", err
		}
	}

	u.disk, u.transfer, u.sent = disk.ID, transfer.ID, min(sent, u.options.Size)

	return true, "", nil
}

// waitUntilAlone waits until no other client uploads the same image. If several began at the same time, the client with
// the highest disk ID gives up when it sees another, and the others wait. done is the disk of an upload finished
// meanwhile.
func (u *upload) waitUntilAlone(ctx context.Context) (done *Disk, err error) {
	err = Wait(ctx, "another upload of the image to end", func(ctx context.Context) (bool, string, error) {
		other, err := u.findOther(ctx)
		switch {
		case err != nil || other == nil:
			return err == nil, "", err
		case other.Status == DiskOK && u.options.isFinished(other):
			done = other
			return true, "", nil
		case other.ID < u.disk:
			return false, "", fmt.Errorf(
				"another upload of the image has started at the same time, with disk %s; try again when it is complete",
				other.ID,
			)
		}

		return false, "disk " + other.ID.String() + " is " + string(other.Status), nil
	}, u.options.Report)

	return done, err
}

// findOther returns the disk of another upload of the image, or nil.
func (u *upload) findOther(ctx context.Context) (*Disk, error) {
	disks, err := u.FindDisksNotFromTemplates(ctx, nil, u.options.Alias) // IsEarlierUpload checks the storage domain
	for i := range disks {
		if disks[i].ID != u.disk && u.options.IsEarlierUpload(&disks[i]) {
			return &disks[i], nil
		}
	}

	return nil, err
}

func (u *upload) runTransfer(ctx context.Context) error {
	transfer, err := u.openTransfer(ctx)
	if err != nil {
		return err
	}

	target, err := u.chooseEndpoint(ctx, transfer)
	if err != nil {
		return err
	}

	if err := u.sendImage(ctx, target); err != nil {
		return err
	}

	// From here on, the disk has the image. A caller that cancels now gets the disk, and decides whether to keep it.
	if cancelled := toCancelledError(ctx); cancelled != nil {
		return cancelled
	}

	ctx = context.WithoutCancel(ctx)

	if err := u.finalizeAnyway(ctx); hasStatus(err, http.StatusForbidden) {
		return fmt.Errorf(
			"%w; to start an upload, the user needs rights only on the disk; to complete it, the right to create "+
				"disks on the whole system, as in the role DiskCreator",
			err,
		)
	} else if err != nil {
		return err
	}

	err = u.waitTransfer(ctx, "to finish", func(seen *ImageTransfer) (bool, error) {
		if seen != nil && seen.Phase.HasFailed() {
			return false, u.transferError(seen)
		}

		return seen == nil || seen.Phase == TransferFinishedSuccess, nil
	})
	if err != nil {
		return err
	}

	return u.WaitDisk(ctx, u.disk, u.options.Report)
}

// finalizeAnyway ends the transfer, and repeats the request if its answer is lost. An earlier request may have had its
// effect.
func (u *upload) finalizeAnyway(ctx context.Context) error {
	lost, what := false, "transfer "+u.transfer.String()+" to be finalized"

	return Wait(ctx, what, func(ctx context.Context) (bool, string, error) {
		err := u.FinalizeTransfer(ctx, u.transfer)
		if lost = lost || IsAnswerLost(err); err == nil || !lost {
			return err == nil, "", err
		}

		seen, look := u.FetchTransfer(ctx, u.transfer)
		if IsNotFound(look) || look == nil && seen.Phase != TransferTransferring {
			return true, "", nil
		}

		return false, "", err
	}, u.options.Report)
}

// openTransfer begins a transfer, unless one is resumed, and waits until it accepts data.
func (u *upload) openTransfer(ctx context.Context) (*ImageTransfer, error) {
	var transfer *ImageTransfer
	if u.transfer == "" {
		if err := u.WaitDisk(ctx, u.disk, u.options.Report); err != nil {
			return nil, err
		}

		what := "transfer to disk " + u.disk.String()

		begun, err := CreateUnique(ctx, what, u.options.Report, u.beginTransfer, u.ownTransfer)
		if err != nil {
			var lost *UnansweredError
			u.isUnanswered = errors.As(err, &lost)

			return nil, err
		}

		transfer, u.transfer = begun, begun.ID
	}

	err := u.waitTransfer(ctx, "to accept data", func(seen *ImageTransfer) (bool, error) {
		if seen == nil || seen.Phase.HasFailed() || seen.Phase.HasEnded() {
			return false, u.transferError(seen)
		}

		transfer = seen

		return seen.Phase == TransferTransferring, nil
	})

	return transfer, err
}

// beginTransfer begins the transfer.
func (u *upload) beginTransfer(ctx context.Context) (*ImageTransfer, error) {
	return u.CreateTransfer(ctx, &ImageTransfer{
		Direction:         "upload",
		Format:            u.image.Format,
		Image:             NewRef(u.disk),
		InactivityTimeout: int(u.options.Idle.Seconds()),
		TimeoutPolicy:     "cancel",
	})
}

// ownTransfer looks for the transfer of the disk. Only this upload knows the disk. It returns nil if there is none.
func (u *upload) ownTransfer(ctx context.Context) (*ImageTransfer, error) {
	return u.FindTransfer(ctx, u.disk)
}

func (u *upload) transferError(seen *ImageTransfer) error {
	if seen == nil {
		return fmt.Errorf("the engine has given up transfer %s", u.transfer)
	}

	return fmt.Errorf("the engine has given up transfer %s: its phase is %s", u.transfer, seen.Phase)
}

// waitTransfer waits until done reports true for the transfer. It calls done with nil if the engine has forgotten the
// transfer.
func (u *upload) waitTransfer(ctx context.Context, what string, done func(*ImageTransfer) (bool, error)) error {
	return Wait(ctx, "transfer "+u.transfer.String()+" "+what, func(ctx context.Context) (bool, string, error) {
		seen, err := u.FetchTransfer(ctx, u.transfer)
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

// cancelAndRemove cancels the transfer and deletes the disk.
func (u *upload) cancelAndRemove(ctx context.Context) error {
	if u.transfer == "" && u.isUnanswered {
		seen, err := u.uploadTo(ctx, u.disk, u.options.Report)
		if err != nil {
			return fmt.Errorf("disk %s was left behind: %w", u.disk, err)
		}

		if seen != nil {
			u.transfer = seen.ID
		}
	}

	if u.transfer != "" {
		last, err := u.endTransfer(ctx, u.transfer, u.options.Report)
		if err != nil {
			return fmt.Errorf("disk %s was left behind: %w", u.disk, err)
		}

		// If another client has ended the transfer, its disk may be good. Without a fingerprint, no other client knows
		// about the upload.
		if u.options.Fingerprint != "" && (last == nil || last.Phase == TransferFinishedSuccess) {
			status, err := u.waitDiskUnlocked(ctx, u.disk, nil)
			switch {
			case IsNotFound(err):
				return nil
			case err != nil:
				return fmt.Errorf("disk %s was left behind: %w", u.disk, err)
			case status == DiskOK:
				return fmt.Errorf("disk %s stays: %w", u.disk, errEndedElsewhere)
			}
		}
	}

	// A canceled upload also removes its disk.
	if err := u.RemoveDisk(ctx, u.disk, nil); err != nil {
		return fmt.Errorf("disk %s was left behind: %w", u.disk, err)
	}

	return nil
}

// endTransfer cancels a transfer and waits until the engine has released its disk. It returns the last sight of the
// transfer, or nil if the engine has forgotten it.
func (c *Client) endTransfer(ctx context.Context, id ID, report func(seen string)) (last *ImageTransfer, err error) {
	asked := false
	err = Wait(ctx, "transfer "+id.String()+" to be cancelled", func(ctx context.Context) (bool, string, error) {
		if !asked {
			err := c.CancelTransfer(ctx, id)
			if asked = err == nil || IsNotFound(err) || IsConflict(err); !asked {
				return false, "", err
			}
		}

		seen, err := c.FetchTransfer(ctx, id)
		if IsNotFound(err) {
			last = nil
			return true, "", nil
		} else if err != nil {
			return false, "", err
		}

		last = seen

		return seen.Phase.HasEnded(), string(seen.Phase), nil
	}, report)

	return last, err
}

// RemoveUnfinishedDisk deletes the disk of a broken-off upload, and cancels the transfer to it. It waits
// until the disk is gone.
func (c *Client) RemoveUnfinishedDisk(ctx context.Context, id ID, report func(seen string)) error {
	transfer, err := c.uploadTo(ctx, id, report)
	if err == nil && transfer != nil {
		_, err = c.endTransfer(ctx, transfer.ID, report)
	}

	if err != nil {
		return err
	}

	return c.RemoveDisk(ctx, id, report)
}

// uploadTo returns the upload to a disk, or nil. It tries until the engine answers.
func (c *Client) uploadTo(ctx context.Context, id ID, report func(seen string)) (found *ImageTransfer, err error) {
	err = Wait(ctx, "the transfer to disk "+id.String(), func(ctx context.Context) (bool, string, error) {
		seen, err := c.FindTransfer(ctx, id)
		if err == nil && seen != nil && seen.Direction == "upload" {
			found = seen
		}

		return err == nil, "", err
	}, report)

	return found, err
}
