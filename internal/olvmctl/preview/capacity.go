package preview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
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

// Capacity is what new VMs ask for in a cluster of an engine, against what its hosts have.
type Capacity struct {
	Engine        string `json:"engine"`
	EngineCluster string `json:"engineCluster"`
	// VMs that would be made, their CPUs (threads) and memory in bytes. Unsized are those of them whose size only the
	// engine knows.
	VMs     int   `json:"vms"`
	Unsized int   `json:"unsized,omitempty"`
	CPUs    int64 `json:"cpus"`
	Memory  int64 `json:"memory"`
	// LargestVM is the largest memory of one of them, in bytes.
	LargestVM int64 `json:"largestVM"`
	// Hosts that are up, their CPU threads, and the memory in bytes that they can give to more VMs: of all, and of the
	// one that has most.
	Hosts       int   `json:"hosts"`
	HostCPUs    int64 `json:"hostCPUs"`
	FreeMemory  int64 `json:"freeMemory"`
	LargestFree int64 `json:"largestFree"`
}

// Lacks says what surely does not fit; empty where it may. CPUs are shared by VMs, and which host a VM may run on, and
// how they fill hosts, is the engine's to say.
func (c Capacity) Lacks() string {
	switch {
	case c.Hosts == 0:
		return "no host of it is up"
	case c.LargestVM > c.LargestFree:
		return fmt.Sprintf("no host has %s free for one of them", size(c.LargestVM))
	case c.Memory > c.FreeMemory:
		return fmt.Sprintf("%s more than its hosts have free", size(c.Memory-c.FreeMemory))
	default:
		return ""
	}
}

// String is a line for people.
func (c Capacity) String() string {
	text := fmt.Sprintf("Cluster %s of %s: %s with %s and %s; %s up with %s and %s free", c.EngineCluster, c.Engine,
		english.Plural(c.VMs, "new VM", ""), english.Plural(int(c.CPUs), "CPU", ""), size(c.Memory),
		english.Plural(c.Hosts, "host is", "hosts are"), english.Plural(int(c.HostCPUs), "CPU thread", ""),
		size(c.FreeMemory))
	if c.Unsized > 0 {
		text += fmt.Sprintf(" (without %d whose size the engine knows)", c.Unsized)
	}

	if lacks := c.Lacks(); lacks != "" {
		text += ". They do not fit: " + lacks
	}

	return text
}

func size(bytes int64) string { return humanize.IBytes(uint64(max(bytes, 0))) } //nolint:gosec // not negative

// Capacities compares what machines ask for with what their engines have. An engine that does not list its hosts is in
// the error, and the others are compared all the same.
func Capacities(
	ctx context.Context, m *Manifests, machines []Rendered, credentials Credentials, sessions *engine.Sessions,
) ([]Capacity, error) {
	var out []*Capacity
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

		of := Capacity{Engine: machine.engine().ID().Host, EngineCluster: machine.Needs.ClusterName}
		at := slices.IndexFunc(out, func(c *Capacity) bool {
			return c.Engine == of.Engine && c.EngineCluster == of.EngineCluster
		})

		if at < 0 {
			if err := of.addHosts(ctx, session, machine.Needs.ClusterID); err != nil {
				errs = append(errs, err)
				continue
			}

			at, out = len(out), append(out, &of)
		}

		out[at].add(machine.Needs)
	}

	found := make([]Capacity, 0, len(out))
	for _, c := range out {
		found = append(found, *c)
	}

	slices.SortFunc(found, func(a, b Capacity) int {
		return strings.Compare(a.Engine+" "+a.EngineCluster, b.Engine+" "+b.EngineCluster)
	})

	return found, errors.Join(errs...)
}

// add adds a VM.
func (c *Capacity) add(needs Needs) {
	c.VMs++
	c.CPUs += needs.CPUs
	c.Memory += needs.Memory
	c.LargestVM = max(c.LargestVM, needs.Memory)

	if needs.Memory == 0 {
		c.Unsized++
	}
}

// addHosts adds the hosts of a cluster that are up.
func (c *Capacity) addHosts(ctx context.Context, session *engine.Client, clusterID engine.ID) error {
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
