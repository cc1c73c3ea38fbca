package tfprovider

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*templateNICsResource)(nil)
	_ resource.ResourceWithImportState = (*templateNICsResource)(nil)
)

func newVMTemplateNICsResource() resource.Resource {
	return &templateNICsResource{base{typeName: "ovirt_vm_template_nics"}}
}

// templateNICsResource removes the VM's network interfaces from its template, except for the named ones.
type templateNICsResource struct{ base }

func (r *templateNICsResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.planned(schema.Schema{
		MarkdownDescription: "Removes the network interfaces that a virtual machine has from its template, but for " +
			"those that are named. Others stay. Destroying it brings none back. Not in the released provider.",
		Attributes: map[string]schema.Attribute{
			"id":    computedText("UUID of the VM."),
			"vm_id": ownerID("UUID of the VM."),
			"kept": schema.SetAttribute{
				Required:            true,
				ElementType:         types.StringType,
				MarkdownDescription: "Names of the network interfaces that stay.",
				Validators:          []validator.Set{setvalidator.ValueStringsAre(nicName)},
			},
		},
	})
}

type templateNICsModel struct {
	timed

	ID   types.String `tfsdk:"id"`
	VMID types.String `tfsdk:"vm_id"`
	Kept []string     `tfsdk:"kept"`
}

// ofTemplate lists the network interfaces of a VM with the same name as one of its template.
func (r *templateNICsResource) ofTemplate(ctx context.Context, vmID engine.ID) ([]engine.NIC, error) {
	vm, err := r.client.VM(ctx, vmID)
	if err != nil || vm.MadeFrom() == "" {
		return nil, err
	}

	given, err := r.client.TemplateNICs(ctx, vm.MadeFrom())
	if engine.IsNotFound(err) { // the template is gone, so its interfaces are unknown
		return nil, nil
	} else if err != nil {
		return nil, err
	}

	has, err := r.client.NICs(ctx, vmID)

	return slices.DeleteFunc(has, func(nic engine.NIC) bool {
		return !slices.ContainsFunc(given, func(g engine.NIC) bool { return g.Name == nic.Name })
	}), err
}

// removeOthers removes all interfaces not kept, and waits until none is left.
func (r *templateNICsResource) removeOthers(ctx context.Context, model *templateNICsModel) error {
	vmID := idOf(model.VMID)

	return poll(ctx, "network interfaces of the template of VM "+vmID.String()+" to be removed",
		func(ctx context.Context) (bool, string, error) {
			nics, err := r.ofTemplate(ctx, vmID)
			surplus := slices.DeleteFunc(nics, func(n engine.NIC) bool { return slices.Contains(model.Kept, n.Name) })

			for _, nic := range surplus {
				if err == nil {
					err = ignoreNotFound(r.client.DropNIC(ctx, vmID, nic.ID))
				}
			}

			return err == nil && len(surplus) == 0, "", err
		})
}

func (r *templateNICsResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := within(ctx, req.Plan, creating)
	defer cancel()

	model, ok := load[templateNICsModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	if err := r.removeOthers(ctx, model); err != nil {
		resp.Diagnostics.AddError("The network interfaces of the template were not removed",
			r.client.ExplainMissing(ctx, idOf(model.VMID), err).Error())
		return
	}

	model.ID = model.VMID
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Read adds the VM's interfaces from its template to the kept ones, so a plan shows them.
func (r *templateNICsResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := load[templateNICsModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	nics, err := r.ofTemplate(ctx, idOf(model.VMID))
	if unread(ctx, err, "The network interfaces of the template", resp) {
		return
	}

	model.ID = model.VMID
	if model.Kept == nil { // imported
		model.Kept = []string{}
	}

	for _, nic := range nics {
		if !slices.Contains(model.Kept, nic.Name) {
			model.Kept = append(model.Kept, nic.Name)
		}
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Update is planned if other names are kept, or if the VM has an interface from its template again.
func (r *templateNICsResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if onlyTimeouts(req, resp) {
		return
	}

	ctx, cancel := within(ctx, req.Plan, updating)
	defer cancel()

	model, ok := load[templateNICsModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	if err := r.removeOthers(ctx, model); err != nil {
		resp.Diagnostics.AddError("The network interfaces of the template were not removed", err.Error())
		return
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Delete leaves the VM unchanged.
func (r *templateNICsResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {
}

// ImportState takes the UUID of the VM.
func (r *templateNICsResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "vm_id")
}
