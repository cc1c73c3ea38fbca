package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Disk is a block device of a machine: a file behind a loop device of the host.
type Disk struct {
	// Name is the disk's name below /dev, such as vdb. ID is its name below /dev/disk/by-id.
	Name, ID string
	// Loop is the host's loop device, such as /dev/loop3.
	Loop string
}

// OpenDisk creates the file of a disk with at least the given size in bytes, and a loop device for the file.
func OpenDisk(file string, size int64, readOnly bool) (loop string, err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", err
	}

	content, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer content.Close()

	info, err := content.Stat()
	if err == nil && info.Size() < size {
		err = content.Truncate(size)
	}

	if err != nil {
		return "", err
	}

	args := []string{"--find", "--show"}
	if readOnly {
		args = append(args, "--read-only")
	}

	output, err := runLosetup(append(args, file)...)

	return strings.TrimSpace(output), err
}

// Close detaches the loop device. The kernel keeps the device as long as it is mounted.
func (d Disk) Close() error {
	_, err := runLosetup("--detach", d.Loop)
	return err
}

// closeDisks detaches the loop devices of files below a folder.
func closeDisks(dir string) error {
	output, err := runLosetup("--list", "--json", "--output", "NAME,BACK-FILE")
	if err != nil || output == "" {
		return err
	}

	var list struct {
		Devices []struct {
			Name string `json:"name"`
			File string `json:"back-file"`
		} `json:"loopdevices"`
	}
	if err := json.Unmarshal([]byte(output), &list); err != nil {
		return fmt.Errorf("failed to list loop devices: %w", err)
	}

	var problems []error

	for _, device := range list.Devices {
		if strings.HasPrefix(device.File, dir+"/") {
			problems = append(problems, Disk{Loop: device.Name}.Close())
		}
	}

	return errors.Join(problems...)
}

func runLosetup(args ...string) (string, error) {
	output, err := exec.Command("losetup", args...).CombinedOutput() //nolint:noctx // at once
	if err != nil {
		return "", fmt.Errorf("losetup %s: %w: %s", strings.Join(args, " "), err, output)
	}

	return string(output), nil
}

// startLimit limits the wait for a machine that was just powered on.
const startLimit = 30 * time.Second

// PlugDisk adds a disk to the running machine.
func (m *Machine) PlugDisk(ctx context.Context, d Disk) error {
	number, err := d.number()
	if err == nil {
		err = m.waitForSystemd(ctx)
	}

	if err != nil {
		return err
	}

	script := fmt.Sprintf("mknod --mode=660 /dev/%[1]s b %[2]d %[3]d && mkdir -p %[4]s && "+
		"ln -sf ../../%[1]s %[4]s/%[5]s", d.Name, number.major, number.minor, diskIDs, d.ID)
	_, err = m.RunCommand(ctx, "sh", "-c", script)

	return err
}

// UnplugDisk removes a disk from the running machine.
func (m *Machine) UnplugDisk(ctx context.Context, d Disk) error {
	if err := m.waitForSystemd(ctx); err != nil {
		return err
	}

	_, err := m.RunCommand(ctx, "rm", "-f", "/dev/"+d.Name, diskIDs+"/"+d.ID)

	return err
}

// waitForSystemd waits until the machine has its own file systems.
func (m *Machine) waitForSystemd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()

	for !m.hasSystemd() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("machine %s has not started: %w", m.config.Name, ctx.Err())
		case <-m.ended:
			return fmt.Errorf("machine %s has ended", m.config.Name)
		case <-time.After(50 * time.Millisecond):
		}
	}

	return nil
}

// diskIDs is the folder of a machine's disks by ID.
const diskIDs = "/dev/disk/by-id"
