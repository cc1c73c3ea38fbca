package ovirtsim

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file has what VMs live in and on: data centers, clusters, networks, storage domains and their profiles.

// searchable are the collections of the root that can be searched.
var searchable = []string{"clusters", "datacenters", "disks", "events", "groups", "hosts", "instancetypes", "networks", "storagedomains", "templates", "users", "vmpools", "vms"}

// rootRels are the collections that the root document names, and the paths to them.
func rootRels() (rels []string, paths map[string]string) {
	paths = map[string]string{}
	for _, rel := range sortedKeys(api().services["system"].paths) {
		if rel == "options" {
			continue
		}
		rels, paths[rel] = append(rels, rel), rel
		if slices.Contains(searchable, rel) {
			search := rel + "?search={query}"
			if rel == "events" {
				search = "events;from={event_id}?search={query}"
			}
			rels, paths[rel+"/search"] = append(rels, rel+"/search"), search
		}
	}
	return rels, paths
}

// rootLinks is the header of the root document.
func (s *Engine) rootLinks() string {
	rels, paths := rootRels()
	var out []string
	for _, rel := range rels {
		out = append(out, "<"+s.URL()+"/api/"+paths[rel]+">; rel="+rel)
	}
	return strings.Join(out, ",")
}

// rootDocument is the entry point of the API.
func rootDocument(c *call) (*element, error) {
	out := el("api")
	rels, paths := rootRels()
	for _, rel := range rels {
		out.items(el("link").set("href", href(paths[rel])).set("rel", rel))
	}
	parts := strings.Split(c.version+".0", ".")
	product := el("product_info").str("instance_id", c.store.idOf("", "instance")).str("name", "oVirt Engine").str("vendor", "ovirt.org").add(
		el("version").str("build", parts[2]).str("full_version", c.version+"-1.el8").str("major", parts[0]).str("minor", parts[1]).str("revision", parts[3]))
	if !c.filtered {
		out.add(el("engine_backup"))
	} else {
		product.kids = product.kids[1:]
	}
	out.add(product, el("special_objects").add(ref("blank_template", "templates", blankTemplateID), ref("root_tag", "tags", rootTagID)))

	count := func(name string, total, active int) *element {
		return el(name).num("active", int64(active)).num("total", int64(total))
	}
	up := len(c.store.vms.where(func(v *vm) bool { return v.running() }, vmKey))
	hostsUp := len(c.store.hosts.where(func(h *host) bool { return h.Status == hostUp }, func(h *host) string { return h.Name }))
	domains := len(c.store.storageDomains.rows)
	if !c.filtered {
		out.add(el("summary").add(count("hosts", len(c.store.hosts.rows), hostsUp), count("storage_domains", domains, domains),
			count("users", len(c.store.users.rows), 1), count("vms", len(c.store.vms.rows), up)))
	}
	return out.str("time", stamp(time.Now())).add(ref("authenticated_user", "users", c.user.ID), ref("effective_user", "users", c.user.ID)), nil
}

// one finds an object of the path.
func one[T any](t *table[T], id string) (*T, error) {
	if found := t.get(id); found != nil {
		return found, nil
	}
	return nil, gone()
}

// collect answers with a list.
func collect[T any](c *call, name string, items []*T, of fields[*T], document func(*call, *T) *element) (*element, error) {
	items, err := find(c, items, of)
	if err != nil {
		return nil, err
	}
	out := &element{name: name, structured: true, kids: make([]*element, 0, len(items))}
	for _, item := range items {
		out.items(document(c, item))
	}
	return out, nil
}

// val makes a field of one value.
func val[T any](value func(T) string) func(T) []string {
	return func(item T) []string { return []string{value(item)} }
}

func (s *store) clusterName(id string) string {
	if c := s.clusters.get(id); c != nil {
		return c.Name
	}
	return ""
}

func (s *store) dataCenterName(id string) string {
	if d := s.dataCenters.get(id); d != nil {
		return d.Name
	}
	return ""
}

