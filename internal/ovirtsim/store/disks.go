package store

import (
	"slices"
)

// On reports whether a disk is on a storage domain. A template's disk may be on several.
func (d *Disk) On(domainID string) bool {
	return d.Domain == domainID || slices.Contains(d.Copies, domainID)
}

// OfTemplate reports whether a disk belongs to a template.
func (s *Store) OfTemplate(d *Disk) bool {
	for _, a := range s.AttachmentsOfDisk(d.ID) {
		if s.Templates.Get(a.Owner) != nil {
			return true
		}
	}

	return false
}

// Block reports whether disks of a storage domain are block devices.
func (d *StorageDomain) Block() bool { return d.StorageType == "iscsi" || d.StorageType == "fcp" }
