package engine

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// located is a named object in a data center.
type located interface {
	getHome() home
	getName() string
}

// home determines the data center of an object, directly or through other objects.
type home struct {
	dataCenters, clusters, storage, networks []ID
	// everywhere reports that all data centers can use the object.
	everywhere bool
}

func (c Cluster) getHome() home       { return home{dataCenters: []ID{c.DataCenter.ID}} }
func (c Cluster) getName() string     { return c.Name }
func (n Network) getHome() home       { return home{dataCenters: []ID{n.DataCenter.ID}} }
func (n Network) getName() string     { return n.Name }
func (p VNICProfile) getHome() home   { return home{networks: []ID{p.Network.ID}} }
func (p VNICProfile) getName() string { return p.Name }
func (h Host) getHome() home          { return home{clusters: []ID{RefID(h.Cluster)}} }
func (h Host) getName() string        { return h.Name }
func (v VM) getHome() home            { return home{clusters: []ID{RefID(v.Cluster)}} }
func (v VM) getName() string          { return v.Name }

// getHome returns the cluster of a template. The engine's Blank has no cluster, and all data centers can use it.
func (t Template) getHome() home {
	return home{clusters: []ID{RefID(t.Cluster)}, everywhere: t.Cluster == nil}
}
func (t Template) getName() string { return t.Name }

func (d StorageDomain) getHome() home {
	out := home{dataCenters: []ID{RefID(d.DataCenter)}}
	if d.DataCenters != nil {
		for _, ref := range d.DataCenters.Items {
			out.dataCenters = append(out.dataCenters, ref.ID)
		}
	}

	return out
}

func (d StorageDomain) getName() string { return d.Name }

// getHome returns the storage domains of a disk. A disk on its own LUN has none.
func (d Disk) getHome() home {
	domains := d.StorageDomainIDs()
	return home{storage: domains, everywhere: len(domains) == 0}
}

func (d Disk) getName() string { return d.AliasText() }

// DescribeScope describes the scope of a look-up for errors: a data center, or the engine if dc is nil.
func DescribeScope(dc *DataCenter) string {
	if dc == nil {
		return "the engine"
	}

	return fmt.Sprintf("data center %q", dc.Name)
}

// newScopeFilter returns the filter for all look-ups by name: the objects of the data center, or of the whole engine if
// dc is nil. Names are unique only within a data center. If a request of the filter fails, the filter returns false and
// sets failed.
func (c *Client) newScopeFilter(ctx context.Context, dc *DataCenter, failed *error) func(located) bool {
	note := func(err error) {
		if *failed == nil {
			*failed = err
		}
	}

	return func(object located) bool {
		if dc == nil {
			return true
		}

		at := object.getHome()
		if at.everywhere || slices.Contains(at.dataCenters, dc.ID) {
			return true
		}

		for _, id := range at.clusters {
			cluster, err := c.findClusterByID(ctx, id)
			if note(err); cluster != nil && cluster.DataCenter.ID == dc.ID {
				return true
			}
		}

		for _, id := range at.storage {
			domain, err := c.findStorageDomainByID(ctx, id)
			if note(err); domain != nil && slices.Contains(domain.getHome().dataCenters, dc.ID) {
				return true
			}
		}

		for _, id := range at.networks {
			network, err := c.findNetworkByID(ctx, id)
			if note(err); network != nil && network.DataCenter.ID == dc.ID {
				return true
			}
		}

		return false
	}
}

// FilterByDataCenter returns the objects of a data center, or all objects if dc is nil.
func FilterByDataCenter[T located](ctx context.Context, c *Client, dc *DataCenter, objects []T) ([]T, error) {
	var failed error
	has := c.newScopeFilter(ctx, dc, &failed)
	found := filterItems(objects, func(object T) bool { return has(object) })

	return found, failed
}

// findNamed returns the object with this name in a data center that fits, or a NameError with the same scope. all has
// the objects of the engine.
func findNamed[T located](
	ctx context.Context, c *Client, list *cachedList[T], collection, kind string, dc *DataCenter, name string,
	fits func(T) bool,
) (item *T, all []T, err error) {
	var failed error
	has := c.newScopeFilter(ctx, dc, &failed)

	item, all, err = findInList(ctx, c, list, collection, func(object T) bool {
		return object.getName() == name && fits(object) && has(object)
	})
	if err == nil && item == nil && failed == nil {
		known := collectNames(all, func(object T) bool { return fits(object) && has(object) }, T.getName)
		err = &NameError{Kind: kind, Name: name, Scope: DescribeScope(dc), Known: known}
	}

	if failed != nil {
		err = failed
	}

	return item, all, err
}

// acceptAny accepts all objects.
func acceptAny[T any](T) bool { return true }

// FindDataCenterOf returns the data center of a cluster, or nil if the engine does not have the cluster.
func (c *Client) FindDataCenterOf(ctx context.Context, clusterID ID) (*DataCenter, error) {
	cluster, err := c.findClusterByID(ctx, clusterID)
	if err != nil || cluster == nil {
		return nil, err
	}

	dc, _, err := findInList(ctx, c, &c.lists.dataCenters, "datacenters", func(d DataCenter) bool {
		return d.ID == cluster.DataCenter.ID
	})

	return dc, err
}

// ListHostsIn lists the hosts of a cluster from a cached list at most maxAge old. A nil cluster means all hosts of the
// data center.
func (c *Client) ListHostsIn(
	ctx context.Context, dc *DataCenter, cluster *Cluster, maxAge time.Duration,
) ([]Host, error) {
	hosts, err := c.ListHostsWithin(ctx, maxAge)
	if err != nil {
		return nil, err
	}

	if cluster != nil {
		return filterItems(hosts, func(h Host) bool { return RefID(h.Cluster) == cluster.ID }), nil
	}

	return FilterByDataCenter(ctx, c, dc, hosts)
}
