package ovirtsim

import (
	"net/http"
	"slices"
)

// This file has the devices of hosts that VMs may have, mediated devices, and NUMA nodes. Hosts have none of them here. That an
// engine refuses was seen, and with which status; the words of its refusals were not recorded.

func vmNode(v *vm, n numaNode) *element {
	out := object("vm_numa_node", n.ID, "vms", v.ID, "numanodes", n.ID).num("index", n.Index).num("memory", n.Memory)
	cores := el("cores")
	for _, core := range n.Cores {
		cores.items(el("core").num("index", core))
	}
	return out.add(el("cpu").add(cores), ref("vm", "vms", v.ID))
}

func listNUMANodes(c *call) (*element, error) {
	out := el("vm_numa_nodes")
	if v := c.store.vms.get(c.id("vm")); v != nil {
		for _, n := range v.NUMANodes {
			out.items(vmNode(v, n))
		}
	}
	return out, nil
}

// node is a NUMA node of a VM, and its place among them.
func (c *call) node() (*vm, int, error) {
	v, err := c.vm()
	if err != nil {
		return nil, 0, err
	}
	at := slices.IndexFunc(v.NUMANodes, func(n numaNode) bool { return n.ID == c.id("id") })
	if at < 0 {
		return nil, 0, gone()
	}
	return v, at, nil
}

func getNUMANode(c *call) (*element, error) {
	v, at, err := c.node()
	if err != nil {
		return nil, err
	}
	return vmNode(v, v.NUMANodes[at]), nil
}

// changeNode applies a request to a NUMA node. A VM that is pinned to a host needs nodes of that host, which has none.
func (c *call) changeNode(v *vm, n *numaNode) error {
	in := c.body
	if in.has("index") {
		n.Index = in.number("index")
	}
	if in.has("memory") {
		n.Memory = in.number("memory")
	}
	if in.has("cpu", "cores") {
		n.Cores = nil
		for _, core := range in.list("cpu", "cores", "core") {
			n.Cores = append(n.Cores, core.number("index"))
		}
	}
	if len(v.PlacementHosts) > 0 || in.has("numa_node_pins") {
		return invalid("Cannot edit NUMA node. The host does not have NUMA nodes.")
	}
	for _, other := range v.NUMANodes {
		if other.ID != n.ID && other.Index == n.Index {
			return invalid("Cannot edit NUMA node. The index %d is in use.", n.Index)
		}
	}
	return nil
}

func addNUMANode(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	made := numaNode{ID: newID()}
	if err := c.changeNode(v, &made); err != nil {
		return nil, err
	}
	v.NUMANodes = append(slices.Clone(v.NUMANodes), made)
	c.store.vms.put(v.ID, v)
	return c.created(vmNode(v, made)), nil
}

func updateNUMANode(c *call) (*element, error) {
	v, at, err := c.node()
	if err != nil {
		return nil, err
	}
	next := v.NUMANodes[at]
	if err := c.changeNode(v, &next); err != nil {
		return nil, err
	}
	v.NUMANodes = slices.Clone(v.NUMANodes)
	v.NUMANodes[at] = next
	c.store.vms.put(v.ID, v)
	return vmNode(v, next), nil
}

func removeNUMANode(c *call) (*element, error) {
	v, at, err := c.node()
	if err != nil {
		return nil, err
	}
	v.NUMANodes = slices.Delete(slices.Clone(v.NUMANodes), at, at+1)
	c.store.vms.put(v.ID, v)
	return c.complete(), nil
}

// addHostDevice always refuses: a VM must be pinned to a host, and the hosts here have no devices.
func addHostDevice(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	switch {
	case refID(c.body) != "":
		return nil, brokenPage()
	case c.body.value("name") == "":
		return nil, incomplete("HostDevice", "id|name")
	case len(v.PlacementHosts) == 0:
		return nil, conflict("Cannot add Host Devices. The VM is not pinned to a host.")
	default:
		return nil, invalid("Cannot add Host Devices. The host does not have the device.")
	}
}

func mediatedDocument(v *vm, d mediatedDevice) *element {
	parameters := el("spec_params")
	for _, p := range d.Parameters {
		parameters.items(el("property").str("name", p.Name).str("value", p.Value))
	}
	return object("vm_mediated_device", d.ID, "vms", v.ID, "mediateddevices", d.ID).add(parameters, ref("vm", "vms", v.ID))
}

func listMediatedDevices(c *call) (*element, error) {
	out := el("vm_mediated_devices")
	if v := c.store.vms.get(c.id("vm")); v != nil {
		for _, d := range v.MediatedDevices {
			out.items(mediatedDocument(v, d))
		}
	}
	return out, nil
}

func addMediatedDevice(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	made := mediatedDevice{ID: newID()}
	for _, p := range c.body.list("spec_params", "property") {
		made.Parameters = append(made.Parameters, property{p.value("name"), p.value("value")})
	}
	if !slices.ContainsFunc(made.Parameters, func(p property) bool { return p.Name == "mdevType" }) {
		return nil, invalid("Cannot add mediated device. Its type is missing.")
	}
	v.MediatedDevices = append(slices.Clone(v.MediatedDevices), made)
	c.store.vms.put(v.ID, v)
	return c.created(mediatedDocument(v, made)), nil
}

// updateMediatedDevice is refused as if it were a matter of rights.
func updateMediatedDevice(*call) (*element, error) {
	return nil, failed(http.StatusForbidden, "User is not authorized to perform this action.")
}

func removeMediatedDevice(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(v.MediatedDevices, func(d mediatedDevice) bool { return d.ID == c.id("id") })
	if at < 0 {
		return nil, gone()
	}
	v.MediatedDevices = slices.Delete(slices.Clone(v.MediatedDevices), at, at+1)
	c.store.vms.put(v.ID, v)
	return c.complete(), nil
}
