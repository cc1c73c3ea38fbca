package tfprovider

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
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

func (r *vmResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	initText := func(description string) schema.StringAttribute {
		return schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: description,
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplaceIfConfigured()},
		}
	}

	// The user data holds the keys of clusters. In the released provider a plan shows it.
	script := initText("User data for cloud-init or Ignition. It is read back from the engine on import only.")
	script.Sensitive = true
	template := fixedID("UUID of the template to make the VM from.")
	template.PlanModifiers = nil // see ModifyPlan
	attributes := map[string]schema.Attribute{
		"id": computedText("UUID of the VM."),
		"name": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "Name of the VM: letters, digits, dash, underscore and dot, at most 64 of them.",
			Validators:          []validator.String{vmName},
		},
		"comment":     schema.StringAttribute{Optional: true, MarkdownDescription: "Comment of the VM."},
		"cluster_id":  fixedID("UUID of the cluster to make the VM in."),
		"template_id": template,
		"effective_template_id": computedText(
			"UUID of the template that the VM depends on: the Blank template for a clone.",
		),
		"status": liveText("Status of the VM."),
		"clone": schema.BoolAttribute{
			Optional:            true,
			Computed:            true,
			MarkdownDescription: "Copy the template's disks instead of linking to them.",
			PlanModifiers:       []planmodifier.Bool{boolplanmodifier.UseStateForUnknown()}},
		"serial_console":                mutableFlag(enginesFlag("Serial console.")),
		"soundcard_enabled":             mutableFlag(enginesFlag("Sound card.")),
		"initialization_custom_script":  script,
		"initialization_hostname":       initText("Host name of the guest."),
		"initialization_dns_servers":    initTexts("IP addresses of the guest's DNS servers."),
		"initialization_search_domains": initTexts("Domains in which the guest looks for names without one."),
	}
	maps.Copy(attributes, hardwareAttributes())
	resp.Schema = schema.Schema{
		MarkdownDescription: "A virtual machine, made from a template. What the configuration leaves out is the " +
			"template's, and is recorded.",
		Attributes: attributes,
		Blocks: map[string]schema.Block{
			"initialization_nic":                initNICBlock(),
			"template_disk_attachment_override": diskOverrideBlock(),
		},
	}
}

// hardwareAttributes are those of CPU, memory, placement and kind of a VM.
func hardwareAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"cpu_cores":   enginesNumber("Cores per socket; with cpu_threads and cpu_sockets."),
		"cpu_threads": enginesNumber("Threads per core; with cpu_cores and cpu_sockets."),
		"cpu_sockets": enginesNumber("Sockets; with cpu_cores and cpu_threads."),
		"cpu_mode": enginesText("CPU mode: `custom`, `host_model` or `host_passthrough`.",
			stringvalidator.OneOf("custom", "host_model", "host_passthrough")),
		"os_type": enginesText("Operating system."),
		"vm_type": enginesText("Kind of VM: `desktop`, `server` or `high_performance`.",
			stringvalidator.OneOf("desktop", "server", "high_performance")),
		"placement_policy_affinity": mutable(
			enginesText(
				"Migration: `migratable`, `pinned` or `user_migratable`. Set alone it takes the template's "+
					"hosts away: name them in `placement_policy_host_ids`.",
				stringvalidator.OneOf("migratable", "pinned", "user_migratable"),
			),
		),
		"placement_policy_host_ids": schema.SetAttribute{
			Optional:            true,
			Computed:            true,
			ElementType:         types.StringType,
			MarkdownDescription: "UUIDs of the hosts to pin the VM to.",
			PlanModifiers:       []planmodifier.Set{setplanmodifier.UseStateForUnknown()}},
		"instance_type_id": enginesText("UUID of an instance type, which sizes the VM.", uuid),
		"huge_pages": enginesNumber("Size of huge pages in KiB: 2048 or 1048576.",
			int64validator.OneOf(2048, 1048576)),
		"memory": mutableNumber(
			enginesNumber(
				"Memory in bytes, a multiple of 1 MiB. A VM that runs gets more of it at once, in steps of 128 "+
					"MiB up to `maximum_memory`; any other change waits for its next start.",
				wholeMiB,
			),
		),
		"maximum_memory": mutableNumber(
			enginesNumber("Maximum memory in bytes, a multiple of 1 MiB.", wholeMiB),
		),
		"memory_ballooning": mutableFlag(enginesFlag("Memory ballooning.")),
		"guaranteed_memory": mutableNumber(
			enginesNumber(
				"Memory in bytes that the VM keeps when its host runs short, a multiple of 1 MiB. Not "+
					"in the released provider.",
				wholeMiB,
			),
		),
		"description": mutable(
			enginesText(
				"Description of the VM, at most 255 characters. Not in the released provider.",
				description,
			),
		),
	}
}

