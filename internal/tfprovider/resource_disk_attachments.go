package tfprovider

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure      = (*diskAttachmentsResource)(nil)
	_ resource.ResourceWithImportState    = (*diskAttachmentsResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*diskAttachmentsResource)(nil)
	_ resource.ResourceWithValidateConfig = (*diskAttachmentsResource)(nil)
)

func newDiskAttachmentsResource() resource.Resource {
	return &diskAttachmentsResource{base{typeName: "ovirt_disk_attachments"}}
}

type diskAttachmentsResource struct{ base }

func (r *diskAttachmentsResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	flag := func(description string) schema.BoolAttribute {
		return schema.BoolAttribute{
			Optional:            true,
			Computed:            true,
			MarkdownDescription: description + " Defaults to `false`.",
		}
	}
	defaulted := func(description string) schema.BoolAttribute {
		a := flag(description)
		a.Default = booldefault.StaticBool(false)
		return a
	}
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "Manages all disks of a virtual machine that have an `attachment` block. Do not use it " +
			"together with `ovirt_disk_attachment` for the same VM.",
		Attributes: map[string]schema.Attribute{
			"id":    computedText("UUID of the VM."),
			"vm_id": ownerID("UUID of the VM."),
			"detach_unmanaged": defaulted(
				"Whether to detach disks without an `attachment` block, such as the template's disks.",
			),
			"remove_unmanaged": defaulted(
				"Whether to delete disks without an `attachment` block, including their data. Removing the block of " +
					"a disk detaches the disk, and does not delete it.",
			),
		},
		Blocks: map[string]schema.Block{"attachment": schema.SetNestedBlock{
			MarkdownDescription: "A disk of the VM.",
			Validators:          []validator.Set{setvalidator.IsRequired(), setvalidator.SizeAtLeast(1)},
			NestedObject: schema.NestedBlockObject{Attributes: map[string]schema.Attribute{
				"id": schema.StringAttribute{Computed: true, MarkdownDescription: "UUID of the attachment."},
				"disk_id": schema.StringAttribute{
					Required:            true,
					Validators:          []validator.String{uuid},
					MarkdownDescription: "UUID of the disk.",
				},
				"disk_interface": schema.StringAttribute{
					Required:   true,
					Validators: []validator.String{stringvalidator.OneOf(diskInterfaces...)},
					MarkdownDescription: "Interface of the disk: `ide`, `sata`, `spapr_vscsi`, `virtio` or " +
						"`virtio_scsi`."},
				"active":   flag("Whether the disk is visible to the VM."),
				"bootable": flag("Whether the VM boots from the disk."),
			}},
		}},
	})
}

type diskAttachmentsModel struct {
	timed

	ID              types.String        `tfsdk:"id"`
	VMID            types.String        `tfsdk:"vm_id"`
	DetachUnmanaged types.Bool          `tfsdk:"detach_unmanaged"`
	RemoveUnmanaged types.Bool          `tfsdk:"remove_unmanaged"`
	Attachments     []attachedDiskModel `tfsdk:"attachment"`
}

type attachedDiskModel struct {
	ID        types.String `tfsdk:"id"`
	DiskID    types.String `tfsdk:"disk_id"`
	Interface types.String `tfsdk:"disk_interface"`
	Active    types.Bool   `tfsdk:"active"`
	Bootable  types.Bool   `tfsdk:"bootable"`
}

func (m *attachedDiskModel) setFromEngine(seen *engine.DiskAttachment) {
	m.ID, m.DiskID, m.Interface = toIDValue(seen.ID), toIDValue(seen.DiskID()), types.StringValue(seen.Interface)
	m.Active, m.Bootable = types.BoolValue(isSet(seen.Active)), types.BoolValue(isSet(seen.Bootable))
}

// findByDisk returns the block for a disk, or nil if there is none.
func (m *diskAttachmentsModel) findByDisk(diskID engine.ID) *attachedDiskModel {
	i := slices.IndexFunc(m.Attachments, func(a attachedDiskModel) bool { return toID(a.DiskID) == diskID })
	if i < 0 {
		return nil
	}

	return &m.Attachments[i]
}

func (r *diskAttachmentsResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var detach, remove types.Bool
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("detach_unmanaged"), &detach)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("remove_unmanaged"), &remove)...)
	if detach.ValueBool() && remove.ValueBool() {
		resp.Diagnostics.AddAttributeError(path.Root("remove_unmanaged"),
			"remove_unmanaged contradicts detach_unmanaged", "Set one of them.")
	}

	blocks, _ := loadBlock[attachedDiskModel](ctx, req.Config, "attachment", &resp.Diagnostics)

	seen := map[string]bool{}
	for _, b := range blocks {
		if id := b.DiskID.ValueString(); id != "" && seen[id] {
			resp.Diagnostics.AddAttributeError(path.Root("attachment"), "A disk is attached twice",
				"Disk "+id+" has more than one attachment block.")
		} else {
			seen[id] = true
		}
	}
}

