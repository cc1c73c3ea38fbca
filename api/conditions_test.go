package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// ofClusterAPI maps constants to the values they share with Cluster API.
var ofClusterAPI = map[string]string{
	"ReadyCondition":    clusterv1.ReadyCondition,
	"DeletingCondition": clusterv1.DeletingCondition,
	"DeletingReason":    clusterv1.DeletingReason,
	"NotDeletingReason": clusterv1.NotDeletingReason,

	"WaitingForClusterInfrastructureReadyReason": clusterv1.WaitingForClusterInfrastructureReadyReason,
	"WaitingForBootstrapDataReason":              clusterv1.WaitingForBootstrapDataReason,
}

// elsewhere matches reasons visible to users without a constant in the API, by file.
var elsewhere = map[string]string{
	"../internal/olvmctl/clustertree/trouble.go": `"(OtherKubelet): `,
	"../internal/inventory/describe.go":          `Reason\w+ += "(\w+)"`,
}

// constants returns the values of the constants in conditions.go with this ending of their names.
func constants(t *testing.T, ending string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "v1/conditions.go", nil, 0)
	check.Error(t, err, "")

	var out []string

	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasSuffix(spec.Names[0].Name, ending) {
			return true
		}

		switch value := spec.Values[0].(type) {
		case *ast.BasicLit:
			text, err := strconv.Unquote(value.Value)
			check.Error(t, err, "")

			out = append(out, text)
		case *ast.SelectorExpr:
			check.Set(t, "clusterv1."+value.Sel.Name+" of ofClusterAPI", ofClusterAPI[value.Sel.Name])
			out = append(out, ofClusterAPI[value.Sel.Name])
		}

		return true
	})
	check.Set(t, ending, strings.Join(out, ""))

	return out
}

// word finds the names of conditions and reasons in a text.
var word = regexp.MustCompile(`\b[A-Z]\w+\b`)

// prose returns the text of a field without its markers.
func prose(text string) string {
	text, _, _ = strings.Cut(text, "\n+")
	return text
}

// TestEveryConditionAndReasonIsDocumented compares the constants with docs/user/conditions.md.
func TestEveryConditionAndReasonIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/user/conditions.md")
	check.Error(t, err, "")

	documented := word.FindAllString(string(page), -1)
	wanted := slices.Concat(constants(t, "Condition"), constants(t, "Reason"), []string{clusterv1.PausedCondition})

	for path, pattern := range elsewhere {
		content, err := os.ReadFile(path)
		check.Error(t, err, "")

		found := regexp.MustCompile(pattern).FindAllStringSubmatch(string(content), -1)
		check.Equal(t, path+" has reasons", len(found) > 0, true)

		for _, match := range found {
			wanted = append(wanted, match[1])
		}
	}

	slices.Sort(wanted)

	for _, name := range slices.Compact(wanted) {
		if !slices.Contains(documented, name) {
			t.Errorf("docs/user/conditions.md does not explain %s", name)
		}
	}
}

// TestTheFieldsNameTheirConditions compares the texts of the fields status.conditions with the constants.
func TestTheFieldsNameTheirConditions(t *testing.T) {
	known := map[string]bool{clusterv1.PausedCondition: false}
	for _, name := range constants(t, "Condition") {
		known[name] = false
	}

	paths, err := filepath.Glob("v1*/*_types.go")
	check.Error(t, err, "")

	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		check.Error(t, err, "")

		ast.Inspect(file, func(node ast.Node) bool {
			field, ok := node.(*ast.Field)
			if !ok || len(field.Names) != 1 || field.Names[0].Name != "Conditions" {
				return true
			}

			for _, name := range word.FindAllString(prose(field.Doc.Text()), -1) {
				if _, ok := known[name]; ok {
					known[name] = true
				} else if !strings.HasPrefix(name, "OLVM") && name != "VM" {
					t.Errorf("%s: the text of a field names %s, which is no condition", path, name)
				}
			}

			return true
		})
	}

	for _, name := range slices.Sorted(maps.Keys(known)) {
		if !known[name] {
			t.Errorf("no text of a field names the condition %s", name)
		}
	}
}
