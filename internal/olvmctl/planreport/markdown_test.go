package planreport

import (
	"fmt"
	"strings"
	"testing"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// planned returns the result of a machine to create, with a plan of about 3 KB.
func planned(owner string, i int, detail string) *Result {
	name, address := fmt.Sprintf("%s-%d", owner, i), fmt.Sprintf("10.0.%d.%d", i/250, i%250)
	out := &Result{
		Cluster:   "prod",
		From:      "MachineDeployment/" + owner,
		Namespace: "default",
		Name:      name,
		Addresses: []string{address},
		Changes:   []terraform.Change{{Address: "ovirt_vm.machine", Type: "ovirt_vm", Action: "create"}},
	}
	out.Text = fmt.Sprintf("# ovirt_vm.machine will be created\n  name = %q\n  ip   = %q\n  %s\n%s", name, address,
		detail, strings.Repeat("  + attribute = (known after apply)\n", 80))

	return out
}

func markdown(t *testing.T, link string, machines ...*Result) string {
	t.Helper()
	var out strings.Builder
	check.Error(t, New(Findings{Machines: machines}).WriteMarkdown(&out, link), "")

	return out.String()
}

func TestEqualPlansAreWrittenOnce(t *testing.T) {
	out := markdown(t, "", planned("a", 1, "small"), planned("a", 12, "small"), planned("b", 1, "small"),
		planned("a", 2, "large"))

	check.Equal(t, "plans", strings.Count(out, "<details>"), 3)
	check.Contains(t, "plans", out, "<summary>default/a-1 and 1 more</summary>\n\nSame plan, except for names and "+
		"addresses: a-12\n")
	check.Contains(t, "plans", out, "<summary>default/b-1</summary>")
	check.Contains(t, "plans", out, "<summary>default/a-2</summary>")
	check.Lacks(t, "plans", out, "Omitted to fit")

	check.Equal(t, "rows", strings.Count(out, "\n| "), 4)
	check.Contains(
		t, "table", out, "\n| 2: default/a-1, default/a-12 | MachineDeployment/a | prod | 10.0.0.1; 10.0.0.12 | ",
	)

	for _, name := range []string{"a-1", "a-12", "b-1", "a-2"} {
		check.Contains(t, "table", out, "default/"+name)
	}
}

func TestAPlanFitsIntoAComment(t *testing.T) {
	const comment = 65_536

	var alike, different []*Result
	for i := range 3000 {
		alike = append(alike, planned("a", i, "small"))
		different = append(different, planned("a", i, fmt.Sprintf("size = %d", i)))
	}

	refused := planned("z", 1, "small")
	refused.Changes, refused.Refused = nil, "spec.vmTemplateName: there is none"

	for name, machines := range map[string][]*Result{"equal": alike, "different": different} {
		out := markdown(t, "https://ci.example.com/1", append(machines, refused)...)
		if len(out) > comment {
			t.Errorf("%s plans have %d bytes", name, len(out))
		}

		check.Contains(t, name, out, "### Plan: 3,000 to create, 0 to update, 0 to replace, 0 to destroy, 1 refused\n")
		check.Contains(t, name, out, "| default/z-1 | MachineDeployment/z | prod | 10.0.0.1 | **refused**: spec.")
		if name == "equal" { // the plan fits exactly
			check.Contains(t, name, out, "default/a-9 and 2,990 more | ")
			continue
		}

		check.Contains(t, name, out, " table rows")
		check.Contains(t, name, out, "see the [full plan](https://ci.example.com/1)")
	}

	out := markdown(t, "", different[:60]...)
	check.Contains(t, "without a link", out, " plans; see the full plan with `-o text` or `-o json`.")
	check.Lacks(t, "a table that fits", out, "table rows")
	check.Equal(t, "61 equal machines", strings.Count(markdown(t, "", alike[:61]...), "<details>"), 1)
}

// TestAMachineThatStaysIsOneLine has a changed machine between two unchanged ones.
func TestAMachineThatStaysIsOneLine(t *testing.T) {
	machines := []*Result{planned("a", 1, ""), planned("a", 2, ""), planned("a", 3, "")}
	for _, i := range []int{0, 2} {
		machines[i].Changes, machines[i].Plan = nil, &tfjson.Plan{}
	}

	var out strings.Builder
	check.Error(t, New(Findings{Machines: machines}).WriteText(&out), "")
	check.Contains(t, "the report", out.String(), "2 machines: default/a-1, default/a-3 of "+
		"MachineDeployment/a (cluster prod, addresses: 10.0.0.1; 10.0.0.3): nothing would change\n\ndefault/a-2 of ")
	check.Contains(t, "the report", out.String(), "\n\nPlan: 1 to create, 0 to update, 0 to replace, 0 to destroy\n")
}

// TestAPlanHasOneBlockForMachinesOfWhichTheSameBecomes has new machines, and machines deleted for two reasons.
func TestAPlanHasOneBlockForMachinesOfWhichTheSameBecomes(t *testing.T) {
	var machines []*Result
	for i := range 1000 {
		machines = append(machines, planned("a", i, "small"))
	}

	for i := range 12 {
		gone := planned("b", i, "")
		gone.Changes, gone.Destroyed, gone.Disks = nil, "it is not asked for", []string{"root 20GB"}
		machines = append(machines, gone)
	}

	machines[1001].Destroyed = "it is being deleted"

	var text strings.Builder
	check.Error(t, New(Findings{Machines: machines}).WriteText(&text), "")
	check.Equal(t, "blocks of new machines", strings.Count(text.String(), "of MachineDeployment/a"), 1)
	check.Contains(t, "text", text.String(), "1,000 machines: default/a-0, ")
	check.Contains(t, "text", text.String(), "default/a-9 and 990 more of MachineDeployment/a")
	check.Equal(t, "plans", strings.Count(text.String(), "will be created"), 1)
	check.Equal(t, "blocks of machines that go", strings.Count(text.String(), "DESTROYED"), 2)

	out := markdown(t, "", machines...)
	check.Equal(t, "rows", strings.Count(out, "\n| "), 4)

	for i := range 12 { // each destroyed machine is named
		name := fmt.Sprintf("default/b-%d", i)
		check.Contains(t, "text", text.String(), name)
		check.Contains(t, "Markdown", out, name)
	}
}

// TestARolloutNamesEachPairOnce has two new machines in a row. Each appears with the machine it replaces.
func TestARolloutNamesEachPairOnce(t *testing.T) {
	one, two, last := planned("a", 1, ""), planned("a", 2, ""), planned("b", 1, "")
	one.Replaces, two.Replaces, last.Changes, last.Destroyed = "old-x", "old-y", nil, "it goes"

	out := markdown(t, "", one, two, last)
	check.Contains(t, "table", out, "| 2: default/a-1 in place of old-x, default/a-2 in place of old-y | ")
	check.Contains(t, "table", out, "| new, replaces another machine |\n")
	check.Contains(t, "the caution", out, "**1 machine is destroyed.** Its VM and disks are deleted.\n")
}

func TestAPlanHasNamesAndSizesForPeople(t *testing.T) {
	const id, other = "00000000-0000-0000-0000-0000000000aa", "00000000-0000-0000-0000-0000000000bb"

	text := MakeReadable(
		"  + cluster_id = \""+id+"\"\n  + template_id = \""+other+"\"\n  ~ memory         = 17179869184 -> 34359738368\n"+
			"  + size = 20000000000 # forces replacement\n  + comment = \"size = 17179869184\"\n  + size = 512\n",
		func(asked string) string { return map[string]string{id: "Default"}[asked] },
	)
	check.Equal(
		t,
		"text",
		text,
		"  + cluster_id = \"Default\"\n  + template_id = \""+other+"\"\n  ~ memory         = 16 GiB -> 32 GiB\n"+
			"  + size = 20 GB # forces replacement\n  + comment = \"size = 17179869184\"\n  + size = 512\n",
	)
}
