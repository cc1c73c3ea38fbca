package support

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
)

// maxPorts is the maximum number of ports per load balancer. Each port has a health check for each machine.
const maxPorts = 256

// versionPort is the loopback port on which haproxy reports the version of its configuration.
const versionPort = 1936

// defaultPort is the default port of an API server and of an endpoint.
const defaultPort = 6443

// Validate returns the error of the first invalid support service in a cluster. It does not depend on the cluster's
// machines.
func Validate(cluster infrav1.OLVMClusterSpec, of *infrav1alpha1.OLVMSupportServices) error {
	problems := FindProblems(cluster, of)

	for _, service := range CollectServices(of) {
		if err := problems[service.Name]; err != nil {
			return err
		}
	}

	return nil
}

// FindProblems returns the errors of a cluster's invalid support services by the names of the services.
func FindProblems(cluster infrav1.OLVMClusterSpec, of *infrav1alpha1.OLVMSupportServices) map[string]error {
	out, taken := map[string]error{}, collectNodeAddresses(cluster)

	for _, service := range CollectServices(of) {
		if err := service.checkService(cluster, taken); err != nil {
			out[service.Name] = err
		}
	}

	return out
}

// collectNodeAddresses returns the virtual addresses on a cluster's nodes, except its endpoint.
func collectNodeAddresses(cluster infrav1.OLVMClusterSpec) map[netip.Addr]string {
	out := map[netip.Addr]string{}
	services := cluster.ControlPlaneServices
	if services == nil {
		return out
	}

	for field, text := range map[string]string{
		"additionalVirtualIP":        services.AdditionalVirtualIP,
		"ingressVirtualIP":           services.IngressVirtualIP,
		"additionalIngressVirtualIP": services.AdditionalIngressVirtualIP,
	} {
		if address, err := netip.ParseAddr(text); err == nil {
			out[address] = "controlPlaneServices." + field
		}
	}

	return out
}

// checkService returns the error of one service. The parameter taken contains the addresses of earlier services.
func (s Service) checkService(cluster infrav1.OLVMClusterSpec, taken map[netip.Addr]string) error {
	for i, name := range s.VM.FailureDomains {
		named := func(d infrav1.OLVMFailureDomain) bool { return d.Name == name }
		if !slices.ContainsFunc(cluster.FailureDomains, named) {
			return s.NewInvalidError(
				fmt.Sprintf("failureDomains[%d]", i),
				"the cluster has no failure domain %q; add it to "+
					"spec.failureDomains of the OLVMCluster, or correct the name",
				name,
			)
		}
	}

	switch {
	case s.JumpHost != nil:
		return s.checkKeys()
	case s.OIDC != nil:
		_, err := s.parseIssuer()
		return err
	}

	ports, err := s.parsePorts(cluster)
	if err != nil {
		return err
	}

	return s.checkVirtualIP(cluster, ports, taken)
}

// NewInvalidError returns an error about a field of a service.
func (s Service) NewInvalidError(field, format string, args ...any) error {
	return blocker.New(infrav1.InfraServiceFailureReason, s.Field+"."+field, format, args...)
}

// parsePorts returns the ports of a load balancer in ascending order.
func (s Service) parsePorts(cluster infrav1.OLVMClusterSpec) ([]int, error) {
	if len(s.Balancer.Ports) == 0 {
		return []int{int(cmp.Or(cluster.ControlPlaneEndpoint.Port, defaultPort))}, nil
	}

	from := map[int]string{}
	var out []int

	for i, text := range s.Balancer.Ports {
		field := fmt.Sprintf("ports[%d]", i)
		first, last, err := parseRange(text)
		if err != nil {
			return nil, s.NewInvalidError(field, "%v; write a port such as 443, or a range such as 30002-30011", err)
		}

		for port := first; port <= last; port++ {
			if other, double := from[port]; double {
				return nil, s.NewInvalidError(
					field, "%s and %s both have port %d; use each port once", other, text, port,
				)
			}

			if port == versionPort {
				return nil, s.NewInvalidError(field, "the VM itself uses port %d; omit it", port)
			}

			from[port] = text
			if out = append(out, port); len(out) > maxPorts {
				return nil, s.NewInvalidError(
					field,
					"a load balancer can have at most %d ports; use several load balancers",
					maxPorts,
				)
			}
		}
	}

	return out, nil
}

