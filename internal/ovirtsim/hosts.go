package ovirtsim

import (
	"fmt"
	"slices"
)

// This file has hosts as objects, and statistics. What happens to hosts is in life.go.

func hostDocument(c *call, h *host) *element {
	used, running, migrating := int64(0), int64(0), int64(0)
	for _, v := range c.store.vms.rows {
		if v.Host == h.ID {
			used += v.Memory
			running++
		}
		if v.Destination == h.ID {
			migrating++
		}
	}
	enabled := func(name string, value bool) *element { return el(name).flag("enabled", value) }
	cpu := el("cpu").str("name", "Simulated CPU @ 2.40GHz").num("speed", 2400).add(topologyElement(h.CPU)).str("type", c.store.clusters.get(h.Cluster).CPUType)
	hardware := el("hardware_information").str("family", "Simulated").str("manufacturer", "ovirtsim").str("product_name", "host").str("serial_number", h.ID).
		add(el("supported_rng_sources").items(leaf("supported_rng_source", "hwrng"), leaf("supported_rng_source", "urandom"))).str("uuid", h.ID).str("version", "1")
	system := el("os").str("custom_kernel_cmdline", "").str("description", "Oracle Linux Server 8.10").str("reported_kernel_cmdline", "quiet").str("type", "OL").
		add(el("version").str("full_version", "8.10").num("major", 8).num("minor", 10))
	power := el("power_management").flag("automatic_pm_enabled", true).flag("enabled", false).flag("kdump_detection", true).add(el("pm_proxies"))
	out := object("host", h.ID, "hosts", h.ID).str("name", h.Name).str("comment", "").str("address", h.Address).str("auto_numa_status", "disable").
		add(el("certificate").str("organization", "ovirtsim").str("subject", "O=ovirtsim,CN="+h.Address), cpu, enabled("device_passthrough", false)).
		str("external_status", "ok").add(hardware, el("iscsi").str("initiator", "iqn.1994-05.com.example:"+h.Name)).str("kdump_status", "disabled").
		add(enabled("ksm", false), el("libvirt_version").num("build", 0).str("full_version", "libvirt-9.0.0-1").num("major", 9).num("minor", 0).num("revision", 0)).
		num("max_scheduling_memory", max(h.Memory-used, 0)).num("memory", h.Memory)
	if c.allContent() {
		out.flag("network_operation_in_progress", false)
	}
	spm := "none"
	if c.store.isSPM(h) {
		spm = "spm"
	}
	out.flag("numa_supported", false).add(system).flag("ovn_configured", false).num("port", 54321).add(power).str("protocol", "stomp").
		flag("reinstallation_required", false).add(el("se_linux").str("mode", "enforcing"), el("spm").num("priority", 5).str("status", spm), el("ssh").num("port", 22)).
		str("status", h.Status).add(el("summary").num("active", running).num("migrating", migrating).num("total", running), enabled("transparent_hugepages", true)).
		str("type", "rhel").flag("update_available", false).
		add(el("version").num("build", 6).str("full_version", "vdsm-4.50.6-1.el8").num("major", 4).num("minor", 50).num("revision", 0)).
		str("vgpu_placement", "consolidated")
	return out.add(ref("cluster", "clusters", h.Cluster))
}

// isSPM says whether a host manages the storage of its data center: the first one that is up.
func (s *store) isSPM(h *host) bool {
	if h.Status != hostUp {
		return false
	}
	for _, other := range s.hosts.rows {
		if other.Status == hostUp && s.dataCenterOf(other.Cluster) == s.dataCenterOf(h.Cluster) && other.Name < h.Name {
			return false
		}
	}
	return true
}

