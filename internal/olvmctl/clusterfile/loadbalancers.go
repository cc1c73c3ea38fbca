package clusterfile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ipam"
)

const serviceLoadBalancers = "providers.olvm.serviceLoadBalancers.ipAddresses"

// WantsLoadBalancers reports whether Services of type LoadBalancer are to get addresses.
func (s *Source) WantsLoadBalancers() bool {
	return s.Providers.OLVM.ServiceLoadBalancers.IPAddresses != ""
}

// LoadBalancers are the manifests of what gives Services of type LoadBalancer their addresses, for the cluster itself.
func (s *Source) LoadBalancers() ([]*unstructured.Unstructured, error) {
	var ranges []string

	for _, text := range split(s.Providers.OLVM.ServiceLoadBalancers.IPAddresses) {
		one, err := addressRange(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", serviceLoadBalancers, err)
		}

		ranges = append(ranges, one.String())
	}

	return addOnManifests("load-balancers", map[string]string{"SERVICE_ADDRESSES": strings.Join(ranges, ",")})
}

// addressRange reads what the ranges of machines may be, too.
func addressRange(text string) (netipx.IPRange, error) {
	out, err := ipam.ParseRange(text)
	if err != nil {
		return out, fmt.Errorf("%q is no address, no range a-b and no CIDR block", text)
	}

	return out, nil
}

// checkLoadBalancers checks that the addresses of Services are in the subnet of machines, which announce them, and that
// nobody else has them.
func (s *Source) checkLoadBalancers() {
	for _, text := range split(s.Providers.OLVM.ServiceLoadBalancers.IPAddresses) {
		wanted, err := addressRange(text)
		if err != nil {
			s.note(false, serviceLoadBalancers, "%v", err)
			continue
		}

		hasFamily := func(pods string) bool {
			network, err := netip.ParsePrefix(pods)
			return err == nil && network.Addr().Is4() == wanted.From().Is4()
		}
		if !slices.ContainsFunc(s.PodNetworks(), hasFamily) {
			s.note(false, serviceLoadBalancers, "%s is of a family that podSubnet (%s) has no network of", wanted,
				s.PodSubnet)
			continue
		}

		s.checkReachable(wanted)
		s.checkOthersAddresses(wanted)
	}
}

// checkReachable checks that machines can announce addresses: any node may hold one, so that it is in the subnets of
// all. Of dual stack, a file need not have the subnet of IPv6.
func (s *Source) checkReachable(wanted netipx.IPRange) {
	for _, kind := range s.machineKinds() {
		text := kind.machine.VirtualMachine.Network.IPv6.Subnet
		if wanted.From().Is4() {
			text = kind.machine.VirtualMachine.Network.IPv4.Subnet
		}

		subnet, err := netip.ParsePrefix(text)
		known := err == nil

		switch subnet = subnet.Masked(); {
		case known && subnet.Contains(wanted.From()) && subnet.Contains(wanted.To()):
		case known || wanted.From().Is4() && s.isIPv6Only():
			s.note(false, serviceLoadBalancers, "%s is not in the subnet of the machines of %s (%s), which announce it",
				wanted, strings.TrimSuffix(kind.prefix, "."), text)
		}
	}
}

// checkOthersAddresses checks that addresses are no others of the cluster.
func (s *Source) checkOthersAddresses(wanted netipx.IPRange) {
	if vip, err := netip.ParseAddr(s.VirtualIP); err == nil && wanted.Contains(vip) {
		s.note(false, serviceLoadBalancers, "%s has virtualIp, %s", wanted, vip)
	}

	if ingress, err := netip.ParseAddr(s.Providers.OLVM.IngressVirtualIP); err == nil && wanted.Contains(ingress) {
		s.note(false, serviceLoadBalancers, "%s has ingressVirtualIp, %s", wanted, ingress)
	}

	for _, kind := range s.machineKinds() {
		network := kind.machine.VirtualMachine.Network
		s.checkGateways(network, wanted)

		for _, text := range append(split(network.IPv4.IPAddresses), split(network.IPv6.IPAddresses)...) {
			if used, err := addressRange(text); err == nil && used.Overlaps(wanted) {
				s.note(false, serviceLoadBalancers, "%s overlaps with the addresses of machines %s (%s)", wanted, used,
					kind.prefix+"virtualMachine.network")
			}
		}
	}
}

// checkGateways checks that addresses are no routers of a network. The one of IPv4 has the first address where none is
// written.
func (s *Source) checkGateways(network GuestNetwork, wanted netipx.IPRange) {
	var gateways []netip.Addr

	own := s.family(network)
	if pool, err := own.read(split(own.addresses)...); err == nil {
		gateways = append(gateways, pool.Gateway)
	}

	if gateway, err := netip.ParseAddr(network.IPv6.Gateway); err == nil {
		gateways = append(gateways, gateway)
	}

	for _, gateway := range gateways {
		if wanted.Contains(gateway) {
			s.note(false, serviceLoadBalancers, "%s has the gateway %s", wanted, gateway)
			return
		}
	}
}
