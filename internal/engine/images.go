package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// sector is the granularity of disk sizes in bytes.
const sector = 512

// Image has the facts in the header of an image file.
type Image struct {
	// Format is FormatCow for qcow2, else FormatRaw.
	Format string
	// VirtualSize is the size of the image's disk in bytes.
	VirtualSize int64
	// FileSize is the size of the file in bytes.
	FileSize int64
}

// qcow2Header is the fixed part of the header. All numbers are big-endian.
type qcow2Header struct {
	Magic             [4]byte
	Version           uint32
	BackingFileOffset uint64
	BackingFileSize   uint32
	ClusterBits       uint32
	Size              uint64
	CryptMethod       uint32
	// The tables locate all other data. L1Size is a number of entries of 8 bytes.
	L1Size           uint32
	L1Offset         uint64
	RefcountOffset   uint64
	RefcountClusters uint32
	// The reader ignores snapshots. In version 3, a reader must know every feature in this field.
	_        [12]byte
	Features uint64
}

// fitsInto reports whether the tables are inside a file of size bytes. A truncated file ends before its tables, but a
// host that reads only the header would accept it.
func (h *qcow2Header) fitsInto(size int64) bool {
	const most = 1 << 62 // keeps the sums from overflowing
	l1, refcounts := uint64(h.L1Size)*8, uint64(h.RefcountClusters)<<h.ClusterBits

	return h.L1Offset < most && h.RefcountOffset < most && h.L1Offset+l1 <= uint64(size) &&
		h.RefcountOffset+refcounts <= uint64(size) //nolint:gosec // positive
}

// externalData is the feature of images with their data in another file.
const externalData = 1 << 2

// foreign lists the first bytes of files that an engine would mistake for a raw disk.
var foreign = []struct{ begin, what, remedy string }{
	{"\x1f\x8b", "compressed with gzip", "decompress it with gunzip"},
	{"\xfd7zXZ\x00", "compressed with xz", "decompress it with unxz"},
	{"BZh", "compressed with bzip2", "decompress it with bunzip2"},
	{"\x28\xb5\x2f\xfd", "compressed with zstd", "decompress it with unzstd"},
	{"PK\x03\x04", "a zip archive", "unpack it"},
	{"KDMV", "a VMDK image", "convert it with qemu-img convert -O qcow2"},
	{"# Disk DescriptorFile", "the description of a VMDK image", "convert that with qemu-img convert -O qcow2"},
	{"<<< ", "a VDI image", "convert it with qemu-img convert -O qcow2"},
	{"conectix", "a VHD image", "convert it with qemu-img convert -O qcow2"},
	{"vhdxfile", "a VHDX image", "convert it with qemu-img convert -O qcow2"},
}

// OpenImage opens an image file and reads its header like IdentifyImage. The caller closes the file.
func OpenImage(path string) (*os.File, Image, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, Image{}, fmt.Errorf("failed to open the image: %w", err)
	}

	image, err := IdentifyImage(file, path)
	if err != nil {
		return nil, Image{}, errors.Join(err, file.Close())
	}

	return file, image, nil
}

// IdentifyImage reads the header of an image file like ReadImage. It also fails if a file named .qcow2 has another
// format, because an engine would take its bytes for a raw disk.
func IdentifyImage(file *os.File, name string) (Image, error) {
	info, err := file.Stat()
	if err != nil {
		return Image{}, fmt.Errorf("failed to open the image: %w", err)
	}

	image, err := ReadImage(file, info.Size())
	if err == nil && image.Format != FormatCow && strings.EqualFold(filepath.Ext(name), ".qcow2") {
		err = errors.New("the file is named .qcow2, but is not a qcow2 image; download it again, or rename a raw " +
			"image to .img")
	}

	if err != nil {
		return Image{}, fmt.Errorf("%s: %w", name, err)
	}

	return image, nil
}

// ReadImage reads the header of an image of size bytes. It fails for incomplete or damaged qcow2 images, and for
// formats the engine cannot read. Any other file is a raw image.
func ReadImage(image io.ReaderAt, size int64) (Image, error) {
	if size <= 0 {
		return Image{}, errors.New("the image is empty")
	}

	for _, other := range foreign {
		begin := make([]byte, len(other.begin))
		if _, err := image.ReadAt(begin, 0); err == nil && string(begin) == other.begin {
			return Image{}, fmt.Errorf("the file is %s, which the engine does not support as a disk; %s", other.what,
				other.remedy)
		}
	}

	raw := Image{Format: FormatRaw, FileSize: size, VirtualSize: (size + sector - 1) / sector * sector}
	var header qcow2Header
	err := binary.Read(io.NewSectionReader(image, 0, size), binary.BigEndian, &header)

	isQcow := header.Magic == [4]byte{'Q', 'F', 'I', 0xfb}
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		magic := make([]byte, 4)
		if _, err := image.ReadAt(magic, 0); err == nil && string(magic) == "QFI\xfb" {
			return Image{}, errors.New("the qcow2 image ends within its header")
		}

		return raw, nil
	case err != nil:
		return Image{}, fmt.Errorf("failed to read the header of the image: %w", err)
	case !isQcow:
		return raw, nil
	case header.Version != 2 && header.Version != 3:
		return Image{}, fmt.Errorf("the qcow2 image has version %d; use version 2 or 3", header.Version)
	case header.BackingFileOffset != 0:
		return Image{}, errors.New(
			"the qcow2 image has a backing file: it is not a whole disk; flatten it with qemu-img convert",
		)
	case header.Version == 3 && header.Features&externalData != 0:
		return Image{}, errors.New(
			"the qcow2 image has its data in another file: it is not a whole disk; combine " +
				"them with qemu-img convert",
		)
	case header.CryptMethod != 0:
		return Image{}, errors.New("the qcow2 image is encrypted, which the engine cannot read")
	case header.ClusterBits < 9 || header.ClusterBits > 21:
		return Image{}, fmt.Errorf("the qcow2 image has clusters of 2^%d bytes: its header is damaged",
			header.ClusterBits)
	case !header.fitsInto(size):
		return Image{}, fmt.Errorf(
			"the qcow2 image is truncated: the file of %d bytes ends before its tables; download it again",
			size,
		)
	case header.Size == 0 || header.Size%sector != 0 || header.Size > 1<<56:
		return Image{}, fmt.Errorf("the qcow2 image has a virtual size of %d bytes: its header is damaged", header.Size)
	}

	return Image{Format: FormatCow, FileSize: size, VirtualSize: int64(header.Size)}, nil
}

// NewReaderUntil returns a reader that fails when the context ends, because reading a large image takes long.
func NewReaderUntil(ctx context.Context, from io.Reader) io.Reader { return &readerUntil{ctx, from} }

type readerUntil struct {
	ctx  context.Context
	from io.Reader
}

// Read implements io.Reader.
func (r *readerUntil) Read(to []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}

	return r.from.Read(to)
}
