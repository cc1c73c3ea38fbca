package tfprovider

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*vmTagResource)(nil)
	_ resource.ResourceWithImportState = (*vmTagResource)(nil)
)

func newVMTagResource() resource.Resource {
	return &vmTagResource{fixed{base{typeName: "ovirt_vm_tag"}}}
}

type vmTagResource struct{ fixed }

func (r *vmTagResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "Assigns a tag to a virtual machine.",
		Attributes: map[string]schema.Attribute{
			"id":     computedText("UUIDs of the tag and the VM, separated by an underscore."),
			"tag_id": ownerID("UUID of the tag."),
			"vm_id":  ownerID("UUID of the VM."),
		},
	})
}

type vmTagModel struct {
	timed

	ID    types.String `tfsdk:"id"`
	TagID types.String `tfsdk:"tag_id"`
	VMID  types.String `tfsdk:"vm_id"`
}

func (m *vmTagModel) importID() string { return m.TagID.ValueString() + "/" + m.VMID.ValueString() }

func (r *vmTagResource) hasTag(ctx context.Context, model *vmTagModel) (bool, error) {
	tags, err := r.client.ListVMTags(ctx, toID(model.VMID))
	return slices.ContainsFunc(tags, func(tag engine.Tag) bool { return tag.ID == toID(model.TagID) }), err
}

func (r *vmTagResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[vmTagModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	what := "tag " + model.TagID.ValueString() + " on VM " + model.VMID.ValueString()
	tagged := func(ctx context.Context) (bool, error) { return r.hasTag(ctx, model) }

	err := r.refuseMember(ctx, what, model.importID(), tagged)
	if err == nil {
		err = ensureDone(ctx, what, func(ctx context.Context) error {
			return r.client.TagVM(ctx, toID(model.VMID), toID(model.TagID))
		}, tagged)
	}

	if err != nil {
		r.keepUnanswered(ctx, err, req.Plan, resp)
		resp.Diagnostics.AddError("The VM was not tagged", r.client.ExplainMissing(ctx, toID(model.VMID), err).Error())
		return
	}

	r.made.addID(model.importID())
	model.ID = types.StringValue(model.TagID.ValueString() + "_" + model.VMID.ValueString())
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *vmTagResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[vmTagModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	tagged, err := r.hasTag(ctx, model)
	if handleReadError(ctx, err, "The tags of the VM", resp) {
		return
	}

	if !tagged {
		resp.State.RemoveResource(ctx)
		return
	}

	model.ID = types.StringValue(model.TagID.ValueString() + "_" + model.VMID.ValueString())
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *vmTagResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[vmTagModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	if r.made.shouldKeep(model.importID(), "tag of the VM", &resp.Diagnostics) {
		return
	}

	removeAndWait(
		ctx,
		"tag "+model.TagID.ValueString()+" of VM "+model.VMID.ValueString(),
		&resp.Diagnostics,
		func(ctx context.Context) error {
			return r.client.UntagVM(ctx, toID(model.VMID), toID(model.TagID))
		},
	)
}

// ImportState takes TAG-UUID/VM-UUID.
func (r *vmTagResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "tag_id", "vm_id")
}
