package api

import (
	"cmp"
	"net"
	"net/netip"
	"regexp"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains the network interfaces of VMs and templates, and their reports from the guest agent.

var nicRoutes = []route{
	{"GET", "/vms/{vm}/nics", listNICs},
	{"POST", "/vms/{vm}/nics", addNIC},
	{"GET", "/vms/{vm}/nics/{id}", getNIC},
	{"PUT", "/vms/{vm}/nics/{id}", updateNIC},
	{"DELETE", "/vms/{vm}/nics/{id}", removeNIC},
	{"POST", "/vms/{vm}/nics/{id}/activate", activateNIC},
	{"POST", "/vms/{vm}/nics/{id}/deactivate", deactivateNIC},
	{"GET", "/vms/{vm}/nics/{id}/reporteddevices", listNICReportedDevices},
	{"GET", "/vms/{vm}/nics/{id}/statistics", nicStatistics},
	{"GET", "/vms/{vm}/reporteddevices", listReportedDevices},
	{"GET", "/vms/{vm}/reporteddevices/{id}", readItem(listReportedDevices)},
}

// nicDocument shows an interface. Only lists include the reference to the interface's owner.
func nicDocument(_ *call, n *store.NIC, owner string) *wire.Element {
	collection := owner + "s"
	out := wire.NewObject("nic", n.ID, collection, n.Owner, "nics", n.ID).Str("name", n.Name).
		Str("interface", n.Interface).
		Flag("linked", !n.Unlinked).Flag("plugged", !n.Unplugged).Flag("synced", true)
	if n.MAC != "" {
		out.Add(wire.El("mac").Str("address", n.MAC))
	}

	return out.Add(wire.Ref("vnic_profile", "vnicprofiles", n.Profile), wire.Ref(owner, collection, n.Owner))
}

func nicsOf(c *call, ownerID, owner string) *wire.Element {
	out := wire.El("nics")
	for _, n := range c.store.NICsOf(ownerID) {
		out.AddItems(nicDocument(c, n, owner))
	}

	return out
}

func listNICs(c *call) (*wire.Element, error) { return nicsOf(c, c.pathID("vm"), "vm"), nil }

func (c *call) findNIC() (*store.VM, *store.NIC, error) {
	n := c.store.NICs.Get(c.pathID("id"))
	if n == nil || n.Owner != c.pathID("vm") {
		return nil, nil, wire.NotFound()
	}

	return c.store.VMs.Get(n.Owner), n, nil
}

func getNIC(c *call) (*wire.Element, error) {
	_, n, err := c.findNIC()
	if err != nil {
		return nil, err
	}

	return nicDocument(c, n, "vm"), nil
}

// maxNICName is the maximum number of characters in an interface's name.
const maxNICName = 50

var (
	nicName    = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	macPattern = regexp.MustCompile(`^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$`)
)

// takesNICs are the VM statuses in which network interfaces can be added and changed. The text of the refusal is from
// the engine's sources.
var takesNICs = []string{store.StatusUp, store.StatusDown, store.StatusImageLocked}

// changeNIC applies a request to a network interface. On an error, the interface stays unchanged. Refusals are in the
// order of the engine's AddVmInterfaceCommand and UpdateVmInterfaceCommand.
func (c *call) changeNIC(v *store.VM, n *store.NIC, verb string) error {
	in, next := c.body, *n

	next.Name = textOr(in, "name", n.Name)
	if err := checkNICName(next.Name); err != nil {
		return err
	}

	if err := c.changeMAC(&next); err != nil {
		return err
	}

	if !slices.Contains(takesNICs, v.Status) {
		return wire.Conflict("Cannot %s a Network Interface when VM is not Down, Up or Image-Locked.", verb)
	}

	for _, other := range c.store.NICsOf(v.ID) {
		if other.ID != n.ID && other.Name == next.Name {
			return wire.Conflict("Network interface name is already in use")
		}
	}

	next.Interface = cmp.Or(in.Value("interface"), n.Interface)
	if err := checkHotUpdate(v, n, &next); err != nil {
		return err
	}

	if err := c.checkType(v, &next, verb); err != nil {
		return err
	}

	if err := c.addressFree(&next); err != nil {
		return err
	}

	if in.Has("linked") {
		next.Unlinked = !in.IsTrue("linked")
	}

	if in.Has("plugged") {
		next.Unplugged = !in.IsTrue("plugged")
	}

	if n.MAC != next.MAC {
		c.store.ReleaseLeases(n.MAC)
	}

	*n = next

	return nil
}

// checkType rejects an interface type if the guest does not know it or the effective vNIC profile does not support it.
func (c *call) checkType(v *store.VM, next *store.NIC, verb string) error {
	switch next.Interface {
	case "rtl8139_virtio", "spapr_vlan":
		return wire.Invalid(
			"Cannot %s Interface. The network interface type is not compatible with the selected operating system.",
			verb,
		)
	}

	if err := c.plugInto(v, next, verb); err != nil {
		return err
	}

	if next.Interface == "pci_passthrough" {
		return wire.Conflict("Cannot %s Interface. The network interface type doesn't match the profile. "+
			"Virtual machine interface of type 'PCI Passthrough' should have "+
			"'Passthrough' profile and vice versa.", verb)
	}

	return nil
}

// checkNICName rejects invalid names of network interfaces.
func checkNICName(name string) error {
	switch {
	case len(name) > maxNICName || name == "":
		return wire.Invalid("size must be between 1 and %d, Attribute: nic.name", maxNICName)
	case !nicName.MatchString(name):
		return wire.Invalid(
			"%s",
			`Name must be formed of alphanumeric characters, numbers or "-_."., Attribute: nic.name`,
		)
	}

	return nil
}

// plugInto applies the vNIC profile of a request to a network interface.
func (c *call) plugInto(v *store.VM, next *store.NIC, verb string) error {
	p := c.body.Get("vnic_profile")
	if p == nil {
		return nil
	}

	if err := checkRef(p); err != nil {
		return err
	}

	next.Profile = wire.RefID(p)
	profile := c.store.VNICProfiles.Get(next.Profile)

	switch {
	case next.Profile != "" && profile == nil:
		return wire.Invalid("Cannot %s Interface. The specified VM network interface profile doesn't exist.", verb)
	case profile != nil && c.store.Networks.Get(profile.Network).DataCenter != c.store.DataCenterOf(v.Cluster):
		return wire.Conflict("The specified Logical Network doesn't exist in the current Cluster.") // from its source
	}

	return nil
}

// changeMAC applies the MAC address of a request to a network interface.
func (c *call) changeMAC(next *store.NIC) error {
	mac := c.body.Value("mac", "address")
	if mac == "" {
		return nil
	}

	hardware, err := net.ParseMAC(mac)
	switch {
	case !macPattern.MatchString(mac) || err != nil || mac == "00:00:00:00:00:00":
		return wire.Invalid(
			"%s",
			`MAC address must be in format "HH:HH:HH:HH:HH:HH" where H is a hexadecimal character `+
				`(either a digit or A-F, case is insignificant)., Attribute: nic.macAddress`,
		)
	case hardware[0]&1 == 1:
		return wire.Invalid("Multi-cast MAC address is not allowed., Attribute: nic.macAddress")
	}

	next.MAC = hardware.String()

	return nil
}

// checkHotUpdate rejects changes that the engine makes only to unplugged interfaces while the VM runs. The text is from
// the engine's sources.
func checkHotUpdate(v *store.VM, n, next *store.NIC) error {
	plugged := n.MAC != "" && !n.Unplugged && v.IsRunning()
	if plugged && (n.MAC != next.MAC || n.Interface != next.Interface) {
		return wire.Conflict("Cannot edit Interface. Updating some of the properties is not supported while the " +
			"interface " +
			"is plugged into a running virtual machine. Please un-plug the interface, update the properties, and " +
			"then " +
			"plug it back.")
	}

	return nil
}

// addressFree rejects a MAC address already used by another interface.
func (c *call) addressFree(next *store.NIC) error {
	if next.MAC == "" {
		return nil
	}

	for _, other := range c.store.NICs.Rows {
		if other.ID != next.ID && other.MAC == next.MAC {
			return wire.Conflict("MAC Address %s is already in use by VM or snapshot: %s.", next.MAC,
				c.store.VMName(other.Owner))
		}
	}

	return nil
}

func addNIC(c *call) (*wire.Element, error) {
	if err := requireParameter(c.body, "nic", "name"); err != nil {
		return nil, err
	}

	if err := requireElements(c.body, "Nic", "name"); err != nil {
		return nil, err
	}

	v := c.store.VMs.Get(c.pathID("vm"))
	if v == nil {
		return nil, wire.Invalid("Cannot add Interface. VM is not found.")
	}

	made := &store.NIC{ID: store.NewID(), Owner: v.ID, Interface: "virtio", Order: c.store.NextNumber("nics")}
	if err := c.changeNIC(v, made, "add"); err != nil {
		return nil, err
	}

	// A clone operation locks the VM.
	if v.Status == store.StatusImageLocked && v.Template == store.BlankTemplateID &&
		c.store.AttachmentsOf(v.ID) != nil {
		return nil, wire.Conflict(
			"Cannot add Interface. Related operation is currently in progress. Please try again later.",
		)
	}

	if made.MAC == "" {
		made.MAC = c.store.NextMAC()
	}

	c.store.NICs.Put(made.ID, made)

	return c.answerCreated(nicDocument(c, made, "vm")), nil
}

func updateNIC(c *call) (*wire.Element, error) {
	v, n, err := c.findNIC()
	if err != nil {
		return nil, err
	}

	if err := c.changeNIC(v, n, "edit"); err != nil {
		return nil, err
	}

	c.store.NICs.Put(n.ID, n)

	return nicDocument(c, n, "vm"), nil
}

func removeNIC(c *call) (*wire.Element, error) {
	v, n, err := c.findNIC()
	if err != nil {
		return nil, err
	}

	if v.IsRunning() && !n.Unplugged {
		return nil, wire.Conflict("Cannot remove Interface. The VM Network Interface is plugged to a running VM.")
	}

	c.store.ReleaseLeases(n.MAC)
	c.store.NICs.Drop(n.ID)

	return c.answerComplete(), nil
}

func activateNIC(c *call) (*wire.Element, error) { return c.setPlugged(true) }

func deactivateNIC(c *call) (*wire.Element, error) { return c.setPlugged(false) }

func (c *call) setPlugged(in bool) (*wire.Element, error) {
	_, n, err := c.findNIC()
	if err != nil {
		return nil, err
	}

	n.Unplugged = !in
	c.store.NICs.Put(n.ID, n)

	return c.answerComplete(), nil
}

// reportedDevices returns the network interfaces of a VM as its guest agent reports them.
func (c *call) reportedDevices(v *store.VM, mac string) *wire.Element {
	out := wire.El("reported_devices")

	for _, device := range v.Report.Interfaces {
		if mac != "" && device.MAC != mac {
			continue
		}

		id := c.store.IDOf("", "reporteddevice", v.ID, device.Name)
		ips := wire.El("ips")

		for _, address := range device.Addresses {
			version := "v4"
			if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
				version = "v6"
			}

			ips.AddItems(wire.El("ip").Str("address", address).Str("version", version))
		}

		made := wire.NewObject("reported_device", id, "vms", v.ID, "reporteddevices", id).Str("name", device.Name).
			Str("description", "guest reported data").Str("type", "network").Add(ips)
		if device.MAC != "" {
			made.Add(wire.El("mac").Str("address", device.MAC))
		}

		out.AddItems(made.Add(wire.Ref("vm", "vms", v.ID)))
	}

	return out
}

func listReportedDevices(c *call) (*wire.Element, error) {
	if v := c.store.VMs.Get(c.pathID("vm")); v != nil {
		return c.reportedDevices(v, ""), nil
	}

	return wire.El("reported_devices"), nil
}

func listNICReportedDevices(c *call) (*wire.Element, error) {
	v, n, err := c.findNIC()
	if err != nil {
		return nil, err
	}

	return c.reportedDevices(v, n.MAC), nil
}

func nicStatistics(c *call) (*wire.Element, error) {
	v, err := c.findVM()
	if err != nil {
		return nil, err
	}

	n := c.store.NICs.Get(c.pathID("id"))
	if n == nil || n.Owner != v.ID {
		return nil, wire.NotFound()
	}

	owner := wire.El("nic").SetAttr("href", wire.Href("vms", v.ID, "nics", n.ID)).SetAttr("id", n.ID)

	return c.statisticsElement(nicStatisticNames, owner, nil), nil
}
