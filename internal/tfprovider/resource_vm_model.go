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
		Name: m.Name.ValueString(), Comment: m.Comment.ValueStringPointer(), Cluster: engine.NewRef(toID(m.ClusterID)),
		Template: engine.NewRef(toID(m.TemplateID)), InstanceType: engine.NewRef(toID(m.InstanceTypeID)),
		Memory:      numberPointer(m.Memory),
		Type:        m.VMType.ValueString(),
		Soundcard:   flagPointer(m.SoundcardEnabled),
		Description: textPointer(m.Description),
	}
	if isKnown(m.CPUCores) || m.CPUMode.ValueString() != "" {
		vm.CPU = &engine.CPU{Mode: m.CPUMode.ValueString()}
		if isKnown(m.CPUCores) {
			vm.CPU.Topology = m.buildTopology()
		}
	}

	if isKnown(m.MemoryBallooning) || isKnown(m.MaximumMemory) || isKnown(m.GuaranteedMemory) {
		vm.MemoryPolicy = m.buildMemoryPolicy()
	}

	if os := m.OSType.ValueString(); os != "" {
		vm.OS = &engine.OS{Type: os}
	}

	if isKnown(m.SerialConsole) {
		vm.Console = &engine.Console{Enabled: m.SerialConsole.ValueBool()}
	}

	vm.HighAvailability, vm.Lease, vm.StorageError = m.buildAvailability(), m.buildLease(), m.StorageError.ValueString()
	vm.TPM = flagPointer(m.TPM)
	if bios := m.BIOSType.ValueString(); bios != "" {
		vm.BIOS = &engine.BIOS{Type: bios}
	}

	vm.Properties = m.buildProperties()

	var placementDiags diag.Diagnostics
	vm.PlacementPolicy, placementDiags = m.buildPlacement(ctx)
	diags.Append(placementDiags...)
	vm.Initialization = m.buildInitialization()
	vm.DiskAttachments = m.buildDiskOverrides()

	return vm, diags
}

// buildDiskOverrides returns the settings for copying the template's disks, or nil for the engine's defaults.
func (m *vmModel) buildDiskOverrides() *engine.DiskOverrides {
	if len(m.DiskOverrides) == 0 {
		return nil
	}

	out := &engine.DiskOverrides{}

	for _, o := range m.DiskOverrides {
		choice := engine.DiskChoice{ID: toID(o.DiskID), Format: o.Format.ValueString()}
		if p := o.Provisioning.ValueString(); p != "" {
			sparse := p == "sparse"
			choice.Sparse = &sparse
		}

		if id := toID(o.StorageDomainID); id != "" {
			choice.StorageDomains = &engine.StorageDomains{Items: []engine.Ref{{ID: id}}}
		}

		out.Items = append(out.Items, engine.DiskOverride{Disk: choice})
	}

	return out
}

