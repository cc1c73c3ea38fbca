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

// Needs are the resources needed by a VM in a cluster of its engine.
type Needs struct {
	// ClusterID and ClusterName identify this cluster.
	ClusterID   engine.ID
	ClusterName string
	// CPUs is the number of processor threads. Memory is in bytes. Both are 0 if only the engine knows them, because
	// the VM has an instance type or CPU pinning.
	CPUs, Memory int64
}

// needsOf returns the needs of a machine.
func needsOf(machine render.Machine, clusterName string) Needs {
	return Needs{
		ClusterID:   engine.ID(machine.ClusterID),
		ClusterName: clusterName,
		CPUs:        machine.Cores * machine.Sockets * machine.Threads,
		Memory:      machine.Memory,
	}
}

// CompareCapacities compares the needs of machines with the capacities of their engines. The error names the engines
// that do not list their hosts. The other engines are compared anyway.
func CompareCapacities(
	ctx context.Context, m *Manifests, machines []Rendered, credentials Credentials, sessions *engine.Sessions,
) ([]planreport.Capacity, error) {
	var out []*planreport.Capacity
	var errs []error

	for _, machine := range machines {
		if machine.Needs.ClusterID == "" {
			continue
		}

		session, _, err := m.openSession(machine.engine(), credentials, sessions)
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

// addNeeds adds the needs of a VM to a capacity.
func addNeeds(c *planreport.Capacity, needs Needs) {
	c.VMs++
	c.CPUs += needs.CPUs
	c.Memory += needs.Memory
	c.LargestVM = max(c.LargestVM, needs.Memory)

	if needs.Memory == 0 {
		c.Unsized++
	}
}

// addHosts adds the running hosts of a cluster to a capacity.
func addHosts(
	ctx context.Context, c *planreport.Capacity, session *engine.Client, clusterID engine.ID,
) error {
	hosts, err := session.ListHosts(ctx)
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
