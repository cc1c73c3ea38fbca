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
	_ resource.ResourceWithConfigure   = (*vmMediatedDeviceResource)(nil)
	_ resource.ResourceWithImportState = (*vmMediatedDeviceResource)(nil)
)

func newVMMediatedDeviceResource() resource.Resource {
	return &vmMediatedDeviceResource{fixed{base{typeName: "ovirt_vm_mediated_device"}}}
}

type vmMediatedDeviceResource struct{ fixed }

func (r *vmMediatedDeviceResource) Schema(
	_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse,
) {
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "A mediated device of a virtual machine, such as a virtual GPU. Not available in " +
			"`ovirt/ovirt`.",
		Attributes: map[string]schema.Attribute{
			"id":    computedText("UUID of the device."),
			"vm_id": ownerID("UUID of the VM."),
			"type":  requiredText("Type of the device as reported by the host, such as `nvidia-63`.", notEmpty),
		},
	})
}

type vmMediatedDeviceModel struct {
	timed

	ID   types.String `tfsdk:"id"`
	VMID types.String `tfsdk:"vm_id"`
	Type types.String `tfsdk:"type"`
}

// mediatedDeviceLocks are locks by the VM's UUID. A resource holds one while it adds a device. Otherwise, its search
// after a lost answer could find a device that another resource has just added.
var mediatedDeviceLocks = keyedLocks{held: map[string]chan struct{}{}}

// Create adds a device. A VM may have several devices of one type. After a lost answer, a device counts as the new one
// if it did not exist before.
func (r *vmMediatedDeviceResource) Create(
	ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse,
) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[vmMediatedDeviceModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	vmID, kind := toID(model.VMID), model.Type.ValueString()

	unlock, err := mediatedDeviceLocks.lockKey(ctx, vmID.String())
	if err != nil {
		resp.Diagnostics.AddError("The mediated device was not added", err.Error())
		return
	}
	defer unlock()

	before, err := r.client.ListMediatedDevices(ctx, vmID)
	if err != nil {
		resp.Diagnostics.AddError("The mediated device was not added", r.client.ExplainMissing(ctx, vmID, err).Error())
		return
	}

	looked := false
	known := collectIDs(before, func(d *engine.MediatedDevice) engine.ID { return d.ID }, isAny)
	what := "mediated device " + kind + " of VM " + vmID.String()
	made, err := engine.CreateOnce(ctx, what, newProgressLogger(ctx, what),
		func(ctx context.Context) (*engine.MediatedDevice, error) {
			return r.client.AddMediatedDevice(ctx, vmID, kind)
		},
		func(ctx context.Context) (*engine.MediatedDevice, error) {
			all, err := r.client.ListMediatedDevices(ctx, vmID)
			looked = err == nil

			for i := range all {
				if !slices.Contains(known, all[i].ID) && all[i].Type() == kind {
					return &all[i], nil
				}
			}

			return nil, err
		})
	if err != nil {
		// Nothing distinguishes two devices of one type. If a look found no new device, a device that appears later
		// belongs to another resource.
		if !looked {
			r.keepUnanswered(ctx, engine.AddKnownIDs(err, known), req.Plan, resp)
		}

		resp.Diagnostics.AddError("The mediated device was not added", r.client.ExplainMissing(ctx, vmID, err).Error())

		return
	}

	model.ID = toIDValue(made.ID)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *vmMediatedDeviceResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[vmMediatedDeviceModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	all, err := r.client.ListMediatedDevices(ctx, toID(model.VMID))
	if handleReadError(ctx, err, "The mediated devices of the VM", resp) {
		return
	}

	at := slices.IndexFunc(all, func(d engine.MediatedDevice) bool { return d.ID == toID(model.ID) })
	if at < 0 {
		resp.State.RemoveResource(ctx)
		return
	}

	// No recording shows whether every engine reports the type.
	if kind := all[at].Type(); kind != "" {
		model.Type = types.StringValue(kind)
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *vmMediatedDeviceResource) Delete(
	ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse,
) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[vmMediatedDeviceModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	removeAndWait(ctx, "Mediated device "+model.Type.ValueString(), &resp.Diagnostics, func(ctx context.Context) error {
		return r.client.RemoveMediatedDevice(ctx, toID(model.VMID), toID(model.ID))
	})
}

// ImportState takes VM-UUID/UUID.
func (r *vmMediatedDeviceResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "vm_id", "id")
}
