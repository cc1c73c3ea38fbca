package desired

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// Orphan is a VM without a state. It is identified by its ID. Without an ID, it is identified by its name and the
// complete marker.
type Orphan struct {
	// ID is the ID of the VM, or "" if it was never recorded.
	ID engine.ID
	// DataCenter and Name are the names of the data center and of the VM.
	DataCenter, Name string
	// Comment is the VM's marker.
	Comment string
	// Free is called for the VM before each step. An error ends the removal. A nil Free allows every step.
	Free func(ctx context.Context, vm *engine.VM) error
	// DataDisks are the requested data disks. Unlike other attached disks, they are deleted with the VM.
	DataDisks []infrav1.DataDisk
	// Interrupted reports whether a change of the VM is incomplete. Such a change may have left disks that are not
	// wanted any more.
	Interrupted bool
	// Undoes reports whether the change is reverted. Its disks are then deleted, even if they are already attached.
	Undoes bool
}

const (
	// orphanAppears is how long the engine may take to show a VM after an interrupted creation.
	orphanAppears = 10 * time.Second
	// orphanLook is the interval between two looks at a VM during its removal.
	orphanLook = time.Second
	// OrphanLimit limits the removal of a VM without a state.
	OrphanLimit = 10 * time.Minute
)

// findVM returns the VM, or nil if this manager has no such VM.
func (o Orphan) findVM(ctx context.Context, session *engine.Client) (*engine.VM, error) {
	if o.ID != "" { // the caller has checked the owner before the job
		vm, err := session.FetchVM(ctx, o.ID)
		if engine.IsNotFound(err) {
			return nil, nil
		}

		return vm, err
	}

	dc, err := session.FindDataCenter(ctx, o.DataCenter)
	if err != nil {
		return nil, err
	}

	vm, err := session.FindVM(ctx, dc, o.Name)
	if err != nil || vm == nil {
		return nil, err
	}

	if !hasMarker(vm, o.Comment) {
		return nil, nil
	}

	return vm, nil
}

// inSnapshot is part of the engine's message if a snapshot of a VM prevents the removal of a disk.
const inSnapshot = "is already configured in a snapshot"

// RemoveBlockingSnapshots removes the snapshots of a VM that is being deleted if a destruction failed because of them.
// It reports whether the destruction should be tried again.
func RemoveBlockingSnapshots(ctx context.Context, session *engine.Client, vm engine.ID, failure error) (bool, error) {
	if vm == "" || !strings.Contains(failure.Error(), inSnapshot) {
		return false, nil
	}

	ctrl.LoggerFrom(ctx).Info("Removing the snapshots of a VM that is deleted", "vm", vm)

	return true, session.RemoveSnapshots(ctx, vm, nil)
}

// Remove deletes the VM without Terraform, because there is no state.
func (o Orphan) Remove(ctx context.Context, session *engine.Client) error {
	ctx, cancel := context.WithTimeout(ctx, OrphanLimit)
	defer cancel()
	absentSince, seen := time.Now(), o.ID != ""
	var last error

	for {
		vm, err := o.findVM(ctx, session)
		if err != nil && !engine.IsTransient(err) {
			return err
		}

		switch {
		case err != nil:
			last, absentSince = err, time.Now()
		case vm == nil && (seen || time.Since(absentSince) > orphanAppears):
			return nil
		case vm != nil:
			seen = true
			// An engine shows a VM as up for a while after a stop, and refuses another one. The next look shows the
			// result. After the time limit, the refusal becomes an error.
			last = o.removeStep(ctx, session, vm)
			stopping := !vm.Status.IsOff() && engine.IsRefused(last)
			if last != nil && !stopping && !engine.IsTransient(last) {
				return last
			}
		}

		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), last)
		case <-time.After(orphanLook):
		}
	}
}

