package tfprovider

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
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

// templateNICsResource removes the network interfaces that a VM got from its template, except the named ones. It does
// so once, before the first start of the VM. Later, it could not distinguish the template's interfaces from renamed
// ones.
type templateNICsResource struct{ base }

func (r *templateNICsResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "Removes the network interfaces that a virtual machine inherits from its template, " +
			"except those in `kept`. The interfaces are removed when the resource is created, before the first start " +
			"of the VM. If the VM is not down, nothing is removed and the provider returns a warning. Later changes " +
			"remove nothing, because a renamed network interface could be one of them. Destroying the resource does " +
			"not restore the interfaces. The resource must depend on the `ovirt_nic` resources of the VM. Not " +
			"available in `ovirt/ovirt`.",
		Attributes: map[string]schema.Attribute{
			"id":    computedText("UUID of the VM."),
			"vm_id": ownerID("UUID of the VM."),
			"kept": schema.SetAttribute{
				Required:    true,
				ElementType: types.StringType,
				MarkdownDescription: "Names of the network interfaces to keep when the resource is created. Changing " +
					"this removes no network interfaces.",
				Validators: []validator.Set{setvalidator.ValueStringsAre(nicName)},
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

// listTemplateNICs lists the VM's network interfaces that have the name of an interface of its template.
func (r *templateNICsResource) listTemplateNICs(ctx context.Context, vm *engine.VM) ([]engine.NIC, error) {
	if vm.OriginalTemplateID() == "" {
		return nil, nil
	}

	given, err := r.client.ListTemplateNICs(ctx, vm.OriginalTemplateID())
	if engine.IsNotFound(err) { // the template is gone, so its interfaces are unknown
		return nil, nil
	} else if err != nil {
		return nil, err
	}

	has, err := r.client.ListNICs(ctx, vm.ID)

	return slices.DeleteFunc(has, func(nic engine.NIC) bool {
		return !slices.ContainsFunc(given, func(g engine.NIC) bool { return g.Name == nic.Name })
	}), err
}

// removeOthers removes the template's network interfaces except the kept ones, and waits until they are gone. If the VM
// is not down, it removes none and returns false.
func (r *templateNICsResource) removeOthers(ctx context.Context, model *templateNICsModel) (isDown bool, err error) {
	vmID := toID(model.VMID)

	err = pollEngine(ctx, "network interfaces of the template of VM "+vmID.String()+" to be removed",
		func(ctx context.Context) (bool, string, error) {
			vm, err := r.client.FetchVM(ctx, vmID)
			if err != nil {
				return false, "", err
			}

			if isDown = vm.Status.IsOff(); !isDown {
				return !vm.Status.IsBusy(), string(vm.Status), nil
			}

			nics, err := r.listTemplateNICs(ctx, vm)
			surplus := slices.DeleteFunc(nics, func(n engine.NIC) bool { return slices.Contains(model.Kept, n.Name) })

			for _, nic := range surplus {
				if err == nil {
					err = ignoreNotFound(r.client.DropNIC(ctx, vmID, nic.ID))
				}
			}

			return err == nil && len(surplus) == 0, "", err
		})

	return isDown, err
}

func (r *templateNICsResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[templateNICsModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	isDown, err := r.removeOthers(ctx, model)
	if err != nil {
		resp.Diagnostics.AddError("The network interfaces of the template were not removed",
			r.client.ExplainMissing(ctx, toID(model.VMID), err).Error())
		return
	}

	if !isDown {
		resp.Diagnostics.AddAttributeWarning(path.Root("vm_id"), "The network interfaces of the template stay",
			"VM "+model.VMID.ValueString()+" is not down. The guest may use them: remove them by hand.")
	}

	model.ID = model.VMID
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Read only checks whether the VM exists. It lists no interfaces, because interfaces added later are not the
// template's.
func (r *templateNICsResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[templateNICsModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	_, err := r.client.FetchVM(ctx, toID(model.VMID))
	if handleReadError(ctx, err, "The network interfaces of the template", resp) {
		return
	}

	model.ID = model.VMID
	if model.Kept == nil { // imported
		model.Kept = []string{}
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Update stores a changed list of kept names, but removes no interface.
func (r *templateNICsResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	model, ok := loadModel[templateNICsModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Delete does not change the VM.
func (r *templateNICsResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {
}

// ImportState takes the UUID of the VM.
func (r *templateNICsResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "vm_id")
}
