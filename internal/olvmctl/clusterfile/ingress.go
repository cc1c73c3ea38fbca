package clusterfile

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing/addressrange"
)

// These are the paths of the keys.
const (
	ingressVirtualIP = "providers.olvm.ingressVirtualIp"
	baseDomain       = "providers.olvm.baseDomain"
)

// maxDomain is the CRD's limit for the length of a cluster's domain.
const maxDomain = 200

// topLevel matches a name that ends with a numeric label, such as an IP address.
var topLevel = regexp.MustCompile(`[.][0-9]+$`)

// Domain returns the domain of the cluster: its name, followed by the base domain. It returns "" without a base domain.
func (s *Source) Domain() string {
	if s.Providers.OLVM.BaseDomain == "" {
		return ""
	}

	return s.Name + "." + s.Providers.OLVM.BaseDomain
}

// addNames adds the ingress address and the domain of the cluster to its services.
func (s *Source) addNames(services *infrav1.ControlPlaneServices) {
	if _, err := netip.ParseAddr(s.Providers.OLVM.IngressVirtualIP); err == nil {
		services.IngressVirtualIP = s.Providers.OLVM.IngressVirtualIP
	}

	if domain := s.Domain(); domain != "" {
		services.DNS = &infrav1.ClusterDNS{Domain: domain}
	}
}

// onlyNames returns those services that only the cluster file can configure. A flavor without Ignition has its own
// values for the other services. It returns nil if the file configures none.
func onlyNames(services object) object {
	out := object{}

	for _, field := range []string{"ingressVirtualIP", "dns"} {
		if value, ok := services[field]; ok {
			out[field] = value
		}
	}

	if len(out) == 0 {
		return nil
	}

	return out
}

// certificateNames returns the names in the certificates of the API servers: those of the flavor, and that of the
// cluster.
func (s *Source) certificateNames(objects []*unstructured.Unstructured) []any {
	domain := s.Domain()
	if domain == "" {
		return nil
	}

	var out []any

	for _, o := range objects {
		if o.GetKind() == "KubeadmControlPlane" {
			out, _, _ = unstructured.NestedSlice(o.Object, "spec", "kubeadmConfigSpec", "clusterConfiguration",
				"apiServer", "certSANs")
		}
	}

	for _, name := range []any{"api." + domain, "api-int." + domain} {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}

	return out
}

// checkDomain adds a problem if the base domain is invalid.
func (s *Source) checkDomain() {
	domain := s.Providers.OLVM.BaseDomain
	if domain == "" {
		return
	}

	switch problems := validation.IsDNS1123Subdomain(domain); {
	case len(problems) > 0 || topLevel.MatchString("."+domain):
		s.noteProblem(
			false,
			baseDomain,
			"invalid domain %q; use lower case letters, digits, hyphens and dots, such as example.com",
			domain,
		)
	case len(s.Domain()) > maxDomain:
		s.noteProblem(
			false,
			baseDomain,
			"the domain with the name of the cluster has %d characters; use a shorter domain, so that it has at "+
				"most %d",
			len(s.Domain()),
			maxDomain,
		)
	}
}

// ingressAddress returns the ingress address. For a missing or invalid address, it returns the zero value. It adds a
// problem for an invalid one.
func (s *Source) ingressAddress() netip.Addr {
	text := s.Providers.OLVM.IngressVirtualIP
	if text == "" {
		return netip.Addr{}
	}

	address, err := netip.ParseAddr(text)
	vip, vipErr := netip.ParseAddr(s.VirtualIP)

	switch {
	case err != nil || address.Zone() != "" || address.Is4In6():
		s.noteProblem(
			false,
			ingressVirtualIP,
			"invalid IP address %q; use a free address for a node with ingress, such as 10.20.30.6",
			text,
		)

		return netip.Addr{}
	case vipErr == nil && vip == address:
		s.noteProblem(false, ingressVirtualIP, "%s is the same as virtualIp; use different addresses", address)
	}

	return address
}

// checkIngress checks whether nodes of a kind can hold the ingress address.
func (s *Source) checkIngress(kind machineKind, pool *addressrange.Set, address netip.Addr) {
	s.checkVirtualIP(kind, pool, address, ingressVirtualIP)

	network := kind.machine.VirtualMachine.Network
	if address.Is4() && network.IPv4.IPAddresses == "" || address.Is6() && network.IPv6.IPAddresses == "" {
		s.noteProblem(
			false,
			ingressVirtualIP,
			"%s has an IP family without ipAddresses in %s; use an address of the other IP family",
			address,
			kind.prefix+"virtualMachine.network",
		)
	}
}

// checkIngressSubnet warns about an ingress address outside the subnet of the machines.
func (s *Source) checkIngressSubnet(kind machineKind, address netip.Addr) {
	subnet, err := netip.ParsePrefix(s.addressFamily(kind.machine.VirtualMachine.Network).subnet)
	if err == nil && address.IsValid() && address.Is4() == subnet.Addr().Is4() && !subnet.Contains(address) {
		s.noteProblem(
			true,
			ingressVirtualIP,
			"%s is not in the subnet %s of %s, whose nodes may hold the address: clients reach it only if a router "+
				"routes it to the network of the nodes",
			address,
			subnet.Masked(),
			strings.TrimSuffix(kind.prefix, "."),
		)
	}
}
