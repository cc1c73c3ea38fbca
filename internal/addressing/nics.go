package addressing

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing/addressrange"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
)

const (
	defaultVNICName  = "nic1"
	defaultInterface = "enp1s0"
)

// NIC is a network interface of a machine. It has the hardware in the engine, and the sources of the guest's addresses.
type NIC struct {
	// OLVMNetwork is the network interface in the spec, with defaults filled in.
	infrav1.OLVMNetwork
	// Guest is nil if this provider does not configure the interface in the guest.
	Guest *GuestNIC

	Field string // path of the OLVMNetwork, with a trailing dot
}

// GuestNIC has the sources of a network interface's addresses. Each family has one kind of source.
type GuestNIC struct {
	// Field is the field of the OLVMMachine with this configuration.
	Field string
	// Interface is the name of the interface in the guest.
	Interface string
	// Pools are pools of static addresses, at most one per family.
	Pools []*addressrange.Set
	// FromPools are pools of IPAM providers.
	FromPools []ipamv1.IPPoolReference
	// DHCPv4, DHCPv6 and AutoConf let the guest get its addresses by itself.
	DHCPv4, DHCPv6, AutoConf bool
	// DNSServers and SearchDomains are the DNS settings of the guest.
	DNSServers, SearchDomains []string

	// Own reports whether a claimed VM keeps its own network configuration. Only the guest then knows its addresses.
	Own bool

	First bool // First marks the guest's first interface, with its default routes
	// gateway4 and gateway6 are the gateways in the spec, for addresses from IPAM providers.
	gateway4, gateway6 netip.Addr
}

// IsDynamic reports whether some address of the interface is known only to the guest.
func (n NIC) IsDynamic() bool {
	return n.Guest != nil && (n.Guest.IsDynamic(true) || n.Guest.IsDynamic(false))
}

// IsDynamic reports whether the address of this family is known only to the guest.
func (g *GuestNIC) IsDynamic(ipv4 bool) bool {
	return g.Own || ipv4 && g.DHCPv4 || !ipv4 && (g.DHCPv6 || g.AutoConf)
}

// ToAddress returns an address from an IPAM provider. A gateway in the spec takes precedence over the pool's gateway.
// Several interfaces may have pools with gateways, but a guest has only one default route.
func (g *GuestNIC) ToAddress(prefix netip.Prefix, gateway netip.Addr) addressrange.Address {
	written := g.gateway6
	if prefix.Addr().Is4() {
		written = g.gateway4
	}

	switch {
	case written.IsValid():
		gateway = written
	case !g.First:
		gateway = netip.Addr{}
	}

	return addressrange.Address{Prefix: prefix, Gateway: gateway}
}

// interfaceTypes are the emulated network cards except virtio.
var interfaceTypes = []string{"e1000", "e1000e", "rtl8139"}

// CollectNetworks returns the networks of all network interfaces in order, with their names and hardware filled in.
func CollectNetworks(spec infrav1.OLVMMachineSpec) []infrav1.OLVMNetwork {
	all := []infrav1.OLVMNetwork{spec.OLVMNetwork}
	all[0].VNICName = cmp.Or(all[0].VNICName, defaultVNICName)

	all[0].InterfaceType = cmp.Or(all[0].InterfaceType, spec.VirtualMachine.Network.InterfaceType)
	for i := range spec.AdditionalNetworks {
		more := spec.AdditionalNetworks[i].OLVMNetwork
		more.VNICName = cmp.Or(more.VNICName, fmt.Sprintf("nic%d", i+2))
		all = append(all, more)
	}

	for i := range all {
		// Leave virtio to the engine's default, because the released provider supports only this type.
		if all[i].InterfaceType = strings.ToLower(all[i].InterfaceType); all[i].InterfaceType == "virtio" {
			all[i].InterfaceType = ""
		}
	}

	return all
}

