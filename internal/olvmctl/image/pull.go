package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
)

// OracleCloud is Ignition's name of Oracle Cloud.
const OracleCloud = "oraclecloud"

// IsReference reports whether a text names a container image with its registry, and no file of this machine.
func IsReference(text string) bool {
	if _, err := os.Stat(text); err == nil {
		return false
	}

	_, err := name.ParseReference(text, name.StrictValidation)

	return err == nil
}

// IsOCK reports whether a reference names a boot image of OCK, by the last element of its repository. Such an image
// needs Ignition.
func IsOCK(reference string) bool {
	ref, err := name.ParseReference(reference, name.StrictValidation)
	if err != nil {
		return false
	}

	base := path.Base(ref.Context().RepositoryStr())

	return base == "ock" || base == "ock-ostree"
}

// Digest asks the registry for the image of the architecture, and returns the reference with its digest.
func (o Options) Digest(ctx context.Context) (name.Digest, error) {
	ref, err := name.ParseReference(o.From, name.StrictValidation)
	if err != nil {
		return name.Digest{}, fmt.Errorf("%q is not the full reference of a container image: %w", o.From, err)
	}

	image, err := o.pullImage(ctx, ref)
	if err != nil {
		return name.Digest{}, explainRegistry(ref, err)
	}

	config, err := image.ConfigFile()
	if err != nil {
		return name.Digest{}, explainRegistry(ref, err)
	}

	if config.Architecture != "" && config.Architecture != o.Arch {
		return name.Digest{}, o.wrongArchError(config.Architecture)
	}

	digest, err := image.Digest()
	if err != nil {
		return name.Digest{}, explainRegistry(ref, err)
	}

	return ref.Context().Digest(digest.String()), nil
}

// Pull writes the disk of a container image to a folder, and returns the file. A file of an earlier run is taken again
// if it has the same digest and the same platform. Without a platform, the disk stays as it is.
func (o Options) Pull(ctx context.Context, folder string) (string, error) {
	digest, err := o.Digest(ctx)
	if err != nil {
		return "", err
	}

	o.Say("%s for %s is %s", o.From, o.Arch, digest.DigestStr())

	base := digest.DigestStr()[len("sha256:"):] + "-" + o.Arch
	if o.Arguments.Platform != "" {
		base += "-" + o.Arguments.Platform
	}

	o.Output = filepath.Join(folder, base+".qcow2")
	if _, err := os.Stat(o.Output); err == nil {
		o.Say("using %s from an earlier run", o.Output)
		return o.Output, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}

	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("failed to create the folder of images: %w", err)
	}

	o.From = digest.String() // even if the tag moves now

	return o.Output, o.create(ctx)
}