func (s *store) hostName(id string) string {
	if h := s.hosts.get(id); h != nil {
		return h.Name
	}
	return ""
}

// level is the compatibility version of clusters and data centers.
func (s *Engine) level() string {
	switch {
	case s.atLeast(4, 5, 7):
		return "4.8"
	case s.atLeast(4, 5, 0):
		return "4.7"
	default:
		return "4.6"
	}
}

func dataCenterDocument(c *call, d *dataCenter) *element {
	domains := c.store.storageDomains.where(func(s *storageDomain) bool { return s.DataCenter == d.ID }, func(s *storageDomain) string { return s.Name })
	out := object("data_center", d.ID, "datacenters", d.ID).str("name", d.Name).opt("description", d.Description).flag("local", false).str("quota_mode", "disabled")
	if len(domains) > 0 {
		out.str("status", "up").str("storage_format", "v5")
	} else {
		out.str("status", "uninitialized")
	}
	return out.add(el("supported_versions").items(versionElement(c.level())), versionElement(c.level())).
		add(ref("mac_pool", "macpools", c.store.macPoolID()))
}

func dataCenterFields(c *call) fields[*dataCenter] {
	return fields[*dataCenter]{
		"name": val(func(d *dataCenter) string { return d.Name }), "id": val(func(d *dataCenter) string { return d.ID }),
		"status": val(func(*dataCenter) string { return "up" }), "description": val(func(d *dataCenter) string { return d.Description }),
		"clusters.name": func(d *dataCenter) []string {
			var names []string
			for _, g := range c.store.clusters.rows {
				if g.DataCenter == d.ID {
					names = append(names, g.Name)
				}
			}
			return names
		},
	}
}

func listDataCenters(c *call) (*element, error) {
	return collect(c, "data_centers", c.store.dataCenters.where(nil, func(d *dataCenter) string { return d.Name }), dataCenterFields(c), dataCenterDocument)
}

func getDataCenter(c *call) (*element, error) {
	d, err := one(c.store.dataCenters, c.id("id"))
	if err != nil {
		return nil, err
	}
	return dataCenterDocument(c, d), nil
}

func clusterDocument(c *call, g *cluster) *element {
	enabled := func(name string, value bool) *element { return el(name).flag("enabled", value) }
	fencing := el("fencing_policy").flag("enabled", true).add(enabled("skip_if_connectivity_broken", false).num("threshold", 50)).
		flag("skip_if_gluster_bricks_up", false).flag("skip_if_gluster_quorum_not_met", false).add(enabled("skip_if_sd_active", false))
	migration := el("migration").str("auto_converge", "inherit").add(el("bandwidth").str("assignment_method", "auto")).str("compressed", "inherit").
		str("encrypted", "inherit").str("parallel_migrations_policy", "disabled").add(el("policy").set("id", c.store.idOf("", "migrationpolicy")))
	policy := el("custom_scheduling_policy_properties")
	for _, p := range catalog().policies {
		for _, one := range p.properties {
			if p.name == "none" {
				policy.items(el("property").str("name", one.Name).str("value", one.Value))
			}
		}
	}
	first := g.Name == "Default" // the one that an engine comes with has other defaults than those that are made
	return object("cluster", g.ID, "clusters", g.ID).str("name", g.Name).str("description", g.Description).str("comment", "").
		flag("ballooning_enabled", true).str("bios_type", orElse(g.BiosType, defaultBios)).add(el("cpu").str("architecture", "x86_64").str("type", g.CPUType)).
		add(policy, el("error_handling").str("on_error", "migrate"), fencing).str("fips_mode", map[bool]string{true: "disabled", false: "undefined"}[first]).str("firewall_type", "firewalld").
		flag("gluster_service", false).flag("ha_reservation", false).add(el("ksm").flag("enabled", true).flag("merge_across_nodes", true)).
		num("log_max_memory_used_threshold", 95).str("log_max_memory_used_threshold_type", "percentage").
		add(el("memory_policy").add(el("over_commit").num("percent", 100), enabled("transparent_hugepages", first)), migration).
		add(el("required_rng_sources").items(leaf("required_rng_source", "urandom"))).str("switch_type", "legacy").flag("threads_as_cores", false).
		flag("trusted_service", false).flag("tunnel_migration", false).flag("upgrade_in_progress", false).num("upgrade_percent_complete", 0).
		add(versionElement(c.level())).flag("virt_service", true).flag("vnc_encryption", !first).
		add(ref("data_center", "datacenters", g.DataCenter), ref("mac_pool", "macpools", c.store.macPoolID())).
		add(ref("scheduling_policy", "schedulingpolicies", c.store.idOf("", "schedulingpolicy", "none")))
}

