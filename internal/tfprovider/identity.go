package tfprovider

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// identities lists the identifying attributes of each resource, in the order of its import ID. Every resource has an
// entry, and all its identifying attributes are also attributes of the resource.
var identities = map[string][]string{
	"ovirt_adopted_vm":               {"vm_id"},
	"ovirt_affinity_group":           {"cluster_id", "id"},
	"ovirt_affinity_label":           {"id"},
	"ovirt_disk":                     {"id"},
	"ovirt_disk_attachment":          {"vm_id", "id"},
	"ovirt_disk_attachments":         {"vm_id"},
	"ovirt_disk_from_image":          {"id"},
	"ovirt_disk_resize":              {"disk_id"},
	"ovirt_host_affinity_label":      {"label_id", "host_id"},
	"ovirt_nic":                      {"vm_id", "id"},
	"ovirt_permission":               {"object_type", "object_id", "id"},
	"ovirt_tag":                      {"id"},
	"ovirt_template":                 {"id"},
	"ovirt_vm":                       {"id"},
	"ovirt_vm_affinity_group":        {"cluster_id", "affinity_group_id", "vm_id"},
	"ovirt_vm_affinity_label":        {"label_id", "vm_id"},
	"ovirt_vm_cdrom":                 {"vm_id"},
	"ovirt_vm_disks_resize":          {"vm_id"},
	"ovirt_vm_graphics_consoles":     {"vm_id"},
	"ovirt_vm_host_device":           {"vm_id", "name"},
	"ovirt_vm_mediated_device":       {"vm_id", "id"},
	"ovirt_vm_optimize_cpu_settings": {"vm_id"},
	"ovirt_vm_snapshot":              {"vm_id", "id"},
	"ovirt_vm_start":                 {"vm_id"},
	"ovirt_vm_tag":                   {"tag_id", "vm_id"},
	"ovirt_vm_template_nics":         {"vm_id"},
	"ovirt_vm_watchdog":              {"vm_id", "id"},
}

// identified adds an identity to a resource. Terraform 1.12 and later stores the identity beside the state, and can
// import by it. identified passes all other calls to the resource.
type identified struct {
	resource.Resource
	attributes []string
}

// importable is an identified resource that supports imports.
type importable struct {
	identified
	importer resource.ResourceWithImportState
}

var (
	_ resource.ResourceWithConfigure        = identified{}
	_ resource.ResourceWithConfigValidators = identified{}
	_ resource.ResourceWithIdentity         = identified{}
	_ resource.ResourceWithModifyPlan       = identified{}
	_ resource.ResourceWithMoveState        = identified{}
	_ resource.ResourceWithValidateConfig   = identified{}
	_ resource.ResourceWithImportState      = importable{}
)

// withIdentity wraps a constructor, so that its resources have an identity.
func withIdentity(construct func() resource.Resource) func() resource.Resource {
	return func() resource.Resource {
		made := construct()
		var name resource.MetadataResponse
		made.Metadata(context.Background(), resource.MetadataRequest{}, &name)

		out := identified{made, identities[name.TypeName]}
		if importer, ok := made.(resource.ResourceWithImportState); ok {
			return importable{out, importer}
		}

		return out
	}
}

// IdentitySchema implements resource.ResourceWithIdentity.
func (r identified) IdentitySchema(
	_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse,
) {
	attributes := map[string]identityschema.Attribute{}
	for _, name := range r.attributes {
		attributes[name] = identityschema.StringAttribute{
			RequiredForImport: true,
			Description:       "Value of the attribute `" + name + "`.",
		}
	}

	resp.IdentitySchema = identityschema.Schema{Attributes: attributes}
}

// writeIdentity writes the identity of the object in state. If state no longer has the object, it uses before.
func (r identified) writeIdentity(
	ctx context.Context, state, before tfsdk.State, identity *tfsdk.ResourceIdentity, diags *diag.Diagnostics,
) {
	if state.Raw.IsNull() {
		state = before
	}

	if identity == nil || state.Raw.IsNull() {
		return
	}

	if r.isUnnamed(ctx, state) {
		return // an identity must not change
	}

	for _, name := range r.attributes {
		var value types.String
		if diags.Append(state.GetAttribute(ctx, path.Root(name), &value)...); value.IsUnknown() {
			continue // the create has failed
		}

		diags.Append(identity.SetAttribute(ctx, path.Root(name), value)...)
	}
}

