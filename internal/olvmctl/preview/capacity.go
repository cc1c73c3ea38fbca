package preview

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// Needs are what a VM takes of the engine's cluster that it is made in.
type Needs struct {
	// ClusterID and ClusterName are those of the engine's cluster.
	ClusterID   engine.ID
	ClusterName string
	// CPUs counts processor threads, and Memory is in bytes. Both are 0 where only the engine knows them, by an
	// instance type or by pinning.
	CPUs, Memory int64
}

// needsOf are those of a machine.
func needsOf(machine render.Machine, clusterName string) Needs {
	return Needs{
		ClusterID:   engine.ID(machine.ClusterID),
		ClusterName: clusterName,
		CPUs:        machine.Cores * machine.Sockets * machine.Threads,
		Memory:      machine.Memory,
	}
}

// Capacities compares what machines ask for with what their engines have. An engine that does not list its hosts is in
// the error, and the others are compared all the same.
func Capacities(
	ctx context.Context, m *Manifests, machines []Rendered, credentials Credentials, sessions *engine.Sessions,
) ([]planreport.Capacity, error) {
	var out []*planreport.Capacity
	var errs []error

	for _, machine := range machines {
		if machine.Needs.ClusterID == "" {
			continue
		}

		session, _, err := m.session(machine.engine(), credentials, sessions)
		if err != nil {
			errs = append(errs, err)
			continue
		}

		of := planreport.Capacity{Engine: machine.engine().ID().Host, EngineCluster: machine.Needs.ClusterName}
		at := slices.IndexFunc(out, func(c *planreport.Capacity) bool {
			return c.Engine == of.Engine && c.EngineCluster == of.EngineCluster
		})

		if at < 0 {
			if err := addHosts(ctx, &of, session, machine.Needs.ClusterID); err != nil {
				errs = append(errs, err)
				continue
			}

			at, out = len(out), append(out, &of)
		}

		addNeeds(out[at], machine.Needs)
	}

	found := make([]planreport.Capacity, 0, len(out))
	for _, c := range out {
		found = append(found, *c)
	}

	slices.SortFunc(found, func(a, b planreport.Capacity) int {
		return strings.Compare(a.Engine+" "+a.EngineCluster, b.Engine+" "+b.EngineCluster)
	})

	return found, errors.Join(errs...)
}

// addNeeds adds a VM.
func addNeeds(c *planreport.Capacity, needs Needs) {
	c.VMs++
	c.CPUs += needs.CPUs
	c.Memory += needs.Memory
	c.LargestVM = max(c.LargestVM, needs.Memory)

	if needs.Memory == 0 {
		c.Unsized++
	}
}

// addHosts adds the hosts of a cluster that are up.
func addHosts(
	ctx context.Context, c *planreport.Capacity, session *engine.Client, clusterID engine.ID,
) error {
	hosts, err := session.Hosts(ctx)
	if err != nil {
		return err
	}

	for i := range hosts {
		host := &hosts[i]
		if host.Status != engine.HostUp || engine.RefID(host.Cluster) != clusterID {
			continue
		}

		c.Hosts++
		c.HostCPUs += host.CPUs()
		c.FreeMemory += host.FreeMemory
		c.LargestFree = max(c.LargestFree, host.FreeMemory)
	}

	return nil
}