// diskOverrideBlock says how a disk of the template is copied.
func diskOverrideBlock() schema.SetNestedBlock {
	return schema.SetNestedBlock{
		MarkdownDescription: "How a disk of the template is copied into the VM. The engine does not " +
			"remember it, so that an import takes what is configured.",
		PlanModifiers: []planmodifier.Set{
			setplanmodifier.RequiresReplaceIf(
				func(_ context.Context, req planmodifier.SetRequest,
					resp *setplanmodifier.RequiresReplaceIfFuncResponse) {
					resp.RequiresReplace = len(req.StateValue.Elements()) > 0
				},
				"other copies are another VM",
				"other copies are another VM",
			),
		},
		NestedObject: schema.NestedBlockObject{Attributes: map[string]schema.Attribute{
			"disk_id": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "UUID of the template's disk.",
				Validators:          []validator.String{uuid},
			},
			"format": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "`raw` or `cow`.",
				Validators: []validator.String{
					stringvalidator.OneOf(engine.FormatRaw, engine.FormatCow),
				},
			},
			"provisioning": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "`sparse` or `non-sparse`.",
				Validators:          []validator.String{stringvalidator.OneOf("sparse", "non-sparse")},
			},
			"storage_domain_id": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "UUID of the storage domain.",
				Validators:          []validator.String{uuid},
			},
		}},
	}
}

type vmModel struct {
	ID                  types.String        `tfsdk:"id"`
	Name                types.String        `tfsdk:"name"`
	Comment             types.String        `tfsdk:"comment"`
	ClusterID           types.String        `tfsdk:"cluster_id"`
	TemplateID          types.String        `tfsdk:"template_id"`
	EffectiveTemplateID types.String        `tfsdk:"effective_template_id"`
	Status              types.String        `tfsdk:"status"`
	Clone               types.Bool          `tfsdk:"clone"`
	CPUCores            types.Int64         `tfsdk:"cpu_cores"`
	CPUThreads          types.Int64         `tfsdk:"cpu_threads"`
	CPUSockets          types.Int64         `tfsdk:"cpu_sockets"`
	CPUMode             types.String        `tfsdk:"cpu_mode"`
	OSType              types.String        `tfsdk:"os_type"`
	VMType              types.String        `tfsdk:"vm_type"`
	PlacementAffinity   types.String        `tfsdk:"placement_policy_affinity"`
	PlacementHosts      types.Set           `tfsdk:"placement_policy_host_ids"`
	InstanceTypeID      types.String        `tfsdk:"instance_type_id"`
	HugePages           types.Int64         `tfsdk:"huge_pages"`
	Memory              types.Int64         `tfsdk:"memory"`
	MaximumMemory       types.Int64         `tfsdk:"maximum_memory"`
	GuaranteedMemory    types.Int64         `tfsdk:"guaranteed_memory"`
	Description         types.String        `tfsdk:"description"`
	MemoryBallooning    types.Bool          `tfsdk:"memory_ballooning"`
	SerialConsole       types.Bool          `tfsdk:"serial_console"`
	SoundcardEnabled    types.Bool          `tfsdk:"soundcard_enabled"`
	CustomScript        types.String        `tfsdk:"initialization_custom_script"`
	Hostname            types.String        `tfsdk:"initialization_hostname"`
	DNSServers          types.List          `tfsdk:"initialization_dns_servers"`
	SearchDomains       types.List          `tfsdk:"initialization_search_domains"`
	NICs                []initNICModel      `tfsdk:"initialization_nic"`
	DiskOverrides       []diskOverrideModel `tfsdk:"template_disk_attachment_override"`
}

