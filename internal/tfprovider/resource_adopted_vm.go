package tfprovider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*adoptedVMResource)(nil)
	_ resource.ResourceWithImportState = (*adoptedVMResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*adoptedVMResource)(nil)
)

func newAdoptedVMResource() resource.Resource {
	return &adoptedVMResource{base{typeName: "ovirt_adopted_vm"}}
}

// adoptedVMResource is the initialization of an existing VM. It never creates or deletes the VM.
type adoptedVMResource struct{ base }

// Schema implements resource.Resource.
func (r *adoptedVMResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := map[string]schema.Attribute{
		"id":                            computedText("UUID of the VM."),
		"vm_id":                         ownerID("UUID of the VM."),
		"initialization_hostname":       initText("Host name of the guest."),
		"initialization_dns_servers":    initTexts("IP addresses of the guest's DNS servers."),
		"initialization_search_domains": initTexts("DNS search domains of the guest."),
		"previous": schema.StringAttribute{
			Computed:            true,
			Sensitive:           true,
			MarkdownDescription: "Previous initialization of the VM, as JSON.",
			PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
		},
	}
	maps.Copy(attributes, scriptAttributes(
		"User data for cloud-init or Ignition. The guest receives it at the next start with `use_initialization`.",
	))
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "Takes over an existing virtual machine. Creating the resource sets the guest " +
			"initialization of the VM, which must be down. Destroying the resource restores the previous user data, " +
			"host name and network configuration. Passwords are not restored, because the engine does not disclose " +
			"them. The VM itself is never created or deleted, and its other settings do not change. The guest " +
			"receives the initialization if `ovirt_vm_start` sets `use_initialization`. Not available in " +
			"`ovirt/ovirt`.",
		Attributes: attributes,
		Blocks:     map[string]schema.Block{"initialization_nic": initNICBlock()},
	}, scriptAttribute, writeOnlyScriptVersion, "initialization_hostname")
}

// ModifyPlan implements resource.ResourceWithModifyPlan.
func (r *adoptedVMResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	planScript(ctx, req, resp)
}

type adoptedVMModel struct {
	timed

	ID            types.String   `tfsdk:"id"`
	VMID          types.String   `tfsdk:"vm_id"`
	CustomScript  types.String   `tfsdk:"initialization_custom_script"`
	WriteOnly     types.String   `tfsdk:"initialization_custom_script_wo"`
	ScriptVersion types.Int64    `tfsdk:"initialization_custom_script_wo_version"`
	Hostname      types.String   `tfsdk:"initialization_hostname"`
	DNSServers    types.List     `tfsdk:"initialization_dns_servers"`
	SearchDomains types.List     `tfsdk:"initialization_search_domains"`
	NICs          []initNICModel `tfsdk:"initialization_nic"`
	Previous      types.String   `tfsdk:"previous"`
}

// mergeInitialization returns the initialization to request. Network settings missing from the configuration stay
// unchanged. They must still be in the request, because the engine may forget anything a request omits.
func (m *adoptedVMModel) mergeInitialization(has *engine.Initialization) *engine.Initialization {
	vm := vmModel{
		CustomScript: m.CustomScript, Hostname: m.Hostname,
		DNSServers: m.DNSServers, SearchDomains: m.SearchDomains, NICs: m.NICs,
	}
	out := vm.buildInitialization()
	if out == nil {
		out = &engine.Initialization{}
	}

	if has == nil {
		return out
	}

	if out.NICs == nil {
		out.NICs = has.NICs
	}

	if out.DNSServers == "" && out.DNSSearch == "" {
		out.DNSServers, out.DNSSearch = has.DNSServers, has.DNSSearch
	}

	return out
}

