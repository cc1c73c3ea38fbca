package preview

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/placement"
)

// notMade replaces the UUID of an affinity group that is created with the cluster.
const notMade = "(created with the cluster)"

// groupsKey identifies a cluster in an engine.
type groupsKey struct {
	session *engine.Client
	cluster engine.ID
}

// findAffinityGroups returns the UUIDs of the machine's affinity groups by name. It omits groups missing from the
// engine.
func (m *Manifests) findAffinityGroups(
	ctx context.Context, session *engine.Client, machine Machine, self placement.Member,
) (map[string]string, error) {
	of := groupsKey{session, self.ClusterID}
	there, known := m.groupsThere[of]

	if !known {
		var err error
		if there, err = session.ListAffinityGroups(ctx, self.ClusterID); err != nil {
			return nil, err
		}

		m.groupsThere[of] = there
	}

	owner := ownermark.Owner{Namespace: machine.Namespace, Name: machine.olvmClusterName()}

	ids := map[string]string{}
	for _, name := range self.Groups {
		ids[name] = notMade

		for _, g := range there {
			marked, _ := placement.ParseGroupOwner(g.DescriptionText())
			if g.Name == placement.FormatGroupName(owner, placement.GroupKey{
				Name:      name,
				ClusterID: self.ClusterID,
			}) && marked.Namespace == owner.Namespace && marked.Name == owner.Name {
				ids[name] = g.ID.String()
			}
		}
	}

	return ids, nil
}

// checkGroups returns the machines that cannot be placed because of affinity groups. Either their names do not fit the
// engine, or an enforced group separates more machines than there are hosts. err is the error of an unavailable engine.
func (m *Manifests) checkGroups(
	ctx context.Context, machines []Machine, credentials Credentials, sessions *engine.Sessions,
) (refused refusals, err error) {
	refused = refusals{}
	members := map[*infrav1.OLVMCluster][]placement.Member{}
	engines := map[*infrav1.OLVMCluster]*engine.Client{}

	for _, machine := range machines {
		if machine.spec.FromInventory != nil {
			continue // an inventory VM stays on its host
		}

		c := machine.olvmCluster
		session, _, err := m.openSession(connection.ClusterEngine(c), credentials, sessions)
		if err != nil {
			return nil, machine.explainEngine(err, credentials.Places)
		}

		found, err := placement.NewMember(ctx, session, c.Spec, placement.Candidate{
			Name:            machine.Name,
			Spec:            machine.spec,
			Role:            machine.role,
			Service:         machine.service,
			SupportServices: machine.services,
			FailureDomain:   machine.failureDomain,
		})
		if blocker.IsEngineError(err) {
			return nil, machine.explainEngine(err, credentials.Places)
		}

		if err != nil {
			refused[machine.key()] = machine.explainError(err, credentials.Places)
			continue
		}

		engines[c], members[c] = session, append(members[c], found)
	}

	for c, inCluster := range members {
		groups := placement.CollectAffinityGroups(c.Spec, m.servicesOfCluster(c))
		if err := checkHosts(ctx, engines[c], c, groups, inCluster, refused, credentials.Places); err != nil {
			return nil, err
		}
	}

	return refused, nil
}

// checkHosts adds machines to refused if their cluster has too few hosts for them.
func checkHosts(
	ctx context.Context,
	session *engine.Client,
	c *infrav1.OLVMCluster,
	groups []infrav1.AffinityGroup,
	members []placement.Member,
	refused refusals,
	at blocker.Places,
) error {
	hosts, err := session.ListHosts(ctx)
	if err != nil {
		return fmt.Errorf("OLVMCluster %s/%s: %w", c.Namespace, c.Name, blocker.AddRemedy(err, at))
	}

	for _, g := range placement.DecideGroups(groups, members, hosts, nil) {
		if !g.Hard || !g.Short {
			continue
		}

		for _, name := range g.Waiting {
			refused[types.NamespacedName{Namespace: c.Namespace, Name: name}] = fmt.Errorf(
				"OLVMCluster %s/%s: spec.affinityGroups[%s]: strictly separates %d machines, but only %d hosts of "+
					"the engine's cluster are up: no host for %s; add hosts, reduce the replicas, or set enforcing "+
					"to Auto",
				c.Namespace, c.Name, g.Name, g.Machines, g.Hosts, strings.Join(g.Waiting, ", "))
		}
	}

	return nil
}
