package tfprovider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*diskAttachmentResource)(nil)
	_ resource.ResourceWithImportState = (*diskAttachmentResource)(nil)
)

func newDiskAttachmentResource() resource.Resource {
	return &diskAttachmentResource{base{typeName: "ovirt_disk_attachment"}}
}

type diskAttachmentResource struct{ base }

func (r *diskAttachmentResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	flag := func(description string) schema.BoolAttribute {
		return schema.BoolAttribute{
			Optional:            true,
			Computed:            true,
			Default:             booldefault.StaticBool(false),
			MarkdownDescription: description + " Defaults to `false`.",
		}
	}
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "Attaches a disk to a virtual machine. Do not use it together with " +
			"`ovirt_disk_attachments` for the same VM.",
		Attributes: map[string]schema.Attribute{
			"id":      computedText("UUID of the attachment."),
			"vm_id":   ownerID("UUID of the VM."),
			"disk_id": ownerID("UUID of the disk."),
			"disk_interface": requiredText("Interface of the disk: `ide`, `sata`, `spapr_vscsi`, `virtio` or "+
				"`virtio_scsi`.",
				stringvalidator.OneOf(diskInterfaces...)),
			"active":   flag("Whether the disk is visible to the VM."),
			"bootable": flag("Whether the VM boots from the disk."),
		},
	})
}

type diskAttachmentModel struct {
	timed

	ID        types.String `tfsdk:"id"`
	VMID      types.String `tfsdk:"vm_id"`
	DiskID    types.String `tfsdk:"disk_id"`
	Interface types.String `tfsdk:"disk_interface"`
	Active    types.Bool   `tfsdk:"active"`
	Bootable  types.Bool   `tfsdk:"bootable"`
}

// getAttachmentID returns the ID of the attachment. It equals the disk's ID, so it is known before the engine reports
// it.
func (m *diskAttachmentModel) getAttachmentID() engine.ID {
	if m.ID.IsNull() {
		return toID(m.DiskID)
	}

	return toID(m.ID)
}

func isSet(flag *bool) bool { return flag != nil && *flag }

// attachDisk attaches a disk to a VM, and retries while one of them is locked. After a lost answer, it looks for the
// attachment. A disk that is already attached belongs to another resource, or a user attached it by hand.
func (b *base) attachDisk(
	ctx context.Context, vmID engine.ID, wanted *engine.DiskAttachment,
) (*engine.DiskAttachment, error) {
	unlock, err := attachmentLocks.lockKey(ctx, vmID.String()+"/"+wanted.DiskID().String())
	if err != nil {
		return nil, err
	}
	defer unlock()

	there, err := b.findAttachment(ctx, vmID, wanted.DiskID())
	if err != nil {
		return nil, err
	}

	if there != nil && b.canTakeOver(attachmentID(vmID, wanted.DiskID())) {
		return there, b.updateAttachment(ctx, vmID, there, wanted)
	} else if there != nil {
		return nil, fmt.Errorf("VM %s has disk %s already: import the attachment with the ID %s", vmID,
			wanted.DiskID(), attachmentID(vmID, wanted.DiskID()))
	}

	what := "disk " + wanted.DiskID().String() + " to be attached to VM " + vmID.String()

	return engine.CreateUnique(ctx, what, newProgressLogger(ctx, what),
		func(ctx context.Context) (*engine.DiskAttachment, error) {
			return b.client.AttachDisk(ctx, vmID, wanted)
		},
		func(ctx context.Context) (*engine.DiskAttachment, error) {
			found, err := b.client.FetchDiskAttachment(ctx, vmID, wanted.DiskID())
			return found, ignoreNotFound(err)
		})
}

// attachmentLocks serialize the resources for the same disk in the same VM. Each resource looks for the disk and
// attaches it before the next one looks.
var attachmentLocks = keyedLocks{held: map[string]chan struct{}{}}

// findAttachment returns the attachment of a disk to a VM, or nil if there is none.
func (b *base) findAttachment(ctx context.Context, vmID, diskID engine.ID) (*engine.DiskAttachment, error) {
	var found *engine.DiskAttachment
	err := pollEngine(ctx, "disks of VM "+vmID.String(), func(ctx context.Context) (bool, string, error) {
		seen, err := b.client.FetchDiskAttachment(ctx, vmID, diskID)
		if err == nil {
			found = seen
		}

		return err == nil || engine.IsNotFound(err), "", ignoreNotFound(err)
	})

	return found, err
}

