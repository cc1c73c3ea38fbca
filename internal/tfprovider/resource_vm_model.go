package tfprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

type vmModel struct {
	timed

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
	HighAvailability    types.Bool          `tfsdk:"high_availability"`
	Priority            types.Int64         `tfsdk:"high_availability_priority"`
	LeaseID             types.String        `tfsdk:"lease_storage_domain_id"`
	StorageError        types.String        `tfsdk:"storage_error_resume_behaviour"`
	BIOSType            types.String        `tfsdk:"bios_type"`
	TPM                 types.Bool          `tfsdk:"tpm_enabled"`
	CustomProperties    types.Map           `tfsdk:"custom_properties"`
	CustomScript        types.String        `tfsdk:"initialization_custom_script"`
	WriteOnlyScript     types.String        `tfsdk:"initialization_custom_script_wo"`
	ScriptVersion       types.Int64         `tfsdk:"initialization_custom_script_wo_version"`
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

// toEngine returns the request to create the VM.
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
			vm.CPU.Topology = m.topology()
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

	vm.HighAvailability, vm.Lease, vm.StorageError = m.availability(), m.lease(), m.StorageError.ValueString()
	vm.TPM = flag(m.TPM)
	if bios := m.BIOSType.ValueString(); bios != "" {
		vm.BIOS = &engine.BIOS{Type: bios}
	}

	vm.Properties = m.properties()

	var placementDiags diag.Diagnostics
	vm.PlacementPolicy, placementDiags = m.placement(ctx)
	diags.Append(placementDiags...)
	vm.Initialization = m.initialization()
	vm.DiskAttachments = m.diskOverrides()

	return vm, diags
}

// diskOverrides returns the settings for copying the template's disks, or nil for the engine's defaults.
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

// placement returns the placement policy to request, or nil for the engine's default.
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

// text returns a text for a request, or nil for the engine's default.
func text(value types.String) *string {
	if !isKnown(value) {
		return nil
	}

	return value.ValueStringPointer()
}

func isKnown(value attr.Value) bool { return !value.IsNull() && !value.IsUnknown() }

// number returns a number for a request, or nil for the engine's default.
func number(value types.Int64) *int64 {
	if !isKnown(value) {
		return nil
	}

	return value.ValueInt64Pointer()
}

// flag returns a flag for a request, or nil for the engine's default.
func flag(value types.Bool) *bool {
	if !isKnown(value) {
		return nil
	}

	return value.ValueBoolPointer()
}

