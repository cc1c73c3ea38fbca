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

// AffinityRule is one of the two rules of a group: the rule between its VMs, or the rule between VMs and hosts.
type AffinityRule struct {
	Enabled   bool `xml:"enabled"`
	Enforcing bool `xml:"enforcing"`
	Positive  bool `xml:"positive"`
}

// DescriptionText returns the description, or "".
func (g *AffinityGroup) DescriptionText() string {
	if g.Description == nil {
		return ""
	}

	return *g.Description
}

// HasVM reports whether the VM is in the group.
func (g *AffinityGroup) HasVM(vmID ID) bool {
	return g.VMs != nil && slices.ContainsFunc(g.VMs.Items, func(vm Ref) bool { return vm.ID == vmID })
}

func affinityGroupPath(clusterID, id ID) string {
	return "/clusters/" + clusterID.pathSegment() + "/affinitygroups/" + id.pathSegment()
}

// FetchAffinityGroup returns the group with this ID. A missing group is an IsNotFound error.
func (c *Client) FetchAffinityGroup(ctx context.Context, clusterID, id ID) (*AffinityGroup, error) {
	var group AffinityGroup
	if err := c.fetchInto(ctx, affinityGroupPath(clusterID, id), nil, &group); err != nil {
		return nil, fmt.Errorf("failed to get affinity group %s: %w", id, c.checkGroupGone(ctx, clusterID, id, "", err))
	}

	return &group, nil
}

// checkGroupGone replaces a refusal by a 404 if the group no longer exists, or if the VM is not a member. The engine
// answers 400 in both cases, so only the cluster's list of groups shows the reason. vmID is "" for requests without a
// member.
func (c *Client) checkGroupGone(ctx context.Context, clusterID, id, vmID ID, err error) error {
	if !hasStatus(err, http.StatusBadRequest) {
		return err
	}

	groups, listErr := c.ListAffinityGroups(ctx, clusterID)
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
	case vmID != "" && !groups[at].HasVM(vmID):
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

// ListAffinityGroups lists the groups of a cluster. The list of a missing cluster is empty.
func (c *Client) ListAffinityGroups(ctx context.Context, clusterID ID) ([]AffinityGroup, error) {
	var list struct {
		XMLName xml.Name        `xml:"affinity_groups"`
		Items   []AffinityGroup `xml:"affinity_group"`
	}
	if err := c.fetchInto(ctx, "/clusters/"+clusterID.pathSegment()+"/affinitygroups", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the affinity groups of cluster %s: %w", clusterID, err)
	}

	return list.Items, nil
}

// ListAffinityGroupsNamed lists the groups with this name in all clusters of the engine. It returns more than one only
// if several clients created them at the same moment.
func (c *Client) ListAffinityGroupsNamed(ctx context.Context, name string) ([]AffinityGroup, error) {
	clusters, err := c.listAllClusters(ctx)
	if err != nil {
		return nil, fmt.Errorf("failed to look up affinity group %q: %w", name, err)
	}

	var out []AffinityGroup

	for _, cluster := range clusters {
		groups, err := c.ListAffinityGroups(ctx, cluster.ID)
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

// CreateAffinityGroup creates a group in the cluster.
func (c *Client) CreateAffinityGroup(ctx context.Context, clusterID ID, group *AffinityGroup) (*AffinityGroup, error) {
	var created AffinityGroup
	err := c.callEngine(
		ctx, http.MethodPost, "/clusters/"+clusterID.pathSegment()+"/affinitygroups", nil, group, &created,
	)
	if err != nil {
		return nil, fmt.Errorf("failed to create affinity group %q: %w", group.Name, err)
	}

	return &created, nil
}

// UpdateAffinityGroup changes the set fields of the group. The group keeps its members.
func (c *Client) UpdateAffinityGroup(
	ctx context.Context, clusterID, id ID, change *AffinityGroup,
) (*AffinityGroup, error) {
	var updated AffinityGroup
	if err := c.callEngine(ctx, http.MethodPut, affinityGroupPath(clusterID, id), nil, change, &updated); err != nil {
		return nil, fmt.Errorf(
			"failed to update affinity group %s: %w", id, c.checkGroupGone(ctx, clusterID, id, "", err),
		)
	}

	return &updated, nil
}

// DeleteAffinityGroup deletes a group, but not its VMs. A missing group is an IsNotFound error.
func (c *Client) DeleteAffinityGroup(ctx context.Context, clusterID, id ID) error {
	if err := c.callEngine(ctx, http.MethodDelete, affinityGroupPath(clusterID, id), nil, nil, nil); err != nil {
		return fmt.Errorf("failed to delete affinity group %s: %w", id, c.checkGroupGone(ctx, clusterID, id, "", err))
	}

	return nil
}

// AddToAffinityGroup adds a VM to a group. The engine may refuse one of two simultaneous additions to the same group. A
// missing group is an IsNotFound error.
func (c *Client) AddToAffinityGroup(ctx context.Context, clusterID, groupID, vmID ID) error {
	type vm struct {
		XMLName xml.Name `xml:"vm"`
		ID      ID       `xml:"id,attr"`
	}
	err := c.callEngine(ctx, http.MethodPost, affinityGroupPath(clusterID, groupID)+"/vms", nil, vm{ID: vmID}, nil)
	if err != nil {
		return fmt.Errorf("failed to add VM %s to affinity group %s: %w", vmID, groupID,
			c.checkGroupGone(ctx, clusterID, groupID, "", err))
	}

	return nil
}

// RemoveFromAffinityGroup removes a VM from a group. A missing group or member is an IsNotFound error.
func (c *Client) RemoveFromAffinityGroup(ctx context.Context, clusterID, groupID, vmID ID) error {
	err := c.callEngine(
		ctx, http.MethodDelete, affinityGroupPath(clusterID, groupID)+"/vms/"+vmID.pathSegment(), nil, nil, nil,
	)
	if err != nil {
		return fmt.Errorf("failed to remove VM %s from affinity group %s: %w", vmID, groupID,
			c.checkGroupGone(ctx, clusterID, groupID, vmID, err))
	}

	return nil
}
