package tfprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure      = (*vmStartResource)(nil)
	_ resource.ResourceWithImportState    = (*vmStartResource)(nil)
	_ resource.ResourceWithValidateConfig = (*vmStartResource)(nil)
)

func newVMStartResource() resource.Resource { return &vmStartResource{} }

type vmStartResource struct{ *configured }

func (r *vmStartResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.configured = clientFrom(req.ProviderData, resp)
}

func (r *vmStartResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "ovirt_vm_start"
}

func (r *vmStartResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Starts a virtual machine when it is created, and stops it when it is destroyed.",
		Attributes: map[string]schema.Attribute{
			"id":            schema.StringAttribute{Computed: true, MarkdownDescription: "UUID of the VM.", PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}},
			"vm_id":         schema.StringAttribute{Required: true, MarkdownDescription: "UUID of the VM.", PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()}},
			"status":        schema.StringAttribute{Optional: true, MarkdownDescription: "Desired status; only `up`."},
			"stop_behavior": schema.StringAttribute{Optional: true, MarkdownDescription: "`shutdown` (default) asks the guest, `stop` powers off."},
			"force_stop":    schema.BoolAttribute{Optional: true, MarkdownDescription: "Stop also while a backup is going."},
		},
	}
}

type vmStartModel struct {
	ID           types.String `tfsdk:"id"`
	VMID         types.String `tfsdk:"vm_id"`
	Status       types.String `tfsdk:"status"`
	StopBehavior types.String `tfsdk:"stop_behavior"`
	ForceStop    types.Bool   `tfsdk:"force_stop"`
}

func (r *vmStartResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var model vmStartModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if status := model.Status; !status.IsNull() && !status.IsUnknown() && status.ValueString() != "up" {
		resp.Diagnostics.AddAttributeError(path.Root("status"), "Invalid status", "The only desired status is up.")
	}
	if b := model.StopBehavior; !b.IsNull() && !b.IsUnknown() && b.ValueString() != "stop" && b.ValueString() != "shutdown" {
		resp.Diagnostics.AddAttributeError(path.Root("stop_behavior"), "Invalid stop_behavior", "Write stop or shutdown.")
	}
}

// start brings the VM up: it waits for locked disks, starts a VM that is down, and leaves one that runs alone.
func (r *vmStartResource) start(ctx context.Context, id string) error {
	err := poll(ctx, "VM "+id+" to start", func(ctx context.Context) (bool, error) {
		vm, err := r.client.VM(ctx, id)
		if err != nil {
			return false, err
		}
		switch {
		case vm.Status == engine.VMUp:
			return true, nil
		case vm.Status.Starting():
			return r.returnOnStart, nil
		case vm.Status != engine.VMDown:
			return false, nil // locked or on its way down
		}
		if err := r.client.StartVM(ctx, id); err != nil && !engine.IsConflict(err) {
			return false, err
		} else if err != nil {
			// A conflict is either a status that changed in between, which the next look sees, or a refusal that
			// will stay: no host fits, no disk boots.
			if vm, again := r.client.VM(ctx, id); again == nil && vm.Status == engine.VMDown && !engine.IsTransient(err) {
				return false, err
			}
			return false, nil
		}
		return r.returnOnStart, nil
	})
	return err
}

func (r *vmStartResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model vmStartModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := r.start(ctx, model.VMID.ValueString()); err != nil {
		resp.Diagnostics.AddError("The VM was not started", err.Error())
		return
	}
	model.ID = model.VMID
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

// Read only asks whether the VM is still there. A live status in the state would plan a restart of a VM that is just
// rebooting.
func (r *vmStartResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model vmStartModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if _, err := r.client.VM(ctx, model.ID.ValueString()); engine.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		return
	} else if err != nil {
		resp.Diagnostics.AddError("The VM cannot be read", err.Error())
		return
	}
	model.VMID = model.ID
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func (r *vmStartResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model vmStartModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	model.ID = model.VMID
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func (r *vmStartResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model vmStartModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	graceful := model.StopBehavior.ValueString() != "stop"
	if err := powerOff(ctx, r.client, model.ID.ValueString(), graceful, model.ForceStop.ValueBool()); err != nil {
		resp.Diagnostics.AddError("The VM was not stopped", err.Error())
	}
}

func (r *vmStartResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, path.Root("id"), req, resp)
}
