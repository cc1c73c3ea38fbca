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

// timeoutsBlock is the block that limits the duration of a resource's operations. Every resource has it.
const timeoutsBlock = "timeouts"

// These are the operations that can have a timeout.
const (
	creating = "create"
	reading  = "read"
	updating = "update"
	deleting = "delete"
)

// timed holds the timeouts in the model of a resource.
type timed struct {
	Timeouts types.Object `tfsdk:"timeouts"`
}

// buildTimeoutsBlock returns the schema of the block.
func buildTimeoutsBlock() schema.Block {
	limit := func(operation string) schema.StringAttribute {
		return schema.StringAttribute{
			Optional: true,
			MarkdownDescription: fmt.Sprintf("Maximum duration of the %s operation, such as `30m` or "+
				"`1h30m`. Defaults to `%s`.",
				operation, formatDuration(engine.WaitLimit)),
			Validators: []validator.String{isDuration},
		}
	}

	return schema.SingleNestedBlock{
		MarkdownDescription: "Timeouts of operations.",
		Attributes: map[string]schema.Attribute{
			creating: limit(creating), updating: limit(updating), deleting: limit(deleting),
		},
	}
}

// formatDuration formats a duration in whole minutes.
func formatDuration(d time.Duration) string { return fmt.Sprintf("%dm", int(d.Minutes())) }

var isDuration = durationValidator{"must be a time such as 30m or 1h30m, and more than 0"}

// durationValidator accepts durations in Go's syntax.
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

// withPlannedTimeout limits an operation by its timeout in a plan, a state or a configuration. Without a timeout, each
// wait has the usual limit.
func withPlannedTimeout(
	ctx context.Context, source attributeReader, operation string,
) (context.Context, context.CancelFunc) {
	var text types.String

	_ = source.GetAttribute(ctx, path.Root(timeoutsBlock).AtName(operation), &text) // the schema has it

	return withTimeout(ctx, text.ValueString())
}

// withTimeout limits an operation by a timeout. An invalid text sets no limit.
func withTimeout(ctx context.Context, text string) (context.Context, context.CancelFunc) {
	if limit, err := time.ParseDuration(text); err == nil && limit > 0 {
		return engine.WithWaitLimit(ctx, limit)
	}

	return context.WithCancel(ctx)
}

// handleTimeoutsOnly handles an update that changes only the timeouts, and reports whether the update is one. It sends
// no request, because the engine may no longer report some values, such as forgotten user data.
func handleTimeoutsOnly(req resource.UpdateRequest, resp *resource.UpdateResponse) bool {
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
