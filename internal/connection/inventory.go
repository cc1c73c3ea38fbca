package connection

import (
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

// InventoryConnected reports whether the manager has ever used the engine of an inventory, the one that it names now,
// with its credentials.
func InventoryConnected(pool *infrav1.OLVMInventory) bool {
	return pool.Status.ServerURL != "" && pool.Status.ServerURL == pool.Spec.OLVMOvirtAPIServer.ServerURL
}

// OfInventory is an OLVMCluster that stands for an inventory where the way to an engine is asked for: it has the same
// fields for it. No OLVMCluster can have its name.
func OfInventory(inventory *infrav1.OLVMInventory) *infrav1.OLVMCluster {
	out := &infrav1.OLVMCluster{Spec: infrav1.OLVMClusterSpec{
		OLVMDatacenterName: inventory.Spec.OLVMDatacenterName,
		OLVMOvirtAPIServer: inventory.Spec.OLVMOvirtAPIServer,
	}}
	out.Namespace, out.Name = inventory.Namespace, "inventory/"+inventory.Name
	out.UID, out.Generation, out.Annotations = inventory.UID, inventory.Generation, inventory.Annotations
	if inventory.Status.EngineID != "" {
		out.Status.OLVMDatacenter = &infrav1.OLVMDatacenterStatus{EngineID: inventory.Status.EngineID}
	}

	return out
}
