package tfprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*optimizeCPUResource)(nil)
	_ resource.ResourceWithImportState = (*optimizeCPUResource)(nil)
)

func newVMOptimizeCPUResource() resource.Resource {
	return &optimizeCPUResource{fixed{base{typeName: "ovirt_vm_optimize_cpu_settings"}}}
}

type optimizeCPUResource struct{ fixed }

func (r *optimizeCPUResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "Lets the engine pin the CPUs and NUMA nodes of a virtual machine. Destroying the " +
			"resource disables the pinning.",
		Attributes: map[string]schema.Attribute{
			"id":    computedText("UUID of the VM."),
			"vm_id": ownerID("UUID of the VM."),
		},
	})
}

type optimizeCPUModel struct {
	timed

	ID   types.String `tfsdk:"id"`
	VMID types.String `tfsdk:"vm_id"`
}

func (r *optimizeCPUResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[optimizeCPUModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	err := pollEngine(
		ctx,
		"CPU settings of VM "+model.VMID.ValueString(),
		func(ctx context.Context) (bool, string, error) {
			vm, err := r.client.FetchVM(ctx, toID(model.VMID))
			if err != nil || vm.Status == engine.VMImageLocked {
				return false, string(engine.VMImageLocked), err
			}

			err = r.client.OptimizeCPU(ctx, vm.ID)

			return err == nil, string(vm.Status), err
		},
	)
	if err != nil {
		resp.Diagnostics.AddError("The CPU settings were not optimized",
			r.client.ExplainMissing(ctx, toID(model.VMID), err).Error())
		return
	}

	model.ID = model.VMID
	r.made.addID("optimized/" + model.VMID.ValueString())
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Read removes the resource from the state if the engine's pinning is off.
func (r *optimizeCPUResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[optimizeCPUModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	vm, err := r.client.FetchVM(ctx, toID(model.VMID))
	if handleReadError(ctx, err, "The VM", resp) {
		return
	}

	if vm.AutoPinning == engine.AutoPinningOff {
		resp.State.RemoveResource(ctx)
		return
	}

	model.ID = model.VMID
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *optimizeCPUResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[optimizeCPUModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	if r.made.shouldKeep("optimized/"+model.VMID.ValueString(), "CPU settings", &resp.Diagnostics) {
		return
	}

	id := toID(model.VMID)
	removeAndWait(ctx, "CPU settings of VM "+id.String(), &resp.Diagnostics, func(ctx context.Context) error {
		err := r.client.StopOptimizingCPU(ctx, id)
		if engine.IsRefused(err) && !engine.IsTransient(err) {
			// An error would not help, because the setting disappears together with the VM.
			resp.Diagnostics.AddWarning("The CPU settings stay optimized", err.Error())
			return nil
		}

		return err
	})
}

// ImportState takes the UUID of the VM.
func (r *optimizeCPUResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "vm_id")
}
