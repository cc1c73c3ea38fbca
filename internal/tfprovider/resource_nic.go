package tfprovider

import (
	"context"
	"strings"

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
			"name":            fixedText("Name of the network interface.", nicName),
			"vm_id":           fixedID("UUID of the VM."),
			"vnic_profile_id": fixedID("UUID of the vNIC profile."),
			"mac": enginesText(
				"MAC address; the engine's pool gives one where it is not set. Not in the released provider.",
				macAddress,
			),
			"interface": enginesText(
				"Emulated hardware, such as `virtio` or `e1000`. Not in the released provider.",
				notEmpty,
			),
		},
	}
}

type nicModel struct {
	ID            types.String `tfsdk:"id"`
	Name          types.String `tfsdk:"name"`
	VMID          types.String `tfsdk:"vm_id"`
	VNICProfileID types.String `tfsdk:"vnic_profile_id"`
	MAC           types.String `tfsdk:"mac"`
	Interface     types.String `tfsdk:"interface"`
}

// toEngine is the request that makes it.
func (m *nicModel) toEngine() *engine.NIC {
	nic := &engine.NIC{
		Name:        m.Name.ValueString(),
		VNICProfile: engine.NewRef(idOf(m.VNICProfileID)),
		Interface:   m.Interface.ValueString(),
	}
	if isKnown(m.MAC) {
		nic.MAC = &engine.MAC{Address: m.MAC.ValueString()}
	}

	return nic
}

func (m *nicModel) observe(nic *engine.NIC) {
	m.ID, m.Name = idValue(nic.ID), types.StringValue(nic.Name)
	m.VNICProfileID = idValue(engine.RefID(nic.VNICProfile))
	m.Interface = optional(nic.Interface)
	if nic.MAC == nil {
		m.MAC = types.StringNull()
	} else if !strings.EqualFold(m.MAC.ValueString(), nic.MAC.Address) { // an address is the same in both cases
		m.MAC = optional(nic.MAC.Address)
	}
}

func (r *nicResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	model, ok := load[nicModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	vmID, name := idOf(model.VMID), model.Name.ValueString()
	var nic *engine.NIC
	err := poll(ctx, "network interface "+name, func(ctx context.Context) (bool, string, error) {
		ctx = context.WithoutCancel(ctx) // an interrupt would leave one that the state does not know
		created, err := r.client.CreateNIC(ctx, vmID, model.toEngine())
		if err == nil {
			nic = created
			return true, "", nil
		}

		// An earlier try may have made it although its answer was lost, or the VM has it from its template: names are
		// unique within a VM, so it is this one, and becomes what is asked for.
		existing, listErr := r.client.NICs(ctx, vmID)
		for i := range existing {
			if listErr == nil && existing[i].Name == name {
				nic, err = r.client.UpdateNIC(ctx, vmID, existing[i].ID, model.toEngine())
				return err == nil, "", err
			}
		}

		return false, "", err
	})
	if err != nil {
		resp.Diagnostics.AddError("The network interface was not created",
			r.client.ExplainMissing(ctx, vmID, err).Error())
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

	nic, err := r.client.NIC(ctx, idOf(model.VMID), idOf(model.ID))
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

	vmID, id := idOf(model.VMID), idOf(model.ID)
	remove(ctx, "network interface "+id.String(), &resp.Diagnostics, func(ctx context.Context) error {
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
func (r *nicResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "vm_id", "id")
}
