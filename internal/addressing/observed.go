package addressing

import (
	"net"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

// CanHaveVM reports whether the object has a VM, or whether a submitted run may have created one.
func CanHaveVM(m *infrav1.OLVMMachine) bool {
	return m.Spec.ProviderID != "" || m.Annotations[infrav1.CreateRequestedAnnotation] != ""
}

// CollectNamesAndAddresses returns the names and IP addresses assigned to a machine, but not those that its guest
// reports.
func CollectNamesAndAddresses(m *infrav1.OLVMMachine) (names []string, ips []net.IP) {
	for _, address := range m.Status.Addresses {
		switch address.Type {
		case clusterv1.MachineHostName, clusterv1.MachineInternalDNS, clusterv1.MachineExternalDNS:
			names = append(names, address.Address)
		case clusterv1.MachineInternalIP, clusterv1.MachineExternalIP:
			if ip := net.ParseIP(address.Address); ip != nil {
				ips = append(ips, ip)
			}
		}
	}

	return names, ips
}
