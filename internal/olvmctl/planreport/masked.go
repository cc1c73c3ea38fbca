package planreport

import (
	"encoding/json"

	tfjson "github.com/hashicorp/terraform-json"
)

// maskedValue replaces a sensitive value, as in Terraform's own output.
const maskedValue = "(sensitive value)"

// MaskSensitive masks all sensitive values in a plan: planned values, values in the state, and changes made in the
// engine. If the value before or after a change is sensitive, it masks both, and the same value in the state.
func MaskSensitive(plan *tfjson.Plan) {
	if plan == nil {
		return
	}

	marks := map[string][]any{}

	for _, changes := range [][]*tfjson.ResourceChange{plan.ResourceChanges, plan.ResourceDrift} {
		for _, r := range changes {
			if r.Change != nil {
				marks[r.Address] = append(marks[r.Address], r.Change.BeforeSensitive, r.Change.AfterSensitive)
			}
		}
	}

	for _, changes := range [][]*tfjson.ResourceChange{plan.ResourceChanges, plan.ResourceDrift} {
		for _, r := range changes {
			maskChange(r.Change, marks[r.Address])
		}
	}

	for _, change := range plan.OutputChanges {
		maskChange(change, []any{change.BeforeSensitive, change.AfterSensitive})
	}

	maskValues(plan.PlannedValues, marks)

	if plan.PriorState != nil {
		maskValues(plan.PriorState.Values, marks)
	}

	maskVariables(plan)
}

func maskChange(change *tfjson.Change, marks []any) {
	if change == nil {
		return
	}

	for _, mark := range marks {
		change.Before, change.After = maskParts(change.Before, mark), maskParts(change.After, mark)
	}
}

// maskValues masks the sensitive values of resources and outputs in a state.
func maskValues(values *tfjson.StateValues, marks map[string][]any) {
	if values == nil {
		return
	}

	for _, output := range values.Outputs {
		output.Value = maskParts(output.Value, output.Sensitive)
	}

	maskModule(values.RootModule, marks)
}

func maskModule(module *tfjson.StateModule, marks map[string][]any) {
	if module == nil {
		return
	}

	for _, r := range module.Resources {
		var own any
		if json.Unmarshal(r.SensitiveValues, &own) != nil {
			own = nil
		}

		for _, mark := range append(marks[r.Address], own) {
			r.AttributeValues, _ = maskParts(r.AttributeValues, mark).(map[string]any)
		}
	}

	for _, child := range module.ChildModules {
		maskModule(child, marks)
	}
}

// maskVariables masks all variables except those declared as not sensitive.
func maskVariables(plan *tfjson.Plan) {
	for name, variable := range plan.Variables {
		if plan.Config == nil || plan.Config.RootModule == nil || plan.Config.RootModule.Variables[name] == nil ||
			plan.Config.RootModule.Variables[name].Sensitive {
			variable.Value = maskedValue
		}
	}
}

// maskParts returns a value with its sensitive parts masked: all of it, or the parts at the places of the marks.
func maskParts(value, mark any) any {
	switch mark := mark.(type) {
	case bool:
		if mark && value != nil {
			return maskedValue
		}
	case map[string]any:
		fields, _ := value.(map[string]any)
		for name, of := range mark {
			if inner, found := fields[name]; found {
				fields[name] = maskParts(inner, of)
			}
		}
	case []any:
		items, _ := value.([]any)
		for i, of := range mark {
			if i < len(items) {
				items[i] = maskParts(items[i], of)
			}
		}
	}

	return value
}