func listHosts(c *call) (*element, error) {
	of := fields[*host]{
		"name": val(func(h *host) string { return h.Name }), "id": val(func(h *host) string { return h.ID }), "status": val(func(h *host) string { return h.Status }),
		"address": val(func(h *host) string { return h.Address }), "cluster": val(func(h *host) string { return c.store.clusterName(h.Cluster) }),
		"datacenter": val(func(h *host) string { return c.store.dataCenterName(c.store.dataCenterOf(h.Cluster)) }),
		"tag":        func(h *host) []string { return c.store.tagsOf(h.ID, taggedHost) },
	}
	return collect(c, "hosts", c.store.hosts.where(nil, func(h *host) string { return h.Name + h.ID }), of, hostDocument)
}

func (c *call) host() (*host, error) { return one(c.store.hosts, c.id("host")) }

func getHost(c *call) (*element, error) {
	h, err := c.host()
	if err != nil {
		return nil, err
	}
	return hostDocument(c, h), nil
}

// statisticName is a value of a statistics collection.
type statisticName struct {
	name, description, kind, unit string
	// counter says that it only grows; silent that there is no value of it.
	counter, silent bool
}

// document shows a value of an owner.
func (n statisticName) document(c *call, owner *element, value int64) *element {
	id := c.store.idOf("", "statistic", owner.attr("id"), n.name)
	base := owner.attr("href")
	out := el("statistic").set("href", base+"/statistics/"+id).set("id", id).str("name", n.name).str("description", n.description).
		str("kind", map[bool]string{true: "counter", false: "gauge"}[n.counter]).str("type", n.kind).str("unit", n.unit)
	values := el("values")
	if !n.silent {
		values.items(el("value").num("datum", value))
	}
	return out.add(values, owner.clone())
}

// statistics is a list of values, which are 0 where nothing is known.
func (c *call) statistics(names []statisticName, owner *element, values map[string]int64) *element {
	out := el("statistics")
	for _, one := range names {
		out.items(one.document(c, owner, values[one.name]))
	}
	return out
}

const (
	asInteger, asDecimal = "integer", "decimal"
)

var hostStatisticNames = []statisticName{
	{"memory.total", "Total memory", asInteger, "bytes", false, false},
	{"memory.used", "Used memory", asInteger, "bytes", false, false},
	{"memory.free", "Free memory", asInteger, "bytes", false, false},
	{"memory.shared", "The amount of memory, in bytes, shared among Virtual-Machines on this Host by Kernel Same-page Merging (KSM)", asInteger, "bytes", false, false},
	{"swap.total", "Total swap", asInteger, "bytes", false, false},
	{"swap.free", "Free swap", asInteger, "bytes", false, false},
	{"swap.used", "Used swap", asInteger, "bytes", false, false},
	{"ksm.cpu.current", "KSM CPU usage", asDecimal, "percent", false, false},
	{"cpu.current.user", "User CPU usage", asDecimal, "percent", false, false},
	{"cpu.current.system", "System CPU usage", asDecimal, "percent", false, false},
	{"cpu.current.idle", "Idle CPU usage", asDecimal, "percent", false, false},
	{"cpu.load.avg.5m", "CPU 5 minute load average", asDecimal, "percent", false, false},
	{"boot.time", "Boot time of the machine", asInteger, "none", false, false},
	{"hugepages.1048576.free", "Amount of free huge pages of the given size", asInteger, "none", false, false},
	{"hugepages.2048.free", "Amount of free huge pages of the given size", asInteger, "none", false, false},
	{"hugepages.1048576.total", "Amount of total huge pages of the given size", asInteger, "none", false, false},
	{"hugepages.2048.total", "Amount of total huge pages of the given size", asInteger, "none", false, false},
}

