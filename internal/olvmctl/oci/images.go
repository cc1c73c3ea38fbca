package oci

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oracle/oci-go-sdk/v65/common"
	"github.com/oracle/oci-go-sdk/v65/core"
	"github.com/oracle/oci-go-sdk/v65/objectstorage"
	"github.com/oracle/oci-go-sdk/v65/objectstorage/transfer"
	"github.com/oracle/oci-go-sdk/v65/workrequests"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

const (
	// imageName is the display name of images. architectureTag and kubernetesTag tell what an image is for, as in
	// Oracle's command.
	imageName       = "ock"
	architectureTag = "ocne/architecture"
	kubernetesTag   = "ocne/kubernetes"
	// importingTag marks images whose import has not finished. Its value is the source object as BUCKET/OBJECT.
	importingTag = "olvmctl/importing"
	// partSize is the size of each part of an upload.
	partSize = 32 << 20
	// The interval between checks of an import grows from firstPoll to lastPoll.
	firstPoll = 500 * time.Millisecond
	lastPoll  = 10 * time.Second
	// firmware is the capability that defines the boot method of an image. ARM machines support only one method.
	firmware, uefi = "Compute.Firmware", "UEFI_64"
)

// ARM is the architecture of shapes with Ampere processors. AMD64 is the architecture of all other shapes.
const (
	ARM   = "arm64"
	AMD64 = "amd64"
)

// armShapes are the shapes that need ARM images.
var armShapes = []string{"VM.Standard.A1.Flex", "VM.Standard.A2.Flex"}

// ArchitectureOf returns the architecture of a shape.
func ArchitectureOf(shape string) string {
	if strings.Contains(shape, ".A1.") || strings.Contains(shape, ".A2.") {
		return ARM
	}

	return AMD64
}

// Wanted describes a wanted image.
type Wanted struct {
	// Compartment is the OCID of its compartment.
	Compartment string
	// Architecture is ARM or AMD64. Kubernetes is the Kubernetes version in the image, such as 1.33.5.
	Architecture, Kubernetes string
}

func (w Wanted) String() string {
	return fmt.Sprintf("an image with %s=%s and %s=%s", architectureTag, w.Architecture, kubernetesTag, w.Kubernetes)
}

// matchesImage reports whether an image is a wanted image. If the version in its tag has no patch version, it matches
// any patch version.
func (w Wanted) matchesImage(image *core.Image) bool {
	minor := w.Kubernetes
	if parts := strings.Split(w.Kubernetes, "."); len(parts) > 2 {
		minor = strings.Join(parts[:2], ".")
	}

	has := strings.TrimPrefix(image.FreeformTags[kubernetesTag], "v")

	return image.FreeformTags[architectureTag] == w.Architecture && (has == w.Kubernetes || has == minor)
}

// FindImage returns the newest wanted image that is usable or being imported, or nil if there is none.
func (c *Cloud) FindImage(ctx context.Context, w Wanted) (*core.Image, error) {
	var found []core.Image
	request := core.ListImagesRequest{CompartmentId: &w.Compartment}

	for {
		response, err := c.compute.ListImages(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("failed to list the images of compartment %s: %w", w.Compartment, explainError(err))
		}

		for i := range response.Items {
			image := &response.Items[i]
			usable := image.LifecycleState == core.ImageLifecycleStateAvailable ||
				image.LifecycleState == core.ImageLifecycleStateImporting
			if usable && w.matchesImage(image) {
				found = append(found, *image)
			}
		}

		if request.Page = response.OpcNextPage; request.Page == nil {
			break
		}
	}

	if len(found) == 0 {
		return nil, nil
	}

	finished := func(image core.Image) int {
		if IsUnfinished(&image) {
			return 0
		}

		return 1
	}
	newest := slices.MaxFunc(found, func(a, b core.Image) int {
		return cmp.Or(
			cmp.Compare(finished(a), finished(b)),
			cmp.Compare(a.FreeformTags[kubernetesTag], b.FreeformTags[kubernetesTag]),
			a.TimeCreated.Compare(b.TimeCreated.Time),
		)
	})

	return &newest, nil
}

