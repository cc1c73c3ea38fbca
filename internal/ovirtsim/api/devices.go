package api

import (
	"encoding/hex"
	"net/http"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains host devices for VMs, mediated devices, and NUMA nodes. Simulated hosts have no NUMA nodes. The
// recordings confirm the statuses of the engine's refusals. They confirm neither the texts of the refusals nor a host
// with devices. The devices' form comes from the API's model.

var deviceRoutes = []route{
	{"GET", "/vms/{vm}/hostdevices", listVMHostDevices},
	{"POST", "/vms/{vm}/hostdevices", addHostDevice},
	{"GET", "/vms/{vm}/hostdevices/{id}", readItem(listVMHostDevices)},
	{"DELETE", "/vms/{vm}/hostdevices/{id}", removeHostDevice},
	{"GET", "/vms/{vm}/mediateddevices", listMediatedDevices},
	{"POST", "/vms/{vm}/mediateddevices", addMediatedDevice},
	{"GET", "/vms/{vm}/mediateddevices/{id}", readItem(listMediatedDevices)},
	{"PUT", "/vms/{vm}/mediateddevices/{id}", updateMediatedDevice},
	{"DELETE", "/vms/{vm}/mediateddevices/{id}", removeMediatedDevice},
	{"GET", "/vms/{vm}/numanodes", listNUMANodes},
	{"POST", "/vms/{vm}/numanodes", addNUMANode},
	{"GET", "/vms/{vm}/numanodes/{id}", getNUMANode},
	{"PUT", "/vms/{vm}/numanodes/{id}", updateNUMANode},
	{"DELETE", "/vms/{vm}/numanodes/{id}", removeNUMANode},
}

func vmNode(v *store.VM, n store.NUMANode) *wire.Element {
	out := wire.NewObject("vm_numa_node", n.ID, "vms", v.ID, "numanodes", n.ID).Num("index", n.Index).
		Num("memory", n.Memory)

	cores := wire.El("cores")
	for _, core := range n.Cores {
		cores.AddItems(wire.El("core").Num("index", core))
	}

	return out.Add(wire.El("cpu").Add(cores), wire.Ref("vm", "vms", v.ID))
}

func listNUMANodes(c *call) (*wire.Element, error) {
	out := wire.El("vm_numa_nodes")
	if v := c.store.VMs.Get(c.pathID("vm")); v != nil {
		for _, n := range v.NUMANodes {
			out.AddItems(vmNode(v, n))
		}
	}

	return out, nil
}

// findNUMANode returns the NUMA node in the path, with its VM and its index.
func (c *call) findNUMANode() (*store.VM, int, error) {
	v, err := c.findVM()
	if err != nil {
		return nil, 0, err
	}

	at := slices.IndexFunc(v.NUMANodes, func(n store.NUMANode) bool { return n.ID == c.pathID("id") })
	if at < 0 {
		return nil, 0, wire.NotFound()
	}

	return v, at, nil
}

func getNUMANode(c *call) (*wire.Element, error) {
	v, at, err := c.findNUMANode()
	if err != nil {
		return nil, err
	}

	return vmNode(v, v.NUMANodes[at]), nil
}

// changeNode applies a request to a NUMA node. A VM pinned to a host needs NUMA nodes of the host, but simulated hosts
// have none.
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
	v, err := c.findVM()
	if err != nil {
		return nil, err
	}

	made := store.NUMANode{ID: store.NewID()}
	if err := c.changeNode(v, &made); err != nil {
		return nil, err
	}

	v.NUMANodes = append(slices.Clone(v.NUMANodes), made)
	c.store.VMs.Put(v.ID, v)

	return c.answerCreated(vmNode(v, made)), nil
}

func updateNUMANode(c *call) (*wire.Element, error) {
	v, at, err := c.findNUMANode()
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
	v, at, err := c.findNUMANode()
	if err != nil {
		return nil, err
	}

	v.NUMANodes = slices.Delete(slices.Clone(v.NUMANodes), at, at+1)
	c.store.VMs.Put(v.ID, v)

	return c.answerComplete(), nil
}

// hostDeviceID returns the ID of a device: its name in hexadecimal form.
func hostDeviceID(name string) string { return hex.EncodeToString([]byte(name)) }

func hostDeviceDocument(name, hostID, path, ownerID, collection string) *wire.Element {
	id := hostDeviceID(name)

	return wire.NewObject("host_device", id, path, ownerID, collection, id).Str("name", name).
		Str("capability", "pci").Add(wire.Ref("host", "hosts", hostID))
}

func listHostDevices(c *call) (*wire.Element, error) {
	h, err := c.findHost()
	if err != nil {
		return nil, err
	}

	out := wire.El("host_devices")
	for _, name := range h.Devices {
		out.AddItems(hostDeviceDocument(name, h.ID, "hosts", h.ID, "devices"))
	}

	return out, nil
}

func vmHostDevice(v *store.VM, name string) *wire.Element {
	return hostDeviceDocument(name, v.PlacementHosts[0], "vms", v.ID, "hostdevices").Add(wire.Ref("vm", "vms", v.ID))
}