// writeEmptyIdentity writes an identity of empty texts. It identifies no object, but the framework rejects a missing
// identity.
func (r identified) writeEmptyIdentity(ctx context.Context, identity *tfsdk.ResourceIdentity, diags *diag.Diagnostics) {
	if identity == nil {
		return
	}

	for _, name := range r.attributes {
		diags.Append(identity.SetAttribute(ctx, path.Root(name), types.StringValue(""))...)
	}
}

// isUnnamed reports whether a state has no ID for the identity yet, because its create got no answer.
func (r identified) isUnnamed(ctx context.Context, state tfsdk.State) bool {
	var id types.String
	_ = state.GetAttribute(ctx, path.Root("id"), &id) // the schema has it

	return slices.Contains(r.attributes, "id") && id.IsNull()
}

// Create implements resource.Resource.
func (r identified) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	r.Resource.Create(ctx, req, resp)
	r.writeIdentity(ctx, resp.State, tfsdk.State{}, resp.Identity, &resp.Diagnostics)
}

// Read implements resource.Resource.
func (r identified) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	isFound := r.findUnanswered(ctx, &req.State, resp.Private, &resp.Diagnostics)

	switch {
	case resp.Diagnostics.HasError():
		return
	case isFound:
		r.Resource.Read(ctx, req, resp)
	default:
		resp.State.RemoveResource(ctx)
	}

	if resp.State.Raw.IsNull() && r.isUnnamed(ctx, req.State) {
		r.writeEmptyIdentity(ctx, resp.Identity, &resp.Diagnostics)
		return
	}

	r.writeIdentity(ctx, resp.State, req.State, resp.Identity, &resp.Diagnostics)
}

// Update implements resource.Resource.
func (r identified) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	r.Resource.Update(ctx, req, resp)
	r.writeIdentity(ctx, resp.State, req.State, resp.Identity, &resp.Diagnostics)
}

// Delete implements resource.Resource.
func (r identified) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	if r.findUnanswered(ctx, &req.State, req.Private, &resp.Diagnostics) && !resp.Diagnostics.HasError() {
		r.Resource.Delete(ctx, req, resp)
	}
}

// Configure implements resource.ResourceWithConfigure.
func (r identified) Configure(ctx context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	if of, ok := r.Resource.(resource.ResourceWithConfigure); ok {
		of.Configure(ctx, req, resp)
	}
}

// ConfigValidators implements resource.ResourceWithConfigValidators.
func (r identified) ConfigValidators(ctx context.Context) []resource.ConfigValidator {
	if of, ok := r.Resource.(resource.ResourceWithConfigValidators); ok {
		return of.ConfigValidators(ctx)
	}

	return nil
}

// ValidateConfig implements resource.ResourceWithValidateConfig.
func (r identified) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	if of, ok := r.Resource.(resource.ResourceWithValidateConfig); ok {
		of.ValidateConfig(ctx, req, resp)
	}
}

// ModifyPlan implements resource.ResourceWithModifyPlan.
func (r identified) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if of, ok := r.Resource.(resource.ResourceWithModifyPlan); ok {
		of.ModifyPlan(ctx, req, resp)
	}
}

// MoveState implements resource.ResourceWithMoveState. A resource without sources has no movers.
func (r identified) MoveState(ctx context.Context) []resource.StateMover {
	if of, ok := r.Resource.(resource.ResourceWithMoveState); ok {
		return of.MoveState(ctx)
	}

	return nil
}

// ImportState implements resource.ResourceWithImportState, by an ID or by an identity. An identity has the parts of the
// ID.
func (r importable) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	if req.ID == "" && req.Identity != nil && !req.Identity.Raw.IsNull() {
		parts := make([]string, 0, len(r.attributes))

		for _, name := range r.attributes {
			var value types.String
			resp.Diagnostics.Append(req.Identity.GetAttribute(ctx, path.Root(name), &value)...)
			part := value.ValueString()

			switch isID := name == "id" || strings.HasSuffix(name, "_id"); {
			case isID && !uuidPattern.MatchString(strings.ToLower(part)):
				resp.Diagnostics.AddAttributeError(path.Root(name), "Invalid identity",
					fmt.Sprintf("%s must be a UUID; it is %q.", name, part))
			case part == "":
				resp.Diagnostics.AddAttributeError(path.Root(name), "Invalid identity", name+" is missing.")
			}

			parts = append(parts, part)
		}

		if resp.Diagnostics.HasError() {
			return
		}

		req.ID = strings.Join(parts, "/")
	}

	r.importer.ImportState(ctx, req, resp)

	if resp.Identity != nil && !resp.Diagnostics.HasError() {
		r.writeIdentity(ctx, resp.State, tfsdk.State{}, resp.Identity, &resp.Diagnostics)
	}
}
