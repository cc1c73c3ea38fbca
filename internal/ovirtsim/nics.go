package ovirtsim

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
)

// This file has the network interfaces of VMs and templates, and what the guest agent reports of them.

// nicDocument shows an interface. Only in lists does it refer to where it is.
func nicDocument(_ *call, n *nic, owner string) *element {
	collection := owner + "s"
	out := object("nic", n.ID, collection, n.Owner, "nics", n.ID).str("name", n.Name).str("interface", n.Interface).
		flag("linked", !n.Unlinked).flag("plugged", !n.Unplugged).flag("synced", true)
	if n.MAC != "" {
		out.add(el("mac").str("address", n.MAC))
	}
	return out.add(ref("vnic_profile", "vnicprofiles", n.Profile), ref(owner, collection, n.Owner))
}

func nicsOf(c *call, ownerID, owner string) *element {
	out := el("nics")
	for _, n := range c.store.nicsOf(ownerID) {
		out.items(nicDocument(c, n, owner))
	}
	return out
}

func listNICs(c *call) (*element, error) { return nicsOf(c, c.id("vm"), "vm"), nil }

func (c *call) nic() (*vm, *nic, error) {
	n := c.store.nics.get(c.id("id"))
	if n == nil || n.Owner != c.id("vm") {
		return nil, nil, gone()
	}
	return c.store.vms.get(n.Owner), n, nil
}

func getNIC(c *call) (*element, error) {
	_, n, err := c.nic()
	if err != nil {
		return nil, err
	}
	return nicDocument(c, n, "vm"), nil
}

// maxNICName is the length of the name of an interface.
const maxNICName = 50

var (
	nicName    = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	macPattern = regexp.MustCompile(`^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$`)
)

// changeNIC applies a request to a network interface, which stays as it was on an error.
func (c *call) changeNIC(v *vm, n *nic, verb string) error {
	in, next := c.body, *n
	next.Name = textOr(in, "name", n.Name)
	switch {
	case len(next.Name) > maxNICName || next.Name == "":
		return invalid("size must be between 1 and %d, Attribute: nic.name", maxNICName)
	case !nicName.MatchString(next.Name):
		return invalid("%s", `Name must be formed of alphanumeric characters, numbers or "-_."., Attribute: nic.name`)
	}
	if err := c.changeMAC(v, n, &next); err != nil {
		return err
	}
	for _, other := range c.store.nicsOf(v.ID) {
		if other.ID != n.ID && other.Name == next.Name {
			return conflict("Network interface name is already in use")
		}
	}
	if p := in.get("vnic_profile"); p != nil {
		if err := checkRef(p); err != nil {
			return err
		}
		next.Profile = refID(p)
		profile := c.store.vnicProfiles.get(next.Profile)
		switch {
		case next.Profile != "" && profile == nil:
			return invalid("Cannot %s Interface. The specified VM network interface profile doesn't exist.", verb)
		case profile != nil && c.store.networks.get(profile.Network).DataCenter != c.store.dataCenterOf(v.Cluster):
			return conflict("Cannot %s Interface. The network of the profile is not in the data center of the VM.", verb)
		}
	}
	switch next.Interface = orElse(in.value("interface"), n.Interface); next.Interface {
	case "rtl8139_virtio", "spapr_vlan":
		return invalid("Cannot %s Interface. The network interface type is not compatible with the selected operating system.", verb)
	case "pci_passthrough":
		return conflict("Cannot %s Interface. The network interface type doesn't match the profile. "+
			"Virtual machine interface of type 'PCI Passthrough' should have 'Passthrough' profile and vice versa.", verb)
	}
	if in.has("linked") {
		next.Unlinked = !in.yes("linked")
	}
	if in.has("plugged") {
		next.Unplugged = !in.yes("plugged")
	}
	if n.MAC != next.MAC {
		c.store.release(n.MAC)
	}
	*n = next
	return nil
}

// changeMAC applies the address of a request.
func (c *call) changeMAC(v *vm, n, next *nic) error {
	mac := c.body.value("mac", "address")
	if mac == "" {
		return nil
	}
	hardware, err := net.ParseMAC(mac)
	switch {
	case !macPattern.MatchString(mac) || err != nil || mac == "00:00:00:00:00:00":
		return invalid("%s", `MAC address must be in format "HH:HH:HH:HH:HH:HH" where H is a hexadecimal character (either a digit or A-F, case is insignificant)., Attribute: nic.macAddress`)
	case hardware[0]&1 == 1:
		return invalid("Multi-cast MAC address is not allowed., Attribute: nic.macAddress")
	}
	next.MAC = hardware.String()
	if n.MAC != "" && n.MAC != next.MAC && v.running() && !n.Unplugged {
		return conflict("Cannot edit Interface. Updating the MAC address is not supported while the interface is plugged to a running VM.")
	}
	for _, other := range c.store.nics.rows {
		if other.ID != n.ID && other.MAC == next.MAC {
			return conflict("MAC Address %s is already in use by VM or snapshot: %s.", next.MAC, c.store.vmName(other.Owner))
		}
	}
	return nil
}