// observe copies the engine's report into the model. It skips the initialization: the guest has read it, and the engine
// may have forgotten it.
func (m *vmModel) observe(vm *engine.VM) {
	m.ID, m.Name, m.Status = idValue(vm.ID), types.StringValue(vm.Name), types.StringValue(string(vm.Status))
	m.Comment = textOf(m.Comment, vm.CommentText())
	m.ClusterID = unlessAbsent(m.ClusterID, optional(engine.RefID(vm.Cluster).String()))
	m.EffectiveTemplateID = unlessAbsent(m.EffectiveTemplateID, optional(engine.RefID(vm.Template).String()))
	if !isKnown(m.Clone) {
		m.Clone = types.BoolValue(m.TemplateID.IsNull() &&
			m.EffectiveTemplateID.ValueString() == engine.BlankTemplateID)
	}

	if m.TemplateID.IsNull() || !m.Clone.ValueBool() {
		m.TemplateID = unlessAbsent(m.TemplateID, m.EffectiveTemplateID)
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

	m.SerialConsole = types.BoolNull()
	if vm.Console != nil {
		m.SerialConsole = types.BoolValue(vm.Console.Enabled)
	}

	m.observeAvailability(vm)
	m.observeProperties(vm.Properties)
	m.observePlacement(vm.PlacementPolicy)
}

// omitSizes omits the sizes decided by an instance type. A configuration generated from the state must not have both.
// The next read adds them.
func (m *vmModel) omitSizes() {
	if m.InstanceTypeID.IsNull() {
		return
	}

	for _, size := range []*types.Int64{
		&m.Memory, &m.GuaranteedMemory, &m.MaximumMemory, &m.CPUCores, &m.CPUThreads, &m.CPUSockets,
	} {
		*size = types.Int64Null()
	}
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

	// The engine reports only host_passthrough. If it reports nothing, the mode may be any other.
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

// optional converts a text of the engine to an attribute: null if empty.
func optional(text string) types.String {
	if text == "" {
		return types.StringNull()
	}

	return types.StringValue(text)
}

// complete fills in values unknown at plan time.
func (m *vmModel) complete(vm *engine.VM) {
	seen := *m
	seen.observe(vm)
	m.ID, m.Status, m.EffectiveTemplateID = seen.ID, seen.Status, seen.EffectiveTemplateID
	settle(&m.CustomScript, types.StringNull())
	settle(&m.DNSServers, types.ListNull(types.StringType)) // not requested, so absent
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
	settle(&m.HighAvailability, seen.HighAvailability)
	settle(&m.Priority, seen.Priority)
	settle(&m.LeaseID, seen.LeaseID)
	settle(&m.StorageError, seen.StorageError)
	settle(&m.BIOSType, seen.BIOSType)
	settle(&m.TPM, seen.TPM)
	settle(&m.CustomProperties, seen.CustomProperties)
	settle(&m.SerialConsole, seen.SerialConsole)
	settle(&m.SoundcardEnabled, seen.SoundcardEnabled)
	settle(&m.PlacementAffinity, seen.PlacementAffinity)
	settle(&m.PlacementHosts, seen.PlacementHosts)
}

// changes returns the request for the differences. null leaves a value unchanged, but clears the comment.
func (m *vmModel) changes(ctx context.Context, before *vmModel) (*engine.VM, diag.Diagnostics) {
	var diags diag.Diagnostics
	change := &engine.VM{Name: m.Name.ValueString()}
	m.changeHardware(before, change)
	if !m.Comment.Equal(before.Comment) {
		comment := m.Comment.ValueString()
		change.Comment = &comment
	}

	if !m.Memory.Equal(before.Memory) {
		change.Memory = number(m.Memory)
	}

	if !m.MaximumMemory.Equal(before.MaximumMemory) || !m.MemoryBallooning.Equal(before.MemoryBallooning) ||
		!m.GuaranteedMemory.Equal(before.GuaranteedMemory) {
		if policy := m.memoryPolicy(); *policy != (engine.MemoryPolicy{}) {
			change.MemoryPolicy = policy
		}
	}

	if !m.Description.Equal(before.Description) {
		change.Description = text(m.Description)
	}

	if !m.HighAvailability.Equal(before.HighAvailability) || !m.Priority.Equal(before.Priority) {
		change.HighAvailability = m.availability()
	}

	if !m.LeaseID.Equal(before.LeaseID) {
		change.Lease = m.lease()
	}

	if !m.StorageError.Equal(before.StorageError) {
		change.StorageError = m.StorageError.ValueString()
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

// changeHardware adds differences of CPU, firmware, kind, cluster and custom properties to a request.
func (m *vmModel) changeHardware(before *vmModel, change *engine.VM) {
	if !m.ClusterID.Equal(before.ClusterID) {
		change.Cluster = engine.NewRef(idOf(m.ClusterID))
	}

	if !m.InstanceTypeID.Equal(before.InstanceTypeID) && isKnown(m.InstanceTypeID) {
		change.InstanceType = engine.NewRef(idOf(m.InstanceTypeID))
	}

	changed := !m.CPUCores.Equal(before.CPUCores) || !m.CPUSockets.Equal(before.CPUSockets) ||
		!m.CPUThreads.Equal(before.CPUThreads)
	if changed && isKnown(m.CPUCores) && isKnown(m.CPUSockets) && isKnown(m.CPUThreads) {
		change.CPU = &engine.CPU{Topology: m.topology()}
	}

	if !m.CPUMode.Equal(before.CPUMode) && isKnown(m.CPUMode) {
		if change.CPU == nil {
			change.CPU = &engine.CPU{}
		}

		change.CPU.Mode = m.CPUMode.ValueString()
	}

	if !m.OSType.Equal(before.OSType) && isKnown(m.OSType) {
		change.OS = &engine.OS{Type: m.OSType.ValueString()}
	}

	if !m.VMType.Equal(before.VMType) {
		change.Type = m.VMType.ValueString()
	}

	if !m.BIOSType.Equal(before.BIOSType) && isKnown(m.BIOSType) {
		change.BIOS = &engine.BIOS{Type: m.BIOSType.ValueString()}
	}

	if !m.TPM.Equal(before.TPM) {
		change.TPM = flag(m.TPM)
	}

	// A request has all custom properties, or none.
	if !m.HugePages.Equal(before.HugePages) || !m.CustomProperties.Equal(before.CustomProperties) {
		if change.Properties = m.properties(); change.Properties == nil {
			change.Properties = &engine.Properties{}
		}
	}
}

// topology returns the CPU topology.
func (m *vmModel) topology() *engine.Topology {
	return &engine.Topology{
		Cores:   m.CPUCores.ValueInt64(),
		Sockets: m.CPUSockets.ValueInt64(),
		Threads: m.CPUThreads.ValueInt64(),
	}
}
