package machine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/annotations"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/placement"
)

// resolveAffinityGroups returns the UUIDs of the machine's affinity groups by name. A machine without a VM waits until
// all its groups exist and have room for it. A machine with a VM uses the existing groups.
func (r *Reconciler) resolveAffinityGroups(
	ctx context.Context, scope *machineScope, self placement.Member,
) (map[string]string, error) {
	ids := map[string]string{}

	for _, m := range scope.observed.State.Instances("ovirt_vm_affinity_group") {
		if slices.Contains(self.Groups, m.Key) {
			ids[m.Key] = m.AffinityGroupID
		}
	}

	for _, g := range scope.olvmCluster.Status.AffinityGroups {
		if g.OLVMOvirtClusterID == self.ClusterID.String() && slices.Contains(self.Groups, g.Name) {
			ids[g.Name] = g.ID
		}
	}

	if scope.vmID() != "" || annotations.IsExternallyManaged(scope.olvmCluster) {
		return ids, nil // the groups of an externally managed OLVMCluster are created elsewhere
	}

	members, _, err := placement.ListMembers(ctx, r.Client, scope.engine.session, scope.olvmCluster, scope.cluster.Name)
	if err != nil {
		return nil, err
	}

	hosts, err := scope.engine.session.ListHostsWithin(ctx, placement.HostsAge)
	if err != nil {
		return nil, err
	}

	wanted := placement.DecideGroups(
		placement.CollectAffinityGroups(scope.olvmCluster.Spec, scope.services), members, hosts, nil,
	)

	return ids, checkGroups(self, placement.GetRole(scope.machine), wanted,
		scope.olvmCluster.Status.AffinityGroups)
}

// checkGroups checks that the machine's groups exist and have room for it. wanted are the desired groups.
func checkGroups(
	self placement.Member, role infrav1.MachineRole, wanted []placement.Group, existing []infrav1.AffinityGroupStatus,
) error {
	kind := "support"

	switch role {
	case infrav1.ControlPlaneRole:
		kind = "control plane"
	case infrav1.WorkerRole:
		kind = "worker"
	}

	for _, name := range self.Groups {
		at := slices.IndexFunc(existing, func(g infrav1.AffinityGroupStatus) bool {
			return g.Name == name && g.OLVMOvirtClusterID == self.ClusterID.String()
		})
		is := slices.IndexFunc(wanted, func(g placement.Group) bool {
			return g.Name == name &&
				g.ClusterID == self.ClusterID
		})
		field := fmt.Sprintf("OLVMCluster spec.affinityGroups[%s]", name)

		switch {
		case is >= 0 && slices.Contains(wanted[is].Waiting, self.Name):
			return &blocker.Error{Reason: infrav1.EnforcementImpossibleReason, Field: field, Message: fmt.Sprintf(
				"it always separates %d machines, but only %d hosts of the engine's cluster are up, so this %s "+
					"machine is not created. Add hosts, lower the replicas, or set enforcing to Auto",
				wanted[is].Machines, wanted[is].Hosts, kind,
			)}
		case at < 0:
			return &blocker.Error{
				Reason:  infrav1.WaitingForAffinityGroupReason,
				Field:   field,
				Message: "waiting for the group to be created in the engine; see AffinitySatisfied of the OLVMCluster",
			}
		case is >= 0 && !wanted[is].Hard && ptr.Deref(existing[at].Enforced, false):
			return &blocker.Error{
				Reason:  infrav1.WaitingForAffinityGroupReason,
				Field:   field,
				Message: "waiting for room in the group: it is still enforced, and no host is left for this machine",
			}
		}
	}

	return nil
}

// checkLeftGroup reports whether someone removed the VM from one of its groups. It ignores a deleted group, because the
// OLVMCluster controller creates it again with another UUID.
func (r *Reconciler) checkLeftGroup(ctx context.Context, scope *machineScope) (bool, error) {
	if scope.vm.current == nil || scope.observed.State == nil || len(scope.desired.built.Machine.AffinityGroups) == 0 {
		return false, nil
	}

	built := scope.desired.built

	for _, maxAge := range []time.Duration{steadyInterval, 0} { // an old list proves nothing
		existing, err := r.Engines.GetAffinityGroups(ctx, scope.engine.session, engine.ID(built.Names.ClusterID),
			maxAge)
		if err != nil {
			return false, err
		}

		left := false
		for _, id := range built.Machine.AffinityGroups {
			left = left ||
				slices.ContainsFunc(existing, func(g engine.AffinityGroup) bool {
					return g.ID.String() == id &&
						!g.HasVM(scope.vm.current.ID)
				})
		}

		if !left {
			return false, nil
		}
	}

	return true, nil
}
