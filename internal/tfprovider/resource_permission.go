package tfprovider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/resourcevalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*permissionResource)(nil)
	_ resource.ResourceWithImportState = (*permissionResource)(nil)
)

func newPermissionResource() resource.Resource {
	return &permissionResource{fixed{base{typeName: "ovirt_permission"}}}
}

// permissionResource gives a user or a group a role on an object. No recording shows how an engine answers when a role
// is granted or revoked.
type permissionResource struct{ fixed }

// permittedKinds maps kinds of objects to collections of the API.
var permittedKinds = map[string]string{
	"cluster": "clusters", "data_center": "datacenters", "disk": "disks", "storage_domain": "storagedomains",
	"template": "templates", "vm": "vms", "vnic_profile": "vnicprofiles",
}

// Schema implements resource.Resource.
func (r *permissionResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	holder := func(who string) schema.StringAttribute {
		return schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "UUID of the " + who + " that gets the role. Exactly one of `user_id` and " +
				"`group_id` must be set.",
			Validators: []validator.String{uuid},
		}
	}
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "Grants a role on an object to a user or group. The requests of this resource have not " +
			"been confirmed on a real engine yet. Not available in `ovirt/ovirt`.",
		Attributes: map[string]schema.Attribute{
			"id": computedText("UUID of the permission."),
			"object_type": requiredText("Type of the object: `"+strings.Join(sortedKinds(), "`, `")+"`.",
				stringvalidator.OneOf(sortedKinds()...)),
			"object_id": ownerID("UUID of the object."),
			"role":      requiredText("Name of the role, such as `UserVmManager`.", notEmpty),
			"user_id":   holder("user"),
			"group_id":  holder("group"),
		},
	})
}

func sortedKinds() []string { return slices.Sorted(maps.Keys(permittedKinds)) }

// ConfigValidators implements resource.ResourceWithConfigValidators.
func (r *permissionResource) ConfigValidators(ctx context.Context) []resource.ConfigValidator {
	return append(r.base.ConfigValidators(ctx),
		resourcevalidator.ExactlyOneOf(path.MatchRoot("user_id"), path.MatchRoot("group_id")))
}

type permissionModel struct {
	timed

	ID         types.String `tfsdk:"id"`
	ObjectType types.String `tfsdk:"object_type"`
	ObjectID   types.String `tfsdk:"object_id"`
	Role       types.String `tfsdk:"role"`
	UserID     types.String `tfsdk:"user_id"`
	GroupID    types.String `tfsdk:"group_id"`
}

func (m *permissionModel) permittedObject() engine.Permitted {
	return engine.Permitted{Collection: permittedKinds[m.ObjectType.ValueString()], ID: toID(m.ObjectID)}
}

// Create implements resource.Resource. Only the answer shows whether the permission is new. The engine answers with the
// existing permission if there is one, and its list includes permissions of the cluster and of the whole system.
func (r *permissionResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[permissionModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	made, err := r.grantRole(ctx, model)
	if err != nil {
		r.keepUnanswered(ctx, err, req.Plan, resp)
		resp.Diagnostics.AddError("The permission was not given", err.Error())
		return
	}

	model.ID = toIDValue(made.ID)
	r.made.addID(made.ID.String())
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *permissionResource) grantRole(ctx context.Context, model *permissionModel) (*engine.Permission, error) {
	role, err := r.client.FindRole(ctx, model.Role.ValueString())
	if err != nil {
		return nil, err
	}

	before, err := r.client.ListPermissions(ctx, model.permittedObject())
	if err != nil {
		return nil, err
	}

	var made *engine.Permission
	lost := false
	what := "permission on " + model.ObjectID.ValueString()
	err = pollEngine(ctx, what, func(ctx context.Context) (bool, string, error) {
		var err error
		made, err = r.client.AddPermission(context.WithoutCancel(ctx), model.permittedObject(), engine.Permission{
			Role:  engine.NewRef(role.ID),
			User:  engine.NewRef(toID(model.UserID)),
			Group: engine.NewRef(toID(model.GroupID)),
		})
		lost = lost || engine.IsAnswerLost(err)

		return err == nil, "", err
	})

	known := collectIDs(before, func(p *engine.Permission) engine.ID { return p.ID }, isAny)
	if err != nil {
		return nil, engine.AddKnownIDs(markUnanswered(err, lost), known)
	}

	if slices.Contains(known, made.ID) {
		return nil, fmt.Errorf("the permission is there already: import it with the ID %s/%s/%s",
			model.ObjectType.ValueString(), model.ObjectID.ValueString(), made.ID)
	}

	return made, nil
}

// findMatches implements locator.
func (r *permissionResource) findMatches(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	role, err := r.client.FindRole(ctx, getText(ctx, state, "role"))
	if err != nil {
		return nil, err
	}

	on := engine.Permitted{
		Collection: permittedKinds[getText(ctx, state, "object_type")], ID: getUUID(ctx, state, "object_id"),
	}
	holder := max(getUUID(ctx, state, "user_id"), getUUID(ctx, state, "group_id")) // one of them is empty
	all, err := r.client.ListPermissions(ctx, on)

	return collectIDs(all, func(p *engine.Permission) engine.ID { return p.ID }, func(p *engine.Permission) bool {
		return engine.RefID(p.Role) == role.ID && p.HolderID() == holder
	}), err
}

// Read implements resource.Resource.
func (r *permissionResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[permissionModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	all, err := r.client.ListPermissions(ctx, model.permittedObject())
	if handleReadError(ctx, err, "The permissions of the object", resp) {
		return
	}

	at := slices.IndexFunc(all, func(p engine.Permission) bool { return p.ID == toID(model.ID) })
	if at < 0 {
		resp.State.RemoveResource(ctx)
		return
	}

	role, err := r.client.FetchRoleName(ctx, engine.RefID(all[at].Role))
	if handleReadError(ctx, err, "The roles", resp) {
		return
	}

	model.Role = keepIfAbsent(model.Role, textOrNull(role))
	model.UserID = textOrNull(engine.RefID(all[at].User).String())
	model.GroupID = textOrNull(engine.RefID(all[at].Group).String())
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Delete implements resource.Resource.
func (r *permissionResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[permissionModel](ctx, req.State, &resp.Diagnostics)
	if !ok || r.made.shouldKeep(model.ID.ValueString(), "permission", &resp.Diagnostics) {
		return
	}

	removeAndWait(ctx, "Permission "+model.ID.ValueString(), &resp.Diagnostics, func(ctx context.Context) error {
		return r.client.RemovePermission(ctx, model.permittedObject(), toID(model.ID))
	})
}

// ImportState takes OBJECT-TYPE/OBJECT-UUID/UUID.
func (r *permissionResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	if kind, _, _ := strings.Cut(strings.TrimSpace(req.ID), "/"); permittedKinds[kind] == "" {
		resp.Diagnostics.AddError("Invalid import ID",
			"Write OBJECT_TYPE/OBJECT_ID/ID; the type is one of "+strings.Join(sortedKinds(), ", ")+".")
		return
	}

	importParts(ctx, req, resp, "object_type", "object_id", "id")
}
