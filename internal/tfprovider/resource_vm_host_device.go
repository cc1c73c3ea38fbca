package tfprovider

import (
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

var (
	_ resource.ResourceWithConfigure   = (*vmHostDeviceResource)(nil)
	_ resource.ResourceWithImportState = (*vmHostDeviceResource)(nil)
)

func newVMHostDeviceResource() resource.Resource {
	return &vmHostDeviceResource{fixed{base{typeName: "ovirt_vm_host_device"}}}
}

type vmHostDeviceResource struct{ fixed }

func (r *vmHostDeviceResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "Attaches a host device to a virtual machine. The VM must be pinned to the host. Not " +
			"available in `ovirt/ovirt`.",
		Attributes: map[string]schema.Attribute{
			"id":    computedText("UUID of the VM and name of the device, separated by a slash."),
			"vm_id": ownerID("UUID of the VM."),
			"name":  requiredText("Name of the device, such as `pci_0000_3b_00_0`.", notEmpty),
		},
	})
}

type vmHostDeviceModel struct {
	timed

	ID   types.String `tfsdk:"id"`
	VMID types.String `tfsdk:"vm_id"`
	Name types.String `tfsdk:"name"`
}

func (m *vmHostDeviceModel) setID() {
	m.ID = types.StringValue(m.VMID.ValueString() + "/" + m.Name.ValueString())
}

func (r *vmHostDeviceResource) hasDevice(ctx context.Context, model *vmHostDeviceModel) (bool, error) {
	names, err := r.client.ListVMHostDevices(ctx, toID(model.VMID))
	return slices.Contains(names, model.Name.ValueString()), err
}

func (r *vmHostDeviceResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[vmHostDeviceModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	what := "host device " + model.Name.ValueString() + " of VM " + model.VMID.ValueString()
	model.setID()
	has := func(ctx context.Context) (bool, error) { return r.hasDevice(ctx, model) }

	err := r.refuseMember(ctx, what, model.ID.ValueString(), has)
	if err == nil {
		err = ensureDone(ctx, what, func(ctx context.Context) error {
			return r.client.AddHostDevice(ctx, toID(model.VMID), model.Name.ValueString())
		}, has)
	}

	if err != nil {
		r.keepUnanswered(ctx, err, req.Plan, resp)
		resp.Diagnostics.AddError("The host device was not added",
			r.client.ExplainMissing(ctx, toID(model.VMID), err).Error())

		return
	}

	r.made.addID(model.ID.ValueString())
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *vmHostDeviceResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[vmHostDeviceModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	has, err := r.hasDevice(ctx, model)
	if handleReadError(ctx, err, "The host devices of the VM", resp) {
		return
	}

	if !has {
		resp.State.RemoveResource(ctx)
		return
	}

	model.setID()
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *vmHostDeviceResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[vmHostDeviceModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	if r.made.shouldKeep(model.ID.ValueString(), "host device", &resp.Diagnostics) {
		return
	}

	removeAndWait(ctx, "Host device "+model.Name.ValueString(), &resp.Diagnostics, func(ctx context.Context) error {
		return r.client.RemoveHostDevice(ctx, toID(model.VMID), model.Name.ValueString())
	})
}

// ImportState takes VM-UUID/NAME.
func (r *vmHostDeviceResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	vmID, name, ok := strings.Cut(strings.TrimSpace(req.ID), "/")
	if !ok || name == "" {
		resp.Diagnostics.AddError("Invalid import ID", "Write VM-UUID/NAME.")
		return
	}

	// The engine knows IDs only in lower case.
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("vm_id"), strings.ToLower(vmID))...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("name"), name)...)
}