var vmStatisticNames = []statisticName{
	{"memory.installed", "Total memory configured", asInteger, "bytes", false, false},
	{"memory.used", "Memory used (agent)", asInteger, "bytes", false, false},
	{"cpu.current.guest", "CPU used by guest", asDecimal, "percent", false, false},
	{"cpu.current.hypervisor", "CPU overhead", asDecimal, "percent", false, false},
	{"cpu.current.total", "Total CPU used", asDecimal, "percent", false, false},
	{"migration.progress", "Migration Progress", asDecimal, "percent", false, false},
	{"memory.buffered", "Memory buffered (agent)", asInteger, "bytes", false, false},
	{"memory.cached", "Memory cached (agent)", asInteger, "bytes", false, false},
	{"memory.free", "Memory free (agent)", asInteger, "bytes", false, false},
	{"memory.unused", "Memory unused (agent)", asInteger, "bytes", false, false},
	{"network.current.total", "Total network used", asDecimal, "percent", false, false},
	{"disks.usage", "Disk usage, in bytes, per filesystem as JSON (agent)", "string", "none", false, true},
	{"elapsed.time", "Elapsed VM runtime", asInteger, "seconds", true, false},
	{"cpu.usage.history", "List of CPU usage history, sorted by date from newest to oldest, at intervals of 30 seconds", asDecimal, "percent", false, true},
	{"memory.usage.history", "List of memory usage history, sorted by date from newest to oldest, at intervals of 30 seconds", asDecimal, "percent", false, true},
	{"network.usage.history", "List of network usage history, sorted by date from newest to oldest, at intervals of 30 seconds", asDecimal, "percent", false, true},
}

var nicStatisticNames = []statisticName{
	{"data.current.rx", "Receive data rate", asDecimal, "bytes_per_second", false, false},
	{"data.current.tx", "Transmit data rate", asDecimal, "bytes_per_second", false, false},
	{"data.current.rx.bps", "Receive data rate", asDecimal, "bits_per_second", false, false},
	{"data.current.tx.bps", "Transmit data rate", asDecimal, "bits_per_second", false, false},
	{"errors.total.rx", "Total receive errors", asInteger, "none", true, true},
	{"errors.total.tx", "Total transmit errors", asInteger, "none", true, true},
	{"data.total.rx", "Total received data", asInteger, "bytes", true, true},
	{"data.total.tx", "Total transmitted data", asInteger, "bytes", true, true},
}

var diskStatisticNames = []statisticName{
	{"data.current.read", "Read data rate", asDecimal, "bytes_per_second", false, false},
	{"data.current.read_ops", "Read data ops", asDecimal, "none", true, false},
	{"data.current.write", "Write data rate", asDecimal, "bytes_per_second", false, false},
	{"data.current.write_ops", "Write data ops", asDecimal, "none", true, false},
	{"disk.read.latency", "Read latency", asDecimal, "seconds", false, false},
	{"disk.write.latency", "Write latency", asDecimal, "seconds", false, false},
	{"disk.flush.latency", "Flush latency", asDecimal, "seconds", false, false},
}

func diskStatistics(c *call) (*element, error) {
	d, err := c.disk()
	if err != nil {
		return nil, err
	}
	return c.statistics(diskStatisticNames, ref("disk", "disks", d.ID), nil), nil
}

func hostStatistics(c *call) (*element, error) {
	h := c.store.hosts.get(c.id("host"))
	if h == nil {
		return nil, entityNotFound(c.id("host"))
	}
	owner := ref("host", "hosts", h.ID)
	used := h.Memory - hostDocument(c, h).number("max_scheduling_memory")
	share := 100 * used / max(h.Memory, 1)
	values := map[string]int64{"memory.total": h.Memory, "memory.used": used, "memory.free": h.Memory - used, "cpu.current.user": share, "cpu.current.idle": 100 - share}
	return c.statistics(hostStatisticNames, owner, values), nil
}

