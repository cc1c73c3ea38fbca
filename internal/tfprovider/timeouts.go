package tfprovider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// timeoutsBlock is the block of all resources that says how long their operations may take.
const timeoutsBlock = "timeouts"

// The operations that can have a time-out.
const (
	creating = "create"
	reading  = "read"
	updating = "update"
	deleting = "delete"
)

// timed are the time-outs in the model of a resource.
type timed struct {
	Timeouts types.Object `tfsdk:"timeouts"`
}

// timeouts is the schema of the block.
func timeouts() schema.Block {
	limit := func(operation string) schema.StringAttribute {
		return schema.StringAttribute{
			Optional: true,
			MarkdownDescription: fmt.Sprintf("How long the %s may take, such as `30m` or `1h30m`; `%s` by default.",
				operation, shortDuration(engine.WaitLimit)),
			Validators: []validator.String{isDuration},
		}
	}

	return schema.SingleNestedBlock{
		MarkdownDescription: "Time-outs of operations.",
		Attributes: map[string]schema.Attribute{
			creating: limit("creation"), updating: limit("update"), deleting: limit("destruction"),
		},
	}
}

// shortDuration is a duration of whole minutes.
func shortDuration(d time.Duration) string { return fmt.Sprintf("%dm", int(d.Minutes())) }

var isDuration = durationValidator{"must be a time such as 30m or 1h30m, and more than 0"}

// durationValidator accepts times as Go writes them.
type durationValidator struct{ ruleText }

func (v durationValidator) ValidateString(
	_ context.Context, req validator.StringRequest, resp *validator.StringResponse,
) {
	if !isKnown(req.ConfigValue) {
		return
	}

	if limit, err := time.ParseDuration(req.ConfigValue.ValueString()); err != nil || limit <= 0 {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid time-out",
			fmt.Sprintf("%s %s; it is %q.", req.Path, v.ruleText, req.ConfigValue.ValueString()))
	}
}

// within bounds an operation by the time-out that a plan, a state or a configuration has for it. Without one, each wait
// has the usual limit.
func within(ctx context.Context, source attributeReader, operation string) (context.Context, context.CancelFunc) {
	var text types.String

	_ = source.GetAttribute(ctx, path.Root(timeoutsBlock).AtName(operation), &text) // the schema has it

	return limited(ctx, text.ValueString())
}

// limited bounds an operation by a time-out; a text that is none bounds nothing.
func limited(ctx context.Context, text string) (context.Context, context.CancelFunc) {
	if limit, err := time.ParseDuration(text); err == nil && limit > 0 {
		return engine.WithWaitLimit(ctx, limit)
	}

	return context.WithCancel(ctx)
}

// onlyTimeouts handles an update of the time-outs and nothing else, and reports whether it is one: it is none of the
// engine's business, and what the engine has may be out of sight by now, such as user data that it has forgotten.
func onlyTimeouts(req resource.UpdateRequest, resp *resource.UpdateResponse) bool {
	var before, after map[string]tftypes.Value
	if req.State.Raw.As(&before) != nil || req.Plan.Raw.As(&after) != nil {
		return false
	}

	for name, value := range after {
		if name != timeoutsBlock && !value.Equal(before[name]) {
			return false
		}
	}

	resp.State.Raw = req.Plan.Raw

	return true
}
