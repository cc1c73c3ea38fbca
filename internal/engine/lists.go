package engine

import (
	"context"
	"encoding/xml"
	"fmt"
	"slices"
)

// ListDataCenters lists the data centers of the engine.
func (c *Client) ListDataCenters(ctx context.Context) ([]DataCenter, error) {
	_, all, err := findInList(ctx, c, &c.lists.dataCenters, "datacenters", func(DataCenter) bool { return true })
	return filterItems(all, func(d DataCenter) bool { return d.Name != "" }), err
}

// ListClusterTemplates lists all versions of the templates for VMs of the cluster: the templates of this cluster, and
// those without a cluster. It omits locked and illegal templates, and Blank.
func (c *Client) ListClusterTemplates(ctx context.Context, cluster *Cluster) ([]Template, error) {
	all, err := c.ListTemplates(ctx)

	return filterItems(all, func(t Template) bool {
		of := RefID(t.Cluster)
		return t.ID != BlankTemplateID && t.Status == TemplateOK && (of == "" || of == cluster.ID)
	}), err
}

// ListClusterNetworks lists the cluster's networks for VMs. It omits networks used only for storage or migration.
func (c *Client) ListClusterNetworks(ctx context.Context, cluster *Cluster) ([]Network, error) {
	var list struct {
		XMLName xml.Name  `xml:"networks"`
		Items   []Network `xml:"network"`
	}
	if err := c.fetchInto(ctx, "/clusters/"+cluster.ID.pathSegment()+"/networks", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the networks of cluster %q: %w", cluster.Name, err)
	}

	return filterItems(list.Items, func(n Network) bool { return slices.Contains(n.Usages, "vm") }), nil
}

// ListNetworkProfiles lists the vNIC profiles of all networks of the engine, by the network's ID.
func (c *Client) ListNetworkProfiles(ctx context.Context) (map[ID][]VNICProfile, error) {
	_, all, err := findInList(ctx, c, &c.lists.vnicProfiles, "vnicprofiles", func(VNICProfile) bool { return true })
	if err != nil {
		return nil, err
	}

	out := map[ID][]VNICProfile{}
	for _, profile := range all {
		out[profile.Network.ID] = append(out[profile.Network.ID], profile)
	}

	return out, nil
}

// ListStorageDomains lists the storage domains of the data center that are ready for new disks.
func (c *Client) ListStorageDomains(ctx context.Context, dc *DataCenter) ([]StorageDomain, error) {
	_, all, err := findInList(ctx, c, &c.lists.storage, "storagedomains", acceptAny[StorageDomain])
	if err != nil {
		return nil, err
	}

	there, err := FilterByDataCenter(
		ctx, c, dc, filterItems(all, func(d StorageDomain) bool { return d.Type == "data" }),
	)
	for i := range there {
		if err == nil {
			err = c.fetchStatus(ctx, dc, &there[i])
		}
	}

	return filterItems(there, func(d StorageDomain) bool { return d.isReadyForDisks() }), err
}

// filterItems returns the wanted items in a new list, because the original list belongs to a cache.
func filterItems[T any](items []T, want func(T) bool) []T {
	var out []T

	for _, item := range items {
		if want(item) {
			out = append(out, item)
		}
	}

	return out
}
