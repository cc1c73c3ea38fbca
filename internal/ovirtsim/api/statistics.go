package api

import (
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains the statistics of hosts, VMs, network interfaces and disks.

// statisticName is one value in a collection of statistics.
type statisticName struct {
	name, description, kind, unit string
	// counter reports that the value only grows; silent reports that it has no value.
	counter, silent bool
}

// document returns a statistic of its owner with a value.
func (n statisticName) document(c *call, owner *wire.Element, value int64) *wire.Element {
	id := c.store.IDOf("", "statistic", owner.Attr("id"), n.name)
	base := owner.Attr("href")
	out := wire.El("statistic").SetAttr("href", base+"/statistics/"+id).SetAttr("id", id).Str("name", n.name).
		Str("description", n.description).
		Str("kind", map[bool]string{true: "counter", false: "gauge"}[n.counter]).Str("type", n.kind).Str("unit", n.unit)
	values := wire.El("values")
	if !n.silent {
		values.AddItems(wire.El("value").Num("datum", value))
	}

	return out.Add(values, owner.Clone())
}

// statisticsElement returns a list of statistics. Unknown values are 0.
func (c *call) statisticsElement(names []statisticName, owner *wire.Element, values map[string]int64) *wire.Element {
	out := wire.El("statistics")
	for _, one := range names {
		out.AddItems(one.document(c, owner, values[one.name]))
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
	{
		"memory.shared",
		"The amount of memory, in bytes, shared among Virtual-Machines on this Host by Kernel Same-page Merging (KSM)",
		asInteger,
		"bytes",
		false,
		false,
	},
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
	{
		"cpu.usage.history",
		"List of CPU usage history, sorted by date from newest to oldest, at intervals of 30 seconds",
		asDecimal,
		"percent",
		false,
		true,
	},
	{
		"memory.usage.history",
		"List of memory usage history, sorted by date from newest to oldest, at intervals of 30 seconds",
		asDecimal,
		"percent",
		false,
		true,
	},
	{
		"network.usage.history",
		"List of network usage history, sorted by date from newest to oldest, at intervals of 30 seconds",
		asDecimal,
		"percent",
		false,
		true,
	},
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

func diskStatistics(c *call) (*wire.Element, error) {
	d, err := c.findDisk()
	if err != nil {
		return nil, err
	}

	return c.statisticsElement(diskStatisticNames, wire.Ref("disk", "disks", d.ID), nil), nil
}

func hostStatistics(c *call) (*wire.Element, error) {
	h := c.store.Hosts.Get(c.pathID("host"))
	if h == nil {
		return nil, wire.EntityNotFound(c.pathID("host"))
	}

	owner := wire.Ref("host", "hosts", h.ID)
	used := h.Memory - hostDocument(c, h).Number("max_scheduling_memory")
	share := 100 * used / max(h.Memory, 1)
	values := map[string]int64{
		"memory.total":     h.Memory,
		"memory.used":      used,
		"memory.free":      h.Memory - used,
		"cpu.current.user": share,
		"cpu.current.idle": 100 - share,
	}

	return c.statisticsElement(hostStatisticNames, owner, values), nil
}

func vmStatistics(c *call) (*wire.Element, error) {
	v := c.store.VMs.Get(c.pathID("vm"))
	if v == nil {
		return nil, wire.EntityNotFound(c.pathID("vm"))
	}

	values := map[string]int64{"memory.installed": v.Memory}
	if v.Status == store.StatusUp {
		values["memory.used"] = v.Memory / 2
	}

	if v.Host != "" {
		values["elapsed.time"] = int64(c.now().Sub(v.Started).Seconds())
	}

	return c.statisticsElement(vmStatisticNames, wire.Ref("vm", "vms", v.ID), values), nil
}
