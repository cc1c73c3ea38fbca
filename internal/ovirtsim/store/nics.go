package store

import (
	"fmt"
	"net/netip"
)

// LeaseAddress returns the DHCP lease of a MAC address on a network. The lease stays the same as long as there are
// enough addresses.
func (s *Store) LeaseAddress(n *Network, mac string) string {
	if n.DHCP == nil || mac == "" {
		return ""
	}

	if known := n.Leases[mac]; known != "" {
		return known
	}

	used := map[string]bool{}
	for holder, address := range n.Leases {
		used[address] = holder != mac
	}

	first, last := netip.MustParseAddr(n.DHCP.First), netip.MustParseAddr(n.DHCP.Last)
	for at := first; at.IsValid() && at.Compare(last) <= 0; at = at.Next() {
		if address := fmt.Sprintf("%s/%d", at, n.DHCP.Bits); !used[address] {
			if n.Leases == nil {
				n.Leases = map[string]string{}
			}

			n.Leases[mac] = address
			s.Networks.Put(n.ID, n)

			return address
		}
	}

	return ""
}

// ReleaseLeases releases the leases of a MAC address after the deletion of its VM.
func (s *Store) ReleaseLeases(mac string) {
	for _, n := range s.Networks.Rows {
		if _, had := n.Leases[mac]; had {
			delete(n.Leases, mac)
			s.Networks.Put(n.ID, n)
		}
	}
}
