package engine

import (
	"cmp"
	"context"
)

// GetKnownName returns the name of an object from the cached lists, or "". It sends no request. The name is only for
// display, because it may have changed since.
func (c *Client) GetKnownName(ctx context.Context, id ID) string {
	return cmp.Or(
		findCachedName(ctx, &c.lists.storage, func(d StorageDomain) (ID, string) { return d.ID, d.Name }, id),
		findCachedName(ctx, &c.lists.tags, func(t Tag) (ID, string) { return t.ID, t.Name }, id),
		findCachedName(ctx, &c.lists.hosts, func(h Host) (ID, string) { return h.ID, h.Name }, id),
		findCachedName(ctx, &c.lists.vnicProfiles, func(p VNICProfile) (ID, string) { return p.ID, p.Name }, id),
		findCachedName(ctx, &c.lists.networks, func(n Network) (ID, string) { return n.ID, n.Name }, id),
		findCachedName(ctx, &c.lists.types, func(t InstanceType) (ID, string) { return t.ID, t.Name }, id),
		findCachedName(ctx, &c.lists.clusters, func(l Cluster) (ID, string) { return l.ID, l.Name }, id),
		findCachedName(ctx, &c.lists.templates, func(t Template) (ID, string) { return t.ID, t.Name }, id),
	)
}

// findCachedName looks for an ID in a list. It returns the name, or "".
func findCachedName[T any](ctx context.Context, list *cachedList[T], read func(T) (ID, string), id ID) string {
	if err := list.mu.acquire(ctx); err != nil {
		return ""
	}

	defer list.mu.release()

	for _, item := range list.items {
		if found, name := read(item); found == id {
			return name
		}
	}

	return ""
}
