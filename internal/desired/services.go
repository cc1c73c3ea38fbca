package desired

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// These are the providers of the control plane endpoint, and the defaults of controlPlaneServices.
const (
	kubeVIP        = "KubeVIP"
	keepalived     = "Keepalived"
	noLoadBalancer = "None"

	defaultKubeVIPImage = "ghcr.io/kube-vip/kube-vip:v0.9.1"
	defaultCoreDNSImage = "registry.k8s.io/coredns/coredns:v1.12.1"
)

// DefaultEndpointPort is the port of the control plane endpoint if none is set.
const DefaultEndpointPort = 6443

// ValidateServices checks the services of a cluster as far as they do not depend on its machines.
func ValidateServices(cluster infrav1.OLVMClusterSpec) error {
	services := cluster.ControlPlaneServices
	if services == nil {
		return nil
	}

	for _, check := range []func(infrav1.OLVMClusterSpec) error{
		checkEndpointHolder, checkAPIServerPort, checkVirtualAddresses, checkKubeVIPLease, checkDNS,
	} {
		if err := check(cluster); err != nil {
			return err
		}
	}

	return nil
}

func newServicesError(field, format string, args ...any) error {
	return blocker.New(infrav1.ControlPlaneServicesInvalidReason, field, format, args...)
}

// checkEndpointHolder checks that the endpoint is an IP address if a node holds it.
func checkEndpointHolder(cluster infrav1.OLVMClusterSpec) error {
	holder := cluster.ControlPlaneServices.VirtualIPProvider
	_, err := netip.ParseAddr(cluster.ControlPlaneEndpoint.Host)
	if err == nil || holder != kubeVIP && holder != keepalived {
		return nil
	}

	return newServicesError("spec.controlPlaneEndpoint.host",
		"%q is not an IP address, so %s cannot assign it to a node; use one, or set "+
			"controlPlaneServices.virtualIPProvider to External",
		cluster.ControlPlaneEndpoint.Host, holder)
}

// checkAPIServerPort checks that the load balancer and the API server listen on different ports.
func checkAPIServerPort(cluster infrav1.OLVMClusterSpec) error {
	services := cluster.ControlPlaneServices
	port := cmp.Or(services.APIServerPort, bootstrap.DefaultAPIServerPort)
	if services.LoadBalancerProvider == "" || services.LoadBalancerProvider == noLoadBalancer ||
		port != cmp.Or(cluster.ControlPlaneEndpoint.Port, DefaultEndpointPort) {
		return nil
	}

	return newServicesError("spec.controlPlaneServices.apiServerPort",
		"the load balancer itself listens on port %d; choose another port", port)
}

// checkVirtualAddresses checks that each address occurs only once, and that an additional address has the other family.
func checkVirtualAddresses(cluster infrav1.OLVMClusterSpec) error {
	services := cluster.ControlPlaneServices
	addresses := map[netip.Addr]string{}
	var first netip.Addr

	for _, each := range []struct {
		field, text string
		additional  bool
	}{
		{"controlPlaneEndpoint.host", cluster.ControlPlaneEndpoint.Host, false},
		{"controlPlaneServices.additionalVirtualIP", services.AdditionalVirtualIP, true},
		{"controlPlaneServices.ingressVirtualIP", services.IngressVirtualIP, false},
		{"controlPlaneServices.additionalIngressVirtualIP", services.AdditionalIngressVirtualIP, true},
	} {
		address, err := netip.ParseAddr(each.text)
		if each.text == "" || err != nil && each.field == "controlPlaneEndpoint.host" {
			continue // a name is allowed if no node has to hold it
		}

		field := "spec." + each.field
		if err != nil || address.Zone() != "" { // a zone may contain any text
			return newServicesError(field, "%q is not an IP address", each.text)
		}

		if other, taken := addresses[address]; taken {
			return newServicesError(field, "%s is also the address of %s; use different addresses", address, other)
		}

		if addresses[address] = each.field; !each.additional {
			first = address
		} else if first.Is4() == address.Is4() {
			return newServicesError(
				field, "%s has the same address family as %s; use an address of the other family, or remove it",
				address, first,
			)
		}
	}

	return nil
}

