package tfprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*graphicsConsolesResource)(nil)
	_ resource.ResourceWithImportState = (*graphicsConsolesResource)(nil)
)

func newVMGraphicsConsolesResource() resource.Resource {
	return &graphicsConsolesResource{base{typeName: "ovirt_vm_graphics_consoles"}}
}

// graphicsConsolesResource removes all graphics consoles of a VM. The released provider supports nothing else.
type graphicsConsolesResource struct{ base }

func (r *graphicsConsolesResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "Removes the graphics consoles of a virtual machine. Destroying the resource does not " +
			"restore them.",
		Attributes: map[string]schema.Attribute{
			"id":    computedText("UUID of the VM."),
			"vm_id": ownerID("UUID of the VM."),
		},
		Blocks: map[string]schema.Block{"console": schema.SetNestedBlock{
			MarkdownDescription: "A graphics console of the VM. It cannot be configured, because a VM with this " +
				"resource has no graphics consoles.",
			Validators: []validator.Set{setvalidator.SizeAtMost(0)},
			NestedObject: schema.NestedBlockObject{Attributes: map[string]schema.Attribute{
				"id": schema.StringAttribute{Computed: true, MarkdownDescription: "UUID of the graphics console."},
			}},
		}},
	})
}

type graphicsConsolesModel struct {
	timed

	ID       types.String           `tfsdk:"id"`
	VMID     types.String           `tfsdk:"vm_id"`
	Consoles []graphicsConsoleModel `tfsdk:"console"`
}

type graphicsConsoleModel struct {
	ID types.String `tfsdk:"id"`
}

// removeAll removes the consoles, and waits until they are gone.
func (r *graphicsConsolesResource) removeAll(ctx context.Context, vmID engine.ID) error {
	return pollEngine(
		ctx,
		"graphics consoles of VM "+vmID.String()+" to be removed",
		func(ctx context.Context) (bool, string, error) {
			ids, err := r.client.ListGraphicsConsoles(ctx, vmID)
			for _, id := range ids {
				if err == nil {
					err = ignoreNotFound(r.client.DeleteGraphicsConsole(ctx, vmID, id))
				}
			}

			return err == nil && len(ids) == 0, "", err
		},
	)
}

func (r *graphicsConsolesResource) Create(
	ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse,
) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[graphicsConsolesModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	if err := r.removeAll(ctx, toID(model.VMID)); err != nil {
		resp.Diagnostics.AddError("The graphics consoles were not removed",
			r.client.ExplainMissing(ctx, toID(model.VMID), err).Error())
		return
	}

	model.ID = model.VMID
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *graphicsConsolesResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[graphicsConsolesModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	ids, err := r.client.ListGraphicsConsoles(ctx, toID(model.VMID))
	if handleReadError(ctx, err, "The graphics consoles", resp) {
		return
	}

	model.ID, model.Consoles = model.VMID, nil
	for _, id := range ids {
		model.Consoles = append(model.Consoles, graphicsConsoleModel{types.StringValue(string(id))})
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Update removes the consoles if the VM has some again.
func (r *graphicsConsolesResource) Update(
	ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse,
) {
	if handleTimeoutsOnly(req, resp) {
		return
	}

	ctx, cancel := withPlannedTimeout(ctx, req.Plan, updating)
	defer cancel()

	model, ok := loadModel[graphicsConsolesModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	if err := r.removeAll(ctx, toID(model.VMID)); err != nil {
		resp.Diagnostics.AddError("The graphics consoles were not removed", err.Error())
		return
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Delete does not change the VM.
func (r *graphicsConsolesResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {
}

// ImportState takes the UUID of the VM.
func (r *graphicsConsolesResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "vm_id")
}
