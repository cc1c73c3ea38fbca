package tfprovider

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// base is common to all resources: a type name, and the provider's client once configured.
type base struct {
	*configured
	typeName string
}

func (b *base) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = b.typeName
}

func (b *base) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	b.configured = getConfigured(req.ProviderData, &resp.Diagnostics)
}

// ConfigValidators makes every resource reject texts the provider cannot send.
func (b *base) ConfigValidators(context.Context) []resource.ConfigValidator {
	return []resource.ConfigValidator{sendable{}}
}

// madeNow holds the IDs of the objects that the resources of a run have created or taken over. It lasts for one walk of
// Terraform, because Terraform configures the provider before each walk.
//
// Some objects exist only once in the engine: a tag on a VM, a disk in a VM, the adoption of a VM. With
// create_before_destroy, the object to destroy may therefore be the one just created.
type madeNow struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (m *madeNow) addID(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()

	if m.ids == nil {
		m.ids = map[string]bool{}
	}

	m.ids[id] = true
}

func (m *madeNow) hasID(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()

	return m.ids[id]
}

// shouldKeep reports whether the provider must not destroy an object, because this run has just created it. In this
// case, it adds a warning.
func (m *madeNow) shouldKeep(id, what string, diags *diag.Diagnostics) bool {
	if !m.hasID(id) {
		return false
	}

	diags.AddWarning("The "+what+" was kept",
		"The resource that replaces this one has the same "+what+", "+id+": create_before_destroy made it before "+
			"this one was to be destroyed.")

	return true
}

// canTakeOver reports whether a create may take over an existing object. It may if the manager runs for an owner,
// because then everything on the VM belongs to the owner. An earlier run with an unknown end may have created the
// object.
func (b *base) canTakeOver(id string) bool { return b.owner != "" && !b.made.hasID(id) }

// refuseMember returns an error if the member to add already exists. It then belongs to another resource, or a user
// added it by hand. importID is the ID for an import of the member.
func (b *base) refuseMember(
	ctx context.Context, what, importID string, isThere func(context.Context) (bool, error),
) error {
	if b.canTakeOver(importID) {
		return nil
	}

	return pollEngine(ctx, what, func(ctx context.Context) (bool, string, error) {
		there, err := isThere(ctx)
		if err == nil && there {
			err = fmt.Errorf("%s is there already: import it with the ID %s", what, importID)
		}

		return err == nil, "", err
	})
}

// fixed is a resource without updates: every change replaces the object.
type fixed struct{ base }

// Update handles a change of the timeouts. No other update is ever planned.
func (f *fixed) Update(_ context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if handleTimeoutsOnly(req, resp) {
		return
	}

	resp.Diagnostics.AddError(f.typeName+" cannot be updated",
		"This is a bug in the provider: a change must replace it.")
}

// dataBase is common to all data sources.
type dataBase struct {
	*configured
	typeName string
}

func (b *dataBase) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = b.typeName
}

func (b *dataBase) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	b.configured = getConfigured(req.ProviderData, &resp.Diagnostics)
}

// ConfigValidators makes every data source reject texts the provider cannot send.
func (b *dataBase) ConfigValidators(context.Context) []datasource.ConfigValidator {
	return []datasource.ConfigValidator{sendable{}}
}

// getConfigured returns the provider's data in Configure. It returns nil while Terraform only validates.
func getConfigured(data any, diags *diag.Diagnostics) *configured {
	if data == nil {
		return nil
	}

	c, ok := data.(*configured)
	if !ok {
		diags.AddError(
			"Unexpected provider data",
			fmt.Sprintf("expected *configured, got %T: this is a bug in the provider", data),
		)

		return nil
	}

	return c
}

// loadModel reads a plan, a state or a configuration into its model. It returns false on failure.
func loadModel[T any](ctx context.Context, source interface {
	Get(context.Context, any) diag.Diagnostics
}, diags *diag.Diagnostics) (*T, bool) {
	var model T
	diags.Append(source.Get(ctx, &model)...)
	return &model, !diags.HasError()
}

// loadBlock reads a block of a configuration or a state. It returns false if the block is unknown, or on failure.
func loadBlock[T any](ctx context.Context, source interface {
	GetAttribute(context.Context, path.Path, any) diag.Diagnostics
}, name string, diags *diag.Diagnostics) ([]T, bool) {
	var set types.Set
	var items []T
	diags.Append(source.GetAttribute(ctx, path.Root(name), &set)...)
	if diags.HasError() || set.IsUnknown() {
		return nil, false
	}

	diags.Append(set.ElementsAs(ctx, &items, false)...)

	return items, !diags.HasError()
}

// handleReadError handles the error of a read, and reports whether there was one. It removes a deleted object from the
// state, so that Terraform plans to create it again.
func handleReadError(ctx context.Context, err error, what string, resp *resource.ReadResponse) bool {
	switch {
	case err == nil:
		return false
	case engine.IsNotFound(err):
		resp.State.RemoveResource(ctx)
	default:
		resp.Diagnostics.AddError(what+" cannot be read", err.Error())
	}

	return true
}

// removeAndWait requests a removal, and retries while the object is locked. It also succeeds if the object is already
// gone.
func removeAndWait(ctx context.Context, what string, diags *diag.Diagnostics, ask func(context.Context) error) {
	err := pollEngine(ctx, what+" to be removed", func(ctx context.Context) (bool, string, error) {
		err := ask(ctx)
		return err == nil || engine.IsNotFound(err), "", ignoreNotFound(err)
	})
	if err != nil {
		diags.AddError(what+" was not removed", err.Error())
	}
}

func ignoreNotFound(err error) error {
	if engine.IsNotFound(err) {
		return nil
	}

	return err
}

// importParts splits an import ID into attributes, in the given order.
func importParts(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse, attributes ...string,
) {
	parts := strings.Split(strings.TrimSpace(req.ID), "/")
	if len(parts) != len(attributes) {
		resp.Diagnostics.AddError("Invalid import ID",
			"Write "+strings.ToUpper(strings.Join(attributes, "/"))+", each a UUID.")
		return
	}

	for i, attribute := range attributes {
		// The engine knows IDs only in lower case.
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(attribute), strings.ToLower(parts[i]))...)
	}
}

// toID returns the UUID in an attribute. A state may hold any text, but the client refuses to send an invalid UUID.
func toID(attribute types.String) engine.ID { return engine.ID(attribute.ValueString()) }

// toIDValue returns a UUID as an attribute.
func toIDValue(id engine.ID) types.String { return types.StringValue(id.String()) }

// toTextValue returns a text of the engine as an attribute. The engine has no null, so an empty text becomes null if
// the state has null.
func toTextValue(state types.String, seen string) types.String {
	if seen == "" && state.IsNull() {
		return state
	}

	return types.StringValue(seen)
}

// keepIfAbsent returns the seen value, or the value in the state if the answer lacks it. If a change of the attribute
// replaces the object, an incomplete answer must not clear the attribute.
func keepIfAbsent[T attr.Value](state, seen T) T {
	if !isKnown(seen) && isKnown(state) {
		return state
	}

	return seen
}

// fillUnknown replaces an unknown planned value with the seen value.
func fillUnknown[T attr.Value](planned *T, seen T) {
	if (*planned).IsUnknown() {
		*planned = seen
	}
}
