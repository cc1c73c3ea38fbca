package engine

import (
	"context"
	"encoding/xml"
	"fmt"
	"slices"
)

// DataCenters lists the data centers of the engine.
func (c *Client) DataCenters(ctx context.Context) ([]DataCenter, error) {
	_, all, err := find(ctx, c, &c.lists.dataCenters, "datacenters", func(DataCenter) bool { return true })
	return kept(all, func(d DataCenter) bool { return d.Name != "" }), err
}

// ClusterTemplates lists the templates that VMs of the cluster can be made of: those of the cluster and those of no
// cluster that are not locked or illegal, in all their versions, without Blank.
func (c *Client) ClusterTemplates(ctx context.Context, cluster *Cluster) ([]Template, error) {
	all, err := c.Templates(ctx)

	return kept(all, func(t Template) bool {
		of := RefID(t.Cluster)
		return t.ID != BlankTemplateID && t.Status == TemplateOK && (of == "" || of == cluster.ID)
	}), err
}

// ClusterNetworks lists the networks that the cluster has for VMs; those for storage or migration alone are left out.
func (c *Client) ClusterNetworks(ctx context.Context, cluster *Cluster) ([]Network, error) {
	var list struct {
		XMLName xml.Name  `xml:"networks"`
		Items   []Network `xml:"network"`
	}
	if err := c.get(ctx, "/clusters/"+cluster.ID.segment()+"/networks", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the networks of cluster %q: %w", cluster.Name, err)
	}

	return kept(list.Items, func(n Network) bool { return slices.Contains(n.Usages, "vm") }), nil
}

// NetworkProfiles lists the vNIC profiles of all networks of the engine, by the ID of the network.
func (c *Client) NetworkProfiles(ctx context.Context) (map[ID][]VNICProfile, error) {
	_, all, err := find(ctx, c, &c.lists.vnicProfiles, "vnicprofiles", func(VNICProfile) bool { return true })
	if err != nil {
		return nil, err
	}

	out := map[ID][]VNICProfile{}
	for _, profile := range all {
		out[profile.Network.ID] = append(out[profile.Network.ID], profile)
	}

	return out, nil
}

// StorageDomains lists the storage domains of the data center on which disks can be made.
func (c *Client) StorageDomains(ctx context.Context, dc *DataCenter) ([]StorageDomain, error) {
	_, all, err := find(ctx, c, &c.lists.storage, "storagedomains", anyOf[StorageDomain])
	if err != nil {
		return nil, err
	}

	there, err := Within(ctx, c, dc, kept(all, func(d StorageDomain) bool { return d.Type == "data" }))
	for i := range there {
		if err == nil {
			err = c.readStatus(ctx, dc, &there[i])
		}
	}

	return kept(there, func(d StorageDomain) bool { return d.takesDisks() }), err
}

// kept are the items that are wanted, in a list of its own: the caches keep theirs.
func kept[T any](items []T, want func(T) bool) []T {
	var out []T

	for _, item := range items {
		if want(item) {
			out = append(out, item)
		}
	}

	return out
}
