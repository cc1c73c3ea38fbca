package clusterfile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing/addressrange"
)

const serviceLoadBalancers = "providers.olvm.serviceLoadBalancers.ipAddresses"

// WantsLoadBalancers reports whether Services of type LoadBalancer should get addresses.
func (s *Source) WantsLoadBalancers() bool {
	return s.Providers.OLVM.ServiceLoadBalancers.IPAddresses != ""
}

// LoadBalancers returns the manifests that give addresses to Services of type LoadBalancer. They are for the workload
// cluster.
func (s *Source) LoadBalancers() ([]*unstructured.Unstructured, error) {
	var ranges []string

	for _, text := range splitList(s.Providers.OLVM.ServiceLoadBalancers.IPAddresses) {
		one, err := addressRange(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", serviceLoadBalancers, err)
		}

		ranges = append(ranges, one.String())
	}

	return addOnManifests("load-balancers", map[string]string{"SERVICE_ADDRESSES": strings.Join(ranges, ",")})
}

// addressRange parses a range in the format used for the ranges of machines.
func addressRange(text string) (netipx.IPRange, error) {
	out, err := addressrange.ParseRange(text)
	if err != nil {
		return out, fmt.Errorf("%q is not an address, a range or a CIDR block; use for example "+
			"10.20.30.40-10.20.30.49", text)
	}

	return out, nil
}

// checkLoadBalancers checks the addresses of Services. They must be in the subnet of the machines, because the machines
// announce them. No other host may have them.
func (s *Source) checkLoadBalancers() {
	for _, text := range splitList(s.Providers.OLVM.ServiceLoadBalancers.IPAddresses) {
		wanted, err := addressRange(text)
		if err != nil {
			s.noteProblem(false, serviceLoadBalancers, "%v", err)
			continue
		}

		hasFamily := func(pods string) bool {
			network, err := netip.ParsePrefix(pods)
			return err == nil && network.Addr().Is4() == wanted.From().Is4()
		}
		if !slices.ContainsFunc(s.PodNetworks(), hasFamily) {
			s.noteProblem(
				false, serviceLoadBalancers,
				"podSubnet (%[2]s) has no network of the IP family of %[1]s; use an address of the other IP family",
				wanted,
				s.PodSubnet,
			)
			continue
		}

		s.checkReachable(wanted)
		s.checkOthersAddresses(wanted)
	}
}

// checkReachable checks that the machines can announce the addresses. Any node may announce an address, so it must be
// in the subnets of all nodes. A dual-stack file may omit the IPv6 subnet.
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
			s.noteProblem(
				false, serviceLoadBalancers, "%s must be in the subnet of %s (%s), whose machines announce it",
				wanted, strings.TrimSuffix(kind.prefix, "."), text,
			)
		}
	}
}

// checkOthersAddresses checks that no other part of the cluster uses the addresses.
func (s *Source) checkOthersAddresses(wanted netipx.IPRange) {
	if vip, err := netip.ParseAddr(s.VirtualIP); err == nil && wanted.Contains(vip) {
		s.noteProblem(false, serviceLoadBalancers, "%s contains virtualIp (%s)", wanted, vip)
	}

	if ingress, err := netip.ParseAddr(s.Providers.OLVM.IngressVirtualIP); err == nil && wanted.Contains(ingress) {
		s.noteProblem(false, serviceLoadBalancers, "%s contains ingressVirtualIp (%s)", wanted, ingress)
	}

	for _, kind := range s.machineKinds() {
		network := kind.machine.VirtualMachine.Network
		s.checkGateways(network, wanted)

		for _, text := range append(splitList(network.IPv4.IPAddresses), splitList(network.IPv6.IPAddresses)...) {
			if used, err := addressRange(text); err == nil && used.Overlaps(wanted) {
				s.noteProblem(
					false, serviceLoadBalancers, "%s overlaps with the machine addresses %s (%s)", wanted, used,
					kind.prefix+"virtualMachine.network",
				)
			}
		}
	}
}

// checkGateways checks that no address in the range is a router of a network. The default IPv4 gateway is the first
// address of the subnet.
func (s *Source) checkGateways(network GuestNetwork, wanted netipx.IPRange) {
	var gateways []netip.Addr

	own := s.addressFamily(network)
	if pool, err := own.newPool(splitList(own.addresses)...); err == nil {
		gateways = append(gateways, pool.Gateway)
	}

	if gateway, err := netip.ParseAddr(network.IPv6.Gateway); err == nil {
		gateways = append(gateways, gateway)
	}

	for _, gateway := range gateways {
		if wanted.Contains(gateway) {
			s.noteProblem(false, serviceLoadBalancers, "%s contains the gateway %s", wanted, gateway)
			return
		}
	}
}
