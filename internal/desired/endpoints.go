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
func CompleteEndpoint(infra *infrav1.APIEndpoint, cluster clusterv1.APIEndpoint) {
	if infra.Host == "" && cluster.Host != "" {
		infra.Host, infra.Port = cluster.Host, cluster.Port
	}
}

// CheckEndpoints returns a *blocker.Error if the Cluster with this name and its OLVMCluster have different endpoints.
// Nodes and kubeconfigs use the Cluster's endpoint, but the machines serve the OLVMCluster's.
func CheckEndpoints(name string, cluster clusterv1.APIEndpoint, infra infrav1.APIEndpoint) error {
	if cluster.Host == "" || infra.Host == "" {
		return nil
	}

	if isSameHost(cluster.Host, infra.Host) && (cluster.Port == 0 || infra.Port == 0 || cluster.Port == infra.Port) {
		return nil
	}

	return blocker.New(infrav1.EndpointsDifferReason, "spec.controlPlaneEndpoint",
		"it is %s:%d, but spec.controlPlaneEndpoint of Cluster %s is %s:%d. Nodes use the second address, but "+
			"machines serve the first. Set both to the same value",
		infra.Host, infra.Port, name, cluster.Host, cluster.Port)
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
