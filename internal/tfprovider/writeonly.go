package tfprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// These attributes are for the user data of a guest. The second one is write-only: Terraform 1.11 and OpenTofu 1.11
// send it only with the configuration, so no plan and no state has it. The third one is a version. A change of the
// version signals a change of the user data.
const (
	scriptAttribute        = "initialization_custom_script"
	writeOnlyScript        = scriptAttribute + "_wo"
	writeOnlyScriptVersion = writeOnlyScript + "_version"
)

// scriptAttributes returns the three attributes of the user data. when tells users when the guest reads the user data.
func scriptAttributes(when string) map[string]schema.Attribute {
	script := initText(when)
	script.Sensitive = true // it has the keys of clusters; the released provider shows it in plans
	script.Computed = true  // a configuration generated from an import omits sensitive values
	script.PlanModifiers = append(
		[]planmodifier.String{stringplanmodifier.UseStateForUnknown()}, script.PlanModifiers...,
	)

	return map[string]schema.Attribute{
		scriptAttribute: script,
		writeOnlyScript: schema.StringAttribute{
			Optional:  true,
			WriteOnly: true,
			Sensitive: true,
			MarkdownDescription: "Write-only variant of `" + scriptAttribute + "`, whose value is not stored in " +
				"plans or states. Requires Terraform 1.11 or OpenTofu 1.11. Moving unchanged user data from `" +
				scriptAttribute + "` to this attribute does not replace the resource. Not available in " +
				"`ovirt/ovirt`.",
			Validators: []validator.String{
				stringvalidator.ConflictsWith(path.MatchRoot(scriptAttribute)),
				stringvalidator.AlsoRequires(path.MatchRoot(writeOnlyScriptVersion)),
			},
		},
		writeOnlyScriptVersion: schema.Int64Attribute{
			Optional: true,
			MarkdownDescription: "Version of `" + writeOnlyScript + "`. The provider cannot detect changes of that " +
				"value, so increase the version with every change. Not available in `ovirt/ovirt`.",
			Validators: []validator.Int64{int64validator.AlsoRequires(path.MatchRoot(writeOnlyScript))},
		},
	}
}

// getScript returns the user data of a configuration, from either attribute. planned is the planned value.
func getScript(
	ctx context.Context, config attributeReader, planned types.String, diags *diag.Diagnostics,
) types.String {
	var secret types.String
	diags.Append(config.GetAttribute(ctx, path.Root(writeOnlyScript), &secret)...)
	if isKnown(secret) {
		return secret
	}

	return planned
}

// planScript plans write-only user data. It removes the user data from the state. Another version replaces the object.
// Moving unchanged user data from the state to the configuration replaces nothing. Moving user data that are unknown at
// plan time is an error, because a replacement would lose the disks.
func planScript(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}

	var secret, before types.String
	var version, versionBefore types.Int64
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(writeOnlyScript), &secret)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(writeOnlyScriptVersion), &version)...)
	if version.IsNull() || resp.Diagnostics.HasError() {
		return
	}

	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(scriptAttribute), types.StringNull())...)
	if req.State.Raw.IsNull() {
		return
	}

	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root(scriptAttribute), &before)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root(writeOnlyScriptVersion), &versionBefore)...)

	switch {
	case version.Equal(versionBefore), isKnown(before) && before.Equal(secret):
	case isKnown(before) && secret.IsUnknown(): // it may equal the value in the state
		resp.Diagnostics.AddAttributeError(path.Root(writeOnlyScript), writeOnlyScript+" is not known yet",
			"Whether the user data of "+scriptAttribute+" only moves to this attribute cannot be told, and other user "+
				"data replaces the resource. Apply once with a value that is known at plan time, such as the user "+
				"data of before.")
	default:
		resp.RequiresReplace = append(resp.RequiresReplace, path.Root(writeOnlyScriptVersion))
	}
}
