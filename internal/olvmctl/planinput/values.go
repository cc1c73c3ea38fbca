package planinput

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// AsMap returns an object in its JSON form.
func AsMap(from any) map[string]any {
	text, err := json.Marshal(from)
	if err != nil {
		panic(fmt.Sprintf("failed to encode %T: %v", from, err)) // an API type
	}

	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		panic(fmt.Sprintf("failed to decode %T: %v", from, err))
	}

	return out
}

// FirstDifference returns the first path of asked without an equal value in there, or "". Additional values in there
// are defaults.
func FirstDifference(asked, there any, path string) string {
	switch asked := asked.(type) {
	case map[string]any:
		live, _ := there.(map[string]any)

		for _, key := range slices.Sorted(maps.Keys(asked)) {
			if found := FirstDifference(asked[key], live[key], path+"."+key); found != "" {
				return found
			}
		}

		return ""
	case []any:
		live, _ := there.([]any)
		if len(asked) != len(live) {
			return path
		}

		for i := range asked {
			if found := FirstDifference(asked[i], live[i], fmt.Sprintf("%s[%d]", path, i)); found != "" {
				return found
			}
		}

		return ""
	case nil:
		return ""
	}

	if fmt.Sprint(asked) != fmt.Sprint(there) && (there != nil || fmt.Sprint(asked) != "") {
		return path
	}

	return ""
}
