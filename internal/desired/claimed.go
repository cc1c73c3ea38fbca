package desired

import (
	"context"
	"slices"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// adoptClaimed adopts an existing VM unchanged.
func (r *machineResolver) adoptClaimed(ctx context.Context) error {
	vm := r.in.ClaimedVM
	if vm == nil {
		return blocker.New(infrav1.WaitingForClaimReason, "spec.fromInventory", "no VM is claimed yet")
	}

	var err error
	r.dc, err = r.client.FindDataCenter(ctx, r.in.Cluster.OLVMDatacenterName)
	if err != nil {
		return blocker.WrapNotFound(err, infrav1.DataCenterNotFoundReason, "OLVMCluster spec.olvmDatacenterName")
	}

	clusters, err := r.client.ListClusters(ctx, r.dc)
	if err != nil {
		return err
	}

	at := slices.IndexFunc(clusters, func(c engine.Cluster) bool { return c.ID == engine.RefID(vm.Cluster) })
	if at < 0 {
		return blocker.New(infrav1.InventoryInvalidReason, "OLVMCluster spec.olvmDatacenterName",
			"VM %s of the inventory is not in data center %q; correct the data center, or select another inventory",
			vm.Name, r.in.Cluster.OLVMDatacenterName)
	}

	r.out.ClaimedVMID = vm.ID.String()
	r.out.ClusterID, r.out.TemplateID = clusters[at].ID.String(), engine.RefID(vm.Template).String()
	r.from = &engine.Template{ID: engine.RefID(vm.Template)}
	if vm.OS != nil {
		r.from.OS.Type = vm.OS.Type
	}

	r.names = &infrav1.OLVMStatus{
		ClusterID:    clusters[at].ID.String(),
		ClusterName:  clusters[at].Name,
		VMTemplateID: r.out.TemplateID,
	}

	return resolveGuests(r.in, &r.out)
}