// parseRange parses a port or a range of ports.
func parseRange(text string) (first, last int, err error) {
	begin, end, isRange := strings.Cut(text, "-")
	if !isRange {
		end = begin
	}

	first, err = strconv.Atoi(begin)
	if err == nil {
		last, err = strconv.Atoi(end)
	}

	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("%q is not a port", text)
	case first < 1 || last > 65535:
		return 0, 0, fmt.Errorf("%q is outside of 1 to 65535", text)
	case first > last:
		return 0, 0, fmt.Errorf("%q ends before it begins", text)
	}

	return first, last, nil
}

// checkVirtualIP returns an error if another service has the load balancer's address. The parameter taken maps
// addresses of earlier services to their names.
func (s Service) checkVirtualIP(
	cluster infrav1.OLVMClusterSpec, ports []int, taken map[netip.Addr]string,
) error {
	const field = "virtualIP"
	if s.Balancer.VirtualIP == "" {
		return nil
	}

	address := s.parseVirtualIP()
	if !address.IsValid() {
		return s.NewInvalidError(field, "%q is not an IP address", s.Balancer.VirtualIP)
	}

	if other, double := taken[address]; double {
		return s.NewInvalidError(field, "%s is also the address of %s; use different addresses", address, other)
	}

	taken[address] = s.Name
	if !s.IsServingEndpoint(cluster) {
		return nil
	}

	endpoint := int(cmp.Or(cluster.ControlPlaneEndpoint.Port, defaultPort))

	switch services := cluster.ControlPlaneServices; {
	case s.Balancer.Role != infrav1.ControlPlaneRole:
		return s.NewInvalidError(
			field,
			"%s is the control plane endpoint; set the role to ControlPlane, or write another "+
				"address",
			address,
		)
	case !slices.Contains(ports, endpoint):
		return s.NewInvalidError("ports", "the port %d of the control plane endpoint is missing; add it", endpoint)
	case services != nil && (services.VirtualIPProvider == "KubeVIP" || services.VirtualIPProvider == "Keepalived"):
		return s.NewInvalidError(field, "the control plane nodes hold %s; set virtualIPProvider in "+
			"controlPlaneServices of the OLVMCluster to External, or use another address", address)
	}

	return nil
}

// FindEndpoint returns the load balancer's address that becomes the control plane endpoint if none is set. This is the
// address of the only control plane load balancer with its own address. It returns "" if there is none or if the
// address is invalid, because an endpoint cannot change later.
func FindEndpoint(cluster infrav1.OLVMClusterSpec, of *infrav1alpha1.OLVMSupportServices) string {
	var out []netip.Addr

	for _, service := range CollectServices(of) {
		if service.Balancer == nil {
			continue
		}

		if service.Balancer.Role == infrav1.ControlPlaneRole && service.Balancer.VirtualIP != "" {
			out = append(out, service.parseVirtualIP())
		}
	}

	if len(out) != 1 || !out[0].IsValid() {
		return ""
	}

	cluster.ControlPlaneEndpoint.Host = out[0].String()
	if Validate(cluster, of) != nil {
		return ""
	}

	return cluster.ControlPlaneEndpoint.Host
}

// IsServingEndpoint reports whether clients reach the control plane through the service.
func (s Service) IsServingEndpoint(cluster infrav1.OLVMClusterSpec) bool {
	endpoint, err := netip.ParseAddr(cluster.ControlPlaneEndpoint.Host)

	return err == nil && s.parseVirtualIP() == endpoint
}

// parseVirtualIP returns the address that a load balancer's VMs share, or an invalid address if there is none.
func (s Service) parseVirtualIP() netip.Addr {
	if s.Balancer == nil {
		return netip.Addr{}
	}

	address, err := netip.ParseAddr(s.Balancer.VirtualIP)
	if err != nil || address.Zone() != "" { // a zone can be any text
		return netip.Addr{}
	}

	return address
}
