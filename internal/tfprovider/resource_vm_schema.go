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
			MarkdownDescription: "Name of the VM: letters, digits, dash, underscore and dot, at most 64 of them.",
			Validators:          []validator.String{vmName},
		},
		"comment":     schema.StringAttribute{Optional: true, MarkdownDescription: "Comment of the VM."},
		"cluster_id":  ownerID("UUID of the cluster to make the VM in."),
		"template_id": ownerID("UUID of the template to make the VM from."), // see ModifyPlan
		"effective_template_id": computedText(
			"UUID of the template that the VM depends on: the Blank template for a clone.",
		),
		"status": liveText("Status of the VM."),
		"clone": schema.BoolAttribute{
			Optional:            true,
			Computed:            true,
			MarkdownDescription: "Copy the template's disks instead of linking to them.",
			PlanModifiers:       []planmodifier.Bool{boolplanmodifier.UseStateForUnknown()}},
		"serial_console":                engineDefaultFlag("Serial console."),
		"soundcard_enabled":             engineDefaultFlag("Sound card."),
		"initialization_hostname":       initText("Host name of the guest."),
		"initialization_dns_servers":    initTexts("IP addresses of the guest's DNS servers."),
		"initialization_search_domains": initTexts("Domains in which the guest looks for names without one."),
	}
	maps.Copy(attributes, hardwareAttributes())
	maps.Copy(attributes, scriptAttributes(
		"User data for cloud-init or Ignition. It is read back from the engine on import only.",
	))
	maps.Copy(attributes, availabilityAttributes())
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "A virtual machine, made from a template. What the configuration leaves out is the " +
			"template's, and is recorded.",
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
		"cpu_cores":   engineDefaultNumber("Cores per socket; with cpu_threads and cpu_sockets."),
		"cpu_threads": engineDefaultNumber("Threads per core; with cpu_cores and cpu_sockets."),
		"cpu_sockets": engineDefaultNumber("Sockets; with cpu_cores and cpu_threads."),
		"cpu_mode": engineDefaultText("CPU mode: `custom`, `host_model` or `host_passthrough`.",
			stringvalidator.OneOf("custom", "host_model", "host_passthrough")),
		"os_type": engineDefaultText("Operating system.", notEmpty),
		"vm_type": engineDefaultText("Kind of VM: `desktop`, `server` or `high_performance`.",
			stringvalidator.OneOf("desktop", "server", "high_performance")),
		"placement_policy_affinity": engineDefaultText(
			"Migration: `migratable`, `pinned` or `user_migratable`. Set alone it takes the template's "+
				"hosts away: name them in `placement_policy_host_ids`.",
			stringvalidator.OneOf("migratable", "pinned", "user_migratable"),
		),
		"placement_policy_host_ids": schema.SetAttribute{
			Optional:            true,
			Computed:            true,
			ElementType:         types.StringType,
			MarkdownDescription: "UUIDs of the hosts to pin the VM to.",
			PlanModifiers:       []planmodifier.Set{setplanmodifier.UseStateForUnknown()}},
		"instance_type_id": engineDefaultText("UUID of an instance type, which sizes the VM.", uuid),
		"huge_pages": engineDefaultNumber("Size of huge pages in KiB: 2048 or 1048576.",
			int64validator.OneOf(2048, 1048576)),
		"memory": engineDefaultNumber(
			"Memory in bytes, a multiple of 1 MiB. A VM that runs gets more of it at once, in steps of 128 "+
				"MiB up to `maximum_memory`; any other change waits for its next start.",
			wholeMiB,
		),
		"maximum_memory":    engineDefaultNumber("Maximum memory in bytes, a multiple of 1 MiB.", wholeMiB),
		"memory_ballooning": engineDefaultFlag("Memory ballooning."),
		"guaranteed_memory": engineDefaultNumber(
			"Memory in bytes that the VM keeps when its host runs short, a multiple of 1 MiB. Not "+
				"in the released provider.",
			wholeMiB,
		),
		"description": engineDefaultText(
			"Description of the VM, at most 255 characters. Not in the released provider.",
			description,
		),
	}
}

// availabilityAttributes returns the attributes of high availability, firmware and custom properties.
func availabilityAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"high_availability": engineDefaultFlag(
			"Start the VM on another host when it, or its host, fails. Not in the released provider.",
		),
		"high_availability_priority": engineDefaultNumber(
			"Priority among highly available VMs, 0 to 100. Not in the released provider.",
			int64validator.Between(0, 100),
		),
		"lease_storage_domain_id": engineDefaultText(
			"UUID of the storage domain that has a lease of the VM, which needs `high_availability`; "+
				"empty for none. Not in the released provider.", stringvalidator.Any(uuid, stringvalidator.OneOf("")),
		),
		"storage_error_resume_behaviour": engineDefaultText(
			"What becomes of the VM after an error of its storage: `auto_resume`, `leave_paused` or "+
				"`kill`; with a lease always `kill`. Not in the released provider.",
			stringvalidator.OneOf("auto_resume", "leave_paused", "kill"),
		),
		"bios_type": engineDefaultText("Chip set and firmware: `i440fx_sea_bios`, `q35_sea_bios`, `q35_ovmf` or "+
			"`q35_secure_boot`. Not in the released provider.",
			stringvalidator.OneOf("i440fx_sea_bios", "q35_sea_bios", "q35_ovmf", "q35_secure_boot")),
		"tpm_enabled": engineDefaultFlag("Trusted platform module, which needs UEFI. Not in the released provider."),
		"custom_properties": schema.MapAttribute{
			Optional:    true,
			Computed:    true,
			ElementType: types.StringType,
			MarkdownDescription: "Custom properties by name, but for `hugepages`, which is `huge_pages`, and " +
				"`mdev_type`, for which there is `ovirt_vm_mediated_device`. Not in the released provider.",
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
