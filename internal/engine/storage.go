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
	// Domain names the storage domain, or DomainID is its ID. If both are empty, ChooseDiskPlace chooses one of Among.
	Domain   string
	DomainID ID
	// Among lists the possible storage domains of a disk without a Domain. If several are active, ChooseDiskPlace
	// always chooses the same one.
	Among []ID
	// Format is the format of the disk. Sparse is the requested allocation; nil lets ChooseDiskPlace decide.
	Format string
	Sparse *bool
}

// ChooseDiskPlace chooses the storage domain for a disk in a data center, and decides whether the disk is sparse there.
// No other function checks the status and the kind of a storage domain. If at names no domain, it returns nil. A nil
// allocation lets the engine decide. dc may be nil if at has a DomainID. An error that a user can correct is a
// NameError, an InactiveError or an AllocationError.
func (c *Client) ChooseDiskPlace(ctx context.Context, dc *DataCenter, at DiskPlace) (*StorageDomain, *bool, error) {
	domain, err := c.chooseDomain(ctx, dc, at)
	if err != nil {
		return nil, nil, err
	}

	sparse, err := chooseAllocation(domain, at.Format, at.Sparse)

	return domain, sparse, err
}

func (c *Client) chooseDomain(ctx context.Context, dc *DataCenter, at DiskPlace) (*StorageDomain, error) {
	if at.Domain != "" {
		return c.FindStorageDomain(ctx, dc, at.Domain)
	}

	if at.DomainID != "" {
		return c.findDomainForDisks(ctx, at.DomainID)
	}

	var inactive []StorageDomain

	for _, id := range slices.Sorted(slices.Values(at.Among)) {
		domain, err := c.findStorageDomainByID(ctx, id)
		if err != nil {
			return nil, err
		}

		if domain == nil { // this user may not see the domain, so the engine checks it
			return &StorageDomain{ID: id}, nil
		}

		if err := c.fetchStatus(ctx, dc, domain); err != nil {
			return nil, err
		}

		if domain.isReadyForDisks() {
			return domain, nil
		}

		inactive = append(inactive, *domain)
	}

	if len(inactive) > 0 {
		return nil, &InactiveError{Scope: DescribeScope(dc), Domains: inactive}
	}

	return nil, nil
}

// canHoldDisks reports whether a domain of this kind can hold disks. ISO and export domains cannot.
func (d StorageDomain) canHoldDisks() bool { return d.Type == "data" }

// findDomainForDisks returns the storage domain with this ID. It returns an InactiveError, or an AllocationError if the
// domain's kind holds no disks. If the user may not see the domain, the result has only an ID, and the engine checks
// the domain.
func (c *Client) findDomainForDisks(ctx context.Context, id ID) (*StorageDomain, error) {
	domain, err := c.findStorageDomainByID(ctx, id)
	if err != nil {
		return nil, err
	}

	if domain == nil {
		return &StorageDomain{ID: id}, nil
	}

	if domain.Type != "" && !domain.canHoldDisks() {
		return nil, &AllocationError{fmt.Sprintf("storage domain %q is of the kind %s, which holds no disks; use one "+
			"of the kind data", domain.Name, domain.Type)}
	}

	for _, dc := range domain.getHome().dataCenters {
		if dc == "" {
			continue
		}

		if err := c.fetchStatus(ctx, &DataCenter{ID: dc}, domain); err != nil {
			return nil, err
		}
	}

	if !domain.isReadyForDisks() {
		return nil, &InactiveError{Scope: DescribeScope(nil), Domains: []StorageDomain{*domain}}
	}

	return domain, nil
}

// isReadyForDisks reports whether the storage domain accepts new disks. It also reports true for an unknown status,
// because the engine then checks the domain.
func (d *StorageDomain) isReadyForDisks() bool { return d.Status == "" || d.Status == DomainActive }

// FindStorageDomain returns the storage domain for disks with this name in the data center, a NameError, or an
// InactiveError.
func (c *Client) FindStorageDomain(ctx context.Context, dc *DataCenter, name string) (*StorageDomain, error) {
	domain, _, err := findNamed(ctx, c, &c.lists.storage, "storagedomains", "storage domain", dc, name,
		StorageDomain.canHoldDisks)

	if err == nil {
		err = c.fetchStatus(ctx, dc, domain)
	}

	if err == nil && !domain.isReadyForDisks() {
		err = &InactiveError{Scope: DescribeScope(dc), Domains: []StorageDomain{*domain}}
	}

	if err != nil {
		return nil, err
	}

	return domain, nil
}

// attachedDomains caches a list of storage domains per data center. Only these lists have the status of a domain, as
// the recording "lists" shows.
type attachedDomains struct {
	mu    sync.Mutex
	lists map[ID]*cachedList[StorageDomain]
}

func (a *attachedDomains) getList(dc ID) *cachedList[StorageDomain] {
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

// fetchStatus sets the status of a storage domain in its data center.
func (c *Client) fetchStatus(ctx context.Context, dc *DataCenter, domain *StorageDomain) error {
	// A cached list may be outdated, because a user may have activated the domain and tried again. So findInList reads
	// the list again unless the domain is ready for disks.
	_, all, err := findInList(
		ctx, c, c.lists.attached.getList(dc.ID), "datacenters/"+dc.ID.pathSegment()+"/storagedomains",
		func(d StorageDomain) bool { return d.ID == domain.ID && d.isReadyForDisks() },
	)
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

func (c *Client) findStorageDomainByID(ctx context.Context, id ID) (*StorageDomain, error) {
	item, _, err := findInList(
		ctx, c, &c.lists.storage, "storagedomains", func(d StorageDomain) bool { return d.ID == id },
	)

	return item, err
}

// chooseAllocation decides whether a disk is sparse on a storage domain. It follows the request if possible. A nil
// result lets the engine choose, and the engine then creates a sparse disk. A nil domain means an unknown one.
func chooseAllocation(domain *StorageDomain, format string, sparse *bool) (*bool, error) {
	yes, no := true, false

	switch isBlock := domain != nil && domain.isBlock(); {
	case format == FormatCow && sparse != nil && !*sparse:
		return nil, &AllocationError{"a cow disk is always sparse; use format raw for a preallocated disk"}
	case format == FormatCow:
		return &yes, nil
	case format == FormatRaw && isBlock && sparse != nil && *sparse:
		return nil, &AllocationError{fmt.Sprintf("storage domain %q is block storage (%s), on which raw disks are "+
			"preallocated; omit sparse, or use format cow", domain.Name, domain.StorageType)}
	case format == FormatRaw && isBlock:
		return &no, nil
	}

	return sparse, nil
}