// listHostNICs has one interface, with the management network, and one without any.
func listHostNICs(c *call) (*element, error) {
	h, err := one(c.store.hosts, c.id("host"))
	if err != nil {
		return nil, err
	}
	first := c.hostNIC(h, "eth0").str("boot_protocol", "static").flag("bridged", true).flag("custom_configuration", false).add(c.hostIP(h)).
		str("ipv6_boot_protocol", "none")
	second := c.hostNIC(h, "eth1").str("boot_protocol", "none").flag("bridged", false).str("ipv6_boot_protocol", "none")
	for i, nic := range []*element{first, second} {
		nic.add(el("mac").str("address", fmt.Sprintf("52:54:00:00:%02x:%02x", c.store.hostNumber(h), i))).num("mtu", 1500)
		if i == 0 {
			nic.add(el("properties"))
		}
		nic.num("speed", 10_000_000_000).str("status", "up").add(ref("host", "hosts", h.ID))
	}
	first.add(ref("network", "networks", c.managementNetwork(h)))
	return el("host_nics").items(first, second), nil
}

func (c *call) hostNICID(h *host, name string) string { return c.store.idOf("", "hostnic", h.ID, name) }

func (c *call) hostNIC(h *host, name string) *element {
	id := c.hostNICID(h, name)
	return object("host_nic", id, "hosts", h.ID, "nics", id).str("name", name)
}

func (c *call) hostIP(h *host) *element {
	return el("ip").str("address", c.store.hostAddress(h)).str("gateway", "192.0.2.254").str("netmask", "255.255.255.0").str("version", "v4")
}

// hostNumber counts hosts from 1, by name.
func (s *store) hostNumber(h *host) int {
	all := s.hosts.where(nil, func(h *host) string { return h.Name + h.ID })
	return 1 + slices.Index(all, h)
}

// hostAddress is an address of the range for documentation: the simulator has no network for hosts.
func (s *store) hostAddress(h *host) string { return fmt.Sprintf("192.0.2.%d", s.hostNumber(h)%250) }

// managementNetwork is the ID of the first network of the host's data center.
func (c *call) managementNetwork(h *host) string {
	center := c.store.dataCenterOf(h.Cluster)
	all := c.store.networks.where(func(n *network) bool { return n.DataCenter == center }, func(n *network) string { return n.Name + n.ID })
	at := slices.IndexFunc(all, func(n *network) bool { return n.Name == "ovirtmgmt" })
	switch {
	case len(all) == 0:
		return ""
	case at < 0:
		return all[0].ID
	default:
		return all[at].ID
	}
}

// listNetworkAttachments has the management network, on the first interface.
func listNetworkAttachments(c *call) (*element, error) {
	h, err := one(c.store.hosts, c.id("host"))
	if err != nil {
		return nil, err
	}
	reported := el("reported_configurations")
	for _, setting := range [][2]string{
		{"mtu", "1500"}, {"bridged", "true"}, {"vlan", ""}, {"switchType", "LEGACY"}, {"ipv4_boot_protocol", "STATIC_IP"}, {"ipv4_netmask", "255.255.255.0"},
		{"ipv4_address", c.store.hostAddress(h)}, {"ipv4_gateway", "192.0.2.254"}, {"ipv6_boot_protocol", "NONE"}, {"default_route", "true"},
	} {
		reported.items(el("reported_configuration").opt("actual_value", setting[1]).opt("expected_value", setting[1]).flag("in_sync", true).str("name", setting[0]))
	}
	assignments := el("ip_address_assignments").items(
		el("ip_address_assignment").str("assignment_method", "static").add(c.hostIP(h)),
		el("ip_address_assignment").str("assignment_method", "none").add(el("ip").str("version", "v6")),
	)
	network := c.managementNetwork(h)
	id := c.store.idOf("", "networkattachment", h.ID, network)
	out := object("network_attachment", id, "hosts", h.ID, "networkattachments", id).flag("in_sync", true).add(assignments, reported, ref("host", "hosts", h.ID))
	nic := c.hostNICID(h, "eth0")
	out.add(el("host_nic").set("href", href("hosts", h.ID, "nics", nic)).set("id", nic), ref("network", "networks", network))
	return el("network_attachments").items(out), nil
}
