package tfprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*tagResource)(nil)
	_ resource.ResourceWithImportState = (*tagResource)(nil)
)

func newTagResource() resource.Resource {
	return &tagResource{base{typeName: "ovirt_tag"}}
}

type tagResource struct{ base }

func (r *tagResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "A tag for virtual machines.",
		Attributes: map[string]schema.Attribute{
			"id":          computedText("UUID of the tag."),
			"name":        requiredText("Name of the tag. Must be unique on the engine.", tagName),
			"description": schema.StringAttribute{Optional: true, MarkdownDescription: "Description of the tag."},
		},
	})
}

type tagModel struct {
	timed

	ID          types.String `tfsdk:"id"`
	Name        types.String `tfsdk:"name"`
	Description types.String `tfsdk:"description"`
}

func (m *tagModel) setFromEngine(tag *engine.Tag) {
	m.ID, m.Name, m.Description = toIDValue(
		tag.ID,
	), types.StringValue(
		tag.Name,
	), toTextValue(
		m.Description, tag.Description,
	)
}

func (r *tagResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[tagModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	name := model.Name.ValueString()
	tag, err := named[engine.Tag]{
		kind: "tag", name: name,
		create: func(ctx context.Context) (*engine.Tag, error) {
			return r.client.CreateTag(ctx, &engine.Tag{Name: name, Description: model.Description.ValueString()})
		},
		list:   func(ctx context.Context) ([]engine.Tag, error) { return r.client.ListTagsNamed(ctx, name) },
		remove: func(ctx context.Context, tag *engine.Tag) error { return r.client.DeleteTag(ctx, tag.ID) },
		id:     func(tag *engine.Tag) string { return tag.ID.String() },
	}.createUnique(ctx)
	if err != nil {
		r.keepUnanswered(ctx, err, req.Plan, resp)
		resp.Diagnostics.AddError("The tag was not created", err.Error())
		return
	}

	model.ID = toIDValue(tag.ID)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *tagResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[tagModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	tag, err := r.client.FetchTag(ctx, toID(model.ID))
	if handleReadError(ctx, err, "The tag", resp) {
		return
	}

	model.setFromEngine(tag)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Update changes the name or description of the tag. VMs keep the tag.
func (r *tagResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if handleTimeoutsOnly(req, resp) {
		return
	}

	ctx, cancel := withPlannedTimeout(ctx, req.Plan, updating)
	defer cancel()

	model, ok := loadModel[tagModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	id := toID(model.ID)
	err := pollEngine(ctx, "tag "+id.String()+" to be updated", func(ctx context.Context) (bool, string, error) {
		err := r.client.UpdateTag(ctx, id, model.Name.ValueString(), model.Description.ValueString())
		return err == nil, "", err
	})
	if err != nil {
		resp.Diagnostics.AddError("The tag was not updated", err.Error())
		return
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *tagResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[tagModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	removeAndWait(ctx, "tag "+model.ID.ValueString(), &resp.Diagnostics, func(ctx context.Context) error {
		return r.client.DeleteTag(ctx, toID(model.ID))
	})
}

func (r *tagResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "id")
}
