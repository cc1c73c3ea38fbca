package preview

import (
	"context"
	"fmt"
	"strings"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/placement"
)

// notMade stands in for the UUID of an affinity group that is made with the cluster.
const notMade = "(made with the cluster)"

// affinityGroups are the UUIDs of the machine's groups by their names, as far as the engine has them.
func affinityGroups(
	ctx context.Context, session *engine.Client, machine Machine, self placement.Member,
) (map[string]string, error) {
	there, err := session.AffinityGroups(ctx, self.ClusterID)
	if err != nil {
		return nil, err
	}

	owner := ownermark.Owner{Namespace: machine.Namespace, Name: machine.olvmCluster.Name}

	ids := map[string]string{}
	for _, name := range self.Groups {
		ids[name] = notMade

		for _, g := range there {
			marked, _ := placement.GroupOwner(g.DescriptionText())
			if g.Name == placement.GroupName(owner, placement.GroupKey{
				Name:      name,
				ClusterID: self.ClusterID,
			}) && marked.Namespace == owner.Namespace && marked.Name == owner.Name {
				ids[name] = g.ID.String()
			}
		}
	}

	return ids, nil
}

// checkGroups refuses manifests that ask for more machines to be kept apart, always, than there are hosts.
func (m *Manifests) checkGroups(
	ctx context.Context, machines []Machine, credentials Credentials, sessions *engine.Sessions,
) error {
	members := map[*infrav1.OLVMCluster][]placement.Member{}
	engines := map[*infrav1.OLVMCluster]*engine.Client{}

	for _, machine := range machines {
		c := machine.olvmCluster
		config, err := m.engineConfig(c, credentials)
		if err != nil {
			return fmt.Errorf("machine %s/%s (%s): %w", machine.Namespace, machine.Name, machine.From,
				blocker.Explain(err))
		}

		if engines[c], err = sessions.Get(config); err != nil {
			return err
		}

		found, err := placement.MemberOf(ctx, engines[c], c.Spec, placement.Candidate{
			Name:          machine.Name,
			Spec:          machine.spec,
			ControlPlane:  machine.controlPlane,
			FailureDomain: machine.failureDomain,
		})
		if err != nil {
			return fmt.Errorf("machine %s/%s (%s): %w", machine.Namespace, machine.Name, machine.From,
				blocker.Explain(err))
		}

		members[c] = append(members[c], found)
	}

	for c, inCluster := range members {
		hosts, err := engines[c].Hosts(ctx)
		if err != nil {
			return fmt.Errorf("OLVMCluster %s/%s: %w", c.Namespace, c.Name, blocker.Explain(err))
		}

		for _, g := range placement.Groups(placement.AffinityGroups(c.Spec), inCluster, hosts, nil) {
			if g.Hard && g.Short {
				return fmt.Errorf(
					"OLVMCluster %s/%s: spec.affinityGroups[%s]: it keeps apart %d machines, always, and only %d "+
						"hosts of the engine's cluster are up, so that there is no host for %s; add hosts, lower "+
						"the replicas, or set enforcing to Auto",
					c.Namespace,
					c.Name,
					g.Name,
					g.Machines,
					g.Hosts,
					strings.Join(g.Waiting, ", "),
				)
			}
		}
	}

	return nil
}
