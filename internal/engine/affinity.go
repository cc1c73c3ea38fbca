package engine

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
)

// AffinityGroup keeps VMs together or apart. Its name is unique in the engine.
type AffinityGroup struct {
	XMLName     xml.Name      `xml:"affinity_group"`
	ID          ID            `xml:"id,attr,omitempty"`
	Name        string        `xml:"name,omitempty"`
	Description *string       `xml:"description"`
	Cluster     *Ref          `xml:"cluster"`
	Enforcing   *bool         `xml:"enforcing"`
	Priority    *float64      `xml:"priority"`
	HostsRule   *AffinityRule `xml:"hosts_rule"`
	VMsRule     *AffinityRule `xml:"vms_rule"`
	VMs         *struct {
		Items []Ref `xml:"vm"`
	} `xml:"vms"`
}

// AffinityRule is one of the two rules of a group: for its VMs among each other, and for VMs and hosts.
type AffinityRule struct {
	Enabled   bool `xml:"enabled"`
	Enforcing bool `xml:"enforcing"`
	Positive  bool `xml:"positive"`
}

// DescriptionText is the description, "" where there is none.
func (g *AffinityGroup) DescriptionText() string {
	if g.Description == nil {
		return ""
	}

	return *g.Description
}

// Has reports whether the VM is in the group.
func (g *AffinityGroup) Has(vmID ID) bool {
	return g.VMs != nil && slices.ContainsFunc(g.VMs.Items, func(vm Ref) bool { return vm.ID == vmID })
}

func affinityGroupPath(clusterID, id ID) string {
	return "/clusters/" + clusterID.segment() + "/affinitygroups/" + id.segment()
}

// AffinityGroup returns the group of that ID; IsNotFound reports that there is none.
func (c *Client) AffinityGroup(ctx context.Context, clusterID, id ID) (*AffinityGroup, error) {
	var group AffinityGroup
	if err := c.get(ctx, affinityGroupPath(clusterID, id), nil, &group); err != nil {
		return nil, fmt.Errorf("failed to get affinity group %s: %w", id, c.goneGroup(ctx, clusterID, id, "", err))
	}

	return &group, nil
}

// goneGroup makes a refusal a 404 where the group is not there any more, or the VM is not in it. The engine answers 400
// then, with words of its own code, so that only the list of the cluster shows it. vmID is empty where no member is
// asked for.
func (c *Client) goneGroup(ctx context.Context, clusterID, id, vmID ID, err error) error {
	if !hasStatus(err, http.StatusBadRequest) {
		return err
	}

	groups, listErr := c.AffinityGroups(ctx, clusterID)
	if listErr != nil {
		return err
	}

	at := slices.IndexFunc(groups, func(g AffinityGroup) bool { return g.ID == id })
	switch {
	case at < 0:
		return &Fault{
			Method:     http.MethodGet,
			Path:       affinityGroupPath(clusterID, id),
			StatusCode: http.StatusNotFound,
			Detail:     "the affinity group is not in the list of its cluster",
		}
	case vmID != "" && !groups[at].Has(vmID):
		return &Fault{
			Method:     http.MethodGet,
			Path:       affinityGroupPath(clusterID, id) + "/vms",
			StatusCode: http.StatusNotFound,
			Detail:     "the VM is not in the affinity group",
		}
	default:
		return err
	}
}

// AffinityGroups lists the groups of a cluster. The list of a cluster that does not exist is empty.
func (c *Client) AffinityGroups(ctx context.Context, clusterID ID) ([]AffinityGroup, error) {
	var list struct {
		XMLName xml.Name        `xml:"affinity_groups"`
		Items   []AffinityGroup `xml:"affinity_group"`
	}
	if err := c.get(ctx, "/clusters/"+clusterID.segment()+"/affinitygroups", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the affinity groups of cluster %s: %w", clusterID, err)
	}

	return list.Items, nil
}

// AffinityGroupsNamed lists the groups of that name in all clusters of the engine. There are several only where they
// were made at the same moment.
func (c *Client) AffinityGroupsNamed(ctx context.Context, name string) ([]AffinityGroup, error) {
	clusters, err := c.clusters(ctx)
	if err != nil {
		return nil, fmt.Errorf("failed to look up affinity group %q: %w", name, err)
	}

	var out []AffinityGroup

	for _, cluster := range clusters {
		groups, err := c.AffinityGroups(ctx, cluster.ID)
		if err != nil {
			return nil, fmt.Errorf("failed to look up affinity group %q: %w", name, err)
		}

		for _, group := range groups {
			if group.Name == name {
				out = append(out, group)
			}
		}
	}

	return out, nil
}

// CreateAffinityGroup makes a group in the cluster.
func (c *Client) CreateAffinityGroup(ctx context.Context, clusterID ID, group *AffinityGroup) (*AffinityGroup, error) {
	var created AffinityGroup
	err := c.do(ctx, http.MethodPost, "/clusters/"+clusterID.segment()+"/affinitygroups", nil, group, &created)
	if err != nil {
		return nil, fmt.Errorf("failed to create affinity group %q: %w", group.Name, err)
	}

	return &created, nil
}

// UpdateAffinityGroup changes the fields of the group that are set; its members stay.
func (c *Client) UpdateAffinityGroup(
	ctx context.Context, clusterID, id ID, change *AffinityGroup,
) (*AffinityGroup, error) {
	var updated AffinityGroup
	if err := c.do(ctx, http.MethodPut, affinityGroupPath(clusterID, id), nil, change, &updated); err != nil {
		return nil, fmt.Errorf("failed to update affinity group %s: %w", id, c.goneGroup(ctx, clusterID, id, "", err))
	}

	return &updated, nil
}

// DeleteAffinityGroup deletes a group; its VMs stay. IsNotFound reports that there is none.
func (c *Client) DeleteAffinityGroup(ctx context.Context, clusterID, id ID) error {
	if err := c.do(ctx, http.MethodDelete, affinityGroupPath(clusterID, id), nil, nil, nil); err != nil {
		return fmt.Errorf("failed to delete affinity group %s: %w", id, c.goneGroup(ctx, clusterID, id, "", err))
	}

	return nil
}

// AddToAffinityGroup puts a VM into a group. Two additions to the same group at once may refuse each other. IsNotFound
// reports that there is no such group.
func (c *Client) AddToAffinityGroup(ctx context.Context, clusterID, groupID, vmID ID) error {
	type vm struct {
		XMLName xml.Name `xml:"vm"`
		ID      ID       `xml:"id,attr"`
	}
	err := c.do(ctx, http.MethodPost, affinityGroupPath(clusterID, groupID)+"/vms", nil, vm{ID: vmID}, nil)
	if err != nil {
		return fmt.Errorf("failed to add VM %s to affinity group %s: %w", vmID, groupID,
			c.goneGroup(ctx, clusterID, groupID, "", err))
	}

	return nil
}

// RemoveFromAffinityGroup takes a VM out of a group. IsNotFound reports that it is not in it, or that there is no such
// group.
func (c *Client) RemoveFromAffinityGroup(ctx context.Context, clusterID, groupID, vmID ID) error {
	err := c.do(ctx, http.MethodDelete, affinityGroupPath(clusterID, groupID)+"/vms/"+vmID.segment(), nil, nil, nil)
	if err != nil {
		return fmt.Errorf("failed to remove VM %s from affinity group %s: %w", vmID, groupID,
			c.goneGroup(ctx, clusterID, groupID, vmID, err))
	}

	return nil
}
