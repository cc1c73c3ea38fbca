package planinput

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// AsMap returns the JSON form of an object.
func AsMap(from any) map[string]any {
	text, err := json.Marshal(from)
	if err != nil {
		panic(fmt.Sprintf("failed to encode %T: %v", from, err)) // only API types, which can be encoded
	}

	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		panic(fmt.Sprintf("failed to decode %T: %v", from, err))
	}

	return out
}

// FirstDifferenceOfSpecs returns the first path below spec whose value differs between two specs, or "". A value in
// only one of them is a difference, too.
func FirstDifferenceOfSpecs(a, b any) string {
	return cmp.Or(FirstDifference(a, b, "spec"), FirstDifference(b, a, "spec"))
}

// FirstDifference returns the first path in asked whose value differs in there, or "". Values that only there has are
// defaults.
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

	if there == nil && asked == "" || isSameScalar(asked, there) {
		return ""
	}

	return path
}

// isSameScalar reports whether two values have the same kind and are equal. The text "1" is not equal to the number 1.
// One of two equal numbers may be an integer, and the other a float.
func isSameScalar(a, b any) bool {
	switch a.(type) {
	case string, bool:
		return a == b
	}

	switch b.(type) {
	case string, bool, nil:
		return false
	}

	if _, isInteger := a.(int64); isInteger {
		if _, isToo := b.(int64); isToo {
			return a == b
		}
	}

	x, isNumber := floatOf(a)
	y, isToo := floatOf(b)

	return fmt.Sprint(a) == fmt.Sprint(b) || isNumber && isToo && x == y
}

// floatOf returns a number decoded from JSON or YAML.
func floatOf(value any) (out float64, isNumber bool) {
	switch value := value.(type) {
	case int64:
		return float64(value), true
	case int:
		return float64(value), true
	case float64:
		return value, true
	}

	return 0, false
}
