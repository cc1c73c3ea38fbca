package terraform

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
)

// Drift is a resource of which the engine has something else than was applied.
type Drift struct {
	// Address of the resource, such as ovirt_vm.this.
	Address string `json:"address"`
	// Action is what a run would do about it: create, update, delete or replace. It is empty where a run would take
	// what the engine has as it is, because the configuration does not say what it should be.
	Action string `json:"action,omitempty"`
	// Attributes that differ, sorted; none where the resource is gone.
	Attributes []string `json:"attributes,omitempty"`
}

// String is a phrase for people.
func (d Drift) String() string {
	if len(d.Attributes) == 0 {
		return fmt.Sprintf("%s (%s)", d.Address, cmp.Or(d.Action, "changed"))
	}

	return fmt.Sprintf("%s (%s)", d.Address, strings.Join(d.Attributes, ", "))
}

// live are attributes that change by themselves.
var live = []string{"status"}

// driftOf are the differences of a plan, sorted by address: what was changed since the state was written and, where
// wanted, what the plan would change.
func driftOf(plan *tfjson.Plan, planned bool) []Drift {
	byAddress := map[string]*Drift{}
	note := func(change *tfjson.ResourceChange, action string) {
		attributes := differing(change.Change)
		if action == "" && len(attributes) == 0 {
			return
		}

		found := byAddress[change.Address]
		if found == nil {
			found = &Drift{Address: change.Address}
			byAddress[change.Address] = found
		}

		found.Action = cmp.Or(found.Action, action)
		found.Attributes = slices.Compact(slices.Sorted(slices.Values(append(found.Attributes, attributes...))))
	}

	for _, change := range plan.ResourceChanges {
		if action := actionOf(change); action != "" && planned {
			note(change, action)
		}
	}

	for _, change := range plan.ResourceDrift {
		note(change, "")
	}

	var out []Drift
	for _, address := range slices.Sorted(maps.Keys(byAddress)) {
		out = append(out, *byAddress[address])
	}

	return out
}

// actionOf is what a plan would do to a resource; empty for nothing.
func actionOf(change *tfjson.ResourceChange) string {
	if change.Mode != tfjson.ManagedResourceMode || change.Change == nil {
		return ""
	}

	switch actions := change.Change.Actions; {
	case actions.Replace():
		return "replace"
	case actions.Create():
		return "create"
	case actions.Update():
		return "update"
	case actions.Delete():
		return "delete"
	default:
		return ""
	}
}

// differing are the attributes of a resource that exists before and after a change, and differ. What is not known
// before it is applied is no difference.
func differing(change *tfjson.Change) []string {
	if change == nil {
		return nil
	}

	before, _ := change.Before.(map[string]any)
	after, _ := change.After.(map[string]any)
	if before == nil || after == nil {
		return nil
	}

	var out []string

	for name, value := range after {
		if !slices.Contains(live, name) && !reflect.DeepEqual(before[name], value) {
			out = append(out, name)
		}
	}

	slices.Sort(out)

	return out
}
