package preview

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localroot"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
)

// alike are new machines of one owner that are rendered alike but for their names and addresses: Terraform plans the
// first of them, and its plan is that of the others with their own names and addresses in it.
type alike []Rendered

// groupAlike groups machines that are rendered alike, in their order. Machines that have a state, or whose VMs exist
// and would be imported, are in groups of their own.
func groupAlike(machines []Rendered) []alike {
	var out []alike
	first := map[string][]int{} // groups by the owners of their machines

	for _, machine := range machines {
		owner := machine.Namespace + "/" + machine.From
		at := slices.IndexFunc(first[owner], func(group int) bool { return areAlike(out[group][0], machine) })

		if at >= 0 {
			group := first[owner][at]
			out[group] = append(out[group], machine)

			continue
		}

		first[owner] = append(first[owner], len(out))
		out = append(out, alike{machine})
	}

	return out
}

// areAlike reports whether new machines are rendered alike but for their names and addresses.
func areAlike(one, other Rendered) bool {
	named := func(m Rendered) bool {
		return m.State == nil && m.Replaced == "" && m.Destroyed == "" && m.VM == "" && standsIn(m.Machine)
	}
	if !named(one) || !named(other) || len(one.Addresses) != len(other.Addresses) ||
		len(one.Files) != len(other.Files) {
		return false
	}

	replace := replacer(one.Machine, other.Machine)

	for name, content := range one.Files {
		if replace(string(content)) != string(other.Files[name]) {
			return false
		}
	}

	return true
}

// standsIn reports whether the name of a machine is one that was made up for it from its owner's, so that it is nothing
// else in a plan.
func standsIn(m Machine) bool {
	_, owner, _ := strings.Cut(m.From, "/")

	return owner != "" && strings.HasPrefix(m.Name, owner+"-")
}

// wholeAddress is what an address is all of: one that begins another address is not replaced in that.
var wholeAddress = regexp.MustCompile(`[0-9A-Fa-f.:]+`)

// replacer replaces name and addresses of a machine by those of another.
func replacer(one, other Machine) func(string) string {
	addresses := map[string]string{}
	for i, address := range one.Addresses {
		addresses[address] = other.Addresses[i]
	}

	return func(text string) string {
		text = strings.ReplaceAll(text, one.Name, other.Name)

		return wholeAddress.ReplaceAllStringFunc(text, func(found string) string {
			if own, ok := addresses[found]; ok {
				return own
			}

			return found
		})
	}
}

// resultAs is the plan for a machine that is rendered as the planned one is. encoded is the plan in Terraform's format.
func resultAs(
	r *planreport.Result, machine Rendered, replace func(string) string, encoded string,
) (*planreport.Result, error) {
	out := resultOf(machine.Machine)
	out.Text, out.Outside = replace(r.Text), r.Outside

	for _, change := range r.Changes {
		change.Address = replace(change.Address)
		out.Changes = append(out.Changes, change)
	}

	out.Plan = &tfjson.Plan{}
	if err := json.Unmarshal([]byte(replace(encoded)), out.Plan); err != nil {
		return nil, fmt.Errorf("failed to read the plan of %s as that of %s: %w", r.Name, machine.Name, err)
	}

	return out, nil
}

// String says which machines these are, for people.
func (g alike) String() string {
	name := g[0].Namespace + "/" + g[0].Name
	if len(g) == 1 {
		return name
	}

	return fmt.Sprintf("%s and %s that are alike", name, english.Plural(len(g)-1, "other", ""))
}

// plan is what would become of each of the machines.
func (g alike) plan(ctx context.Context, local *localroot.Runner) []*planreport.Result {
	first, err := Plan(ctx, local.Executor, g[0], local.Dir)

	var encoded []byte
	if err == nil && len(g) > 1 {
		encoded, err = json.Marshal(first.Plan)
	}

	out := make([]*planreport.Result, 0, len(g))
	add := func(machine Rendered, result *planreport.Result, err error) {
		if err != nil {
			result = Refused{Machine: machine.Machine, Err: err}.Result()
		}

		out = append(out, result)
	}

	add(g[0], first, err)

	for _, machine := range g[1:] {
		result, problem := (*planreport.Result)(nil), err
		if err == nil {
			result, problem = resultAs(first, machine, replacer(g[0].Machine, machine.Machine), string(encoded))
		}

		add(machine, result, problem)
	}

	return out
}
