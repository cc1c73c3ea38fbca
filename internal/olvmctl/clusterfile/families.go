package clusterfile

import (
	"net/netip"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing/addressrange"
)

// These are the default networks of an IPv6-only cluster.
const (
	defaultPodSubnet6     = "fd01::/48"
	defaultServiceSubnet6 = "fd02::/112"
)

// family has the network settings of machines in the address family of the cluster's endpoint.
type family struct {
	// field is the key of these settings in the network of the machines.
	field string
	// subnet, gateway and addresses have the values in the file.
	subnet, gateway, addresses string
	pool                       func(subnet, gateway string, ranges []string) (*addressrange.Set, error)
}

// isIPv6Only reports whether the cluster uses only IPv6. Its endpoint is then an IPv6 address. A dual-stack cluster has
// an IPv4 endpoint.
func (f *File) isIPv6Only() bool {
	vip, err := netip.ParseAddr(f.VirtualIP)

	return err == nil && vip.Is6() && !vip.Is4In6()
}

// addressFamily returns the network settings in the address family that the machines use among themselves.
func (f *File) addressFamily(n GuestNetwork) family {
	if f.isIPv6Only() {
		return family{"ipv6", n.IPv6.Subnet, n.IPv6.Gateway, n.IPv6.IPAddresses, addressrange.NewIPv6}
	}

	return family{"ipv4", n.IPv4.Subnet, n.Gateway, n.IPv4.IPAddresses, addressrange.NewIPv4}
}

// newPool returns a pool of the addresses.
func (a family) newPool(ranges ...string) (*addressrange.Set, error) {
	return a.pool(a.subnet, a.gateway, ranges)
}

// machineNetworks returns the network settings in the form of an OLVMMachine.
func (n *GuestNetwork) machineNetworks() (v4 *infrav1.IPv4Network, v6 *infrav1.IPv6Network) {
	if n.IPv4.Subnet != "" || n.IPv4.IPAddresses != "" {
		v4 = &infrav1.IPv4Network{Subnet: n.IPv4.Subnet, IPAddresses: splitList(n.IPv4.IPAddresses)}
	}

	if n.IPv6.AutoConf || n.IPv6.IPAddresses != "" {
		v6 = &infrav1.IPv6Network{
			AutoConf:    n.IPv6.AutoConf,
			IPAddresses: splitList(n.IPv6.IPAddresses),
			Subnet:      n.IPv6.Subnet,
			Gateway:     n.IPv6.Gateway,
		}
	}

	return v4, v6
}
