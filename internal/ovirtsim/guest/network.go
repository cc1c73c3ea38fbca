package guest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
)

// method is the way in which a device gets its addresses of one family.
type method int

const (
	off method = iota
	static
	dhcp
	autoconf
)

// addressing is the configuration of one address family in a profile.
type addressing struct {
	method    method
	addresses []netip.Prefix
	gateway   netip.Addr
}

// profile configures one device.
type profile struct {
	// source names the origin of the profile for messages.
	source string
	// device and mac select the device. If both are empty, the profile applies to any device without another profile.
	device, mac string
	v4, v6      addressing
}

// network is the running network of a guest.
type network struct {
	reported []store.ReportedInterface
	// nodeAddresses are the addresses of the first interface with an address, IPv4 first.
	nodeAddresses []string
}

// engineSource names the engine's NIC configuration for messages.
const engineSource = "the NIC configuration of the VM's initialization"

// profilesOf returns the network profiles of a guest. The engine passes NIC configurations only to cloud-init, so an
// Ignition guest has only the keyfiles of its payload. The warnings name the keyfiles that NetworkManager ignores.
func profilesOf(machine api.GuestVM, sys *system) (profiles []profile, warnings []string, err error) {
	if !machine.Ignition {
		for _, server := range machine.DNSServers {
			if _, err := netip.ParseAddr(server); err != nil {
				return nil, nil, fmt.Errorf("network: the DNS server of the VM's initialization is unusable: %w", err)
			}
		}

		for _, nic := range machine.NICs {
			p, err := profileFromNIC(nic)
			if err != nil {
				return nil, nil, err
			}

			profiles = append(profiles, p)
		}
	}

	keyfiles, warnings, err := readKeyfiles(sys)
	if err != nil {
		return nil, nil, err
	}

	byFile := machine.NICs
	if !machine.Ignition {
		byFile = slices.DeleteFunc(slices.Clone(byFile), func(nic api.GuestNIC) bool {
			return !sys.replacesProfile(keyfiles, nic.Interface)
		})
		profiles = slices.DeleteFunc(profiles, func(p profile) bool { return sys.replacesProfile(keyfiles, p.device) })
	}

	return append(profiles, keyfiles...), warnings, compareAddresses(byFile, keyfiles)
}

// replacesProfile reports whether a keyfile of the user data replaces cloud-init's configuration of the device.
func (s *system) replacesProfile(keyfiles []profile, device string) bool {
	written := slices.ContainsFunc(keyfiles, func(p profile) bool { return p.device == device })
	used := slices.ContainsFunc(s.commands, func(command string) bool {
		return strings.HasPrefix(command, "nmcli ") && strings.HasSuffix(command, " connection up "+device)
	})

	return written && used
}

// compareAddresses rejects keyfiles with other addresses than the engine's. A real guest does not notice this. It uses
// an unexpected address, possibly that of another guest. SLAAC is exempt, because the engine cannot configure it.
func compareAddresses(nics []api.GuestNIC, keyfiles []profile) error {
	for _, nic := range nics {
		at := slices.IndexFunc(keyfiles, func(p profile) bool { return p.device == nic.Interface })
		told, err := profileFromNIC(nic)
		if err != nil {
			return err
		}

		if at < 0 {
			continue // a guest without an address gets its own error
		}

		for _, family := range []struct{ told, written addressing }{
			{told.v4, keyfiles[at].v4},
			{told.v6, keyfiles[at].v6},
		} {
			if family.told.method == off && family.written.method == autoconf {
				continue
			}

			if family.told.method != family.written.method || !slices.Equal(family.told.addresses,
				family.written.addresses) || family.told.gateway != family.written.gateway {
				return fmt.Errorf("network: %s: %s says %s, and %s says %s", nic.Interface, keyfiles[at].source,
					family.written, told.source, family.told)
			}
		}
	}

	return nil
}

// String describes the configuration for messages.
func (a addressing) String() string {
	words := []string{[]string{"none", "static", "DHCP", "SLAAC"}[a.method]}
	for _, prefix := range a.addresses {
		words = append(words, prefix.String())
	}

	if a.gateway.IsValid() {
		words = append(words, "via "+a.gateway.String())
	}

	return strings.Join(words, " ")
}

// configureNetwork determines the addresses of all devices. A device without a profile uses DHCP, the default of
// NetworkManager. A guest without any address does not come up. The warnings help explain why.
func configureNetwork(devices []api.GuestInterface, profiles []profile, warnings []string) (*network, error) {
	if len(devices) == 0 {
		return nil, errors.New("network: the VM has no network interface")
	}

	chosen, err := assignProfiles(devices, profiles)
	if err != nil {
		return nil, err
	}

	out := &network{}
	owners := map[netip.Addr]string{}
	var reasons []string

	for _, device := range devices {
		p := chosen[device.Name]
		if p == nil {
			p = &profile{source: "nothing", v4: addressing{method: dhcp}, v6: addressing{method: dhcp}}
		}

		addresses, err := p.addressesOf(device)
		if err != nil {
			return nil, err
		}

		if len(addresses) == 0 {
			reasons = append(reasons, p.explainMissingAddress(device))
			continue
		}

		routable, err := out.reportAddresses(device, addresses, owners)
		if err != nil {
			return nil, err
		}

		if len(routable) == 0 {
			reasons = append(reasons, device.Name+" has a link-local address only")
			continue
		}

		if out.nodeAddresses == nil {
			if err := p.checkDefaultRoute(device.Name); err != nil {
				return nil, err
			}

			out.nodeAddresses = routable
		}
	}

	if out.nodeAddresses == nil {
		return nil, fmt.Errorf("network: no interface has an address: %s",
			strings.Join(append(reasons, warnings...), "; "))
	}

	return out, nil
}

