package tfprovider

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure      = (*vmResource)(nil)
	_ resource.ResourceWithImportState    = (*vmResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*vmResource)(nil)
	_ resource.ResourceWithValidateConfig = (*vmResource)(nil)
)

func newVMResource() resource.Resource { return &vmResource{base{typeName: "ovirt_vm"}} }

type vmResource struct{ base }

// ValidateConfig checks the combinations of attributes before any plan.
func (r *vmResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var cores, threads, sockets types.Int64
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("cpu_cores"), &cores)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("cpu_threads"), &threads)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("cpu_sockets"), &sockets)...)
	topologyKnown := !cores.IsUnknown() && !threads.IsUnknown() && !sockets.IsUnknown()
	if topologyKnown && (cores.IsNull() != threads.IsNull() || cores.IsNull() != sockets.IsNull()) {
		resp.Diagnostics.AddAttributeError(path.Root("cpu_cores"), "Incomplete CPU topology",
			"Set all of cpu_cores, cpu_threads and cpu_sockets, or none.")
	}

	var memory, guaranteed, maximum types.Int64
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("memory"), &memory)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("guaranteed_memory"), &guaranteed)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("maximum_memory"), &maximum)...)
	if isKnown(memory) && isKnown(guaranteed) && guaranteed.ValueInt64() > memory.ValueInt64() {
		resp.Diagnostics.AddAttributeError(path.Root("guaranteed_memory"), "Too much guaranteed memory",
			"Lower guaranteed_memory to memory or less.")
	}

	if isKnown(memory) && isKnown(maximum) && maximum.ValueInt64() < memory.ValueInt64() {
		resp.Diagnostics.AddAttributeError(path.Root("maximum_memory"), "Too little maximum memory",
			"Raise maximum_memory to memory or more.")
	}

	resp.Diagnostics.Append(validateLease(ctx, req)...)
	resp.Diagnostics.Append(validateOverrides(ctx, req)...)

	// An instance type overrides the sizes of a request, so every later plan would show a change.
	var instanceType types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("instance_type_id"), &instanceType)...)
	if !isKnown(instanceType) {
		return
	}

	for name, value := range map[string]types.Int64{
		"memory":            memory,
		"guaranteed_memory": guaranteed,
		"maximum_memory":    maximum,
		"cpu_cores":         cores,
	} {
		if isKnown(value) { // an unknown value may become null
			resp.Diagnostics.AddAttributeError(path.Root(name), "Two sizes",
				"The instance type has the sizes of the VM: remove "+name+" or instance_type_id.")
		}
	}
}

// ModifyPlan decides whether a change of the template, or of clone, replaces the VM. The template of an imported clone
// is unknown, so the configured one counts as correct.
func (r *vmResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	r.refusePlaces(ctx, req, &resp.Diagnostics)
	planScript(ctx, req, resp)

	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() {
		return
	}

	var before, after, effective types.String
	var cloned, clone types.Bool
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("template_id"), &before)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("effective_template_id"), &effective)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("clone"), &cloned)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("template_id"), &after)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("clone"), &clone)...)
	isClone := effective.ValueString() == engine.BlankTemplateID
	importedClone := isClone && before.Equal(effective) && clone.ValueBool()
	if isKnown(before) && !after.Equal(before) && !importedClone { // an unknown template does not count as a change
		resp.RequiresReplace = append(resp.RequiresReplace, path.Root("template_id"))
	}

	// An unknown value may require another VM. Terraform rejects an update that becomes a replacement later.
	if clone.IsUnknown() || clone.ValueBool() != cloned.ValueBool() && clone.ValueBool() != isClone {
		resp.RequiresReplace = append(resp.RequiresReplace, path.Root("clone"))
	}

	resp.Diagnostics.Append(planSizes(ctx, req, resp)...)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(planMemory(ctx, req, resp)...)
	}
}

// sizes are the attributes that an instance type determines.
var sizes = []string{
	"memory", "guaranteed_memory", "maximum_memory", "cpu_cores", "cpu_threads", "cpu_sockets",
}

// planSizes plans the sizes of a VM with an instance type. Another type brings other sizes, and they are still unknown.
// With the same type, the sizes stay, even if an import has omitted them.
func planSizes(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) diag.Diagnostics {
	var diags diag.Diagnostics
	var before, after types.String
	diags.Append(req.State.GetAttribute(ctx, path.Root("instance_type_id"), &before)...)
	diags.Append(req.Plan.GetAttribute(ctx, path.Root("instance_type_id"), &after)...)
	if after.IsNull() {
		return diags
	}

	for _, name := range sizes {
		var own, now types.Int64
		diags.Append(req.Config.GetAttribute(ctx, path.Root(name), &own)...)
		diags.Append(req.State.GetAttribute(ctx, path.Root(name), &now)...)

		switch {
		case !own.IsNull():
		case !after.Equal(before):
			diags.Append(resp.Plan.SetAttribute(ctx, path.Root(name), types.Int64Unknown())...)
		case now.IsNull():
			diags.Append(resp.Plan.SetAttribute(ctx, path.Root(name), types.Int64Null())...)
		}
	}

	return diags
}