// defaultBios is the chip set and firmware of VMs where nobody says otherwise.
const defaultBios = "q35_ovmf"

func clusterFields(c *call) fields[*cluster] {
	center := val(func(g *cluster) string { return c.store.dataCenterName(g.DataCenter) })
	return fields[*cluster]{
		"name": val(func(g *cluster) string { return g.Name }), "id": val(func(g *cluster) string { return g.ID }),
		"description": val(func(g *cluster) string { return g.Description }), "datacenter": center, "datacenter.name": center, "datacenter_name": center,
	}
}

func clusterKey(g *cluster) string { return g.Name + g.ID }

func listClusters(c *call) (*element, error) {
	return collect(c, "clusters", c.store.clusters.where(nil, clusterKey), clusterFields(c), clusterDocument)
}

func getCluster(c *call) (*element, error) {
	g, err := one(c.store.clusters, c.id("cluster"))
	if err != nil {
		return nil, err
	}
	return clusterDocument(c, g), nil
}

func addCluster(c *call) (*element, error) {
	in := c.body
	if err := require(in, "Cluster", "name", "dataCenter.name|id"); err != nil {
		return nil, err
	}
	if err := checkRef(in.get("data_center")); err != nil {
		return nil, err
	}
	center := referred(c.store.dataCenters, in.get("data_center"), func(d *dataCenter) string { return d.Name })
	if center == nil {
		return nil, entityNotFound("DataCenter: name=" + orElse(in.value("data_center", "name"), refID(in.get("data_center"))))
	}
	made := &cluster{ID: newID(), DataCenter: center.ID, CPUType: "Secure Intel Skylake Client Family"}
	if err := c.changeCluster(made, "add Cluster"); err != nil {
		return nil, err
	}
	c.store.clusters.put(made.ID, made)
	return c.created(clusterDocument(c, made)), nil
}

// changeCluster applies a request. The words of its refusals are not recorded.
func (c *call) changeCluster(g *cluster, command string) error {
	in, next := c.body, *g
	next.Name, next.Description = textOr(in, "name", g.Name), textOr(in, "description", g.Description)
	next.CPUType, next.BiosType = orElse(in.value("cpu", "type"), g.CPUType), orElse(in.value("bios_type"), g.BiosType)
	for _, other := range c.store.clusters.rows {
		if other.ID != g.ID && other.Name == next.Name {
			return conflict("Cannot %s. Cluster name is already in use.", command)
		}
	}
	*g = next
	return nil
}

func updateCluster(c *call) (*element, error) {
	g, err := one(c.store.clusters, c.id("cluster"))
	if err != nil {
		return nil, err
	}
	if err := c.changeCluster(g, "edit Cluster"); err != nil {
		return nil, err
	}
	c.store.clusters.put(g.ID, g)
	return clusterDocument(c, g), nil
}

func removeCluster(c *call) (*element, error) {
	g, err := one(c.store.clusters, c.id("cluster"))
	if err != nil {
		return nil, err
	}
	for _, h := range c.store.hosts.rows {
		if h.Cluster == g.ID {
			return nil, conflict("Cannot remove Cluster. One or more Host(s) are still associated with this Cluster.")
		}
	}
	for _, v := range c.store.vms.rows {
		if v.Cluster == g.ID {
			return nil, conflict("Cannot remove Cluster. Cluster contains one or more VMs.")
		}
	}
	for _, group := range c.store.groups.rows {
		if group.Cluster == g.ID {
			c.store.groups.drop(group.ID)
		}
	}
	c.store.clusters.drop(g.ID)
	return c.complete(), nil
}