// buildPlacement returns the placement policy to request, or nil for the engine's default.
func (m *vmModel) buildPlacement(ctx context.Context) (*engine.PlacementPolicy, diag.Diagnostics) {
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

func (m *vmModel) buildMemoryPolicy() *engine.MemoryPolicy {
	return &engine.MemoryPolicy{
		Ballooning: flagPointer(m.MemoryBallooning),
		Max:        numberPointer(m.MaximumMemory),
		Guaranteed: numberPointer(m.GuaranteedMemory),
	}
}

// textPointer returns a text for a request, or nil for the engine's default.
func textPointer(value types.String) *string {
	if !isKnown(value) {
		return nil
	}

	return value.ValueStringPointer()
}

func isKnown(value attr.Value) bool { return !value.IsNull() && !value.IsUnknown() }

// numberPointer returns a number for a request, or nil for the engine's default.
func numberPointer(value types.Int64) *int64 {
	if !isKnown(value) {
		return nil
	}

	return value.ValueInt64Pointer()
}

// flagPointer returns a flag for a request, or nil for the engine's default.
func flagPointer(value types.Bool) *bool {
	if !isKnown(value) {
		return nil
	}

	return value.ValueBoolPointer()
}

// setFromEngine copies the engine's values into the model. It skips the initialization, because the engine may have
// forgotten it after the guest read it.
func (m *vmModel) setFromEngine(vm *engine.VM) {
	m.ID, m.Name, m.Status = toIDValue(vm.ID), types.StringValue(vm.Name), types.StringValue(string(vm.Status))
	m.Comment = toTextValue(m.Comment, vm.CommentText())
	m.ClusterID = keepIfAbsent(m.ClusterID, textOrNull(engine.RefID(vm.Cluster).String()))
	m.EffectiveTemplateID = keepIfAbsent(m.EffectiveTemplateID, textOrNull(engine.RefID(vm.Template).String()))
	if !isKnown(m.Clone) {
		m.Clone = types.BoolValue(m.TemplateID.IsNull() &&
			m.EffectiveTemplateID.ValueString() == engine.BlankTemplateID)
	}

	if m.TemplateID.IsNull() || !m.Clone.ValueBool() {
		m.TemplateID = keepIfAbsent(m.TemplateID, m.EffectiveTemplateID)
	}

	m.Memory, m.SoundcardEnabled = types.Int64PointerValue(vm.Memory), types.BoolPointerValue(vm.Soundcard)
	m.VMType = textOrNull(vm.Type)
	m.OSType = types.StringNull()
	m.InstanceTypeID = textOrNull(engine.RefID(vm.InstanceType).String())
	if vm.OS != nil {
		m.OSType = textOrNull(vm.OS.Type)
	}

	m.setCPU(vm.CPU)
	m.Description = toTextValue(m.Description, vm.DescriptionText())
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

	m.setAvailability(vm)
	m.setProperties(vm.Properties)
	m.setPlacement(vm.PlacementPolicy)
}

// omitSizes clears the sizes that an instance type determines. A configuration generated from the state must not have
// both. The next read adds the sizes.
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

func (m *vmModel) setCPU(cpu *engine.CPU) {
	if cpu == nil {
		cpu = &engine.CPU{}
	}

	m.CPUCores, m.CPUSockets, m.CPUThreads = types.Int64Null(), types.Int64Null(), types.Int64Null()
	if t := cpu.Topology; t != nil {
		m.CPUCores = types.Int64Value(t.Cores)
		m.CPUSockets = types.Int64Value(t.Sockets)
		m.CPUThreads = types.Int64Value(t.Threads)
	}

	// The engine reports only host_passthrough. If it reports no mode, the VM may have any other one.
	if cpu.Mode != "" || m.CPUMode.IsUnknown() || m.CPUMode.ValueString() == "host_passthrough" {
		m.CPUMode = textOrNull(cpu.Mode)
	}
}

func (m *vmModel) setPlacement(policy *engine.PlacementPolicy) {
	if policy == nil {
		policy = &engine.PlacementPolicy{}
	}

	m.PlacementAffinity = textOrNull(policy.Affinity)
	hosts := []attr.Value{}
	if policy.Hosts != nil {
		for _, host := range policy.Hosts.Hosts {
			hosts = append(hosts, toIDValue(host.ID))
		}
	}

	if len(hosts) > 0 || isKnown(m.PlacementHosts) {
		m.PlacementHosts = types.SetValueMust(types.StringType, hosts)
	} else {
		m.PlacementHosts = types.SetNull(types.StringType)
	}
}

// textOrNull converts a text of the engine to an attribute, and an empty text to null.
func textOrNull(text string) types.String {
	if text == "" {
		return types.StringNull()
	}

	return types.StringValue(text)
}

// fillUnknowns replaces the unknown values of a plan.
func (m *vmModel) fillUnknowns(vm *engine.VM) {
	seen := *m
	seen.setFromEngine(vm)
	m.ID, m.Status, m.EffectiveTemplateID = seen.ID, seen.Status, seen.EffectiveTemplateID
	fillUnknown(&m.CustomScript, types.StringNull())
	fillUnknown(&m.DNSServers, types.ListNull(types.StringType)) // not requested, so absent
	fillUnknown(&m.SearchDomains, types.ListNull(types.StringType))
	fillUnknown(&m.Clone, seen.Clone)
	fillUnknown(&m.Memory, seen.Memory)
	fillUnknown(&m.MaximumMemory, seen.MaximumMemory)
	fillUnknown(&m.GuaranteedMemory, seen.GuaranteedMemory)
	fillUnknown(&m.Description, seen.Description)
	fillUnknown(&m.MemoryBallooning, seen.MemoryBallooning)
	fillUnknown(&m.CPUCores, seen.CPUCores)
	fillUnknown(&m.CPUSockets, seen.CPUSockets)
	fillUnknown(&m.CPUThreads, seen.CPUThreads)
	fillUnknown(&m.CPUMode, seen.CPUMode)
	fillUnknown(&m.OSType, seen.OSType)
	fillUnknown(&m.VMType, seen.VMType)
	fillUnknown(&m.InstanceTypeID, seen.InstanceTypeID)
	fillUnknown(&m.HugePages, seen.HugePages)
	fillUnknown(&m.HighAvailability, seen.HighAvailability)
	fillUnknown(&m.Priority, seen.Priority)
	fillUnknown(&m.LeaseID, seen.LeaseID)
	fillUnknown(&m.StorageError, seen.StorageError)
	fillUnknown(&m.BIOSType, seen.BIOSType)
	fillUnknown(&m.TPM, seen.TPM)
	fillUnknown(&m.CustomProperties, seen.CustomProperties)
	fillUnknown(&m.SerialConsole, seen.SerialConsole)
	fillUnknown(&m.SoundcardEnabled, seen.SoundcardEnabled)
	fillUnknown(&m.PlacementAffinity, seen.PlacementAffinity)
	fillUnknown(&m.PlacementHosts, seen.PlacementHosts)
}

// buildChange returns the request for the differences between two models. A null attribute changes nothing, but a null
// comment clears the comment.
func (m *vmModel) buildChange(ctx context.Context, before *vmModel) (*engine.VM, diag.Diagnostics) {
	var diags diag.Diagnostics
	change := &engine.VM{Name: m.Name.ValueString()}
	m.addHardwareChanges(before, change)
	if !m.Comment.Equal(before.Comment) {
		comment := m.Comment.ValueString()
		change.Comment = &comment
	}

	if !m.Memory.Equal(before.Memory) {
		change.Memory = numberPointer(m.Memory)
	}

	if !m.MaximumMemory.Equal(before.MaximumMemory) || !m.MemoryBallooning.Equal(before.MemoryBallooning) ||
		!m.GuaranteedMemory.Equal(before.GuaranteedMemory) {
		if policy := m.buildMemoryPolicy(); *policy != (engine.MemoryPolicy{}) {
			change.MemoryPolicy = policy
		}
	}

	if !m.Description.Equal(before.Description) {
		change.Description = textPointer(m.Description)
	}

	if !m.HighAvailability.Equal(before.HighAvailability) || !m.Priority.Equal(before.Priority) {
		change.HighAvailability = m.buildAvailability()
	}

	if !m.LeaseID.Equal(before.LeaseID) {
		change.Lease = m.buildLease()
	}

	if !m.StorageError.Equal(before.StorageError) {
		change.StorageError = m.StorageError.ValueString()
	}

	if !m.SerialConsole.Equal(before.SerialConsole) && isKnown(m.SerialConsole) {
		change.Console = &engine.Console{Enabled: m.SerialConsole.ValueBool()}
	}

	if !m.SoundcardEnabled.Equal(before.SoundcardEnabled) {
		change.Soundcard = flagPointer(m.SoundcardEnabled)
	}

	if !m.PlacementAffinity.Equal(before.PlacementAffinity) || !m.PlacementHosts.Equal(before.PlacementHosts) {
		change.PlacementPolicy, diags = m.buildPlacement(ctx)
	}

	return change, diags
}

// addHardwareChanges adds the differences of CPU, firmware, kind, cluster and custom properties to a request.
func (m *vmModel) addHardwareChanges(before *vmModel, change *engine.VM) {
	if !m.ClusterID.Equal(before.ClusterID) {
		change.Cluster = engine.NewRef(toID(m.ClusterID))
	}

	if !m.InstanceTypeID.Equal(before.InstanceTypeID) && isKnown(m.InstanceTypeID) {
		change.InstanceType = engine.NewRef(toID(m.InstanceTypeID))
	}

	changed := !m.CPUCores.Equal(before.CPUCores) || !m.CPUSockets.Equal(before.CPUSockets) ||
		!m.CPUThreads.Equal(before.CPUThreads)
	if changed && isKnown(m.CPUCores) && isKnown(m.CPUSockets) && isKnown(m.CPUThreads) {
		change.CPU = &engine.CPU{Topology: m.buildTopology()}
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
		change.TPM = flagPointer(m.TPM)
	}

	// A request must have all custom properties or none.
	if !m.HugePages.Equal(before.HugePages) || !m.CustomProperties.Equal(before.CustomProperties) {
		if change.Properties = m.buildProperties(); change.Properties == nil {
			change.Properties = &engine.Properties{}
		}
	}
}

// buildTopology returns the CPU topology.
func (m *vmModel) buildTopology() *engine.Topology {
	return &engine.Topology{
		Cores:   m.CPUCores.ValueInt64(),
		Sockets: m.CPUSockets.ValueInt64(),
		Threads: m.CPUThreads.ValueInt64(),
	}
}
