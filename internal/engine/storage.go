package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// DomainActive is the status of a storage domain ready for new disks.
const DomainActive = "active"

// blockStorage lists the storage types that provide disks as block devices.
var blockStorage = []string{"iscsi", "fcp"}

// isBlock reports whether the disks of a storage domain are block devices.
func (d *StorageDomain) isBlock() bool { return slices.Contains(blockStorage, d.StorageType) }

// InactiveError reports that storage domains exist, but are not ready for disks.
type InactiveError struct {
	// Scope of the domains, such as `data center "Default"`.
	Scope string
	// Domains with their statuses.
	Domains []StorageDomain
}

func (e *InactiveError) Error() string {
	var domains []string
	for _, d := range e.Domains {
		domains = append(domains, fmt.Sprintf("%q has the status %s", d.Name, d.Status))
	}

	slices.Sort(domains)

	return fmt.Sprintf("storage domain %s in %s, and disks need one that is %s", strings.Join(domains, ", "), e.Scope,
		DomainActive)
}

// AllocationError reports that no storage domain of this kind supports the disk's format and allocation.
type AllocationError struct{ Message string }

func (e *AllocationError) Error() string { return e.Message }

// DiskPlace describes a disk to create, and the possible storage domains for it.
type DiskPlace struct {
	// Domain names the storage domain, or DomainID is its ID. If both are empty, PlaceDisk chooses one of Among.
	Domain   string
	DomainID ID
	// Among lists the possible storage domains of a disk without a Domain. PlaceDisk always chooses the same of several
	// active ones.
	Among []ID
	// Format is the format of the disk. Sparse is the requested allocation; nil lets PlaceDisk decide.
	Format string
	Sparse *bool
}

// PlaceDisk chooses the storage domain for a disk in a data center, and decides whether the disk is sparse there. It
// alone checks the status and the kind of a storage domain. It returns no domain if at names none, and a nil allocation
// to let the engine decide. The data center may be nil with a DomainID. If a user can correct the error, it is a
// NameError, an InactiveError or an AllocationError.
func (c *Client) PlaceDisk(ctx context.Context, dc *DataCenter, at DiskPlace) (*StorageDomain, *bool, error) {
	domain, err := c.chooseDomain(ctx, dc, at)
	if err != nil {
		return nil, nil, err
	}

	sparse, err := allocationOn(domain, at.Format, at.Sparse)

	return domain, sparse, err
}

func (c *Client) chooseDomain(ctx context.Context, dc *DataCenter, at DiskPlace) (*StorageDomain, error) {
	if at.Domain != "" {
		return c.StorageDomain(ctx, dc, at.Domain)
	}

	if at.DomainID != "" {
		return c.storageDomainForDisks(ctx, at.DomainID)
	}

	var inactive []StorageDomain

	for _, id := range slices.Sorted(slices.Values(at.Among)) {
		domain, err := c.storageDomainByID(ctx, id)
		if err != nil {
			return nil, err
		}

		if domain == nil { // the user may not see it, so the engine checks it
			return &StorageDomain{ID: id}, nil
		}

		if err := c.readStatus(ctx, dc, domain); err != nil {
			return nil, err
		}

		if domain.takesDisks() {
			return domain, nil
		}

		inactive = append(inactive, *domain)
	}

	if len(inactive) > 0 {
		return nil, &InactiveError{Scope: ScopeName(dc), Domains: inactive}
	}

	return nil, nil
}

// holdsDisks reports whether the domain's kind can hold disks, unlike ISO or export domains.
func (d StorageDomain) holdsDisks() bool { return d.Type == "data" }