// ModifyPlan plans the blocks: omitted flags are false, and an existing attachment keeps its ID. The framework cannot
// do this inside a set, because only their values identify the elements of a set.
func (r *diskAttachmentsResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.Plan.Raw.IsNull() {
		return
	}

	blocks, known := loadBlock[attachedDiskModel](ctx, req.Config, "attachment", &resp.Diagnostics)
	if !known {
		return
	}

	var before diskAttachmentsModel
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
	}

	for i := range blocks {
		b := &blocks[i]
		b.ID = types.StringUnknown()
		if old := before.findByDisk(toID(b.DiskID)); old != nil && !b.DiskID.IsUnknown() {
			b.ID = old.ID
		}

		for _, flag := range []*types.Bool{&b.Active, &b.Bootable} {
			if flag.IsNull() {
				*flag = types.BoolValue(false)
			}
		}
	}

	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("attachment"), blocks)...)
}

func (r *diskAttachmentsResource) Create(
	ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse,
) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	plan, ok := loadModel[diskAttachmentsModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	r.applyPlan(ctx, plan, nil, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *diskAttachmentsResource) Update(
	ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse,
) {
	if handleTimeoutsOnly(req, resp) {
		return
	}

	ctx, cancel := withPlannedTimeout(ctx, req.Plan, updating)
	defer cancel()

	plan, ok := loadModel[diskAttachmentsModel](ctx, req.Plan, &resp.Diagnostics)
	before, ok2 := loadModel[diskAttachmentsModel](ctx, req.State, &resp.Diagnostics)
	if !ok || !ok2 {
		return
	}

	imported, unread := req.Private.GetKey(ctx, importedBlocks)
	resp.Diagnostics.Append(unread...)
	if string(imported) == "true" {
		before.dropUnplannedBootDisk(plan, &resp.Diagnostics)
	}

	r.applyPlan(ctx, plan, before, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, importedBlocks, nil)...)
}

// importedBlocks is the private-state key that marks the blocks as imported. Such a state has a block for every disk of
// the VM, even for unmanaged ones such as the boot disk. The mark lasts until the first update, perhaps months later,
// because Terraform does not save the private data of a plan without changes.
const importedBlocks = "imported_attachments"

// dropUnplannedBootDisk drops the block of an imported boot disk that has no block in the plan. Such a disk is detached
// only together with unmanaged ones. Other disks without a block are detached, because a user may have removed the
// block on purpose.
func (m *diskAttachmentsModel) dropUnplannedBootDisk(plan *diskAttachmentsModel, diags *diag.Diagnostics) {
	all := len(m.Attachments)
	m.Attachments = slices.DeleteFunc(m.Attachments, func(a attachedDiskModel) bool {
		return a.Bootable.ValueBool() && plan.findByDisk(toID(a.DiskID)) == nil
	})

	if len(m.Attachments) < all && !plan.DetachUnmanaged.ValueBool() && !plan.RemoveUnmanaged.ValueBool() {
		diags.AddWarning("The boot disk stays attached",
			"The import had all disks of the VM, and the configuration has no block for the boot disk. Set "+
				"detach_unmanaged to detach disks without a block.")
	}
}

// applyPlan makes the VM's disks match the plan, and stores the attached disks in the model.
func (r *diskAttachmentsResource) applyPlan(
	ctx context.Context, plan, before *diskAttachmentsModel, diags *diag.Diagnostics,
) {
	vmID := toID(plan.VMID)
	plan.ID = plan.VMID
	live, err := r.client.ListDiskAttachments(ctx, vmID)
	if err != nil {
		diags.AddError("The disks of the VM cannot be read", err.Error())
		plan.Attachments = nil
		if before != nil {
			plan.Attachments = before.Attachments
		}

		return
	}

	// Detach first, because a new bootable disk may replace another one.
	r.detachUnwanted(ctx, live, plan, before, diags)
	plan.Attachments = r.attachMissing(ctx, live, plan, diags)
}

// detachUnwanted detaches unplanned disks.
func (r *diskAttachmentsResource) detachUnwanted(
	ctx context.Context, live []engine.DiskAttachment, plan, before *diskAttachmentsModel, diags *diag.Diagnostics,
) {
	vmID := toID(plan.VMID)

	for i := range live {
		seen := &live[i]
		id := seen.DiskID()

		wanted, managed := plan.findByDisk(id), before != nil && before.findByDisk(id) != nil
		switch {
		case wanted == nil && (managed || plan.DetachUnmanaged.ValueBool()):
			r.detachDisk(ctx, vmID, seen, diags)
		case wanted == nil && plan.RemoveUnmanaged.ValueBool():
			if r.detachDisk(ctx, vmID, seen, diags) {
				err := r.client.RemoveDisk(ctx, id, newProgressLogger(ctx, "disk "+id.String()+" to be deleted"))
				if err != nil {
					diags.AddError("The disk was detached, but not deleted", err.Error())
				}
			}
		case wanted != nil:
			wanted.ID = toIDValue(seen.ID)
		}
	}
}

