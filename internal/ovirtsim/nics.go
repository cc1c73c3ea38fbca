package ovirtsim

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// This file has the network interfaces of VMs and templates, and what the guest agent reports of them.

func nicDocument(_ *call, n *nic, owner string) *element {
	collection := owner + "s"
	out := object("nic", n.ID, collection, n.Owner, "nics", n.ID)
	if owner == "vm" {
		out.links("reporteddevices", "statistics").actions("activate", "deactivate")
	}
	out.str("name", n.Name).str("interface", n.Interface).flag("linked", !n.Unlinked).flag("plugged", !n.Unplugged).flag("synced", true)
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

func listNICs(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	return nicsOf(c, v.ID, "vm"), nil
}

func (c *call) nic() (*vm, *nic, error) {
	v, err := c.vm()
	if err != nil {
		return nil, nil, err
	}
	n := c.store.nics.get(c.id("id"))
	if n == nil || n.Owner != v.ID {
		return nil, nil, notFound("Nic", c.id("id"))
	}
	return v, n, nil
}

func getNIC(c *call) (*element, error) {
	_, n, err := c.nic()
	if err != nil {
		return nil, err
	}
	return nicDocument(c, n, "vm"), nil
}

// nicInterfaces are the models of network cards.
var nicInterfaces = []string{"virtio", "e1000", "e1000e", "rtl8139", "pci_passthrough", "spapr_vlan"}

// changeNIC applies a request to a network interface, which stays as it was on an error.
func (c *call) changeNIC(v *vm, n *nic, verb string) error {
	in, next := c.body, *n
	if in.has("name") {
		next.Name = in.value("name")
	}
	for _, other := range c.store.nicsOf(v.ID) {
		if other.ID != n.ID && other.Name == next.Name {
			return conflict("Cannot %s Interface. The network interface name is already in use.", verb)
		}
	}
	if p := in.get("vnic_profile"); p != nil {
		next.Profile = refID(p)
		profile := c.store.vnicProfiles.get(next.Profile)
		switch {
		case next.Profile != "" && profile == nil:
			return invalid("Cannot %s Interface. The specified VM network interface profile doesn't exist.", verb)
		case profile != nil && c.store.networks.get(profile.Network).DataCenter != c.store.dataCenterOf(v.Cluster):
			return conflict("Cannot %s Interface. The network of the profile is not in the data center of the VM.", verb)
		}
	}
	if kind := in.value("interface"); kind != "" {
		if !slices.Contains(nicInterfaces, kind) {
			return invalid("Cannot %s Interface. The interface type %q is none of %s.", verb, kind, strings.Join(nicInterfaces, ", "))
		}
		next.Interface = kind
	}
	if in.has("linked") {
		next.Unlinked = !in.yes("linked")
	}
	if in.has("plugged") {
		next.Unplugged = !in.yes("plugged")
	}
	if mac := in.value("mac", "address"); mac != "" {
		hardware, err := net.ParseMAC(mac)
		if err != nil || len(hardware) != 6 || hardware[0]&1 == 1 {
			return invalid("Cannot %s Interface. The MAC address %q is not a valid unicast address.", verb, mac)
		}
		next.MAC = hardware.String()
		for _, other := range c.store.nics.rows {
			if other.ID != n.ID && other.MAC == next.MAC {
				return conflict("Cannot %s Interface. MAC Address %s is already in use by VM or snapshot.", verb, next.MAC)
			}
		}
	}
	if n.MAC != next.MAC {
		c.store.release(n.MAC)
	}
	*n = next
	return nil
}

func addNIC(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	if err := require(c.body, "Nic", "name"); err != nil {
		return nil, err
	}
	if v.Status == statusImageLocked {
		return nil, conflict("Cannot add Interface: VM is locked. Please try again in a few minutes.")
	}
	made := &nic{ID: newID(), Owner: v.ID, Interface: "virtio", Order: c.store.next("nics")}
	if err := c.changeNIC(v, made, "add"); err != nil {
		return nil, err
	}
	if made.MAC == "" {
		made.MAC = c.store.nextMAC()
	}
	c.store.nics.put(made.ID, made)
	c.work("Adding NIC "+made.Name, "")
	c.created = true
	return nicDocument(c, made, "vm"), nil
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
	switch {
	case v.Status == statusImageLocked:
		return nil, conflict("Cannot remove Interface: VM is locked. Please try again in a few minutes.")
	case v.Status != statusDown && !n.Unplugged:
		return nil, conflict("Cannot remove Interface. The network interface is plugged and the VM is running. Please unplug it first.")
	}
	c.store.release(n.MAC)
	c.store.nics.drop(n.ID)
	c.work("Removing NIC "+n.Name, "")
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
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	return c.devices(v, ""), nil
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
