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

// alike is a list of new machines of one owner whose renderings differ only in names and addresses. Terraform plans the
// first one. The plans of the others are derived from it, with their own names and addresses.
type alike []Rendered

// groupAlike groups machines with similar renderings, in their order. A machine with a state, or with an existing VM to
// import, is the only one in its group.
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

// areAlike reports whether the renderings of two new machines differ only in names and addresses.
func areAlike(one, other Rendered) bool {
	named := func(m Rendered) bool {
		return m.State == nil && m.Replaced == "" && m.Destroyed == "" && m.VM == "" && hasInventedName(m.Machine)
	}
	if !named(one) || !named(other) || len(one.Addresses) != len(other.Addresses) ||
		len(one.Files) != len(other.Files) {
		return false
	}

	replace := newReplacer(one.Machine, other.Machine)

	for name, content := range one.Files {
		if replace(string(content)) != string(other.Files[name]) {
			return false
		}
	}

	return true
}

// hasInventedName reports whether the preview has derived the name of a machine from its owner's name. Such a name
// occurs nowhere else in a plan.
func hasInventedName(m Machine) bool {
	_, owner, _ := strings.Cut(m.From, "/")

	return owner != "" && strings.HasPrefix(m.Name, owner+"-")
}

// wholeAddress matches whole addresses, so a short address is not replaced inside a longer one.
var wholeAddress = regexp.MustCompile(`[0-9A-Fa-f.:]+`)

// newReplacer returns a function to replace the name and addresses of one machine by those of another machine.
func newReplacer(one, other Machine) func(string) string {
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

// deriveResult derives the plan of a machine from the plan of a machine with a similar rendering. encoded is the other
// machine's plan in Terraform's format.
func deriveResult(
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

// String returns the names of the machines for users.
func (g alike) String() string {
	name := g[0].Namespace + "/" + g[0].Name
	if len(g) == 1 {
		return name
	}

	return fmt.Sprintf("%s and %s like it", name, english.Plural(len(g)-1, "other", ""))
}

// planGroup plans the first machine, and returns a result for each machine.
func (g alike) planGroup(ctx context.Context, local *localroot.Runner) []*planreport.Result {
	first, err := RunPlan(ctx, local.Executor, g[0], local.Dir)

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
			result, problem = deriveResult(first, machine, newReplacer(g[0].Machine, machine.Machine), string(encoded))
		}

		add(machine, result, problem)
	}

	return out
}
