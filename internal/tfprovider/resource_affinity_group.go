package tfprovider

import (
	"context"
	"fmt"
	"math"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/float64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure      = (*affinityGroupResource)(nil)
	_ resource.ResourceWithImportState    = (*affinityGroupResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*affinityGroupResource)(nil)
	_ resource.ResourceWithValidateConfig = (*affinityGroupResource)(nil)
)

func newAffinityGroupResource() resource.Resource {
	return &affinityGroupResource{base{typeName: "ovirt_affinity_group"}}
}

type affinityGroupResource struct{ base }

func (r *affinityGroupResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	rule := func(description string) schema.SetNestedBlock {
		return schema.SetNestedBlock{
			MarkdownDescription: description + " The rule is disabled if the block is omitted.",
			Validators:          []validator.Set{setvalidator.SizeAtMost(1)},
			NestedObject: schema.NestedBlockObject{Attributes: map[string]schema.Attribute{
				"affinity": schema.StringAttribute{
					Optional:   true,
					Computed:   true,
					Validators: []validator.String{stringvalidator.OneOf("positive", "negative")},
					MarkdownDescription: "Whether to keep members together (`positive`) or apart (`negative`). " +
						"Defaults to `negative`."},
				"enforcing": schema.BoolAttribute{
					Optional: true,
					Computed: true,
					MarkdownDescription: "Whether to prevent the start of a VM that would violate the rule. Defaults " +
						"to `false`.",
				},
			}},
		}
	}
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "An affinity group of a cluster. Changes are applied in place, and the group keeps its " +
			"members.",
		Attributes: map[string]schema.Attribute{
			"id":         computedText("UUID of the affinity group."),
			"cluster_id": ownerID("UUID of the cluster."),
			"name": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "Name of the group. Must be unique on the engine.",
				Validators:          []validator.String{groupName},
			},
			"description": schema.StringAttribute{Optional: true, MarkdownDescription: "Description of the group."},
			"enforcing": schema.BoolAttribute{
				Optional: true,
				Computed: true,
				Default:  booldefault.StaticBool(false),
				MarkdownDescription: "Whether to prevent the start of a VM that would violate the rule for VMs. " +
					"Defaults to `false`. This is the same setting on the engine as `enforcing` of `vms_rule`.",
			},
			"priority": schema.Float64Attribute{
				Optional: true,
				Computed: true,
				MarkdownDescription: "Priority of the group, which determines the order of evaluation. At most seven " +
					"decimal places.",
				Validators: []validator.Float64{
					sevenDecimals{"must have at most seven decimals, which the engine keeps"},
				},
				PlanModifiers: []planmodifier.Float64{float64planmodifier.UseStateForUnknown()}},
		},
		Blocks: map[string]schema.Block{
			"hosts_rule": rule("Rule between VMs and hosts."),
			"vms_rule":   rule("Rule between VMs."),
		},
	})
}

type affinityGroupModel struct {
	timed

	ID          types.String        `tfsdk:"id"`
	ClusterID   types.String        `tfsdk:"cluster_id"`
	Name        types.String        `tfsdk:"name"`
	Description types.String        `tfsdk:"description"`
	Enforcing   types.Bool          `tfsdk:"enforcing"`
	Priority    types.Float64       `tfsdk:"priority"`
	HostsRule   []affinityRuleModel `tfsdk:"hosts_rule"`
	VMsRule     []affinityRuleModel `tfsdk:"vms_rule"`
}

type affinityRuleModel struct {
	Affinity  types.String `tfsdk:"affinity"`
	Enforcing types.Bool   `tfsdk:"enforcing"`
}

func (m *affinityRuleModel) toEngine() *engine.AffinityRule {
	return &engine.AffinityRule{
		Enabled:   true,
		Enforcing: m.Enforcing.ValueBool(),
		Positive:  m.Affinity.ValueString() == "positive",
	}
}

func ruleToEngine(rules []affinityRuleModel) *engine.AffinityRule {
	if len(rules) == 0 {
		return &engine.AffinityRule{}
	}

	return rules[0].toEngine()
}

func ruleFromEngine(rule *engine.AffinityRule) []affinityRuleModel {
	if rule == nil || !rule.Enabled {
		return nil
	}

	affinity := "negative"
	if rule.Positive {
		affinity = "positive"
	}

	return []affinityRuleModel{{Affinity: types.StringValue(affinity), Enforcing: types.BoolValue(rule.Enforcing)}}
}

func (m *affinityGroupModel) toEngine() *engine.AffinityGroup {
	group := &engine.AffinityGroup{
		Name:      m.Name.ValueString(),
		Enforcing: m.Enforcing.ValueBoolPointer(),
		Priority:  m.Priority.ValueFloat64Pointer(),
		HostsRule: ruleToEngine(m.HostsRule), VMsRule: ruleToEngine(m.VMsRule),
	}
	if m.Priority.IsUnknown() {
		group.Priority = nil
	}

	description := m.Description.ValueString()
	group.Description = &description
	if len(m.VMsRule) == 0 && m.Enforcing.ValueBool() {
		group.VMsRule = nil // with a disabled rule, the engine would turn enforcing off
	}

	return group
}

func (m *affinityGroupModel) setFromEngine(group *engine.AffinityGroup) {
	m.ID = toIDValue(group.ID)
	m.Name = types.StringValue(group.Name)
	m.Description = toTextValue(m.Description, group.DescriptionText())
	m.Enforcing = types.BoolValue(group.Enforcing != nil && *group.Enforcing)
	m.Priority = types.Float64PointerValue(group.Priority)
	m.HostsRule, m.VMsRule = ruleFromEngine(group.HostsRule), ruleFromEngine(group.VMsRule)
}