// planMemory adjusts the guaranteed and maximum memory to a change of the memory, if the configuration omits them. The
// engine rejects a memory below the guaranteed or above the maximum memory.
func planMemory(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) diag.Diagnostics {
	var diags diag.Diagnostics
	var memory, guaranteed, maximum, ownGuaranteed, ownMaximum types.Int64
	diags.Append(resp.Plan.GetAttribute(ctx, path.Root("memory"), &memory)...)
	diags.Append(resp.Plan.GetAttribute(ctx, path.Root("guaranteed_memory"), &guaranteed)...)
	diags.Append(resp.Plan.GetAttribute(ctx, path.Root("maximum_memory"), &maximum)...)
	diags.Append(req.Config.GetAttribute(ctx, path.Root("guaranteed_memory"), &ownGuaranteed)...)
	diags.Append(req.Config.GetAttribute(ctx, path.Root("maximum_memory"), &ownMaximum)...)
	if memory.IsUnknown() { // the others are unknown too
		for name, own := range map[string]types.Int64{
			"guaranteed_memory": ownGuaranteed, "maximum_memory": ownMaximum,
		} {
			if own.IsNull() {
				diags.Append(resp.Plan.SetAttribute(ctx, path.Root(name), types.Int64Unknown())...)
			}
		}
	}

	if !isKnown(memory) {
		return diags
	}

	if ownGuaranteed.IsNull() && isKnown(guaranteed) && guaranteed.ValueInt64() > memory.ValueInt64() {
		diags.Append(resp.Plan.SetAttribute(ctx, path.Root("guaranteed_memory"), memory)...)
	}

	if ownMaximum.IsNull() && isKnown(maximum) && maximum.ValueInt64() < memory.ValueInt64() {
		const asForNewVMs = 4
		diags.Append(resp.Plan.SetAttribute(ctx, path.Root("maximum_memory"), asForNewVMs*memory.ValueInt64())...)
	}

	return diags
}

func (r *vmResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[vmModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	asked := *model
	asked.CustomScript = getScript(ctx, req.Config, model.CustomScript, &resp.Diagnostics)
	wanted, diags := asked.toEngine(ctx)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}

	if wanted.OS != nil {
		if err := r.client.CheckOperatingSystem(ctx, wanted.OS.Type); err != nil {
			resp.Diagnostics.AddAttributeError(path.Root("os_type"), "The VM was not created", err.Error())
			return
		}
	}

	if err := r.completeOverrides(ctx, wanted, model.Clone.ValueBool()); err != nil {
		resp.Diagnostics.AddError("The VM was not created", err.Error())
		return
	}

	vm, err := r.createOnce(ctx, wanted, flagPointer(model.Clone))
	if err != nil {
		r.keepUnanswered(ctx, err, req.Plan, resp)
		resp.Diagnostics.AddError("The VM was not created", err.Error())
		return
	}

	model.fillUnknowns(vm)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, ownDisks, r.fetchDiskIDs(ctx, vm.ID))...)
}

// ownDisks is the private-state key of the VM's original disks, as a JSON list of IDs. Other disks were attached later,
// for example by the CSI driver. This resource must not destroy them.
const ownDisks = "own_disks"

// fetchDiskIDs returns the IDs of a VM's disks as JSON, or null if they are unknown.
func (r *vmResource) fetchDiskIDs(ctx context.Context, id engine.ID) []byte {
	attached, err := r.client.ListDiskAttachments(ctx, id)
	if err != nil || len(attached) == 0 { // store no list; the engine may list the disks later
		return []byte("null")
	}

	ids := []engine.ID{}
	for i := range attached {
		ids = append(ids, attached[i].DiskID())
	}

	encoded, err := json.Marshal(ids)
	if err != nil {
		return []byte("null")
	}

	return encoded
}

// detachForeignDisks detaches the disks added to the VM later, so that they outlive it. After an import, the original
// disks are unknown. In this case, only the boot disks count as original, because it is better to keep a disk too many
// than to destroy one.
func (r *vmResource) detachForeignDisks(ctx context.Context, id engine.ID, remembered []byte) error {
	var own []engine.ID
	_ = json.Unmarshal(remembered, &own)

	return pollEngine(ctx, "disks of others to be detached", func(ctx context.Context) (bool, string, error) {
		err := r.client.DetachForeignDisks(ctx, id, func(a *engine.DiskAttachment, _ *engine.Disk) bool {
			return slices.Contains(own, a.DiskID()) || a.IsBootDisk()
		})

		return err == nil, "", err
	})
}

