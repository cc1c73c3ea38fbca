package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/filelock"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
)

const (
	// uploadIdle is how long an interrupted upload can resume.
	uploadIdle = 10 * time.Minute
	// defaultDataCenter is the name of the first data center of an engine.
	defaultDataCenter = "Default"
)

// Upload defines a file to upload, and the disk for it.
type Upload struct {
	// Path is a qcow2 or raw file, possibly compressed. SHA256 is its digest in hexadecimal. If SHA256 is empty, any
	// file is accepted.
	Path, SHA256 string
	// DataCenter, StorageDomain and Disk are names in the engine. If DataCenter is empty, it is Default.
	DataCenter, StorageDomain, Disk string
	// Size is the size the disk grows to, such as 50GB. If empty, the disk keeps its size.
	Size string
	// Out receives lines for users.
	Out io.Writer

	// run is the ID of the run that owns the disk. It is empty for a permanent disk.
	run string
}

// EnsureDisk creates the disk, unless a disk already has the content of the image. sent reports whether EnsureDisk has
// uploaded the image. If it fails, or if the context ends, it leaves no disk behind.
func (u Upload) EnsureDisk(ctx context.Context, client *engine.Client) (disk *engine.Disk, sent bool, err error) {
	if err := checkFlags(map[string]string{"storage-domain": u.StorageDomain, "disk": u.Disk}); err != nil {
		return nil, false, err
	}

	file, err := openFile(ctx, u.Path, u.SHA256, u.Out)
	if err != nil {
		return nil, false, err
	}
	defer file.Close()

	size, err := u.diskSize(file)
	if err != nil {
		return nil, false, err
	}

	if err := file.lockSource(
		filelock.Shared,
	); err != nil &&
		!errors.Is(err, filelock.ErrHeld) { // Resume checks the holder
		_, _ = fmt.Fprintf(u.Out,
			"warning: cannot lock the image; do not upload it with another command meanwhile: %v\n", err)
	}

	options, err := u.uploadOptions(ctx, client, file)
	if err != nil {
		return nil, false, err
	}

	disk, sent, err = client.UploadImage(ctx, options,
		progress.TransferProgress(u.Out, "uploading "+filepath.Base(u.Path)))
	if err != nil {
		return nil, false, err
	}

	if size > disk.ProvisionedSize {
		if err := growDisk(ctx, client, disk, size, sent); err != nil {
			return nil, false, err
		}
	}

	if !sent {
		_, err = fmt.Fprintf(u.Out, "the disk %s already contains the image\n", u.Disk)
	}

	return disk, sent, err
}

// diskSize returns the wanted size of the disk in bytes, or 0 if no size is set.
func (u Upload) diskSize(file *diskFile) (int64, error) {
	if u.Size == "" {
		return 0, nil
	}

	size, err := desired.ParseMemory(u.Size)
	if err != nil {
		return 0, fmt.Errorf("--size: %w", err)
	}

	if size < file.header.VirtualSize {
		return 0, fmt.Errorf("--size: %s is less than the size of the image, %d bytes", u.Size,
			file.header.VirtualSize)
	}

	return size, nil
}

// uploadOptions resolves the names in the engine. It rejects a disk name if another disk with different content has it.
func (u Upload) uploadOptions(
	ctx context.Context, client *engine.Client, file *diskFile,
) (engine.UploadOptions, error) {
	dc, err := client.FindDataCenter(ctx, cmp.Or(u.DataCenter, defaultDataCenter))
	if err != nil {
		return engine.UploadOptions{}, err
	}

	domain, sparse, err := client.ChooseDiskPlace(ctx, dc, engine.DiskPlace{
		Domain: u.StorageDomain,
		Format: file.header.Format,
	})

	var inactive *engine.InactiveError
	if errors.As(err, &inactive) {
		err = fmt.Errorf("--storage-domain: %w; activate it in the engine, or use another one", err)
	}

	if err != nil {
		return engine.UploadOptions{}, err
	}

	options := engine.UploadOptions{
		Image:           file,
		Size:            file.header.FileSize,
		StorageDomainID: domain.ID,
		Alias:           u.Disk,
		Sparse:          sparse,
		Fingerprint:     "sha256=" + file.sum,
		Run:             u.run,
		Idle:            uploadIdle,
		Resume: func(sent int64) error {
			if errors.Is(file.lockSource(filelock.Exclusive), filelock.ErrHeld) {
				return fmt.Errorf("another process is already uploading %s", file.source.Name())
			}

			_, err := fmt.Fprintf(u.Out, "resuming an interrupted upload: %d MiB already uploaded\n", sent>>20)

			return err
		},
	}

	there, err := client.FindDisksNotFromTemplates(ctx, dc, u.Disk)
	if err != nil {
		return engine.UploadOptions{}, err
	}

	for i := range there {
		if !options.IsEarlierUpload(&there[i]) {
			return engine.UploadOptions{}, fmt.Errorf("disk %q already exists in data center %q (%s), with "+
				"different content; use another name with --disk, or delete it", u.Disk, dc.Name, there[i].ID)
		}
	}

	return options, nil
}

// growDisk grows a disk to a size in bytes. If this fails, it removes a newly created disk.
func growDisk(ctx context.Context, client *engine.Client, disk *engine.Disk, size int64, made bool) error {
	err := client.GrowDisk(ctx, disk.ID, size, nil)
	if err != nil && made {
		err = errors.Join(err, client.RemoveDisk(context.WithoutCancel(ctx), disk.ID, nil))
	}

	return err
}

// checkFlags returns an error that names the missing flags.
func checkFlags(flags map[string]string) error {
	var missing []string

	for name, value := range flags {
		if value == "" {
			missing = append(missing, "--"+name)
		}
	}

	if len(missing) == 0 {
		return nil
	}

	slices.Sort(missing)

	return fmt.Errorf("missing %s; use these flags, or specify a cluster file with -f", strings.Join(missing, ", "))
}