// BuildNICs returns the network interfaces of a machine in order, with the sources of their addresses.
func BuildNICs(spec infrav1.OLVMMachineSpec, cluster infrav1.OLVMClusterSpec) ([]NIC, error) {
	if spec.FromInventory != nil && !spec.VirtualMachine.Network.IsConfigured() {
		return []NIC{{
			OLVMNetwork: CollectNetworks(spec)[0],
			Guest:       &GuestNIC{Field: "spec.virtualMachine.network", Own: true, First: true},
			Field:       "spec.fromInventory.",
		}}, nil
	}

	var nics []NIC

	for i, network := range CollectNetworks(spec) {
		nic := NIC{OLVMNetwork: network, Field: "spec.olvmNetwork."}
		guest, path := &spec.VirtualMachine.Network, "spec.virtualMachine.network"
		if i > 0 {
			nic.Field = fmt.Sprintf("spec.additionalNetworks[%d].", i-1)
			guest, path = spec.AdditionalNetworks[i-1].Guest.GuestNetwork(), nic.Field+"guest"
		}

		if slices.ContainsFunc(nics, func(other NIC) bool { return other.VNICName == nic.VNICName }) {
			return nil, blocker.New(infrav1.InvalidHardwareReason,
				nic.Field+"vnicName",
				"the name %q is used twice; give each network interface its own name",
				nic.VNICName,
			)
		}

		if err := nic.checkInterfaceType(i == 0); err != nil {
			return nil, err
		}

		if guest != nil {
			var err error
			if nic.Guest, err = parseGuestNIC(*guest, path, i == 0, cluster); err != nil {
				return nil, err
			}

			if slices.ContainsFunc(nics, func(other NIC) bool {
				return other.Guest != nil &&
					other.Guest.Interface == nic.Guest.Interface
			}) {
				return nil, blocker.New(infrav1.InvalidHardwareReason,
					path+".interface",
					"the guest's interface %q is configured twice; use the name of this interface in the guest",
					nic.Guest.Interface,
				)
			}
		}

		nics = append(nics, nic)
	}

	return nics, nil
}

// checkInterfaceType refuses hardware that no engine emulates.
func (n NIC) checkInterfaceType(first bool) error {
	if n.InterfaceType == "" || slices.Contains(interfaceTypes, n.InterfaceType) {
		return nil
	}

	where := "correct it"
	if first {
		where += " here or in spec.virtualMachine.network.interfaceType"
	}

	return blocker.New(infrav1.InvalidHardwareReason, n.Field+"interfaceType", "%q is not one of virtio, %s; %s",
		n.InterfaceType, strings.Join(interfaceTypes, ", "), where)
}

// newUnusableError returns the error for a network configuration that cannot be used.
func newUnusableError(field, format string, args ...any) error {
	return blocker.New(infrav1.AddressRangeInvalidReason, field, format, args...)
}

// parseGuestNIC returns the configuration of one interface, from the spec at path or from its IP profile.
func parseGuestNIC(
	network infrav1.GuestNetwork, path string, first bool, cluster infrav1.OLVMClusterSpec,
) (*GuestNIC, error) {
	out := &GuestNIC{
		Field:     path,
		Interface: cmp.Or(network.Interface, defaultInterface),
		FromPools: network.AddressesFromPools,
		First:     first,
	}
	addressing, source := network.Addressing, path
	if network.IPProfileName != "" {
		at := slices.IndexFunc(cluster.IPProfiles, func(p infrav1.IPProfile) bool {
			return p.Name == network.IPProfileName
		})
		if at < 0 {
			var names []string
			for _, p := range cluster.IPProfiles {
				names = append(names, p.Name)
			}

			return nil, &blocker.Error{
				Reason: infrav1.IPProfileNotFoundReason,
				Field:  path + ".ipProfileName",
				Message: fmt.Sprintf(
					"the OLVMCluster has no IP profile %q, it has %q; correct the name or add it to the "+
						"OLVMCluster's spec.ipProfiles",
					network.IPProfileName,
					names,
				),
			}
		}

		addressing, source = cluster.IPProfiles[at].Addressing, fmt.Sprintf("OLVMCluster spec.ipProfiles[%d]", at)
		if len(network.DNSServers) > 0 {
			addressing.DNSServers = network.DNSServers
		}

		if len(network.SearchDomains) > 0 {
			addressing.SearchDomains = network.SearchDomains
		}
	}

	if err := out.addFamilies(addressing, source); err != nil {
		return nil, err
	}

	if err := out.addNames(addressing, source); err != nil {
		return nil, err
	}

	if len(out.Pools)+len(out.FromPools) == 0 && !out.IsDynamic(true) && !out.IsDynamic(false) {
		return nil, newUnusableError(
			source,
			"it has no source of addresses; set ipv4 or ipv6, ipProfileName, or addressesFromPools",
		)
	}

	return out, out.checkRanges(CollectVirtualAddresses(cluster), addressing, source)
}