func listDataCenterClusters(c *call) (*element, error) {
	inside := func(g *cluster) bool { return g.DataCenter == c.id("id") }
	return collect(c, "clusters", c.store.clusters.where(inside, clusterKey), clusterFields(c), clusterDocument)
}

func getDataCenterCluster(c *call) (*element, error) {
	g := c.store.clusters.get(c.id("cluster"))
	if g == nil || g.DataCenter != c.id("id") {
		return nil, gone()
	}
	return clusterDocument(c, g), nil
}

func networkDocument(_ *call, n *network) *element {
	out := object("network", n.ID, "networks", n.ID).str("name", n.Name).str("description", n.Description).str("comment", "").
		num("mtu", n.MTU).flag("port_isolation", false).flag("stp", false).add(el("usages").items(leaf("usage", "vm"))).str("vdsm_name", n.Name)
	if n.VLAN != 0 {
		out.add(el("vlan").set("id", strconv.FormatInt(n.VLAN, 10)))
	}
	return out.add(ref("data_center", "datacenters", n.DataCenter))
}

// clusterNetworkDocument is how a cluster sees a network.
func clusterNetworkDocument(c *call, n *network) *element {
	out := networkDocument(c, n)
	id := c.id("cluster")
	usages := el("usages")
	for _, usage := range []string{"vm", "display", "migration", "management", "default_route"} {
		if usage == "vm" || n.Name == "ovirtmgmt" {
			usages.items(leaf("usage", usage))
		}
	}
	out.kids = slices.DeleteFunc(out.kids, func(e *element) bool { return e.name == "usages" })
	return out.add(usages).flag("display", n.Name == "ovirtmgmt").flag("required", n.Name == "ovirtmgmt").str("status", "operational").add(ref("cluster", "clusters", id))
}

func networkFields(c *call) fields[*network] {
	center := val(func(n *network) string { return c.store.dataCenterName(n.DataCenter) })
	return fields[*network]{
		"name": val(func(n *network) string { return n.Name }), "id": val(func(n *network) string { return n.ID }),
		"vlanid":      val(func(n *network) string { return strconv.FormatInt(n.VLAN, 10) }),
		"description": val(func(n *network) string { return n.Description }), "datacenter": center, "datacenter.name": center, "datacenter_name": center,
	}
}

func networksOf(c *call, match func(*network) bool, document func(*call, *network) *element) (*element, error) {
	return collect(c, "networks", c.store.networks.where(match, func(n *network) string { return n.Name + n.ID }), networkFields(c), document)
}

func listNetworks(c *call) (*element, error) { return networksOf(c, nil, networkDocument) }

func listDataCenterNetworks(c *call) (*element, error) {
	return networksOf(c, func(n *network) bool { return n.DataCenter == c.id("id") }, networkDocument)
}

func listClusterNetworks(c *call) (*element, error) {
	g := c.store.clusters.get(c.id("cluster"))
	return networksOf(c, func(n *network) bool { return g != nil && n.DataCenter == g.DataCenter }, clusterNetworkDocument)
}

func getNetwork(c *call) (*element, error) {
	n, err := one(c.store.networks, c.id("id"))
	if err != nil {
		return nil, err
	}
	return networkDocument(c, n), nil
}

// changeNetwork applies a request to a network.
func (c *call) changeNetwork(n *network, in *element, verb string) error {
	next := *n
	next.Name, next.Description = textOr(in, "name", n.Name), textOr(in, "description", n.Description)
	if in.has("mtu") {
		next.MTU = in.number("mtu")
	}
	if vlan := in.get("vlan"); vlan != nil {
		next.VLAN, _ = strconv.ParseInt(refID(vlan), 10, 64)
	}
	for _, other := range c.store.networks.rows {
		if other.ID != n.ID && other.DataCenter == next.DataCenter && other.Name == next.Name {
			return conflict("Cannot %s Network. The logical network's name is already used by an existing logical network in the same data-center.\n-Please choose a different name.", verb)
		}
	}
	*n = next
	return nil
}