// buildKubeVIPLease returns the lease settings for a cluster.
func buildKubeVIPLease(services *infrav1.ControlPlaneServices) bootstrap.Lease {
	asked := services.KubeVIPLease
	if asked == nil {
		return bootstrap.Lease{}
	}

	return bootstrap.Lease{
		Duration:      asked.DurationSeconds,
		RenewDeadline: asked.RenewDeadlineSeconds,
		RetryPeriod:   asked.RetryPeriodSeconds,
	}
}

// checkKubeVIPLease repeats the checks that kube-vip makes when it starts. There, a mistake would fail on a node nobody
// can reach.
func checkKubeVIPLease(cluster infrav1.OLVMClusterSpec) error {
	const field = "spec.controlPlaneServices.kubeVIPLease."
	lease := buildKubeVIPLease(cluster.ControlPlaneServices).OrDefault()

	switch {
	case lease.Duration <= lease.RenewDeadline:
		return newServicesError(field+"durationSeconds",
			"it is %d, but renewDeadlineSeconds is %d; increase durationSeconds",
			lease.Duration, lease.RenewDeadline)
	case 5*lease.RenewDeadline <= 6*lease.RetryPeriod: // nodes wait for up to 1.2 times the period
		return newServicesError(field+"renewDeadlineSeconds",
			"it is %d, but retryPeriodSeconds is %d; increase renewDeadlineSeconds to more than 1.2 times that",
			lease.RenewDeadline, lease.RetryPeriod)
	}

	return nil
}

// checkDNS checks that the endpoint is an address, so that DNS can resolve names to it.
func checkDNS(cluster infrav1.OLVMClusterSpec) error {
	dns := cluster.ControlPlaneServices.DNS
	_, err := netip.ParseAddr(cluster.ControlPlaneEndpoint.Host)
	if dns == nil || err == nil {
		return nil
	}

	return newServicesError("spec.controlPlaneEndpoint.host",
		"%q is not an IP address, so controlPlaneServices.dns cannot resolve api.%s to it; use an IP address, or "+
			"remove dns",
		cluster.ControlPlaneEndpoint.Host, dns.Domain)
}

// addClusterDNS makes the guest ask its own name server first, because this server resolves the names of the cluster.
func addClusterDNS(in Input, out *render.Machine) error {
	if in.Cluster.ControlPlaneServices == nil || in.Cluster.ControlPlaneServices.DNS == nil || in.Role == "" {
		return nil
	}

	own := collectOwnAddresses(in)
	if len(own) == 0 {
		if in.NamePools {
			return nil // the machine will have an address
		}

		return &blocker.Error{
			Reason: infrav1.ControlPlaneServicesInvalidReason,
			Field:  in.NICs[0].Field[:len(in.NICs[0].Field)-1],
			Message: "controlPlaneServices.dns needs a static address on the first network interface of each node; " +
				"add one, or use the DNS of your site instead",
		}
	}

	out.DNSServers = appendMissing([]string{own[0].String()}, out.DNSServers)
	out.SearchDomains = appendMissing(out.SearchDomains, []string{in.Cluster.ControlPlaneServices.DNS.Domain})

	return nil
}

// collectOwnAddresses returns the static addresses of the machine's first interface. The addresses of the endpoint's
// family come first.
func collectOwnAddresses(in Input) []netip.Addr {
	endpoint, err := netip.ParseAddr(in.Cluster.ControlPlaneEndpoint.Host)
	var first, others []netip.Addr

	for _, address := range in.Addresses[in.NICs[0].VNICName] {
		if err == nil && address.Is4() == endpoint.Is4() {
			first = append(first, address.Addr())
		} else {
			others = append(others, address.Addr())
		}
	}

	return append(first, others...)
}

