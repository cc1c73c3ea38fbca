package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/machine"
)

// plugLimit limits the duration of a change of disks.
const plugLimit = 30 * time.Second

// diskFile returns the file of a disk. Several VMs may use the disk one after another.
func (g *Guests) diskFile(diskID string) string { return filepath.Join(g.options.Dir, "data", diskID) }

// openDisks returns a machine's initial block devices.
func (g *Guests) openDisks(vm api.GuestVM) ([]machine.Disk, error) {
	g.mu.Lock()
	defer g.mu.Unlock()

	wanted := vm.Disks
	if changed, ok := g.changed[vm.ID]; ok {
		wanted = changed
		delete(g.changed, vm.ID)
	}

	for _, disk := range wanted {
		if _, err := g.openDisk(vm.ID, disk); err != nil {
			return nil, errors.Join(err, g.closeAll(vm.ID))
		}
	}

	return slices.Collect(maps.Values(g.disks[vm.ID])), nil
}

// openDisk creates the block device of a disk. The caller must hold g.mu. The device has the same name as in the guests
// of an engine, where the boot disk is the first disk.
func (g *Guests) openDisk(vmID string, disk api.GuestDisk) (machine.Disk, error) {
	prefix, id := "sd", "scsi-0QEMU_QEMU_HARDDISK_"+disk.ID
	switch {
	case disk.Interface == "virtio":
		prefix, id = "vd", "virtio-"+disk.ID[:20]
	case !strings.HasPrefix(disk.Interface, "virtio"):
		id = "ata-QEMU_HARDDISK_" + disk.ID[:20]
	}

	taken := map[string]bool{}
	for _, other := range g.disks[vmID] {
		taken[other.Name] = true
	}

	name := ""

	for letter := 'b'; letter <= 'z' && name == ""; letter++ {
		if candidate := prefix + string(letter); !taken[candidate] {
			name = candidate
		}
	}

	if name == "" {
		return machine.Disk{}, fmt.Errorf("VM %s has too many disks", vmID)
	}

	loop, err := machine.OpenDisk(g.diskFile(disk.ID), disk.Size, disk.ReadOnly)
	if err != nil {
		return machine.Disk{}, fmt.Errorf("disk %s: %w", disk.ID, err)
	}

	made := machine.Disk{Name: name, ID: id, Loop: loop}
	if g.disks[vmID] == nil {
		g.disks[vmID] = map[string]machine.Disk{}
	}

	g.disks[vmID][disk.ID] = made

	return made, nil
}

// closeDisks releases the block devices of an ended machine.
func (g *Guests) closeDisks(vmID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.closeAll(vmID); err != nil {
		g.options.Log.Error(err, "Failed to take the disks of a machine away")
	}
}

// closeAll is like closeDisks, but the caller must hold g.mu.
func (g *Guests) closeAll(vmID string) error {
	var problems []error
	for _, disk := range g.disks[vmID] {
		problems = append(problems, disk.Close())
	}

	delete(g.disks, vmID)

	return errors.Join(problems...)
}

// SetDisks plugs new disks into a running machine, and unplugs all other disks.
func (g *Guests) SetDisks(vmID string, disks []api.GuestDisk) {
	g.mu.Lock()
	g.changed[vmID] = disks
	g.mu.Unlock()
	g.applyChangedDisks(vmID)
}

// applyChangedDisks applies the last call of SetDisks after the VM's machine has started.
func (g *Guests) applyChangedDisks(vmID string) {
	g.mu.Lock()
	defer g.mu.Unlock()

	wanted, changed := g.changed[vmID]
	m := g.running[vmID]
	if !changed || m == nil {
		return
	}

	delete(g.changed, vmID)
	if err := g.plugDisks(m, vmID, wanted); err != nil {
		g.options.Log.Error(err, "Failed to change the disks of a machine", "vm", vmID)
	}
}

// plugDisks plugs missing disks into a machine, and unplugs unwanted ones. The caller must hold g.mu.
func (g *Guests) plugDisks(m *machine.Machine, vmID string, wanted []api.GuestDisk) error {
	ctx, cancel := context.WithTimeout(g.ctx, plugLimit)
	defer cancel()

	var problems []error

	for id, disk := range g.disks[vmID] {
		if slices.ContainsFunc(wanted, func(d api.GuestDisk) bool { return d.ID == id }) {
			continue
		}

		problems = append(problems, m.UnplugDisk(ctx, disk), disk.Close())
		delete(g.disks[vmID], id)
	}

	for _, disk := range wanted {
		if _, there := g.disks[vmID][disk.ID]; there {
			continue
		}

		made, err := g.openDisk(vmID, disk)
		if err == nil {
			err = m.PlugDisk(ctx, made)
		}

		problems = append(problems, err)
	}

	return errors.Join(problems...)
}

// HandleDiskRemoval removes the file of a disk.
func (g *Guests) HandleDiskRemoval(diskID string) {
	if err := os.Remove(g.diskFile(diskID)); err != nil && !errors.Is(err, os.ErrNotExist) {
		g.options.Log.Error(err, "Failed to remove the content of a disk")
	}
}
