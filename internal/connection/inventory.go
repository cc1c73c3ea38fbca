package connection

import (
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

// OfInventory is an OLVMCluster that stands for an inventory where the way to an engine is asked for: it has the same
// fields for it. No OLVMCluster can have its name.
func OfInventory(inventory *infrav1.OLVMInventory) *infrav1.OLVMCluster {
	out := &infrav1.OLVMCluster{Spec: infrav1.OLVMClusterSpec{
		OLVMDatacenterName: inventory.Spec.OLVMDatacenterName,
		OLVMOvirtAPIServer: inventory.Spec.OLVMOvirtAPIServer,
	}}
	out.Namespace, out.Name = inventory.Namespace, "inventory/"+inventory.Name
	out.UID, out.Generation, out.Annotations = inventory.UID, inventory.Generation, inventory.Annotations
	if inventory.Status.ServerURL != "" {
		out.Status.OLVMDatacenter = &infrav1.OLVMDatacenterStatus{
			EngineID: inventory.Status.EngineID, ServerURL: inventory.Status.ServerURL,
			LastEvent: inventory.Status.LastEvent,
		}
	}

	return out
}
