// Package placement determines where VMs are created: their failure domains, their hosts, and a cluster's affinity
// groups.
package placement

import (
	"context"
	"errors"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// ListMembers returns the machines of a cluster in the form that affinity groups need. It omits a machine that cannot
// be placed, because the machine's own conditions say why. The result incomplete reports that a machine has an owner
// that the cache does not contain yet.
func ListMembers(
	ctx context.Context, reader client.Reader, session *engine.Client, cluster *infrav1.OLVMCluster, clusterName string,
) (members []Member, incomplete bool, err error) {
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: clusterName}
	byName, err := listOwners(ctx, reader, key)
	if err != nil {
		return nil, false, err
	}

	services, err := support.FindServices(ctx, reader, key)
	if err != nil {
		return nil, false, err
	}

	machines, err := support.ListMachines(ctx, reader, key)
	if err != nil {
		return nil, false, err
	}

	for i := range machines {
		m := &machines[i]
		owner := support.NewStandInMachine(m)
		if owner == nil {
			owner = byName[getOwnerMachineName(m)]
		}

		switch {
		case m.Spec.FromInventory != nil:
			continue // the machine stays where its VM is
		case owner == nil && getOwnerMachineName(m) == "":
			continue // the Machine does not exist yet; it triggers the cluster when it becomes the owner
		case owner == nil:
			incomplete = incomplete || m.DeletionTimestamp.IsZero()
			continue
		}

		member, err := NewMember(ctx, session, cluster.Spec, Candidate{
			Name:            m.Name,
			Spec:            m.Spec,
			Role:            GetRole(owner),
			Service:         support.GetServiceName(owner),
			SupportServices: services,
			FailureDomain:   owner.Spec.FailureDomain,
		})
		var field *blocker.Error
		if errors.As(err, &field) {
			continue
		}

		if err != nil {
			return nil, false, err
		}

		member.HasVM, member.Created = m.Spec.ProviderID != "", m.CreationTimestamp.Time
		members = append(members, member)
	}

	return members, incomplete, nil
}

// listOwners returns the Machines of a Cluster by their names.
func listOwners(
	ctx context.Context, reader client.Reader, cluster client.ObjectKey,
) (map[string]*clusterv1.Machine, error) {
	var list clusterv1.MachineList
	err := reader.List(ctx, &list, client.InNamespace(cluster.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: cluster.Name,
	}, client.UnsafeDisableDeepCopy) // callers only read them
	if err != nil {
		return nil, fmt.Errorf("failed to list the Machines of Cluster %s: %w", cluster, err)
	}

	out := map[string]*clusterv1.Machine{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}

	return out, nil
}

// getOwnerMachineName returns the name of the Machine that owns an OLVMMachine.
func getOwnerMachineName(m *infrav1.OLVMMachine) string {
	for _, ref := range m.OwnerReferences {
		if ref.Kind == "Machine" {
			return ref.Name
		}
	}

	return ""
}

// Candidate holds everything that determines where a machine is placed, and with which others.
type Candidate struct {
	// Name is the name of the OLVMMachine, and Spec is its specification.
	Name string
	Spec infrav1.OLVMMachineSpec
	// Role and FailureDomain come from the Machine. For a VM of a support service, Role is empty and Service is the
	// name of the service.
	Role          infrav1.MachineRole
	Service       string
	FailureDomain string
	// SupportServices are the support services of the cluster; nil means none.
	SupportServices *infrav1alpha1.OLVMSupportServices
}

// NewMember returns a machine in the form that affinity groups need. If the machine cannot be placed, it returns a
// *blocker.Error.
func NewMember(
	ctx context.Context, session *engine.Client, cluster infrav1.OLVMClusterSpec, machine Candidate,
) (Member, error) {
	groups := CollectAffinityGroups(cluster, machine.SupportServices)
	names, err := CollectGroupNames(groups, machine.Spec, machine.Role, machine.Service)
	if err != nil {
		return Member{}, err
	}

	place, err := ResolveLocation(ctx, session, machine.Spec, SiteOf(cluster), machine.FailureDomain)
	if err != nil {
		return Member{}, err
	}

	return Member{Name: machine.Name, Groups: names, ClusterID: place.Cluster.ID, HostIDs: place.HostIDs}, nil
}
