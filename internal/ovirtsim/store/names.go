package store

import (
	"strings"
	"unicode"
)

// PlainName reports whether a name has nothing but letters of any language, digits, and - _ and a dot.
func PlainName(name string) bool {
	return name != "" && strings.IndexFunc(name, func(c rune) bool { return !isNameRune(c) }) < 0
}

func isNameRune(c rune) bool {
	return unicode.IsLetter(c) || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}

// ClusterName is the name of a cluster, "" where there is none.
func (s *Store) ClusterName(id string) string {
	if c := s.Clusters.Get(id); c != nil {
		return c.Name
	}

	return ""
}

// DataCenterName is the name of a data center, "" where there is none.
func (s *Store) DataCenterName(id string) string {
	if d := s.DataCenters.Get(id); d != nil {
		return d.Name
	}

	return ""
}

// HostName is the name of a host, "" where there is none.
func (s *Store) HostName(id string) string {
	if h := s.Hosts.Get(id); h != nil {
		return h.Name
	}

	return ""
}

// VMName is the name of a VM, "" where there is none.
func (s *Store) VMName(id string) string {
	if v := s.VMs.Get(id); v != nil {
		return v.Name
	}

	return ""
}
