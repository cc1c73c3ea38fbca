package testenv

import "testing"

// SkipInShort skips a test in short mode, as in make test. The command make test-all runs the test. The parameter why
// explains the cost of the test.
func SkipInShort(t testing.TB, why string) {
	t.Helper()

	if testing.Short() {
		t.Skip("only in make test-all: " + why)
	}
}
