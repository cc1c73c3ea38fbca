package api

import (
	"cmp"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

var clusterRoutes = []route{
	{"GET", "/clusters", listClusters},
	{"POST", "/clusters", addCluster},
	{"GET", "/clusters/{cluster}", getCluster},
	{"PUT", "/clusters/{cluster}", updateCluster},
	{"DELETE", "/clusters/{cluster}", removeCluster},
	{"GET", "/clusters/{cluster}/cpuprofiles", listClusterCPUProfiles},
	{"GET", "/clusters/{cluster}/enabledfeatures", listNothing("cluster_features")},
	{"GET", "/clusters/{cluster}/externalnetworkproviders", listNothing("external_providers")},
	{"GET", "/clusters/{cluster}/glustervolumes", listNothing("gluster_volumes")},
	{"GET", "/clusters/{cluster}/permissions", permissionsOf("cluster", "clusters", "cluster")},
	{"GET", "/cpuprofiles", listCPUProfiles},
	{"GET", "/cpuprofiles/{id}", readItem(listCPUProfiles)},
}

func clusterDocument(c *call, g *store.Cluster) *wire.Element {
	enabled := func(name string, value bool) *wire.Element { return wire.El(name).Flag("enabled", value) }
	fencing := wire.El("fencing_policy").Flag("enabled", true).
		Add(enabled("skip_if_connectivity_broken", false).Num("threshold", 50)).
		Flag("skip_if_gluster_bricks_up", false).Flag("skip_if_gluster_quorum_not_met", false).
		Add(enabled("skip_if_sd_active", false))
	migration := wire.El("migration").Str("auto_converge", "inherit").
		Add(wire.El("bandwidth").Str("assignment_method", "auto")).Str("compressed", "inherit").
		Str("encrypted", "inherit").Str("parallel_migrations_policy", "disabled").
		Add(wire.El("policy").SetAttr("id", c.store.IDOf("", "migrationpolicy")))
	policy := wire.El("custom_scheduling_policy_properties")

	for _, p := range catalog().policies {
		for _, one := range p.properties {
			if p.name == "none" {
				policy.AddItems(wire.El("property").Str("name", one.Name).Str("value", one.Value))
			}
		}
	}

	first := g.Name == "Default" // the engine's first cluster has its own defaults

	return wire.NewObject("cluster", g.ID, "clusters", g.ID).Str("name", g.Name).Str("description", g.Description).
		Str("comment", "").
		Flag("ballooning_enabled", true).Str("bios_type", cmp.Or(g.BiosType, store.DefaultBios)).
		Add(wire.El("cpu").Str("architecture", "x86_64").Str("type", g.CPUType)).
		Add(policy, wire.El("error_handling").Str("on_error", "migrate"), fencing).Str("fips_mode", map[bool]string{
		true:  "disabled",
		false: "undefined",
	}[first]).Str("firewall_type", "firewalld").
		Flag("gluster_service", false).Flag("ha_reservation", false).
		Add(wire.El("ksm").Flag("enabled", true).Flag("merge_across_nodes", true)).
		Num("log_max_memory_used_threshold", 95).Str("log_max_memory_used_threshold_type", "percentage").
		Add(wire.El("memory_policy").Add(wire.El("over_commit").Num("percent", 100),
			enabled("transparent_hugepages", first)), migration).
		Add(wire.El("required_rng_sources").AddItems(wire.NewLeaf("required_rng_source", "urandom"))).
		Str("switch_type", "legacy").Flag("threads_as_cores", false).
		Flag("trusted_service", false).Flag("tunnel_migration", false).Flag("upgrade_in_progress", false).
		Num("upgrade_percent_complete", 0).
		Add(versionElement(c.compatibilityLevel())).Flag("virt_service", true).Flag("vnc_encryption", !first).
		Add(wire.Ref("data_center", "datacenters", g.DataCenter),
			wire.Ref("mac_pool", "macpools", c.store.MACPoolID())).
		Add(wire.Ref("scheduling_policy", "schedulingpolicies", c.store.IDOf("", "schedulingpolicy", "none")))
}

func clusterFields(c *call) fields[*store.Cluster] {
	center := singleValue(func(g *store.Cluster) string { return c.store.DataCenterName(g.DataCenter) })

	return fields[*store.Cluster]{
		"name":            singleValue(func(g *store.Cluster) string { return g.Name }),
		"id":              singleValue(func(g *store.Cluster) string { return g.ID }),
		"description":     singleValue(func(g *store.Cluster) string { return g.Description }),
		"datacenter":      center,
		"datacenter.name": center,
		"datacenter_name": center,
	}
}

func listClusters(c *call) (*wire.Element, error) {
	return answerList(c, "clusters", c.store.Clusters.Where(nil, store.ClusterKey), clusterFields(c), clusterDocument)
}

func getCluster(c *call) (*wire.Element, error) {
	g, err := findRow(c.store.Clusters, c.pathID("cluster"))
	if err != nil {
		return nil, err
	}

	return clusterDocument(c, g), nil
}

func addCluster(c *call) (*wire.Element, error) {
	in := c.body
	if err := requireElements(in, "Cluster", "name", "dataCenter.name|id"); err != nil {
		return nil, err
	}

	if err := checkRef(in.Get("data_center")); err != nil {
		return nil, err
	}

	center := findReferred(
		c.store.DataCenters, in.Get("data_center"), func(d *store.DataCenter) string { return d.Name },
	)
	if center == nil {
		return nil, wire.EntityNotFound(
			"DataCenter: name=" + cmp.Or(in.Value("data_center", "name"), wire.RefID(in.Get("data_center"))),
		)
	}

	made := &store.Cluster{ID: store.NewID(), DataCenter: center.ID, CPUType: "Secure Intel Skylake Client Family"}
	if err := c.changeCluster(made, "add Cluster"); err != nil {
		return nil, err
	}

	c.store.Clusters.Put(made.ID, made)

	return c.answerCreated(clusterDocument(c, made)), nil
}

// changeCluster applies a request to a cluster. No recording confirms the texts of its refusals.
func (c *call) changeCluster(g *store.Cluster, command string) error {
	in, next := c.body, *g
	next.Name, next.Description = textOr(in, "name", g.Name), textOr(in, "description", g.Description)

	next.CPUType, next.BiosType = cmp.Or(in.Value("cpu", "type"), g.CPUType), cmp.Or(in.Value("bios_type"), g.BiosType)
	for _, other := range c.store.Clusters.Rows {
		if other.ID != g.ID && other.Name == next.Name {
			return wire.Conflict("Cannot %s. Cluster name is already in use.", command)
		}
	}

	*g = next

	return nil
}

func updateCluster(c *call) (*wire.Element, error) {
	g, err := findRow(c.store.Clusters, c.pathID("cluster"))
	if err != nil {
		return nil, err
	}

	if err := c.changeCluster(g, "edit Cluster"); err != nil {
		return nil, err
	}

	c.store.Clusters.Put(g.ID, g)

	return clusterDocument(c, g), nil
}

func removeCluster(c *call) (*wire.Element, error) {
	g, err := findRow(c.store.Clusters, c.pathID("cluster"))
	if err != nil {
		return nil, err
	}

	for _, h := range c.store.Hosts.Rows {
		if h.Cluster == g.ID {
			return nil, wire.Conflict(
				"Cannot remove Cluster. One or more Host(s) are still associated with this Cluster.",
			)
		}
	}

	for _, v := range c.store.VMs.Rows {
		if v.Cluster == g.ID {
			return nil, wire.Conflict("Cannot remove Cluster. Cluster contains one or more VMs.")
		}
	}

	for _, group := range c.store.Groups.Rows {
		if group.Cluster == g.ID {
			c.store.Groups.Drop(group.ID)
		}
	}

	c.store.Clusters.Drop(g.ID)

	return c.answerComplete(), nil
}

func listDataCenterClusters(c *call) (*wire.Element, error) {
	inside := func(g *store.Cluster) bool { return g.DataCenter == c.pathID("id") }

	return answerList(
		c, "clusters", c.store.Clusters.Where(inside, store.ClusterKey), clusterFields(c), clusterDocument,
	)
}

func getDataCenterCluster(c *call) (*wire.Element, error) {
	g := c.store.Clusters.Get(c.pathID("cluster"))
	if g == nil || g.DataCenter != c.pathID("id") {
		return nil, wire.NotFound()
	}

	return clusterDocument(c, g), nil
}

func cpuProfilesOf(c *call, clusterID string) (*wire.Element, error) {
	out := wire.El("cpu_profiles")

	for _, g := range c.store.Clusters.Where(func(g *store.Cluster) bool {
		return clusterID == "" ||
			g.ID == clusterID
	}, store.ClusterKey) {
		id := c.store.CPUProfileID(g.ID)
		out.AddItems(
			wire.NewObject("cpu_profile", id, "cpuprofiles", id).
				Str("name", g.Name).
				Add(wire.Ref("cluster", "clusters", g.ID)),
		)
	}

	return out, nil
}

func listCPUProfiles(c *call) (*wire.Element, error) { return cpuProfilesOf(c, "") }

func listClusterCPUProfiles(c *call) (*wire.Element, error) {
	return cpuProfilesOf(c, c.pathID("cluster"))
}
