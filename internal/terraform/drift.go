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

// Drift is a resource that differs between the engine and the applied configuration.
type Drift struct {
	// Address of the resource, such as ovirt_vm.this.
	Address string `json:"address"`
	// Action is what a run would do to correct the resource: create, update, delete or replace. It is empty if the
	// configuration leaves the attributes open. A run would then accept the engine's values.
	Action string `json:"action,omitempty"`
	// Attributes are the sorted names of the differing attributes. The list is empty if the resource is gone.
	Attributes []string `json:"attributes,omitempty"`
}

// String describes the drift for users.
func (d Drift) String() string {
	if len(d.Attributes) == 0 {
		return fmt.Sprintf("%s (%s)", d.Address, cmp.Or(d.Action, "changed"))
	}

	return fmt.Sprintf("%s (%s)", d.Address, strings.Join(d.Attributes, ", "))
}

// live are attributes that change by themselves.
var live = []string{"status"}

// collectDrift returns the differences in a plan, sorted by address. These are the changes in the engine since the
// state was written. With planned, they include the changes planned to correct them.
func collectDrift(plan *tfjson.Plan, planned bool) []Drift {
	byAddress := map[string]*Drift{}
	note := func(change *tfjson.ResourceChange, action string) {
		attributes := collectDifferences(change.Change)
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
		if action := getAction(change); action != "" && planned {
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

// getAction returns the planned action on a resource, or "" if nothing is planned.
func getAction(change *tfjson.ResourceChange) string {
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

// collectDifferences returns the differing attributes of a resource that exists before and after a change. Values that
// are unknown until the apply do not count as differences.
func collectDifferences(change *tfjson.Change) []string {
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
