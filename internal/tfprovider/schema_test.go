package tfprovider

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
)

// released is the schema of ovirt/ovirt 2.2.0, cut down to what configurations and states depend on: names, types, modes
// and nesting of blocks.
type released map[string]entry

type entry struct {
	Type      any      `json:"type,omitempty"`
	Mode      string   `json:"mode,omitempty"`
	Sensitive bool     `json:"sensitive,omitempty"`
	Nesting   string   `json:"nesting,omitempty"`
	Block     released `json:"block,omitempty"`
}

func entries(t *testing.T, block *tfprotov5.SchemaBlock) released {
	t.Helper()
	out := released{}
	for _, a := range block.Attributes {
		mode := "computed"
		if a.Required {
			mode = "required"
		} else if a.Optional {
			mode = "optional"
		}
		encoded, err := a.Type.MarshalJSON() //nolint:staticcheck // the only way to the wire form
		if err != nil {
			t.Fatal(err)
		}
		var kind any
		if err := json.Unmarshal(encoded, &kind); err != nil {
			t.Fatal(err)
		}
		out[a.Name] = entry{Type: kind, Mode: mode, Sensitive: a.Sensitive}
	}
	for _, b := range block.BlockTypes {
		nesting := map[tfprotov5.SchemaNestedBlockNestingMode]string{
			tfprotov5.SchemaNestedBlockNestingModeList: "list", tfprotov5.SchemaNestedBlockNestingModeSet: "set",
		}[b.Nesting]
		out[b.TypeName] = entry{Nesting: nesting, Block: entries(t, b.Block)}
	}
	return out
}

func TestTheSchemaIsThatOfTheReleasedProvider(t *testing.T) {
	content, err := os.ReadFile("testdata/released-2.2.0.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]released
	if err := json.Unmarshal(content, &want); err != nil {
		t.Fatal(err)
	}
	server := providerserver.NewProtocol5(New(Options{}))()
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov5.GetProviderSchemaRequest{})
	if err != nil || len(schemas.Diagnostics) > 0 {
		t.Fatalf("%v, %v", err, schemas.Diagnostics)
	}
	got := map[string]released{"provider": entries(t, schemas.Provider.Block)}
	for name, schema := range schemas.ResourceSchemas {
		got[name] = entries(t, schema.Block)
	}
	compare(t, "", toEntries(want), toEntries(got))
}

func toEntries(sets map[string]released) released {
	out := released{}
	for name, set := range sets {
		out[name] = entry{Block: set}
	}
	return out
}

func compare(t *testing.T, path string, want, got released) {
	t.Helper()
	for name, w := range want {
		g, ok := got[name]
		switch {
		case !ok:
			t.Errorf("%s%s is missing", path, name)
		case w.Block != nil:
			if w.Nesting != g.Nesting {
				t.Errorf("%s%s is a %s, want %s", path, name, g.Nesting, w.Nesting)
			}
			compare(t, path+name+".", w.Block, g.Block)
		case !reflect.DeepEqual(w, g):
			t.Errorf("%s%s is %+v, want %+v", path, name, g, w)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s%s is not in the released provider", path, name)
		}
	}
}
