package ipam

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestFreeGivesTheLowestAddressThatIsNotInUse(t *testing.T) {
	tests := map[string]struct {
		subnet, gateway string
		ranges          []string
		inUse           []string
		want            string
	}{
		"a single address":                              {"10.0.0.0/24", "", []string{"10.0.0.9"}, nil, "10.0.0.9"},
		"ranges in any order":                           {"10.0.0.0/24", "", []string{"10.0.0.30-10.0.0.40", "10.0.0.20"}, nil, "10.0.0.20"},
		"what is in use is passed over":                 {"10.0.0.0/24", "", []string{"10.0.0.20-10.0.0.22"}, []string{"10.0.0.20", "10.0.0.21"}, "10.0.0.22"},
		"a block starts at the address that is written": {"10.20.30.0/24", "", []string{"10.20.30.161/30"}, nil, "10.20.30.161"},
		"the network address is no machine's":           {"10.0.0.0/24", "", []string{"10.0.0.0/24"}, nil, "10.0.0.2"},
		"the gateway is no machine's":                   {"10.0.0.0/24", "10.0.0.5", []string{"10.0.0.5-10.0.0.6"}, nil, "10.0.0.6"},
		"overlapping ranges count once":                 {"10.0.0.0/24", "", []string{"10.0.0.7", "10.0.0.7-10.0.0.8"}, []string{"10.0.0.7"}, "10.0.0.8"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pool, err := NewPool(test.subnet, test.gateway, test.ranges)
			if err != nil {
				t.Fatal(err)
			}
			got, err := pool.Free(ParseAll(test.inUse))
			if err != nil || got.String() != test.want {
				t.Fatalf("got %s, %v; want %s", got, err, test.want)
			}
		})
	}
}

func TestExhaustion(t *testing.T) {
	pool, err := NewPool("10.0.0.0/29", "", []string{"10.0.0.0/29"})
	if err != nil {
		t.Fatal(err)
	}
	var used []netip.Addr
	for {
		address, err := pool.Free(used)
		if errors.Is(err, ErrExhausted) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		used = append(used, address)
	}
	// Eight addresses less network, broadcast and gateway.
	if len(used) != 5 || pool.Size() != 5 {
		t.Fatalf("gave %d addresses, size is %d", len(used), pool.Size())
	}
	if pool.Netmask() != "255.255.255.248" {
		t.Fatalf("netmask %s", pool.Netmask())
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
		"gateway elsewhere":        {"10.0.0.0/24", "10.0.1.1", []string{"10.0.0.5"}, "gateway"},
		"address elsewhere":        {"10.0.0.0/24", "", []string{"10.0.0.5", "10.0.1.5"}, "ipv4.ipAddresses[1]"},
		"range backwards":          {"10.0.0.0/24", "", []string{"10.0.0.9-10.0.0.5"}, "ipv4.ipAddresses[0]"},
		"no address":               {"10.0.0.0/24", "", []string{"ten"}, "ipv4.ipAddresses[0]"},
		"only the gateway":         {"10.0.0.0/24", "", []string{"10.0.0.1"}, "ipv4.ipAddresses"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := NewPool(test.subnet, test.gateway, test.ranges)
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
	f.Fuzz(func(t *testing.T, subnet, gateway, ranges string) {
		pool, err := NewPool(subnet, gateway, strings.Split(ranges, ","))
		if err != nil {
			return
		}
		address, err := pool.Free(nil)
		if err != nil || !pool.Subnet.Contains(address) || address == pool.Gateway || !pool.Contains(address) {
			t.Fatalf("pool of %q gave %s, %v", ranges, address, err)
		}
	})
}