func addNIC(c *call) (*element, error) {
	if err := mandatory(c.body, "nic", "name"); err != nil {
		return nil, err
	}
	if err := require(c.body, "Nic", "name"); err != nil {
		return nil, err
	}
	v := c.store.vms.get(c.id("vm"))
	if v == nil {
		return nil, invalid("Cannot add Interface. VM is not found.")
	}
	made := &nic{ID: newID(), Owner: v.ID, Interface: "virtio", Order: c.store.next("nics")}
	if err := c.changeNIC(v, made, "add"); err != nil {
		return nil, err
	}
	if v.Status == statusImageLocked && v.Template == blankTemplateID && c.store.attachmentsOf(v.ID) != nil { // a clone holds its lock
		return nil, conflict("Cannot add Interface. Related operation is currently in progress. Please try again later.")
	}
	if made.MAC == "" {
		made.MAC = c.store.nextMAC()
	}
	c.store.nics.put(made.ID, made)
	return c.created(nicDocument(c, made, "vm")), nil
}

func updateNIC(c *call) (*element, error) {
	v, n, err := c.nic()
	if err != nil {
		return nil, err
	}
	if err := c.changeNIC(v, n, "edit"); err != nil {
		return nil, err
	}
	c.store.nics.put(n.ID, n)
	return nicDocument(c, n, "vm"), nil
}

func removeNIC(c *call) (*element, error) {
	v, n, err := c.nic()
	if err != nil {
		return nil, err
	}
	if v.running() && !n.Unplugged {
		return nil, conflict("Cannot remove Interface. The VM Network Interface is plugged to a running VM.")
	}
	c.store.release(n.MAC)
	c.store.nics.drop(n.ID)
	return c.complete(), nil
}

func activateNIC(c *call) (*element, error)   { return c.plug(true) }
func deactivateNIC(c *call) (*element, error) { return c.plug(false) }

func (c *call) plug(in bool) (*element, error) {
	_, n, err := c.nic()
	if err != nil {
		return nil, err
	}
	n.Unplugged = !in
	c.store.nics.put(n.ID, n)
	return c.complete(), nil
}

// devices shows the network interfaces of a VM as its guest agent reports them.
func (c *call) devices(v *vm, mac string) *element {
	out := el("reported_devices")
	for _, device := range v.reported {
		if mac != "" && device.MAC != mac {
			continue
		}
		id := c.store.idOf("", "reporteddevice", v.ID, device.Name)
		ips := el("ips")
		for _, address := range device.Addresses {
			version := "v4"
			if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
				version = "v6"
			}
			ips.items(el("ip").str("address", address).str("version", version))
		}
		made := object("reported_device", id, "vms", v.ID, "reporteddevices", id).str("name", device.Name).str("description", "guest reported data").str("type", "network").add(ips)
		if device.MAC != "" {
			made.add(el("mac").str("address", device.MAC))
		}
		out.items(made.add(ref("vm", "vms", v.ID)))
	}
	return out
}

func listReportedDevices(c *call) (*element, error) {
	if v := c.store.vms.get(c.id("vm")); v != nil {
		return c.devices(v, ""), nil
	}
	return el("reported_devices"), nil
}

func listNICReportedDevices(c *call) (*element, error) {
	v, n, err := c.nic()
	if err != nil {
		return nil, err
	}
	return c.devices(v, n.MAC), nil
}

// lease is what the DHCP server of a network gives to a MAC: always the same address while there are enough.
func (s *store) lease(n *network, mac string) string {
	if n.DHCP == nil || mac == "" {
		return ""
	}
	if known := n.Leases[mac]; known != "" {
		return known
	}
	used := map[string]bool{}
	for holder, address := range n.Leases {
		used[address] = holder != mac
	}
	first, last := netip.MustParseAddr(n.DHCP.First), netip.MustParseAddr(n.DHCP.Last)
	for at := first; at.IsValid() && at.Compare(last) <= 0; at = at.Next() {
		if address := fmt.Sprintf("%s/%d", at, n.DHCP.Bits); !used[address] {
			if n.Leases == nil {
				n.Leases = map[string]string{}
			}
			n.Leases[mac] = address
			s.networks.put(n.ID, n)
			return address
		}
	}
	return ""
}

// release gives back the leases of a VM that is gone.
func (s *store) release(mac string) {
	for _, n := range s.networks.rows {
		if _, had := n.Leases[mac]; had {
			delete(n.Leases, mac)
			s.networks.put(n.ID, n)
		}
	}
}

func nicStatistics(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	n := c.store.nics.get(c.id("id"))
	if n == nil || n.Owner != v.ID {
		return nil, gone()
	}
	owner := el("nic").set("href", href("vms", v.ID, "nics", n.ID)).set("id", n.ID)
	return c.statistics(nicStatisticNames, owner, nil), nil
}