// reportAddresses adds the addresses of a device to the guest agent's report, and returns the routable ones. The map
// owners holds the device of each address.
func (n *network) reportAddresses(
	device api.GuestInterface, addresses []netip.Addr, owners map[netip.Addr]string,
) (routable []string, err error) {
	reported := store.ReportedInterface{Name: device.Name, MAC: device.MAC}

	for _, address := range addresses {
		if owner, taken := owners[address]; taken {
			return nil, fmt.Errorf("network: %s and %s have the same address %s", owner, device.Name, address)
		}

		owners[address] = device.Name
		reported.Addresses = append(reported.Addresses, address.String())
		if !address.IsLinkLocalUnicast() {
			routable = append(routable, address.String())
		}
	}

	n.reported = append(n.reported, reported)

	return routable, nil
}

// assignProfiles finds the device of each profile.
func assignProfiles(devices []api.GuestInterface, profiles []profile) (map[string]*profile, error) {
	chosen := map[string]*profile{}

	var names []string
	for _, device := range devices {
		names = append(names, device.Name)
	}

	var free []*profile

	for i := range profiles {
		p := &profiles[i]
		if p.device == "" && p.mac == "" {
			free = append(free, p)
			continue
		}

		at := slices.IndexFunc(devices, func(d api.GuestInterface) bool {
			return (p.device == "" || p.device == d.Name) && (p.mac == "" || strings.EqualFold(p.mac, d.MAC))
		})
		if at < 0 {
			if p.device == "" || slices.Contains(names, p.device) {
				return nil, fmt.Errorf("network: the guest has no interface with MAC address %s (%s)", p.mac, p.source)
			}

			return nil, fmt.Errorf("network: the guest has no interface %q (%s), it has %s", p.device, p.source,
				strings.Join(names, ", "))
		}

		name := devices[at].Name
		if other := chosen[name]; other != nil {
			return nil, fmt.Errorf("network: %s is configured twice, by %s and by %s", name, other.source, p.source)
		}

		chosen[name] = p
	}

	for _, name := range names {
		if len(free) > 0 && chosen[name] == nil {
			chosen[name], free = free[0], free[1:]
		}
	}

	return chosen, nil
}

// addressesOf returns the addresses of a device, IPv4 first.
func (p *profile) addressesOf(device api.GuestInterface) ([]netip.Addr, error) {
	var lease netip.Addr
	if device.DHCP != "" {
		prefix, err := netip.ParsePrefix(device.DHCP)
		if err != nil {
			return nil, fmt.Errorf("network: the DHCP lease %q of %s is unusable: %w", device.DHCP, device.Name, err)
		}

		lease = prefix.Addr()
	}

	var out []netip.Addr

	for _, family := range []addressing{p.v4, p.v6} {
		for _, prefix := range family.addresses {
			out = append(out, prefix.Addr())
		}

		if family.method == autoconf {
			for _, prefix := range []string{"fe80::/64", device.SLAAC} {
				if prefix == "" {
					continue // without a router, the device has only its link-local address
				}

				address, err := interfaceID(prefix, device.MAC)
				if err != nil {
					return nil, fmt.Errorf("network: %s: %w", device.Name, err)
				}

				out = append(out, address)
			}
		}
	}

	if lease.Is4() && p.v4.method == dhcp || lease.Is6() && p.v6.method == dhcp {
		out = append(out, lease)
	}

	slices.SortStableFunc(out, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })

	return out, nil
}

// explainMissingAddress explains why a device has no address.
func (p *profile) explainMissingAddress(device api.GuestInterface) string {
	if p.v4.method != dhcp && p.v6.method != dhcp {
		return fmt.Sprintf("%s has none configured (%s)", device.Name, p.source)
	}

	return fmt.Sprintf("%s uses DHCP (%s configures it) and its network %q has no DHCP", device.Name, p.source,
		device.Network)
}

// checkDefaultRoute rejects a static configuration without a route out of its own subnet. IPv6 in addition to IPv4
// needs no gateway, because another device may have the IPv6 default route.
func (p *profile) checkDefaultRoute(device string) error {
	main := p.v4
	if main.method == off {
		main = p.v6
	}

	if main.method == static && !main.gateway.IsValid() {
		return fmt.Errorf("network: %s has a static address and no gateway, so the guest has no default route (%s)",
			device, p.source)
	}

	return nil
}

