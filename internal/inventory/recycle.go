package inventory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// ChooseRecycling returns what the inventory does with a released VM: Rebuild or Retain. made reports whether the
// inventory has created the VM. Such a VM is replaced completely, so it needs no template in the engine.
func ChooseRecycling(inventory *infrav1alpha1.OLVMInventory, vm engine.DescribedVM, made bool) string {
	known := vm.Template.ID != "" && vm.Template.ID != engine.BlankTemplateID
	if !known && !made { // there is no template for a rebuild
		return infrav1alpha1.RecycleRetain
	}

	return cmp.Or(inventory.Spec.Recycle, infrav1alpha1.RecycleRebuild)
}

// Rebuilder replaces the root disk of a VM with a new one from its template. The engine cannot do this in one step, so
// a temporary VM from the same template, the donor, provides the disk. Each step looks up its objects in the engine, so
// an interrupted rebuild continues at any step. The donor is found by its name and mark. The disk is found by its ID in
// the donor's description, because any user can give its name to another disk.
type Rebuilder struct {
	Session *engine.Client
	VM      engine.DescribedVM
	// ClaimID is the ID of the claim that ends. Each claim needs a disk of its own.
	ClaimID string
	// DataCenter is the data center of the VM.
	DataCenter *engine.DataCenter
}

func (r Rebuilder) shortClaimID() string { return r.ClaimID[:min(len(r.ClaimID), 8)] }

// donorPrefix is the prefix of donor names.
const donorPrefix = "capolvm-rebuild-"

// donorName returns the name of the donor.
func (r Rebuilder) donorName() string {
	return donorPrefix + r.VM.ID.String()[:8] + "-" + r.shortClaimID()
}

// diskAlias returns the alias of the new disk, for users. It does not contain the VM's name, because users may rename
// the VM.
func (r Rebuilder) diskAlias() string {
	return "capolvm-root-" + r.VM.ID.String()[:8] + "-" + r.shortClaimID()
}

// donorComment returns the comment of the donor.
func (r Rebuilder) donorComment() string {
	return "capolvm rebuild=" + r.VM.ID.String() + " claim=" + r.ClaimID
}

// isDonor reports whether a VM is the donor.
func (r Rebuilder) isDonor(vm *engine.VM) bool {
	return vm.Name == r.donorName() && vm.CommentText() == r.donorComment() &&
		engine.RefID(vm.Template) == r.VM.Template.ID
}

// givenPrefix comes before the disk's ID in the description of a donor with a chosen disk.
const givenPrefix = "gives disk "

// getChosenDiskID returns the ID of the disk that a donor provides, or "" if no disk is chosen yet.
func getChosenDiskID(donor *engine.VM) engine.ID {
	text, ok := strings.CutPrefix(donor.DescriptionText(), givenPrefix)
	if !ok {
		return ""
	}

	id, err := engine.ParseID(text)
	if err != nil {
		return ""
	}

	return id
}

// patience limits one call of Rebuild, and pause is its wait between two steps.
const (
	patience = time.Second
	pause    = 100 * time.Millisecond
)

// Rebuild performs steps for a while, and reports whether the rebuild is complete. If it is not, waiting names the
// event that the rebuild waits for.
func (r Rebuilder) Rebuild(ctx context.Context) (done bool, waiting string, err error) {
	for begin := time.Now(); time.Since(begin) < patience; {
		if done, waiting, err = r.takeStep(ctx); err != nil || done {
			return done, waiting, err
		}

		select {
		case <-ctx.Done():
			return false, waiting, context.Cause(ctx)
		case <-time.After(pause):
		}
	}

	return false, waiting, nil
}

// takeStep performs one step of the rebuild. It returns the same results as Rebuild.
func (r Rebuilder) takeStep(ctx context.Context) (done bool, waiting string, err error) {
	if r.VM.Status != engine.VMDown {
		return false, "the VM to be down", nil
	}

	donor, err := r.findDonor(ctx)
	if err != nil {
		return false, "", err
	}

	const wantsDisk = "a new root disk of template "
	if donor == nil || getChosenDiskID(donor) == "" {
		return false, wantsDisk + r.VM.Template.Name, r.prepareDonor(ctx, donor)
	}

	old, oldDisk, err := r.fetchRootDisk(ctx)
	if err != nil {
		return false, "", err
	}

	if oldDisk != nil && oldDisk.ID == getChosenDiskID(donor) {
		gone, err := r.removeDonor(ctx, donor)
		return gone, "the donor of the disk to be deleted", err
	}

	fresh, err := r.detachChosenDisk(ctx, donor)
	if err != nil || fresh == nil {
		return false, wantsDisk + r.VM.Template.Name, err
	}

	return false, "the new root disk", r.exchangeDisks(ctx, old, oldDisk, fresh)
}

// findDonor returns the donor, or nil if it does not exist. Another VM with its name is an error.
func (r Rebuilder) findDonor(ctx context.Context) (*engine.VM, error) {
	donor, err := r.Session.FindVM(ctx, r.DataCenter, r.donorName())
	if err != nil || donor == nil {
		return nil, err
	}

	if !r.isDonor(donor) {
		return nil, fmt.Errorf("VM %s has the name needed to rebuild VM %s; rename it", donor.Name, r.VM.Name)
	}

	return donor, nil
}

// fetchRootDisk returns the boot disk of the VM, or nil.
func (r Rebuilder) fetchRootDisk(ctx context.Context) (*engine.DiskAttachment, *engine.Disk, error) {
	return fetchBootDisk(ctx, r.Session, r.VM.ID)
}

