// Package image makes disk images and VM templates for nodes.
//
// Disk images are made from the boot images of OCK (Oracle Container host for Kubernetes). These are published in
// container images and made for QEMU: an engine passes Ignition on a config drive.
package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// Options configure the image and its source.
type Options struct {
	// From is a disk image, an archive of docker save, or the reference of a container image with a disk below disk/.
	From string
	// Arch of the container image, such as amd64.
	Arch string
	// Arguments of the kernel.
	Arguments Arguments
	// Output is the file to create; Force replaces an existing one.
	Output string
	Force  bool
	// Say is called for each step. Progress returns a function to call with the bytes read and the total.
	Say      func(format string, args ...any)
	Progress func(name string) func(done, total int64)
}

// Create creates the image. If it fails, or the context ends, it leaves nothing behind.
func Create(ctx context.Context, o Options) error {
	if err := o.Arguments.Validate(); err != nil {
		return err
	}

	if _, err := os.Stat(o.Output); err == nil && !o.Force {
		return fmt.Errorf("there is a file %s already; choose another name, or replace it with --force", o.Output)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	return o.create(ctx)
}

// create fetches the disk, edits it if there is a platform, and puts it in place.
func (o Options) create(ctx context.Context) (err error) {
	guestfish := ""
	if o.Arguments.Platform != "" {
		if guestfish, err = findGuestfish(); err != nil {
			return err
		}
	}

	// In the output's folder, so a rename can put the image in place.
	scratch, err := os.MkdirTemp(filepath.Dir(o.Output), ".olvmctl-image-")
	if err != nil {
		return fmt.Errorf("failed to make a folder beside %s: %w", o.Output, err)
	}

	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	disk := filepath.Join(scratch, "disk")
	if err := o.fetchDisk(ctx, disk); err != nil {
		return err
	}

	format, err := diskFormat(disk)
	if err != nil {
		return fmt.Errorf("the disk of %s: %w", o.From, err)
	}

	if guestfish == "" {
		return os.Rename(disk, o.Output)
	}

	o.Say("editing the boot loader entries with guestfish")
	editor := &editor{executable: guestfish, scratch: scratch, arguments: o.Arguments, say: o.Say}
	if err := editor.editArguments(ctx, disk, format); err != nil {
		return err
	}

	return os.Rename(disk, o.Output)
}

// diskFormat returns qcow2 or raw. It is passed to guestfish, because guessing would be a risk: a raw disk can begin
// with a header naming files of this machine.
func diskFormat(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}

	image, err := engine.ReadImage(file, info.Size())
	if err != nil {
		return "", err
	}

	if image.Format == engine.FormatCow {
		return "qcow2", nil
	}

	return "raw", nil
}

// writeFile writes a file of total bytes, until the context ends.
func (o Options) writeFile(ctx context.Context, path, name string, from io.Reader, total int64) (err error) {
	to, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, to.Close()) }()
	written, err := io.Copy(
		to, &reader{from: engine.NewReaderUntil(ctx, from), total: total, progress: o.Progress(name)},
	)
	if err == nil && written != total {
		err = io.ErrUnexpectedEOF
	}

	return err
}

// reader reports its progress.
type reader struct {
	from        io.Reader
	done, total int64
	progress    func(done, total int64)
}

// Read implements io.Reader.
func (r *reader) Read(to []byte) (int, error) {
	n, err := r.from.Read(to)
	if n > 0 {
		r.done += int64(n)
		r.progress(r.done, r.total)
	}

	return n, err
}