// interfaceID returns the address that a MAC address has in a prefix (EUI-64).
func interfaceID(prefix, mac string) (netip.Addr, error) {
	subnet, err := netip.ParsePrefix(prefix)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("its network announces an unusable prefix: %w", err)
	}

	hardware, err := net.ParseMAC(mac)
	if err != nil || len(hardware) != 6 {
		return netip.Addr{}, fmt.Errorf("it has no usable MAC address: %q", mac)
	}

	address := subnet.Addr().As16()
	copy(
		address[8:],
		[]byte{hardware[0] ^ 2, hardware[1], hardware[2], 0xff, 0xfe, hardware[3], hardware[4], hardware[5]},
	)

	return netip.AddrFrom16(address), nil
}

// profileFromNIC converts one of the engine's NIC configurations to a profile.
func profileFromNIC(nic api.GuestNIC) (profile, error) {
	out := profile{source: engineSource, device: nic.Interface}
	var err error
	out.v4.method, err = engineMethod(nic.BootProtocol, map[string]method{
		"":       off,
		"none":   off,
		"static": static,
		"dhcp":   dhcp,
	})
	if err != nil {
		return out, fmt.Errorf("network: %s: %w", nic.Interface, err)
	}

	out.v6.method, err = engineMethod(nic.IPv6BootProtocol, map[string]method{
		"":       off,
		"none":   off,
		"static": static,
		"dhcp":   dhcp,
	})
	if err != nil {
		return out, fmt.Errorf("network: %s: IPv6: %w", nic.Interface, err)
	}

	if out.v4.method == static {
		if out.v4, err = newStatic(nic.Address, netmaskBits(nic.Netmask), nic.Gateway, netip.Addr.Is4); err != nil {
			return out, fmt.Errorf("network: %s has an unusable configuration: address %q, netmask %q, gateway %q: %w",
				nic.Interface, nic.Address, nic.Netmask, nic.Gateway, err)
		}
	}

	if out.v6.method == static {
		if out.v6, err = newStatic(nic.IPv6Address, nic.IPv6Prefix, nic.IPv6Gateway, is6); err != nil {
			return out, fmt.Errorf(
				"network: %s has an unusable configuration: IPv6 address %q, prefix %q, gateway %q: %w",
				nic.Interface, nic.IPv6Address, nic.IPv6Prefix, nic.IPv6Gateway, err,
			)
		}
	}

	return out, nil
}

func engineMethod(protocol string, known map[string]method) (method, error) {
	found, ok := known[strings.ToLower(protocol)]
	if !ok {
		return off, fmt.Errorf("there is no boot protocol %q", protocol)
	}

	return found, nil
}

// netmaskBits returns the prefix length of a dotted netmask. It returns any other text unchanged; a later check rejects
// this text as a prefix length.
func netmaskBits(mask string) string {
	if address, err := netip.ParseAddr(mask); err == nil && address.Is4() {
		if ones, bits := net.IPMask(address.AsSlice()).Size(); bits != 0 {
			return strconv.Itoa(ones)
		}
	}

	return mask + " is no netmask"
}

// newStatic returns the static configuration of one address.
func newStatic(address, bits, gateway string, family func(netip.Addr) bool) (addressing, error) {
	out := addressing{method: static}
	prefix, err := netip.ParsePrefix(address + "/" + bits)
	if err != nil {
		return out, err
	}

	if err := checkUsable(prefix, family); err != nil {
		return out, err
	}

	out.addresses = []netip.Prefix{prefix}
	if gateway == "" {
		return out, nil
	}

	if out.gateway, err = netip.ParseAddr(gateway); err != nil {
		return out, err
	}

	return out, out.checkGateway()
}

// checkUsable returns an error if the address is not usable for a device.
func checkUsable(prefix netip.Prefix, family func(netip.Addr) bool) error {
	address := prefix.Addr()
	switch {
	case !family(address):
		return fmt.Errorf("%s is of another address family", address)
	case address.IsUnspecified() || address.IsMulticast() || address == netip.AddrFrom4([4]byte{255, 255, 255, 255}) ||
		prefix.Bits() == 0:
		return fmt.Errorf("%s is no address of a host", prefix)
	}

	return nil
}

// checkGateway rejects a gateway outside of all subnets of the device. A link-local gateway is valid for every device.
func (a addressing) checkGateway() error {
	if !a.gateway.IsValid() || len(a.addresses) == 0 || a.gateway.IsLinkLocalUnicast() && a.gateway.Is6() {
		return nil
	}

	var subnets []string

	for _, prefix := range a.addresses {
		if prefix.Contains(a.gateway) {
			return nil
		}

		subnets = append(subnets, prefix.Masked().String())
	}

	return fmt.Errorf("gateway %s is not in the subnet %s", a.gateway, strings.Join(subnets, ", "))
}

func is6(address netip.Addr) bool { return address.Is6() && !address.Is4In6() }
