package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/preview"
)

func newImageUploadCommand(s streams, f *engineFlags) *cobra.Command {
	var checksum string
	command := &cobra.Command{
		Use:   "upload FILE",
		Short: "Make a disk of an image file",
		Long: `upload makes a disk of a qcow2 or raw image. The header of the image is checked
first, and its checksum, where one is given. Parts that are lost on the way are sent again, and an
upload that was killed, or lost its network, goes on where it was when it is started again within
ten minutes; one that was killed in its first or last second names the disk to delete. Where it
fails, or is interrupted, no disk is left behind. A disk that has the image already stays as it is.`,
		Example: "  olvmctl image upload ock-1.33.qcow2 --server https://engine.example.com/ovirt-engine --ca-file " +
			"ca.pem --storage-domain data --disk ock-1.33",
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			client, _, err := f.client()
			if err != nil {
				return err
			}
			defer f.close(command.Context())
			disk, _, err := f.upload(command.Context(), s, client, args[0], checksum)
			if err != nil {
				return err
			}

			_, err = fmt.Fprintln(s.out, disk.ID)

			return err
		},
	}
	f.addUploadFlags(command, &checksum)

	return command
}

func (f *engineFlags) addUploadFlags(command *cobra.Command, checksum *string) {
	command.Flags().StringVar(&f.storageDomain, "storage-domain", "", "name of the storage domain of the disk")
	command.Flags().StringVar(&f.disk, "disk", "", "name of the disk")
	command.Flags().StringVar(&f.size, "size", "", "size to which the disk is grown, such as 50GB")
	command.Flags().StringVar(checksum, "sha256", "", "SHA-256 of the image file, in hexadecimal")
}

// imageFile is an image to upload.
type imageFile struct {
	*os.File
	header engine.Image
	sum    string // SHA-256
}

// lock locks the disk, as every upload does: an upload that was left unfinished goes on. It fails where others have
// it locked.
func (i *imageFile) lock(how int) error { return syscall.Flock(int(i.Fd()), how|syscall.LOCK_NB) }

// openImage opens an image and reads its header.
func openImage(path string) (*imageFile, error) {
	file, header, err := engine.OpenImage(path)
	if err != nil {
		return nil, err
	}

	return &imageFile{File: file, header: header}, nil
}

// sumUp makes the checksum, and compares it with one that is given.
func (i *imageFile) sumUp(ctx context.Context, given string) error {
	hash := sha256.New()
	if _, err := io.Copy(hash, engine.ReaderUntil(ctx, io.NewSectionReader(i, 0, i.header.FileSize))); err != nil {
		return fmt.Errorf("failed to read the image: %w", err)
	}

	i.sum = hex.EncodeToString(hash.Sum(nil))
	if given != "" && !strings.EqualFold(i.sum, given) {
		return fmt.Errorf("%s has the SHA-256 %s, and not %s; get it again", i.Name(), i.sum, given)
	}

	return nil
}

// upload makes the disk, unless there is one with the image; sent reports that this one was sent now.
func (f *engineFlags) upload(
	ctx context.Context, s streams, client *engine.Client, path, checksum string,
) (disk *engine.Disk, sent bool, err error) {
	if err := checkFlags(map[string]string{"storage-domain": f.storageDomain, "disk": f.disk}); err != nil {
		return nil, false, err
	}

	image, err := openImage(path)
	if err != nil {
		return nil, false, err
	}
	defer image.Close()

	size, err := f.diskSize(image)
	if err != nil {
		return nil, false, err
	}

	if err := image.sumUp(ctx, checksum); err != nil {
		return nil, false, err
	}

	_ = image.lock(syscall.LOCK_SH) // some file systems cannot
	options, err := f.uploadOptions(ctx, s, client, image)
	if err != nil {
		return nil, false, err
	}

	disk, sent, err = client.UploadImage(ctx, options, transferProgress(s.err, "uploading "+filepath.Base(path)))
	if err != nil {
		return nil, false, err
	}

	if size > disk.ProvisionedSize {
		if err := growDisk(ctx, client, disk, size, sent); err != nil {
			return nil, false, err
		}
	}

	if !sent {
		_, err = fmt.Fprintf(s.err, "the disk %s has the image already\n", f.disk)
	}

	return disk, sent, err
}

