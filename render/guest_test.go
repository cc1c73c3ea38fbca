package render

import (
	"net/netip"
	"testing"
)

func TestNetmask(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.5/29": "255.255.255.248",
		"10.0.0.5/0":  "0.0.0.0",
		"10.0.0.5/32": "255.255.255.255",
		"fd00::5/64":  "64",
	} {
		if got := (IP{Address: netip.MustParsePrefix(text)}).formatNetmask(); got != want {
			t.Errorf("%s has the netmask %s, want %s", text, got, want)
		}
	}
}
