package tfprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*nicResource)(nil)
	_ resource.ResourceWithImportState = (*nicResource)(nil)
)

func newNICResource() resource.Resource {
	return &nicResource{fixed{base{typeName: "ovirt_nic"}}}
}

type nicResource struct{ fixed }

func (r *nicResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A network interface of a virtual machine.",
		Attributes: map[string]schema.Attribute{
			"id":              computedText("UUID of the network interface."),
			"name":            fixedText("Name of the network interface.", notEmpty),
			"vm_id":           fixedID("UUID of the VM."),
			"vnic_profile_id": fixedID("UUID of the vNIC profile."),
		},
	}
}

type nicModel struct {
	ID            types.String `tfsdk:"id"`
	Name          types.String `tfsdk:"name"`
	VMID          types.String `tfsdk:"vm_id"`
	VNICProfileID types.String `tfsdk:"vnic_profile_id"`
}

func (m *nicModel) observe(nic *engine.NIC) {
	m.ID, m.Name = types.StringValue(nic.ID), types.StringValue(nic.Name)
	m.VNICProfileID = types.StringValue(engine.RefID(nic.VNICProfile))
}

func (r *nicResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	model, ok := load[nicModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}
	vmID, name := model.VMID.ValueString(), model.Name.ValueString()
	var nic *engine.NIC
	err := poll(ctx, "network interface "+name, func(ctx context.Context) (bool, string, error) {
		created, err := r.client.CreateNIC(ctx, vmID, &engine.NIC{Name: name, VNICProfile: engine.NewRef(model.VNICProfileID.ValueString())})
		if err == nil {
			nic = created
			return true, "", nil
		}
		// An earlier try may have made it although its answer was lost: names are unique within a VM.
		existing, listErr := r.client.NICs(ctx, vmID)
		for i := range existing {
			if listErr == nil && existing[i].Name == name && engine.RefID(existing[i].VNICProfile) == model.VNICProfileID.ValueString() {
				nic = &existing[i]
				return true, "", nil
			}
		}
		return false, "", err
	})
	if err != nil {
		resp.Diagnostics.AddError("The network interface was not created", err.Error())
		return
	}
	model.observe(nic)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *nicResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := load[nicModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}
	nic, err := r.client.NIC(ctx, model.VMID.ValueString(), model.ID.ValueString())
	if unread(ctx, err, "The network interface", resp) {
		return
	}
	model.observe(nic)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *nicResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	model, ok := load[nicModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}
	vmID, id := model.VMID.ValueString(), model.ID.ValueString()
	remove(ctx, "network interface "+id, &resp.Diagnostics, func(ctx context.Context) error {
		err := r.client.DeleteNIC(ctx, vmID, id)
		if engine.IsConflict(err) && !engine.IsTransient(err) { // the VM runs
			if err = r.client.UnplugNIC(ctx, vmID, id); err == nil {
				err = r.client.DeleteNIC(ctx, vmID, id)
			}
		}
		return err
	})
}

// ImportState takes VM-UUID/NIC-UUID.
func (r *nicResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	importParts(ctx, req, resp, "vm_id", "id")
}
