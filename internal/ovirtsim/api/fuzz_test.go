package api

import "testing"

// FuzzSearch verifies that the parser rejects a query, or that the engine can apply it.
func FuzzSearch(f *testing.F) {
	for _, seed := range []string{"name=a*", `name="a b" and status!=up or tag=x sortby name desc page 2`, "Vms: a",
		`"`, "= =", "and", "name=\\"} {
		f.Add(seed)
	}

	of := fields[string]{"name": singleValue(func(s string) string { return s })}
	f.Fuzz(func(_ *testing.T, text string) {
		if q, err := parseSearch(text); err == nil && q.usesKnownFields(of) {
			_ = applyQuery(q, []string{"a", "b"}, of)
		}
	})
}
