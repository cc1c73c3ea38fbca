package clusterfile

import (
	"net/netip"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ipam"
)

// The networks of a cluster that has IPv6 alone, where the file names none.
const (
	defaultPodSubnet6     = "fd01::/48"
	defaultServiceSubnet6 = "fd02::/112"
)

// family is what machines have of the family of addresses that a cluster is reached by.
type family struct {
	// field below network of the machine.
	field string
	// subnet, gateway and addresses as the file has them.
	subnet, gateway, addresses string
	pool                       func(subnet, gateway string, ranges []string) (*ipam.Pool, error)
}

// isIPv6Only reports whether the cluster has IPv6 alone: its endpoint is an address of IPv6, and dual stack has one of
// IPv4.
func (f *File) isIPv6Only() bool {
	vip, err := netip.ParseAddr(f.VirtualIP)

	return err == nil && vip.Is6() && !vip.Is4In6()
}

// family is that of the addresses by which the machines of a network reach each other.
func (f *File) family(n GuestNetwork) family {
	if f.isIPv6Only() {
		return family{"ipv6", n.IPv6.Subnet, n.IPv6.Gateway, n.IPv6.IPAddresses, ipam.NewIPv6}
	}

	return family{"ipv4", n.IPv4.Subnet, n.Gateway, n.IPv4.IPAddresses, ipam.NewIPv4}
}

// read makes the pool of the addresses.
func (a family) read(ranges ...string) (*ipam.Pool, error) {
	return a.pool(a.subnet, a.gateway, ranges)
}

// addresses of a network, as an OLVMMachine asks for them.
func (n *GuestNetwork) addresses() (v4 *infrav1.IPv4Network, v6 *infrav1.IPv6Network) {
	if n.IPv4.Subnet != "" || n.IPv4.IPAddresses != "" {
		v4 = &infrav1.IPv4Network{Subnet: n.IPv4.Subnet, IPAddresses: split(n.IPv4.IPAddresses)}
	}

	if n.IPv6.AutoConf || n.IPv6.IPAddresses != "" {
		v6 = &infrav1.IPv6Network{
			AutoConf:    n.IPv6.AutoConf,
			IPAddresses: split(n.IPv6.IPAddresses),
			Subnet:      n.IPv6.Subnet,
			Gateway:     n.IPv6.Gateway,
		}
	}

	return v4, v6
}
