package tfstate

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// userDataAttribute is the resource attribute with the user data of a VM.
const userDataAttribute = "initialization_custom_script"

// removeUserData returns the state without the user data of its VMs, and with the next serial. It returns nil if the
// state has no user data.
func removeUserData(raw []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()

	var state map[string]any
	if err := decoder.Decode(&state); err != nil {
		return nil, fmt.Errorf("failed to read the state: %w", err)
	}

	found := false

	resources, _ := state["resources"].([]any)
	for _, resource := range resources {
		fields, _ := resource.(map[string]any)
		instances, _ := fields["instances"].([]any)

		for _, instance := range instances {
			fields, _ := instance.(map[string]any)
			attributes, _ := fields["attributes"].(map[string]any)

			if text, _ := attributes[userDataAttribute].(string); text != "" {
				attributes[userDataAttribute] = nil
				found = true
			}
		}
	}

	if !found {
		return nil, nil
	}

	serial, _ := state["serial"].(json.Number)

	current, err := serial.Int64()
	if err != nil {
		return nil, fmt.Errorf("failed to read the serial of the state: %w", err)
	}

	state["serial"] = current + 1

	out, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("failed to encode the state: %w", err)
	}

	return out, nil
}