// addNetwork makes a network, and its vNIC profile of the same name.
func addNetwork(c *call) (*element, error) {
	if err := require(c.body, "Network", "data_center.id|name", "name"); err != nil {
		return nil, err
	}
	center := referred(c.store.dataCenters, c.body.get("data_center"), func(d *dataCenter) string { return d.Name })
	if center == nil {
		return nil, entityNotFound("DataCenter: name=" + c.body.value("data_center", "name"))
	}
	made := &network{ID: newID(), DataCenter: center.ID, Leases: map[string]string{}}
	if err := c.changeNetwork(made, c.body, "add"); err != nil {
		return nil, err
	}
	c.store.networks.put(made.ID, made)
	profile := &vnicProfile{ID: newID(), Name: made.Name, Network: made.ID}
	c.store.vnicProfiles.put(profile.ID, profile)
	return c.created(networkDocument(c, made)), nil
}

func updateNetwork(c *call) (*element, error) {
	n, err := one(c.store.networks, c.id("id"))
	if err != nil {
		return nil, err
	}
	if err := c.changeNetwork(n, c.body, "edit"); err != nil {
		return nil, err
	}
	c.store.networks.put(n.ID, n)
	return networkDocument(c, n), nil
}

func removeNetwork(c *call) (*element, error) {
	n, err := one(c.store.networks, c.id("id"))
	if err != nil {
		return nil, err
	}
	profiles := c.store.vnicProfiles.where(func(p *vnicProfile) bool { return p.Network == n.ID }, func(p *vnicProfile) string { return p.ID })
	for _, p := range profiles {
		if err := c.profileUnused(p, "remove Network. Several VMs or templates use this logical network"); err != nil {
			return nil, err
		}
	}
	for _, p := range profiles {
		c.store.vnicProfiles.drop(p.ID)
	}
	c.store.networks.drop(n.ID)
	return c.complete(), nil
}

func profileDocument(c *call, p *vnicProfile) *element {
	out := object("vnic_profile", p.ID, "vnicprofiles", p.ID).str("name", p.Name).opt("description", p.Description).
		add(el("pass_through").str("mode", "disabled")).flag("port_mirroring", p.Mirroring).add(ref("network", "networks", p.Network))
	return out.add(ref("network_filter", "networkfilters", c.store.filterID("vdsm-no-mac-spoofing")))
}

func profilesOf(c *call, networkID string) (*element, error) {
	of := fields[*vnicProfile]{"name": val(func(p *vnicProfile) string { return p.Name }), "id": val(func(p *vnicProfile) string { return p.ID })}
	on := func(p *vnicProfile) bool { return networkID == "" || p.Network == networkID }
	return collect(c, "vnic_profiles", c.store.vnicProfiles.where(on, func(p *vnicProfile) string { return p.Name + p.ID }), of, profileDocument)
}

func listVNICProfiles(c *call) (*element, error)    { return profilesOf(c, "") }
func listNetworkProfiles(c *call) (*element, error) { return profilesOf(c, c.id("id")) }

// changeProfile applies a request to a vNIC profile.
func (c *call) changeProfile(p *vnicProfile, in *element, verb string) error {
	next := *p
	next.Name, next.Description = textOr(in, "name", p.Name), textOr(in, "description", p.Description)
	if in.has("port_mirroring") {
		next.Mirroring = in.yes("port_mirroring")
	}
	for _, other := range c.store.vnicProfiles.rows {
		if other.ID != p.ID && other.Network == next.Network && other.Name == next.Name {
			return conflict("Cannot %s VM network interface profile. The VM network interface profile's name is already used by an existing profile for the same network.\n-Please choose a different name.", verb)
		}
	}
	*p = next
	return nil
}

