package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/oracle/oci-go-sdk/v65/core"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/image"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/oci"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
)

// This file handles the images of machines on OCI.

// wantedImage describes the image for an architecture.
func (o *OCI) wantedImage(c *creation, architecture string) oci.Wanted {
	return oci.Wanted{Compartment: o.compartment, Architecture: architecture, Kubernetes: c.File.OCIKubernetes()}
}

// findImages finds the images of the machines: those named in the cluster file, or else the newest images in the
// compartment. An image whose import is still running counts as unfinished.
func (o *OCI) findImages(ctx context.Context, c *creation) error {
	o.images, o.unfinished = map[string]string{}, map[string]*core.Image{}
	written := writtenImages(c)

	for _, architecture := range architecturesOf(c) {
		id := written[architecture]
		if id == "" {
			found, err := o.cloud.FindImage(ctx, o.wantedImage(c, architecture))
			if err != nil {
				return err
			}

			if found != nil {
				id = *found.Id
			}

			if found != nil && oci.IsUnfinished(found) {
				o.unfinished[architecture] = found
			}
		}

		o.images[architecture] = id
	}

	return nil
}

// diskFor returns the disk to import for an architecture: that of --image, or else the boot image of the cluster file.
// It is a file, the reference of a container image, or "".
func (o *OCI) diskFor(c *creation, architecture string) string {
	return cmp.Or(o.Files[architecture], settingsOfOCI(c).BootImage)
}

// bootImage returns how to pull a container image for an architecture. Images of OCK get the platform of Oracle Cloud.
func bootImage(c *creation, reference, architecture string) image.Options {
	out := image.Options{
		From: reference, Arch: architecture, Say: c.Display.PrintLine,
		Progress: func(what string) func(done, total int64) { return progress.TransferProgress(c.Display, what) },
	}
	if image.IsOCK(reference) {
		out.Arguments = image.Arguments{Platform: image.OracleCloud, KeepConsole: true}
	}

	return out
}

// imagesDir returns the folder of pulled disks.
func imagesDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("failed to find the folder for pulled images: %w", err)
	}

	return filepath.Join(base, "capolvm", "images"), nil
}

// pullDisk pulls the disk for an architecture if it is in a registry, and returns its file.
func (o *OCI) pullDisk(ctx context.Context, c *creation, architecture string) (string, error) {
	disk := o.diskFor(c, architecture)
	if !image.IsReference(disk) {
		return disk, nil
	}

	if image.IsOCK(disk) {
		c.Display.PrintLine(
			"%s requires a bootstrap provider with Ignition 3; the kubeadm bootstrap provider writes Ignition 2, "+
				"so its OCK machines do not become nodes",
			disk,
		)
	}

	folder, err := imagesDir()
	if err != nil {
		return "", err
	}

	file, err := bootImage(c, disk, architecture).Pull(ctx, folder)
	if err != nil {
		return "", fmt.Errorf("failed to find the image for %s: %w", architecture, err)
	}

	return file, oci.Import{Wanted: o.wantedImage(c, architecture), File: file}.CheckFile()
}

// checkImages returns an error about missing images without a disk to import. It asks registries, and pulls nothing.
func (o *OCI) checkImages(ctx context.Context, c *creation) error {
	var problems []error

	for _, architecture := range architecturesOf(c) {
		file := o.diskFor(c, architecture)

		switch {
		case o.images[architecture] != "":
		case image.IsReference(file):
			if _, err := bootImage(c, file, architecture).Digest(ctx); err != nil {
				problems = append(problems, fmt.Errorf("failed to find the image for %s: %w", architecture, err))
			}
		case file != "":
			problems = append(problems, oci.Import{Wanted: o.wantedImage(c, architecture), File: file}.CheckFile())
		default:
			problems = append(problems, fmt.Errorf("compartment %s does not have %s; specify a disk with --image "+
				"%s=FILE, or set providers.oci.images.%[3]s or providers.oci.bootImage",
				settingsOfOCI(c).Compartment, o.wantedImage(c, architecture), architecture))
		}
	}

	return errors.Join(problems...)
}

