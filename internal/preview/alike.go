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
		at := slices.IndexFunc(first[owner], func(group int) bool { return asOther(out[group][0], machine) != nil })

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

// asOther replaces what is a machine's own by what is another's; nil where these are not rendered alike.
func asOther(one, other Rendered) func(string) string {
	named := func(m Rendered) bool { return m.State == nil && m.Replaced == "" && m.VM == "" && standsIn(m.Machine) }
	if !named(one) || !named(other) || len(one.Addresses) != len(other.Addresses) ||
		len(one.Files) != len(other.Files) {
		return nil
	}

	replace := replacer(one.Machine, other.Machine)
	same := func(name string) bool { return replace(string(one.Files[name])) == string(other.Files[name]) }

	for name := range one.Files {
		if !same(name) {
			return nil
		}
	}

	return replace
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

// as is a plan for a machine that is rendered as the planned one is.
func (r *Result) as(machine Rendered, replace func(string) string) (*Result, error) {
	out := resultOf(machine.Machine)
	out.Text, out.Outside = replace(r.Text), r.Outside

	for _, change := range r.Changes {
		change.Address = replace(change.Address)
		out.Changes = append(out.Changes, change)
	}

	if r.Plan == nil {
		return out, nil
	}

	encoded, err := json.Marshal(r.Plan)
	if err != nil {
		return nil, fmt.Errorf("failed to encode the plan of %s: %w", r.Name, err)
	}

	out.Plan = &tfjson.Plan{}
	if err := json.Unmarshal([]byte(replace(string(encoded))), out.Plan); err != nil {
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
func (g alike) plan(ctx context.Context, scratch *Scratch) []*Result {
	first, err := Plan(ctx, scratch.Executor, g[0], scratch.Dir)
	out := make([]*Result, 0, len(g))

	for i, machine := range g {
		result := first
		if err == nil && i > 0 {
			result, err = first.as(machine, asOther(g[0], machine))
		}

		if err != nil {
			result = Refused{Machine: machine.Machine, Err: err}.Result()
		}

		out = append(out, result)
	}

	return out
}