func addVNICProfile(c *call) (*element, error) {
	in := c.body
	if err := require(in, "VnicProfile", "name", "network.id"); err != nil {
		return nil, err
	}
	if err := checkRef(in.get("network")); err != nil {
		return nil, err
	}
	on := c.store.networks.get(refID(in.get("network")))
	if on == nil {
		return nil, invalid("Cannot add VM network interface profile. The specified Logical Network doesn't exist.")
	}
	made := &vnicProfile{ID: newID(), Network: on.ID}
	if err := c.changeProfile(made, in, "add"); err != nil {
		return nil, err
	}
	c.store.vnicProfiles.put(made.ID, made)
	return c.created(profileDocument(c, made)), nil
}

func updateVNICProfile(c *call) (*element, error) {
	p, err := one(c.store.vnicProfiles, c.id("id"))
	if err != nil {
		return nil, err
	}
	if err := c.changeProfile(p, c.body, "edit"); err != nil {
		return nil, err
	}
	c.store.vnicProfiles.put(p.ID, p)
	return profileDocument(c, p), nil
}

// profileUnused refuses to take away what VMs or templates use.
func (c *call) profileUnused(p *vnicProfile, command string) error {
	for _, n := range c.store.nics.rows {
		if n.Profile == p.ID {
			return conflict("Cannot %s. %s", command, c.store.vmName(n.Owner))
		}
	}
	return nil
}

func removeVNICProfile(c *call) (*element, error) {
	p, err := one(c.store.vnicProfiles, c.id("id"))
	if err != nil {
		return nil, err
	}
	if err := c.profileUnused(p, "remove VM network interface profile. Several VMs or templates use it"); err != nil {
		return nil, err
	}
	c.store.vnicProfiles.drop(p.ID)
	return c.complete(), nil
}

func getVNICProfile(c *call) (*element, error) {
	p, err := one(c.store.vnicProfiles, c.id("id"))
	if err != nil {
		return nil, err
	}
	return profileDocument(c, p), nil
}

// usage is what the disks of a storage domain take, and what they may grow to.
func (s *store) usage(domainID string) (used, committed int64) {
	for _, d := range s.disks.rows {
		if d.on(domainID) {
			used += d.Actual
			committed += d.Provisioned
		}
	}
	return used, committed
}

// storageDomainDocument shows a storage domain. Its status is told only where it is seen through its data center.
func storageDomainDocument(c *call, d *storageDomain) *element {
	used, committed := c.store.usage(d.ID)
	return object("storage_domain", d.ID, "storagedomains", d.ID).str("name", d.Name).str("description", "").str("comment", "").
		num("available", d.Bytes-used).flag("backup", false).num("block_size", 512).num("committed", committed).num("critical_space_action_blocker", 5).
		flag("discard_after_delete", false).str("external_status", "ok").flag("master", c.store.isMaster(d)).add(storageElement("storage", d)).
		str("storage_format", "v5").flag("supports_discard", false).flag("supports_discard_zeroes_data", false).str("type", "data").num("used", used).
		num("warning_low_space_indicator", 10).flag("wipe_after_delete", false).
		add(el("data_centers").items(ref("data_center", "datacenters", d.DataCenter)))
}

// storageElement is where a storage domain is.
func storageElement(name string, d *storageDomain) *element {
	return el(name).str("address", d.Name+".storage.example.com").str("path", "/export/"+d.Name).str("type", d.StorageType)
}

// isMaster says whether a storage domain is the first of its data center.
func (s *store) isMaster(d *storageDomain) bool {
	for _, other := range s.storageDomains.rows {
		if other.DataCenter == d.DataCenter && other.Name < d.Name {
			return false
		}
	}
	return true
}