// chooseImages finds and checks the images of a new cluster. If the cluster file contains its own manifests, they name
// their images.
func (o *OCI) chooseImages(ctx context.Context, c *creation) error {
	if c.File.Objects != nil {
		return checkImageIDs(c.File.Objects)
	}

	if err := o.findImages(ctx, c); err != nil {
		return err
	}

	return o.checkImages(ctx, c)
}

// checkImageIDs returns an error about machine templates without an image.
func checkImageIDs(objects []*unstructured.Unstructured) error {
	var problems []error

	for _, object := range objects {
		if object.GetKind() != "OCIMachineTemplate" {
			continue
		}

		id, _ := machineSpec(object)[clusterctl.OCI.ImageField].(string)
		if !strings.HasPrefix(id, "ocid1.image") {
			problems = append(problems, fmt.Errorf("OCIMachineTemplate %s: spec.template.spec.imageId: %q is not "+
				"the OCID of an image", object.GetName(), id))
		}
	}

	return errors.Join(problems...)
}

// FindImages implements Provider.
func (o *OCI) FindImages(c *creation) []Step { return o.ValidationSteps(c) }

// ImageSteps implements Provider.
func (o *OCI) ImageSteps(c *creation) []Step {
	if c.File.Objects != nil {
		return nil // they name their images
	}

	var out []Step

	for _, architecture := range architecturesOf(c) {
		out = append(out, Step{
			name:   "Importing the image for " + architecture,
			needed: func() bool { return o.images[architecture] == "" },
			run:    func(ctx context.Context) error { return o.importImage(ctx, c, architecture) },
		}, Step{
			name:   "Finishing the image for " + architecture,
			quiet:  true,
			needed: func() bool { return o.unfinished[architecture] != nil },
			run:    func(ctx context.Context) error { return o.finishImage(ctx, c, o.unfinished[architecture]) },
		})
	}

	return out
}

// importImage imports the image for an architecture from its file.
func (o *OCI) importImage(ctx context.Context, c *creation, architecture string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()

	file, err := o.pullDisk(ctx, c, architecture)
	if err != nil {
		return err
	}

	o.images[architecture], err = o.cloud.ImportImage(ctx, oci.Import{
		Wanted:   o.wantedImage(c, architecture),
		File:     file,
		Bucket:   settingsOfOCI(c).ImageBucket,
		Uploaded: progress.TransferProgress(c.Display, "uploading "+file),
		Imported: sayPercents(c.Display, "importing "+file),
	})

	return err
}

// finishImage waits for the image import of an earlier Create.
func (o *OCI) finishImage(ctx context.Context, c *creation, found *core.Image) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()

	return o.cloud.FinishImage(ctx, found, sayPercents(c.Display, "importing image "+*found.Id))
}

// sayPercents returns a function to show each percentage once.
func sayPercents(display *progress.Display, what string) func(percent int) {
	said := -1

	return func(percent int) {
		if percent != said {
			display.PrintLine("%s: %d %%", what, percent)
		}

		said = percent
	}
}

// findUsedImages returns the images used by the control plane and the workers in the management cluster. An image is ""
// for new machines.
func findUsedImages(
	ctx context.Context, c *creation, objects []*unstructured.Unstructured,
) (controlPlane, workers string, err error) {
	written, used := writtenImages(c), map[string]string{}

	for _, object := range objects {
		live, err := fetchLiveOwner(ctx, c.management.Cluster, object)
		if err != nil {
			return "", "", err
		}

		if live == nil {
			continue
		}

		template, err := fetchTemplate(ctx, c.management.Cluster, live)
		if apierrors.IsNotFound(err) {
			continue
		}

		if err != nil {
			return "", "", err
		}

		used[object.GetKind()], _ = machineSpec(template)[clusterctl.OCI.ImageField].(string)
	}

	o := settingsOfOCI(c)
	controlPlane = cmp.Or(written[oci.ArchitectureOf(o.ControlPlaneShape.Shape)], used["KubeadmControlPlane"])
	workers = cmp.Or(written[oci.ArchitectureOf(o.WorkerShape.Shape)], used["MachineDeployment"])

	return controlPlane, workers, nil
}