// diskSize is the size in bytes to which the disk is to be grown; 0 where it is not said.
func (f *engineFlags) diskSize(image *imageFile) (int64, error) {
	if f.size == "" {
		return 0, nil
	}

	size, err := desired.ParseMemory(f.size)
	if err != nil {
		return 0, fmt.Errorf("--size: %w", err)
	}

	if size < image.header.VirtualSize {
		return 0, fmt.Errorf("--size: %s is less than the image has, which is %d bytes", f.size,
			image.header.VirtualSize)
	}

	return size, nil
}

// uploadOptions resolves the names of the flags, and refuses to write beside a disk that has something else in it.
func (f *engineFlags) uploadOptions(
	ctx context.Context, s streams, client *engine.Client, image *imageFile,
) (engine.UploadOptions, error) {
	dc, err := client.DataCenter(ctx, f.dataCenter)
	if err != nil {
		return engine.UploadOptions{}, preview.Explain(err)
	}

	domain, err := client.StorageDomain(ctx, dc, f.storageDomain)
	if err != nil {
		return engine.UploadOptions{}, preview.Explain(err)
	}

	sparse, err := client.SparseOn(ctx, domain.ID, image.header.Format)
	if err != nil {
		return engine.UploadOptions{}, preview.Explain(err)
	}

	options := engine.UploadOptions{
		Image:           image,
		Size:            image.header.FileSize,
		StorageDomainID: domain.ID,
		Alias:           f.disk,
		Sparse:          sparse,
		Fingerprint:     "sha256=" + image.sum,
		Idle:            uploadIdle,
		Resume: func(sent int64) error {
			if errors.Is(image.lock(syscall.LOCK_EX), syscall.EWOULDBLOCK) {
				return fmt.Errorf("%s is being uploaded already, by another process", image.Name())
			}

			_, err := fmt.Fprintf(s.err, "going on with an upload that was broken off: %d MiB are there\n", sent>>20)

			return err
		},
	}

	there, err := client.FindImageDisks(ctx, f.disk)
	if err != nil {
		return engine.UploadOptions{}, preview.Explain(err)
	}

	for i := range there {
		if !options.Earlier(&there[i]) {
			return engine.UploadOptions{}, fmt.Errorf("there is a disk %q already (%s), with something else in it; "+
				"choose another name with --disk, or delete it", f.disk, there[i].ID)
		}
	}

	return options, nil
}

// growDisk grows a disk to a size in bytes. Where that fails, a disk that was just made does not stay.
func growDisk(ctx context.Context, client *engine.Client, disk *engine.Disk, size int64, made bool) error {
	err := client.GrowDisk(ctx, disk.ID, size, nil)
	if err != nil && made {
		err = errors.Join(err, client.RemoveDisk(context.WithoutCancel(ctx), disk.ID, nil))
	}

	return err
}

// uploadIdle is for how long an upload can be broken off.
const uploadIdle = 10 * time.Minute

// transferProgress shows a bar on a terminal, and a line for each tenth elsewhere.
func transferProgress(out io.Writer, what string) func(done, total int64) {
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		var bar *progressbar.ProgressBar

		return func(done, total int64) {
			if bar == nil {
				bar = progressbar.NewOptions64(
					total,
					progressbar.OptionSetWriter(out),
					progressbar.OptionSetDescription(what),
					progressbar.OptionShowBytes(true),
					progressbar.OptionFullWidth(),
					progressbar.OptionOnCompletion(func() {
						_, _ = fmt.Fprintln(out)
					}),
				)
			}

			_ = bar.Set64(done)
		}
	}

	tenth := int64(-1)

	return func(done, total int64) {
		if now := done * 10 / total; now != tenth {
			tenth = now
			_, _ = fmt.Fprintf(out, "%s: %d of %d MiB\n", what, done>>20, total>>20)
		}
	}
}
