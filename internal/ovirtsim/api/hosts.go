package api

import (
	"fmt"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains hosts as objects, and their statistics. The file hostlife.go contains the life of hosts.

var hostRoutes = []route{
	{"GET", "/disks/{id}/statistics", diskStatistics},
	{"GET", "/disks/{id}/statistics/{statistic}", readItemNamed("statistic", diskStatistics)},
	{"GET", "/hosts", listHosts},
	{"GET", "/hosts/{host}", getHost},
	{"GET", "/hosts/{host}/devices", listHostDevices},
	{"GET", "/hosts/{host}/devices/{id}", readItem(listHostDevices)},
	{"GET", "/hosts/{host}/networkattachments", listNetworkAttachments},
	{"GET", "/hosts/{host}/networkattachments/{id}", readItem(listNetworkAttachments)},
	{"GET", "/hosts/{host}/nics", listHostNICs},
	{"GET", "/hosts/{host}/nics/{id}", readItem(listHostNICs)},
	{"GET", "/hosts/{host}/numanodes", listNothing("host_numa_nodes")},
	{"GET", "/hosts/{host}/permissions", permissionsOf("host", "hosts", "host")},
	{"GET", "/hosts/{host}/statistics", hostStatistics},
	{"GET", "/hosts/{host}/statistics/{id}", readItem(hostStatistics)},
}

func hostDocument(c *call, h *store.Host) *wire.Element {
	used, running, migrating := int64(0), int64(0), int64(0)

	for _, v := range c.store.VMs.Rows {
		if v.Host == h.ID {
			used += v.Memory
			running++
		}

		if v.Destination == h.ID {
			migrating++
		}
	}

	enabled := func(name string, value bool) *wire.Element { return wire.El(name).Flag("enabled", value) }
	cpu := wire.El("cpu").Str("name", "Simulated CPU @ 2.40GHz").Num("speed", 2400).Add(topologyElement(h.CPU)).
		Str("type", c.store.Clusters.Get(h.Cluster).CPUType)
	hardware := wire.El("hardware_information").Str("family", "Simulated").Str("manufacturer", "ovirtsim").
		Str("product_name", "host").Str("serial_number", h.ID).
		Add(wire.El("supported_rng_sources").AddItems(wire.NewLeaf("supported_rng_source", "hwrng"),
			wire.NewLeaf("supported_rng_source", "urandom"))).
		Str("uuid", h.ID).Str("version", "1")
	system := wire.El("os").Str("custom_kernel_cmdline", "").Str("description", "Oracle Linux Server 8.10").
		Str("reported_kernel_cmdline", "quiet").Str("type", "OL").
		Add(wire.El("version").Str("full_version", "8.10").Num("major", 8).Num("minor", 10))
	power := wire.El("power_management").Flag("automatic_pm_enabled", true).Flag("enabled", false).
		Flag("kdump_detection", true).Add(wire.El("pm_proxies"))
	out := wire.NewObject("host", h.ID, "hosts", h.ID).Str("name", h.Name).Str("comment", "").Str("address", h.Address).
		Str("auto_numa_status", "disable").
		Add(wire.El("certificate").Str("organization", "ovirtsim").Str("subject", "O=ovirtsim,CN="+h.Address), cpu,
			enabled("device_passthrough", false)).
		Str("external_status", "ok").
		Add(hardware, wire.El("iscsi").Str("initiator", "iqn.1994-05.com.example:"+h.Name)).
		Str("kdump_status", "disabled").
		Add(enabled("ksm", false), wire.El("libvirt_version").Num("build", 0).Str("full_version", "libvirt-9.0.0-1").
			Num("major", 9).Num("minor", 0).Num("revision", 0)).
		Num("max_scheduling_memory", max(h.Memory-used, 0)).Num("memory", h.Memory)
	if c.allContent() {
		out.Flag("network_operation_in_progress", false)
	}

	spm := "none"
	if c.store.IsSPM(h) {
		spm = "spm"
	}

	out.Flag("numa_supported", false).Add(system).Flag("ovn_configured", false).Num("port", 54321).Add(power).
		Str("protocol", "stomp").
		Flag("reinstallation_required", false).Add(wire.El("se_linux").Str("mode", "enforcing"),
		wire.El("spm").Num("priority", 5).Str("status", spm), wire.El("ssh").Num("port", 22)).
		Str("status", h.Status).
		Add(wire.El("summary").Num("active", running).Num("migrating", migrating).Num("total", running),
			enabled("transparent_hugepages", true)).
		Str("type", "rhel").Flag("update_available", false).
		Add(wire.El("version").Num("build", 6).Str("full_version", "vdsm-4.50.6-1.el8").Num("major", 4).
			Num("minor", 50).Num("revision", 0)).
		Str("vgpu_placement", "consolidated")

	return out.Add(wire.Ref("cluster", "clusters", h.Cluster))
}

func listHosts(c *call) (*wire.Element, error) {
	of := fields[*store.Host]{
		"name":    singleValue(func(h *store.Host) string { return h.Name }),
		"id":      singleValue(func(h *store.Host) string { return h.ID }),
		"status":  singleValue(func(h *store.Host) string { return h.Status }),
		"address": singleValue(func(h *store.Host) string { return h.Address }),
		"cluster": singleValue(func(h *store.Host) string { return c.store.ClusterName(h.Cluster) }),
		"datacenter": singleValue(func(h *store.Host) string {
			return c.store.DataCenterName(c.store.DataCenterOf(h.Cluster))
		}),
		"tag": func(h *store.Host) []string { return c.tagsOf(h.ID, taggedHost) },
	}

	return answerList(c, "hosts", c.store.Hosts.Where(nil, func(h *store.Host) string { return h.Name + h.ID }), of,
		hostDocument)
}

func (c *call) findHost() (*store.Host, error) { return findRow(c.store.Hosts, c.pathID("host")) }

func getHost(c *call) (*wire.Element, error) {
	h, err := c.findHost()
	if err != nil {
		return nil, err
	}

	return hostDocument(c, h), nil
}

// listHostNICs lists two interfaces: one with the management network, and one without a network.
func listHostNICs(c *call) (*wire.Element, error) {
	h, err := findRow(c.store.Hosts, c.pathID("host"))
	if err != nil {
		return nil, err
	}

	first := c.hostNIC(h, "eth0").Str("boot_protocol", "static").Flag("bridged", true).
		Flag("custom_configuration", false).Add(c.hostIP(h)).
		Str("ipv6_boot_protocol", "none")

	second := c.hostNIC(h, "eth1").Str("boot_protocol", "none").Flag("bridged", false).Str("ipv6_boot_protocol", "none")
	for i, nic := range []*wire.Element{first, second} {
		nic.Add(wire.El("mac").Str("address", fmt.Sprintf("52:54:00:00:%02x:%02x", c.store.HostNumber(h), i))).
			Num("mtu", 1500)
		if i == 0 {
			nic.Add(wire.El("properties"))
		}

		nic.Num("speed", 10_000_000_000).Str("status", "up").Add(wire.Ref("host", "hosts", h.ID))
	}

	first.Add(wire.Ref("network", "networks", c.managementNetwork(h)))

	return wire.El("host_nics").AddItems(first, second), nil
}

func (c *call) hostNICID(h *store.Host, name string) string {
	return c.store.IDOf("", "hostnic", h.ID, name)
}

func (c *call) hostNIC(h *store.Host, name string) *wire.Element {
	id := c.hostNICID(h, name)
	return wire.NewObject("host_nic", id, "hosts", h.ID, "nics", id).Str("name", name)
}

func (c *call) hostIP(h *store.Host) *wire.Element {
	return wire.El("ip").Str("address", c.store.HostAddress(h)).Str("gateway", "192.0.2.254").
		Str("netmask", "255.255.255.0").Str("version", "v4")
}

// managementNetwork returns the ID of the first network of the host's data center.
func (c *call) managementNetwork(h *store.Host) string {
	center := c.store.DataCenterOf(h.Cluster)
	all := c.store.Networks.Where(func(n *store.Network) bool {
		return n.DataCenter == center
	}, func(n *store.Network) string { return n.Name + n.ID })

	at := slices.IndexFunc(all, func(n *store.Network) bool { return n.Name == "ovirtmgmt" })
	switch {
	case len(all) == 0:
		return ""
	case at < 0:
		return all[0].ID
	default:
		return all[at].ID
	}
}

// listNetworkAttachments lists the attachment of the management network to the first interface.
func listNetworkAttachments(c *call) (*wire.Element, error) {
	h, err := findRow(c.store.Hosts, c.pathID("host"))
	if err != nil {
		return nil, err
	}

	reported := wire.El("reported_configurations")
	for _, setting := range [][2]string{
		{"mtu", "1500"},
		{"bridged", "true"},
		{"vlan", ""},
		{"switchType", "LEGACY"},
		{"ipv4_boot_protocol", "STATIC_IP"},
		{"ipv4_netmask", "255.255.255.0"},
		{"ipv4_address", c.store.HostAddress(h)},
		{"ipv4_gateway", "192.0.2.254"},
		{"ipv6_boot_protocol", "NONE"},
		{"default_route", "true"},
	} {
		reported.AddItems(
			wire.El("reported_configuration").
				StrIfSet("actual_value", setting[1]).
				StrIfSet("expected_value", setting[1]).
				Flag("in_sync", true).
				Str("name", setting[0]),
		)
	}

	assignments := wire.El("ip_address_assignments").AddItems(
		wire.El("ip_address_assignment").Str("assignment_method", "static").Add(c.hostIP(h)),
		wire.El("ip_address_assignment").Str("assignment_method", "none").Add(wire.El("ip").Str("version", "v6")),
	)
	network := c.managementNetwork(h)
	id := c.store.IDOf("", "networkattachment", h.ID, network)
	out := wire.NewObject("network_attachment", id, "hosts", h.ID, "networkattachments", id).Flag("in_sync", true).
		Add(assignments, reported, wire.Ref("host", "hosts", h.ID))
	nic := c.hostNICID(h, "eth0")
	out.Add(wire.El("host_nic").SetAttr("href", wire.Href("hosts", h.ID, "nics", nic)).SetAttr("id", nic),
		wire.Ref("network", "networks", network))

	return wire.El("network_attachments").AddItems(out), nil
}
