package api

import (
	"slices"
	"strconv"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

var networkRoutes = []route{
	{"GET", "/clusters/{cluster}/networks", listClusterNetworks},
	{"GET", "/datacenters/{id}/networks", listDataCenterNetworks},
	{"GET", "/networks", listNetworks},
	{"POST", "/networks", addNetwork},
	{"GET", "/networks/{id}", getNetwork},
	{"PUT", "/networks/{id}", updateNetwork},
	{"DELETE", "/networks/{id}", removeNetwork},
	{"GET", "/networks/{id}/permissions", permissionsOf("network", "networks", "id")},
}

func networkDocument(_ *call, n *store.Network) *wire.Element {
	out := wire.NewObject("network", n.ID, "networks", n.ID).Str("name", n.Name).Str("description", n.Description).
		Str("comment", "").
		Num("mtu", n.MTU).Flag("port_isolation", false).Flag("stp", false).
		Add(wire.El("usages").AddItems(wire.NewLeaf("usage", "vm"))).Str("vdsm_name", n.Name)
	if n.VLAN != 0 {
		out.Add(wire.El("vlan").SetAttr("id", strconv.FormatInt(n.VLAN, 10)))
	}

	return out.Add(wire.Ref("data_center", "datacenters", n.DataCenter))
}

// clusterNetworkDocument shows a network in the context of a cluster.
func clusterNetworkDocument(c *call, n *store.Network) *wire.Element {
	out := networkDocument(c, n)
	id := c.pathID("cluster")
	usages := wire.El("usages")

	for _, usage := range []string{"vm", "display", "migration", "management", "default_route"} {
		if usage == "vm" || n.Name == "ovirtmgmt" {
			usages.AddItems(wire.NewLeaf("usage", usage))
		}
	}

	out.Kids = slices.DeleteFunc(out.Kids, func(e *wire.Element) bool { return e.Name == "usages" })

	return out.Add(usages).Flag("display", n.Name == "ovirtmgmt").Flag("required", n.Name == "ovirtmgmt").
		Str("status", "operational").Add(wire.Ref("cluster", "clusters", id))
}

func networkFields(c *call) fields[*store.Network] {
	center := singleValue(func(n *store.Network) string { return c.store.DataCenterName(n.DataCenter) })

	return fields[*store.Network]{
		"name":            singleValue(func(n *store.Network) string { return n.Name }),
		"id":              singleValue(func(n *store.Network) string { return n.ID }),
		"vlanid":          singleValue(func(n *store.Network) string { return strconv.FormatInt(n.VLAN, 10) }),
		"description":     singleValue(func(n *store.Network) string { return n.Description }),
		"datacenter":      center,
		"datacenter.name": center,
		"datacenter_name": center,
	}
}

func networksOf(
	c *call, match func(*store.Network) bool, document func(*call, *store.Network) *wire.Element,
) (*wire.Element, error) {
	return answerList(
		c, "networks", c.store.Networks.Where(match, func(n *store.Network) string { return n.Name + n.ID }),
		networkFields(c), document,
	)
}

func listNetworks(c *call) (*wire.Element, error) { return networksOf(c, nil, networkDocument) }

func listDataCenterNetworks(c *call) (*wire.Element, error) {
	return networksOf(c, func(n *store.Network) bool { return n.DataCenter == c.pathID("id") }, networkDocument)
}

func listClusterNetworks(c *call) (*wire.Element, error) {
	g := c.store.Clusters.Get(c.pathID("cluster"))

	return networksOf(c, func(n *store.Network) bool {
		return g != nil &&
			n.DataCenter == g.DataCenter
	}, clusterNetworkDocument)
}

func getNetwork(c *call) (*wire.Element, error) {
	n, err := findRow(c.store.Networks, c.pathID("id"))
	if err != nil {
		return nil, err
	}

	return networkDocument(c, n), nil
}

// changeNetwork applies a request to a network.
func (c *call) changeNetwork(n *store.Network, in *wire.Element, verb string) error {
	next := *n
	next.Name, next.Description = textOr(in, "name", n.Name), textOr(in, "description", n.Description)
	if in.Has("mtu") {
		next.MTU = in.Number("mtu")
	}

	if vlan := in.Get("vlan"); vlan != nil {
		next.VLAN, _ = strconv.ParseInt(wire.RefID(vlan), 10, 64)
	}

	for _, other := range c.store.Networks.Rows {
		if other.ID != n.ID && other.DataCenter == next.DataCenter && other.Name == next.Name {
			return wire.Conflict(
				"Cannot %s Network. The logical network's name is already used by an existing logical network in "+
					"the same data-center.\n-Please choose a different name.",
				verb,
			)
		}
	}

	*n = next

	return nil
}

// addNetwork creates a network and a vNIC profile with the same name.
func addNetwork(c *call) (*wire.Element, error) {
	if err := requireElements(c.body, "Network", "data_center.id|name", "name"); err != nil {
		return nil, err
	}

	center := findReferred(c.store.DataCenters, c.body.Get("data_center"), func(d *store.DataCenter) string {
		return d.Name
	})
	if center == nil {
		return nil, wire.EntityNotFound("DataCenter: name=" + c.body.Value("data_center", "name"))
	}

	made := &store.Network{ID: store.NewID(), DataCenter: center.ID, Leases: map[string]string{}}
	if err := c.changeNetwork(made, c.body, "add"); err != nil {
		return nil, err
	}

	c.store.Networks.Put(made.ID, made)
	profile := &store.VNICProfile{ID: store.NewID(), Name: made.Name, Network: made.ID}
	c.store.VNICProfiles.Put(profile.ID, profile)

	return c.answerCreated(networkDocument(c, made)), nil
}

func updateNetwork(c *call) (*wire.Element, error) {
	n, err := findRow(c.store.Networks, c.pathID("id"))
	if err != nil {
		return nil, err
	}

	if err := c.changeNetwork(n, c.body, "edit"); err != nil {
		return nil, err
	}

	c.store.Networks.Put(n.ID, n)

	return networkDocument(c, n), nil
}

func removeNetwork(c *call) (*wire.Element, error) {
	n, err := findRow(c.store.Networks, c.pathID("id"))
	if err != nil {
		return nil, err
	}

	profiles := c.store.VNICProfiles.Where(func(p *store.VNICProfile) bool {
		return p.Network == n.ID
	}, func(p *store.VNICProfile) string { return p.ID })
	for _, p := range profiles {
		if err := c.checkProfileUnused(p, "remove Network", "logical network"); err != nil {
			return nil, err
		}
	}

	for _, p := range profiles {
		c.store.VNICProfiles.Drop(p.ID)
	}

	c.store.Networks.Drop(n.ID)

	return c.answerComplete(), nil
}
