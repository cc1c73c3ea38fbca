package api

import (
	"net/http"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file has the devices of hosts that VMs may have, mediated devices, and NUMA nodes. Hosts have none of them here.
// That an engine refuses was seen, and with which status; the words of its refusals were not recorded.

var deviceRoutes = []route{
	{"POST", "/vms/{vm}/hostdevices", addHostDevice},
	{"GET", "/vms/{vm}/mediateddevices", listMediatedDevices},
	{"POST", "/vms/{vm}/mediateddevices", addMediatedDevice},
	{"GET", "/vms/{vm}/mediateddevices/{id}", itemOf(listMediatedDevices)},
	{"PUT", "/vms/{vm}/mediateddevices/{id}", updateMediatedDevice},
	{"DELETE", "/vms/{vm}/mediateddevices/{id}", removeMediatedDevice},
	{"GET", "/vms/{vm}/numanodes", listNUMANodes},
	{"POST", "/vms/{vm}/numanodes", addNUMANode},
	{"GET", "/vms/{vm}/numanodes/{id}", getNUMANode},
	{"PUT", "/vms/{vm}/numanodes/{id}", updateNUMANode},
	{"DELETE", "/vms/{vm}/numanodes/{id}", removeNUMANode},
}

func vmNode(v *store.VM, n store.NUMANode) *wire.Element {
	out := wire.Object("vm_numa_node", n.ID, "vms", v.ID, "numanodes", n.ID).Num("index", n.Index).
		Num("memory", n.Memory)

	cores := wire.El("cores")
	for _, core := range n.Cores {
		cores.Items(wire.El("core").Num("index", core))
	}

	return out.Add(wire.El("cpu").Add(cores), wire.Ref("vm", "vms", v.ID))
}

func listNUMANodes(c *call) (*wire.Element, error) {
	out := wire.El("vm_numa_nodes")
	if v := c.store.VMs.Get(c.id("vm")); v != nil {
		for _, n := range v.NUMANodes {
			out.Items(vmNode(v, n))
		}
	}

	return out, nil
}

// node is a NUMA node of a VM, and its place among them.
func (c *call) node() (*store.VM, int, error) {
	v, err := c.vm()
	if err != nil {
		return nil, 0, err
	}

	at := slices.IndexFunc(v.NUMANodes, func(n store.NUMANode) bool { return n.ID == c.id("id") })
	if at < 0 {
		return nil, 0, wire.Gone()
	}

	return v, at, nil
}

func getNUMANode(c *call) (*wire.Element, error) {
	v, at, err := c.node()
	if err != nil {
		return nil, err
	}

	return vmNode(v, v.NUMANodes[at]), nil
}

// changeNode applies a request to a NUMA node. A VM that is pinned to a host needs nodes of that host, which has none.
func (c *call) changeNode(v *store.VM, n *store.NUMANode) error {
	in := c.body
	if in.Has("index") {
		n.Index = in.Number("index")
	}

	if in.Has("memory") {
		n.Memory = in.Number("memory")
	}

	if in.Has("cpu", "cores") {
		n.Cores = nil
		for _, core := range in.List("cpu", "cores", "core") {
			n.Cores = append(n.Cores, core.Number("index"))
		}
	}

	if len(v.PlacementHosts) > 0 || in.Has("numa_node_pins") {
		return wire.Invalid("Cannot edit NUMA node. The host does not have NUMA nodes.")
	}

	for _, other := range v.NUMANodes {
		if other.ID != n.ID && other.Index == n.Index {
			return wire.Invalid("Cannot edit NUMA node. The index %d is in use.", n.Index)
		}
	}

	return nil
}

func addNUMANode(c *call) (*wire.Element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}

	made := store.NUMANode{ID: store.NewID()}
	if err := c.changeNode(v, &made); err != nil {
		return nil, err
	}

	v.NUMANodes = append(slices.Clone(v.NUMANodes), made)
	c.store.VMs.Put(v.ID, v)

	return c.created(vmNode(v, made)), nil
}

func updateNUMANode(c *call) (*wire.Element, error) {
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
	c.store.VMs.Put(v.ID, v)

	return vmNode(v, next), nil
}

func removeNUMANode(c *call) (*wire.Element, error) {
	v, at, err := c.node()
	if err != nil {
		return nil, err
	}

	v.NUMANodes = slices.Delete(slices.Clone(v.NUMANodes), at, at+1)
	c.store.VMs.Put(v.ID, v)

	return c.complete(), nil
}

// addHostDevice always refuses: a VM must be pinned to a host, and the hosts here have no devices.
func addHostDevice(c *call) (*wire.Element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}

	switch {
	case wire.RefID(c.body) != "":
		return nil, wire.BrokenPage()
	case c.body.Value("name") == "":
		return nil, incomplete("HostDevice", "id|name")
	case len(v.PlacementHosts) == 0:
		return nil, wire.Conflict("Cannot add Host Devices. The VM is not pinned to a host.")
	default:
		return nil, wire.Invalid("Cannot add Host Devices. The host does not have the device.")
	}
}

func mediatedDocument(v *store.VM, d store.MediatedDevice) *wire.Element {
	parameters := wire.El("spec_params")
	for _, p := range d.Parameters {
		parameters.Items(wire.El("property").Str("name", p.Name).Str("value", p.Value))
	}

	return wire.Object("vm_mediated_device", d.ID, "vms", v.ID, "mediateddevices", d.ID).
		Add(parameters, wire.Ref("vm", "vms", v.ID))
}

func listMediatedDevices(c *call) (*wire.Element, error) {
	out := wire.El("vm_mediated_devices")
	if v := c.store.VMs.Get(c.id("vm")); v != nil {
		for _, d := range v.MediatedDevices {
			out.Items(mediatedDocument(v, d))
		}
	}

	return out, nil
}

func addMediatedDevice(c *call) (*wire.Element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}

	made := store.MediatedDevice{ID: store.NewID()}
	for _, p := range c.body.List("spec_params", "property") {
		made.Parameters = append(made.Parameters, store.Property{Name: p.Value("name"), Value: p.Value("value")})
	}

	if !slices.ContainsFunc(made.Parameters, func(p store.Property) bool { return p.Name == "mdevType" }) {
		return nil, wire.Invalid("Cannot add mediated device. Its type is missing.")
	}

	v.MediatedDevices = append(slices.Clone(v.MediatedDevices), made)
	c.store.VMs.Put(v.ID, v)

	return c.created(mediatedDocument(v, made)), nil
}

// updateMediatedDevice is refused as if it were a matter of rights.
func updateMediatedDevice(*call) (*wire.Element, error) {
	return nil, wire.Failed(http.StatusForbidden, "User is not authorized to perform this action.")
}

func removeMediatedDevice(c *call) (*wire.Element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}

	at := slices.IndexFunc(v.MediatedDevices, func(d store.MediatedDevice) bool { return d.ID == c.id("id") })
	if at < 0 {
		return nil, wire.Gone()
	}

	v.MediatedDevices = slices.Delete(slices.Clone(v.MediatedDevices), at, at+1)
	c.store.VMs.Put(v.ID, v)

	return c.complete(), nil
}
