package tfprovider

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure      = (*vmResource)(nil)
	_ resource.ResourceWithImportState    = (*vmResource)(nil)
	_ resource.ResourceWithValidateConfig = (*vmResource)(nil)
)

func newVMResource() resource.Resource { return &vmResource{} }

type vmResource struct{ *configured }

func (r *vmResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.configured = clientFrom(req.ProviderData, resp)
}

func (r *vmResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "ovirt_vm"
}

func (r *vmResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, MarkdownDescription: description, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()}}
	}
	number := func(description string) schema.Int64Attribute {
		return schema.Int64Attribute{Optional: true, MarkdownDescription: description, PlanModifiers: []planmodifier.Int64{int64planmodifier.RequiresReplace()}}
	}
	flag := func(description string) schema.BoolAttribute {
		return schema.BoolAttribute{Optional: true, MarkdownDescription: description, PlanModifiers: []planmodifier.Bool{boolplanmodifier.RequiresReplace()}}
	}
	required := func(description string) schema.StringAttribute {
		a := text(description)
		a.Optional, a.Required = false, true
		return a
	}
	computed := func(description string, keep bool) schema.StringAttribute {
		a := schema.StringAttribute{Computed: true, MarkdownDescription: description}
		if keep {
			a.PlanModifiers = []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
		}
		return a
	}
	name := required("Name of the VM: letters, digits, dash, underscore and dot.")
	name.PlanModifiers = nil
	address := schema.NestedBlockObject{Attributes: map[string]schema.Attribute{
		"address": schema.StringAttribute{Optional: true, MarkdownDescription: "Address."},
		"netmask": schema.StringAttribute{Optional: true, MarkdownDescription: "Netmask; dotted for IPv4."},
		"gateway": schema.StringAttribute{Optional: true, MarkdownDescription: "Default gateway."},
	}}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A virtual machine, made from a template.",
		Attributes: map[string]schema.Attribute{
			"id":                           computed("UUID of the VM.", true),
			"name":                         name,
			"comment":                      schema.StringAttribute{Optional: true, MarkdownDescription: "Comment of the VM."},
			"cluster_id":                   required("UUID of the cluster to make the VM in."),
			"template_id":                  required("UUID of the template to make the VM from."),
			"effective_template_id":        computed("UUID of the template that the VM depends on: the Blank template for a clone.", true),
			"status":                       computed("Status of the VM.", false),
			"clone":                        schema.BoolAttribute{Optional: true, MarkdownDescription: "Copy the template's disks instead of linking to them."},
			"cpu_cores":                    number("Cores per socket; with cpu_threads and cpu_sockets."),
			"cpu_threads":                  number("Threads per core; with cpu_cores and cpu_sockets."),
			"cpu_sockets":                  number("Sockets; with cpu_cores and cpu_threads."),
			"cpu_mode":                     text("CPU mode: `custom`, `host_model` or `host_passthrough`."),
			"os_type":                      text("Operating system."),
			"vm_type":                      text("Kind of VM: `desktop`, `server` or `high_performance`."),
			"placement_policy_affinity":    text("Migration: `migratable`, `pinned` or `user_migratable`."),
			"placement_policy_host_ids":    schema.SetAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: "UUIDs of the hosts to pin the VM to.", PlanModifiers: []planmodifier.Set{setplanmodifier.RequiresReplace()}},
			"instance_type_id":             text("UUID of an instance type, which sizes the VM."),
			"huge_pages":                   number("Size of huge pages in KiB: 2048 or 1048576."),
			"memory":                       schema.Int64Attribute{Optional: true, MarkdownDescription: "Memory in bytes. A change is sent to the engine, which applies it at once or with the next start."},
			"maximum_memory":               number("Maximum memory in bytes."),
			"memory_ballooning":            flag("Memory ballooning."),
			"serial_console":               flag("Serial console."),
			"soundcard_enabled":            flag("Sound card."),
			"initialization_custom_script": text("User data for cloud-init or Ignition."),
			"initialization_hostname":      text("Host name of the guest."),
		},
		Blocks: map[string]schema.Block{
			"initialization_nic": schema.ListNestedBlock{
				MarkdownDescription: "Static configuration of a network interface of the guest.",
				PlanModifiers:       []planmodifier.List{listplanmodifier.RequiresReplace()},
				NestedObject: schema.NestedBlockObject{
					Attributes: map[string]schema.Attribute{"name": schema.StringAttribute{Required: true, MarkdownDescription: "The guest's name of the interface."}},
					Blocks: map[string]schema.Block{
						"ipv4": schema.ListNestedBlock{NestedObject: address, MarkdownDescription: "IPv4 configuration."},
						"ipv6": schema.ListNestedBlock{NestedObject: address, MarkdownDescription: "IPv6 configuration."},
					},
				},
			},
			"template_disk_attachment_override": schema.SetNestedBlock{
				MarkdownDescription: "How a disk of the template is copied into the VM.",
				PlanModifiers:       []planmodifier.Set{setplanmodifier.RequiresReplace()},
				NestedObject: schema.NestedBlockObject{Attributes: map[string]schema.Attribute{
					"disk_id":           schema.StringAttribute{Required: true, MarkdownDescription: "UUID of the template's disk."},
					"format":            schema.StringAttribute{Optional: true, MarkdownDescription: "`raw` or `cow`."},
					"provisioning":      schema.StringAttribute{Optional: true, MarkdownDescription: "`sparse` or `non-sparse`."},
					"storage_domain_id": schema.StringAttribute{Optional: true, MarkdownDescription: "UUID of the storage domain."},
				}},
			},
		},
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
	MemoryBallooning    types.Bool          `tfsdk:"memory_ballooning"`
	SerialConsole       types.Bool          `tfsdk:"serial_console"`
	SoundcardEnabled    types.Bool          `tfsdk:"soundcard_enabled"`
	CustomScript        types.String        `tfsdk:"initialization_custom_script"`
	Hostname            types.String        `tfsdk:"initialization_hostname"`
	NICs                []initNICModel      `tfsdk:"initialization_nic"`
	DiskOverrides       []diskOverrideModel `tfsdk:"template_disk_attachment_override"`
}