// Create implements resource.Resource. It does not change a running VM, because the guest would not read the
// initialization.
func (r *adoptedVMResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[adoptedVMModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	asked := *model
	asked.CustomScript = getScript(ctx, req.Config, model.CustomScript, &resp.Diagnostics)
	previous, err := r.writeInitialization(ctx, &asked)
	var lost *engine.UnansweredError
	if err != nil {
		resp.Diagnostics.AddError("The VM was not taken over", err.Error())
		if !errors.As(err, &lost) {
			return
		}
	}

	content, err := json.Marshal(previous)
	if err != nil {
		resp.Diagnostics.AddError("The VM's own initialization cannot be kept", err.Error())
		return
	}

	// Save this even after a lost answer. The next create could not distinguish the VM's former settings from those
	// written here.
	model.ID, model.Previous = model.VMID, types.StringValue(string(content))
	model.clearUnknown()
	r.made.addID("adopted/" + model.VMID.ValueString())
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// clearUnknown sets unknown values to null.
func (m *adoptedVMModel) clearUnknown() {
	fillUnknown(&m.CustomScript, types.StringNull())

	for _, list := range []*types.List{&m.DNSServers, &m.SearchDomains} {
		if list.IsUnknown() {
			*list = types.ListNull(types.StringType)
		}
	}
}

// writeInitialization writes the initialization of the VM, and returns the previous one. If an earlier try has already
// written it, it does nothing, even if the VM has started since.
func (r *adoptedVMResource) writeInitialization(
	ctx context.Context, model *adoptedVMModel,
) (previous *engine.Initialization, err error) {
	id, lost := toID(model.VMID), false
	err = pollEngine(ctx, "VM "+id.String()+" to be taken over", func(ctx context.Context) (bool, string, error) {
		vm, err := r.client.FetchFullVM(ctx, id)
		if err != nil {
			return false, "", err
		}

		wanted := model.mergeInitialization(vm.Initialization)
		if previous == nil {
			previous = model.originalInitialization(vm.Initialization, wanted)
		}

		switch {
		case hasWantedUserData(vm.Initialization, wanted):
			return true, "", nil
		case vm.Status.IsBusy():
			return false, string(vm.Status), nil
		case !vm.Status.IsOff():
			return false, "", fmt.Errorf("VM %s is %s; power it off: its guest reads the initialization when it starts",
				vm.Name, vm.Status)
		}

		_, err = r.client.ChangeVM(ctx, id, &engine.VM{Initialization: wanted})
		lost = lost || engine.IsAnswerLost(err)

		return err == nil, string(vm.Status), err
	})

	return previous, markUnanswered(err, lost)
}

// hasWantedUserData reports whether a VM already has the wanted user data and host name.
func hasWantedUserData(has, wanted *engine.Initialization) bool {
	return has != nil && has.CustomScript == wanted.CustomScript && has.HostName == wanted.HostName &&
		has.CustomScript+has.HostName != ""
}

// originalInitialization returns the initialization of a VM before its adoption. If it equals the wanted one, an
// earlier try has written it. In this case, only network settings missing from the configuration can come from the VM
// itself.
func (m *adoptedVMModel) originalInitialization(has, wanted *engine.Initialization) *engine.Initialization {
	if has == nil {
		return &engine.Initialization{}
	}

	out := *has
	if !hasWantedUserData(has, wanted) {
		return &out
	}

	out.CustomScript, out.HostName = "", ""
	if len(m.NICs) > 0 {
		out.NICs = nil
	}

	if isKnown(m.DNSServers) || isKnown(m.SearchDomains) {
		out.DNSServers, out.DNSSearch = "", ""
	}

	return &out
}

// Read implements resource.Resource. It removes a deleted VM from the state.
func (r *adoptedVMResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[adoptedVMModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	imported := model.ID.IsNull()
	read := r.client.FetchVM
	if imported {
		read = r.client.FetchFullVM
	}

	vm, err := read(ctx, toID(model.VMID))
	if handleReadError(ctx, err, "The VM", resp) {
		return
	}

	if imported {
		model.setFromEngine(vm.Initialization)
	}

	model.ID = model.VMID
	model.clearUnknown()
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// setFromEngine copies the guest's settings from the engine into the model. Only imports call it. After an import, the
// VM's former settings are unknown.
func (m *adoptedVMModel) setFromEngine(given *engine.Initialization) {
	vm := vmModel{}
	vm.setInitialization(given)
	m.CustomScript, m.Hostname, m.NICs = vm.CustomScript, vm.Hostname, vm.NICs
	if given != nil {
		m.DNSServers, m.SearchDomains = vm.DNSServers, vm.SearchDomains
	}

	m.Previous = types.StringValue("null")
}

// Update implements resource.Resource.
func (r *adoptedVMResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if handleTimeoutsOnly(req, resp) {
		return
	}

	ctx, cancel := withPlannedTimeout(ctx, req.Plan, updating)
	defer cancel()

	plan, ok := loadModel[adoptedVMModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	asked := *plan
	asked.CustomScript = getScript(ctx, req.Config, plan.CustomScript, &resp.Diagnostics)
	if _, err := r.writeInitialization(ctx, &asked); err != nil {
		resp.Diagnostics.AddError("The VM has kept its initialization", err.Error())
		return
	}

	plan.clearUnknown()
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// Delete implements resource.Resource. It restores the VM's former initialization, and keeps the VM.
func (r *adoptedVMResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[adoptedVMModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	if r.made.shouldKeep("adopted/"+model.VMID.ValueString(), "VM", &resp.Diagnostics) {
		return
	}

	previous := &engine.Initialization{}
	if text := model.Previous.ValueString(); text != "" {
		if err := json.Unmarshal([]byte(text), previous); err != nil {
			resp.Diagnostics.AddWarning("The VM's own initialization cannot be read from the state; it gets none",
				err.Error())
			previous = &engine.Initialization{}
		}
	}

	id := toID(model.VMID)
	err := pollEngine(ctx, "VM "+id.String()+" to be given back", func(ctx context.Context) (bool, string, error) {
		return restoreInitialization(ctx, r.client, id, previous)
	})
	if err != nil {
		resp.Diagnostics.AddError("The VM was not given back", err.Error())
	}
}

// restoreInitialization restores the former initialization of a VM. It clears everything first, because the engine
// keeps the user data if a request omits them.
func restoreInitialization(
	ctx context.Context, client *engine.Client, id engine.ID, previous *engine.Initialization,
) (bool, string, error) {
	vm, err := client.FetchVM(ctx, id)
	if engine.IsNotFound(err) {
		return true, "", nil
	} else if err != nil {
		return false, "", err
	}

	if vm.Status.IsBusy() {
		return false, string(vm.Status), nil
	}

	if reflect.DeepEqual(*previous, engine.Initialization{}) {
		previous = nil
	}

	err = client.ReplaceInitialization(ctx, id, previous)

	return err == nil, string(vm.Status), err
}

// ImportState takes the UUID of a VM that already has its initialization. The former initialization is unknown.
func (r *adoptedVMResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "vm_id")
}
