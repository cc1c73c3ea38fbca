package planreport

import (
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// Capacity compares the needs of new VMs in a cluster of the engine with the capacities of its hosts.
type Capacity struct {
	Engine        string `json:"engine"`
	EngineCluster string `json:"engineCluster"`
	// VMs is the number of VMs to create. CPUs are their processor threads, and the memory is in bytes. Unsized is the
	// number of VMs whose size only the engine knows.
	VMs     int   `json:"vms"`
	Unsized int   `json:"unsized,omitempty"`
	CPUs    int64 `json:"cpus"`
	Memory  int64 `json:"memory"`
	// LargestVM is the memory of the largest VM, in bytes.
	LargestVM int64 `json:"largestVM"`
	// Hosts is the number of running hosts, with their CPU threads. The free memory is in bytes, for all hosts and for
	// the host with the most.
	Hosts       int   `json:"hosts"`
	HostCPUs    int64 `json:"hostCPUs"`
	FreeMemory  int64 `json:"freeMemory"`
	LargestFree int64 `json:"largestFree"`
}

// DescribeShortage describes a certain shortage, or returns "" if the VMs may fit. It ignores CPUs, because VMs share
// them. It cannot be exact: only the engine decides where VMs run, and how they fill the hosts.
func (c Capacity) DescribeShortage() string {
	switch {
	case c.Hosts == 0:
		return "no host of the cluster is up"
	case c.LargestVM > c.LargestFree:
		return fmt.Sprintf("no host has %s free for the largest VM", formatSize(c.LargestVM))
	case c.Memory > c.FreeMemory:
		return fmt.Sprintf("the hosts lack %s of free memory", formatSize(c.Memory-c.FreeMemory))
	default:
		return ""
	}
}

// String returns a line for users.
func (c Capacity) String() string {
	text := fmt.Sprintf("Cluster %s of %s: %s with %s and %s; %s up with %s and %s free", c.EngineCluster, c.Engine,
		english.Plural(c.VMs, "new VM", ""), english.Plural(int(c.CPUs), "CPU", ""), formatSize(c.Memory),
		english.Plural(c.Hosts, "host is", "hosts are"), english.Plural(int(c.HostCPUs), "CPU thread", ""),
		formatSize(c.FreeMemory))
	if c.Unsized > 0 {
		text += fmt.Sprintf(" (excluding %d whose size only the engine knows)", c.Unsized)
	}

	if lacks := c.DescribeShortage(); lacks != "" {
		text += ". They do not fit: " + lacks
	}

	return text
}

func formatSize(bytes int64) string { return humanize.IBytes(uint64(max(bytes, 0))) } //nolint:gosec // not negative