// attachmentID returns the ID of an attachment in imports. A VM has each disk at most once.
func attachmentID(vmID, diskID engine.ID) string { return vmID.String() + "/" + diskID.String() }

// updateAttachment changes an attachment in place. It changes the field active first or last, because the engine
// changes nothing else while a disk is active in a running VM.
func (b *base) updateAttachment(ctx context.Context, vmID engine.ID, seen, wanted *engine.DiskAttachment) error {
	rest := engine.DiskAttachment{}
	if seen.Interface != wanted.Interface {
		rest.Interface = wanted.Interface
	}

	if isSet(seen.Bootable) != isSet(wanted.Bootable) {
		rest.Bootable = wanted.Bootable
	}

	activity := engine.DiskAttachment{Active: wanted.Active}
	var steps []engine.DiskAttachment

	if rest != (engine.DiskAttachment{}) {
		steps = append(steps, rest)
	}

	switch {
	case isSet(seen.Active) == isSet(wanted.Active):
	case isSet(wanted.Active):
		steps = append(steps, activity)
	default:
		steps = append([]engine.DiskAttachment{activity}, steps...)
	}

	for i := range steps {
		what := "disk " + wanted.DiskID().String() + " of VM " + vmID.String() + " to be changed"
		err := pollEngine(ctx, what, func(ctx context.Context) (bool, string, error) {
			err := b.client.UpdateAttachment(ctx, vmID, wanted.DiskID(), &steps[i])
			return err == nil, "", err
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// toEngine returns the request to create the attachment.
func (m *diskAttachmentModel) toEngine() *engine.DiskAttachment {
	return &engine.DiskAttachment{
		Active:    m.Active.ValueBoolPointer(),
		Bootable:  m.Bootable.ValueBoolPointer(),
		Interface: m.Interface.ValueString(),
		Disk:      &engine.Disk{ID: toID(m.DiskID)},
	}
}

func (r *diskAttachmentResource) Create(
	ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse,
) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[diskAttachmentModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	made, err := r.attachDisk(ctx, toID(model.VMID), model.toEngine())
	if err != nil {
		r.keepUnanswered(ctx, err, req.Plan, resp)
		resp.Diagnostics.AddError("The disk was not attached",
			r.client.ExplainMissing(ctx, toID(model.VMID), err).Error())

		return
	}

	r.made.addID(attachmentID(toID(model.VMID), toID(model.DiskID)))
	model.ID = toIDValue(made.ID)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *diskAttachmentResource) Update(
	ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse,
) {
	if handleTimeoutsOnly(req, resp) {
		return
	}

	ctx, cancel := withPlannedTimeout(ctx, req.Plan, updating)
	defer cancel()

	model, ok := loadModel[diskAttachmentModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	seen, err := r.client.FetchDiskAttachment(ctx, toID(model.VMID), toID(model.ID))
	if err == nil {
		err = r.updateAttachment(ctx, toID(model.VMID), seen, model.toEngine())
	}

	if err != nil {
		resp.Diagnostics.AddError("The disk attachment was not changed", err.Error())
		return
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *diskAttachmentResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[diskAttachmentModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	seen, err := r.client.FetchDiskAttachment(ctx, toID(model.VMID), model.getAttachmentID())
	if handleReadError(ctx, err, "The disk attachment", resp) {
		return
	}

	model.ID = toIDValue(seen.ID)
	model.DiskID = toIDValue(seen.DiskID())
	model.Interface = keepIfAbsent(model.Interface, textOrNull(seen.Interface))
	model.Active = keepIfAbsent(model.Active, types.BoolPointerValue(seen.Active))
	model.Bootable = keepIfAbsent(model.Bootable, types.BoolPointerValue(seen.Bootable))
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *diskAttachmentResource) Delete(
	ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse,
) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[diskAttachmentModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	id := attachmentID(toID(model.VMID), toID(model.DiskID))
	if r.made.shouldKeep(id, "disk attachment", &resp.Diagnostics) {
		return
	}

	removeAndWait(
		ctx,
		"disk "+model.DiskID.ValueString()+" of VM "+model.VMID.ValueString(),
		&resp.Diagnostics,
		func(ctx context.Context) error {
			return r.client.DetachDisk(ctx, toID(model.VMID), model.getAttachmentID())
		},
	)
}

// ImportState takes VM-UUID/ATTACHMENT-UUID.
func (r *diskAttachmentResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "vm_id", "id")
}