type initNICModel struct {
	Name types.String  `tfsdk:"name"`
	IPv4 []initIPModel `tfsdk:"ipv4"`
	IPv6 []initIPModel `tfsdk:"ipv6"`
}

type initIPModel struct {
	Address types.String `tfsdk:"address"`
	Netmask types.String `tfsdk:"netmask"`
	Gateway types.String `tfsdk:"gateway"`
}

type diskOverrideModel struct {
	DiskID          types.String `tfsdk:"disk_id"`
	Format          types.String `tfsdk:"format"`
	Provisioning    types.String `tfsdk:"provisioning"`
	StorageDomainID types.String `tfsdk:"storage_domain_id"`
}

var vmNamePattern = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// ValidateConfig checks what belongs together before anything is planned.
func (r *vmResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var cores, threads, sockets types.Int64
	var name types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("cpu_cores"), &cores)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("cpu_threads"), &threads)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("cpu_sockets"), &sockets)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("name"), &name)...)
	if cores.IsNull() != threads.IsNull() || cores.IsNull() != sockets.IsNull() {
		resp.Diagnostics.AddAttributeError(path.Root("cpu_cores"), "Incomplete CPU topology", "Set all of cpu_cores, cpu_threads and cpu_sockets, or none.")
	}
	if !name.IsUnknown() && !name.IsNull() && !vmNamePattern.MatchString(name.ValueString()) {
		resp.Diagnostics.AddAttributeError(path.Root("name"), "Invalid VM name", fmt.Sprintf("%q may hold only letters, digits, dash, underscore and dot.", name.ValueString()))
	}
}

