package tfprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*vmStartResource)(nil)
	_ resource.ResourceWithImportState = (*vmStartResource)(nil)
)

func newVMStartResource() resource.Resource {
	return &vmStartResource{base{typeName: "ovirt_vm_start"}}
}

type vmStartResource struct{ base }

// These are the values of stop_behavior.
const (
	stopByGuest = "shutdown"
	stopByPower = "stop"
)

func (r *vmStartResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "Starts a virtual machine. Destroying the resource stops the VM.",
		Attributes: map[string]schema.Attribute{
			"id":    computedText("UUID of the VM."),
			"vm_id": ownerID("UUID of the VM."),
			"status": schema.StringAttribute{
				Optional:   true,
				Computed:   true,
				Default:    stringdefault.StaticString(string(engine.VMUp)),
				Validators: []validator.String{stringvalidator.OneOf(string(engine.VMUp))},
				MarkdownDescription: "Desired status. Must be `up`. A VM that is down is started again; a VM in any " +
					"other status is not changed.",
			},
			"stop_behavior": schema.StringAttribute{
				Optional:   true,
				Computed:   true,
				Default:    stringdefault.StaticString(stopByGuest),
				Validators: []validator.String{stringvalidator.OneOf(stopByGuest, stopByPower)},
				MarkdownDescription: "How to stop the VM: `shutdown` asks the guest to shut down, and `stop` powers " +
					"off the VM. Defaults to `shutdown`."},
			"force_stop": schema.BoolAttribute{
				Optional:            true,
				Computed:            true,
				Default:             booldefault.StaticBool(false),
				MarkdownDescription: "Whether to stop the VM even during a backup. Defaults to `false`.",
			},
			"use_initialization": schema.BoolAttribute{
				Optional: true,
				MarkdownDescription: "Whether to pass the VM's initialization to the guest even if the VM was up " +
					"before. If omitted, the engine passes it only at the VM's first start. Not available in " +
					"`ovirt/ovirt`.",
			},
		},
	})
}

type vmStartModel struct {
	timed

	ID           types.String `tfsdk:"id"`
	VMID         types.String `tfsdk:"vm_id"`
	Status       types.String `tfsdk:"status"`
	StopBehavior types.String `tfsdk:"stop_behavior"`
	ForceStop    types.Bool   `tfsdk:"force_stop"`
	// UseInitialization matters only at the start.
	UseInitialization types.Bool `tfsdk:"use_initialization"`
}

// startAndWait brings the VM up. It waits for locked disks, starts a stopped VM, and resumes a suspended or paused one.
// It does not change a running VM.
func (r *vmStartResource) startAndWait(ctx context.Context, id engine.ID, initialize bool) error {
	return pollEngine(ctx, "VM "+id.String()+" to start", func(ctx context.Context) (bool, string, error) {
		vm, err := r.client.FetchVM(ctx, id)
		if err != nil {
			return false, "", err
		}

		seen := string(vm.Status)
		switch {
		case vm.Status == engine.VMUp:
			return true, seen, nil
		case vm.Status.IsStarting():
			return r.returnOnStart, seen, nil
		case vm.Status != engine.VMDown && vm.Status != engine.VMSuspended && vm.Status != engine.VMPaused:
			return false, seen, nil // locked, or shutting down
		}

		if err := r.client.StartVM(ctx, id, initialize); err != nil && !engine.IsConflict(err) {
			return false, seen, err
		} else if err != nil {
			// A conflict has one of two reasons. If the status has changed in between, the next look shows it.
			// Otherwise, the refusal is permanent, because no host fits or no disk boots.
			vm, again := r.client.FetchVM(ctx, id)
			if again == nil && string(vm.Status) == seen && !engine.IsTransient(err) {
				return false, seen, err
			}

			return false, seen, nil
		}

		return r.returnOnStart, seen, nil
	})
}

func (r *vmStartResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[vmStartModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	if err := r.startAndWait(ctx, toID(model.VMID), model.UseInitialization.ValueBool()); err != nil {
		resp.Diagnostics.AddError("The VM was not started", r.client.ExplainMissing(ctx, toID(model.VMID), err).Error())
		return
	}

	model.ID = model.VMID
	r.made.addID("started/" + model.VMID.ValueString())
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Read distinguishes only between a stopped VM and all others. With the exact status in the state, a VM that reboots or
// migrates would cause a plan with a change.
func (r *vmStartResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[vmStartModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	vm, err := r.client.FetchVM(ctx, toID(model.VMID))
	if handleReadError(ctx, err, "The VM", resp) {
		return
	}

	// A configuration generated from an import always has the status up. The next read finds the VM down.
	imported := model.ID.IsNull()

	model.ID, model.Status = model.VMID, types.StringValue(string(engine.VMUp))
	if vm.Status == engine.VMDown && !imported {
		model.Status = types.StringValue(string(engine.VMDown))
	}

	if model.StopBehavior.IsNull() { // after an import: the engine does not know how to stop the VM
		model.StopBehavior, model.ForceStop = types.StringValue(stopByGuest), types.BoolValue(false)
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *vmStartResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if handleTimeoutsOnly(req, resp) {
		return
	}

	ctx, cancel := withPlannedTimeout(ctx, req.Plan, updating)
	defer cancel()

	plan, ok := loadModel[vmStartModel](ctx, req.Plan, &resp.Diagnostics)
	before, ok2 := loadModel[vmStartModel](ctx, req.State, &resp.Diagnostics)
	if !ok || !ok2 {
		return
	}

	if !plan.Status.Equal(before.Status) && plan.Status.ValueString() == string(engine.VMUp) {
		if err := r.startAndWait(ctx, toID(plan.VMID), false); err != nil {
			resp.Diagnostics.AddError("The VM was not started", err.Error())
			return
		}
	}

	plan.ID = plan.VMID
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *vmStartResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[vmStartModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	if r.made.shouldKeep("started/"+model.VMID.ValueString(), "started VM", &resp.Diagnostics) {
		return
	}

	graceful := model.StopBehavior.ValueString() != stopByPower
	if err := powerOff(ctx, r.client, toID(model.VMID), graceful, model.ForceStop.ValueBool()); err != nil {
		resp.Diagnostics.AddError("The VM was not stopped", err.Error())
	}
}

// ImportState takes the UUID of the VM.
func (r *vmStartResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "vm_id")
}
