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

// Orphan is a VM without a state: known by its ID, else to be looked for by its name and our whole marker.
type Orphan struct {
	// ID of the VM; empty where it was never recorded.
	ID engine.ID
	// DataCenter and Name are the names of the data center and of the VM.
	DataCenter, Name string
	// Comment is the marker that the VM has.
	Comment string
	// Free is asked about the VM before each step; an error ends the removal. nil agrees.
	Free func(ctx context.Context, vm *engine.VM) error
	// DataDisks are those that were asked for, which go with the VM; others that are attached do not.
	DataDisks []infrav1.DataDisk
	// Interrupted reports that a change of the VM was begun and did not reach its end: disks may be left that are not
	// asked for any more.
	Interrupted bool
	// Undoes reports that such a change is taken back: what it made goes, also where it is attached already.
	Undoes bool
}

const (
	// orphanAppears is how long the engine is given to show a VM whose creation was cut off.
	orphanAppears = 10 * time.Second
	// orphanLook is when to look again at a VM that is going.
	orphanLook = time.Second
	// OrphanLimit bounds what is done to a VM without a state.
	OrphanLimit = 10 * time.Minute
)

// find returns the VM, nil where there is none that is ours.
func (o Orphan) find(ctx context.Context, session *engine.Client) (*engine.VM, error) {
	if o.ID != "" { // its ownership was checked before the job
		vm, err := session.VM(ctx, o.ID)
		if engine.IsNotFound(err) {
			return nil, nil
		}

		return vm, err
	}

	dc, err := session.DataCenter(ctx, o.DataCenter)
	if err != nil {
		return nil, err
	}

	vm, err := session.FindVM(ctx, dc, o.Name)
	if err != nil || vm == nil {
		return nil, err
	}

	if !marked(vm, o.Comment) {
		return nil, nil
	}

	return vm, nil
}

// inSnapshot are the engine's words where a disk cannot be detached because its VM has a snapshot.
const inSnapshot = "is already configured in a snapshot"

// RemoveBlockingSnapshots removes the snapshots of a VM that is deleted where they are what a destruction has failed
// at. It reports whether the destruction is to be tried again.
func RemoveBlockingSnapshots(ctx context.Context, session *engine.Client, vm engine.ID, failure error) (bool, error) {
	if vm == "" || !strings.Contains(failure.Error(), inSnapshot) {
		return false, nil
	}

	ctrl.LoggerFrom(ctx).Info("Removing the snapshots of a VM that is deleted", "vm", vm)

	return true, session.RemoveSnapshots(ctx, vm, nil)
}

// Remove deletes the VM natively: there is no state from which Terraform could do it.
func (o Orphan) Remove(ctx context.Context, session *engine.Client) error {
	ctx, cancel := context.WithTimeout(ctx, OrphanLimit)
	defer cancel()
	absentSince, seen := time.Now(), o.ID != ""
	var last error

	for {
		vm, err := o.find(ctx, session)
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
			// An engine shows a VM as up for a while after it stopped it, and refuses to stop it once more: the next
			// look sees what came of it, and the refusal is an error when the time is over.
			last = o.removeStep(ctx, session, vm)
			stopping := !vm.Status.Off() && engine.IsRefused(last)
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

// removeStep brings the VM one step nearer to its end.
func (o Orphan) removeStep(ctx context.Context, session *engine.Client, vm *engine.VM) error {
	var err error
	if o.Free != nil {
		if err := o.Free(ctx, vm); err != nil {
			return err
		}
	}

	switch {
	case vm.Status.Off():
		// Without a state it is not known which disks are the VM's: those it boots from, and those that were asked
		// for.
		err = session.ReleaseDisks(ctx, vm.ID, func(a *engine.DiskAttachment, d *engine.Disk) bool {
			return a.Boots() ||
				slices.ContainsFunc(o.DataDisks, func(want infrav1.DataDisk) bool {
					return d.AliasText() == render.DiskAlias(vm.Name, want.Name)
				})
		})
		if err == nil {
			err = session.DeleteVM(ctx, vm.ID)
		}
	case vm.Status.Busy():
	default:
		err = session.StopVM(ctx, vm.ID, true)
	}

	if engine.IsNotFound(err) {
		return nil
	}

	return err
}

// RemoveDisks deletes the data disks that were made for the VM and that its state, which load reads, does not have: a
// run was killed after the engine created a disk and before the state was saved. A disk that only has the alias stays,
// and so do the copies that the engine made of it for a template and its VMs.
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

	made, err := o.madeDisks(ctx, session)
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

// madeDisks returns the data disks that were made for the VM. After a change that was interrupted these can be others
// than those that are asked for.
func (o Orphan) madeDisks(ctx context.Context, session *engine.Client) ([]engine.Disk, error) {
	if o.Interrupted {
		return o.disksOfChange(ctx, session)
	}

	var out []engine.Disk

	for _, disk := range o.DataDisks {
		found, err := session.FindDisks(ctx, nil, render.DiskAlias(o.Name, disk.Name)) // the mark decides
		if err != nil {
			return nil, err
		}

		for i := range found {
			if found[i].MadeFor(o.Comment) {
				out = append(out, found[i])
			}
		}
	}

	return session.WithoutUsed(ctx, out)
}

// disksOfChange returns the disks with the mark of the VM that neither a template nor a VM has: an engine gives the
// mark to copies, too, and an administrator may have given a disk to another VM. Of a change that is taken back those
// belong to it that are attached to the VM.
func (o Orphan) disksOfChange(ctx context.Context, session *engine.Client) ([]engine.Disk, error) {
	all, err := session.DisksMadeFor(ctx, o.Comment)
	if err != nil {
		return nil, err
	}

	out, err := session.WithoutUsed(ctx, all)
	if err != nil || !o.Undoes || o.ID == "" || len(all) == 0 {
		return out, err
	}

	attached, err := session.DiskAttachments(ctx, o.ID)
	if err != nil {
		return nil, err
	}

	for _, disk := range all {
		ours := slices.ContainsFunc(attached, func(a engine.DiskAttachment) bool {
			return a.DiskID() == disk.ID && !a.Boots()
		})
		if ours {
			out = append(out, disk)
		}
	}

	return out, nil
}

// removeDisk deletes a disk that no state has. Of those that are attached, only the disks of a change that is taken
// back come here.
func (o Orphan) removeDisk(ctx context.Context, session *engine.Client, id engine.ID) error {
	if o.Undoes && o.ID != "" {
		if err := ignoreMissing(session.DetachDisk(ctx, o.ID, id)); err != nil {
			return err
		}
	}

	return session.RemoveDisk(ctx, id, nil)
}
