package planinput

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestATextIsNotTheNumberThatItLooksLike compares values decoded from YAML and from JSON.
func TestATextIsNotTheNumberThatItLooksLike(t *testing.T) {
	for name, test := range map[string]struct {
		asked, there any
		want         string
	}{
		"text and number":             {"1", int64(1), "x"},
		"number and text":             {int64(1), "1", "x"},
		"float and text":              {1.5, "1.5", "x"},
		"boolean and text":            {true, "true", "x"},
		"text and boolean":            {"false", false, "x"},
		"text and nothing":            {"<nil>", nil, "x"},
		"text and list":               {"[]", []any{}, "x"},
		"text and map":                {"map[]", map[string]any{}, "x"},
		"zero and nothing":            {int64(0), nil, "x"},
		"integer and float":           {int64(10000000), float64(10000000), ""},
		"other numbers":               {int64(2), int64(3), "x"},
		"large numbers":               {int64(9007199254740993), int64(9007199254740992), "x"},
		"same text":                   {"a", "a", ""},
		"empty text and nothing":      {"", nil, ""},
		"text below a list and a map": {[]any{map[string]any{"a": "1"}}, []any{map[string]any{"a": int64(1)}}, "x[0].a"},
	} {
		check.Equal(t, name, FirstDifference(test.asked, test.there, "x"), test.want)
	}
}
