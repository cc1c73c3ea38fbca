package preview

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// heldAddresses lists the holders of addresses for each engine.
type heldAddresses []*engineAddresses

type engineAddresses struct {
	engine connection.EngineID
	held   addressing.Held
}

// addressesOn returns the holders of addresses on one engine. It first adds a new engine to the list.
func (h *heldAddresses) addressesOn(id connection.EngineID) addressing.Held {
	for _, known := range *h {
		if known.engine.IsSame(id) {
			known.engine.Installation = cmp.Or(known.engine.Installation, id.Installation)
			return known.held
		}
	}

	added := &engineAddresses{engine: id, held: addressing.Held{}}
	*h = append(*h, added)

	return added.held
}

// engineOf returns the engine of a machine.
func (m *Manifests) engineOf(machine *Machine) connection.EngineID {
	if machine.pool != nil {
		return m.withInstallation(connection.InventoryEngine(machine.pool))
	}

	return m.engineOfCluster(machine.olvmCluster)
}

// engineOfCluster returns the engine of a cluster.
func (m *Manifests) engineOfCluster(cluster *infrav1.OLVMCluster) connection.EngineID {
	return m.withInstallation(connection.ClusterEngine(m.withRecord(cluster)))
}

// withInstallation returns the identity of an engine, with its installation ID. The ID from the engine itself takes
// precedence over the ID recorded in a status.
func (m *Manifests) withInstallation(of connection.Engine) connection.EngineID {
	return of.ID().WithInstallation(m.installations[of.ID().Host])
}

// notCreated is the creation time of objects not yet created by the API server.
var notCreated = metav1.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// withRecord returns a cluster of the manifests with the management cluster's status and age. A cluster missing in the
// management cluster counts as younger than all others.
func (m *Manifests) withRecord(cluster *infrav1.OLVMCluster) *infrav1.OLVMCluster {
	live := m.LiveClusters[types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}]
	out := *cluster // it is only read

	switch {
	case live != nil:
		out.Status, out.CreationTimestamp = live.Status, live.CreationTimestamp
	case out.CreationTimestamp.IsZero():
		out.CreationTimestamp = notCreated
	}

	return &out
}

// recordOf is like withRecord, but for the support services of a cluster.
func (m *Manifests) recordOf(of *infrav1alpha1.OLVMSupportServices) *infrav1alpha1.OLVMSupportServices {
	live := m.LiveServices[types.NamespacedName{Namespace: of.Namespace, Name: of.Name}]
	out := *of // it is only read

	switch {
	case live != nil:
		out.Status, out.CreationTimestamp = live.Status, live.CreationTimestamp
	case out.CreationTimestamp.IsZero():
		out.CreationTimestamp = notCreated
	}

	return &out
}

// servicesOfCluster returns the support services of a cluster of the manifests or of another namespace. It returns nil
// if the cluster has none.
func (m *Manifests) servicesOfCluster(c *infrav1.OLVMCluster) *infrav1alpha1.OLVMSupportServices {
	for key, of := range m.Services {
		if found, err := m.olvmClusterOf(key.Namespace, key.Name); err == nil && found == c {
			return of
		}
	}

	for i := range m.Elsewhere.Services {
		if of := &m.Elsewhere.Services[i]; client.ObjectKeyFromObject(of) == addressing.GetClusterKey(c) {
			return of
		}
	}

	return nil
}

// identifyEngines asks every engine for its installation ID. It returns an error if an engine is not the one that runs
// a cluster's machines. It skips engines that do not answer. Their later use reports the problem.
func (m *Manifests) identifyEngines(
	ctx context.Context, machines []Machine, credentials Credentials, sessions *engine.Sessions,
) error {
	engines := make([]connection.Engine, 0, len(machines))

	for i := range machines {
		if machines[i].pool == nil {
			engines = append(engines, connection.ClusterEngine(m.withRecord(machines[i].olvmCluster)))
		}
	}

	for _, pool := range m.provisioningInventories() {
		engines = append(engines, connection.InventoryEngine(pool))
	}

	for _, of := range engines {
		session, _, err := m.openSession(of, credentials, sessions)
		if err != nil {
			continue
		}

		identity, err := connection.LoadIdentity(ctx, session, of)
		if err != nil {
			continue
		}

		m.installations[of.ID().Host] = identity.Installation

		err = connection.CheckEngine(of, "", identity)
		if err != nil {
			return fmt.Errorf("cluster %s: %w", of.Key, blocker.AddRemedy(err, credentials.Places))
		}
	}

	return nil
}

