package tfprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// sendable rejects a configuration with a text that would reach the engine changed. It checks the values, not the
// schema, so it covers every attribute.
type sendable struct{}

var (
	_ resource.ConfigValidator   = sendable{}
	_ datasource.ConfigValidator = sendable{}
)

// Description implements both kinds of validators.
func (sendable) Description(context.Context) string {
	return "texts have only characters that XML can carry"
}

// MarkdownDescription implements the validators.
func (s sendable) MarkdownDescription(ctx context.Context) string { return s.Description(ctx) }

// ValidateResource implements resource.ConfigValidator.
func (sendable) ValidateResource(
	_ context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	checkSendable(req.Config.Raw, &resp.Diagnostics)
}

// ValidateDataSource implements datasource.ConfigValidator.
func (sendable) ValidateDataSource(
	_ context.Context, req datasource.ValidateConfigRequest, resp *datasource.ValidateConfigResponse,
) {
	checkSendable(req.Config.Raw, &resp.Diagnostics)
}

// checkSendable checks all known texts of a configuration, including the keys of maps.
func checkSendable(config tftypes.Value, diags *diag.Diagnostics) {
	_ = tftypes.Walk(config, func(at *tftypes.AttributePath, value tftypes.Value) (bool, error) {
		where, name := toPath(at)

		if key, ok := at.LastStep().(tftypes.ElementKeyString); ok {
			refuseText(where, "", string(key), diags)
		}

		var text string
		if value.IsKnown() && !value.IsNull() && value.Type().Is(tftypes.String) && value.As(&text) == nil {
			refuseText(where, name, text, diags)
		}

		return true, nil
	})
}

// refuseText adds an error for a text that cannot be sent.
func refuseText(where path.Path, name, text string, diags *diag.Diagnostics) {
	if err := engine.CheckText(name, text); err != nil {
		diags.AddAttributeError(where, where.String()+" cannot be sent to the engine", err.Error())
	}
}

// toPath converts a path of the protocol into one of the framework. It stops at the first set, because the elements of
// a set have no names. It also returns the name of the attribute.
func toPath(at *tftypes.AttributePath) (where path.Path, name string) {
	where = path.Empty()
	inSet := false

	for _, step := range at.Steps() {
		if attribute, ok := step.(tftypes.AttributeName); ok {
			name = string(attribute)
		}

		switch step := step.(type) {
		case tftypes.ElementKeyValue:
			inSet = true
		case tftypes.AttributeName:
			if !inSet {
				where = where.AtName(string(step))
			}
		case tftypes.ElementKeyInt:
			if !inSet {
				where = where.AtListIndex(int(step))
			}
		case tftypes.ElementKeyString:
			if !inSet {
				where = where.AtMapKey(string(step))
			}
		}
	}

	return where, name
}
