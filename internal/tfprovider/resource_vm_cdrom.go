package tfprovider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*vmCDROMResource)(nil)
	_ resource.ResourceWithImportState = (*vmCDROMResource)(nil)
)

func newVMCDROMResource() resource.Resource {
	return &vmCDROMResource{base{typeName: "ovirt_vm_cdrom"}}
}

// vmCDROMResource is the image in the drive of a VM. It creates and deletes no object, because each VM has exactly one
// drive.
type vmCDROMResource struct{ base }

// Schema implements resource.Resource.
func (r *vmCDROMResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "Inserts an image into the CD-ROM drive of a virtual machine. A running VM gets the " +
			"image immediately, and keeps it at the next start. Destroying the resource ejects the image. Not " +
			"available in `ovirt/ovirt`.",
		Attributes: map[string]schema.Attribute{
			"id":      computedText("UUID of the VM."),
			"vm_id":   ownerID("UUID of the VM."),
			"disk_id": ownerID("UUID of the disk with the ISO image."),
		},
	})
}

type vmCDROMModel struct {
	timed

	ID     types.String `tfsdk:"id"`
	VMID   types.String `tfsdk:"vm_id"`
	DiskID types.String `tfsdk:"disk_id"`
}

// Create implements resource.Resource. An image that is already in the drive belongs to another resource, or a user
// inserted it by hand.
func (r *vmCDROMResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[vmCDROMModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	vmID, image := toID(model.VMID), toID(model.DiskID)
	err := r.refuseMember(ctx, "an image in the CD-ROM drive of VM "+vmID.String(), vmID.String(),
		func(ctx context.Context) (bool, error) {
			drive, err := r.client.FetchCDROM(ctx, vmID)
			return err == nil && drive.ImageID() != "", err
		})
	isIn := false
	if err == nil {
		err = insertImage(ctx, r.client, vmID, image)
		isIn = err == nil || r.hasImage(ctx, vmID, image)
	}

	// Save an image in the state even if the VM gets it only at its next start.
	if isIn {
		r.made.addID(vmID.String())
		model.ID = model.VMID
		resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	}

	if err != nil {
		if !isIn {
			r.keepUnanswered(ctx, err, req.Plan, resp)
		}

		resp.Diagnostics.AddError("The image was not put into the drive",
			r.client.ExplainMissing(ctx, vmID, err).Error())
	}
}

// hasImage reports whether the drive has an image, even after the operation has timed out.
func (r *vmCDROMResource) hasImage(ctx context.Context, vmID, image engine.ID) bool {
	drive, err := r.client.FetchCDROM(context.WithoutCancel(ctx), vmID)

	return err == nil && drive.ImageID() == image
}

// insertImage inserts an image into the drive of a VM, or removes the present one. A running VM has two images: the one
// in its drive, and the one for its next start. insertImage changes neither while the VM is between two statuses.
func insertImage(ctx context.Context, client *engine.Client, vmID, image engine.ID) error {
	what := fmt.Sprintf("the CD-ROM drive of VM %s to be changed", vmID)
	lost := false
	change := func(ctx context.Context, drive engine.ID, isAtOnce bool) error {
		err := client.ChangeCDROM(ctx, vmID, drive, image, isAtOnce)
		lost = lost || engine.IsAnswerLost(err)

		return err
	}

	err := pollEngine(ctx, what, func(ctx context.Context) (bool, string, error) {
		vm, err := client.FetchVM(ctx, vmID)
		if err != nil {
			return false, "", err
		}

		if isBetweenStatuses(vm.Status) {
			return false, string(vm.Status), nil
		}

		drive, err := client.FetchCDROM(ctx, vmID)
		if err != nil {
			return false, "", err
		}

		if drive.ImageID() != image {
			if err := change(ctx, drive.ID, false); err != nil {
				return false, "", err
			}
		}

		if hasGuest(vm.Status) {
			err = change(ctx, drive.ID, true)
		}

		return err == nil, string(vm.Status), err
	})

	return markUnanswered(err, lost)
}

// isBetweenStatuses reports whether a VM will soon reach a status in which its drive can change. No recording shows
// such a change.
func isBetweenStatuses(status engine.VMStatus) bool {
	switch status {
	case engine.VMMigrating, engine.VMPoweringDown, engine.VMSavingState, engine.VMRestoringState:
		return true
	default:
		return status.IsStarting()
	}
}

// hasGuest reports whether a VM has a guest. A guest keeps its image until an immediate change. No recording shows such
// a change, in any status of a VM. A suspended VM, or one whose disks are being copied, is on no host.
func hasGuest(status engine.VMStatus) bool {
	return !status.IsOff() && status != engine.VMSuspended && status != engine.VMImageLocked
}

// Read implements resource.Resource. If a user has emptied the drive, Terraform plans to insert the image again.
func (r *vmCDROMResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[vmCDROMModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	drive, err := r.client.FetchCDROM(ctx, toID(model.VMID))
	if handleReadError(ctx, err, "The CD-ROM drive", resp) {
		return
	}

	if drive.ImageID() == "" {
		resp.State.RemoveResource(ctx)
		return
	}

	model.ID, model.DiskID = model.VMID, toIDValue(drive.ImageID())
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Update implements resource.Resource.
func (r *vmCDROMResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if handleTimeoutsOnly(req, resp) {
		return
	}

	ctx, cancel := withPlannedTimeout(ctx, req.Plan, updating)
	defer cancel()

	model, ok := loadModel[vmCDROMModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	if err := insertImage(ctx, r.client, toID(model.VMID), toID(model.DiskID)); err != nil {
		resp.Diagnostics.AddError("The image was not changed", err.Error())
		return
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Delete implements resource.Resource.
func (r *vmCDROMResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[vmCDROMModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	if r.made.shouldKeep(model.VMID.ValueString(), "image in the drive", &resp.Diagnostics) {
		return
	}

	if err := insertImage(ctx, r.client, toID(model.VMID), ""); err != nil && !engine.IsNotFound(err) {
		resp.Diagnostics.AddError("The image was not taken out of the drive", err.Error())
	}
}

// ImportState takes the UUID of the VM.
func (r *vmCDROMResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "vm_id")
}
