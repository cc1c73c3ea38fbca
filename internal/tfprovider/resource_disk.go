package tfprovider

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*diskResource)(nil)
	_ resource.ResourceWithMoveState   = (*diskResource)(nil)
	_ resource.ResourceWithImportState = (*diskResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*diskResource)(nil)
)

func newDiskResource() resource.Resource {
	return &diskResource{base{typeName: "ovirt_disk"}}
}

type diskResource struct{ base }

// diskAttributes returns the attributes of all resources for disks.
func diskAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"id": computedText("UUID of the disk."),
		"alias": engineDefaultText(
			"Alias of the disk. Does not have to be unique. The engine generates an alias if omitted.", notEmpty,
		),
		"format": requiredText("Format of the disk: `cow` or `raw`.",
			stringvalidator.OneOf(engine.FormatCow, engine.FormatRaw)),
		"sparse": engineDefaultFlag(
			"Whether to allocate space on the storage only when data is written. Defaults to `true`, except for raw " +
				"disks on block storage, which do not support it.",
		),
		"storage_domain_id": ownerID("UUID of the storage domain."),
		"status":            liveText("Status of the disk: `ok`, `locked` or `illegal`."),
		"total_size": schema.Int64Attribute{
			Computed:            true,
			MarkdownDescription: "Space that the disk occupies on the storage, in bytes.",
		},
	}
}

func (r *diskResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := diskAttributes()
	attributes["size"] = sizeAttribute(
		"Size in bytes. Increasing it grows the disk in place. A disk that was enlarged elsewhere, such as by " +
			"`ovirt_disk_resize`, keeps its size.",
	)
	resp.Schema = r.completeSchema(
		schema.Schema{MarkdownDescription: "A disk.", Attributes: attributes}, "format", "sparse",
	)
}

type diskModel struct {
	timed

	ID              types.String `tfsdk:"id"`
	Alias           types.String `tfsdk:"alias"`
	Format          types.String `tfsdk:"format"`
	Size            types.Int64  `tfsdk:"size"`
	Sparse          types.Bool   `tfsdk:"sparse"`
	StorageDomainID types.String `tfsdk:"storage_domain_id"`
	Status          types.String `tfsdk:"status"`
	TotalSize       types.Int64  `tfsdk:"total_size"`
}

// setFromEngine copies the engine's values into the model. A disk larger than requested is not drift, because growing
// cannot be undone, and another resource may have requested it.
func (m *diskModel) setFromEngine(disk *engine.Disk) {
	m.ID, m.Alias = toIDValue(disk.ID), types.StringValue(disk.AliasText())
	m.Format = keepIfAbsent(m.Format, textOrNull(disk.Format))
	m.Sparse = keepIfAbsent(m.Sparse, types.BoolPointerValue(disk.Sparse))
	m.Status, m.TotalSize = types.StringValue(string(disk.Status)), types.Int64Value(disk.TotalSize)
	if m.Size.IsNull() || m.Size.IsUnknown() || disk.ProvisionedSize < m.Size.ValueInt64() {
		m.Size = types.Int64Value(disk.ProvisionedSize)
	}

	domains := disk.StorageDomainIDs()
	if len(domains) > 0 && !slices.Contains(domains, toID(m.StorageDomainID)) {
		m.StorageDomainID = toIDValue(domains[0]) // imported, or moved
	}
}

// fillUnknowns replaces the unknown values of a plan.
func (m *diskModel) fillUnknowns(disk *engine.Disk) {
	seen := *m
	seen.setFromEngine(disk)
	m.ID = seen.ID
	fillUnknown(&m.Alias, seen.Alias)
	fillUnknown(&m.Sparse, seen.Sparse)
	fillUnknown(&m.Size, seen.Size)
	fillUnknown(&m.Status, seen.Status)
	fillUnknown(&m.TotalSize, seen.TotalSize)
}

// getAlias returns the alias to request, or nil for the engine's default.
func (m *diskModel) getAlias() *string {
	if m.Alias.IsUnknown() {
		return nil
	}

	return m.Alias.ValueStringPointer()
}

// chooseAllocation returns the allocation to request for a disk of this format. This is the configured allocation, or
// else the one the storage domain needs. It fails if the storage domain accepts no disks.
func (m *diskModel) chooseAllocation(ctx context.Context, client *engine.Client, format string) (*bool, error) {
	_, sparse, err := client.ChooseDiskPlace(ctx, nil, engine.DiskPlace{
		DomainID: toID(m.StorageDomainID), Format: format, Sparse: flagPointer(m.Sparse),
	})

	return sparse, err
}

// importedSize is the private-state key that marks the size in the state as the engine's. An imported disk has such a
// size, because nobody has requested it, and something else may have grown the disk. The next update applies the
// configured size.
const importedSize = "imported_size"

// refuseShrinking is the ModifyPlan for a size. It plans a smaller disk only as a replacement.
func refuseShrinking(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	diags := &resp.Diagnostics
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() || len(resp.RequiresReplace) > 0 {
		return
	}

	imported, unread := req.Private.GetKey(ctx, importedSize)
	diags.Append(unread...)
	if string(imported) == "true" {
		return
	}

	var before, after types.Int64
	diags.Append(req.State.GetAttribute(ctx, path.Root("size"), &before)...)
	diags.Append(req.Plan.GetAttribute(ctx, path.Root("size"), &after)...)
	if !after.IsUnknown() && after.ValueInt64() < before.ValueInt64() {
		diags.AddAttributeError(
			path.Root("size"),
			"size cannot shrink",
			fmt.Sprintf(
				"The disk has %d bytes, and size asks for %d. The engine cannot make a disk smaller: delete it and "+
					"make another one, or ask for at least what it has.",
				before.ValueInt64(),
				after.ValueInt64(),
			),
		)
	}
}

