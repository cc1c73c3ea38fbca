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

// This file defines the shapes of attributes. Package tfchange knows the effect of changing each attribute, and
// completeSchema adds it to the schema.
//
// An attribute with an engine default is optional and computed. The state records the engine's value, and removing the
// attribute from the configuration leaves the object unchanged. In the released provider, the attribute is only
// optional, so an import or a removal plans a replacement of the object.

var (
	uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	uuid        = stringvalidator.RegexMatches(uuidPattern,
		"must be a UUID in lower case, as the engine writes it")
	// objectName matches the names the engine accepts for VMs and templates.
	objectName = stringvalidator.RegexMatches(regexp.MustCompile(`^[A-Za-z0-9._-]+$`),
		"may hold only letters, digits, dash, underscore and dot")
	notEmpty = stringvalidator.LengthAtLeast(1)
	// vmName matches the names the engine accepts for VMs.
	vmName = stringvalidator.All(objectName, stringvalidator.LengthAtMost(engine.MaxVMName))
	// tagName matches the names the engine accepts for tags, and groupName those for affinity groups.
	tagName = stringvalidator.RegexMatches(regexp.MustCompile(`^[\p{L}\p{M}0-9._-]{1,50}$`),
		"may hold letters, digits, dash, underscore and dot, 1 to 50 of them")
	groupName = stringvalidator.RegexMatches(regexp.MustCompile(`^[A-Za-z0-9._-]{1,254}$`),
		"may hold letters, digits, dash, underscore and dot, 1 to 254 of them")
	nicName = stringvalidator.RegexMatches(regexp.MustCompile(`^[A-Za-z0-9._-]{1,50}$`),
		"may hold letters, digits, dash, underscore and dot, 1 to 50 of them")
	description = stringvalidator.RegexMatches(regexp.MustCompile(`^[\x{0}-\x{FFFF}]{0,255}$`),
		"may hold 255 characters, and none beyond U+FFFF, such as emoji")
	// wholeMiB validates sizes: the engine keeps them in MiB, and rounds down.
	wholeMiB   = wholeMiBValidator{"must be a multiple of 1048576 (1 MiB), and more than 0"}
	macAddress = stringvalidator.RegexMatches(regexp.MustCompile(`^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$`),
		"must be a MAC address such as 56:6f:1a:00:00:01")
)

// computedText returns the attribute for a text that the engine sets once.
func computedText(description string) schema.StringAttribute {
	return schema.StringAttribute{
		Computed:            true,
		MarkdownDescription: description,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
}

// liveText returns the attribute for a text that the engine may change at any time. A plan of another attribute does
// not mention it, so an update keeps the planned value: see keepPlanned.
func liveText(description string) schema.StringAttribute {
	return schema.StringAttribute{
		Computed:            true,
		MarkdownDescription: description,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
}

// keepPlanned returns the value of a liveText after an update. This is the planned value, because Terraform reports any
// other value as an error. The next refresh reads the engine's value.
func keepPlanned(planned, now types.String) types.String {
	if planned.IsUnknown() {
		return now
	}

	return planned
}

// requiredText returns the attribute for a mandatory text.
func requiredText(description string, validators ...validator.String) schema.StringAttribute {
	return schema.StringAttribute{
		Required:            true,
		MarkdownDescription: description,
		Validators:          validators,
	}
}

// ownerID returns the attribute for a mandatory UUID.
func ownerID(description string) schema.StringAttribute { return requiredText(description, uuid) }

// engineDefaultText returns the attribute for a text with a default from the engine.
func engineDefaultText(description string, validators ...validator.String) schema.StringAttribute {
	return schema.StringAttribute{
		Optional:            true,
		Computed:            true,
		MarkdownDescription: description,
		Validators:          validators,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
}

// engineDefaultNumber returns the attribute for a number with a default from the engine.
func engineDefaultNumber(description string, validators ...validator.Int64) schema.Int64Attribute {
	return schema.Int64Attribute{
		Optional:            true,
		Computed:            true,
		MarkdownDescription: description,
		Validators:          validators,
		PlanModifiers:       []planmodifier.Int64{int64planmodifier.UseStateForUnknown()},
	}
}

// engineDefaultFlag returns the attribute for a flag with a default from the engine.
func engineDefaultFlag(description string) schema.BoolAttribute {
	return schema.BoolAttribute{
		Optional:            true,
		Computed:            true,
		MarkdownDescription: description,
		PlanModifiers:       []planmodifier.Bool{boolplanmodifier.UseStateForUnknown()},
	}
}

// sizeAttribute returns the attribute for a size in bytes. The size can only grow.
func sizeAttribute(description string) schema.Int64Attribute {
	return schema.Int64Attribute{
		Required:            true,
		MarkdownDescription: description,
		Validators:          []validator.Int64{int64validator.AtLeast(1)},
	}
}

// optionalID returns the attribute for the optional ID of a *_resize resource. The ID is that of the resized object.
func optionalID(description string) schema.StringAttribute {
	return schema.StringAttribute{
		Optional:            true,
		Computed:            true,
		MarkdownDescription: description,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
}

var diskInterfaces = []string{"ide", "sata", "spapr_vscsi", "virtio", "virtio_scsi"}

// ruleText describes the values a validator accepts, for Terraform's documentation of the attribute.
type ruleText string

func (t ruleText) Description(context.Context) string         { return string(t) }
func (t ruleText) MarkdownDescription(context.Context) string { return string(t) }

// wholeMiBValidator accepts a positive number of bytes that is a multiple of 1 MiB.
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
