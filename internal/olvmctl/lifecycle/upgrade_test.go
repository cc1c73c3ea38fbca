package lifecycle

import (
	"strings"
	"testing"
)

func TestUpgradable(t *testing.T) {
	for _, test := range []struct{ from, to, want string }{
		{"v1.33.5", "v1.34.1", ""}, {"v1.33.5", "v1.33.6", ""}, {"v1.33.5", "v1.33.5", ""},
		{"v1.33.5", "v1.35.0", "more than one minor version; upgrade to v1.34 first"},
		{"v1.33.5", "v1.33.4", "cannot downgrade"},
		{"v1.33.5", "v2.0.0", "more than one minor version"},
	} {
		err := checkUpgrade(test.from, test.to)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("from %s to %s: %v, want %q", test.from, test.to, err, test.want)
		}
	}
}
