package store

import (
	"fmt"
	"slices"
)

// IsSPM reports whether a host manages the storage of its data center (SPM). The first host in status up is the SPM.
func (s *Store) IsSPM(h *Host) bool {
	if h.Status != HostUp {
		return false
	}

	for _, other := range s.Hosts.Rows {
		if other.Status == HostUp && s.DataCenterOf(other.Cluster) == s.DataCenterOf(h.Cluster) && other.Name < h.Name {
			return false
		}
	}

	return true
}

// HostNumber returns the position of a host in the order of names, starting at 1.
func (s *Store) HostNumber(h *Host) int {
	all := s.Hosts.Where(nil, func(h *Host) string { return h.Name + h.ID })
	return 1 + slices.Index(all, h)
}

// HostAddress returns an address from the documentation range, because the simulator has no network for hosts.
func (s *Store) HostAddress(h *Host) string { return fmt.Sprintf("192.0.2.%d", s.HostNumber(h)%250) }
