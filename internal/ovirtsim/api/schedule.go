package api

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// placeVM selects the host for a VM. Hard rules filter the hosts, and then soft rules and free memory rank them. If no
// host is suitable, it returns nil and the engine's texts for each rejected host.
func (s *Engine) placeVM(v *store.VM, want string) (*store.Host, error) {
	free := s.freeMemory(v)
	var best *store.Host
	var bestScore int64
	var why []string

	hosts := s.store.Hosts.Where(func(h *store.Host) bool {
		return h.Cluster == v.Cluster
	}, func(h *store.Host) string { return h.Name })
	for _, h := range hosts {
		if h.Status != store.HostUp || want != "" && h.ID != want || want == "" && h.ID == v.Host {
			continue
		}

		reason, score := s.filterHost(v, h, free[h.ID])
		if reason != "" {
			why = append(why, fmt.Sprintf("The host %s did not satisfy %s.", h.Name, reason))
			continue
		}

		if best == nil || score > bestScore {
			best, bestScore = h, score
		}
	}

	if best != nil {
		return best, nil
	}

	detail := "Cannot run VM. There is no host that satisfies current scheduling constraints. See below for details:"
	for _, line := range why {
		detail += ", " + line
	}

	return nil, wire.Conflict("%s", detail)
}

// freeMemory returns the free memory of each host in bytes, by the host's ID. It does not count the memory of the given
// VM.
func (s *Engine) freeMemory(v *store.VM) map[string]int64 {
	free := map[string]int64{}
	for _, h := range s.store.Hosts.Rows {
		free[h.ID] = h.Memory
	}

	for _, other := range s.store.VMs.Rows {
		if other.Host != "" && other.ID != v.ID {
			free[other.Host] -= other.Memory
		}

		if other.Destination != "" {
			free[other.Destination] -= other.Memory
		}
	}

	return free
}

// filterHost returns the hard rule that excludes a host. If none does, it returns "" and the host's score. The texts
// are from the engine's sources, except the text for labels, because the engine turns labels into groups.
func (s *Engine) filterHost(v *store.VM, h *store.Host, free int64) (reason string, score int64) {
	switch {
	case len(v.PlacementHosts) > 0 && !slices.Contains(v.PlacementHosts, h.ID):
		return "internal filter PinToHost because the host is not present in the pinning list.", 0
	case free < v.Memory:
		return fmt.Sprintf("internal filter Memory because its available memory is too low (%d MB) to run the VM",
			max(free, 0)>>20), 0
	case v.CPU.CountCPUs() > h.CPU.CountCPUs():
		return "internal filter CPU because it has an insufficient amount of CPU cores to run the VM", 0
	case len(h.MissingDevices(v)) > 0:
		return "internal filter MDevice because some of the required mDev devices are missing (" +
			strings.Join(h.MissingDevices(v), ", ") + ")", 0
	}

	reason, soft := s.evaluateAffinity(v, h)

	return reason, free>>20 + soft
}

// trimVerdict shortens the error of a start, for the error of another operation.
func trimVerdict(err error) string {
	var refused *wire.Refusal
	if errors.As(err, &refused) {
		return strings.TrimPrefix(strings.Trim(refused.Detail, "[]"), "Cannot run VM. ")
	}

	return err.Error()
}

// softWeight is the weight of a soft rule. It outweighs any difference in free memory, in MiB.
const softWeight = 1 << 40

// evaluateAffinity evaluates a host for the VM's affinity rules. It returns the reason to exclude the host, or the
// weight of the soft rules.
func (s *Engine) evaluateAffinity(v *store.VM, h *store.Host) (reason string, weight int64) {
	for _, g := range s.store.Groups.Where(func(g *store.AffinityGroup) bool {
		return slices.Contains(g.VMs, v.ID)
	}, store.GroupKey) {
		if g.VMsRule.Enabled {
			good := s.vmsRuleHolds(g, v, h)
			switch {
			case good:
			case g.VMsRule.Enforcing && g.VMsRule.Positive:
				return "internal filter VmAffinityGroups because it did not match positive affinity rules " + g.Name, 0
			case g.VMsRule.Enforcing:
				return "internal filter VmAffinityGroups because it matched negative affinity rules " + g.Name, 0
			default:
				weight -= softWeight
			}
		}

		if g.HostsRule.Enabled && len(g.Hosts) > 0 && slices.Contains(g.Hosts, h.ID) != g.HostsRule.Positive {
			if g.HostsRule.Enforcing {
				how := "it matched negative"
				if g.HostsRule.Positive {
					how = "it did not match positive"
				}

				return "internal filter VmToHostsAffinityGroups because " + how + " affinity rules " + g.Name, 0
			}

			weight -= softWeight
		}
	}

	for _, l := range s.store.Labels.Rows {
		if l.Implicit && slices.Contains(l.VMs, v.ID) && !slices.Contains(l.Hosts, h.ID) {
			return "internal filter Label because it does not have the affinity label " + l.Name, 0
		}
	}

	return "", weight
}

// vmsRuleHolds reports whether the VM on this host satisfies a group's rule between VMs.
func (s *Engine) vmsRuleHolds(g *store.AffinityGroup, v *store.VM, h *store.Host) bool {
	others := map[string]bool{}

	for _, id := range g.VMs {
		if other := s.store.VMs.Get(id); other != nil && other.ID != v.ID && other.Host != "" {
			others[cmp.Or(other.Destination, other.Host)] = true
		}
	}

	if g.VMsRule.Positive {
		return len(others) == 0 || others[h.ID]
	}

	return !others[h.ID]
}
