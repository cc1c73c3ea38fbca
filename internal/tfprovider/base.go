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

// base is what all resources have: a type name, and the provider's client once it is configured.
type base struct {
	*configured
	typeName string
}

func (b *base) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = b.typeName
}

func (b *base) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	b.configured = clientFrom(req.ProviderData, &resp.Diagnostics)
}

// ConfigValidators refuse in all resources what cannot be sent.
func (b *base) ConfigValidators(context.Context) []resource.ConfigValidator {
	return []resource.ConfigValidator{sendable{}}
}

// madeNow are the IDs of what the resources of a run have made or taken, in one walk of Terraform's: it configures the
// provider before each.
//
// With create_before_destroy, an object that is made anew may be the one that is to be destroyed after it, because the
// engine has one of it only: a tag of a VM, a disk in it, the adoption of it.
type madeNow struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (m *madeNow) add(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()

	if m.ids == nil {
		m.ids = map[string]bool{}
	}

	m.ids[id] = true
}

func (m *madeNow) has(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()

	return m.ids[id]
}

// keeps reports whether what is to be destroyed must stay, because the run has made it anew, and warns of it.
func (m *madeNow) keeps(id, what string, diags *diag.Diagnostics) bool {
	if !m.has(id) {
		return false
	}

	diags.AddWarning("The "+what+" was kept",
		"The resource that replaces this one has the same "+what+", "+id+": create_before_destroy made it before "+
			"this one was to be destroyed.")

	return true
}

// mayTake reports whether a create may take what is there already, because all of the VM is the owner's for which the
// manager runs: what an earlier run made whose end nobody saw.
func (b *base) mayTake(id string) bool { return b.owner != "" && !b.made.has(id) }

// refuseMember returns an error if what a resource is to add is there already, so that it is another resource's, or a
// person's. importID is how to import it.
func (b *base) refuseMember(
	ctx context.Context, what, importID string, isThere func(context.Context) (bool, error),
) error {
	if b.mayTake(importID) {
		return nil
	}

	return poll(ctx, what, func(ctx context.Context) (bool, string, error) {
		there, err := isThere(ctx)
		if err == nil && there {
			err = fmt.Errorf("%s is there already: import it with the ID %s", what, importID)
		}

		return err == nil, "", err
	})
}

// fixed is a resource of which every change makes another object.
type fixed struct{ base }

// Update is planned for the time-outs alone.
func (f *fixed) Update(_ context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if onlyTimeouts(req, resp) {
		return
	}

	resp.Diagnostics.AddError(f.typeName+" cannot be updated",
		"This is a bug in the provider: a change must replace it.")
}

// dataBase is what all data sources have.
type dataBase struct {
	*configured
	typeName string
}

func (b *dataBase) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = b.typeName
}

func (b *dataBase) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	b.configured = clientFrom(req.ProviderData, &resp.Diagnostics)
}

// ConfigValidators refuse in all data sources what cannot be sent.
func (b *dataBase) ConfigValidators(context.Context) []datasource.ConfigValidator {
	return []datasource.ConfigValidator{sendable{}}
}

// clientFrom reads the provider's data in a Configure; it is nil while Terraform validates.
func clientFrom(data any, diags *diag.Diagnostics) *configured {
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

// load reads a plan, a state or a configuration into its model; false where that failed.
func load[T any](ctx context.Context, source interface {
	Get(context.Context, any) diag.Diagnostics
}, diags *diag.Diagnostics) (*T, bool) {
	var model T
	diags.Append(source.Get(ctx, &model)...)
	return &model, !diags.HasError()
}

// block reads a block of a configuration or a state; false where it is not known yet, or that failed.
func block[T any](ctx context.Context, source interface {
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

// unread handles the error of a read and reports whether there was one: what is gone leaves the state, and is planned
// anew.
func unread(ctx context.Context, err error, what string, resp *resource.ReadResponse) bool {
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

// remove asks for something to be removed, also where it is locked for a while. What is gone is removed.
func remove(ctx context.Context, what string, diags *diag.Diagnostics, ask func(context.Context) error) {
	err := poll(ctx, what+" to be removed", func(ctx context.Context) (bool, string, error) {
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

// importParts splits an import ID into the attributes of that order.
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
		// The engine knows an ID in lower case only.
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(attribute), strings.ToLower(parts[i]))...)
	}
}

// idOf is the UUID that an attribute holds. A state may hold anything: the client sends what is none nowhere.
func idOf(attribute types.String) engine.ID { return engine.ID(attribute.ValueString()) }

// idValue is a UUID as an attribute.
func idValue(id engine.ID) types.String { return types.StringValue(id.String()) }

// textOf is a text of the engine, which has no null: an empty one stays null where the state has null.
func textOf(state types.String, seen string) types.String {
	if seen == "" && state.IsNull() {
		return state
	}

	return types.StringValue(seen)
}

// unlessAbsent returns what was seen, or, if the answer lacks it, what the state has. An attribute whose change
// replaces an object must not become empty because an answer is short.
func unlessAbsent[T attr.Value](state, seen T) T {
	if !isKnown(seen) && isKnown(state) {
		return state
	}

	return seen
}

// settle gives a planned value that is not known yet the value that was seen.
func settle[T attr.Value](planned *T, seen T) {
	if (*planned).IsUnknown() {
		*planned = seen
	}
}