type diskOverrideModel struct {
	DiskID          types.String `tfsdk:"disk_id"`
	Format          types.String `tfsdk:"format"`
	Provisioning    types.String `tfsdk:"provisioning"`
	StorageDomainID types.String `tfsdk:"storage_domain_id"`
}

// ValidateConfig checks what belongs together before anything is planned.
func (r *vmResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var cores, threads, sockets types.Int64
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("cpu_cores"), &cores)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("cpu_threads"), &threads)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("cpu_sockets"), &sockets)...)
	if cores.IsUnknown() || threads.IsUnknown() || sockets.IsUnknown() {
		return
	}

	if cores.IsNull() != threads.IsNull() || cores.IsNull() != sockets.IsNull() {
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

	// The sizes of an instance type win over those of a request, so that every later plan would show a change.
	var instanceType types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("instance_type_id"), &instanceType)...)
	if instanceType.IsNull() {
		return
	}

	for name, value := range map[string]types.Int64{
		"memory":            memory,
		"guaranteed_memory": guaranteed,
		"maximum_memory":    maximum,
		"cpu_cores":         cores,
	} {
		if !value.IsNull() {
			resp.Diagnostics.AddAttributeError(path.Root(name), "Two sizes",
				"The instance type has the sizes of the VM: remove "+name+" or instance_type_id.")
		}
	}
}

// ModifyPlan decides whether another template, or another way to copy it, needs another VM. An imported clone does not
// know its template: what is configured is believed.
func (r *vmResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
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
	if !after.Equal(before) && !importedClone {
		resp.RequiresReplace = append(resp.RequiresReplace, path.Root("template_id"))
	}

	if !clone.IsUnknown() && clone.ValueBool() != cloned.ValueBool() && clone.ValueBool() != isClone {
		resp.RequiresReplace = append(resp.RequiresReplace, path.Root("clone"))
	}

	resp.Diagnostics.Append(planMemory(ctx, req, resp)...)
}