// collectHeld returns the holders of addresses by engine.
func (m *Manifests) collectHeld(machines []Machine) *heldAddresses {
	out := &heldAddresses{}

	for _, cluster := range m.OLVMClusters {
		out.addressesOn(m.engineOfCluster(cluster)).
			AddEndpoint(cluster, m.servicesOfCluster(cluster), cluster.Namespace)
	}

	for _, machine := range machines {
		out.addressesOn(m.engineOf(&machine)).AddMachine(machine.spec, machine.recorded, "machine "+machine.Name)
	}

	for key, vm := range m.InventoryVMs {
		pool := m.Inventories[types.NamespacedName{Namespace: key.Namespace, Name: vm.Spec.InventoryName}]
		if pool != nil && vm.Spec.FromProvision != nil {
			out.addressesOn(m.withInstallation(connection.InventoryEngine(pool))).
				AddProvisioned(*vm.Spec.FromProvision, "VM "+vm.Name)
		}
	}

	m.addHeldElsewhere(out)

	return out
}

// addHeldElsewhere adds the addresses held in other namespaces of the management cluster.
func (m *Manifests) addHeldElsewhere(out *heldAddresses) {
	for i := range m.Elsewhere.Clusters {
		cluster := &m.Elsewhere.Clusters[i]
		out.addressesOn(connection.GetEngineID(cluster)).
			AddEndpoint(cluster, m.servicesOfCluster(cluster), cluster.Namespace)
	}

	m.eachElsewhere(func(id connection.EngineID, machine *infrav1.OLVMMachine) {
		out.addressesOn(id).AddRunning(machine, addressing.DescribeHolder(machine, machine.Namespace))
	})
}

// eachElsewhere calls do with each machine of other namespaces with a known engine.
func (m *Manifests) eachElsewhere(do func(connection.EngineID, *infrav1.OLVMMachine)) {
	engines := map[types.NamespacedName]connection.EngineID{}

	for i := range m.Elsewhere.Clusters {
		cluster := &m.Elsewhere.Clusters[i]
		engines[addressing.GetClusterKey(cluster)] = connection.GetEngineID(cluster)
	}

	for i := range m.Elsewhere.Machines {
		machine := &m.Elsewhere.Machines[i]
		if id, known := engines[addressing.GetClusterKey(machine)]; known {
			do(id, machine)
		}
	}
}

// checkEndpoints returns, by cluster, the reason why its machines cannot be created. The endpoint differs from the
// endpoint of the Cluster, or another object holds it.
func (m *Manifests) checkEndpoints(machines []Machine) map[*infrav1.OLVMCluster]error {
	out := map[*infrav1.OLVMCluster]error{}

	for _, machine := range machines {
		c := machine.olvmCluster
		if _, done := out[c]; done || machine.pool != nil {
			continue
		}

		asked, spec := m.endpointOfCluster(machine), c.Spec
		if spec.ControlPlaneEndpoint.Host == "" { // as the controller fills it in
			spec.ControlPlaneEndpoint = infrav1.APIEndpoint(asked)
		}

		out[c] = desired.CheckEndpoints(machine.Cluster, asked, spec.ControlPlaneEndpoint)
		if out[c] == nil {
			out[c] = m.checkSupportAddresses(machine, machines)
		}

		if out[c] != nil || ptr.Deref(m.withRecord(c).Status.Initialization.Provisioned, false) {
			continue
		}

		held := m.heldBeside(c, m.withRecord(c), machines)
		taken := addressing.FindTaken(addressing.CollectVirtualAddresses(spec), networksOf(machines, c), held)
		if len(taken) > 0 {
			out[c] = taken[0].ToError()
		}
	}

	return out
}

