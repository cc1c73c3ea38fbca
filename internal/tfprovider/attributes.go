package tfprovider

import (
	"context"
	"fmt"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// The shapes of attributes. What a change of each does is in package tfchange, and planned adds it. An attribute that
// the configuration may leave to the engine is optional and computed: the engine's value is recorded, and removing it
// from the configuration leaves the object as it is. In the released provider it is only optional, so that an import
// or a removal plans to replace the object.

var (
	uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	uuid        = stringvalidator.RegexMatches(uuidPattern,
		"must be a UUID in lower case, as the engine writes it")
	// name is what the engine accepts for VMs and templates.
	objectName = stringvalidator.RegexMatches(regexp.MustCompile(`^[A-Za-z0-9._-]+$`),
		"may hold only letters, digits, dash, underscore and dot")
	notEmpty = stringvalidator.LengthAtLeast(1)
	// vmName is what the engine accepts for VMs.
	vmName = stringvalidator.All(objectName, stringvalidator.LengthAtMost(engine.MaxVMName))
	// tagName is what the engine accepts for tags and affinity groups.
	tagName = stringvalidator.RegexMatches(regexp.MustCompile(`^[\p{L}\p{M}0-9._-]{1,50}$`),
		"may hold letters, digits, dash, underscore and dot, 1 to 50 of them")
	groupName = stringvalidator.RegexMatches(regexp.MustCompile(`^[A-Za-z0-9._-]{1,254}$`),
		"may hold letters, digits, dash, underscore and dot, 1 to 254 of them")
	nicName = stringvalidator.RegexMatches(regexp.MustCompile(`^[A-Za-z0-9._-]{1,50}$`),
		"may hold letters, digits, dash, underscore and dot, 1 to 50 of them")
	description = stringvalidator.RegexMatches(regexp.MustCompile(`^[\x{0}-\x{FFFF}]{0,255}$`),
		"may hold 255 characters, and none beyond U+FFFF, such as emoji")
	// wholeMiB is for sizes that the engine keeps in MiB, and cuts down to these.
	wholeMiB   = wholeMiBValidator{"must be a multiple of 1048576 (1 MiB), and more than 0"}
	macAddress = stringvalidator.RegexMatches(regexp.MustCompile(`^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$`),
		"must be a MAC address such as 56:6f:1a:00:00:01")
)

// computedText is set by the engine once.
func computedText(description string) schema.StringAttribute {
	return schema.StringAttribute{
		Computed:            true,
		MarkdownDescription: description,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
}

// liveText is set by the engine and changes by itself. A plan of something else says nothing about it, so an update
// keeps what the plan has: see promised.
func liveText(description string) schema.StringAttribute {
	return schema.StringAttribute{
		Computed:            true,
		MarkdownDescription: description,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
}

// promised is the value of a liveText after an update: that of the plan, for Terraform takes any other one for an
// error. The next refresh reads the engine's.
func promised(planned, now types.String) types.String {
	if planned.IsUnknown() {
		return now
	}

	return planned
}

// requiredText must be set.
func requiredText(description string, validators ...validator.String) schema.StringAttribute {
	return schema.StringAttribute{
		Required:            true,
		MarkdownDescription: description,
		Validators:          validators,
	}
}

// ownerID must be set to a UUID.
func ownerID(description string) schema.StringAttribute { return requiredText(description, uuid) }

// enginesText may be left to the engine.
func enginesText(description string, validators ...validator.String) schema.StringAttribute {
	return schema.StringAttribute{
		Optional:            true,
		Computed:            true,
		MarkdownDescription: description,
		Validators:          validators,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
}

// enginesNumber may be left to the engine.
func enginesNumber(description string, validators ...validator.Int64) schema.Int64Attribute {
	return schema.Int64Attribute{
		Optional:            true,
		Computed:            true,
		MarkdownDescription: description,
		Validators:          validators,
		PlanModifiers:       []planmodifier.Int64{int64planmodifier.UseStateForUnknown()},
	}
}

// enginesFlag may be left to the engine.
func enginesFlag(description string) schema.BoolAttribute {
	return schema.BoolAttribute{
		Optional:            true,
		Computed:            true,
		MarkdownDescription: description,
		PlanModifiers:       []planmodifier.Bool{boolplanmodifier.UseStateForUnknown()},
	}
}

// sizeAttribute is a size in bytes that can only grow.
func sizeAttribute(description string) schema.Int64Attribute {
	return schema.Int64Attribute{
		Required:            true,
		MarkdownDescription: description,
		Validators:          []validator.Int64{int64validator.AtLeast(1)},
	}
}

// theID is the optional ID of a *_resize resource, which is that of what it resizes.
func theID(description string) schema.StringAttribute {
	return schema.StringAttribute{
		Optional:            true,
		Computed:            true,
		MarkdownDescription: description,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
}

var diskInterfaces = []string{"ide", "sata", "spapr_vscsi", "virtio", "virtio_scsi"}

// ruleText says in words what a validator accepts, for Terraform's documentation of the attribute.
type ruleText string

func (t ruleText) Description(context.Context) string         { return string(t) }
func (t ruleText) MarkdownDescription(context.Context) string { return string(t) }

// wholeMiBValidator accepts bytes that are whole MiB, at least one.
type wholeMiBValidator struct{ ruleText }

func (v wholeMiBValidator) ValidateInt64(_ context.Context, req validator.Int64Request, resp *validator.Int64Response) {
	if !isKnown(req.ConfigValue) {
		return
	}

	if bytes := req.ConfigValue.ValueInt64(); bytes <= 0 || bytes%(1<<20) != 0 {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid size",
			fmt.Sprintf("%s %s; it is %d.", req.Path, v.ruleText, bytes))
	}
}
