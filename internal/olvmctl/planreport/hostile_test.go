package planreport

import (
	"encoding/json"
	"html"
	"strings"
	"testing"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAStrangerForgesNothingInAComment has texts from manifests in each place of a comment.
func TestAStrangerForgesNothingInAComment(t *testing.T) {
	const evil = "a\n\n**3 machines, 0 would change** | x\n<!-- @admin ``` </details>\u202e\x1b[2J"

	one := planned("md", 1, "")
	one.Namespace, one.Name, one.From, one.Cluster, one.Refused = evil, evil, evil, evil, ""
	one.Addresses, one.Text = []string{evil}, evil
	two := planned("md", 2, "")
	two.Refused = evil
	owner := OwnerChange{Cluster: evil, Namespace: evil, From: evil, Machines: 1, Replicas: 2, Replaced: []string{evil},
		Reasons: []string{evil}}

	var out strings.Builder
	check.Error(t, New(Findings{Machines: []*Result{one, two}, Owners: []OwnerChange{owner}}).WriteMarkdown(&out, ""), "")

	outside, inside := out.String(), ""
	if at := strings.Index(outside, "\n````"); at > 0 { // a fenced block shows the plan itself unchanged
		outside, inside, _ = strings.Cut(outside, "\n````")
	}

	check.Contains(t, "the fence", inside, "**3 machines, 0 would change**")

	for _, forged := range []string{"<!--", "\n**3", "**3 machines", "@admin", "```", "</details>", "\u202e", "\x1b"} {
		check.Lacks(t, "the comment", outside, forged)
	}

	check.Lacks(t, "the plan", out.String(), "\x1b")
	out.Reset()
	check.Error(t, New(Findings{Machines: []*Result{one, two}, Owners: []OwnerChange{owner}}).WriteText(&out), "")
	check.Lacks(t, "the text", out.String(), "\x1b")
	check.Lacks(t, "the text", out.String(), "\u202e")
}

// TestSensitiveValuesOfAPlanAreMasked has a sensitive script in each place where a plan may contain one.
func TestSensitiveValuesOfAPlanAreMasked(t *testing.T) {
	const canary = "#cloud-config canary"

	values := func() map[string]any {
		return map[string]any{"name": "a", "list": []any{map[string]any{"script": canary, "name": "b"}}}
	}
	marks := map[string]any{"list": []any{map[string]any{"script": true}}}
	state := func(address string, own string) *tfjson.StateValues {
		return &tfjson.StateValues{
			Outputs: map[string]*tfjson.StateOutput{"o": {Sensitive: true, Value: canary}},
			RootModule: &tfjson.StateModule{ChildModules: []*tfjson.StateModule{{Resources: []*tfjson.StateResource{
				{Address: address, AttributeValues: values(), SensitiveValues: json.RawMessage(own)}}}}}}
	}
	full := &tfjson.Plan{
		Variables: map[string]*tfjson.PlanVariable{"user_data": {Value: canary}, "open": {Value: "shown"}},
		Config: &tfjson.Config{RootModule: &tfjson.ConfigModule{Variables: map[string]*tfjson.ConfigVariable{
			"user_data": {Sensitive: true}, "open": {}}}},
		ResourceChanges: []*tfjson.ResourceChange{{Address: "vm.a", Change: &tfjson.Change{
			Before: values(), BeforeSensitive: marks, After: values(), AfterSensitive: false}}},
		ResourceDrift: []*tfjson.ResourceChange{{Address: "vm.b", Change: &tfjson.Change{
			Before: values(), After: values(), AfterSensitive: marks}}},
		OutputChanges: map[string]*tfjson.Change{"o": {Before: canary, After: canary, AfterSensitive: true}},
		PlannedValues: state("vm.a", ""),
		PriorState:    &tfjson.State{Values: state("vm.gone", `{"list":[{"script":true}]}`)},
	}

	MaskSensitive(full)

	encoded, err := json.Marshal(full.ResourceChanges)
	check.Error(t, err, "")

	for _, part := range []any{full.ResourceDrift, full.OutputChanges, full.PlannedValues, full.PriorState.Values,
		full.Variables} {
		more, err := json.Marshal(part)
		check.Error(t, err, "")

		encoded = append(encoded, more...)
	}

	check.Lacks(t, "the plan", string(encoded), "canary")
	check.Contains(t, "what is no secret", string(encoded), `"name":"b"`)
	check.Contains(t, "what is no secret", string(encoded), "shown")
	MaskSensitive(nil)
	MaskSensitive(&tfjson.Plan{Variables: map[string]*tfjson.PlanVariable{"v": {Value: canary}}})
}

// TestACellMentionsNobody has the marks of mentions and references in GitHub and GitLab. Both find them after rendering
// Markdown.
func TestACellMentionsNobody(t *testing.T) {
	for _, text := range []string{"@admin", "@org/team", "#12", "org/repo#12", "!34", "~label", "$5", "%6"} {
		shown := html.UnescapeString(escapeCell(text))
		check.Equal(t, text+" has a space behind its sign", strings.ContainsRune(shown, '\u200b'), true)
		check.Equal(t, text+" is there", strings.ReplaceAll(shown, "\u200b", ""), text)
	}
}
