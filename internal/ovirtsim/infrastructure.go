package ovirtsim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file has what VMs live in and on: data centers, clusters, hosts, networks, storage domains.

// rootDocument is the entry point of the API.
func rootDocument(c *call) (*element, error) {
	api := el("api")
	for _, rel := range []string{"affinitylabels", "clusters", "datacenters", "disks", "events", "hosts", "imagetransfers", "instancetypes", "jobs",
		"networks", "operatingsystems", "storagedomains", "tags", "templates", "users", "vmpools", "vms", "vnicprofiles"} {
		api.items(el("link").set("href", href(rel)).set("rel", rel))
		if slices.Contains([]string{"clusters", "datacenters", "events", "hosts", "networks", "storagedomains", "templates", "users", "vmpools", "vms"}, rel) {
			api.items(el("link").set("href", href(rel)+"?search={query}").set("rel", rel+"/search"))
		}
	}
	parts := strings.Split(c.version+".0", ".")
	api.add(el("product_info").str("name", "oVirt Engine").str("vendor", "ovirt.org").add(
		el("version").str("build", parts[2]).str("full_version", c.version+"-1.el8").str("major", parts[0]).str("minor", parts[1]).str("revision", parts[3])))
	api.add(el("special_objects").add(
		el("blank_template").set("href", href("templates", blankTemplateID)).set("id", blankTemplateID),
		el("root_tag").set("href", href("tags", rootTagID)).set("id", rootTagID)))
	count := func(name string, total, active int) *element {
		return el(name).num("active", int64(active)).num("total", int64(total))
	}
	up := 0
	for _, v := range c.store.vms.rows {
		if v.Status != statusDown && v.Status != statusImageLocked {
			up++
		}
	}
	hostsUp := 0
	for _, h := range c.store.hosts.rows {
		if h.Status == hostUp {
			hostsUp++
		}
	}
	domains := len(c.store.storageDomains.rows)
	api.add(el("summary").add(count("hosts", len(c.store.hosts.rows), hostsUp), count("storage_domains", domains, domains),
		count("users", len(c.store.users.rows), 1), count("vms", len(c.store.vms.rows), up)))
	authenticated := c.store.userNamed(c.user)
	if authenticated != nil {
		api.add(ref("authenticated_user", "users", authenticated.ID), ref("effective_user", "users", authenticated.ID))
	}
	return api.str("time", stamp(time.Now())), nil
}

