package engine

import (
	"cmp"
	"context"
)

// KnownName returns the name of an object from the cached lists, or "". It sends no request. The name is for users
// only, because it may have changed since.
func (c *Client) KnownName(ctx context.Context, id ID) string {
	return cmp.Or(
		knownIn(ctx, &c.lists.storage, func(d StorageDomain) (ID, string) { return d.ID, d.Name }, id),
		knownIn(ctx, &c.lists.tags, func(t Tag) (ID, string) { return t.ID, t.Name }, id),
		knownIn(ctx, &c.lists.hosts, func(h Host) (ID, string) { return h.ID, h.Name }, id),
		knownIn(ctx, &c.lists.vnicProfiles, func(p VNICProfile) (ID, string) { return p.ID, p.Name }, id),
		knownIn(ctx, &c.lists.networks, func(n Network) (ID, string) { return n.ID, n.Name }, id),
		knownIn(ctx, &c.lists.types, func(t InstanceType) (ID, string) { return t.ID, t.Name }, id),
		knownIn(ctx, &c.lists.clusters, func(l Cluster) (ID, string) { return l.ID, l.Name }, id),
		knownIn(ctx, &c.lists.templates, func(t Template) (ID, string) { return t.ID, t.Name }, id),
	)
}

// knownIn looks for an ID in a list. It returns the name, or "".
func knownIn[T any](ctx context.Context, list *cachedList[T], read func(T) (ID, string), id ID) string {
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