// IsUnfinished reports whether an image is still being imported. Its import may have been interrupted.
func IsUnfinished(image *core.Image) bool {
	return image.LifecycleState == core.ImageLifecycleStateImporting || image.FreeformTags[importingTag] != ""
}

// Import describes an import of an image.
type Import struct {
	Wanted
	// File is the qcow2 disk to upload to Bucket. If the bucket does not exist, it is created.
	File, Bucket string
	// Uploaded and Imported receive the progress. The progress of Imported is in percent.
	Uploaded func(done, total int64)
	Imported func(percent int)
}

// CheckFile returns an error if the file cannot be imported.
func (i Import) CheckFile() error {
	file, err := os.Open(i.File)
	if err != nil {
		return fmt.Errorf("the image for %s: %w", i.Architecture, err)
	}
	defer file.Close()

	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("the image for %s: %w", i.Architecture, err)
	}

	image, err := engine.ReadImage(file, info.Size())
	if err != nil {
		return fmt.Errorf("the image for %s: %s: %w", i.Architecture, i.File, err)
	}

	if image.Format != engine.FormatCow {
		return fmt.Errorf("the image for %s: %s is not a qcow2 image, which OCI requires; convert it with qemu-img "+
			"convert -O qcow2", i.Architecture, i.File)
	}

	return nil
}

// ImportImage uploads and imports an image. It returns the OCID once the image is usable. An interrupted import
// continues: a file in the bucket is not uploaded again, and FinishImage completes an import that has started.
func (c *Cloud) ImportImage(ctx context.Context, i Import) (string, error) {
	space, object, err := c.uploadImage(ctx, i)
	if err != nil {
		return "", fmt.Errorf("failed to upload %s: %w", i.File, explainError(err))
	}

	name := imageName
	made, err := c.compute.CreateImage(ctx, core.CreateImageRequest{
		CreateImageDetails: core.CreateImageDetails{
			CompartmentId: &i.Compartment,
			DisplayName:   &name,
			LaunchMode:    core.CreateImageDetailsLaunchModeParavirtualized,
			FreeformTags: map[string]string{
				architectureTag: i.Architecture,
				kubernetesTag:   i.Kubernetes,
				importingTag:    i.Bucket + "/" + object,
			},
			ImageSourceDetails: core.ImageSourceViaObjectStorageTupleDetails{
				NamespaceName:   &space,
				BucketName:      &i.Bucket,
				ObjectName:      &object,
				SourceImageType: core.ImageSourceDetailsSourceImageTypeQcow2,
			},
		},
		OpcRetryToken: common.String(common.RetryToken()),
	})
	if err != nil {
		return "", fmt.Errorf("failed to import %s: %w", i.File, explainError(err))
	}

	return *made.Id, c.FinishImage(ctx, &made.Image, i.Imported)
}

// FinishImage waits until an image is imported, makes it usable, and removes the uploaded file.
func (c *Cloud) FinishImage(ctx context.Context, image *core.Image, imported func(percent int)) error {
	if err := c.awaitImage(ctx, image, imported); err != nil {
		return err
	}

	if err := c.offerToShapes(ctx, image); err != nil {
		return err
	}

	bucket, object, ours := strings.Cut(image.FreeformTags[importingTag], "/")
	if !ours {
		return nil
	}

	space, err := c.fetchNamespace(ctx)
	if err != nil {
		return err
	}

	_, err = c.storage.DeleteObject(ctx, objectstorage.DeleteObjectRequest{
		NamespaceName: &space, BucketName: &bucket, ObjectName: &object,
	})
	if err != nil && !isNotFound(err) {
		return fmt.Errorf("failed to remove %s from bucket %s: %w", object, bucket, explainError(err))
	}

	tags := maps.Clone(image.FreeformTags)
	delete(tags, importingTag)

	_, err = c.compute.UpdateImage(ctx, core.UpdateImageRequest{
		ImageId: image.Id, UpdateImageDetails: core.UpdateImageDetails{FreeformTags: tags},
	})
	if err != nil {
		return fmt.Errorf("failed to finish image %s: %w", *image.Id, explainError(err))
	}

	return nil
}