// planMemory lets what is guaranteed, and the maximum, follow a change of the memory where the configuration leaves
// them to the engine: it refuses one that is less than the one, or more than the other.
func planMemory(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) diag.Diagnostics {
	var diags diag.Diagnostics
	var memory, guaranteed, maximum, ownGuaranteed, ownMaximum types.Int64
	diags.Append(req.Plan.GetAttribute(ctx, path.Root("memory"), &memory)...)
	diags.Append(req.Plan.GetAttribute(ctx, path.Root("guaranteed_memory"), &guaranteed)...)
	diags.Append(req.Plan.GetAttribute(ctx, path.Root("maximum_memory"), &maximum)...)
	diags.Append(req.Config.GetAttribute(ctx, path.Root("guaranteed_memory"), &ownGuaranteed)...)
	diags.Append(req.Config.GetAttribute(ctx, path.Root("maximum_memory"), &ownMaximum)...)
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

// toEngine is the request that makes the VM.
func (m *vmModel) toEngine(ctx context.Context) (*engine.VM, diag.Diagnostics) {
	var diags diag.Diagnostics
	vm := &engine.VM{
		Name: m.Name.ValueString(), Comment: m.Comment.ValueStringPointer(), Cluster: engine.NewRef(idOf(m.ClusterID)),
		Template: engine.NewRef(idOf(m.TemplateID)), InstanceType: engine.NewRef(idOf(m.InstanceTypeID)),
		Memory:      number(m.Memory),
		Type:        m.VMType.ValueString(),
		Soundcard:   flag(m.SoundcardEnabled),
		Description: text(m.Description),
	}
	if isKnown(m.CPUCores) || m.CPUMode.ValueString() != "" {
		vm.CPU = &engine.CPU{Mode: m.CPUMode.ValueString()}
		if isKnown(m.CPUCores) {
			vm.CPU.Topology = &engine.Topology{
				Cores:   m.CPUCores.ValueInt64(),
				Sockets: m.CPUSockets.ValueInt64(),
				Threads: m.CPUThreads.ValueInt64(),
			}
		}
	}

	if isKnown(m.MemoryBallooning) || isKnown(m.MaximumMemory) || isKnown(m.GuaranteedMemory) {
		vm.MemoryPolicy = m.memoryPolicy()
	}

	if os := m.OSType.ValueString(); os != "" {
		vm.OS = &engine.OS{Type: os}
	}

	if isKnown(m.SerialConsole) {
		vm.Console = &engine.Console{Enabled: m.SerialConsole.ValueBool()}
	}

	if isKnown(m.HugePages) {
		vm.Properties = &engine.Properties{
			Items: []engine.Property{{Name: "hugepages", Value: strconv.FormatInt(m.HugePages.ValueInt64(), 10)}},
		}
	}

	var placementDiags diag.Diagnostics
	vm.PlacementPolicy, placementDiags = m.placement(ctx)
	diags.Append(placementDiags...)
	vm.Initialization = m.initialization()
	vm.DiskAttachments = m.diskOverrides()

	return vm, diags
}

// diskOverrides are how disks of the template are copied; nil where that is left to the engine.
func (m *vmModel) diskOverrides() *engine.DiskOverrides {
	if len(m.DiskOverrides) == 0 {
		return nil
	}

	out := &engine.DiskOverrides{}

	for _, o := range m.DiskOverrides {
		choice := engine.DiskChoice{ID: idOf(o.DiskID), Format: o.Format.ValueString()}
		if p := o.Provisioning.ValueString(); p != "" {
			sparse := p == "sparse"
			choice.Sparse = &sparse
		}

		if id := idOf(o.StorageDomainID); id != "" {
			choice.StorageDomains = &engine.StorageDomains{Items: []engine.Ref{{ID: id}}}
		}

		out.Items = append(out.Items, engine.DiskOverride{Disk: choice})
	}

	return out
}

// placement is nil where it is left to the engine.
func (m *vmModel) placement(ctx context.Context) (*engine.PlacementPolicy, diag.Diagnostics) {
	if !isKnown(m.PlacementAffinity) && !isKnown(m.PlacementHosts) {
		return nil, nil
	}

	policy := &engine.PlacementPolicy{Affinity: m.PlacementAffinity.ValueString()}
	if !isKnown(m.PlacementHosts) {
		return policy, nil
	}

	var ids []engine.ID
	diags := m.PlacementHosts.ElementsAs(ctx, &ids, false)

	policy.Hosts = &engine.HostSet{}
	for _, id := range ids {
		policy.Hosts.Hosts = append(policy.Hosts.Hosts, engine.Ref{ID: id})
	}

	return policy, diags
}

func (m *vmModel) memoryPolicy() *engine.MemoryPolicy {
	return &engine.MemoryPolicy{
		Ballooning: flag(m.MemoryBallooning),
		Max:        number(m.MaximumMemory),
		Guaranteed: number(m.GuaranteedMemory),
	}
}

// text is what a request says: nil where the value is left to the engine.
func text(value types.String) *string {
	if !isKnown(value) {
		return nil
	}

	return value.ValueStringPointer()
}

func isKnown(value attr.Value) bool { return !value.IsNull() && !value.IsUnknown() }

// number is what a request says: nil where the value is left to the engine.
func number(value types.Int64) *int64 {
	if !isKnown(value) {
		return nil
	}

	return value.ValueInt64Pointer()
}

// flag is what a request says: nil where the value is left to the engine.
func flag(value types.Bool) *bool {
	if !isKnown(value) {
		return nil
	}

	return value.ValueBoolPointer()
}

// observe takes over what the engine tells. The initialization is left alone: the guest has read it, and the engine may
// have forgotten it.
func (m *vmModel) observe(vm *engine.VM) {
	m.ID, m.Name, m.Status = idValue(vm.ID), types.StringValue(vm.Name), types.StringValue(string(vm.Status))
	m.Comment = textOf(m.Comment, vm.CommentText())
	m.ClusterID = idValue(engine.RefID(vm.Cluster))
	m.EffectiveTemplateID = idValue(engine.RefID(vm.Template))
	if !isKnown(m.Clone) {
		m.Clone = types.BoolValue(m.TemplateID.IsNull() &&
			m.EffectiveTemplateID.ValueString() == engine.BlankTemplateID)
	}

	if m.TemplateID.IsNull() || !m.Clone.ValueBool() {
		m.TemplateID = m.EffectiveTemplateID
	}

	m.Memory, m.SoundcardEnabled = types.Int64PointerValue(vm.Memory), types.BoolPointerValue(vm.Soundcard)
	m.VMType = optional(vm.Type)
	m.OSType = types.StringNull()
	m.InstanceTypeID = optional(engine.RefID(vm.InstanceType).String())
	if vm.OS != nil {
		m.OSType = optional(vm.OS.Type)
	}

	m.observeCPU(vm.CPU)
	m.Description = textOf(m.Description, vm.DescriptionText())
	m.MaximumMemory, m.GuaranteedMemory, m.MemoryBallooning = types.Int64Null(), types.Int64Null(), types.BoolNull()
	if policy := vm.MemoryPolicy; policy != nil {
		m.MaximumMemory = types.Int64PointerValue(policy.Max)
		m.GuaranteedMemory = types.Int64PointerValue(policy.Guaranteed)
		m.MemoryBallooning = types.BoolPointerValue(policy.Ballooning)
	}

	m.SerialConsole, m.HugePages = types.BoolNull(), types.Int64Null()
	if vm.Console != nil {
		m.SerialConsole = types.BoolValue(vm.Console.Enabled)
	}

	if vm.Properties != nil {
		for _, property := range vm.Properties.Items {
			if size, err := strconv.ParseInt(property.Value, 10, 64); err == nil && property.Name == "hugepages" {
				m.HugePages = types.Int64Value(size)
			}
		}
	}

	m.observePlacement(vm.PlacementPolicy)
}

func (m *vmModel) observeCPU(cpu *engine.CPU) {
	if cpu == nil {
		cpu = &engine.CPU{}
	}

	m.CPUCores, m.CPUSockets, m.CPUThreads = types.Int64Null(), types.Int64Null(), types.Int64Null()
	if t := cpu.Topology; t != nil {
		m.CPUCores = types.Int64Value(t.Cores)
		m.CPUSockets = types.Int64Value(t.Sockets)
		m.CPUThreads = types.Int64Value(t.Threads)
	}

	// The engine tells host_passthrough alone: where it is silent, the mode may be any other.
	if cpu.Mode != "" || m.CPUMode.IsUnknown() || m.CPUMode.ValueString() == "host_passthrough" {
		m.CPUMode = optional(cpu.Mode)
	}
}

func (m *vmModel) observePlacement(policy *engine.PlacementPolicy) {
	if policy == nil {
		policy = &engine.PlacementPolicy{}
	}

	m.PlacementAffinity = optional(policy.Affinity)
	hosts := []attr.Value{}
	if policy.Hosts != nil {
		for _, host := range policy.Hosts.Hosts {
			hosts = append(hosts, idValue(host.ID))
		}
	}

	if len(hosts) > 0 || isKnown(m.PlacementHosts) {
		m.PlacementHosts = types.SetValueMust(types.StringType, hosts)
	} else {
		m.PlacementHosts = types.SetNull(types.StringType)
	}
}

// optional is a text of the engine for which an empty one is none.
func optional(text string) types.String {
	if text == "" {
		return types.StringNull()
	}

	return types.StringValue(text)
}

// complete fills in what was not known when it was planned.
func (m *vmModel) complete(vm *engine.VM) {
	seen := *m
	seen.observe(vm)
	m.ID, m.Status, m.EffectiveTemplateID = seen.ID, seen.Status, seen.EffectiveTemplateID
	settle(&m.DNSServers, types.ListNull(types.StringType)) // what nobody asked for is not there
	settle(&m.SearchDomains, types.ListNull(types.StringType))
	settle(&m.Clone, seen.Clone)
	settle(&m.Memory, seen.Memory)
	settle(&m.MaximumMemory, seen.MaximumMemory)
	settle(&m.GuaranteedMemory, seen.GuaranteedMemory)
	settle(&m.Description, seen.Description)
	settle(&m.MemoryBallooning, seen.MemoryBallooning)
	settle(&m.CPUCores, seen.CPUCores)
	settle(&m.CPUSockets, seen.CPUSockets)
	settle(&m.CPUThreads, seen.CPUThreads)
	settle(&m.CPUMode, seen.CPUMode)
	settle(&m.OSType, seen.OSType)
	settle(&m.VMType, seen.VMType)
	settle(&m.InstanceTypeID, seen.InstanceTypeID)
	settle(&m.HugePages, seen.HugePages)
	settle(&m.SerialConsole, seen.SerialConsole)
	settle(&m.SoundcardEnabled, seen.SoundcardEnabled)
	settle(&m.PlacementAffinity, seen.PlacementAffinity)
	settle(&m.PlacementHosts, seen.PlacementHosts)
}

func (r *vmResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	model, ok := load[vmModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	wanted, diags := model.toEngine(ctx)
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

	vm, err := r.create(ctx, wanted, flag(model.Clone))
	if err != nil {
		resp.Diagnostics.AddError("The VM was not created", err.Error())
		return
	}

	model.complete(vm)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, ownDisks, r.disksNow(ctx, vm.ID))...)
}

