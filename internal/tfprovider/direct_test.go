package tfprovider_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
)

// This file calls the provider as Terraform would, in the same order, but without Terraform's executable. So a test of
// one resource costs only milliseconds of processor time. The tests with the executable cover the behavior of Terraform
// itself.

// set holds the attributes and blocks of a resource: texts, flags, numbers, []string, map[string]string. One block is a
// set, and several blocks are a []set.
type set = map[string]any

// direct is a run of the provider.
type direct struct {
	client
	t    *testing.T
	site *site
	url  string
	ca   []byte
	// user runs the provider. nil is the administrator.
	user *ovirtsim.User
}

func newDirect(t *testing.T, s *site) *direct {
	t.Helper()
	d := &direct{t: t, site: s, url: s.sim.URL() + "/api", ca: s.sim.CA()}
	d.begin()

	return d
}

// begin begins another run, like each command of Terraform. The new provider remembers nothing of the previous run.
func (d *direct) begin() {
	d.t.Helper()
	server := providerserver.NewProtocol5(tfprovider.New(tfprovider.Options{}))()
	schemas, err := server.GetProviderSchema(d.t.Context(), &tfprotov5.GetProviderSchemaRequest{})
	must(d.t, err)
	d.client = client{server, schemas}

	block := map[string]any{
		"url": d.url, "username": d.site.sim.Username(), "password": d.site.sim.Password(), "tls_ca_bundle": string(d.ca),
	}
	if d.user != nil {
		block["username"], block["password"], block["filter"] = d.user.Name, d.user.Password, true
	}

	got, err := server.ConfigureProvider(d.t.Context(), &tfprotov5.ConfigureProviderRequest{
		Config: d.config(d.t, schemas.Provider, block),
	})
	must(d.t, err)
	check.Length(d.t, "the problems", got.Diagnostics, 0)
}

// blockValue returns a value for a block of a schema.
func blockValue(block *tfprotov5.SchemaBlock, of set) tftypes.Value {
	values := map[string]tftypes.Value{}
	for _, attribute := range block.Attributes {
		values[attribute.Name] = plainValue(attribute.ValueType(), of[attribute.Name])
	}

	for _, nested := range block.BlockTypes {
		values[nested.TypeName] = nestedValue(nested, of[nested.TypeName])
	}

	return tftypes.NewValue(block.ValueType(), values)
}

func nestedValue(nested *tfprotov5.SchemaNestedBlock, given any) tftypes.Value {
	kind := nested.ValueType()
	if given == any(tftypes.UnknownValue) {
		return tftypes.NewValue(kind, given)
	}

	one, isOne := given.(set)

	if !kind.Is(tftypes.Set{}) && !kind.Is(tftypes.List{}) {
		if !isOne {
			return tftypes.NewValue(kind, nil)
		}

		return blockValue(nested.Block, one)
	}

	several, _ := given.([]set)
	if isOne {
		several = []set{one}
	}

	items := []tftypes.Value{}
	for _, item := range several {
		items = append(items, blockValue(nested.Block, item))
	}

	return tftypes.NewValue(kind, items)
}

func plainValue(kind tftypes.Type, given any) tftypes.Value {
	switch v := given.(type) {
	case []string:
		items := []tftypes.Value{}
		for _, text := range v {
			items = append(items, tftypes.NewValue(tftypes.String, text))
		}

		return tftypes.NewValue(kind, items)
	case map[string]string:
		items := map[string]tftypes.Value{}
		for name, text := range v {
			items[name] = tftypes.NewValue(tftypes.String, text)
		}

		return tftypes.NewValue(kind, items)
	default:
		return tftypes.NewValue(kind, given)
	}
}

// managed is a resource and its state.
type managed struct {
	d         *direct
	typeName  string
	state     tftypes.Value
	private   []byte
	identity  *tfprotov5.ResourceIdentityData
	isTainted bool
}

// resource returns a resource that has no state yet.
func (d *direct) resource(typeName string) *managed {
	d.t.Helper()
	m := &managed{d: d, typeName: typeName}
	m.state = m.null()

	return m
}

func (m *managed) schema() *tfprotov5.Schema {
	out := m.d.schemas.ResourceSchemas[m.typeName]
	if out == nil {
		m.d.t.Fatalf("there is no resource %s", m.typeName)
	}

	return out
}

func (m *managed) null() tftypes.Value { return tftypes.NewValue(m.schema().ValueType(), nil) }

func (m *managed) packed(value tftypes.Value) *tfprotov5.DynamicValue {
	m.d.t.Helper()
	out, err := tfprotov5.NewDynamicValue(m.schema().ValueType(), value)
	must(m.d.t, err)

	return &out
}

