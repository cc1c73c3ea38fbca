package render

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// everyConfiguration returns one configuration of each kind. All texts in them are the same.
func everyConfiguration(t testing.TB, text string) map[string]Configuration {
	t.Helper()

	in := Engine{URL: "https://" + text, CA: "ca " + text, Username: text, Password: text}
	made := everyOption(text)
	made.Engine = in
	pooled, claimed, onSystemTrust := made, made, made
	pooled.Pooled, claimed.ClaimedVMID, onSystemTrust.Engine.CA = true, "v"+text, ""

	out := map[string]Configuration{}
	add := func(name string, configuration Configuration, err error) {
		check.Error(t, err, "")

		adopt := map[Address]string{}
		for _, address := range configuration.Resources {
			adopt[address] = text
		}

		out[name], out[name+", adopting"] = configuration, configuration.WithImports(adopt)
	}

	for name, machine := range map[string]Machine{
		"a machine": made, "a VM of a pool": pooled, "a claimed VM": claimed, "system trust": onSystemTrust,
	} {
		configuration, err := MachineConfiguration(machine)
		add(name, configuration, err)
	}

	cluster, err := ClusterConfiguration(Cluster{Engine: in, Groups: []AffinityGroup{
		{Key: "k" + text, Name: "n" + text, Description: text, ClusterID: "c" + text},
	}})
	add("a cluster", cluster, err)

	image, err := ImageConfiguration(Image{
		Engine: in, Name: "n" + text, Description: text, VMName: "v" + text, Comment: text, ClusterID: "c" + text,
		DiskID: "d" + text, OSType: text,
	})
	add("an image", image, err)

	destroy, err := DestroyConfiguration(in, OwnVM)
	add("a destruction", destroy, err)

	return out
}

// structures returns the structures of all configurations.
func structures(t testing.TB, text string) map[string]string {
	t.Helper()
	out := map[string]string{}

	for name, configuration := range everyConfiguration(t, text) {
		out[name] = fmt.Sprintf("%d resources\n%s", len(configuration.Resources), structure(t, configuration.Files))
	}

	return out
}

// sameStructure fails the test unless text changes only values. want has the structures with plain text.
func sameStructure(t *testing.T, text string, want map[string]string) {
	t.Helper()

	if text == "" {
		return // an empty text lets the engine decide
	}

	check.Equal(t, "structures", structures(t, text), want)

	for _, got := range everyConfiguration(t, text) {
		if cty.NormalizeString(text) == text && string([]rune(text)) == text {
			declares(t, got)
		}
	}
}

// structure returns everything in a configuration except the values of literals: blocks with their labels, attributes,
// the parts of expressions, and comments.
func structure(t testing.TB, files Files) string {
	t.Helper()
	var out strings.Builder

	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) != ".tf" {
			continue
		}

		fmt.Fprintln(&out, "file", name)
		structureOf(&out, parse(t, files[name]), "")

		tokens, diags := hclsyntax.LexConfig(files[name], name, hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatal(diags)
		}

		for _, token := range tokens {
			if token.Type == hclsyntax.TokenComment {
				fmt.Fprintf(&out, "comment %q\n", token.Bytes)
			}
		}
	}

	return out.String()
}

func structureOf(out *strings.Builder, body *hclsyntax.Body, indent string) {
	for _, name := range slices.Sorted(maps.Keys(body.Attributes)) {
		fmt.Fprintf(out, "%s%s =", indent, name)
		_ = hclsyntax.VisitAll(body.Attributes[name].Expr, func(node hclsyntax.Node) hcl.Diagnostics {
			switch expression := node.(type) {
			case *hclsyntax.LiteralValueExpr, *hclsyntax.TemplateExpr, *hclsyntax.ObjectConsKeyExpr:
				// A text must be a template of one literal, or of several as in "a$${b}", and of nothing else.
			case *hclsyntax.FunctionCallExpr:
				fmt.Fprintf(out, " %s()", expression.Name)
			case *hclsyntax.ScopeTraversalExpr:
				fmt.Fprintf(out, " %s", expression.Traversal.RootName())
			default:
				fmt.Fprintf(out, " %T", expression)
			}

			return nil
		})
		fmt.Fprintln(out)
	}

	for _, block := range body.Blocks {
		fmt.Fprintf(out, "%s%s %q\n", indent, block.Type, block.Labels)
		structureOf(out, block.Body, indent+"  ")
	}
}

