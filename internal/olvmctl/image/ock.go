// Package image creates disk images and VM templates for nodes.
//
// It creates disk images from the boot images of OCK (Oracle Container host for Kubernetes). The boot images are
// published in container images, and are made for QEMU. An engine passes the Ignition configuration on a config drive
// instead.
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
	// From is a disk image, an archive from docker save, or the reference of a container image. The container image has
	// a disk below disk/.
	From string
	// Arch is the architecture of the container image, such as amd64.
	Arch string
	// Arguments are the kernel arguments.
	Arguments Arguments
	// Output is the file to create. Force replaces an existing file.
	Output string
	Force  bool
	// Say is called for each step with a line for the user. Progress returns a function to be called with the number of
	// bytes read so far, and the total.
	Say      func(format string, args ...any)
	Progress func(name string) func(done, total int64)
}

// Create creates the image. If it fails, or the context ends, it leaves nothing behind.
func Create(ctx context.Context, o Options) error {
	if err := o.Arguments.Validate(); err != nil {
		return err
	}

	if _, err := os.Stat(o.Output); err == nil && !o.Force {
		return fmt.Errorf("%s already exists; use another name, or overwrite it with --force", o.Output)
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

	// Use the folder of the output, so a rename can put the image in its place.
	scratch, err := os.MkdirTemp(filepath.Dir(o.Output), ".olvmctl-image-")
	if err != nil {
		return fmt.Errorf("failed to create a folder beside %s: %w", o.Output, err)
	}

	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	disk := filepath.Join(scratch, "disk")
	if err := o.fetchDisk(ctx, disk); err != nil {
		return err
	}

	format, err := diskFormat(disk)
	if err != nil {
		return fmt.Errorf("invalid disk in %s: %w", o.From, err)
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

// diskFormat returns qcow2 or raw. guestfish must not guess the format: a raw disk can begin with a qcow2 header that
// names files on this machine.
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

// writeFile writes a file of total bytes. It stops when the context ends.
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

// reader reports the progress of reading.
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
