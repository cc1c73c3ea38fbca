package tfprovider

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*vmWatchdogResource)(nil)
	_ resource.ResourceWithImportState = (*vmWatchdogResource)(nil)
)

func newVMWatchdogResource() resource.Resource {
	return &vmWatchdogResource{base{typeName: "ovirt_vm_watchdog"}}
}

type vmWatchdogResource struct{ base }

func (r *vmWatchdogResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "The watchdog of a virtual machine. A VM can have at most one watchdog. Not available " +
			"in `ovirt/ovirt`.",
		Attributes: map[string]schema.Attribute{
			"id":    computedText("UUID of the watchdog."),
			"vm_id": ownerID("UUID of the VM."),
			"model": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "Model of the device: `i6300esb` or `diag288`.",
				Validators:          []validator.String{stringvalidator.OneOf("i6300esb", "diag288")},
			},
			"action": schema.StringAttribute{
				Required: true,
				MarkdownDescription: "Action of the host when the watchdog expires: `none`, `reset`, `poweroff`, " +
					"`pause` or `dump`.",
				Validators: []validator.String{
					stringvalidator.OneOf("none", "reset", "poweroff", "pause", "dump"),
				},
			},
		},
	})
}

type vmWatchdogModel struct {
	timed

	ID     types.String `tfsdk:"id"`
	VMID   types.String `tfsdk:"vm_id"`
	Model  types.String `tfsdk:"model"`
	Action types.String `tfsdk:"action"`
}

func (m *vmWatchdogModel) toEngine() engine.Watchdog {
	return engine.Watchdog{ID: toID(m.ID), Model: m.Model.ValueString(), Action: m.Action.ValueString()}
}

func (r *vmWatchdogResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[vmWatchdogModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	asked, lost := false, false
	what := "the watchdog of VM " + model.VMID.ValueString()
	err := pollEngine(ctx, what, func(ctx context.Context) (bool, string, error) {
		ctx = context.WithoutCancel(ctx) // an interrupt would leave a watchdog outside the state
		err := r.ensureWatchdog(ctx, model, &asked)
		lost = lost || engine.IsAnswerLost(err)

		return err == nil, "", err
	})
	if err != nil {
		r.keepUnanswered(ctx, markUnanswered(err, asked && lost), req.Plan, resp)
		resp.Diagnostics.AddError("The watchdog was not added",
			r.client.ExplainMissing(ctx, toID(model.VMID), err).Error())

		return
	}

	r.made.addID(model.ID.ValueString())
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// ensureWatchdog gives the VM the watchdog. The engine rejects a second one, so it changes an existing watchdog that
// comes from the template, or from a request with a lost answer. asked reports whether there was such a request.
func (r *vmWatchdogResource) ensureWatchdog(ctx context.Context, model *vmWatchdogModel, asked *bool) error {
	vmID := toID(model.VMID)
	there, err := r.client.ListWatchdogs(ctx, vmID)
	if err != nil {
		return err
	}

	wanted := model.toEngine()
	if len(there) > 0 {
		if err := r.refuseForeign(ctx, vmID, there[0].ID, *asked); err != nil {
			return err
		}

		wanted.ID = there[0].ID
		model.ID = toIDValue(wanted.ID)

		return r.client.UpdateWatchdog(ctx, vmID, wanted)
	}

	wanted.ID = ""
	*asked = true
	made, err := r.client.AddWatchdog(ctx, vmID, wanted)
	if err == nil {
		model.ID = toIDValue(made.ID)
	}

	return err
}

// refuseForeign returns an error if the VM's watchdog comes neither from its template nor from a request of this
// resource.
func (r *vmWatchdogResource) refuseForeign(ctx context.Context, vmID, id engine.ID, asked bool) error {
	if (asked || r.canTakeOver(id.String())) && !r.made.hasID(id.String()) {
		return nil
	}

	vm, err := r.client.FetchVM(ctx, vmID)
	if err != nil {
		return err
	}

	of, err := r.client.HasTemplateWatchdog(ctx, vm.OriginalTemplateID())
	if err == nil && (!of || r.made.hasID(id.String())) {
		err = fmt.Errorf("VM %s has a watchdog already: import it with the ID %s/%s", vmID, vmID, id)
	}

	return err
}

func (r *vmWatchdogResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[vmWatchdogModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	all, err := r.client.ListWatchdogs(ctx, toID(model.VMID))
	if handleReadError(ctx, err, "The watchdog of the VM", resp) {
		return
	}

	at := slices.IndexFunc(all, func(w engine.Watchdog) bool { return w.ID == toID(model.ID) })
	if at < 0 {
		resp.State.RemoveResource(ctx)
		return
	}

	model.Model, model.Action = types.StringValue(all[at].Model), types.StringValue(all[at].Action)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *vmWatchdogResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if handleTimeoutsOnly(req, resp) {
		return
	}

	ctx, cancel := withPlannedTimeout(ctx, req.Plan, updating)
	defer cancel()

	model, ok := loadModel[vmWatchdogModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	what := "the watchdog of VM " + model.VMID.ValueString() + " to be updated"
	err := pollEngine(ctx, what, func(ctx context.Context) (bool, string, error) {
		err := r.client.UpdateWatchdog(ctx, toID(model.VMID), model.toEngine())
		return err == nil, "", err
	})
	if err != nil {
		resp.Diagnostics.AddError("The watchdog was not updated", err.Error())
		return
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *vmWatchdogResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[vmWatchdogModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	if r.made.shouldKeep(model.ID.ValueString(), "watchdog", &resp.Diagnostics) {
		return
	}

	removeAndWait(
		ctx,
		"The watchdog of VM "+model.VMID.ValueString(),
		&resp.Diagnostics,
		func(ctx context.Context) error {
			return r.client.RemoveWatchdog(ctx, toID(model.VMID), toID(model.ID))
		},
	)
}

// ImportState takes VM-UUID/UUID.
func (r *vmWatchdogResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "vm_id", "id")
}
