package tfprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*affinityLabelResource)(nil)
	_ resource.ResourceWithImportState = (*affinityLabelResource)(nil)
)

func newAffinityLabelResource() resource.Resource {
	return &affinityLabelResource{base{typeName: "ovirt_affinity_label"}}
}

type affinityLabelResource struct{ base }

// Schema implements resource.Resource.
func (r *affinityLabelResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "An affinity label for virtual machines and hosts. A label cannot be deleted while it " +
			"is assigned to a VM or host. Not available in `ovirt/ovirt`.",
		Attributes: map[string]schema.Attribute{
			"id":   computedText("UUID of the affinity label."),
			"name": requiredText("Name of the affinity label. Must be unique on the engine.", tagName),
			"implicit_affinity_group": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether to run VMs with this label only on hosts with this label. Defaults to " +
					"`false`.",
			},
		},
	})
}

type affinityLabelModel struct {
	timed

	ID       types.String `tfsdk:"id"`
	Name     types.String `tfsdk:"name"`
	Implicit types.Bool   `tfsdk:"implicit_affinity_group"`
}

func (m *affinityLabelModel) toEngine() *engine.Label {
	return &engine.Label{Name: m.Name.ValueString(), Implicit: flagPointer(m.Implicit)}
}

// Create implements resource.Resource.
func (r *affinityLabelResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[affinityLabelModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	name := model.Name.ValueString()
	label, err := named[engine.Label]{
		kind: "affinity label",
		name: name,
		create: func(ctx context.Context) (*engine.Label, error) {
			return r.client.CreateAffinityLabel(ctx, model.toEngine())
		},
		list: func(ctx context.Context) ([]engine.Label, error) {
			return r.client.ListAffinityLabelsNamed(ctx, name)
		},
		remove: func(ctx context.Context, l *engine.Label) error { return r.client.DeleteAffinityLabel(ctx, l.ID) },
		id:     func(l *engine.Label) string { return l.ID.String() },
	}.createUnique(ctx)
	if err != nil {
		r.keepUnanswered(ctx, err, req.Plan, resp)
		resp.Diagnostics.AddError("The affinity label was not created", err.Error())
		return
	}

	model.ID = toIDValue(label.ID)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Read implements resource.Resource.
func (r *affinityLabelResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[affinityLabelModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	label, err := r.client.FetchAffinityLabel(ctx, toID(model.ID))
	if handleReadError(ctx, err, "The affinity label", resp) {
		return
	}

	model.Name = types.StringValue(label.Name)
	model.Implicit = keepIfAbsent(model.Implicit, types.BoolPointerValue(label.Implicit))
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Update implements resource.Resource. VMs and hosts keep the label.
func (r *affinityLabelResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if handleTimeoutsOnly(req, resp) {
		return
	}

	ctx, cancel := withPlannedTimeout(ctx, req.Plan, updating)
	defer cancel()

	model, ok := loadModel[affinityLabelModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	id := toID(model.ID)
	err := pollEngine(
		ctx,
		"affinity label "+id.String()+" to be updated",
		func(ctx context.Context) (bool, string, error) {
			err := r.client.UpdateAffinityLabel(ctx, id, model.toEngine())
			return err == nil, "", err
		},
	)
	if err != nil {
		resp.Diagnostics.AddError("The affinity label was not updated", err.Error())
		return
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Delete implements resource.Resource.
func (r *affinityLabelResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[affinityLabelModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	removeAndWait(ctx, "affinity label "+model.ID.ValueString(), &resp.Diagnostics, func(ctx context.Context) error {
		return r.client.DeleteAffinityLabel(ctx, toID(model.ID))
	})
}

// ImportState takes the UUID of the label.
func (r *affinityLabelResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "id")
}