// checkSupportAddresses returns an error if another object holds a load balancer address of the machine's cluster.
func (m *Manifests) checkSupportAddresses(machine Machine, machines []Machine) error {
	c, of := machine.olvmCluster, machine.services
	wanted := addressing.CollectSupportAddresses(c.Spec, of)
	if len(wanted) == 0 {
		return nil
	}

	held := m.heldBeside(c, m.recordOf(of), machines)

	for _, other := range machines {
		if other.olvmCluster == c && other.service == "" {
			held.AddMachine(other.spec, other.recorded, "machine "+other.Name)
		}
	}

	if taken := addressing.FindTaken(wanted, networksOf(machines, c), held); len(taken) > 0 {
		return fmt.Errorf("%s %s/%s: %w", support.Kind, of.Namespace, of.Name, taken[0].ToError())
	}

	return nil
}

// endpointOfCluster returns the endpoint in the Cluster of a machine.
func (m *Manifests) endpointOfCluster(machine Machine) clusterv1.APIEndpoint {
	for _, cluster := range m.Clusters {
		if cluster.GetName() != machine.Cluster || cluster.GetNamespace() != machine.Namespace {
			continue
		}

		host, _, _ := unstructured.NestedString(cluster.Object, "spec", "controlPlaneEndpoint", "host")
		port, _, _ := unstructured.NestedInt64(cluster.Object, "spec", "controlPlaneEndpoint", "port")

		return clusterv1.APIEndpoint{Host: host, Port: int32(port)} //nolint:gosec // it is compared only
	}

	return clusterv1.APIEndpoint{}
}

// heldBeside returns the holders of addresses on a cluster's engine, except the cluster itself and its machines. own is
// the object that needs an address: the cluster or its OLVMSupportServices.
func (m *Manifests) heldBeside(
	c *infrav1.OLVMCluster, own client.Object, machines []Machine,
) addressing.Held {
	out := addressing.Held{}
	where := m.engineOfCluster(c)

	for _, other := range m.OLVMClusters {
		if other == c || !m.engineOfCluster(other).IsSame(where) {
			continue
		}

		if addressing.HasPrecedence(m.withRecord(other), own) {
			out.AddVirtualAddresses(other, c, m.servicesOfCluster, networksOf(machines, other))
		}

		if of := m.servicesOfCluster(other); of != nil && addressing.HasSupportPrecedence(m.recordOf(of), own) {
			out.AddSupportAddresses(other, of, c.Namespace, networksOf(machines, other))
		}
	}

	for _, machine := range machines {
		if machine.olvmCluster == c || !m.engineOf(&machine).IsSame(where) {
			continue
		}

		out.AddMachine(machine.spec, machine.recorded, "machine "+machine.Name)

		key := types.NamespacedName{Namespace: machine.Namespace, Name: machine.infraName}
		if live := m.OLVMMachines[key]; live != nil {
			out.AddRunning(live, "machine "+machine.Name)
		}
	}

	for i := range m.Elsewhere.Clusters {
		other := &m.Elsewhere.Clusters[i]
		if !connection.GetEngineID(other).IsSame(where) {
			continue
		}

		if addressing.HasPrecedence(other, own) {
			out.AddVirtualAddresses(other, other, m.servicesOfCluster, nil)
		}

		if of := m.servicesOfCluster(other); of != nil && addressing.HasSupportPrecedence(of, own) {
			out.AddSupportAddresses(other, of, of.Namespace, nil)
		}
	}

	m.eachElsewhere(func(id connection.EngineID, machine *infrav1.OLVMMachine) {
		if id.IsSame(where) {
			out.AddRunning(machine, addressing.DescribeHolder(machine, machine.Namespace))
		}
	})

	return out
}

// networksOf returns the networks of a cluster's machines. "" means any network.
func networksOf(machines []Machine, c *infrav1.OLVMCluster) []string {
	var out []string

	for _, machine := range machines {
		if machine.olvmCluster == c {
			for _, n := range addressing.CollectNetworks(machine.spec) {
				out = append(out, n.NetworkName)
			}
		}
	}

	return out
}
