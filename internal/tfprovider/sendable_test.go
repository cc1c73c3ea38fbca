package tfprovider

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// escape is a text that XML cannot represent.
const escape = "ab\x1b[32m"

// badValue returns a value of a type with escape in every text. It returns false for a type without texts.
func badValue(of tftypes.Type) (tftypes.Value, bool) {
	switch of := of.(type) {
	case tftypes.List:
		inner, ok := badValue(of.ElementType)
		return tftypes.NewValue(of, []tftypes.Value{inner}), ok
	case tftypes.Set:
		inner, ok := badValue(of.ElementType)
		return tftypes.NewValue(of, []tftypes.Value{inner}), ok
	case tftypes.Map:
		inner, ok := badValue(of.ElementType)
		return tftypes.NewValue(of, map[string]tftypes.Value{"key": inner}), ok
	case tftypes.Object:
		values, found := map[string]tftypes.Value{}, false

		for name, kind := range of.AttributeTypes {
			inner, ok := badValue(kind)
			values[name], found = inner, found || ok
		}

		return tftypes.NewValue(of, values), found
	}

	if of.Is(tftypes.String) {
		return tftypes.NewValue(of, escape), true
	}

	return tftypes.NewValue(of, nil), false
}

// withOne returns a configuration with a value for one attribute or block. All others are null.
func withOne(t *testing.T, of tftypes.Object, name string, value tftypes.Value) *tfprotov5.DynamicValue {
	t.Helper()

	values := map[string]tftypes.Value{}

	for other, kind := range of.AttributeTypes {
		values[other] = tftypes.NewValue(kind, nil)
	}

	values[name] = value
	out, err := tfprotov5.NewDynamicValue(of, tftypes.NewValue(of, values))
	check.Error(t, err, "")

	return &out
}

// refusals returns the errors about characters in an attribute that cannot be sent.
func refusals(diagnostics []*tfprotov5.Diagnostic, name string) (out []string) {
	for _, d := range diagnostics {
		if strings.Contains(d.Summary, "cannot be sent to the engine") && d.Attribute != nil &&
			slices.Equal(d.Attribute.Steps()[:1], []tftypes.AttributePathStep{tftypes.AttributeName(name)}) {
			out = append(out, d.Detail)
		}
	}

	return out
}

// TestNoAttributeTakesWhatXMLCannotCarry walks the whole schema. It expects an error for each attribute and block with
// a text, at any depth, before any plan. The error must have the attribute's name, the position and the character.
func TestNoAttributeTakesWhatXMLCannotCarry(t *testing.T) {
	server := providerserver.NewProtocol5(New(Options{}))()
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov5.GetProviderSchemaRequest{})
	check.Error(t, err, "")

	validate := map[string]func(string, *tfprotov5.DynamicValue) []*tfprotov5.Diagnostic{
		"resource": func(kind string, config *tfprotov5.DynamicValue) []*tfprotov5.Diagnostic {
			resp, err := server.ValidateResourceTypeConfig(t.Context(),
				&tfprotov5.ValidateResourceTypeConfigRequest{TypeName: kind, Config: config})
			check.Error(t, err, "")

			return resp.Diagnostics
		},
		"data source": func(kind string, config *tfprotov5.DynamicValue) []*tfprotov5.Diagnostic {
			resp, err := server.ValidateDataSourceConfig(t.Context(),
				&tfprotov5.ValidateDataSourceConfigRequest{TypeName: kind, Config: config})
			check.Error(t, err, "")

			return resp.Diagnostics
		},
	}
	seen := 0

	for what, all := range map[string]map[string]*tfprotov5.Schema{
		"resource": schemas.ResourceSchemas, "data source": schemas.DataSourceSchemas,
	} {
		for kind, schema := range all {
			object, ok := schema.ValueType().(tftypes.Object)
			check.Equal(t, "a schema is an object", ok, true)

			for name, of := range object.AttributeTypes {
				bad, ok := badValue(of)
				if !ok {
					continue
				}

				seen++

				told := refusals(validate[what](kind, withOne(t, object, name, bad)), name)
				if len(told) == 0 {
					t.Errorf("%s %s.%s takes what XML cannot carry", what, kind, name)
					continue
				}

				check.Contains(t, kind+"."+name, strings.Join(told, "\n"), "character 3 of line 1 is U+001B (escape)")
			}
		}
	}

	if seen < 60 {
		t.Errorf("there are only %d attributes with a text", seen)
	}
}