func listVMHostDevices(c *call) (*wire.Element, error) {
	out := wire.El("host_devices")
	if v := c.store.VMs.Get(c.pathID("vm")); v != nil && len(v.PlacementHosts) > 0 {
		for _, name := range v.HostDevices {
			out.AddItems(vmHostDevice(v, name))
		}
	}

	return out, nil
}

// addHostDevice adds a device to a VM, from the host to which the VM is pinned. The order and texts of its refusals are
// from the engine's sources. Only the failure of a request with an ID instead of a name is recorded.
func addHostDevice(c *call) (*wire.Element, error) {
	if err := requireRef(c.body, "device"); err != nil {
		return nil, err
	}

	name := c.body.Value("name")
	if id := wire.RefID(c.body); id != "" {
		decoded, err := hex.DecodeString(id)
		if err != nil {
			return nil, wire.BrokenPage()
		}

		name = string(decoded)
	}

	v := c.store.VMs.Get(c.pathID("vm"))
	if v == nil {
		return nil, wire.Invalid("Cannot add Host devices. VM is not found.")
	}

	const command = "add Host devices"
	if v.Status != store.StatusDown {
		return nil, inStatus(v, command)
	}

	switch len(v.PlacementHosts) {
	case 0:
		return nil, wire.Conflict("Cannot %s. VM must be pinned to a host.", command)
	case 1:
	default:
		return nil, wire.Conflict("Cannot %s. VM must be pinned to a single host.", command)
	}

	if h := c.store.Hosts.Get(v.PlacementHosts[0]); h == nil || !slices.Contains(h.Devices, name) {
		return nil, wire.Invalid("Cannot %s. One or more of specified host devices not found.", command)
	}

	if !slices.Contains(v.HostDevices, name) {
		v.HostDevices = append(slices.Clone(v.HostDevices), name)
		c.store.VMs.Put(v.ID, v)
	}

	return c.answerCreated(vmHostDevice(v, name)), nil
}

func removeHostDevice(c *call) (*wire.Element, error) {
	v, err := c.findVM()
	if err != nil {
		return nil, err
	}

	at := slices.IndexFunc(v.HostDevices, func(name string) bool { return hostDeviceID(name) == c.pathID("id") })
	if at < 0 {
		return nil, wire.NotFound()
	}

	v.HostDevices = slices.Delete(slices.Clone(v.HostDevices), at, at+1)
	c.store.VMs.Put(v.ID, v)

	return c.answerComplete(), nil
}

func mediatedDocument(v *store.VM, d store.MediatedDevice) *wire.Element {
	parameters := wire.El("spec_params")
	for _, p := range d.Parameters {
		parameters.AddItems(wire.El("property").Str("name", p.Name).Str("value", p.Value))
	}

	return wire.NewObject("vm_mediated_device", d.ID, "vms", v.ID, "mediateddevices", d.ID).
		Add(parameters, wire.Ref("vm", "vms", v.ID))
}

func listMediatedDevices(c *call) (*wire.Element, error) {
	out := wire.El("vm_mediated_devices")
	if v := c.store.VMs.Get(c.pathID("vm")); v != nil {
		for _, d := range v.MediatedDevices {
			out.AddItems(mediatedDocument(v, d))
		}
	}

	return out, nil
}

// addMediatedDevice adds a mediated device. The texts of its refusals are from the engine's sources. In these texts,
// the command has no words for its action and its object.
func addMediatedDevice(c *call) (*wire.Element, error) {
	v := c.store.VMs.Get(c.pathID("vm"))
	if v == nil {
		return nil, wire.Invalid("Cannot ${action} ${type}. VM is not found.")
	}

	made := store.MediatedDevice{ID: store.NewID()}
	for _, p := range c.body.List("spec_params", "property") {
		made.Parameters = append(made.Parameters, store.Property{Name: p.Value("name"), Value: p.Value("value")})
	}

	if !slices.ContainsFunc(made.Parameters, func(p store.Property) bool { return p.Name == "mdevType" }) {
		return nil, wire.Invalid("Cannot ${action} ${type}. Mediated device ID or VM/Template ID or a parameter " +
			"value is " +
			"null.")
	}

	v.MediatedDevices = append(slices.Clone(v.MediatedDevices), made)
	c.store.VMs.Put(v.ID, v)

	return c.answerCreated(mediatedDocument(v, made)), nil
}

// updateMediatedDevice rejects every request with an authorization error.
func updateMediatedDevice(*call) (*wire.Element, error) {
	return nil, wire.PlainFault(http.StatusForbidden, "User is not authorized to perform this action.")
}

func removeMediatedDevice(c *call) (*wire.Element, error) {
	v, err := c.findVM()
	if err != nil {
		return nil, err
	}

	at := slices.IndexFunc(v.MediatedDevices, func(d store.MediatedDevice) bool { return d.ID == c.pathID("id") })
	if at < 0 {
		return nil, wire.NotFound()
	}

	v.MediatedDevices = slices.Delete(slices.Clone(v.MediatedDevices), at, at+1)
	c.store.VMs.Put(v.ID, v)

	return c.answerComplete(), nil
}
