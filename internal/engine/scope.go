package engine

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// located is an object with a name that is in a data center.
type located interface {
	home() home
	named() string
}

// home says what puts an object into a data center: the data center itself, or other objects that are in one.
type home struct {
	dataCenters, clusters, storage, networks []ID
	// everywhere reports that the object can be used in all data centers.
	everywhere bool
}

func (c Cluster) home() home        { return home{dataCenters: []ID{c.DataCenter.ID}} }
func (c Cluster) named() string     { return c.Name }
func (n Network) home() home        { return home{dataCenters: []ID{n.DataCenter.ID}} }
func (n Network) named() string     { return n.Name }
func (p VNICProfile) home() home    { return home{networks: []ID{p.Network.ID}} }
func (p VNICProfile) named() string { return p.Name }
func (h Host) home() home           { return home{clusters: []ID{RefID(h.Cluster)}} }
func (h Host) named() string        { return h.Name }
func (v VM) home() home             { return home{clusters: []ID{RefID(v.Cluster)}} }
func (v VM) named() string          { return v.Name }

// home of a template is its cluster. The engine's Blank has none and serves all data centers.
func (t Template) home() home {
	return home{clusters: []ID{RefID(t.Cluster)}, everywhere: t.Cluster == nil}
}
func (t Template) named() string { return t.Name }

func (d StorageDomain) home() home {
	out := home{dataCenters: []ID{RefID(d.DataCenter)}}
	if d.DataCenters != nil {
		for _, ref := range d.DataCenters.Items {
			out.dataCenters = append(out.dataCenters, ref.ID)
		}
	}

	return out
}

func (d StorageDomain) named() string { return d.Name }

// home of a disk are its storage domains. One on a LUN of its own has none.
func (d Disk) home() home {
	domains := d.StorageDomainIDs()
	return home{storage: domains, everywhere: len(domains) == 0}
}

func (d Disk) named() string { return d.AliasText() }

// ScopeName is what errors call the place where a name was looked up: a data center, or for nil the engine.
func ScopeName(dc *DataCenter) string {
	if dc == nil {
		return "the engine"
	}

	return fmt.Sprintf("data center %q", dc.Name)
}

// scope returns the one function that decides which objects a look-up by name sees: those of the data center, or for
// nil those of the whole engine. Names are unique within a data center only. What the engine refuses to say while the
// function works is in failed, and the function reports false.
func (c *Client) scope(ctx context.Context, dc *DataCenter, failed *error) func(located) bool {
	note := func(err error) {
		if *failed == nil {
			*failed = err
		}
	}

	return func(object located) bool {
		if dc == nil {
			return true
		}

		at := object.home()
		if at.everywhere || slices.Contains(at.dataCenters, dc.ID) {
			return true
		}

		for _, id := range at.clusters {
			cluster, err := c.clusterByID(ctx, id)
			if note(err); cluster != nil && cluster.DataCenter.ID == dc.ID {
				return true
			}
		}

		for _, id := range at.storage {
			domain, err := c.storageDomainByID(ctx, id)
			if note(err); domain != nil && slices.Contains(domain.home().dataCenters, dc.ID) {
				return true
			}
		}

		for _, id := range at.networks {
			network, err := c.networkByID(ctx, id)
			if note(err); network != nil && network.DataCenter.ID == dc.ID {
				return true
			}
		}

		return false
	}
}

// Within returns the objects that are in a data center; for nil all of them.
func Within[T located](ctx context.Context, c *Client, dc *DataCenter, objects []T) ([]T, error) {
	var failed error
	has := c.scope(ctx, dc, &failed)
	found := kept(objects, func(object T) bool { return has(object) })

	return found, failed
}

// findNamed returns an object of a data center that fits and has the name, or a NameError that blames the same data
// center. all are the objects of the engine.
func findNamed[T located](
	ctx context.Context, c *Client, list *cachedList[T], collection, kind string, dc *DataCenter, name string,
	fits func(T) bool,
) (item *T, all []T, err error) {
	var failed error
	has := c.scope(ctx, dc, &failed)

	item, all, err = find(ctx, c, list, collection, func(object T) bool {
		return object.named() == name && fits(object) && has(object)
	})
	if err == nil && item == nil && failed == nil {
		known := names(all, func(object T) bool { return fits(object) && has(object) }, T.named)
		err = &NameError{Kind: kind, Name: name, Scope: ScopeName(dc), Known: known}
	}

	if failed != nil {
		err = failed
	}

	return item, all, err
}

// anyOf fits all objects.
func anyOf[T any](T) bool { return true }

// DataCenterOf returns the data center of a cluster; nil if the engine does not have the cluster.
func (c *Client) DataCenterOf(ctx context.Context, clusterID ID) (*DataCenter, error) {
	cluster, err := c.clusterByID(ctx, clusterID)
	if err != nil || cluster == nil {
		return nil, err
	}

	dc, _, err := find(ctx, c, &c.lists.dataCenters, "datacenters", func(d DataCenter) bool {
		return d.ID == cluster.DataCenter.ID
	})

	return dc, err
}

// HostsIn lists the hosts of a cluster, or for nil those of the data center, out of a list that is at most maxAge old.
func (c *Client) HostsIn(ctx context.Context, dc *DataCenter, cluster *Cluster, maxAge time.Duration) ([]Host, error) {
	hosts, err := c.HostsWithin(ctx, maxAge)
	if err != nil {
		return nil, err
	}

	if cluster != nil {
		return kept(hosts, func(h Host) bool { return RefID(h.Cluster) == cluster.ID }), nil
	}

	return Within(ctx, c, dc, hosts)
}
