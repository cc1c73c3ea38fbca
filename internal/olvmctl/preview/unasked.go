package preview

import (
	"maps"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// unrequestedSupport returns the existing VMs of support services that the manifests no longer request. asked are the
// requested VMs.
func (m *Manifests) unrequestedSupport(asked []Machine) []Machine {
	var out []Machine

	for _, key := range slices.SortedFunc(maps.Keys(m.OLVMMachines), byKey) {
		machine := m.OLVMMachines[key]
		isIt := func(other Machine) bool { return other.key() == key }

		service := support.GetServiceName(machine)
		if service == "" || slices.ContainsFunc(asked, isIt) {
			continue
		}

		cluster := machine.Labels[clusterv1.ClusterNameLabel]

		infra, err := m.olvmClusterOf(key.Namespace, cluster)
		if err != nil || infra == nil {
			infra = &infrav1.OLVMCluster{} // it is deleted, so its engine is not needed
		}

		out = append(out, Machine{
			Cluster: cluster, From: "OLVMCluster/" + infra.Name + " " + service,
			Namespace: key.Namespace, Name: key.Name,
			infraName: key.Name, uid: machine.UID, service: service, spec: machine.Spec, live: true, olvmCluster: infra,
			Destroyed: "support service " + service + " no longer requests it",
		})
	}

	return out
}
