package desired

import (
	"net/netip"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
)

// CompleteEndpoint copies the endpoint of a Cluster into the empty endpoint of its OLVMCluster. A user may apply a
// manifest with an empty host again at any time, but Cluster API remembers the endpoint.
func CompleteEndpoint(own *infrav1.APIEndpoint, asked clusterv1.APIEndpoint) {
	if own.Host == "" && asked.Host != "" {
		own.Host, own.Port = asked.Host, asked.Port
	}
}

// CheckEndpoints returns a *blocker.Error if the Cluster with this name and its OLVMCluster have different endpoints.
// Nodes and kubeconfigs use the Cluster's endpoint, but the machines hold the OLVMCluster's.
func CheckEndpoints(name string, asked clusterv1.APIEndpoint, own infrav1.APIEndpoint) error {
	if asked.Host == "" || own.Host == "" {
		return nil
	}

	if isSameHost(asked.Host, own.Host) && (asked.Port == 0 || own.Port == 0 || asked.Port == own.Port) {
		return nil
	}

	return blocker.New(infrav1.EndpointsDifferReason, "spec.controlPlaneEndpoint",
		"it is %s:%d, but spec.controlPlaneEndpoint of Cluster %s is %s:%d. Nodes use the second address, but "+
			"machines serve the first. Set both to the same value",
		own.Host, own.Port, name, asked.Host, asked.Port)
}

// isSameHost reports whether two texts may mean the same host. This is the case for equal IP addresses or DNS names,
// and for a name and an address.
func isSameHost(a, b string) bool {
	first, err := netip.ParseAddr(a)
	second, secondErr := netip.ParseAddr(b)

	switch {
	case err == nil && secondErr == nil:
		return first.Unmap() == second.Unmap()
	case (err == nil) != (secondErr == nil):
		return true
	}

	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}