// uploadImage uploads the file to the bucket. It derives the name of the object from the content.
func (c *Cloud) uploadImage(ctx context.Context, i Import) (space, object string, err error) {
	sum, size, err := sumOf(i.File)
	if err != nil {
		return "", "", err
	}

	object = fmt.Sprintf("%s-%s-%s-%x.qcow2", imageName, i.Kubernetes, i.Architecture, sum[:6])
	if space, err = c.fetchNamespace(ctx); err != nil {
		return "", "", err
	}

	if err := c.ensureBucket(ctx, space, i); err != nil {
		return "", "", err
	}

	head, err := c.storage.HeadObject(ctx, objectstorage.HeadObjectRequest{
		NamespaceName: &space, BucketName: &i.Bucket, ObjectName: &object,
	})
	if err == nil && head.ContentLength != nil && *head.ContentLength == size {
		i.Uploaded(size, size)
		return space, object, nil
	}

	// The SDK limits a request to one minute, and large parts need more. The context can end them, too.
	storage := c.storage
	storage.HTTPClient = &http.Client{}

	counter := &counter{size: size, say: i.Uploaded}
	defer counter.stopReporting()

	_, err = transfer.NewUploadManager().UploadFile(ctx, transfer.UploadFileRequest{
		FilePath: i.File,
		UploadRequest: transfer.UploadRequest{
			NamespaceName:       &space,
			BucketName:          &i.Bucket,
			ObjectName:          &object,
			PartSize:            common.Int64(partSize),
			ObjectStorageClient: &storage,
			CallBack: func(part transfer.MultiPartUploadPart) {
				if part.Err == nil {
					counter.addBytes(partSize)
				}
			},
		},
	})
	if err == nil {
		counter.addBytes(size)
	}

	return space, object, err
}

// counter reports the progress of an upload whose parts end concurrently.
type counter struct {
	mu         sync.Mutex
	done, size int64
	ended      bool
	say        func(done, total int64)
}

func (c *counter) addBytes(more int64) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if !c.ended && c.done < c.size {
		c.done = min(c.done+more, c.size)
		c.say(c.done, c.size)
	}
}

// stopReporting stops all reports, because the SDK may report a part after the end of the upload.
func (c *counter) stopReporting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// fetchNamespace returns the object storage namespace of the tenancy.
func (c *Cloud) fetchNamespace(ctx context.Context) (string, error) {
	found, err := c.storage.GetNamespace(ctx, objectstorage.GetNamespaceRequest{})
	if err != nil {
		return "", fmt.Errorf("failed to get the object storage namespace: %w", explainError(err))
	}

	return *found.Value, nil
}

func (c *Cloud) ensureBucket(ctx context.Context, space string, i Import) error {
	_, err := c.storage.GetBucket(ctx, objectstorage.GetBucketRequest{NamespaceName: &space, BucketName: &i.Bucket})
	if !isNotFound(err) {
		return err
	}

	_, err = c.storage.CreateBucket(ctx, objectstorage.CreateBucketRequest{
		NamespaceName:       &space,
		CreateBucketDetails: objectstorage.CreateBucketDetails{Name: &i.Bucket, CompartmentId: &i.Compartment},
	})

	return err
}

// sumOf returns the checksum and the size of a file.
func sumOf(path string) (sum []byte, size int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()

	hash := sha256.New()
	size, err = io.Copy(hash, file)

	return hash.Sum(nil), size, err
}