func (m *managed) unpacked(value *tfprotov5.DynamicValue) tftypes.Value {
	m.d.t.Helper()
	out, err := value.Unmarshal(m.schema().ValueType())
	must(m.d.t, err)

	return out
}

// attributes returns the attributes of a value, or nil if it is null.
func attributes(value tftypes.Value) map[string]tftypes.Value {
	var out map[string]tftypes.Value
	if value.IsNull() || value.As(&out) != nil {
		return nil
	}

	return out
}

// text returns a text in the state, or "" if it is null.
func (m *managed) text(name string) string {
	var text *string
	if value, ok := attributes(m.state)[name]; ok && value.As(&text) == nil && text != nil {
		return *text
	}

	return ""
}

// proposed returns the values Terraform proposes for a configuration. Values that only the provider knows stay
// unchanged.
func (m *managed) proposed(config, prior tftypes.Value) tftypes.Value {
	out, before := attributes(config), attributes(prior)

	for _, attribute := range m.schema().Block.Attributes {
		name := attribute.Name

		switch {
		case attribute.WriteOnly:
			out[name] = tftypes.NewValue(attribute.ValueType(), nil)
		case attribute.Computed && out[name].IsNull() && before != nil:
			out[name] = before[name]
		}
	}

	return tftypes.NewValue(m.schema().ValueType(), out)
}

// planned is the result of a plan.
type planned struct {
	action   string // no-op, create, update or replace
	changed  []string
	state    tftypes.Value
	private  []byte
	identity *tfprotov5.ResourceIdentityData
}

// problems returns the errors among diagnostics.
func problems(all []*tfprotov5.Diagnostic) []string {
	var out []string

	for _, one := range all {
		if one.Severity == tfprotov5.DiagnosticSeverityError {
			out = append(out, one.Summary+": "+one.Detail)
		}
	}

	return out
}

// plan plans a configuration. For a tainted resource, it plans a replacement.
func (m *managed) plan(of set) planned {
	m.d.t.Helper()
	config := blockValue(m.schema().Block, of)

	valid, err := m.d.ValidateResourceTypeConfig(m.d.t.Context(), &tfprotov5.ValidateResourceTypeConfigRequest{
		TypeName: m.typeName, Config: m.packed(config),
		ClientCapabilities: &tfprotov5.ValidateResourceTypeConfigClientCapabilities{WriteOnlyAttributesAllowed: true},
	})
	must(m.d.t, err)
	check.Length(m.d.t, "the problems of the configuration", problems(valid.Diagnostics), 0)

	if !m.state.IsNull() && !m.isTainted {
		if out, isReplaced := m.planFrom(config, m.state, m.private); !isReplaced {
			return out
		}
	}

	out, _ := m.planFrom(config, m.null(), nil)
	if out.action = "create"; !m.state.IsNull() {
		out.action = "replace"
	}

	return out
}

func (m *managed) planFrom(config, prior tftypes.Value, private []byte) (out planned, isReplaced bool) {
	m.d.t.Helper()
	request := &tfprotov5.PlanResourceChangeRequest{
		TypeName: m.typeName, PriorState: m.packed(prior), ProposedNewState: m.packed(m.proposed(config, prior)),
		Config: m.packed(config), PriorPrivate: private,
	}
	if !prior.IsNull() {
		request.PriorIdentity = m.identity
	}

	got, err := m.d.PlanResourceChange(m.d.t.Context(), request)
	must(m.d.t, err)
	check.Length(m.d.t, "the problems of the plan", problems(got.Diagnostics), 0)

	out = planned{
		action: "update", state: m.unpacked(got.PlannedState), private: got.PlannedPrivate, identity: got.PlannedIdentity,
	}

	before := attributes(prior)
	for name, value := range attributes(out.state) {
		if !value.Equal(before[name]) {
			out.changed = append(out.changed, name)
		}
	}

	slices.Sort(out.changed)

	if len(out.changed) == 0 {
		out.action = "no-op"
	}

	for _, at := range got.RequiresReplace {
		name, _, _ := strings.Cut(strings.TrimPrefix(at.String(), `AttributeName("`), `"`)
		isReplaced = isReplaced || slices.Contains(out.changed, name)
	}

	return out, isReplaced
}

// refresh reads the object, and returns the problems.
func (m *managed) refresh() []string {
	m.d.t.Helper()
	if m.state.IsNull() {
		return nil
	}

	got, err := m.d.ReadResource(m.d.t.Context(), &tfprotov5.ReadResourceRequest{
		TypeName: m.typeName, CurrentState: m.packed(m.state), Private: m.private, CurrentIdentity: m.identity,
	})
	must(m.d.t, err)

	if wrong := problems(got.Diagnostics); len(wrong) > 0 {
		return wrong
	}

	m.state, m.private, m.identity = m.unpacked(got.NewState), got.Private, got.NewIdentity
	m.isTainted = m.isTainted && !m.state.IsNull()

	return nil
}

