package image

import (
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
)

// leastDisk is the minimum size of a node's disk, in bytes. A smaller file is not a disk image.
const leastDisk = 1 << 20

// diskFile is an open disk image to upload.
type diskFile struct {
	// File is the disk image. It is source itself, or an unnamed file with the decompressed content of source.
	*os.File
	// source is the file named by the user.
	source *os.File
	header engine.Image
	sum    string // SHA-256 of the image
}

// openFile opens a disk image. If the file is compressed, it also decompresses it. given is the expected SHA-256 in
// hexadecimal. If given is empty, any file is accepted. The caller must close the result.
func openFile(ctx context.Context, path, given string, out io.Writer) (_ *diskFile, err error) {
	source, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("failed to open the image: %w", err)
	}

	file := &diskFile{File: source, source: source}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()

	decompress, err := compressionOf(source)
	if err != nil {
		return nil, err
	}

	if decompress == nil || given != "" {
		if file.sum, err = sumOf(ctx, source); err != nil {
			return nil, err
		}
	}

	if given != "" && !strings.EqualFold(file.sum, given) {
		return nil, fmt.Errorf("%s has the SHA-256 checksum %s, not %s; download it again", path, file.sum, given)
	}

	if decompress != nil {
		if err := file.decompressSource(ctx, decompress, out); err != nil {
			return nil, err
		}
	}

	if file.header, err = engine.IdentifyImage(file.File, file.imageName()); err != nil {
		return nil, err
	}

	return file, file.checkDisk()
}

// Close closes the files.
func (f *diskFile) Close() error {
	err := f.File.Close()
	if f.source != f.File {
		err = errors.Join(err, f.source.Close())
	}

	return err
}

// lockSource locks the file named by the user. Every upload holds this lock, so another process does not resume an
// unfinished upload that still runs. lockSource returns an error if another process holds the lock.
func (f *diskFile) lockSource(how func(*os.File) error) error { return how(f.source) }

// imageName returns the name of the image: the name of the file, without the extension of a compression.
func (f *diskFile) imageName() string {
	name := f.source.Name()
	if f.File == f.source {
		return name
	}

	return strings.TrimSuffix(name, filepath.Ext(name))
}

// checkDisk rejects disks that cannot boot. For a qcow2 image, it checks only the size of the file.
func (f *diskFile) checkDisk() error {
	if f.header.VirtualSize < leastDisk {
		return fmt.Errorf("%s: too small for the disk of a node (%d bytes); use a qcow2 or raw image", f.imageName(),
			f.header.VirtualSize)
	}

	if f.header.Format != engine.FormatRaw {
		return nil
	}

	signature := make([]byte, 2)
	if _, err := f.ReadAt(signature, 510); err != nil {
		return fmt.Errorf("failed to read the image: %w", err)
	}

	if signature[0] != 0x55 || signature[1] != 0xaa {
		return fmt.Errorf("%s: neither a qcow2 image nor a raw disk, because its first sector is not a boot sector "+
			"(MBR or GPT); use the image of a whole disk", f.imageName())
	}

	return nil
}

// compressions lists the supported compressions, with the first bytes of their files.
var compressions = []struct {
	begin string
	open  func(io.Reader) (io.Reader, error)
}{
	{"\x1f\x8b", func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{"\xfd7zXZ\x00", func(r io.Reader) (io.Reader, error) { return xz.NewReader(bufio.NewReaderSize(r, 1<<20)) }},
	{"BZh", func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }},
	{"\x28\xb5\x2f\xfd", func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) }},
}

// compressionOf returns the decompressor for a file, or nil if the file is not compressed.
func compressionOf(file *os.File) (func(io.Reader) (io.Reader, error), error) {
	begin := make([]byte, 6)
	n, err := file.ReadAt(begin, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("failed to read the image: %w", err)
	}

	for _, c := range compressions {
		if strings.HasPrefix(string(begin[:n]), c.begin) {
			return c.open, nil
		}
	}

	return nil, nil
}

// decompressSource decompresses the source to an unnamed file. The unnamed file disappears when it is closed.
func (f *diskFile) decompressSource(
	ctx context.Context, open func(io.Reader) (io.Reader, error), out io.Writer,
) error {
	info, err := f.source.Stat()
	if err != nil {
		return fmt.Errorf("failed to read the image: %w", err)
	}

	image, err := unnamedFile(filepath.Dir(f.source.Name()))
	if err != nil {
		return err
	}

	f.File = image
	read := &counter{
		Reader: engine.NewReaderUntil(ctx, io.NewSectionReader(f.source, 0, info.Size())),
		total:  info.Size(),
		show:   progress.TransferProgress(out, "decompressing "+filepath.Base(f.source.Name())),
	}
	hash := sha256.New()

	content, err := open(read)
	if err == nil {
		_, err = io.Copy(io.MultiWriter(image, hash), content)
	}

	if err != nil {
		return fmt.Errorf("failed to decompress %s: %w", f.source.Name(), err)
	}

	f.sum = hex.EncodeToString(hash.Sum(nil))

	return nil
}

// counter shows the progress of reading a file.
type counter struct {
	io.Reader
	done, total int64
	show        func(done, total int64)
}

func (c *counter) Read(into []byte) (int, error) {
	n, err := c.Reader.Read(into)
	c.done += int64(n)
	c.show(c.done, c.total)

	return n, err
}

// unnamedFile creates a file beside the image or, if this is not permitted, in the folder for temporary files. It
// removes the name at once, so the file disappears with the process, even after a crash.
func unnamedFile(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, ".olvmctl-")
	if err != nil {
		file, err = os.CreateTemp("", "olvmctl-")
	}

	if err != nil {
		return nil, fmt.Errorf("failed to create a file for the decompressed image: %w", err)
	}

	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("failed to create a file for the decompressed image: %w", err), file.Close())
	}

	return file, nil
}

// sumOf returns the SHA-256 of a file in hexadecimal.
func sumOf(ctx context.Context, file *os.File) (string, error) {
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("failed to read the image: %w", err)
	}

	hash := sha256.New()
	if _, err := io.Copy(hash, engine.NewReaderUntil(ctx, io.NewSectionReader(file, 0, info.Size()))); err != nil {
		return "", fmt.Errorf("failed to read the image: %w", err)
	}

	return hex.EncodeToString(hash.Sum(nil)), nil
}