// removeStep brings the VM one step closer to its removal.
func (o Orphan) removeStep(ctx context.Context, session *engine.Client, vm *engine.VM) error {
	var err error
	if o.Free != nil {
		if err := o.Free(ctx, vm); err != nil {
			return err
		}
	}

	switch {
	case vm.Status.IsOff():
		// Without a state, the disks of the VM are unknown. Treat its boot disks and the requested disks as its own.
		err = session.DetachForeignDisks(ctx, vm.ID, func(a *engine.DiskAttachment, d *engine.Disk) bool {
			return a.IsBootDisk() ||
				slices.ContainsFunc(o.DataDisks, func(want infrav1.DataDisk) bool {
					return d.AliasText() == render.DiskAlias(vm.Name, want.Name)
				})
		})
		if err == nil {
			err = session.DeleteVM(ctx, vm.ID)
		}
	case vm.Status.IsBusy():
	default:
		err = session.StopVM(ctx, vm.ID, true)
	}

	if engine.IsNotFound(err) {
		return nil
	}

	return err
}

// RemoveDisks deletes data disks that were created for the VM, but are missing from its state. They remain if a run is
// killed after the engine has created a disk, and before the state is saved. load reads the state. A disk that has only
// the alias stays. So do the engine's copies of the disk in templates and in VMs of these templates.
func (o Orphan) RemoveDisks(
	ctx context.Context, session *engine.Client, load func(context.Context) (*tfstate.State, error),
) error {
	if len(o.DataDisks) == 0 && !o.Interrupted {
		return nil
	}

	state, err := load(ctx)
	if err != nil {
		return err
	}

	made, err := o.listMadeDisks(ctx, session)
	if err != nil {
		return err
	}

	inState := func(id engine.ID) bool {
		return slices.ContainsFunc(state.Instances("ovirt_disk"), func(i tfstate.Instance) bool {
			return i.ID == id.String()
		})
	}

	for i := range made {
		if inState(made[i].ID) {
			continue
		}

		if err := o.removeDisk(ctx, session, made[i].ID); err != nil {
			return err
		}
	}

	return nil
}

// listMadeDisks returns the data disks created for the VM. After an interrupted change, they may differ from the
// requested ones.
func (o Orphan) listMadeDisks(ctx context.Context, session *engine.Client) ([]engine.Disk, error) {
	if o.Interrupted {
		return o.listChangedDisks(ctx, session)
	}

	var out []engine.Disk

	for _, disk := range o.DataDisks {
		found, err := session.FindDisks(ctx, nil, render.DiskAlias(o.Name, disk.Name)) // the mark decides
		if err != nil {
			return nil, err
		}

		for i := range found {
			if found[i].IsMadeFor(o.Comment) {
				out = append(out, found[i])
			}
		}
	}

	return session.ExcludeUsedDisks(ctx, out)
}

// listChangedDisks returns the disks that carry the VM's mark and are not used by any template or VM. Used disks do not
// count, because the engine also marks copies, and an administrator may have given a disk to another VM. For a reverted
// change, it also returns marked disks attached to the VM, except boot disks.
func (o Orphan) listChangedDisks(ctx context.Context, session *engine.Client) ([]engine.Disk, error) {
	all, err := session.ListDisksMadeFor(ctx, o.Comment)
	if err != nil {
		return nil, err
	}

	out, err := session.ExcludeUsedDisks(ctx, all)
	if err != nil || !o.Undoes || o.ID == "" || len(all) == 0 {
		return out, err
	}

	attached, err := session.ListDiskAttachments(ctx, o.ID)
	if err != nil {
		return nil, err
	}

	for _, disk := range all {
		ours := slices.ContainsFunc(attached, func(a engine.DiskAttachment) bool {
			return a.DiskID() == disk.ID && !a.IsBootDisk()
		})
		if ours {
			out = append(out, disk)
		}
	}

	return out, nil
}

// removeDisk deletes a disk that is missing from the state. The disk is attached only if a change is reverted.
func (o Orphan) removeDisk(ctx context.Context, session *engine.Client, id engine.ID) error {
	if o.Undoes && o.ID != "" {
		if err := ignoreMissing(session.DetachDisk(ctx, o.ID, id)); err != nil {
			return err
		}
	}

	return session.RemoveDisk(ctx, id, nil)
}
