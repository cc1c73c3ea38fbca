package terraform

import (
	"testing"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// changeOf returns a change of a managed resource.
func changeOf(address string, before, after any, actions ...tfjson.Action) *tfjson.ResourceChange {
	return &tfjson.ResourceChange{
		Address: address, Mode: tfjson.ManagedResourceMode,
		Change: &tfjson.Change{Actions: actions, Before: before, After: after},
	}
}

func TestWhatAPlanWouldDoToAResource(t *testing.T) {
	data := changeOf("data.a", nil, nil, tfjson.ActionCreate)
	data.Mode = tfjson.DataResourceMode

	tests := map[string]struct {
		change *tfjson.ResourceChange
		want   string
	}{
		"create": {changeOf("a", nil, nil, tfjson.ActionCreate), "create"},
		"update": {changeOf("a", nil, nil, tfjson.ActionUpdate), "update"},
		"delete": {changeOf("a", nil, nil, tfjson.ActionDelete), "delete"},
		"delete, then create": {
			changeOf("a", nil, nil, tfjson.ActionDelete, tfjson.ActionCreate), "replace",
		},
		"create, then delete": {
			changeOf("a", nil, nil, tfjson.ActionCreate, tfjson.ActionDelete), "replace",
		},
		"nothing":                        {changeOf("a", nil, nil, tfjson.ActionNoop), ""},
		"a read":                         {changeOf("a", nil, nil, tfjson.ActionRead), ""},
		"something that is read only":    {data, ""},
		"a resource without any changes": {&tfjson.ResourceChange{Mode: tfjson.ManagedResourceMode}, ""},
	}
	for name, test := range tests {
		check.Equal(t, name, getAction(test.change), test.want)
	}
}

func TestDriftOfAPlan(t *testing.T) {
	type fields = map[string]any

	of := func(changes, drift []*tfjson.ResourceChange) *tfjson.Plan {
		return &tfjson.Plan{ResourceChanges: changes, ResourceDrift: drift}
	}
	list := func(changes ...*tfjson.ResourceChange) []*tfjson.ResourceChange { return changes }

	tests := map[string]struct {
		plan    *tfjson.Plan
		planned bool
		want    []Drift
	}{
		"nothing": {of(nil, nil), true, nil},
		"a change that the plan makes, with what differs, sorted": {
			of(list(changeOf("b", fields{"x": 1, "m": 2, "same": 3, "status": "up"},
				fields{"x": 2, "m": 3, "same": 3, "status": "down"}, tfjson.ActionUpdate)), nil),
			true, []Drift{{Address: "b", Action: "update", Attributes: []string{"m", "x"}}},
		},
		"the same, where only what happened outside is asked for": {
			of(list(changeOf("b", fields{"x": 1}, fields{"x": 2}, tfjson.ActionUpdate)), nil), false, nil,
		},
		"a resource that is gone is made again": {
			of(list(changeOf("a", nil, fields{"x": 1}, tfjson.ActionCreate)), nil), true,
			[]Drift{{Address: "a", Action: "create"}},
		},
		"what happened outside, of two resources, sorted by address": {
			of(nil, list(
				changeOf("b", fields{"x": 1}, fields{"x": 2}, tfjson.ActionUpdate),
				changeOf("a", fields{"y": 1}, fields{"y": 2}, tfjson.ActionUpdate),
			)),
			false, []Drift{{Address: "a", Attributes: []string{"y"}}, {Address: "b", Attributes: []string{"x"}}},
		},
		"both of one resource: one entry, with the action and each attribute once": {
			of(list(changeOf("a", fields{"x": 1, "y": 1}, fields{"x": 2, "y": 1}, tfjson.ActionUpdate)),
				list(changeOf("a", fields{"x": 2, "y": 2}, fields{"x": 1, "y": 1}, tfjson.ActionUpdate))),
			true, []Drift{{Address: "a", Action: "update", Attributes: []string{"x", "y"}}},
		},
		"a status alone changes by itself": {
			of(nil, list(changeOf("a", fields{"status": "up"}, fields{"status": "down"}, tfjson.ActionUpdate))), true,
			nil,
		},
		"a resource that went outside, and is not wanted any more": {
			of(nil, list(changeOf("a", fields{"x": 1}, nil, tfjson.ActionDelete))), true, nil,
		},
		"an attribute that is known only after it is applied": {
			of(list(changeOf("a", fields{"x": 1}, fields{}, tfjson.ActionUpdate)), nil), true,
			[]Drift{{Address: "a", Action: "update"}},
		},
		"a plan without changes": {
			of(list(changeOf("a", fields{"x": 1}, fields{"x": 1}, tfjson.ActionNoop)), list(&tfjson.ResourceChange{
				Address: "a", Mode: tfjson.ManagedResourceMode,
			})), true, nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { check.Equal(t, "drift", collectDrift(test.plan, test.planned), test.want) })
	}
}

func TestDriftIsAPhrase(t *testing.T) {
	for want, drift := range map[string]Drift{
		"a (create)":  {Address: "a", Action: "create"},
		"a (changed)": {Address: "a"},
		"a (x, y)":    {Address: "a", Action: "update", Attributes: []string{"x", "y"}},
	} {
		check.Equal(t, "phrase", drift.String(), want)
	}
}
