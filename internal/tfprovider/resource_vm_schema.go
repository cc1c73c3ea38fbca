package tfprovider

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

func (r *vmResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := map[string]schema.Attribute{
		"id": computedText("UUID of the VM."),
		"name": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "Name of the VM. Can contain up to 64 letters, digits, dashes, underscores and dots.",
			Validators:          []validator.String{vmName},
		},
		"comment":     schema.StringAttribute{Optional: true, MarkdownDescription: "Comment of the VM."},
		"cluster_id":  ownerID("UUID of the cluster to create the VM in."),
		"template_id": ownerID("UUID of the template to create the VM from."), // see ModifyPlan
		"effective_template_id": computedText(
			"UUID of the template that the VM depends on. For a clone, this is the blank template.",
		),
		"status": liveText("Status of the VM."),
		"clone": schema.BoolAttribute{
			Optional:            true,
			Computed:            true,
			MarkdownDescription: "Whether to copy the template's disks instead of linking to them.",
			PlanModifiers:       []planmodifier.Bool{boolplanmodifier.UseStateForUnknown()}},
		"serial_console":                engineDefaultFlag("Whether the VM has a serial console."),
		"soundcard_enabled":             engineDefaultFlag("Whether the VM has a sound card."),
		"initialization_hostname":       initText("Host name of the guest."),
		"initialization_dns_servers":    initTexts("IP addresses of the guest's DNS servers."),
		"initialization_search_domains": initTexts("DNS search domains of the guest."),
	}
	maps.Copy(attributes, hardwareAttributes())
	maps.Copy(attributes, scriptAttributes(
		"User data for cloud-init or Ignition. The provider reads it from the engine only on import.",
	))
	maps.Copy(attributes, availabilityAttributes())
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "A virtual machine created from a template. Omitted settings are inherited from the " +
			"template and recorded in the state.",
		Attributes: attributes,
		Blocks: map[string]schema.Block{
			"initialization_nic":                initNICBlock(),
			"template_disk_attachment_override": diskOverrideBlock(),
		},
	}, "template_id", "clone", scriptAttribute, writeOnlyScriptVersion, "initialization_hostname")
}

// hardwareAttributes returns the attributes of CPU, memory, placement and kind of a VM.
func hardwareAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"cpu_cores": engineDefaultNumber("Number of cores per socket. Must be set together with `cpu_threads` and " +
			"`cpu_sockets`."),
		"cpu_threads": engineDefaultNumber("Number of threads per core. Must be set together with `cpu_cores` and " +
			"`cpu_sockets`."),
		"cpu_sockets": engineDefaultNumber("Number of sockets. Must be set together with `cpu_cores` and " +
			"`cpu_threads`."),
		"cpu_mode": engineDefaultText("CPU mode: `custom`, `host_model` or `host_passthrough`.",
			stringvalidator.OneOf("custom", "host_model", "host_passthrough")),
		"os_type": engineDefaultText("Type of the operating system.", notEmpty),
		"vm_type": engineDefaultText("Type of the VM: `desktop`, `server` or `high_performance`.",
			stringvalidator.OneOf("desktop", "server", "high_performance")),
		"placement_policy_affinity": engineDefaultText(
			"Migration mode: `migratable`, `pinned` or `user_migratable`. If you set it, also set "+
				"`placement_policy_host_ids`. Otherwise, the VM loses the hosts inherited from the template.",
			stringvalidator.OneOf("migratable", "pinned", "user_migratable"),
		),
		"placement_policy_host_ids": schema.SetAttribute{
			Optional:            true,
			Computed:            true,
			ElementType:         types.StringType,
			MarkdownDescription: "UUIDs of the hosts to pin the VM to.",
			PlanModifiers:       []planmodifier.Set{setplanmodifier.UseStateForUnknown()}},
		"instance_type_id": engineDefaultText("UUID of the instance type that determines the size of the VM.", uuid),
		"huge_pages": engineDefaultNumber("Size of huge pages in KiB: `2048` or `1048576`.",
			int64validator.OneOf(2048, 1048576)),
		"memory": engineDefaultNumber(
			"Memory in bytes. Must be a multiple of 1 MiB. A running VM can grow immediately in steps of 128 MiB, up "+
				"to `maximum_memory`. Any other change takes effect at the next start.",
			wholeMiB,
		),
		"maximum_memory":    engineDefaultNumber("Maximum memory in bytes. Must be a multiple of 1 MiB.", wholeMiB),
		"memory_ballooning": engineDefaultFlag("Whether to enable memory ballooning."),
		"guaranteed_memory": engineDefaultNumber(
			"Memory in bytes that the VM keeps if its host runs low on memory. Must be a multiple of 1 MiB. Not "+
				"available in `ovirt/ovirt`.",
			wholeMiB,
		),
		"description": engineDefaultText(
			"Description of the VM. At most 255 characters. Not available in `ovirt/ovirt`.",
			description,
		),
	}
}

