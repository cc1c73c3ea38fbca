package connection

import (
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
)

// Engine is an engine as one object names it, and what that object knows of it.
type Engine struct {
	// Key names the object that uses the engine, among all OLVMClusters and OLVMInventories. UID and Generation are
	// those of the object, and Annotations may accept another engine.
	Key         types.NamespacedName
	UID         types.UID
	Generation  int64
	Annotations map[string]string
	// Server is the way to the engine, and DataCenterName the data center that the object uses.
	Server         infrav1.OvirtAPIServer
	DataCenterName string
	// Recorded is the engine that accepted the object's credentials; nil if none has.
	Recorded *infrav1.OLVMDatacenterStatus
}

// ClusterEngine returns the engine that an OLVMCluster names.
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

// InventoryEngine returns the engine that an OLVMInventory names. No OLVMCluster can have its Key.
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

// ID returns what the engine is known by.
func (e Engine) ID() EngineID {
	return EngineID{hostOf(e.Server.ServerURL), e.recordedID().Installation}
}

// recordedID returns what the engine that accepted the credentials is known by.
func (e Engine) recordedID() EngineID {
	if e.Recorded == nil {
		return EngineID{}
	}

	return EngineID{hostOf(e.Recorded.ServerURL), e.Recorded.EngineID}
}