// createOnce creates the VM once. It first looks for the name, and a VM found then belongs to another user. After a
// lost answer, a VM with this name belongs to this resource if its comment and cluster match the request.
func (r *vmResource) createOnce(ctx context.Context, wanted *engine.VM, clone *bool) (*engine.VM, error) {
	dc, err := r.client.FindDataCenterOf(ctx, engine.RefID(wanted.Cluster))
	if err != nil {
		return nil, err
	}

	before, err := r.client.FindVMs(ctx, dc, wanted.Name)
	if err != nil {
		return nil, err
	}

	known := collectIDs(before, func(vm *engine.VM) engine.ID { return vm.ID }, isAny)

	vm, err := engine.CreateOnce(ctx, "VM "+wanted.Name, newProgressLogger(ctx, "VM "+wanted.Name),
		func(ctx context.Context) (*engine.VM, error) { return r.client.CreateVM(ctx, wanted, clone) },
		func(ctx context.Context) (*engine.VM, error) {
			vms, err := r.client.FindVMs(ctx, dc, wanted.Name)
			for i := range vms {
				vm := &vms[i]
				if err == nil && !slices.Contains(known, vm.ID) && vm.CommentText() == wanted.CommentText() &&
					engine.RefID(vm.Cluster) == engine.RefID(wanted.Cluster) {
					return vm, nil
				}
			}

			return nil, err
		})
	if engine.IsConflict(err) {
		// Most conflicts are about the name, so the error names the owner of the name.
		owners, findErr := r.client.FindVMs(ctx, dc, wanted.Name)
		if findErr == nil && len(owners) > 0 {
			return nil, fmt.Errorf(
				"%w (the name is in use by VM %s with comment %q; import that, or choose another name)",
				err, owners[0].ID, owners[0].CommentText(),
			)
		}
	}

	return vm, engine.AddKnownIDs(err, known)
}

func (r *vmResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[vmModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	settings, err := r.client.FetchVMSettings(ctx, toID(model.ID))
	if handleReadError(ctx, err, "The VM", resp) {
		return
	}

	// Settings that wait for the next start count as applied, not as a difference.
	imported := model.Name.IsNull()
	model.setFromEngine(settings.Next)
	model.Status = types.StringValue(string(settings.Now.Status))
	if imported {
		model.setInitialization(settings.Now.Initialization)
		model.omitSizes()
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *vmResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if handleTimeoutsOnly(req, resp) {
		return
	}

	ctx, cancel := withPlannedTimeout(ctx, req.Plan, updating)
	defer cancel()

	plan, ok := loadModel[vmModel](ctx, req.Plan, &resp.Diagnostics)
	before, ok2 := loadModel[vmModel](ctx, req.State, &resp.Diagnostics)
	if !ok || !ok2 {
		return
	}

	change, diags := plan.buildChange(ctx, before)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}

	vm, err := r.applyChange(ctx, toID(before.ID), change)
	if err != nil {
		resp.Diagnostics.AddError("The VM was not updated", err.Error())
		return
	}

	status := plan.Status
	plan.fillUnknowns(vm)
	plan.Status = keepPlanned(status, plan.Status)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// applyChange changes the VM, and returns its settings after its next start.
func (r *vmResource) applyChange(ctx context.Context, id engine.ID, change *engine.VM) (*engine.VM, error) {
	if change.OS != nil {
		if err := r.client.CheckOperatingSystem(ctx, change.OS.Type); err != nil {
			return nil, err
		}
	}

	var vm *engine.VM
	err := pollEngine(ctx, "VM "+id.String()+" to be updated", func(ctx context.Context) (bool, string, error) {
		var err error
		vm, err = r.client.ChangeVM(ctx, id, change)
		return err == nil, "", err
	})
	if err != nil || !vm.ChangesWait {
		return vm, err
	}

	settings, err := r.client.FetchVMSettings(ctx, id)
	if err != nil {
		return nil, err
	}

	next := *settings.Next
	next.Status = settings.Now.Status

	return &next, nil
}

func (r *vmResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	var id types.String
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("id"), &id)...)
	if resp.Diagnostics.HasError() {
		return
	}

	remembered, diags := req.Private.GetKey(ctx, ownDisks)
	resp.Diagnostics.Append(diags...)
	err := powerOff(ctx, r.client, toID(id), false, true)
	if err == nil {
		err = r.detachForeignDisks(ctx, toID(id), remembered)
	}

	if err == nil {
		err = pollEngine(ctx, "VM "+id.ValueString()+" to be deleted", func(ctx context.Context) (bool, string, error) {
			err := r.client.DeleteVM(ctx, toID(id))

			// An accepted request does not confirm the deletion, so look again.
			return engine.IsNotFound(err), "", ignoreNotFound(err)
		})
	}

	if err != nil {
		resp.Diagnostics.AddError("The VM was not deleted", err.Error())
	}
}

func (r *vmResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "id")
}
