package testenv

import "testing"

// SkipInShort skips a test in short mode, as in make test; make test-all runs the test. why explains the test's cost.
func SkipInShort(t testing.TB, why string) {
	t.Helper()

	if testing.Short() {
		t.Skip("only in make test-all: " + why)
	}
}