// availabilityAttributes returns the attributes of high availability, firmware and custom properties.
func availabilityAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"high_availability": engineDefaultFlag(
			"Whether to restart the VM on another host if the VM or its host fails. Not available in `ovirt/ovirt`.",
		),
		"high_availability_priority": engineDefaultNumber(
			"Priority among highly available VMs, from 0 to 100. Not available in `ovirt/ovirt`.",
			int64validator.Between(0, 100),
		),
		"lease_storage_domain_id": engineDefaultText(
			"UUID of the storage domain for the lease of the VM. Requires `high_availability`. An empty string "+
				"disables the lease. Not available in `ovirt/ovirt`.",
			stringvalidator.Any(uuid, stringvalidator.OneOf("")),
		),
		"storage_error_resume_behaviour": engineDefaultText(
			"Behavior of the VM after a storage error: `auto_resume`, `leave_paused` or `kill`. Always `kill` for a "+
				"VM with a lease. Not available in `ovirt/ovirt`.",
			stringvalidator.OneOf("auto_resume", "leave_paused", "kill"),
		),
		"bios_type": engineDefaultText("Chipset and firmware: `i440fx_sea_bios`, `q35_sea_bios`, `q35_ovmf` or "+
			"`q35_secure_boot`. Not available in `ovirt/ovirt`.",
			stringvalidator.OneOf("i440fx_sea_bios", "q35_sea_bios", "q35_ovmf", "q35_secure_boot")),
		"tpm_enabled": engineDefaultFlag("Whether the VM has a trusted platform module (TPM). Requires UEFI. Not " +
			"available in `ovirt/ovirt`."),
		"custom_properties": schema.MapAttribute{
			Optional:    true,
			Computed:    true,
			ElementType: types.StringType,
			MarkdownDescription: "Custom properties by name. Instead of `hugepages`, use the attribute `huge_pages`. " +
				"Instead of `mdev_type`, use the resource `ovirt_vm_mediated_device`. Not available in `ovirt/ovirt`.",
			PlanModifiers: []planmodifier.Map{mapplanmodifier.UseStateForUnknown()},
			Validators: []validator.Map{
				mapvalidator.KeysAre(stringvalidator.NoneOf(hugePagesProperty, "mdev_type")),
			},
		},
	}
}

// diskOverrideBlock returns the block for the copy of a template's disk.
func diskOverrideBlock() schema.SetNestedBlock {
	return schema.SetNestedBlock{
		MarkdownDescription: "Overrides how a disk of the template is copied into the VM. The engine does not store " +
			"this setting, so an import accepts the configured value.",
		PlanModifiers: []planmodifier.Set{
			setplanmodifier.RequiresReplaceIf(
				func(_ context.Context, req planmodifier.SetRequest,
					resp *setplanmodifier.RequiresReplaceIfFuncResponse) {
					resp.RequiresReplace = len(req.StateValue.Elements()) > 0
				},
				"disks are copied only when the VM is created",
				"disks are copied only when the VM is created",
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
				MarkdownDescription: "Format of the copy: `raw` or `cow`.",
				Validators: []validator.String{
					stringvalidator.OneOf(engine.FormatRaw, engine.FormatCow),
				},
			},
			"provisioning": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Allocation of the copy: `sparse` or `non-sparse`.",
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