// toEngine is the request that makes the VM.
func (m *vmModel) toEngine(ctx context.Context) (*engine.VM, diag.Diagnostics) {
	var diags diag.Diagnostics
	vm := &engine.VM{
		Name: m.Name.ValueString(), Comment: m.Comment.ValueStringPointer(), Cluster: engine.NewRef(m.ClusterID.ValueString()),
		Template: engine.NewRef(m.TemplateID.ValueString()), InstanceType: engine.NewRef(m.InstanceTypeID.ValueString()),
		Memory: m.Memory.ValueInt64Pointer(), Type: m.VMType.ValueString(), Soundcard: m.SoundcardEnabled.ValueBoolPointer(),
	}
	if !m.CPUCores.IsNull() || m.CPUMode.ValueString() != "" {
		vm.CPU = &engine.CPU{Mode: m.CPUMode.ValueString()}
		if !m.CPUCores.IsNull() {
			vm.CPU.Topology = &engine.Topology{Cores: m.CPUCores.ValueInt64(), Sockets: m.CPUSockets.ValueInt64(), Threads: m.CPUThreads.ValueInt64()}
		}
	}
	if !m.MemoryBallooning.IsNull() || !m.MaximumMemory.IsNull() {
		vm.MemoryPolicy = &engine.MemoryPolicy{Ballooning: m.MemoryBallooning.ValueBoolPointer(), Max: m.MaximumMemory.ValueInt64Pointer()}
	}
	if os := m.OSType.ValueString(); os != "" {
		vm.OS = &engine.OS{Type: os}
	}
	if !m.SerialConsole.IsNull() {
		vm.Console = &engine.Console{Enabled: m.SerialConsole.ValueBool()}
	}
	if !m.HugePages.IsNull() {
		vm.Properties = &engine.Properties{Items: []engine.Property{{Name: "hugepages", Value: strconv.FormatInt(m.HugePages.ValueInt64(), 10)}}}
	}
	if !m.PlacementAffinity.IsNull() || !m.PlacementHosts.IsNull() {
		vm.PlacementPolicy = &engine.PlacementPolicy{Affinity: m.PlacementAffinity.ValueString()}
		var ids []string
		diags.Append(m.PlacementHosts.ElementsAs(ctx, &ids, false)...)
		if len(ids) > 0 {
			vm.PlacementPolicy.Hosts = &engine.HostSet{}
			for _, id := range ids {
				vm.PlacementPolicy.Hosts.Hosts = append(vm.PlacementPolicy.Hosts.Hosts, engine.Ref{ID: id})
			}
		}
	}
	vm.Initialization = m.initialization()
	if len(m.DiskOverrides) > 0 {
		vm.DiskAttachments = &engine.DiskOverrides{}
		for _, o := range m.DiskOverrides {
			choice := engine.DiskChoice{ID: o.DiskID.ValueString(), Format: o.Format.ValueString()}
			if p := o.Provisioning.ValueString(); p != "" {
				sparse := p == "sparse"
				choice.Sparse = &sparse
			}
			if id := o.StorageDomainID.ValueString(); id != "" {
				choice.StorageDomains = &engine.StorageDomains{Items: []engine.Ref{{ID: id}}}
			}
			vm.DiskAttachments.Items = append(vm.DiskAttachments.Items, engine.DiskOverride{Disk: choice})
		}
	}
	return vm, diags
}

func (m *vmModel) initialization() *engine.Initialization {
	if m.CustomScript.ValueString() == "" && m.Hostname.ValueString() == "" && len(m.NICs) == 0 {
		return nil
	}
	out := &engine.Initialization{CustomScript: m.CustomScript.ValueString(), HostName: m.Hostname.ValueString()}
	for _, n := range m.NICs {
		config := engine.NICConfiguration{Name: n.Name.ValueString(), OnBoot: true, BootProtocol: "static"}
		for _, ip := range n.IPv4 {
			config.IP = &engine.IP{Address: ip.Address.ValueString(), Netmask: ip.Netmask.ValueString(), Gateway: ip.Gateway.ValueString(), Version: "v4"}
		}
		for _, ip := range n.IPv6 {
			config.IPv6 = &engine.IP{Address: ip.Address.ValueString(), Netmask: ip.Netmask.ValueString(), Gateway: ip.Gateway.ValueString(), Version: "v6"}
			config.IPv6Boot = "static"
		}
		if out.NICs == nil {
			out.NICs = &engine.NICConfigurations{}
		}
		out.NICs.Items = append(out.NICs.Items, config)
	}
	return out
}

// observe takes over what the engine always tells. What the configuration left to the engine stays null.
func (m *vmModel) observe(vm *engine.VM) {
	m.ID, m.Name, m.Status = types.StringValue(vm.ID), types.StringValue(vm.Name), types.StringValue(string(vm.Status))
	m.ClusterID = types.StringValue(engine.RefID(vm.Cluster))
	m.EffectiveTemplateID = types.StringValue(engine.RefID(vm.Template))
	if m.TemplateID.IsNull() || !m.Clone.ValueBool() {
		m.TemplateID = m.EffectiveTemplateID
	}
}