func storageDomainsOf(c *call, match func(*storageDomain) bool, document func(*call, *storageDomain) *element) (*element, error) {
	center := val(func(d *storageDomain) string { return c.store.dataCenterName(d.DataCenter) })
	of := fields[*storageDomain]{
		"name": val(func(d *storageDomain) string { return d.Name }), "id": val(func(d *storageDomain) string { return d.ID }), "type": val(func(*storageDomain) string { return "data" }),
		"status": val(func(*storageDomain) string { return "active" }), "datacenter": center, "datacenter.name": center, "datacenter_name": center,
		"comment": val(func(*storageDomain) string { return "" }), "description": val(func(*storageDomain) string { return "" }),
	}
	return collect(c, "storage_domains", c.store.storageDomains.where(match, func(d *storageDomain) string { return d.Name + d.ID }), of, document)
}

func listStorageDomains(c *call) (*element, error) {
	return storageDomainsOf(c, nil, storageDomainDocument)
}

// attachedDomain is how a data center sees a storage domain.
func attachedDomain(c *call, d *storageDomain) *element {
	out := storageDomainDocument(c, d).str("status", "active")
	out.attrs[0].value = href("datacenters", d.DataCenter, "storagedomains", d.ID)
	return out.add(ref("data_center", "datacenters", d.DataCenter))
}

func listDataCenterStorageDomains(c *call) (*element, error) {
	return storageDomainsOf(c, func(d *storageDomain) bool { return d.DataCenter == c.id("id") }, attachedDomain)
}

func getStorageDomain(c *call) (*element, error) {
	d, err := one(c.store.storageDomains, c.id("id"))
	if err != nil {
		return nil, err
	}
	return storageDomainDocument(c, d), nil
}

func getDataCenterStorageDomain(c *call) (*element, error) {
	d := c.store.storageDomains.get(c.id("domain"))
	if d == nil || d.DataCenter != c.id("id") {
		return nil, gone()
	}
	return attachedDomain(c, d), nil
}

func listStorageDomainDisks(c *call) (*element, error) {
	if c.store.storageDomains.get(c.id("id")) == nil {
		return nil, failed(http.StatusBadRequest,
			`cannot invoke "org.ovirt.engine.core.common.businessentities.storagedomain.getstoragetype()" because "storagedomain" is null`)
	}
	return disksWhere(c, func(d *disk) bool { return d.on(c.id("id")) })
}

// ofDomain does an operation on a disk that is seen through its storage domain.
func ofDomain(op operation) operation {
	return func(c *call) (*element, error) {
		if d := c.store.disks.get(c.id("id")); d != nil && !d.on(c.id("domain")) {
			return nil, gone()
		}
		return op(c)
	}
}

func listStorageConnections(c *call) (*element, error) {
	out := el("storage_connections")
	for _, d := range c.store.storageDomains.where(nil, func(d *storageDomain) string { return d.Name + d.ID }) {
		out.items(connectionDocument(c, d))
	}
	return out, nil
}

func connectionDocument(c *call, d *storageDomain) *element {
	id := c.store.idOf("", "storageconnection", d.ID)
	out := object("storage_connection", id, "storageconnections", id)
	return out.add(storageElement("storage", d).kids...)
}

// diskProfiles and cpuProfiles: there is one for each storage domain and each cluster.

func (s *store) diskProfileID(domainID string) string { return s.idOf("", "diskprofile", domainID) }

func diskProfilesOf(c *call, domainID string) (*element, error) {
	out := el("disk_profiles")
	for _, d := range c.store.storageDomains.where(func(d *storageDomain) bool { return domainID == "" || d.ID == domainID }, func(d *storageDomain) string { return d.Name + d.ID }) {
		id := c.store.diskProfileID(d.ID)
		out.items(object("disk_profile", id, "diskprofiles", id).str("name", d.Name).add(ref("storage_domain", "storagedomains", d.ID)))
	}
	return out, nil
}

func listDiskProfiles(c *call) (*element, error)       { return diskProfilesOf(c, "") }
func listDomainDiskProfiles(c *call) (*element, error) { return diskProfilesOf(c, c.id("id")) }

