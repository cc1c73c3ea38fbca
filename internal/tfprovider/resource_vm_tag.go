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
	resp.Schema = r.planned(schema.Schema{
		MarkdownDescription: "A tag on a virtual machine.",
		Attributes: map[string]schema.Attribute{
			"id":     computedText("UUID of the tag and UUID of the VM, with an underscore between them."),
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

func (r *vmTagResource) tagged(ctx context.Context, model *vmTagModel) (bool, error) {
	tags, err := r.client.VMTags(ctx, idOf(model.VMID))
	return slices.ContainsFunc(tags, func(tag engine.Tag) bool { return tag.ID == idOf(model.TagID) }), err
}

func (r *vmTagResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := within(ctx, req.Plan, creating)
	defer cancel()

	model, ok := load[vmTagModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	what := "tag " + model.TagID.ValueString() + " on VM " + model.VMID.ValueString()
	tagged := func(ctx context.Context) (bool, error) { return r.tagged(ctx, model) }

	err := r.refuseMember(ctx, what, model.importID(), tagged)
	if err == nil {
		err = ensure(ctx, what, func(ctx context.Context) error {
			return r.client.TagVM(ctx, idOf(model.VMID), idOf(model.TagID))
		}, tagged)
	}

	if err != nil {
		r.keepAsked(ctx, err, req.Plan, resp)
		resp.Diagnostics.AddError("The VM was not tagged", r.client.ExplainMissing(ctx, idOf(model.VMID), err).Error())
		return
	}

	r.made.add(model.importID())
	model.ID = types.StringValue(model.TagID.ValueString() + "_" + model.VMID.ValueString())
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *vmTagResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := load[vmTagModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	tagged, err := r.tagged(ctx, model)
	if unread(ctx, err, "The tags of the VM", resp) {
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
	ctx, cancel := within(ctx, req.State, deleting)
	defer cancel()

	model, ok := load[vmTagModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	if r.made.keeps(model.importID(), "tag of the VM", &resp.Diagnostics) {
		return
	}

	remove(
		ctx,
		"tag "+model.TagID.ValueString()+" of VM "+model.VMID.ValueString(),
		&resp.Diagnostics,
		func(ctx context.Context) error {
			return r.client.UntagVM(ctx, idOf(model.VMID), idOf(model.TagID))
		},
	)
}

// ImportState takes TAG-UUID/VM-UUID.
func (r *vmTagResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "tag_id", "vm_id")
}