func fetchBootDisk(
	ctx context.Context, session *engine.Client, vm engine.ID,
) (*engine.DiskAttachment, *engine.Disk, error) {
	attached, err := session.ListDiskAttachments(ctx, vm)
	if err != nil {
		return nil, nil, err
	}

	root := findRoot(attached)
	if root == nil {
		return nil, nil, nil
	}

	disk, err := session.FetchDisk(ctx, root.DiskID())

	return root, disk, err
}

// findRoot returns the attachment of the boot disk, or nil.
func findRoot(attached []engine.DiskAttachment) *engine.DiskAttachment {
	at := slices.IndexFunc(attached, func(a engine.DiskAttachment) bool { return a.IsBootDisk() })
	if at < 0 {
		return nil
	}

	return &attached[at]
}

// detachChosenDisk detaches the new disk from the donor. It returns the disk once it is detached, and nil before. If
// the disk no longer exists, it removes the donor, and a later step creates another one.
func (r Rebuilder) detachChosenDisk(ctx context.Context, donor *engine.VM) (*engine.Disk, error) {
	attached, err := r.Session.ListDiskAttachments(ctx, donor.ID)
	if err != nil {
		return nil, err
	}

	chosen := getChosenDiskID(donor)
	if slices.ContainsFunc(attached, func(a engine.DiskAttachment) bool { return a.DiskID() == chosen }) {
		return nil, r.Session.DetachDisk(ctx, donor.ID, chosen)
	}

	disk, err := r.Session.FetchDisk(ctx, chosen)
	if engine.IsNotFound(err) {
		_, err = r.removeDonor(ctx, donor)
		return nil, err
	}

	return disk, err
}

// exchangeDisks removes the old disk. Once the disk is deleted, it attaches the new one.
func (r Rebuilder) exchangeDisks(
	ctx context.Context, old *engine.DiskAttachment, oldDisk, fresh *engine.Disk,
) error {
	if fresh.Status != engine.DiskOK {
		return nil
	}

	if oldDisk != nil && fresh.ProvisionedSize < oldDisk.ProvisionedSize {
		return r.Session.UpdateDisk(ctx, fresh.ID, &engine.Disk{ProvisionedSize: oldDisk.ProvisionedSize})
	}

	if oldDisk != nil && oldDisk.Status == engine.DiskLocked {
		return nil
	}

	if old != nil {
		return r.Session.DeleteAttachedDisk(ctx, r.VM.ID, old.DiskID())
	}

	bus, err := r.fetchInterface(ctx)
	if err != nil {
		return err
	}

	yes := true
	_, err = r.Session.AttachDisk(ctx, r.VM.ID, &engine.DiskAttachment{
		Active: &yes, Bootable: &yes, Interface: bus, Disk: &engine.Disk{ID: fresh.ID},
	})

	return err
}

// fetchInterface returns the interface of the template's root disk, because the VM has the matching controller.
func (r Rebuilder) fetchInterface(ctx context.Context) (string, error) {
	attached, err := r.Session.ListTemplateDiskAttachments(ctx, r.VM.Template.ID)

	if root := findRoot(attached); root != nil && root.Interface != "" {
		return root.Interface, err
	}

	return "virtio_scsi", err
}

// prepareDonor creates the donor, renames its disk and records the disk's ID. Each call performs one of these steps.
func (r Rebuilder) prepareDonor(ctx context.Context, donor *engine.VM) error {
	if donor == nil {
		comment := r.donorComment()
		_, err := r.Session.CreateVM(ctx, &engine.VM{
			Name:     r.donorName(),
			Comment:  &comment,
			Cluster:  r.VM.Cluster,
			Template: &engine.Ref{ID: r.VM.Template.ID},
		}, nil)

		return err
	}

	if donor.Status != engine.VMDown {
		return nil
	}

	_, disk, err := fetchBootDisk(ctx, r.Session, donor.ID)

	switch {
	case err != nil:
		return err
	case disk == nil:
		return r.replaceDonorWithoutDisk(ctx, donor)
	case disk.Status != engine.DiskOK:
		return nil
	case disk.AliasText() != r.diskAlias():
		alias := r.diskAlias()
		return r.Session.UpdateDisk(ctx, disk.ID, &engine.Disk{Alias: &alias})
	}

	description := givenPrefix + disk.ID.String()
	_, err = r.Session.UpdateVM(ctx, donor.ID, &engine.VM{Description: &description})

	return err
}

// replaceDonorWithoutDisk removes a donor that has no disk because an earlier version of this program has taken it. A
// later step creates another donor. It returns an error if the template has no bootable disk.
func (r Rebuilder) replaceDonorWithoutDisk(ctx context.Context, donor *engine.VM) error {
	attached, err := r.Session.ListTemplateDiskAttachments(ctx, r.VM.Template.ID)
	if err == nil && findRoot(attached) == nil {
		err = fmt.Errorf("template %s has no bootable disk", r.VM.Template.Name)
	}

	if err != nil {
		return err
	}

	_, err = r.removeDonor(ctx, donor)

	return err
}

// removeDonor deletes the donor once it is down, and reports whether it is gone.
func (r Rebuilder) removeDonor(ctx context.Context, donor *engine.VM) (bool, error) {
	if donor.Status != engine.VMDown {
		return false, nil
	}

	err := r.Session.DeleteVM(ctx, donor.ID)

	return err == nil || engine.IsNotFound(err), err
}
