package tfprovider

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfchange"
)

// schemasByType returns the schemas of all resources.
func schemasByType(t *testing.T) map[string]schema.Schema {
	t.Helper()
	out := map[string]schema.Schema{}

	for _, make := range (&ovirtProvider{}).Resources(t.Context()) {
		var name resource.MetadataResponse
		var made resource.SchemaResponse
		r := make()
		r.Metadata(t.Context(), resource.MetadataRequest{}, &name)
		r.Schema(t.Context(), resource.SchemaRequest{}, &made)
		out[name.TypeName] = made.Schema
	}

	return out
}

// TestTheTableOfChangesHasEachAttributeAndTheSchemaFollowsIt covers all configurable attributes. The tables omit
// attributes that only the engine sets.
func TestTheTableOfChangesHasEachAttributeAndTheSchemaFollowsIt(t *testing.T) {
	t.Parallel()

	for typeName, s := range schemasByType(t) {
		known := tfchange.Attributes(typeName)
		var settable []string

		for name, attribute := range s.Attributes {
			if name == "id" || !attribute.IsRequired() && !attribute.IsOptional() {
				continue
			}

			settable = append(settable, name)
			change, ok := known[name]
			check.Equal(t, typeName+"."+name+" is in the table", ok, true)
			if replaces(t.Context(), attribute) {
				check.Equal(t, typeName+"."+name, change.Effect, tfchange.Replacement)
			}

			if change.Effect != tfchange.Local && change.Proof == "" {
				t.Errorf("%s.%s has no proof", typeName, name)
			}
		}

		for name := range s.Blocks {
			if name != timeoutsBlock {
				settable = append(settable, name)
			}
		}

		for name := range known {
			check.Equal(t, typeName+"."+name+" is an attribute", slices.Contains(settable, name), true)
		}

		check.Equal(t, typeName+" has timeouts", s.Blocks[timeoutsBlock] != nil, true)
	}
}

// replaces reports whether a plan modifier of an attribute can replace the object.
func replaces(ctx context.Context, attribute schema.Attribute) bool {
	var descriptions []string

	switch a := attribute.(type) {
	case schema.StringAttribute:
		for _, m := range a.PlanModifiers {
			descriptions = append(descriptions, m.Description(ctx))
		}
	case schema.Int64Attribute:
		for _, m := range a.PlanModifiers {
			descriptions = append(descriptions, m.Description(ctx))
		}
	case schema.BoolAttribute:
		for _, m := range a.PlanModifiers {
			descriptions = append(descriptions, m.Description(ctx))
		}
	case schema.ListAttribute:
		for _, m := range a.PlanModifiers {
			descriptions = append(descriptions, m.Description(ctx))
		}
	case schema.MapAttribute:
		for _, m := range a.PlanModifiers {
			descriptions = append(descriptions, m.Description(ctx))
		}
	case schema.SetAttribute:
		for _, m := range a.PlanModifiers {
			descriptions = append(descriptions, m.Description(ctx))
		}
	}

	return strings.Contains(strings.Join(descriptions, " "), "destroy and recreate")
}

// TestTheDocumentHasTheTableOfChanges looks for the exact table in the document.
func TestTheDocumentHasTheTableOfChanges(t *testing.T) {
	t.Parallel()
	const path = "../../docs/develop/terraform-provider.md"
	content, err := os.ReadFile(path)
	check.Error(t, err, "")
	check.Contains(t, path, string(content), tableOfChanges(t))
}

// tableOfChanges returns the table as the document has it.
func tableOfChanges(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	out.WriteString("| resource | attribute | a change is | shown by |\n|---|---|---|---|\n")

	all := schemasByType(t)
	for _, typeName := range sortedKeys(all) {
		known := tfchange.Attributes(typeName)
		for _, name := range sortedKeys(known) {
			effect := string(known[name].Effect)
			if known[name].Loses != "" {
				effect += ", loses " + known[name].Loses
			}

			fmt.Fprintf(&out, "| `%s` | `%s` | %s | %s |\n", typeName, name, effect, known[name].Proof)
		}
	}

	return out.String()
}

func sortedKeys[T any](m map[string]T) []string {
	var out []string
	for key := range m {
		out = append(out, key)
	}

	slices.Sort(out)

	return out
}
