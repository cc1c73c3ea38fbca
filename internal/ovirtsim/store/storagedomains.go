package store

// Usage returns the bytes that the disks of a storage domain use now, and the bytes that they can use at most.
func (s *Store) Usage(domainID string) (used, committed int64) {
	for _, d := range s.Disks.Rows {
		if d.IsOnDomain(domainID) {
			used += d.Actual
			committed += d.Provisioned
		}
	}

	return used, committed
}

// Status returns the status of a storage domain in the engine's form.
func (d *StorageDomain) Status() string {
	if d.Maintenance {
		return "maintenance"
	}

	return "active"
}

// IsMaster reports whether a storage domain is the first of its data center.
func (s *Store) IsMaster(d *StorageDomain) bool {
	for _, other := range s.StorageDomains.Rows {
		if other.DataCenter == d.DataCenter && other.Name < d.Name {
			return false
		}
	}

	return true
}

// DiskProfileID returns the ID of the only disk profile of a storage domain.
func (s *Store) DiskProfileID(domainID string) string { return s.IDOf("", "diskprofile", domainID) }