// imports imports an object by its ID, and returns the problems.
func (m *managed) imports(id string) []string {
	m.d.t.Helper()
	got, err := m.d.ImportResourceState(m.d.t.Context(), &tfprotov5.ImportResourceStateRequest{
		TypeName: m.typeName, ID: id,
	})
	must(m.d.t, err)

	if wrong := problems(got.Diagnostics); len(wrong) > 0 {
		return wrong
	}

	m.state = m.unpacked(got.ImportedResources[0].State)
	m.private, m.identity = got.ImportedResources[0].Private, got.ImportedResources[0].Identity

	return m.refresh()
}

// apply refreshes, plans and applies, and returns the problems.
func (m *managed) apply(of set) []string {
	m.d.t.Helper()
	if wrong := m.refresh(); len(wrong) > 0 {
		return wrong
	}

	plan := m.plan(of)
	if plan.action == "no-op" {
		return nil
	}

	if plan.action == "replace" {
		if wrong := m.remove(); len(wrong) > 0 {
			return wrong
		}
	}

	return m.change(plan.state, m.packed(blockValue(m.schema().Block, of)), plan.private, plan.identity)
}

// destroy refreshes and destroys the object, and returns the problems.
func (m *managed) destroy() []string {
	m.d.t.Helper()
	if wrong := m.refresh(); len(wrong) > 0 {
		return wrong
	}

	return m.remove()
}

func (m *managed) remove() []string {
	m.d.t.Helper()
	if m.state.IsNull() {
		return nil
	}

	return m.change(m.null(), m.packed(m.null()), m.private, m.identity)
}

func (m *managed) change(
	to tftypes.Value, config *tfprotov5.DynamicValue, private []byte, identity *tfprotov5.ResourceIdentityData,
) []string {
	m.d.t.Helper()
	isNew := m.state.IsNull()
	got, err := m.d.ApplyResourceChange(m.d.t.Context(), &tfprotov5.ApplyResourceChangeRequest{
		TypeName: m.typeName, PriorState: m.packed(m.state), PlannedState: m.packed(to), Config: config,
		PlannedPrivate: private, PlannedIdentity: identity,
	})
	must(m.d.t, err)

	wrong := problems(got.Diagnostics)
	m.state, m.private, m.identity = m.unpacked(got.NewState), got.Private, got.NewIdentity

	if len(wrong) == 0 {
		check.Equal(m.d.t, "all of the state of "+m.typeName+" is known", m.state.IsFullyKnown(), true)
	}

	m.state, err = tftypes.Transform(m.state, func(_ *tftypes.AttributePath, v tftypes.Value) (tftypes.Value, error) {
		if !v.IsKnown() {
			return tftypes.NewValue(v.Type(), nil), nil // as Terraform does after an error
		}

		return v, nil
	})
	must(m.d.t, err)

	m.isTainted = !m.state.IsNull() && (m.isTainted || isNew && len(wrong) > 0)

	return wrong
}

// make applies without problems, and returns the resource.
func (d *direct) make(typeName string, of set) *managed {
	d.t.Helper()
	m := d.resource(typeName)
	check.Equal(d.t, "the problems of "+typeName, strings.Join(m.apply(of), "\n"), "")

	return m
}

// settled fails the test if a refresh or a plan shows a change.
func (m *managed) settled(of set) {
	m.d.t.Helper()
	check.Equal(m.d.t, "the problems of the refresh", strings.Join(m.refresh(), "\n"), "")
	plan := m.plan(of)
	check.Equal(m.d.t, "the plan of "+m.typeName+" for "+strings.Join(plan.changed, ", "), plan.action, "no-op")
}

// with returns a copy of a set with some attributes changed.
func with(of, changes set) set {
	out := maps.Clone(of)
	maps.Copy(out, changes)

	return out
}

func (d *direct) vm(name string, more set) string {
	d.t.Helper()

	return d.make("ovirt_vm", with(set{
		"name": name, "cluster_id": d.site.ids["$cluster"], "template_id": d.site.ids["$template"],
	}, more)).text("id")
}

func (d *direct) disk(alias string) string {
	d.t.Helper()

	return d.make("ovirt_disk", set{
		"alias": alias, "format": "raw", "size": gib, "storage_domain_id": d.site.ids["$storage"],
	}).text("id")
}

// pinned returns the attributes of a VM pinned to a host.
func (d *direct) pinned() set {
	d.t.Helper()
	hosts, err := d.site.client.ListHosts(d.t.Context())
	must(d.t, err)

	return set{"placement_policy_affinity": "pinned", "placement_policy_host_ids": []string{hosts[0].ID.String()}}
}
