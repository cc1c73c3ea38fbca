package plaintext

import (
	"fmt"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestWhatAReaderDoesNotSeeIsShown has characters from each table of unseen characters.
func TestWhatAReaderDoesNotSeeIsShown(t *testing.T) {
	for _, hidden := range []string{"\u202e", "\u2066", "\u200b", "\ufeff", "\u00ad", "\u2028", "\x1b", "\u009b", "\x7f", "\r", "\ufe0f",
		"\u3164", "\u115f", "\uffa0", "\u2800", "\u034f", "\U000e0041", "\ue000", "\u17b4"} {
		check.Equal(t, fmt.Sprintf("%+q", hidden), Printable("a"+hidden+"b"), "a\ufffdb")
	}

	check.Equal(t, "a name", Printable("Zürich-東京 1"), "Zürich-東京 1")
}
