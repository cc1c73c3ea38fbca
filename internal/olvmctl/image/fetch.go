package image

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

const (
	// diskFolder is the folder of the disk in a container image. bootDisk is the name of the disk in OCK images.
	diskFolder, bootDisk = "disk", "boot.qcow2"
	// system is the operating system of all nodes.
	system = "linux"
)

// fetchDisk writes the boot disk to a file.
func (o Options) fetchDisk(ctx context.Context, disk string) error {
	info, err := os.Stat(o.From)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf(
			"%s is a folder; use a disk image, an archive of docker save, or the reference of a container image",
			o.From,
		)
	case err == nil && isArchive(o.From):
		image, err := tarball.ImageFromPath(o.From, nil)
		if err != nil {
			return fmt.Errorf("%s is not an archive of docker save with one image: %w", o.From, err)
		}

		return o.unpackDisk(ctx, image, disk)
	case err == nil:
		from, err := os.Open(o.From)
		if err != nil {
			return err
		}
		defer from.Close()
		if err := o.writeFile(ctx, disk, "reading "+filepath.Base(o.From), from, info.Size()); err != nil {
			return fmt.Errorf("failed to copy %s: %w", o.From, err)
		}

		return nil
	}

	// Parse strictly: the name of a missing file must not become an image in Docker's registry.
	ref, err := name.ParseReference(o.From, name.StrictValidation)
	if err != nil {
		return fmt.Errorf(
			"%q is neither an existing file nor the full reference of a container image, such as "+
				"container-registry.oracle.com/olcne/ock:1.33",
			o.From,
		)
	}

	o.Say("looking for %s", ref)
	image, err := o.pullImage(ctx, ref)
	if err != nil {
		return explainRegistry(ref, err)
	}

	return explainRegistry(ref, o.unpackDisk(ctx, image, disk))
}

// isArchive reports whether a file is a tar archive.
func isArchive(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	magic := make([]byte, 5)
	_, err = file.ReadAt(magic, 257)

	return err == nil && string(magic) == "ustar"
}

// pullImage finds the container image for the architecture. Its layers are downloaded only when they are read.
func (o Options) pullImage(ctx context.Context, ref name.Reference) (v1.Image, error) {
	found, err := remote.Get(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithUserAgent("olvmctl/"+version.Version))
	if err != nil {
		return nil, err
	}

	if !found.MediaType.IsIndex() {
		return found.Image()
	}

	index, err := found.ImageIndex()
	if err != nil {
		return nil, err
	}

	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}

	var there []string

	for _, one := range manifest.Manifests {
		if one.Platform == nil || one.Platform.OS != system {
			continue
		}

		if one.Platform.Architecture == o.Arch {
			return index.Image(one.Digest)
		}

		there = append(there, one.Platform.Architecture)
	}

	return nil, o.wrongArchError(there...)
}

// unfit is the reason why an image is unusable.
type unfit string

// Error implements error.
func (e unfit) Error() string { return string(e) }

// wrongArchError returns an error that lists the available architectures.
func (o Options) wrongArchError(there ...string) error {
	return unfit(
		fmt.Sprintf(
			"%s does not exist for %s, only for %s; use another --arch", o.From, o.Arch,
			cmp.Or(strings.Join(there, ", "), "none"),
		),
	)
}

// unpackDisk writes the disk to a file. The disk is disk/boot.qcow2 in the topmost layer with a disk, or else the only
// qcow2 file there.
func (o Options) unpackDisk(ctx context.Context, image v1.Image, disk string) error {
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}

	if config.Architecture != "" && config.Architecture != o.Arch {
		return o.wrongArchError(config.Architecture)
	}

	layers, err := image.Layers()
	if err != nil {
		return err
	}

	for _, layer := range slices.Backward(layers) {
		if found, err := o.unpackLayer(ctx, layer, disk); err != nil || found {
			return err
		}
	}

	return unfit(
		fmt.Sprintf(
			"%s has neither %s/%s nor another qcow2 file in this folder; use an image with the boot disk of a node",
			o.From,
			diskFolder, bootDisk,
		),
	)
}

// unpackLayer looks for the disk in a layer. It reads the whole layer, because the library verifies the digest only at
// the end.
func (o Options) unpackLayer(ctx context.Context, layer v1.Layer, disk string) (bool, error) {
	content, err := layer.Uncompressed()
	if err != nil {
		return false, err
	}
	defer content.Close()
	found := ""

	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			return false, err
		}

		at := path.Clean("/" + header.Name)

		base := path.Base(at)
		switch {
		case header.Typeflag != tar.TypeReg || path.Dir(at) != "/"+diskFolder || path.Ext(base) != ".qcow2" ||
			found == bootDisk:
			continue
		case found != "" && base != bootDisk:
			return false, unfit(
				fmt.Sprintf(
					"%s has %s and %s in %s/, but no %s; extract one of them, and specify it with --from", o.From,
					found, base, diskFolder, bootDisk,
				),
			)
		}

		found = base
		if err := o.writeFile(ctx, disk, "downloading "+base, archive, header.Size); err != nil {
			return false, err
		}
	}

	_, err = io.Copy(io.Discard, engine.NewReaderUntil(ctx, content))

	return found != "", err
}

// explainRegistry adds a remedy to an error from a registry.
func explainRegistry(ref name.Reference, err error) error {
	var answer *transport.Error

	var own unfit
	switch {
	case err == nil || errors.As(err, &own):
		return err
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return fmt.Errorf("image %s not found in the registry; use another version: %w", ref, err)
	case errors.As(err, &answer) &&
		(answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		return fmt.Errorf("access to %s denied; log in with podman login %s, or docker login: %w",
			ref, ref.Context().RegistryStr(), err)
	}

	return fmt.Errorf("failed to get %s: %w", ref, err)
}