// declares compares the resources that a configuration lists with those in its files.
func declares(t *testing.T, configuration Configuration) {
	t.Helper()

	got := map[Address]bool{}
	for _, address := range configuration.Resources {
		got[address] = true
	}

	check.Equal(t, "declared twice", len(configuration.Resources)-len(got), 0)
	check.Equal(t, "declared", got, declaredBy(t, configuration.Files))
}

// declaredBy returns the addresses of all declarations in files.
func declaredBy(t *testing.T, files Files) map[Address]bool {
	t.Helper()
	out := map[Address]bool{}

	for name, content := range files {
		if path.Ext(name) != ".tf" || name == GuestFile {
			continue
		}

		module := ""
		if dir := path.Dir(name); dir != "." {
			module = path.Base(dir)
		}

		for _, block := range parse(t, content).Blocks {
			if block.Type != "resource" && block.Type != "data" {
				continue
			}

			address := NewAddress(block.Labels[0], block.Labels[1])
			address.module, address.data = module, block.Type == "data"

			keys := block.Body.Attributes["for_each"]
			if keys == nil {
				out[address] = true
				continue
			}

			for _, key := range keysOf(t, keys.Expr, files) {
				out[address.WithKey(key)] = true
			}
		}
	}

	return out
}

// keysOf returns the keys of a for_each: a literal, or the argument of a module.
func keysOf(t *testing.T, expression hclsyntax.Expression, files Files) []string {
	t.Helper()

	if call, ok := expression.(*hclsyntax.FunctionCallExpr); ok {
		expression = call.Args[0]
	}

	if reference, ok := expression.(*hclsyntax.ScopeTraversalExpr); ok {
		argument := reference.Traversal[1].(hcl.TraverseAttr).Name
		expression = parse(t, files[MainFile]).Blocks[0].Body.Attributes[argument].Expr
	}

	value, diags := expression.Value(nil)
	if diags.HasErrors() {
		t.Fatal(diags)
	}

	var out []string

	for keys := value.ElementIterator(); keys.Next(); {
		key, element := keys.Element()
		if value.Type().IsTupleType() {
			key = element
		}

		out = append(out, key.AsString())
	}

	return out
}

// TestConfigurationsSayWhatTheyDeclare checks each kind of configuration, and the types of all kinds together.
func TestConfigurationsSayWhatTheyDeclare(t *testing.T) {
	types := map[string]bool{}

	for name, configuration := range everyConfiguration(t, "plain") {
		t.Run(name, func(t *testing.T) {
			declares(t, configuration)
			check.Equal(t, "engine", configuration.Engine.URL, "https://plain")
		})

		for address := range declaredBy(t, configuration.Files) {
			types[address.Type()] = true
		}
	}

	check.Equal(t, "types", slices.Sorted(maps.Keys(types)), Types())
}

// TestACommentHasNoForeignText tries characters that can end a comment, or hide in one.
func TestACommentHasNoForeignText(t *testing.T) {
	for _, text := range []string{"a\nresource", "a\rb", "a\tb", "\x00", "ä", "\u2028", "\u202e", "\x7f"} {
		t.Run(fmt.Sprintf("%q", text), func(t *testing.T) {
			defer func() { check.Equal(t, "it is refused", recover() != nil, true) }()
			writeComment(hclwrite.NewEmptyFile().Body(), text)
		})
	}
}