// awaitImage waits until an image is imported. If the import fails, it returns the error of the work request.
func (c *Cloud) awaitImage(ctx context.Context, image *core.Image, imported func(percent int)) error {
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		found, err := c.compute.GetImage(ctx, core.GetImageRequest{ImageId: image.Id})

		switch {
		case err == nil && found.LifecycleState == core.ImageLifecycleStateAvailable:
			imported(100)
			return nil
		case err != nil && !isNotFound(err):
			return fmt.Errorf("image %s: %w", *image.Id, explainError(err))
		}

		percent, failure := c.fetchProgress(ctx, image)
		if failure != nil {
			return failure
		}

		imported(percent)

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// fetchProgress returns the progress of an image's import. If the import has failed, the error tells why.
func (c *Cloud) fetchProgress(ctx context.Context, image *core.Image) (percent int, err error) {
	list, err := c.work.ListWorkRequests(ctx, workrequests.ListWorkRequestsRequest{
		CompartmentId: image.CompartmentId, ResourceId: image.Id,
	})
	if err != nil {
		return 0, fmt.Errorf("failed to list the work requests of image %s: %w", *image.Id, explainError(err))
	}

	for _, request := range list.Items {
		if request.Status != workrequests.WorkRequestSummaryStatusFailed {
			percent = int(*request.PercentComplete)
			continue
		}

		failures, err := c.work.ListWorkRequestErrors(ctx, workrequests.ListWorkRequestErrorsRequest{
			WorkRequestId: request.Id,
		})
		if err != nil {
			return 0, fmt.Errorf("work request %s failed for an unknown reason: %w", *request.Id, explainError(err))
		}

		problems := []error{fmt.Errorf("the import of image %s failed, work request %s", *image.Id, *request.Id)}
		for _, failure := range failures.Items {
			problems = append(problems, fmt.Errorf("%s: %s", *failure.Code, *failure.Message))
		}

		return 0, errors.Join(problems...)
	}

	return percent, nil
}

// offerToShapes makes an ARM image usable with ARM shapes, and sets its boot method. It is idempotent.
func (c *Cloud) offerToShapes(ctx context.Context, image *core.Image) error {
	if image.FreeformTags[architectureTag] != ARM {
		return nil
	}

	for _, shape := range armShapes {
		_, err := c.compute.AddImageShapeCompatibilityEntry(ctx, core.AddImageShapeCompatibilityEntryRequest{
			ImageId: image.Id, ShapeName: &shape,
		})
		if err != nil {
			return fmt.Errorf("failed to make image %s compatible with shape %s: %w", *image.Id, shape,
				explainError(err))
		}
	}

	there, err := c.compute.ListComputeImageCapabilitySchemas(ctx, core.ListComputeImageCapabilitySchemasRequest{
		ImageId: image.Id,
	})
	if err != nil || len(there.Items) > 0 {
		return explainError(err)
	}

	known, err := c.compute.ListComputeGlobalImageCapabilitySchemas(ctx,
		core.ListComputeGlobalImageCapabilitySchemasRequest{})
	if err == nil && len(known.Items) == 0 {
		err = errors.New("no image capabilities found")
	}

	if err != nil {
		return fmt.Errorf("failed to get the image capabilities: %w", explainError(err))
	}

	boots := uefi
	_, err = c.compute.CreateComputeImageCapabilitySchema(ctx, core.CreateComputeImageCapabilitySchemaRequest{
		CreateComputeImageCapabilitySchemaDetails: core.CreateComputeImageCapabilitySchemaDetails{
			CompartmentId: image.CompartmentId,
			ImageId:       image.Id,
			ComputeGlobalImageCapabilitySchemaVersionName: known.Items[0].CurrentVersionName,
			SchemaData: map[string]core.ImageCapabilitySchemaDescriptor{
				firmware: core.EnumStringImageCapabilitySchemaDescriptor{
					Values: []string{uefi}, DefaultValue: &boots,
					Source: core.ImageCapabilitySchemaDescriptorSourceImage,
				},
			},
		},
	})
	if err != nil {
		return fmt.Errorf("failed to set the boot capabilities of image %s: %w", *image.Id, explainError(err))
	}

	return nil
}
