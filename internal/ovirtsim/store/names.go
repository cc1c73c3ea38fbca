package store

import (
	"strings"
	"unicode"
)

// IsPlainName reports whether a name consists of letters of any language, digits, and "-", "_" and ".".
func IsPlainName(name string) bool {
	return name != "" && strings.IndexFunc(name, func(c rune) bool { return !isNameRune(c) }) < 0
}

func isNameRune(c rune) bool {
	return unicode.IsLetter(c) || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}

// ClusterName returns the name of a cluster, or "".
func (s *Store) ClusterName(id string) string {
	if c := s.Clusters.Get(id); c != nil {
		return c.Name
	}

	return ""
}

// DataCenterName returns the name of a data center, or "".
func (s *Store) DataCenterName(id string) string {
	if d := s.DataCenters.Get(id); d != nil {
		return d.Name
	}

	return ""
}

// HostName returns the name of a host, or "".
func (s *Store) HostName(id string) string {
	if h := s.Hosts.Get(id); h != nil {
		return h.Name
	}

	return ""
}

// VMName returns the name of a VM, or "".
func (s *Store) VMName(id string) string {
	if v := s.VMs.Get(id); v != nil {
		return v.Name
	}

	return ""
}
