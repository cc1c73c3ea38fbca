package preview

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
)

// checkNeeded returns an error if the controllers cannot create a new machine, because the manifests delete an object
// needed by the machine. Existing machines no longer need these objects.
func (m *Manifests) checkNeeded(machine Machine) error {
	if machine.live {
		return nil
	}

	needed := m.neededObjects(machine)

	for _, object := range m.Pruned() {
		key := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
		if needed[object.Kind] == key {
			return fmt.Errorf("requires %s, which would be deleted: %s; keep it in the manifests, or use another one",
				prunedForReport(object), reasonOf(object))
		}
	}

	return nil
}

// neededObjects returns the objects needed to create a machine, by kind.
func (m *Manifests) neededObjects(machine Machine) map[string]types.NamespacedName {
	named := func(name string) types.NamespacedName {
		return types.NamespacedName{Namespace: machine.Namespace, Name: name}
	}
	out := map[string]types.NamespacedName{"OLVMMachineTemplate": named(machine.template)}
	of := machine.engine()

	switch {
	case machine.pool != nil:
		out["OLVMInventory"] = keyOf(machine.pool)
	case machine.spec.FromInventory != nil:
		out["OLVMInventory"] = named(machine.spec.FromInventory.InventoryName)
	}

	if machine.pool == nil {
		out["OLVMCluster"] = named(machine.olvmCluster.Name)
	}

	identity := types.NamespacedName{Name: connection.GetIdentityName(of)}
	out["OLVMClusterIdentity"] = identity
	out["Secret"], _ = connection.CredentialsKey(of, m.Running.Identities[identity])
	out["ConfigMap"], _ = connection.CAKey(of, m.Running.Identities[identity])

	return out
}