// buildServices returns the services of the node for the endpoints of its cluster. dnsServers are the guest's name
// servers.
func buildServices(in Input, dnsServers []netip.Addr) (*bootstrap.Services, error) {
	asked := in.Cluster.ControlPlaneServices
	if asked == nil || in.Role == "" {
		return nil, nil
	}

	if err := ValidateServices(in.Cluster); err != nil {
		return nil, err
	}

	if asked.VirtualIPProvider == keepalived && in.RouterIDs[APIRouter] == 0 ||
		asked.IngressVirtualIP != "" && in.RouterIDs[IngressRouter] == 0 {
		return nil, &blocker.Error{
			Reason:  infrav1.WaitingForClusterInfrastructureReason,
			Field:   "OLVMCluster metadata.annotations[" + infrav1.RouterIDsAnnotation + "]",
			Message: "the virtual router IDs are not chosen yet",
		}
	}

	s := &nodeServices{
		Input: in,
		asked: asked,
		own:   collectOwnAddresses(in),
		endpoint: parseVirtualAddress(in.Cluster.ControlPlaneEndpoint.Host, asked.AdditionalVirtualIP,
			in.RouterIDs[APIRouter]),
		ingress: parseVirtualAddress(asked.IngressVirtualIP, asked.AdditionalIngressVirtualIP,
			in.RouterIDs[IngressRouter]),
		out: &bootstrap.Services{HostName: in.VMName},
	}
	if guest := in.NICs[0].Guest; guest != nil {
		s.out.Interface = guest.Interface
	}

	if err := s.addAPI(); err != nil {
		return nil, err
	}

	if err := s.addIngress(); err != nil {
		return nil, err
	}

	s.addDNS(dnsServers)
	if s.out.API == nil && s.out.Ingress == nil && s.out.DNS == nil {
		return nil, nil
	}

	return s.out, nil
}

// openNodeFirewall opens the node's firewall for Kubernetes, even if the node has no services.
func openNodeFirewall(in Input, services *bootstrap.Services) *bootstrap.Services {
	if in.Cluster.ControlPlaneServices == nil || in.Role == "" {
		return services
	}

	if services == nil {
		services = &bootstrap.Services{HostName: in.VMName}
	}

	node := &bootstrap.Node{ControlPlane: in.Role == infrav1.ControlPlaneRole}
	for _, cidr := range in.Bootstrap.Network.Pods.CIDRBlocks {
		if network, err := netip.ParsePrefix(cidr); err == nil { // Cluster API refuses invalid networks
			node.Pods = appendMissing(node.Pods, []netip.Prefix{network.Masked()})
		}
	}

	for _, address := range in.Addresses[in.NICs[0].VNICName] {
		node.Neighbors = appendMissing(node.Neighbors, []netip.Prefix{address.Prefix.Masked()})
	}

	for _, profile := range in.Cluster.IPProfiles {
		var subnets []string
		if profile.IPv4 != nil {
			subnets = append(subnets, profile.IPv4.Subnet)
		}

		if profile.IPv6 != nil {
			subnets = append(subnets, profile.IPv6.Subnet)
		}

		for _, subnet := range subnets {
			if network, err := netip.ParsePrefix(strings.TrimSpace(subnet)); err == nil { // checked elsewhere
				node.Neighbors = appendMissing(node.Neighbors, []netip.Prefix{network.Masked()})
			}
		}
	}

	// Do not trust a pod network that overlaps the network of the nodes. Otherwise, the node would trust every host of
	// the site.
	node.Pods = slices.DeleteFunc(node.Pods, func(pods netip.Prefix) bool {
		return slices.ContainsFunc(node.Neighbors, pods.Overlaps)
	})
	services.Node = node

	return services
}

// nodeServices collects the services of one node.
type nodeServices struct {
	Input
	asked *infrav1.ControlPlaneServices
	// own are the static addresses of the node.
	own []netip.Addr
	// endpoint and ingress are the virtual addresses, or nil.
	endpoint, ingress *bootstrap.VirtualAddress

	out *bootstrap.Services
}

// isEndpointHeld reports whether the control plane nodes hold the endpoint.
func (s *nodeServices) isEndpointHeld() bool {
	return s.endpoint != nil && (s.asked.VirtualIPProvider == kubeVIP || s.asked.VirtualIPProvider == keepalived)
}