// ownDisks is where the disks with which a VM came into being are remembered, as a JSON list of their IDs. Others were
// attached later, by the CSI driver for one, and are not ours to destroy.
const ownDisks = "own_disks"

// disksNow are the disks of a VM as JSON; null where they cannot be told.
func (r *vmResource) disksNow(ctx context.Context, id engine.ID) []byte {
	attached, err := r.client.DiskAttachments(ctx, id)
	if err != nil || len(attached) == 0 { // nobody remembers; an engine may show them a moment later
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

// releaseForeign detaches the disks that did not come with the VM, so that they outlive it. Where nobody remembers
// which did, after an import, it is those from which the VM boots: to keep a disk too many is better than to destroy
// one.
func (r *vmResource) releaseForeign(ctx context.Context, id engine.ID, remembered []byte) error {
	var own []engine.ID
	_ = json.Unmarshal(remembered, &own)

	return poll(ctx, "disks of others to be detached", func(ctx context.Context) (bool, string, error) {
		err := r.client.ReleaseDisks(ctx, id, func(a *engine.DiskAttachment, _ *engine.Disk) bool {
			return slices.Contains(own, a.DiskID()) || a.Bootable != nil && *a.Bootable
		})

		return err == nil, "", err
	})
}

// create makes the VM once. Where the answer gets lost, it is found by name, comment and cluster: the engine may have
// made it all the same. Without a comment nobody could tell it from another one of that name, so that these are looked
// up before.
func (r *vmResource) create(ctx context.Context, wanted *engine.VM, clone *bool) (*engine.VM, error) {
	known := map[engine.ID]bool{}
	if wanted.CommentText() == "" {
		before, err := r.client.FindVMs(ctx, wanted.Name)
		if err != nil {
			return nil, err
		}

		for i := range before {
			known[before[i].ID] = true
		}
	}

	vm, err := engine.CreateOnce(ctx, "VM "+wanted.Name, progress(ctx, "VM "+wanted.Name),
		func(ctx context.Context) (*engine.VM, error) { return r.client.CreateVM(ctx, wanted, clone) },
		func(ctx context.Context) (*engine.VM, error) {
			vms, err := r.client.FindVMs(ctx, wanted.Name)
			for i := range vms {
				vm := &vms[i]
				if err == nil && !known[vm.ID] && vm.CommentText() == wanted.CommentText() &&
					engine.RefID(vm.Cluster) == engine.RefID(wanted.Cluster) {
					return vm, nil
				}
			}

			return nil, err
		})
	if engine.IsConflict(err) {
		// Most conflicts are about the name, and the next question is whose it is.
		owners, findErr := r.client.FindVMs(ctx, wanted.Name)
		if findErr == nil && len(owners) > 0 {
			return nil, fmt.Errorf("%w (the name is in use by VM %s with comment %q)", err, owners[0].ID,
				owners[0].CommentText())
		}
	}

	return vm, err
}

func (r *vmResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := load[vmModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	settings, err := r.client.VMSettings(ctx, idOf(model.ID))
	if unread(ctx, err, "The VM", resp) {
		return
	}

	// What waits for the next start has been asked for: it is no difference.
	imported := model.Name.IsNull()
	model.observe(settings.Next)
	model.Status = types.StringValue(string(settings.Now.Status))
	if imported {
		model.observeInitialization(settings.Now.Initialization)
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// changes is the request for what differs; null leaves a value as it is, but clears the comment.
func (m *vmModel) changes(ctx context.Context, before *vmModel) (*engine.VM, diag.Diagnostics) {
	var diags diag.Diagnostics
	change := &engine.VM{Name: m.Name.ValueString()}
	if !m.Comment.Equal(before.Comment) {
		comment := m.Comment.ValueString()
		change.Comment = &comment
	}

	if !m.Memory.Equal(before.Memory) {
		change.Memory = number(m.Memory)
	}

	if !m.MaximumMemory.Equal(before.MaximumMemory) || !m.MemoryBallooning.Equal(before.MemoryBallooning) ||
		!m.GuaranteedMemory.Equal(before.GuaranteedMemory) {
		change.MemoryPolicy = m.memoryPolicy()
	}

	if !m.Description.Equal(before.Description) {
		change.Description = text(m.Description)
	}

	if !m.SerialConsole.Equal(before.SerialConsole) && isKnown(m.SerialConsole) {
		change.Console = &engine.Console{Enabled: m.SerialConsole.ValueBool()}
	}

	if !m.SoundcardEnabled.Equal(before.SoundcardEnabled) {
		change.Soundcard = flag(m.SoundcardEnabled)
	}

	if !m.PlacementAffinity.Equal(before.PlacementAffinity) || !m.PlacementHosts.Equal(before.PlacementHosts) {
		change.PlacementPolicy, diags = m.placement(ctx)
	}

	return change, diags
}

func (r *vmResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	plan, ok := load[vmModel](ctx, req.Plan, &resp.Diagnostics)
	before, ok2 := load[vmModel](ctx, req.State, &resp.Diagnostics)
	if !ok || !ok2 {
		return
	}

	change, diags := plan.changes(ctx, before)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}

	id := idOf(before.ID)
	var vm *engine.VM
	err := poll(ctx, "VM "+id.String()+" to be updated", func(ctx context.Context) (bool, string, error) {
		var err error
		vm, err = r.update(ctx, id, *change)
		return err == nil, "", err
	})
	if err != nil {
		resp.Diagnostics.AddError("The VM was not updated", err.Error())
		return
	}

	plan.complete(vm)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// update sends a change, with what waits for the next start, and keeps for it what a VM that runs cannot take.
func (r *vmResource) update(ctx context.Context, id engine.ID, change engine.VM) (*engine.VM, error) {
	settings, err := r.client.VMSettings(ctx, id)
	if err != nil {
		return nil, err
	}

	again, _ := settings.Waiting()
	change.Complete(again)

	if settings.Now.Status != engine.VMDown && change.Memory != nil && !settings.TakesMemory(*change.Memory) {
		return r.client.UpdateVMAtNextStart(ctx, id, &change)
	}

	return r.client.UpdateVM(ctx, id, &change)
}

func (r *vmResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var id types.String
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("id"), &id)...)
	if resp.Diagnostics.HasError() {
		return
	}

	remembered, diags := req.Private.GetKey(ctx, ownDisks)
	resp.Diagnostics.Append(diags...)
	err := powerOff(ctx, r.client, idOf(id), false, true)
	if err == nil {
		err = r.releaseForeign(ctx, idOf(id), remembered)
	}

	if err == nil {
		err = poll(ctx, "VM "+id.ValueString()+" to be deleted", func(ctx context.Context) (bool, string, error) {
			err := r.client.DeleteVM(ctx, idOf(id))

			// deleted is what a second look says, not what the engine accepted
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
	resource.ImportStatePassthroughID(ctx, path.Root("id"), req, resp)
}
