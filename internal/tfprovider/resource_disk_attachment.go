package tfprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*diskAttachmentResource)(nil)
	_ resource.ResourceWithImportState = (*diskAttachmentResource)(nil)
)

func newDiskAttachmentResource() resource.Resource {
	return &diskAttachmentResource{fixed{base{typeName: "ovirt_disk_attachment"}}}
}

type diskAttachmentResource struct{ fixed }

func (r *diskAttachmentResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	flag := func(description string) schema.BoolAttribute {
		return schema.BoolAttribute{
			Optional:            true,
			Computed:            true,
			Default:             booldefault.StaticBool(false),
			MarkdownDescription: description + " `false` by default.",
			PlanModifiers:       []planmodifier.Bool{boolplanmodifier.RequiresReplace()}}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A disk in a virtual machine. Not to be used with " +
			"`ovirt_disk_attachments` on the same VM.",
		Attributes: map[string]schema.Attribute{
			"id":      computedText("UUID of the attachment."),
			"vm_id":   fixedID("UUID of the VM."),
			"disk_id": fixedID("UUID of the disk."),
			"disk_interface": fixedText("`ide`, `sata`, `spapr_vscsi`, `virtio` or `virtio_scsi`.",
				stringvalidator.OneOf(diskInterfaces...)),
			"active":   flag("The VM sees the disk."),
			"bootable": flag("The VM boots from the disk."),
		},
	}
}

type diskAttachmentModel struct {
	ID        types.String `tfsdk:"id"`
	VMID      types.String `tfsdk:"vm_id"`
	DiskID    types.String `tfsdk:"disk_id"`
	Interface types.String `tfsdk:"disk_interface"`
	Active    types.Bool   `tfsdk:"active"`
	Bootable  types.Bool   `tfsdk:"bootable"`
}

func isSet(flag *bool) bool { return flag != nil && *flag }

// attach attaches a disk to a VM, also where one of them is locked for a while. A lost answer is looked up, and so is a
// refusal, which may be because an earlier run did it: a disk is attached to a VM at most once.
func (b *base) attach(
	ctx context.Context, vmID engine.ID, wanted *engine.DiskAttachment,
) (*engine.DiskAttachment, error) {
	what := "disk " + wanted.DiskID().String() + " to be attached to VM " + vmID.String()
	find := func(ctx context.Context) (*engine.DiskAttachment, error) {
		found, err := b.client.DiskAttachment(ctx, vmID, wanted.DiskID())
		return found, ignoreNotFound(err)
	}

	return engine.CreateOnce(ctx, what, progress(ctx, what),
		func(ctx context.Context) (*engine.DiskAttachment, error) {
			made, err := b.client.AttachDisk(ctx, vmID, wanted)
			if engine.IsConflict(err) && !engine.IsTransient(err) {
				if found, _ := find(ctx); found != nil {
					return found, nil
				}
			}

			return made, err
		}, find)
}

func (r *diskAttachmentResource) Create(
	ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse,
) {
	model, ok := load[diskAttachmentModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	made, err := r.attach(ctx, idOf(model.VMID), &engine.DiskAttachment{
		Active:    model.Active.ValueBoolPointer(),
		Bootable:  model.Bootable.ValueBoolPointer(),
		Interface: model.Interface.ValueString(),
		Disk:      &engine.Disk{ID: idOf(model.DiskID)},
	})
	if err != nil {
		resp.Diagnostics.AddError("The disk was not attached",
			r.client.ExplainMissing(ctx, idOf(model.VMID), err).Error())
		return
	}

	model.ID = idValue(made.ID)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *diskAttachmentResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := load[diskAttachmentModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	seen, err := r.client.DiskAttachment(ctx, idOf(model.VMID), idOf(model.ID))
	if unread(ctx, err, "The disk attachment", resp) {
		return
	}

	model.ID = idValue(seen.ID)
	model.DiskID = idValue(seen.DiskID())
	model.Interface = unlessAbsent(model.Interface, optional(seen.Interface))
	model.Active = unlessAbsent(model.Active, types.BoolPointerValue(seen.Active))
	model.Bootable = unlessAbsent(model.Bootable, types.BoolPointerValue(seen.Bootable))
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *diskAttachmentResource) Delete(
	ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse,
) {
	model, ok := load[diskAttachmentModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	remove(
		ctx,
		"disk "+model.DiskID.ValueString()+" of VM "+model.VMID.ValueString(),
		&resp.Diagnostics,
		func(ctx context.Context) error {
			return r.client.DetachDisk(ctx, idOf(model.VMID), idOf(model.ID))
		},
	)
}

// ImportState takes VM-UUID/ATTACHMENT-UUID.
func (r *diskAttachmentResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "vm_id", "id")
}