// storageDomainForDisks returns the storage domain with this ID, an InactiveError, or an AllocationError if its kind
// holds no disks. If the user may not see the domain, the result has only an ID, and the engine checks the domain.
func (c *Client) storageDomainForDisks(ctx context.Context, id ID) (*StorageDomain, error) {
	domain, err := c.storageDomainByID(ctx, id)
	if err != nil {
		return nil, err
	}

	if domain == nil {
		return &StorageDomain{ID: id}, nil
	}

	if domain.Type != "" && !domain.holdsDisks() {
		return nil, &AllocationError{fmt.Sprintf("storage domain %q is of the kind %s, which holds no disks; name one "+
			"of the kind data", domain.Name, domain.Type)}
	}

	for _, dc := range domain.home().dataCenters {
		if dc == "" {
			continue
		}

		if err := c.readStatus(ctx, &DataCenter{ID: dc}, domain); err != nil {
			return nil, err
		}
	}

	if !domain.takesDisks() {
		return nil, &InactiveError{Scope: ScopeName(nil), Domains: []StorageDomain{*domain}}
	}

	return domain, nil
}

// takesDisks reports whether the storage domain is ready for new disks. It also reports true for an unknown status; the
// engine then checks the domain.
func (d *StorageDomain) takesDisks() bool { return d.Status == "" || d.Status == DomainActive }

// StorageDomain returns the storage domain for disks with this name in the data center, a NameError, or an
// InactiveError.
func (c *Client) StorageDomain(ctx context.Context, dc *DataCenter, name string) (*StorageDomain, error) {
	domain, _, err := findNamed(ctx, c, &c.lists.storage, "storagedomains", "storage domain", dc, name,
		StorageDomain.holdsDisks)

	if err == nil {
		err = c.readStatus(ctx, dc, domain)
	}

	if err == nil && !domain.takesDisks() {
		err = &InactiveError{Scope: ScopeName(dc), Domains: []StorageDomain{*domain}}
	}

	if err != nil {
		return nil, err
	}

	return domain, nil
}

// attachedDomains caches a list of storage domains per data center. Only these lists have the status of a domain, as
// the recording "lists" of an engine shows.
type attachedDomains struct {
	mu    sync.Mutex
	lists map[ID]*cachedList[StorageDomain]
}

func (a *attachedDomains) of(dc ID) *cachedList[StorageDomain] {
	a.mu.Lock()
	defer a.mu.Unlock()

	if a.lists == nil {
		a.lists = map[ID]*cachedList[StorageDomain]{}
	}

	if a.lists[dc] == nil {
		a.lists[dc] = &cachedList[StorageDomain]{}
	}

	return a.lists[dc]
}

// readStatus sets the status of a storage domain in its data center.
func (c *Client) readStatus(ctx context.Context, dc *DataCenter, domain *StorageDomain) error {
	// A cached list may be outdated: a user may have activated the domain since, and tries again. So find reads the
	// list again unless the domain takes disks.
	_, all, err := find(ctx, c, c.lists.attached.of(dc.ID), "datacenters/"+dc.ID.segment()+"/storagedomains",
		func(d StorageDomain) bool { return d.ID == domain.ID && d.takesDisks() })
	if err != nil {
		return err
	}

	for _, attached := range all {
		if attached.ID == domain.ID && attached.Status != "" {
			domain.Status = attached.Status
		}
	}

	return nil
}

func (c *Client) storageDomainByID(ctx context.Context, id ID) (*StorageDomain, error) {
	item, _, err := find(ctx, c, &c.lists.storage, "storagedomains", func(d StorageDomain) bool { return d.ID == id })
	return item, err
}

// allocationOn decides whether a disk is sparse on a storage domain. It follows the request if possible. A nil result
// lets the engine choose; the engine then makes a sparse disk. A nil domain means an unknown one.
func allocationOn(domain *StorageDomain, format string, sparse *bool) (*bool, error) {
	yes, no := true, false

	switch isBlock := domain != nil && domain.isBlock(); {
	case format == FormatCow && sparse != nil && !*sparse:
		return nil, &AllocationError{"a cow disk is always sparse; write format raw for a preallocated one"}
	case format == FormatCow:
		return &yes, nil
	case format == FormatRaw && isBlock && sparse != nil && *sparse:
		return nil, &AllocationError{fmt.Sprintf("storage domain %q is block storage (%s), on which raw disks are "+
			"preallocated; omit sparse, or write format cow", domain.Name, domain.StorageType)}
	case format == FormatRaw && isBlock:
		return &no, nil
	}

	return sparse, nil
}