// findOwnAddress returns the node's own address with the family of a virtual address. keepalived needs it to hold the
// virtual address. otherwise is the remedy in the error if the node has no such address.
func (s *nodeServices) findOwnAddress(what string, virtual netip.Addr, otherwise string) (netip.Addr, error) {
	at := slices.IndexFunc(s.own, func(a netip.Addr) bool { return a.Is4() == virtual.Is4() })
	if at >= 0 {
		return s.own[at], nil
	}

	return netip.Addr{}, &blocker.Error{
		Reason: infrav1.ControlPlaneServicesInvalidReason,
		Field:  s.NICs[0].Field[:len(s.NICs[0].Field)-1],
		Message: fmt.Sprintf(
			"the first network interface has no static address of the same family as %s %s, so keepalived cannot "+
				"hold it; add a static address, or %s",
			what,
			virtual,
			otherwise,
		),
	}
}

func (s *nodeServices) addAPI() error {
	if !s.isEndpointHeld() || s.Role != infrav1.ControlPlaneRole {
		return nil
	}

	api := &bootstrap.APIEndpoint{
		VirtualAddress: *s.endpoint,
		Port:           cmp.Or(s.Cluster.ControlPlaneEndpoint.Port, DefaultEndpointPort),
		ServerPort:     cmp.Or(s.asked.APIServerPort, bootstrap.DefaultAPIServerPort),
		NginxImage:     s.asked.NginxImage,
	}
	if s.asked.LoadBalancerProvider != noLoadBalancer {
		api.LoadBalancer = bootstrap.LoadBalancer(s.asked.LoadBalancerProvider)
	}

	if s.asked.VirtualIPProvider == kubeVIP {
		api.KubeVIPImage = cmp.Or(s.asked.KubeVIPImage, defaultKubeVIPImage)
		api.KubeVIPLease = buildKubeVIPLease(s.asked)
	} else {
		self, err := s.findOwnAddress("the control plane endpoint", s.endpoint.Address, "use virtualIPProvider KubeVIP")
		if err != nil {
			return err
		}

		s.out.Self = self
	}

	for _, node := range s.ControlPlaneNodes {
		if node.Is4() == s.endpoint.Address.Is4() {
			api.Nodes = append(api.Nodes, node)
		}
	}

	s.out.API = api

	return nil
}

func (s *nodeServices) addIngress() error {
	if s.ingress == nil {
		return nil
	}

	self, err := s.findOwnAddress(
		"the ingress address", s.ingress.Address, "remove controlPlaneServices.ingressVirtualIP",
	)
	if err != nil {
		return err
	}

	s.out.Ingress = s.ingress
	if !s.out.Self.IsValid() {
		s.out.Self = self
	} else if s.out.Self != self {
		s.out.IngressSelf = self
	}

	return nil
}

func (s *nodeServices) addDNS(dnsServers []netip.Addr) {
	if s.asked.DNS == nil {
		return
	}

	dns := &bootstrap.DNS{
		Domain:       s.asked.DNS.Domain,
		Addresses:    s.own,
		Endpoint:     s.endpoint.All(),
		ControlPlane: s.Role == infrav1.ControlPlaneRole,
		Image:        cmp.Or(s.asked.DNS.Image, defaultCoreDNSImage),
		Upstream: slices.DeleteFunc(slices.Clone(dnsServers), func(a netip.Addr) bool {
			return slices.Contains(s.own, a)
		}),
	}
	if s.ingress != nil {
		dns.Ingress = s.ingress.All()
	}

	// The node that holds the endpoint must know all nodes, including later ones.
	if s.isEndpointHeld() {
		dns.Servers = s.endpoint.All()
	}

	if s.isEndpointHeld() && s.Role == infrav1.ControlPlaneRole {
		dns.Floating = s.endpoint.All()
	}

	dns.Servers = appendMissing(dns.Servers, s.ControlPlaneNodes)
	s.out.DNS = dns
}

// parseVirtualAddress parses a virtual address. It returns nil if text is not an address.
func parseVirtualAddress(text, additional string, routerID int) *bootstrap.VirtualAddress {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return nil
	}

	out := &bootstrap.VirtualAddress{Address: address, RouterID: routerID}
	out.Additional, _ = netip.ParseAddr(additional) // ValidateServices has checked it

	return out
}
