package testenv

import "testing"

// SkipInShort skips a test in short mode, which make test uses; make test-all runs the test. why says what makes it too
// expensive for each change.
func SkipInShort(t testing.TB, why string) {
	t.Helper()

	if testing.Short() {
		t.Skip("only in make test-all: " + why)
	}
}
