package planreport

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestWhatDoesNotFit(t *testing.T) {
	const gib = 1 << 30
	fits := Capacity{
		Engine: "engine.example.com", EngineCluster: "Default", VMs: 3, CPUs: 12, Memory: 12 * gib, LargestVM: 4 * gib,
		Hosts: 2, HostCPUs: 64, FreeMemory: 100 * gib, LargestFree: 60 * gib,
	}
	check.Equal(t, "all fits", fits.String(), "Cluster Default of engine.example.com: 3 new VMs with 12 CPUs and 12 GiB; "+
		"2 hosts are up with 64 CPU threads and 100 GiB free")

	for name, test := range map[string]struct {
		change func(*Capacity)
		want   string
	}{
		"no host":           {func(c *Capacity) { c.Hosts = 0 }, "no host of the cluster is up"},
		"a large VM":        {func(c *Capacity) { c.LargestVM = 61 * gib }, "no host has 61 GiB free for the largest VM"},
		"too many VMs":      {func(c *Capacity) { c.Memory = 101 * gib }, "the hosts lack 1.0 GiB of free memory"},
		"a size unknown":    {func(c *Capacity) { c.Unsized = 1 }, ""},
		"exactly what fits": {func(c *Capacity) { c.Memory = 100 * gib }, ""},
	} {
		c := fits
		test.change(&c)
		check.Equal(t, name, c.DescribeShortage(), test.want)
	}
}