// ValidateConfig rejects a configuration with two settings that the engine stores in the same place.
func (r *affinityGroupResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var enforcing types.Bool
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("enforcing"), &enforcing)...)
	rules, known := loadBlock[affinityRuleModel](ctx, req.Config, "vms_rule", &resp.Diagnostics)
	if !known || len(rules) != 1 || enforcing.IsUnknown() || enforcing.IsNull() {
		return
	}

	if rule := rules[0].Enforcing; !rule.IsUnknown() && !rule.IsNull() && !rule.Equal(enforcing) {
		resp.Diagnostics.AddAttributeError(path.Root("enforcing"), "enforcing contradicts vms_rule",
			"The engine keeps both in one place: leave enforcing out, or give both the same value.")
	}
}

// ModifyPlan fills in the defaults of the rules. If enforcing is omitted, it follows the rule for VMs. The framework
// cannot do this inside a set, because only their values identify the elements of a set.
func (r *affinityGroupResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.Plan.Raw.IsNull() {
		return
	}

	var enforcing types.Bool
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("enforcing"), &enforcing)...)

	for _, name := range []string{"hosts_rule", "vms_rule"} {
		rules, known := loadBlock[affinityRuleModel](ctx, req.Config, name, &resp.Diagnostics)
		if !known && name == "vms_rule" && enforcing.IsNull() {
			resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("enforcing"), types.BoolUnknown())...)
		}

		if !known || len(rules) != 1 {
			continue
		}

		rule := &rules[0]
		if rule.Affinity.IsNull() {
			rule.Affinity = types.StringValue("negative")
		}

		if rule.Enforcing.IsNull() {
			rule.Enforcing = types.BoolValue(false)
			if name == "vms_rule" && !enforcing.IsNull() {
				rule.Enforcing = enforcing
			}
		}

		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), rules)...)
		if name == "vms_rule" && enforcing.IsNull() {
			resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("enforcing"), rule.Enforcing)...)
		}
	}
}

func (r *affinityGroupResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[affinityGroupModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	cluster, name := toID(model.ClusterID), model.Name.ValueString()
	group, err := named[engine.AffinityGroup]{
		kind: "affinity group", name: name,
		create: func(ctx context.Context) (*engine.AffinityGroup, error) {
			return r.client.CreateAffinityGroup(ctx, cluster, model.toEngine())
		},
		list: func(ctx context.Context) ([]engine.AffinityGroup, error) {
			return r.client.ListAffinityGroupsNamed(ctx, name)
		},
		remove: func(ctx context.Context, group *engine.AffinityGroup) error {
			return r.client.DeleteAffinityGroup(ctx, cluster, group.ID)
		},
		id: func(group *engine.AffinityGroup) string { return group.ID.String() },
	}.createUnique(ctx)
	if err != nil {
		r.keepUnanswered(ctx, err, req.Plan, resp)
		resp.Diagnostics.AddError("The affinity group was not created", err.Error())
		return
	}

	model.ID = toIDValue(group.ID)
	fillUnknown(&model.Priority, types.Float64PointerValue(group.Priority))
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *affinityGroupResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[affinityGroupModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	group, err := r.client.FetchAffinityGroup(ctx, toID(model.ClusterID), toID(model.ID))
	if handleReadError(ctx, err, "The affinity group", resp) {
		return
	}

	model.setFromEngine(group)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *affinityGroupResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if handleTimeoutsOnly(req, resp) {
		return
	}

	ctx, cancel := withPlannedTimeout(ctx, req.Plan, updating)
	defer cancel()

	model, ok := loadModel[affinityGroupModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	id := toID(model.ID)
	unlock, err := groupLocks.lockKey(ctx, id.String())
	if err != nil {
		resp.Diagnostics.AddError("The affinity group was not updated", err.Error())
		return
	}
	defer unlock()
	err = pollEngine(
		ctx,
		"affinity group "+id.String()+" to be updated",
		func(ctx context.Context) (bool, string, error) {
			group, err := r.client.UpdateAffinityGroup(ctx, toID(model.ClusterID), id, model.toEngine())
			if err == nil {
				fillUnknown(&model.Priority, types.Float64PointerValue(group.Priority))
			}

			return err == nil, "", err
		},
	)
	if err != nil {
		resp.Diagnostics.AddError("The affinity group was not updated", err.Error())
		return
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *affinityGroupResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[affinityGroupModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	removeAndWait(ctx, "affinity group "+model.ID.ValueString(), &resp.Diagnostics, func(ctx context.Context) error {
		return r.client.DeleteAffinityGroup(ctx, toID(model.ClusterID), toID(model.ID))
	})
}

// ImportState takes CLUSTER-UUID/GROUP-UUID.
func (r *affinityGroupResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "cluster_id", "id")
}

// sevenDecimals accepts only numbers that the engine stores unchanged.
type sevenDecimals struct{ ruleText }

func (v sevenDecimals) ValidateFloat64(
	_ context.Context, req validator.Float64Request, resp *validator.Float64Response,
) {
	if !isKnown(req.ConfigValue) {
		return
	}

	value := req.ConfigValue.ValueFloat64()
	if math.Round(value*1e7)/1e7 != value {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid number",
			fmt.Sprintf("%s %s; it is %v.", req.Path, v.ruleText, value))
	}
}
