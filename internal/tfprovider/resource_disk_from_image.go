package tfprovider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure  = (*diskFromImageResource)(nil)
	_ resource.ResourceWithModifyPlan = (*diskFromImageResource)(nil)
)

func newDiskFromImageResource() resource.Resource {
	return &diskFromImageResource{base{typeName: "ovirt_disk_from_image"}}
}

type diskFromImageResource struct{ base }

func (r *diskFromImageResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := diskAttributes()
	attributes["size"] = schema.Int64Attribute{Computed: true, MarkdownDescription: "Size of the image in bytes.",
		PlanModifiers: []planmodifier.Int64{int64planmodifier.UseStateForUnknown()}}
	attributes["source_file"] = requiredText(
		"Path of a raw or qcow2 image on the machine that runs Terraform. Changing only the content of the file has "+
			"no effect.",
		notEmpty,
	)
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "A disk created from a local image file.",
		Attributes:          attributes,
	}, "format", "sparse")
}

func (r *diskFromImageResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	planLayout(ctx, req, resp)
	r.refuseAllocation(ctx, req, &resp.Diagnostics)
}

type diskFromImageModel struct {
	diskModel
	SourceFile types.String `tfsdk:"source_file"`
}

func (r *diskFromImageResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[diskFromImageModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	disk, err := r.uploadImage(ctx, model)
	if disk != nil {
		model.fillUnknowns(disk)
		resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
		resp.Diagnostics.Append(storeLayout(ctx, resp.Private, &model.diskModel)...)
	}

	if err == nil {
		return
	}

	if disk != nil { // it could not be removed: the next apply does it
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, brokenOff, []byte("true"))...)
	} else {
		r.keepUnanswered(ctx, err, req.Plan, resp)
	}

	resp.Diagnostics.AddError("The image was not uploaded", err.Error())
}

// brokenOff is the private-state key of a disk without all of its image. A transfer may still have it.
const brokenOff = "broken_off"

func (r *diskFromImageResource) uploadImage(ctx context.Context, model *diskFromImageModel) (*engine.Disk, error) {
	image, header, err := engine.OpenImage(model.SourceFile.ValueString())
	if err != nil {
		return nil, fmt.Errorf("source_file: %w", err)
	}
	defer image.Close()
	sparse, err := model.chooseAllocation(ctx, r.client, model.Format.ValueString())
	if err != nil {
		return nil, err
	}

	options := engine.UploadOptions{
		Image:           image,
		Size:            header.FileSize,
		StorageDomainID: toID(model.StorageDomainID),
		Format:          model.Format.ValueString(),
		Sparse:          sparse,
		Report:          newProgressLogger(ctx, "upload of "+model.SourceFile.ValueString()),
	}
	if alias := model.getAlias(); alias != nil {
		options.Alias = *alias
	}

	tenth := int64(-1)
	disk, _, err := r.client.UploadImage(ctx, options, func(sent, total int64) {
		if now := sent * 10 / total; now != tenth {
			tenth = now
			tflog.Info(ctx, "uploading "+model.SourceFile.ValueString(), map[string]any{"sent": sent, "total": total})
		}
	})

	return disk, err
}

func (r *diskFromImageResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[diskFromImageModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	disk, err := r.client.FetchDisk(ctx, toID(model.ID))
	if handleReadError(ctx, err, "The disk", resp) {
		return
	}

	resp.Diagnostics.Append(storeInitialLayout(ctx, req.Private, resp.Private, &model.diskModel, disk)...)
	model.setFromEngine(disk)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *diskFromImageResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if handleTimeoutsOnly(req, resp) {
		return
	}

	ctx, cancel := withPlannedTimeout(ctx, req.Plan, updating)
	defer cancel()

	plan, ok := loadModel[diskFromImageModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	if err := r.updateDisk(ctx, &plan.diskModel); err != nil {
		resp.Diagnostics.AddError("The disk was not updated", err.Error())
		return
	}

	resp.Diagnostics.Append(storeLayout(ctx, resp.Private, &plan.diskModel)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *diskFromImageResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	unfinished, problems := req.Private.GetKey(ctx, brokenOff)
	if resp.Diagnostics.Append(problems...); len(unfinished) == 0 {
		r.deleteDisk(ctx, req, resp)
		return
	}

	id := getUUID(ctx, req.State, "id")
	if err := r.client.RemoveUnfinishedDisk(
		ctx, id, newProgressLogger(ctx, "disk "+id.String()+" to be deleted"),
	); err != nil {
		resp.Diagnostics.AddError("The disk was not deleted", err.Error())
	}
}
