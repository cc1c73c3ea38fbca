package connection

import (
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
)

// Engine describes the engine of one OLVMCluster or OLVMInventory, from the object's spec and status.
type Engine struct {
	// Key identifies the object among all OLVMClusters and OLVMInventories. UID, Generation and Annotations are copies
	// from its metadata. An annotation may accept another engine.
	Key         types.NamespacedName
	UID         types.UID
	Generation  int64
	Annotations map[string]string
	// Server describes how to reach the engine. DataCenterName is the object's data center.
	Server         infrav1.OvirtAPIServer
	DataCenterName string
	// Recorded is the engine that accepted the object's credentials, or nil.
	Recorded *infrav1.OLVMDatacenterStatus
}

// ClusterEngine returns the engine of an OLVMCluster.
func ClusterEngine(c *infrav1.OLVMCluster) Engine {
	return Engine{
		Key:            types.NamespacedName{Namespace: c.Namespace, Name: c.Name},
		UID:            c.UID,
		Generation:     c.Generation,
		Annotations:    c.Annotations,
		Server:         c.Spec.OLVMOvirtAPIServer,
		DataCenterName: c.Spec.OLVMDatacenterName,
		Recorded:       c.Status.OLVMDatacenter,
	}
}

// InventoryEngine returns the engine of an OLVMInventory. No OLVMCluster can have its Key.
func InventoryEngine(pool *infrav1alpha1.OLVMInventory) Engine {
	out := Engine{
		Key:            types.NamespacedName{Namespace: pool.Namespace, Name: "inventory/" + pool.Name},
		UID:            pool.UID,
		Generation:     pool.Generation,
		Annotations:    pool.Annotations,
		Server:         pool.Spec.OLVMOvirtAPIServer,
		DataCenterName: pool.Spec.OLVMDatacenterName,
	}
	if pool.Status.ServerURL != "" {
		out.Recorded = &infrav1.OLVMDatacenterStatus{
			EngineID: pool.Status.EngineID, ServerURL: pool.Status.ServerURL, LastEvent: pool.Status.LastEvent,
		}
	}

	return out
}

// ID returns the identity of the engine.
func (e Engine) ID() EngineID {
	return EngineID{parseHost(e.Server.ServerURL), e.recordedID().Installation}
}

// NamedSecrets returns the name of the Secret with the credentials, if the object names one. It omits the Secret of
// an OLVMClusterIdentity, because an administrator manages it.
func (e Engine) NamedSecrets() []types.NamespacedName { return keysOf(CredentialsKey(e, nil)) }

// NamedCAConfigMaps returns the name of the ConfigMap with the CA, if the object names one. It omits the ConfigMap of
// an OLVMClusterIdentity.
func (e Engine) NamedCAConfigMaps() []types.NamespacedName { return keysOf(CAKey(e, nil)) }

func keysOf(key types.NamespacedName, named bool) []types.NamespacedName {
	if !named {
		return nil
	}

	return []types.NamespacedName{key}
}

// recordedID returns the identity of the engine that accepted the credentials.
func (e Engine) recordedID() EngineID {
	if e.Recorded == nil {
		return EngineID{}
	}

	return EngineID{parseHost(e.Recorded.ServerURL), e.Recorded.EngineID}
}
