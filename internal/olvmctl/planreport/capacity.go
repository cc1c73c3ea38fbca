package planreport

import (
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

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
