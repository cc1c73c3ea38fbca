package store

import (
	"slices"
)

// IsOnDomain reports whether a disk is on a storage domain. A template's disk may be on several domains.
func (d *Disk) IsOnDomain(domainID string) bool {
	return d.Domain == domainID || slices.Contains(d.Copies, domainID)
}

// IsTemplateDisk reports whether a disk belongs to a template.
func (s *Store) IsTemplateDisk(d *Disk) bool {
	for _, a := range s.AttachmentsOfDisk(d.ID) {
		if s.Templates.Get(a.Owner) != nil {
			return true
		}
	}

	return false
}

// IsBlock reports whether disks of a storage domain are block devices.
func (d *StorageDomain) IsBlock() bool { return d.StorageType == "iscsi" || d.StorageType == "fcp" }