// addFamilies parses the sources of addresses of both families.
func (g *GuestNIC) addFamilies(addressing infrav1.Addressing, source string) error {
	if n := addressing.IPv4; n != nil {
		if g.DHCPv4 = n.DHCP; !n.DHCP {
			pool, err := addressrange.NewIPv4(n.Subnet, addressing.Gateway, n.IPAddresses)
			if err != nil {
				return newRangeError(err, source)
			}

			if !g.First && addressing.Gateway == "" {
				pool.Gateway = netip.Addr{}
			}

			g.Pools = append(g.Pools, pool)
		}
	}

	if err := g.addGateways(addressing, source); err != nil {
		return err
	}

	if n := addressing.IPv6; n != nil {
		static := len(n.IPAddresses) > 0
		if g.DHCPv6, g.AutoConf = n.DHCP, n.AutoConf && !static; static {
			pool, err := addressrange.NewIPv6(n.Subnet, n.Gateway, n.IPAddresses)
			if err != nil {
				return newRangeError(err, source)
			}

			g.Pools = append(g.Pools, pool)
		}
	}

	return nil
}

// addGateways parses the gateways for addresses from pools, and refuses settings that have no effect.
func (g *GuestNIC) addGateways(addressing infrav1.Addressing, source string) error {
	pools := len(g.FromPools) > 0
	if pools && addressing.Gateway != "" {
		var err error
		if g.gateway4, err = netip.ParseAddr(addressing.Gateway); err != nil || !g.gateway4.Is4() {
			return newUnusableError(source+".gateway", "%q is not an IPv4 address", addressing.Gateway)
		}
	}

	n := addressing.IPv6
	if n == nil || len(n.IPAddresses) > 0 {
		return nil
	}

	if n.Subnet != "" {
		return newUnusableError(source+".ipv6.subnet", "it has no ipv6.ipAddresses; add some, or remove it")
	}

	if n.Gateway == "" {
		return nil
	}

	var err error
	if g.gateway6, err = netip.ParseAddr(n.Gateway); err != nil || !g.gateway6.Is6() || !pools {
		return newUnusableError(
			source+".ipv6.gateway",
			"%q is a gateway, but there are no static IPv6 addresses; add ipv6.ipAddresses or addressesFromPools, or "+
				"remove it",
			n.Gateway,
		)
	}

	return nil
}

// newRangeError returns the error for ranges that cannot be used, with their field.
func newRangeError(err error, source string) error {
	var field *addressrange.FieldError
	if errors.As(err, &field) {
		return newUnusableError(source+"."+field.Field, "%s", field.Problem)
	}

	return newUnusableError(source, "%v", err)
}

// addNames parses the DNS settings of the guest.
func (g *GuestNIC) addNames(addressing infrav1.Addressing, source string) error {
	for i, server := range addressing.DNSServers {
		address, err := netip.ParseAddr(server)
		if err != nil || address.Zone() != "" || address.IsUnspecified() || address.IsMulticast() {
			return newUnusableError(
				fmt.Sprintf("%s.dnsServers[%d]", source, i), "%q is not the IP address of a server", server,
			)
		}
	}

	for i, domain := range addressing.SearchDomains {
		if problems := validation.IsDNS1123Subdomain(domain); len(problems) > 0 {
			return newUnusableError(fmt.Sprintf("%s.searchDomains[%d]", source, i), "%q is not a domain: %s", domain,
				strings.Join(problems, "; "))
		}
	}

	g.DNSServers, g.SearchDomains = addressing.DNSServers, addressing.SearchDomains

	return nil
}

// checkRanges refuses ranges that include a virtual address of the cluster. A machine with such an address would answer
// in place of the API server.
func (g *GuestNIC) checkRanges(virtual []VirtualAddress, addressing infrav1.Addressing, source string) error {
	for _, v := range virtual {
		for _, pool := range g.Pools {
			if !pool.Contains(v.Address) {
				continue
			}

			field, ranges := ".ipv4.ipAddresses", []string(nil)
			if pool.Is4() {
				ranges = addressing.IPv4.IPAddresses
			} else {
				field, ranges = ".ipv6.ipAddresses", addressing.IPv6.IPAddresses
			}

			return &blocker.Error{
				Reason: infrav1.EndpointInAddressRangeReason,
				Field:  source + field,
				Message: fmt.Sprintf(
					"%s %s is inside the machine ranges %s; remove it from the ranges", v.What, v.Address,
					strings.Join(ranges, ", "),
				),
			}
		}
	}

	return nil
}
