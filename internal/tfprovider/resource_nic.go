package tfprovider

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*nicResource)(nil)
	_ resource.ResourceWithImportState = (*nicResource)(nil)
)

func newNICResource() resource.Resource { return &nicResource{} }

type nicResource struct{ *configured }

func (r *nicResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.configured = clientFrom(req.ProviderData, resp)
}

func (r *nicResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "ovirt_nic"
}

func (r *nicResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	fixed := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Required: true, MarkdownDescription: description, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()}}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A network interface of a virtual machine.",
		Attributes: map[string]schema.Attribute{
			"id":              schema.StringAttribute{Computed: true, MarkdownDescription: "UUID of the network interface.", PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}},
			"name":            fixed("Name of the network interface."),
			"vm_id":           fixed("UUID of the VM."),
			"vnic_profile_id": fixed("UUID of the vNIC profile."),
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
	var model nicModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	vmID, name := model.VMID.ValueString(), model.Name.ValueString()
	var nic *engine.NIC
	err := poll(ctx, "network interface "+name, func(ctx context.Context) (bool, error) {
		created, err := r.client.CreateNIC(ctx, vmID, &engine.NIC{Name: name, VNICProfile: engine.NewRef(model.VNICProfileID.ValueString())})
		if err == nil {
			nic = created
			return true, nil
		}
		// An earlier try may have made it although its answer was lost: names are unique within a VM.
		existing, listErr := r.client.NICs(ctx, vmID)
		for i := range existing {
			if listErr == nil && existing[i].Name == name && engine.RefID(existing[i].VNICProfile) == model.VNICProfileID.ValueString() {
				nic = &existing[i]
				return true, nil
			}
		}
		return false, err
	})
	if err != nil {
		resp.Diagnostics.AddError("The network interface was not created", err.Error())
		return
	}
	model.observe(nic)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func (r *nicResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model nicModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	nic, err := r.client.NIC(ctx, model.VMID.ValueString(), model.ID.ValueString())
	if engine.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		resp.Diagnostics.AddError("The network interface cannot be read", err.Error())
		return
	}
	model.observe(nic)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

// Update is never planned: every attribute forces a new network interface.
func (r *nicResource) Update(_ context.Context, _ resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.Diagnostics.AddError("A network interface cannot be updated", "This is a bug in the provider: a change must replace it.")
}

func (r *nicResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model nicModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	err := poll(ctx, "network interface to be removed", func(ctx context.Context) (bool, error) {
		err := r.client.DeleteNIC(ctx, model.VMID.ValueString(), model.ID.ValueString())
		if engine.IsNotFound(err) {
			return true, nil
		}
		return err == nil, err
	})
	if err != nil {
		resp.Diagnostics.AddError("The network interface was not removed", err.Error())
	}
}

// ImportState takes VM-UUID/NIC-UUID.
func (r *nicResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	vmID, id, ok := strings.Cut(req.ID, "/")
	if !ok {
		resp.Diagnostics.AddError("Invalid import ID", "Write VM-UUID/NIC-UUID.")
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("vm_id"), vmID)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), id)...)
}
