// Package placement decides where VMs are made: failure domains, hosts, and the affinity groups of a cluster.
package placement

import (
	"context"
	"errors"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// Members lists the machines of a cluster as affinity groups see them. A machine that cannot be placed is none:
// its own conditions say why. incomplete reports that a machine has an owner that the cache does not have yet.
func Members(
	ctx context.Context, reader client.Reader, session *engine.Client, cluster *infrav1.OLVMCluster, clusterName string,
) (members []Member, incomplete bool, err error) {
	inCluster := []client.ListOption{client.InNamespace(cluster.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: clusterName,
	}}
	var owners clusterv1.MachineList
	if err := reader.List(ctx, &owners, inCluster...); err != nil {
		return nil, false, fmt.Errorf("failed to list the Machines of Cluster %s/%s: %w", cluster.Namespace,
			clusterName, err)
	}

	byName := map[string]*clusterv1.Machine{}
	for i := range owners.Items {
		byName[owners.Items[i].Name] = &owners.Items[i]
	}

	var machines infrav1.OLVMMachineList
	if err := reader.List(ctx, &machines, inCluster...); err != nil {
		return nil, false, fmt.Errorf("failed to list the OLVMMachines of Cluster %s/%s: %w", cluster.Namespace,
			clusterName, err)
	}

	asked := AffinityGroups(cluster.Spec)

	for i := range machines.Items {
		m := &machines.Items[i]
		name := ownerMachine(m)
		if name == "" {
			continue // the Machine is not there yet; it wakes the cluster by becoming the owner
		}

		owner := byName[name]
		if owner == nil {
			incomplete = incomplete || m.DeletionTimestamp.IsZero()
			continue
		}

		member, err := MemberOf(ctx, session, cluster, asked, m, owner)
		var field *blocker.Error
		if errors.As(err, &field) {
			continue
		}

		if err != nil {
			return nil, false, err
		}

		members = append(members, member)
	}

	return members, incomplete, nil
}

// ownerMachine is the name of the Machine that owns the object.
func ownerMachine(m *infrav1.OLVMMachine) string {
	for _, ref := range m.OwnerReferences {
		if ref.Kind == "Machine" {
			return ref.Name
		}
	}

	return ""
}

// MemberOf is one machine as affinity groups see it. The error is a *blocker.Error where it cannot be placed.
func MemberOf(
	ctx context.Context,
	session *engine.Client,
	cluster *infrav1.OLVMCluster,
	asked []infrav1.AffinityGroup,
	m *infrav1.OLVMMachine,
	owner *clusterv1.Machine,
) (Member, error) {
	names, err := GroupNames(asked, m.Spec, util.IsControlPlaneMachine(owner))
	if err != nil {
		return Member{}, err
	}

	place, err := Place(ctx, session, m.Spec, cluster.Spec, owner.Spec.FailureDomain)
	if err != nil {
		return Member{}, err
	}

	return Member{
		Name:      m.Name,
		Groups:    names,
		ClusterID: place.Cluster.ID,
		HostIDs:   place.HostIDs,
		HasVM:     m.Spec.ProviderID != "",
		Created:   m.CreationTimestamp.Time,
	}, nil
}
