package addressrange

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// newSet returns a set of the same address family as its ranges.
func newSet(subnet, gateway string, ranges []string) (*Set, error) {
	if strings.Contains(strings.Join(ranges, ""), ":") {
		return NewIPv6(subnet, gateway, ranges)
	}

	return NewIPv4(subnet, gateway, ranges)
}

func TestFreeGivesTheLowestAddressThatIsNotInUse(t *testing.T) {
	tests := map[string]struct {
		subnet, gateway string
		ranges          []string
		inUse           []string
		want            string
	}{
		"a single address": {
			"10.0.0.0/24",
			"",
			[]string{"10.0.0.9"},
			nil,
			"10.0.0.9/24 via 10.0.0.1",
		},
		"ranges in any order": {
			"10.0.0.0/24",
			"",
			[]string{"10.0.0.30-10.0.0.40", "10.0.0.20"},
			nil,
			"10.0.0.20/24 via 10.0.0.1",
		},
		"what is in use is passed over": {
			"10.0.0.0/24",
			"",
			[]string{"10.0.0.20-10.0.0.22"},
			[]string{"10.0.0.20", "10.0.0.21"},
			"10.0.0.22/24 via 10.0.0.1",
		},
		"a block starts at the address that is written": {
			"10.20.30.0/24",
			"",
			[]string{"10.20.30.161/30"},
			nil,
			"10.20.30.161/24 via 10.20.30.1",
		},
		"the network address is no machine's": {
			"10.0.0.0/24",
			"",
			[]string{"10.0.0.0/24"},
			nil,
			"10.0.0.2/24 via 10.0.0.1",
		},
		"the gateway is no machine's": {
			"10.0.0.0/24",
			"10.0.0.5",
			[]string{"10.0.0.5-10.0.0.6"},
			nil,
			"10.0.0.6/24 via 10.0.0.5",
		},
		"overlapping ranges count once": {
			"10.0.0.0/24",
			"",
			[]string{"10.0.0.7", "10.0.0.7-10.0.0.8"},
			[]string{"10.0.0.7"},
			"10.0.0.8/24 via 10.0.0.1",
		},
		"IPv6 without a subnet": {
			"",
			"",
			[]string{"fd00::5-fd00::9"},
			[]string{"fd00::5"},
			"fd00::6/64 via invalid IP",
		},
		"IPv6 with a subnet and a gateway": {
			"fd00::/48",
			"fd00::1",
			[]string{"fd00::1-fd00::9"},
			nil,
			"fd00::2/48 via fd00::1",
		},
		"IPv6 with a link-local gateway": {
			"fd00::/64",
			"fe80::1",
			[]string{"fd00::a"},
			nil,
			"fd00::a/64 via fe80::1",
		},
		"the anycast address of the routers": {
			"fd00::/64",
			"",
			[]string{"fd00::/64"},
			nil,
			"fd00::1/64 via invalid IP",
		},
		"the same without a subnet": {
			"",
			"",
			[]string{"fd00::/64"},
			nil,
			"fd00::1/64 via invalid IP",
		},
		"IPv6 in other words": {
			"fd00::/64",
			"",
			[]string{"fd00:0:0::a-fd00::b"},
			[]string{"fd00:0::000a"},
			"fd00::b/64 via invalid IP",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			set, err := newSet(test.subnet, test.gateway, test.ranges)
			if err != nil {
				t.Fatal(err)
			}

			free, err := set.LowestFree(ParseAll(test.inUse))
			if got := set.ToAddress(
				free,
			); err != nil ||
				got.Prefix.String()+" via "+got.Gateway.String() != test.want {
				t.Fatalf("got %+v, %v; want %s", got, err, test.want)
			}
		})
	}
}

func TestExhaustion(t *testing.T) {
	for name, test := range map[string]struct {
		subnet string
		want   int
	}{
		"eight addresses less network, broadcast and gateway": {"10.0.0.0/29", 5},
		"eight addresses less that of all routers":            {"fd00::/125", 7},
		"two addresses of a link, one of them the gateway's":  {"10.0.0.0/31", 1},
		"two addresses of a link":                             {"fd00::/127", 2},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := newSet(test.subnet, "", []string{test.subnet})
			if err != nil {
				t.Fatal(err)
			}

			var used []netip.Addr
			for {
				address, err := set.LowestFree(used)
				if errors.Is(err, ErrExhausted) {
					break
				}

				if err != nil || address.Is4() != set.Is4() {
					t.Fatal(address, err)
				}

				used = append(used, address)
			}

			if len(used) != test.want || set.Size().Int64() != int64(test.want) {
				t.Fatalf("gave %d addresses, size is %d, want %d", len(used), set.Size(), test.want)
			}
		})
	}

	huge, err := NewIPv6("fd00::/64", "", []string{"fd00::/64"})
	if err != nil {
		t.Fatal(err)
	}

	if huge.Size().String() != "18446744073709551615" {
		t.Fatalf("a /64 has %s addresses", huge.Size())
	}
}