func (r *diskResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	planLayout(ctx, req, resp)
	refuseShrinking(ctx, req, resp)
	r.refuseAllocation(ctx, req, &resp.Diagnostics)
}

func (r *diskResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[diskModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	sparse, err := model.chooseAllocation(ctx, r.client, model.Format.ValueString())
	if err != nil {
		resp.Diagnostics.AddError("The disk was not created", err.Error())
		return
	}

	disk, err := r.client.CreateDiskOnce(ctx, r.owner, &engine.Disk{
		Alias:           model.getAlias(),
		Format:          model.Format.ValueString(),
		ProvisionedSize: model.Size.ValueInt64(),
		Sparse:          sparse,
		StorageDomains:  &engine.StorageDomains{Items: []engine.Ref{{ID: toID(model.StorageDomainID)}}},
	}, r.fence, newProgressLogger(ctx, "disk to be created"))
	if err != nil {
		r.keepUnanswered(ctx, err, req.Plan, resp)
		resp.Diagnostics.AddError("The disk was not created", err.Error())
		return
	}

	// The disk exists now, so save it in the state before anything else can fail.
	created := *model
	created.fillUnknowns(disk)
	resp.Diagnostics.Append(resp.State.Set(ctx, &created)...)
	resp.Diagnostics.Append(storeLayout(ctx, resp.Private, &created)...)
	err = r.client.WaitDisk(ctx, disk.ID, newProgressLogger(ctx, "disk "+disk.ID.String()+" to be ready"))

	var early *engine.WaitError
	switch {
	case errors.As(err, &early):
		// An error would taint the disk, and the next plan would replace it. The users of the disk wait for it anyway.
		resp.Diagnostics.AddWarning("The disk is not ready yet", err.Error())
	case err != nil:
		resp.Diagnostics.AddError("The disk is not ready", err.Error())
		return
	}

	if ready, err := r.client.FetchDisk(ctx, disk.ID); err == nil {
		model.fillUnknowns(ready)
		resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	}
}

func (r *diskResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[diskModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	disk, err := r.client.FetchDisk(ctx, toID(model.ID))
	if handleReadError(ctx, err, "The disk", resp) {
		return
	}

	if req.Private != nil { // a list has no private state
		resp.Diagnostics.Append(storeInitialLayout(ctx, req.Private, resp.Private, model, disk)...)
	}

	model.setFromEngine(disk)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *diskResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if handleTimeoutsOnly(req, resp) {
		return
	}

	ctx, cancel := withPlannedTimeout(ctx, req.Plan, updating)
	defer cancel()

	plan, ok := loadModel[diskModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	if err := r.updateDisk(ctx, plan); err != nil {
		resp.Diagnostics.AddError("The disk was not updated", err.Error())
		return
	}

	resp.Diagnostics.Append(resp.Private.SetKey(ctx, importedSize, nil)...)
	resp.Diagnostics.Append(storeLayout(ctx, resp.Private, plan)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// updateDisk renames, moves and grows the disk as planned, and fills in the unknown values of the plan.
func (b *base) updateDisk(ctx context.Context, plan *diskModel) error {
	id := toID(plan.ID)
	err := pollEngine(ctx, "disk "+id.String()+" to be renamed", func(ctx context.Context) (bool, string, error) {
		disk, err := b.client.FetchDisk(ctx, id)
		if err == nil && plan.getAlias() != nil && disk.AliasText() != *plan.getAlias() {
			err = b.client.UpdateDisk(ctx, id, &engine.Disk{Alias: plan.getAlias()})
		}

		return err == nil, "", err
	})
	if domain := toID(plan.StorageDomainID); err == nil && domain != "" {
		err = b.client.MoveDisk(ctx, id, domain, newProgressLogger(ctx, "disk "+id.String()+" to be moved"))
	}

	if err == nil {
		err = b.client.GrowDisk(ctx, id, plan.Size.ValueInt64(), newProgressLogger(ctx, "disk "+id.String()+" to grow"))
	}

	if err != nil {
		return err
	}

	disk, err := b.client.FetchDisk(ctx, id)
	if err != nil {
		return err
	}

	status := plan.Status
	plan.fillUnknowns(disk)
	plan.Status = keepPlanned(status, plan.Status)

	return nil
}

func (r *diskResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	r.deleteDisk(ctx, req, resp)
}

func (b *base) deleteDisk(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var id types.String
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("id"), &id)...)
	if resp.Diagnostics.HasError() {
		return
	}

	if err := b.client.RemoveDisk(
		ctx, toID(id), newProgressLogger(ctx, "disk "+id.ValueString()+" to be deleted"),
	); err != nil {
		resp.Diagnostics.AddError("The disk was not deleted", err.Error())
	}
}

func (r *diskResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "id")
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, importedSize, []byte("true"))...)
}

// MoveState accepts the state of an ovirt_disk_from_image. It drops the image from the state, and does not change the
// disk.
func (r *diskResource) MoveState(ctx context.Context) []resource.StateMover {
	const source = "ovirt_disk_from_image"

	var made resource.SchemaResponse
	newDiskFromImageResource().Schema(ctx, resource.SchemaRequest{}, &made)

	return []resource.StateMover{{
		SourceSchema: &made.Schema,
		StateMover: func(ctx context.Context, req resource.MoveStateRequest, resp *resource.MoveStateResponse) {
			if req.SourceTypeName != source || req.SourceState == nil {
				return // Terraform reports that the move is not possible
			}

			model, ok := loadModel[diskFromImageModel](ctx, req.SourceState, &resp.Diagnostics)
			if ok {
				resp.Diagnostics.Append(resp.TargetState.Set(ctx, &model.diskModel)...)
			}
		},
	}}
}
