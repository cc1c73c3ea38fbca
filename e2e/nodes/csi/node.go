package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeID returns the ID of this node's VM from the system UUID. Without a node name, it returns "".
func nodeID(ctx context.Context) (string, error) {
	if flags.node == "" {
		return "", nil
	}

	client, err := inCluster()
	if err != nil {
		return "", err
	}

	node, err := client.CoreV1().Nodes().Get(ctx, flags.node, metav1.GetOptions{})
	if err != nil {
		return "", err
	}

	return node.Status.NodeInfo.SystemUUID, nil
}

// mounter mounts the disks of its node.
type mounter struct {
	csi.UnimplementedNodeServer

	node string
}

func (m mounter) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: m.node}, nil
}

func (mounter) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

func (mounter) NodePublishVolume(
	ctx context.Context, r *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	target := r.GetTargetPath()
	device, err := deviceOf(ctx, r.GetVolumeId())
	if err == nil {
		err = format(ctx, device)
	}

	if err == nil {
		err = os.MkdirAll(target, 0o750)
	}

	if err == nil {
		err = unix.Mount(device, target, "ext4", 0, "")
	}

	if errors.Is(err, unix.EBUSY) { // the device is already mounted there
		err = nil
	}

	return &csi.NodePublishVolumeResponse{}, err
}

func (mounter) NodeUnpublishVolume(
	_ context.Context, r *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	err := unix.Unmount(r.GetTargetPath(), 0)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		err = nil
	}

	return &csi.NodeUnpublishVolumeResponse{}, errors.Join(err, os.RemoveAll(r.GetTargetPath()))
}

// deviceOf waits until a disk appears in the guest, and returns its device. The device has udev's name for a
// virtio-scsi disk.
func deviceOf(ctx context.Context, disk string) (string, error) {
	path := "/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_" + disk

	for {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}

		select {
		case <-ctx.Done():
			return "", fmt.Errorf("the guest has no %s", path)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// format creates a file system on a device, unless the device already has one.
func format(ctx context.Context, device string) error {
	file, err := os.Open(device)
	if err != nil {
		return err
	}
	defer file.Close()

	const place = 1024 + 0x38 // the place of ext4's magic number

	magic := make([]byte, 2)
	if _, err := file.ReadAt(magic, place); err != nil {
		return err
	}

	if magic[0] == 0x53 && magic[1] == 0xef {
		return nil
	}

	output, err := exec.CommandContext(ctx, "/usr/sbin/mkfs.ext4", "-q", device).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, output)
	}

	return nil
}