func cpuProfilesOf(c *call, clusterID string) (*element, error) {
	out := el("cpu_profiles")
	for _, g := range c.store.clusters.where(func(g *cluster) bool { return clusterID == "" || g.ID == clusterID }, clusterKey) {
		id := c.store.cpuProfileID(g.ID)
		out.items(object("cpu_profile", id, "cpuprofiles", id).str("name", g.Name).add(ref("cluster", "clusters", g.ID)))
	}
	return out, nil
}

func listCPUProfiles(c *call) (*element, error)        { return cpuProfilesOf(c, "") }
func listClusterCPUProfiles(c *call) (*element, error) { return cpuProfilesOf(c, c.id("cluster")) }

// listQuotas has the one that every data center has.
func listQuotas(c *call) (*element, error) {
	out := el("quotas")
	if d := c.store.dataCenters.get(c.id("id")); d != nil {
		id := c.store.idOf("", "quota", d.ID)
		out.items(object("quota", id, "datacenters", d.ID, "quotas", id).str("name", "Default").str("description", "Default unlimited quota").
			num("cluster_hard_limit_pct", 20).num("cluster_soft_limit_pct", 80).num("storage_hard_limit_pct", 20).num("storage_soft_limit_pct", 80).
			add(ref("data_center", "datacenters", d.ID)))
	}
	return out, nil
}

// instanceTypeDocument shows an instance type, which has no operating system and belongs to no cluster.
func instanceTypeDocument(_ *call, t *instanceType) *element {
	out := object("instance_type", t.ID, "instancetypes", t.ID).str("name", t.Name).str("description", t.Name+" instance type").str("creation_time", stamp(t.Created))
	described := el("instance_type")
	t.describe(described, "", false)
	described.get("cpu").kids = slices.DeleteFunc(described.get("cpu").kids, func(e *element) bool { return e.name == "architecture" })
	described.get("os").kids = slices.DeleteFunc(described.get("os").kids, func(e *element) bool { return e.name == "type" })
	described.put("spice", "display", "type")
	for _, name := range []string{"cpu", "display", "high_availability", "io", "memory", "memory_policy", "migration", "migration_downtime", "os", "placement_policy", "usb"} {
		out.add(described.get(name))
	}
	return out
}

func listInstanceTypes(c *call) (*element, error) {
	of := fields[*instanceType]{"name": val(func(t *instanceType) string { return t.Name }), "id": val(func(t *instanceType) string { return t.ID })}
	return collect(c, "instance_types", c.store.instanceTypes.where(nil, func(t *instanceType) string { return t.Name }), of, instanceTypeDocument)
}

func getInstanceType(c *call) (*element, error) {
	t, err := one(c.store.instanceTypes, c.id("id"))
	if err != nil {
		return nil, err
	}
	return instanceTypeDocument(c, t), nil
}

// pick answers with one item of a list.
func (c *call) pick(list operation, id string) (*element, error) {
	all, err := list(c)
	if err != nil {
		return nil, err
	}
	for _, item := range all.kids {
		if item.attr("id") == id {
			item.item = false
			return item, nil
		}
	}
	return nil, gone()
}

// itemOf is the operation that answers with one item of a list.
func itemOf(list operation) operation {
	return func(c *call) (*element, error) { return c.pick(list, c.id("id")) }
}

// itemNamed is itemOf where the path has another name for the item, because {id} is what the list belongs to.
func itemNamed(name string, list operation) operation {
	return func(c *call) (*element, error) { return c.pick(list, c.id(name)) }
}

// options are settings of the engine that clients ask for by name, for one version of clusters; others are not told.
var options = map[string]string{"PredefinedVMProperties": predefinedProperties, "UserDefinedVMProperties": ""}

func getOption(c *call) (*element, error) {
	name := c.id("id")
	value, known := options[name]
	if !known {
		return nil, gone()
	}
	entry := el("system_option_value").str("value", value).str("version", orElse(c.query.Get("version"), "general"))
	return el("system_option").set("href", href("options", name)).set("id", name).str("name", name).add(el("values").items(entry)), nil
}