// one finds an object of a table or answers 404.
func one[T any](t *table[T], what, id string) (*T, error) {
	if found := t.get(id); found != nil {
		return found, nil
	}
	return nil, notFound(what, id)
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

func dataCenterDocument(_ *call, d *dataCenter) *element {
	return object("data_center", d.ID, "datacenters", d.ID).links("clusters", "networks", "storagedomains").str("name", d.Name).opt("description", d.Description).
		str("comment", "").flag("local", false).str("quota_mode", "disabled").str("status", "up").str("storage_format", "v5").
		add(el("version").num("major", 4).num("minor", 7))
}

func listDataCenters(c *call) (*element, error) {
	of := fields[*dataCenter]{
		"name": val(func(d *dataCenter) string { return d.Name }), "id": val(func(d *dataCenter) string { return d.ID }),
		"status": val(func(*dataCenter) string { return "up" }), "description": val(func(d *dataCenter) string { return d.Description }),
	}
	return collect(c, "data_centers", c.store.dataCenters.where(nil, func(d *dataCenter) string { return d.Name }), of, dataCenterDocument)
}

func getDataCenter(c *call) (*element, error) {
	d, err := one(c.store.dataCenters, "DataCenter", c.id("id"))
	if err != nil {
		return nil, err
	}
	return dataCenterDocument(c, d), nil
}

func clusterDocument(_ *call, g *cluster) *element {
	return object("cluster", g.ID, "clusters", g.ID).links("networks", "affinitygroups").str("name", g.Name).opt("description", g.Description).str("comment", "").
		flag("ballooning_enabled", true).add(el("cpu").str("architecture", "x86_64").str("type", g.CPUType)).flag("gluster_service", false).flag("ha_reservation", false).
		flag("threads_as_cores", false).flag("virt_service", true).add(el("version").num("major", 4).num("minor", 7)).add(ref("data_center", "datacenters", g.DataCenter))
}

func clusterFields(c *call) fields[*cluster] {
	return fields[*cluster]{
		"name": val(func(g *cluster) string { return g.Name }), "id": val(func(g *cluster) string { return g.ID }),
		"description": val(func(g *cluster) string { return g.Description }), "datacenter": val(func(g *cluster) string { return c.store.dataCenterName(g.DataCenter) }),
	}
}

func clusterKey(g *cluster) string { return g.Name + g.ID }

func listClusters(c *call) (*element, error) {
	return collect(c, "clusters", c.store.clusters.where(nil, clusterKey), clusterFields(c), clusterDocument)
}

func getCluster(c *call) (*element, error) {
	g, err := one(c.store.clusters, "Cluster", c.id("cluster"))
	if err != nil {
		return nil, err
	}
	return clusterDocument(c, g), nil
}

func listDataCenterClusters(c *call) (*element, error) {
	if _, err := getDataCenter(c); err != nil {
		return nil, err
	}
	inside := func(g *cluster) bool { return g.DataCenter == c.id("id") }
	return collect(c, "clusters", c.store.clusters.where(inside, clusterKey), clusterFields(c), clusterDocument)
}

func networkDocument(_ *call, n *network) *element {
	out := object("network", n.ID, "networks", n.ID).links("vnicprofiles").str("name", n.Name).opt("description", n.Description).str("comment", "").
		num("mtu", 0).flag("port_isolation", false).flag("stp", false).add(el("usages").items(leaf("usage", "vm")))
	if n.VLAN != 0 {
		out.add(el("vlan").set("id", strconv.FormatInt(n.VLAN, 10)))
	}
	return out.add(ref("data_center", "datacenters", n.DataCenter))
}

func networkFields(c *call) fields[*network] {
	return fields[*network]{
		"name": val(func(n *network) string { return n.Name }), "id": val(func(n *network) string { return n.ID }),
		"vlanid":      val(func(n *network) string { return strconv.FormatInt(n.VLAN, 10) }),
		"description": val(func(n *network) string { return n.Description }), "datacenter": val(func(n *network) string { return c.store.dataCenterName(n.DataCenter) }),
	}
}

func networksOf(c *call, dataCenterID string) (*element, error) {
	inside := func(n *network) bool { return dataCenterID == "" || n.DataCenter == dataCenterID }
	return collect(c, "networks", c.store.networks.where(inside, func(n *network) string { return n.Name + n.ID }), networkFields(c), networkDocument)
}

func listNetworks(c *call) (*element, error) { return networksOf(c, "") }

func listDataCenterNetworks(c *call) (*element, error) {
	if _, err := getDataCenter(c); err != nil {
		return nil, err
	}
	return networksOf(c, c.id("id"))
}

func listClusterNetworks(c *call) (*element, error) {
	g, err := one(c.store.clusters, "Cluster", c.id("cluster"))
	if err != nil {
		return nil, err
	}
	return networksOf(c, g.DataCenter)
}

func getNetwork(c *call) (*element, error) {
	n, err := one(c.store.networks, "Network", c.id("id"))
	if err != nil {
		return nil, err
	}
	return networkDocument(c, n), nil
}

func profileDocument(_ *call, p *vnicProfile) *element {
	return object("vnic_profile", p.ID, "vnicprofiles", p.ID).str("name", p.Name).str("comment", "").
		add(el("pass_through").str("mode", "disabled")).flag("port_mirroring", false).add(ref("network", "networks", p.Network))
}

func profilesOf(c *call, networkID string) (*element, error) {
	of := fields[*vnicProfile]{"name": val(func(p *vnicProfile) string { return p.Name }), "id": val(func(p *vnicProfile) string { return p.ID })}
	on := func(p *vnicProfile) bool { return networkID == "" || p.Network == networkID }
	return collect(c, "vnic_profiles", c.store.vnicProfiles.where(on, func(p *vnicProfile) string { return p.Name + p.ID }), of, profileDocument)
}

func listVNICProfiles(c *call) (*element, error) { return profilesOf(c, "") }

func listNetworkProfiles(c *call) (*element, error) {
	if _, err := getNetwork(c); err != nil {
		return nil, err
	}
	return profilesOf(c, c.id("id"))
}

func addVNICProfile(c *call) (*element, error) {
	in := c.body
	if err := require(in, "VnicProfile", "name", "network.id"); err != nil {
		return nil, err
	}
	on := c.store.networks.get(refID(in.get("network")))
	if on == nil {
		return nil, notFound("Network", refID(in.get("network")))
	}
	made := &vnicProfile{ID: newID(), Name: in.value("name"), Network: on.ID}
	for _, other := range c.store.vnicProfiles.rows {
		if other.Network == made.Network && other.Name == made.Name {
			return nil, conflict("Cannot add VM network interface profile. The VM network interface profile's name is already used by an existing profile for the same network.")
		}
	}
	c.store.vnicProfiles.put(made.ID, made)
	c.created = true
	return profileDocument(c, made), nil
}

func removeVNICProfile(c *call) (*element, error) {
	p, err := one(c.store.vnicProfiles, "VnicProfile", c.id("id"))
	if err != nil {
		return nil, err
	}
	for _, n := range c.store.nics.rows {
		if n.Profile == p.ID {
			return nil, conflict("Cannot remove VM network interface profile. Several VMs or templates use it.")
		}
	}
	c.store.vnicProfiles.drop(p.ID)
	return c.complete(), nil
}

func getVNICProfile(c *call) (*element, error) {
	p, err := one(c.store.vnicProfiles, "VnicProfile", c.id("id"))
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

func storageDomainDocument(c *call, d *storageDomain) *element {
	used, committed := c.store.usage(d.ID)
	return object("storage_domain", d.ID, "storagedomains", d.ID).links("disks", "files").str("name", d.Name).str("comment", "").
		num("available", d.Bytes-used).flag("backup", false).num("block_size", 512).num("committed", committed).num("critical_space_action_blocker", 5).
		flag("discard_after_delete", false).str("external_status", "ok").flag("master", true).add(el("storage").str("type", d.StorageType)).
		str("storage_format", "v5").str("status", "active").str("type", "data").num("used", used).num("warning_low_space_indicator", 10).flag("wipe_after_delete", false).
		add(el("data_centers").items(ref("data_center", "datacenters", d.DataCenter)), ref("data_center", "datacenters", d.DataCenter))
}

func storageDomainsOf(c *call, dataCenterID string) (*element, error) {
	of := fields[*storageDomain]{
		"name": val(func(d *storageDomain) string { return d.Name }), "id": val(func(d *storageDomain) string { return d.ID }), "type": val(func(*storageDomain) string { return "data" }),
		"status": val(func(*storageDomain) string { return "active" }), "datacenter": val(func(d *storageDomain) string { return c.store.dataCenterName(d.DataCenter) }),
	}
	inside := func(d *storageDomain) bool { return dataCenterID == "" || d.DataCenter == dataCenterID }
	return collect(c, "storage_domains", c.store.storageDomains.where(inside, func(d *storageDomain) string { return d.Name + d.ID }), of, storageDomainDocument)
}

func listStorageDomains(c *call) (*element, error) { return storageDomainsOf(c, "") }

func listDataCenterStorageDomains(c *call) (*element, error) {
	if _, err := getDataCenter(c); err != nil {
		return nil, err
	}
	return storageDomainsOf(c, c.id("id"))
}

func getStorageDomain(c *call) (*element, error) {
	d, err := one(c.store.storageDomains, "StorageDomain", c.id("id"))
	if err != nil {
		return nil, err
	}
	return storageDomainDocument(c, d), nil
}

func listStorageDomainDisks(c *call) (*element, error) {
	if _, err := getStorageDomain(c); err != nil {
		return nil, err
	}
	return disksWhere(c, func(d *disk) bool { return d.on(c.id("id")) })
}

// ofDomain does an operation on a disk that is seen through its storage domain.
func ofDomain(op operation) operation {
	return func(c *call) (*element, error) {
		if d := c.store.disks.get(c.id("id")); d != nil && !d.on(c.id("domain")) {
			return nil, notFound("Disk", d.ID)
		}
		return op(c)
	}
}

func instanceTypeDocument(_ *call, t *instanceType) *element {
	return object("instance_type", t.ID, "instancetypes", t.ID).str("name", t.Name).str("comment", "").add(cpuElement("", t.CPU)).num("memory", t.Memory).
		add(el("memory_policy").flag("ballooning", true).num("guaranteed", t.Memory).num("max", 4*t.Memory))
}

func listInstanceTypes(c *call) (*element, error) {
	of := fields[*instanceType]{"name": val(func(t *instanceType) string { return t.Name }), "id": val(func(t *instanceType) string { return t.ID })}
	return collect(c, "instance_types", c.store.instanceTypes.where(nil, func(t *instanceType) string { return t.Name }), of, instanceTypeDocument)
}

func getInstanceType(c *call) (*element, error) {
	t, err := one(c.store.instanceTypes, "InstanceType", c.id("id"))
	if err != nil {
		return nil, err
	}
	return instanceTypeDocument(c, t), nil
}

// operatingSystems are the types of guests that the simulator lists; others are accepted.
var operatingSystems = []string{"other", "other_linux", "ol_6x64", "ol_7x64", "ol_8x64", "ol_9x64", "rhel_7x64", "rhel_8x64", "rhel_9x64", osRHCOS, "debian_9", "ubuntu_18_04", "windows_2022"}

func listOperatingSystems(*call) (*element, error) {
	out := el("operating_systems")
	for i, name := range operatingSystems {
		id := fmt.Sprintf("00000000-0000-0000-0000-0000000001%02d", i)
		out.items(object("operating_system", id, "operatingsystems", id).str("name", name).str("description", name).str("architecture", "x86_64"))
	}
	return out, nil
}

// pick answers with one item of a list.
func (c *call) pick(list operation, what string) (*element, error) {
	all, err := list(c)
	if err != nil {
		return nil, err
	}
	for _, item := range all.kids {
		if item.attr("id") == c.id("id") {
			item.item = false
			return item, nil
		}
	}
	return nil, notFound(what, c.id("id"))
}

// itemOf is the operation that answers with one item of a list.
func itemOf(list operation, what string) operation {
	return func(c *call) (*element, error) { return c.pick(list, what) }
}

func hostDocument(c *call, h *host) *element {
	used, running := int64(0), int64(0)
	for _, v := range c.store.vms.rows {
		if v.Host == h.ID {
			used += v.Memory
			running++
		}
	}
	out := object("host", h.ID, "hosts", h.ID).links("statistics", "affinitylabels").actions("activate", "deactivate", "fence").str("name", h.Name).
		str("comment", "").str("address", h.Address).
		add(el("cpu").num("speed", 2400).str("name", "Simulated CPU @ 2.40GHz").add(topologyElement(h.CPU))).
		num("max_scheduling_memory", max(h.Memory-used, 0)).num("memory", h.Memory).add(el("os").str("type", "OL").add(el("version").str("full_version", "8.10"))).
		add(el("summary").num("active", running).num("migrating", 0).num("total", running)).str("status", h.Status).str("type", "ovirt_node")
	return out.add(ref("cluster", "clusters", h.Cluster))
}

func listHosts(c *call) (*element, error) {
	of := fields[*host]{
		"name": val(func(h *host) string { return h.Name }), "id": val(func(h *host) string { return h.ID }), "status": val(func(h *host) string { return h.Status }),
		"address": val(func(h *host) string { return h.Address }), "cluster": val(func(h *host) string { return c.store.clusterName(h.Cluster) }),
		"datacenter": val(func(h *host) string { return c.store.dataCenterName(c.store.dataCenterOf(h.Cluster)) }),
	}
	return collect(c, "hosts", c.store.hosts.where(nil, func(h *host) string { return h.Name + h.ID }), of, hostDocument)
}

func (c *call) host() (*host, error) { return one(c.store.hosts, "Host", c.id("host")) }

func getHost(c *call) (*element, error) {
	h, err := c.host()
	if err != nil {
		return nil, err
	}
	return hostDocument(c, h), nil
}

// statistic is one value of a statistics collection.
func statistic(parent *element, name, unit, kind string, value int64) *element {
	id := fmt.Sprintf("%x-%s", len(name), name)
	return object("statistic", id, strings.TrimPrefix(parent.attr("href"), apiPath+"/"), "statistics", id).str("name", name).str("description", name).str("kind", "gauge").
		str("type", kind).str("unit", unit).add(el("values").items(el("value").num("datum", value)))
}

func hostStatistics(c *call) (*element, error) {
	h, err := c.host()
	if err != nil {
		return nil, err
	}
	document := hostDocument(c, h)
	used := h.Memory - document.number("max_scheduling_memory")
	return el("statistics").items(statistic(document, "memory.total", "bytes", "integer", h.Memory), statistic(document, "memory.used", "bytes", "integer", used),
		statistic(document, "memory.free", "bytes", "integer", h.Memory-used), statistic(document, "cpu.current.user", "percent", "decimal", 100*used/max(h.Memory, 1)),
		statistic(document, "cpu.current.idle", "percent", "decimal", 100-100*used/max(h.Memory, 1))), nil
}

func userDocument(_ *call, u *user) *element {
	name, domain, _ := strings.Cut(u.Name, "@")
	return object("user", u.ID, "users", u.ID).str("name", name).str("user_name", u.Name+"-authz").str("principal", name).str("domain_entry_id", u.ID).str("namespace", "*").
		add(el("domain").set("id", domain).str("name", domain+"-authz"))
}

func listUsers(c *call) (*element, error) {
	of := fields[*user]{"name": val(func(u *user) string { return u.Name }), "usrname": val(func(u *user) string { return u.Name }), "id": val(func(u *user) string { return u.ID })}
	return collect(c, "users", c.store.users.where(nil, func(u *user) string { return u.Name }), of, userDocument)
}

func getUser(c *call) (*element, error) {
	u, err := one(c.store.users, "User", c.id("id"))
	if err != nil {
		return nil, err
	}
	return userDocument(c, u), nil
}

// Affinity labels bind VMs to hosts: a VM runs on hosts that have all of its labels.

func labelDocument(c *call, l *affinityLabel) *element {
	return object("affinity_label", l.ID, "affinitylabels", l.ID).links("vms", "hosts").str("name", l.Name).flag("read_only", false).flag("has_implicit_affinity_group", true).
		add(refs("vms", "vm", "vms", l.VMs), refs("hosts", "host", "hosts", l.Hosts))
}

// refs is a list of references.
func refs(name, item, collection string, ids []string) *element {
	out := el(name)
	for _, id := range ids {
		out.items(ref(item, collection, id))
	}
	return out
}

func labelKey(l *affinityLabel) string { return l.Name }

func labelsWhere(c *call, match func(*affinityLabel) bool) (*element, error) {
	of := fields[*affinityLabel]{"name": val(labelKey), "id": val(func(l *affinityLabel) string { return l.ID })}
	return collect(c, "affinity_labels", c.store.labels.where(match, labelKey), of, labelDocument)
}

func listLabels(c *call) (*element, error) { return labelsWhere(c, nil) }

func listVMLabels(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	return labelsWhere(c, func(l *affinityLabel) bool { return slices.Contains(l.VMs, v.ID) })
}

func listHostLabels(c *call) (*element, error) {
	h, err := c.host()
	if err != nil {
		return nil, err
	}
	return labelsWhere(c, func(l *affinityLabel) bool { return slices.Contains(l.Hosts, h.ID) })
}

func (c *call) label() (*affinityLabel, error) {
	return one(c.store.labels, "AffinityLabel", c.id("id"))
}

func getLabel(c *call) (*element, error) {
	l, err := c.label()
	if err != nil {
		return nil, err
	}
	return labelDocument(c, l), nil
}

func addLabel(c *call) (*element, error) {
	if err := require(c.body, "AffinityLabel", "name"); err != nil {
		return nil, err
	}
	name := c.body.value("name")
	for _, l := range c.store.labels.rows {
		if l.Name == name {
			return nil, conflict("Cannot add Affinity Label. The specified name is already in use.")
		}
	}
	made := &affinityLabel{ID: newID(), Name: name}
	c.store.labels.put(made.ID, made)
	c.created = true
	return labelDocument(c, made), nil
}

func updateLabel(c *call) (*element, error) {
	l, err := c.label()
	if err != nil {
		return nil, err
	}
	if err := require(c.body, "AffinityLabel", "name"); err != nil {
		return nil, err
	}
	for _, other := range c.store.labels.rows {
		if other.ID != l.ID && other.Name == c.body.value("name") {
			return nil, conflict("Cannot edit Affinity Label. The specified name is already in use.")
		}
	}
	l.Name = c.body.value("name")
	c.store.labels.put(l.ID, l)
	return labelDocument(c, l), nil
}

func removeLabel(c *call) (*element, error) {
	l, err := c.label()
	if err != nil {
		return nil, err
	}
	c.store.labels.drop(l.ID)
	return c.complete(), nil
}

// member adds an ID to a set or takes it out, and says whether that changed anything.
func member(set *[]string, id string, in bool) bool {
	at := slices.Index(*set, id)
	switch {
	case in && at < 0:
		*set = append(*set, id)
	case !in && at >= 0:
		*set = slices.Delete(*set, at, at+1)
	default:
		return false
	}
	return true
}

func listLabelVMs(c *call) (*element, error) {
	l, err := c.label()
	if err != nil {
		return nil, err
	}
	return refs("vms", "vm", "vms", l.VMs), nil
}

func listLabelHosts(c *call) (*element, error) {
	l, err := c.label()
	if err != nil {
		return nil, err
	}
	return refs("hosts", "host", "hosts", l.Hosts), nil
}

func addLabelVM(c *call) (*element, error) {
	l, err := c.label()
	if err != nil {
		return nil, err
	}
	v, err := one(c.store.vms, "VM", refID(c.body))
	if err != nil {
		return nil, err
	}
	member(&l.VMs, v.ID, true)
	c.store.labels.put(l.ID, l)
	c.created = true
	return ref("vm", "vms", v.ID), nil
}

func removeLabelVM(c *call) (*element, error) {
	l, err := c.label()
	if err != nil {
		return nil, err
	}
	if !member(&l.VMs, c.id("vm"), false) {
		return nil, notFound("VM", c.id("vm"))
	}
	c.store.labels.put(l.ID, l)
	return c.complete(), nil
}

func addLabelHost(c *call) (*element, error) {
	l, err := c.label()
	if err != nil {
		return nil, err
	}
	h, err := one(c.store.hosts, "Host", refID(c.body))
	if err != nil {
		return nil, err
	}
	member(&l.Hosts, h.ID, true)
	c.store.labels.put(l.ID, l)
	c.created = true
	return ref("host", "hosts", h.ID), nil
}

func removeLabelHost(c *call) (*element, error) {
	l, err := c.label()
	if err != nil {
		return nil, err
	}
	if !member(&l.Hosts, c.id("host"), false) {
		return nil, notFound("Host", c.id("host"))
	}
	c.store.labels.put(l.ID, l)
	return c.complete(), nil
}
