package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// connect opens a session with the engine, using the driver's configuration.
func connect() (*engine.Client, error) {
	content, err := os.ReadFile(os.Getenv("OVIRT_CONFIG"))
	if err != nil {
		return nil, err
	}

	var config struct {
		URL      string `json:"ovirt_url"`
		Username string `json:"ovirt_username"`
		Password string `json:"ovirt_password"`
		CAFile   string `json:"ovirt_cafile"`
	}
	if err := yaml.Unmarshal(content, &config); err != nil {
		return nil, err
	}

	ca, err := os.ReadFile(config.CAFile)
	if err != nil {
		return nil, err
	}

	return engine.New(engine.Config{
		URL: strings.TrimSuffix(config.URL, "/api"), Username: config.Username, Password: config.Password, CA: ca,
	})
}

// controller creates disks in the engine, and attaches them to VMs.
type controller struct {
	csi.UnimplementedControllerServer
}

func (controller) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	out := &csi.ControllerGetCapabilitiesResponse{}

	for _, kind := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
	} {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: kind}},
		})
	}

	return out, nil
}

func (controller) CreateVolume(ctx context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	session, err := connect()
	if err != nil {
		return nil, err
	}

	defer func() { _ = session.Logout(ctx) }()

	center, err := session.FindDataCenter(ctx, "Default")
	if err != nil {
		return nil, err
	}

	domain, err := session.FindStorageDomain(ctx, center, r.GetParameters()["storageDomainName"])
	if err != nil {
		return nil, err
	}

	size := r.GetCapacityRange().GetRequiredBytes()
	disk, err := session.CreateDiskOnce(ctx, "", &engine.Disk{
		Alias: ptr.To(r.GetName()), Format: "cow", Sparse: ptr.To(true), ProvisionedSize: size,
		StorageDomains: &engine.StorageDomains{Items: []engine.Ref{{ID: domain.ID}}},
	}, nil, nil)
	if err != nil {
		return nil, err
	}

	if err := session.WaitDisk(ctx, disk.ID, nil); err != nil {
		return nil, err
	}

	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: disk.ID.String(), CapacityBytes: size}}, nil
}

func (controller) DeleteVolume(ctx context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	session, err := connect()
	if err != nil {
		return nil, err
	}

	defer func() { _ = session.Logout(ctx) }()

	return &csi.DeleteVolumeResponse{}, session.RemoveDisk(ctx, engine.ID(r.GetVolumeId()), nil)
}

func (controller) ControllerPublishVolume(
	ctx context.Context, r *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	session, err := connect()
	if err != nil {
		return nil, err
	}

	defer func() { _ = session.Logout(ctx) }()

	vm, disk := engine.ID(r.GetNodeId()), engine.ID(r.GetVolumeId())
	if _, err := session.FetchDiskAttachment(ctx, vm, disk); err == nil {
		return &csi.ControllerPublishVolumeResponse{}, nil
	}

	_, err = session.AttachDisk(ctx, vm, &engine.DiskAttachment{
		Active: ptr.To(true), Bootable: ptr.To(false), Interface: "virtio_scsi", Disk: &engine.Disk{ID: disk},
	})

	return &csi.ControllerPublishVolumeResponse{}, err
}

func (controller) ControllerUnpublishVolume(
	ctx context.Context, r *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	session, err := connect()
	if err != nil {
		return nil, err
	}

	defer func() { _ = session.Logout(ctx) }()

	err = session.DetachDisk(ctx, engine.ID(r.GetNodeId()), engine.ID(r.GetVolumeId()))
	if engine.IsNotFound(err) {
		err = nil
	}

	return &csi.ControllerUnpublishVolumeResponse{}, err
}

// inCluster returns a client with the rights of the pod.
func inCluster() (*kubernetes.Clientset, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, err
	}

	return kubernetes.NewForConfig(config)
}

// provision looks again and again for claims without a volume, and for volumes without a claim.
func provision(ctx context.Context) error {
	client, err := inCluster()
	if err != nil {
		return err
	}

	connection, err := dial()
	if err != nil {
		return err
	}

	driver := csi.NewControllerClient(connection)

	for ctx.Err() == nil {
		if err := provisionOnce(ctx, client, driver); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}

		time.Sleep(500 * time.Millisecond)
	}

	return nil
}

func provisionOnce(ctx context.Context, client *kubernetes.Clientset, driver csi.ControllerClient) error {
	claims, err := client.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}

	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.Annotations["volume.kubernetes.io/storage-provisioner"] != driverName || claim.Spec.VolumeName != "" {
			continue
		}

		if err := provisionClaim(ctx, client, driver, claim); err != nil {
			return err
		}
	}

	volumes, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}

	for i := range volumes.Items {
		volume := &volumes.Items[i]
		if volume.Status.Phase != corev1.VolumeReleased || volume.Spec.CSI == nil {
			continue
		}

		_, err := driver.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: volume.Spec.CSI.VolumeHandle})
		if err != nil {
			return err
		}

		if err := client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}

	return nil
}

// provisionClaim creates the volume of a claim.
func provisionClaim(
	ctx context.Context, client *kubernetes.Clientset, driver csi.ControllerClient, claim *corev1.PersistentVolumeClaim,
) error {
	name := "pvc-" + string(claim.UID)
	if _, err := client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return err // if the volume exists, it will be bound
	}

	class, err := client.StorageV1().StorageClasses().Get(ctx, *claim.Spec.StorageClassName, metav1.GetOptions{})
	if err != nil {
		return err
	}

	wanted := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	made, err := driver.CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: name, Parameters: class.Parameters, CapacityRange: &csi.CapacityRange{RequiredBytes: wanted.Value()},
	})
	if err != nil {
		return err
	}

	_, err = client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: wanted}, AccessModes: claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, StorageClassName: class.Name,
			ClaimRef: &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driverName, VolumeHandle: made.GetVolume().GetVolumeId(),
			}},
		},
	}, metav1.CreateOptions{})

	return err
}