// refresh takes over what may have been changed outside, as far as the configuration manages it.
func (m *vmModel) refresh(vm *engine.VM) {
	imported := m.Name.IsNull()
	m.observe(vm)
	if imported || !m.Comment.IsNull() {
		m.Comment = types.StringValue(vm.CommentText())
	}
	if vm.Memory != nil && (imported || !m.Memory.IsNull()) {
		m.Memory = types.Int64Value(*vm.Memory)
	}
	if vm.CPU != nil && vm.CPU.Topology != nil && (imported || !m.CPUCores.IsNull()) {
		m.CPUCores, m.CPUSockets, m.CPUThreads = types.Int64Value(vm.CPU.Topology.Cores), types.Int64Value(vm.CPU.Topology.Sockets), types.Int64Value(vm.CPU.Topology.Threads)
	}
	if vm.OS != nil && !m.OSType.IsNull() {
		m.OSType = types.StringValue(vm.OS.Type)
	}
	if !m.VMType.IsNull() {
		m.VMType = types.StringValue(vm.Type)
	}
}

func (r *vmResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model vmModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	wanted, diags := model.toEngine(ctx)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	// Not interruptible: a request that is cut off in the middle makes a VM that nobody records. It has a time-out.
	vm, err := r.client.CreateVM(context.WithoutCancel(ctx), wanted, model.Clone.ValueBoolPointer())
	if err != nil && engine.IsTransient(err) {
		vm = r.lost(context.WithoutCancel(ctx), wanted)
	}
	if vm == nil {
		resp.Diagnostics.AddError("The VM was not created", err.Error())
		return
	}
	model.observe(vm)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

// lost finds the VM whose creation got no answer: the engine may have made it all the same. It is ours if name and
// comment are what we asked for; without a comment nobody can tell, and it is left alone.
func (r *vmResource) lost(ctx context.Context, wanted *engine.VM) *engine.VM {
	if wanted.CommentText() == "" {
		return nil
	}
	for deadline := time.Now().Add(lostWait); time.Now().Before(deadline); time.Sleep(waitFirst) {
		vms, err := r.client.FindVMs(ctx, wanted.Name)
		for i := range vms {
			if err == nil && vms[i].CommentText() == wanted.CommentText() && engine.RefID(vms[i].Cluster) == engine.RefID(wanted.Cluster) {
				return &vms[i]
			}
		}
	}
	return nil
}

// lostWait is how long the engine is given to finish a create that it did not answer.
const lostWait = 10 * time.Second

func (r *vmResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model vmModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	vm, err := r.client.VM(ctx, model.ID.ValueString())
	if engine.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		resp.Diagnostics.AddError("The VM cannot be read", err.Error())
		return
	}
	model.refresh(vm)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func (r *vmResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state vmModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	change := &engine.VM{Name: plan.Name.ValueString()}
	if !plan.Comment.Equal(state.Comment) {
		comment := plan.Comment.ValueString() // null clears it
		change.Comment = &comment
	}
	if !plan.Memory.Equal(state.Memory) {
		change.Memory = plan.Memory.ValueInt64Pointer()
	}
	vm, err := r.client.UpdateVM(ctx, state.ID.ValueString(), change)
	if err != nil {
		resp.Diagnostics.AddError("The VM was not updated", err.Error())
		return
	}
	template := plan.TemplateID
	plan.observe(vm)
	plan.TemplateID = template // an update does not change it
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

func (r *vmResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var id types.String
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("id"), &id)...)
	if resp.Diagnostics.HasError() {
		return
	}
	err := powerOff(ctx, r.client, id.ValueString(), false, true)
	if err == nil {
		err = poll(ctx, "VM "+id.ValueString()+" to be deleted", func(ctx context.Context) (bool, error) {
			err := r.client.DeleteVM(ctx, id.ValueString())
			if engine.IsNotFound(err) {
				return true, nil
			}
			return false, err // deleted is what a second look says, not what the engine accepted
		})
	}
	if err != nil {
		resp.Diagnostics.AddError("The VM was not deleted", err.Error())
	}
}

func (r *vmResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, path.Root("id"), req, resp)
}