func TestBadInputNamesTheField(t *testing.T) {
	tests := map[string]struct {
		subnet, gateway string
		ranges          []string
		field           string
	}{
		"subnet without length":    {"10.0.0.0", "", []string{"10.0.0.5"}, "ipv4.subnet"},
		"subnet of the other kind": {"fd00::/64", "", []string{"10.0.0.5"}, "ipv4.subnet"},
		"no subnet":                {"", "", []string{"10.0.0.5"}, "ipv4.subnet"},
		"gateway elsewhere":        {"10.0.0.0/24", "10.0.1.1", []string{"10.0.0.5"}, "gateway"},
		"address elsewhere":        {"10.0.0.0/24", "", []string{"10.0.0.5", "10.0.1.5"}, "ipv4.ipAddresses[1]"},
		"range backwards":          {"10.0.0.0/24", "", []string{"10.0.0.9-10.0.0.5"}, "ipv4.ipAddresses[0]"},
		"no address":               {"10.0.0.0/24", "", []string{"ten"}, "ipv4.ipAddresses[0]"},
		"only the gateway":         {"10.0.0.0/24", "", []string{"10.0.0.1"}, "ipv4.ipAddresses"},
		"IPv4 subnet for IPv6":     {"10.0.0.0/24", "", []string{"fd00::5"}, "ipv6.subnet"},
		"IPv6 elsewhere":           {"fd00::/64", "", []string{"fd01::5"}, "ipv6.ipAddresses[0]"},
		"IPv4 in IPv6":             {"", "", []string{"::ffff:10.0.0.5"}, "ipv6.ipAddresses[0]"},
		"IPv6 with a zone":         {"", "", []string{"fe80::5%eth0"}, "ipv6.ipAddresses[0]"},
		"IPv6 gateway elsewhere":   {"fd00::/64", "fd01::1", []string{"fd00::5"}, "ipv6.gateway"},
		"IPv6 gateway of IPv4":     {"", "10.0.0.1", []string{"fd00::5"}, "ipv6.gateway"},
		"a range of two families":  {"fd00::/64", "", []string{"10.0.0.5-fd00::9"}, "ipv6.ipAddresses[0]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := newSet(test.subnet, test.gateway, test.ranges)
			var field *FieldError
			if !errors.As(err, &field) || field.Field != test.field {
				t.Fatalf("got %v, want an error of %s", err, test.field)
			}
		})
	}
}

func FuzzNewPool(f *testing.F) {
	f.Add("10.0.0.0/24", "10.0.0.1", "10.0.0.5-10.0.0.9,10.0.0.16/28")
	f.Add("0.0.0.0/0", "", "0.0.0.0/0")
	f.Add("10.0.0.0/32", "", "10.0.0.0")
	f.Add("fd00::/64", "fe80::1", "fd00::/64")
	f.Add("", "", "::/0")
	f.Fuzz(func(t *testing.T, subnet, gateway, ranges string) {
		set, err := newSet(subnet, gateway, strings.Split(ranges, ","))
		if err != nil {
			return
		}

		free, err := set.LowestFree(nil)
		got := set.ToAddress(free)
		check.Error(t, err, "")
		if got.Addr() == set.Gateway {
			t.Errorf("got.Addr() == set.Gateway: %v", got.Addr())
		}

		check.Equal(t, "set.Contains(free)", set.Contains(free), true)
		check.Equal(t, "got.Is4()", got.Is4(), set.Is4())
		if set.Size().Sign() <= 0 {
			t.Errorf("set.Size().Sign() <= 0: %v", set.Size().Sign())
		}

		check.Equal(t, "got.Prefix.IsValid()", got.Prefix.IsValid(), true)
		if t.Failed() {
			t.FailNow()
		}
	})
}