// attachMissing attaches the missing disks, changes attachments that differ from the plan, and returns the attached
// disks. It first handles disks that are no longer bootable, because a VM can have only one bootable disk.
func (r *diskAttachmentsResource) attachMissing(
	ctx context.Context, live []engine.DiskAttachment, plan *diskAttachmentsModel, diags *diag.Diagnostics,
) []attachedDiskModel {
	vmID := toID(plan.VMID)
	var attached []attachedDiskModel

	slices.SortStableFunc(plan.Attachments, func(a, b attachedDiskModel) int {
		return boolsFirst(!a.Bootable.ValueBool(), !b.Bootable.ValueBool())
	})

	for _, wanted := range plan.Attachments {
		i := slices.IndexFunc(live, func(a engine.DiskAttachment) bool { return a.DiskID() == toID(wanted.DiskID) })
		now := wanted
		if i >= 0 {
			now.setFromEngine(&live[i])
		}

		switch err := r.attachOrUpdate(ctx, vmID, live, i, &wanted, diags); {
		case err != nil && i < 0:
			diags.AddError("The disk was not attached", r.client.ExplainMissing(ctx, vmID, err).Error())
		case err != nil:
			diags.AddError("The disk was not changed", err.Error())
			attached = append(attached, now)
		case !wanted.ID.IsUnknown():
			r.made.addID(attachmentID(vmID, toID(wanted.DiskID)))
			attached = append(attached, wanted)
		}
	}

	return attached
}

// attachOrUpdate attaches a disk, or changes its attachment. at is its index in live, or -1. After an error with
// another disk, it does not attach this one.
func (r *diskAttachmentsResource) attachOrUpdate(
	ctx context.Context, vmID engine.ID, live []engine.DiskAttachment, at int, wanted *attachedDiskModel,
	diags *diag.Diagnostics,
) error {
	asked := &engine.DiskAttachment{
		Active:    wanted.Active.ValueBoolPointer(),
		Bootable:  wanted.Bootable.ValueBoolPointer(),
		Interface: wanted.Interface.ValueString(),
		Disk:      &engine.Disk{ID: toID(wanted.DiskID)},
	}

	switch {
	case at >= 0:
		wanted.ID = toIDValue(live[at].ID)
		return r.updateAttachment(ctx, vmID, &live[at], asked)
	case diags.HasError():
		return nil
	}

	made, err := r.attachDisk(ctx, vmID, asked)
	if err == nil {
		wanted.ID = toIDValue(made.ID)
	}

	return err
}

// boolsFirst sorts true before false.
func boolsFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func (r *diskAttachmentsResource) detachDisk(
	ctx context.Context, vmID engine.ID, attachment *engine.DiskAttachment, diags *diag.Diagnostics,
) bool {
	var problems diag.Diagnostics
	removeAndWait(
		ctx,
		"disk "+attachment.DiskID().String()+" of VM "+vmID.String(),
		&problems,
		func(ctx context.Context) error {
			return r.client.DetachDisk(ctx, vmID, attachment.ID)
		},
	)
	diags.Append(problems...)

	return !problems.HasError()
}

// Read keeps the blocks of attached disks. If disks without a block are attached against the configuration, it clears
// the request to detach them in the state. So the next plan requests it again.
func (r *diskAttachmentsResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[diskAttachmentsModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	live, err := r.client.ListDiskAttachments(ctx, toID(model.VMID))
	if handleReadError(ctx, err, "The disks of the VM", resp) {
		return
	}

	imported := model.ID.IsNull()
	var attached []attachedDiskModel

	for i := range live {
		known := model.findByDisk(live[i].DiskID())
		if known == nil && !imported {
			model.DetachUnmanaged, model.RemoveUnmanaged = types.BoolValue(false), types.BoolValue(false)
			continue
		}

		var seen attachedDiskModel
		seen.setFromEngine(&live[i])
		attached = append(attached, seen)
	}

	model.ID, model.Attachments = model.VMID, attached
	if imported {
		model.DetachUnmanaged, model.RemoveUnmanaged = types.BoolValue(false), types.BoolValue(false)
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Delete detaches the disks, but does not delete them.
func (r *diskAttachmentsResource) Delete(
	ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse,
) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[diskAttachmentsModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	for _, a := range model.Attachments {
		if r.made.shouldKeep(attachmentID(toID(model.VMID), toID(a.DiskID)), "disk attachment", &resp.Diagnostics) {
			continue
		}

		r.detachDisk(ctx, toID(model.VMID), &engine.DiskAttachment{ID: toID(a.ID)}, &resp.Diagnostics)
	}
}

// ImportState takes the UUID of the VM.
func (r *diskAttachmentsResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "vm_id")
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, importedBlocks, []byte("true"))...)
}
