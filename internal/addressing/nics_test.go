package addressing

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// specOf returns the spec of a machine whose guest has this network on its first interface.
func specOf(network infrav1.GuestNetwork) infrav1.OLVMMachineSpec {
	return infrav1.OLVMMachineSpec{
		OLVMNetwork:    infrav1.OLVMNetwork{NetworkName: "vlan"},
		VirtualMachine: infrav1.VirtualMachine{Network: network},
	}
}

// dhcp returns a network without static addresses.
func dhcp() infrav1.GuestNetwork {
	return infrav1.GuestNetwork{Addressing: infrav1.Addressing{IPv4: &infrav1.IPv4Network{DHCP: true}}}
}

func more(network infrav1.OLVMNetwork, guest *infrav1.GuestNetwork) infrav1.AdditionalNetwork {
	if guest == nil {
		return infrav1.AdditionalNetwork{OLVMNetwork: network}
	}

	return infrav1.AdditionalNetwork{OLVMNetwork: network, Guest: &infrav1.AdditionalGuestNetwork{
		Interface: guest.Interface, IPProfileName: guest.IPProfileName, AddressesFromPools: guest.AddressesFromPools,
		Addressing: guest.Addressing,
	}}
}

func TestNetworkInterfacesHaveDefaults(t *testing.T) {
	spec := specOf(dhcp())
	spec.VirtualMachine.Network.InterfaceType = "E1000"
	second, third := dhcp(), dhcp()
	second.Interface, third.Interface = "enp2s0", "enp3s0"
	spec.AdditionalNetworks = []infrav1.AdditionalNetwork{
		more(infrav1.OLVMNetwork{InterfaceType: "rtl8139"}, &second),
		more(infrav1.OLVMNetwork{InterfaceType: "VirtIO", VNICName: "data"}, &third),
		more(infrav1.OLVMNetwork{}, nil),
	}

	nics, err := BuildNICs(spec, infrav1.OLVMClusterSpec{})
	check.Error(t, err, "")

	var got []string

	for _, nic := range nics {
		guest := "none"
		if nic.Guest != nil {
			guest = fmt.Sprintf("%s first=%t", nic.Guest.Interface, nic.Guest.First)
		}

		got = append(got, fmt.Sprintf("%s %q %s (%s)", nic.VNICName, nic.InterfaceType, nic.Field, guest))
	}

	check.Equal(t, "interfaces", got, []string{
		`nic1 "e1000" spec.olvmNetwork. (enp1s0 first=true)`,
		`nic2 "rtl8139" spec.additionalNetworks[0]. (enp2s0 first=false)`,
		`data "" spec.additionalNetworks[1]. (enp3s0 first=false)`,
		`nic4 "" spec.additionalNetworks[2]. (none)`,
	})
}

// TestWhereAddressesComeFrom covers the sources of a guest's addresses.
func TestWhereAddressesComeFrom(t *testing.T) {
	profiles := infrav1.OLVMClusterSpec{IPProfiles: []infrav1.IPProfile{
		{Name: "other", Addressing: infrav1.Addressing{IPv4: &infrav1.IPv4Network{DHCP: true}}},
		{Name: "shared", Addressing: infrav1.Addressing{
			IPv4:       &infrav1.IPv4Network{Subnet: "10.0.0.0/24", IPAddresses: []string{"10.0.0.10"}},
			DNSServers: []string{"10.0.0.3"}, SearchDomains: []string{"example.com"},
		}},
	}}
	ipv6 := func(n infrav1.IPv6Network) infrav1.GuestNetwork {
		return infrav1.GuestNetwork{Addressing: infrav1.Addressing{IPv6: &n}}
	}
	describe := func(g *GuestNIC) string {
		parts := []string{}
		for _, p := range g.Pools {
			parts = append(parts, fmt.Sprintf("ipv4=%t size=%s gateway=%s", p.Is4(), p.Size(), p.Gateway))
		}

		for name, set := range map[string]bool{"dhcp4": g.DHCPv4, "dhcp6": g.DHCPv6, "auto": g.AutoConf} {
			if set {
				parts = append(parts, name)
			}
		}

		return strings.Join(append(parts, g.DNSServers...), "; ") + strings.Join(g.SearchDomains, ",")
	}

	tests := map[string]struct {
		network infrav1.GuestNetwork
		want    string
		// dynamic4 and dynamic6 report whether the address of the family is known only to the guest.
		dynamic4, dynamic6 bool
	}{
		"DHCP": {dhcp(), "dhcp4", true, false},
		"ranges of both families": {
			infrav1.GuestNetwork{Addressing: ranges(2)},
			"ipv4=true size=2 gateway=10.0.0.1; ipv4=false size=2 gateway=invalid IP", false, false,
		},
		"DHCP of IPv6":               {ipv6(infrav1.IPv6Network{DHCP: true}), "dhcp6", false, true},
		"IPv6 that routers announce": {ipv6(infrav1.IPv6Network{AutoConf: true}), "auto", false, true},
		"ranges win over announcements": {
			ipv6(infrav1.IPv6Network{AutoConf: true, IPAddresses: []string{"fd00::10"}}),
			"ipv4=false size=1 gateway=invalid IP", false, false,
		},
		"a profile": {
			infrav1.GuestNetwork{IPProfileName: "shared"},
			"ipv4=true size=1 gateway=10.0.0.1; 10.0.0.3example.com", false, false,
		},
		"a profile, with names of its own": {
			infrav1.GuestNetwork{IPProfileName: "shared", Addressing: infrav1.Addressing{
				DNSServers: []string{"10.0.0.4"}, SearchDomains: []string{"example.org"},
			}},
			"ipv4=true size=1 gateway=10.0.0.1; 10.0.0.4example.org", false, false,
		},
		"pools of IPAM providers": {infrav1.GuestNetwork{AddressesFromPools: pool}, "", false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			nics, err := BuildNICs(specOf(test.network), profiles)
			check.Error(t, err, "")
			check.Length(t, "interfaces", nics, 1)
			check.Equal(t, "sources", describe(nics[0].Guest), test.want)
			check.Equal(t, "IPv4 is dynamic", nics[0].Guest.IsDynamic(true), test.dynamic4)
			check.Equal(t, "IPv6 is dynamic", nics[0].Guest.IsDynamic(false), test.dynamic6)
			check.Equal(t, "either is", nics[0].IsDynamic(), test.dynamic4 || test.dynamic6)
		})
	}

	check.Equal(t, "an interface that we do not configure is dynamic", NIC{}.IsDynamic(), false)
}

// TestAnotherInterfaceHasNoDefaultRoute covers a gateway derived from the subnet, and an explicit one.
func TestAnotherInterfaceHasNoDefaultRoute(t *testing.T) {
	tests := map[string]struct{ gateway, first, second string }{
		"of the subnet": {"", "10.0.0.1", "invalid IP"},
		"written":       {"10.0.0.254", "10.0.0.254", "10.0.0.254"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			network := infrav1.GuestNetwork{Addressing: ranges(2)}
			network.Gateway = test.gateway
			second := network
			second.Interface = "enp2s0"
			spec := specOf(network)
			spec.AdditionalNetworks = []infrav1.AdditionalNetwork{more(infrav1.OLVMNetwork{}, &second)}

			nics, err := BuildNICs(spec, infrav1.OLVMClusterSpec{})
			check.Error(t, err, "")
			check.Equal(t, "gateway of the first", nics[0].Guest.Pools[0].Gateway.String(), test.first)
			check.Equal(t, "gateway of the second", nics[1].Guest.Pools[0].Gateway.String(), test.second)
		})
	}
}

// TestTheGatewayOfAClaimedAddress covers an address from an IPAM provider with the gateway of its pool.
func TestTheGatewayOfAClaimedAddress(t *testing.T) {
	gateways := infrav1.Addressing{Gateway: "10.0.0.254", IPv6: &infrav1.IPv6Network{Gateway: "fd00::254"}}

	tests := map[string]struct {
		addressing infrav1.Addressing
		first      bool
		address    string
		want       string
	}{
		"that of the pool":                     {infrav1.Addressing{}, true, "10.0.0.7/24", "10.0.0.1"},
		"that of the pool, IPv6":               {infrav1.Addressing{}, true, "fd00::7/64", "10.0.0.1"},
		"another interface has none":           {infrav1.Addressing{}, false, "10.0.0.7/24", "invalid IP"},
		"the one that is written":              {gateways, true, "10.0.0.7/24", "10.0.0.254"},
		"the one that is written, IPv6":        {gateways, true, "fd00::7/64", "fd00::254"},
		"another interface, and it is written": {gateways, false, "fd00::7/64", "fd00::254"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := &GuestNIC{First: test.first, FromPools: pool}
			check.Error(t, g.addGateways(test.addressing, "f"), "")
			got := g.ToAddress(netip.MustParsePrefix(test.address), netip.MustParseAddr("10.0.0.1"))
			check.Equal(t, "address", got.Prefix.String(), test.address)
			check.Equal(t, "gateway", got.Gateway.String(), test.want)
		})
	}
}

func TestNetworkConfigurationsThatAreRefused(t *testing.T) {
	const at = "spec.virtualMachine.network"

	static := func(change func(*infrav1.GuestNetwork)) infrav1.OLVMMachineSpec {
		network := infrav1.GuestNetwork{Addressing: ranges(4)}
		change(&network)

		return specOf(network)
	}
	second := func(network infrav1.OLVMNetwork, guest infrav1.GuestNetwork) infrav1.OLVMMachineSpec {
		spec := specOf(dhcp())
		spec.AdditionalNetworks = []infrav1.AdditionalNetwork{more(network, &guest)}

		return spec
	}
	dhcpAt := func(name string) infrav1.GuestNetwork {
		network := dhcp()
		network.Interface = name

		return network
	}
	cluster := infrav1.OLVMClusterSpec{
		ControlPlaneEndpoint: infrav1.APIEndpoint{Host: "10.0.0.13"},
		ControlPlaneServices: &infrav1.ControlPlaneServices{AdditionalVirtualIP: "fd00::11"},
		IPProfiles:           []infrav1.IPProfile{{Name: "one"}, {Name: "two", Addressing: ranges(4)}},
	}

	tests := map[string]struct {
		spec                   infrav1.OLVMMachineSpec
		reason, field, message string
	}{
		"a name of the engine twice": {
			second(infrav1.OLVMNetwork{VNICName: "nic1"}, dhcpAt("enp2s0")),
			infrav1.InvalidHardwareReason, "spec.additionalNetworks[0].vnicName", `the name "nic1" is used twice`,
		},
		"a name of the guest twice": {
			second(infrav1.OLVMNetwork{}, dhcpAt("enp1s0")),
			infrav1.InvalidHardwareReason, "spec.additionalNetworks[0].guest.interface", `"enp1s0" is configured twice`,
		},
		"an interface that is emulated by nobody": {
			second(infrav1.OLVMNetwork{InterfaceType: "ne2000"}, dhcpAt("enp2s0")),
			infrav1.InvalidHardwareReason, "spec.additionalNetworks[0].interfaceType",
			`"ne2000" is not one of virtio, e1000, e1000e, rtl8139; correct it`,
		},
		"a profile that is not there": {
			specOf(infrav1.GuestNetwork{IPProfileName: "three"}),
			infrav1.IPProfileNotFoundReason, at + ".ipProfileName", `no IP profile "three", it has ["one" "two"]`,
		},
		"a profile that says nothing": {
			specOf(infrav1.GuestNetwork{IPProfileName: "one"}),
			infrav1.AddressRangeInvalidReason, "OLVMCluster spec.ipProfiles[0]", "it has no source of addresses",
		},
		"nothing": {
			specOf(infrav1.GuestNetwork{}), infrav1.AddressRangeInvalidReason, at, "it has no source of addresses",
		},
		"a subnet that is none": {
			static(func(n *infrav1.GuestNetwork) { n.IPv4.Subnet = "ten" }),
			infrav1.AddressRangeInvalidReason, at + ".ipv4.subnet", `"ten"`,
		},
		"a range of IPv6 that is none": {
			static(func(n *infrav1.GuestNetwork) { n.IPv6.IPAddresses = []string{"fd00::x"} }),
			infrav1.AddressRangeInvalidReason, at + ".ipv6.ipAddresses[0]", `"fd00::x"`,
		},
		"a gateway of pools that is none": {
			specOf(infrav1.GuestNetwork{AddressesFromPools: pool, Addressing: infrav1.Addressing{Gateway: "one"}}),
			infrav1.AddressRangeInvalidReason, at + ".gateway", `"one" is not an IPv4 address`,
		},
		"a gateway of pools that is of IPv6": {
			specOf(infrav1.GuestNetwork{AddressesFromPools: pool, Addressing: infrav1.Addressing{Gateway: "fd00::1"}}),
			infrav1.AddressRangeInvalidReason, at + ".gateway", `"fd00::1" is not an IPv4 address`,
		},
		"a subnet of IPv6 without addresses": {
			static(func(n *infrav1.GuestNetwork) { n.IPv6 = &infrav1.IPv6Network{Subnet: "fd00::/64"} }),
			infrav1.AddressRangeInvalidReason, at + ".ipv6.subnet", "it has no ipv6.ipAddresses",
		},
		"a gateway of IPv6 without addresses": {
			static(func(n *infrav1.GuestNetwork) { n.IPv6 = &infrav1.IPv6Network{Gateway: "fd00::1"} }),
			infrav1.AddressRangeInvalidReason, at + ".ipv6.gateway",
			`"fd00::1" is a gateway, but there are no static IPv6`,
		},
		"a gateway of IPv6 that is of IPv4": {
			specOf(infrav1.GuestNetwork{AddressesFromPools: pool, Addressing: infrav1.Addressing{
				IPv6: &infrav1.IPv6Network{Gateway: "10.0.0.1"},
			}}),
			infrav1.AddressRangeInvalidReason, at + ".ipv6.gateway", `"10.0.0.1" is a gateway, but`,
		},
		"a gateway of IPv6 that is none": {
			specOf(infrav1.GuestNetwork{AddressesFromPools: pool, Addressing: infrav1.Addressing{
				IPv6: &infrav1.IPv6Network{Gateway: "one"},
			}}),
			infrav1.AddressRangeInvalidReason, at + ".ipv6.gateway", `"one" is a gateway, but`,
		},
		"a name server that is a name": {
			static(func(n *infrav1.GuestNetwork) { n.DNSServers = []string{"10.0.0.3", "dns.example.com"} }),
			infrav1.AddressRangeInvalidReason, at + ".dnsServers[1]", "is not the IP address of a server",
		},
		"a name server with a zone": {
			static(func(n *infrav1.GuestNetwork) { n.DNSServers = []string{"fe80::1%eth0"} }),
			infrav1.AddressRangeInvalidReason, at + ".dnsServers[0]", "is not the IP address of a server",
		},
		"a name server that is nowhere": {
			static(func(n *infrav1.GuestNetwork) { n.DNSServers = []string{"0.0.0.0"} }),
			infrav1.AddressRangeInvalidReason, at + ".dnsServers[0]", "is not the IP address of a server",
		},
		"a name server that is many": {
			static(func(n *infrav1.GuestNetwork) { n.DNSServers = []string{"ff02::1"} }),
			infrav1.AddressRangeInvalidReason, at + ".dnsServers[0]", "is not the IP address of a server",
		},
		"a domain that is none": {
			static(func(n *infrav1.GuestNetwork) { n.SearchDomains = []string{"example.com", "a b"} }),
			infrav1.AddressRangeInvalidReason, at + ".searchDomains[1]", `"a b" is not a domain`,
		},
		"the control plane endpoint in a range": {
			static(func(n *infrav1.GuestNetwork) { n.IPv6 = nil }),
			infrav1.EndpointInAddressRangeReason, at + ".ipv4.ipAddresses",
			"the control plane endpoint 10.0.0.13 is inside the machine ranges 10.0.0.10-10.0.0.13",
		},
		"its additional address in a range of a profile": {
			specOf(infrav1.GuestNetwork{IPProfileName: "two"}),
			infrav1.EndpointInAddressRangeReason, "OLVMCluster spec.ipProfiles[1].ipv4.ipAddresses", "10.0.0.13",
		},
		"its additional address in a range of IPv6": {
			static(func(n *infrav1.GuestNetwork) { n.IPv4 = nil }),
			infrav1.EndpointInAddressRangeReason, at + ".ipv6.ipAddresses",
			"the additional address of the control plane endpoint fd00::11 is inside the machine ranges fd00::10-fd00::13",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			nics, err := BuildNICs(test.spec, cluster)

			var blocked *blocker.Error
			if !errors.As(err, &blocked) {
				t.Fatalf("got %+v, %v", nics, err)
			}

			check.Equal(t, "reason", blocked.Reason, test.reason)
			check.Equal(t, "field", blocked.Field, test.field)
			check.Contains(t, "message", blocked.Message, test.message)
		})
	}
}

// TestAVMOfAPoolKeepsItsNetwork has a machine that adopts a VM, and another one with a network configuration of its
// own.
func TestAVMOfAPoolKeepsItsNetwork(t *testing.T) {
	spec := specOf(infrav1.GuestNetwork{})
	spec.FromInventory = &infrav1.FromInventory{InventoryName: "pool"}
	nics, err := BuildNICs(spec, infrav1.OLVMClusterSpec{})
	check.Error(t, err, "")
	check.Length(t, "interfaces", nics, 1)
	check.Equal(t, "it keeps its network", nics[0].Guest.Own, true)
	check.Equal(t, "only the guest knows its address", nics[0].IsDynamic(), true)
	check.Equal(t, "IPv6, too", nics[0].Guest.IsDynamic(false), true)
	check.Equal(t, "field", nics[0].Field, "spec.fromInventory.")

	spec.VirtualMachine.Network = infrav1.GuestNetwork{Addressing: ranges(2)}
	nics, err = BuildNICs(spec, infrav1.OLVMClusterSpec{})
	check.Error(t, err, "")
	check.Equal(t, "it keeps its network though another is written", nics[0].Guest.Own, false)
}

func TestVirtualAddressesOfACluster(t *testing.T) {
	spec := infrav1.OLVMClusterSpec{
		ControlPlaneEndpoint: infrav1.APIEndpoint{Host: "10.0.0.5"},
		ControlPlaneServices: &infrav1.ControlPlaneServices{
			AdditionalVirtualIP: "fd00::5", IngressVirtualIP: "10.0.0.6", AdditionalIngressVirtualIP: "fd00::6",
		},
	}

	describe := func(spec infrav1.OLVMClusterSpec) []string {
		var out []string
		for _, v := range CollectVirtualAddresses(spec) {
			out = append(out, v.Address.String()+" "+v.What)
		}

		return out
	}
	check.Equal(t, "addresses", describe(spec), []string{
		"10.0.0.5 the control plane endpoint",
		"fd00::5 the additional address of the control plane endpoint",
		"10.0.0.6 the ingress address",
		"fd00::6 the additional ingress address",
	})

	spec.ControlPlaneServices = nil
	check.Equal(t, "the endpoint alone", describe(spec), []string{"10.0.0.5 the control plane endpoint"})
	spec.ControlPlaneEndpoint.Host = "api.example.com"
	check.Equal(t, "a name", describe(spec), nil)
}

// TestAddressesOfLoadBalancers expects that the endpoint is omitted in any spelling.
func TestAddressesOfLoadBalancers(t *testing.T) {
	of := &infrav1alpha1.OLVMSupportServices{}
	of.Spec.LoadBalancers = []infrav1alpha1.SupportLoadBalancer{
		{Name: "api", VirtualIP: "FD00::5"}, {Name: "apps", VirtualIP: "10.0.0.7"}, {Name: "none"},
	}
	spec := infrav1.OLVMClusterSpec{ControlPlaneEndpoint: infrav1.APIEndpoint{Host: "fd00::5"}}
	check.Equal(t, "addresses", CollectSupportAddresses(spec, of), []VirtualAddress{{
		netip.MustParseAddr("10.0.0.7"), "the address of load balancer apps", "spec.loadBalancers[1].virtualIP",
	}})
	check.Length(t, "without support services", CollectSupportAddresses(spec, nil), 0)
}

func TestRecordedAddresses(t *testing.T) {
	tests := map[string]struct {
		text, problem string
		want          Addresses
	}{
		"none":       {"", "", nil},
		"given back": {"{}", "", Addresses{}},
		"two": {
			`{"nic1":["10.0.0.7","fd00::7"]}`, "",
			Addresses{"nic1": {netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")}},
		},
		"no JSON":      {"10.0.0.7", "restore its value", nil},
		"no address":   {`{"nic1":["ten"]}`, "restore its value", nil},
		"with a zone":  {`{"nic1":["fe80::7%eth0"]}`, `"fe80::7%eth0" has a zone; remove the zone`, nil},
		"with a field": {`{"nic1":["x"]}`, "metadata.annotations[" + infrav1.AddressesAnnotation + "]: ", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := &infrav1.OLVMMachine{}
			m.Annotations = map[string]string{infrav1.AddressesAnnotation: test.text}
			got, err := ParseRecorded(m)
			check.Error(t, err, test.problem)
			check.Equal(t, "addresses", fmt.Sprint(got), fmt.Sprint(test.want))
		})
	}
}

func TestAddressesOfAProvisionedVM(t *testing.T) {
	got := ParseProvisioned(infrav1alpha1.ProvisionedVM{NICs: []infrav1alpha1.ProvisionedNIC{
		{Name: "nic1", IPAddresses: []string{"fd00::7", "10.0.0.7"}}, {Name: "nic2"},
		{Name: "nic3", IPAddresses: []string{"x"}},
	}})
	check.Equal(t, "interfaces with addresses", len(got), 1)
	check.Equal(t, "addresses", fmt.Sprint(got["nic1"]), "[10.0.0.7 fd00::7]")
}

// TestOneMachineHoldsSoManyAddressesAtMost has records with more addresses than any machine can have.
func TestOneMachineHoldsSoManyAddressesAtMost(t *testing.T) {
	list := func(from, size int) []netip.Addr {
		var out []netip.Addr
		for i := range size {
			out = append(out, netip.AddrFrom4([4]byte{10, 0, byte(from), byte(i)}))
		}

		return out
	}

	tests := map[string]struct {
		recorded Addresses
		want     int
	}{
		"few":               {Addresses{"nic1": list(1, 2)}, 2},
		"all":               {Addresses{"nic1": list(1, maxHeld)}, maxHeld},
		"one too many":      {Addresses{"nic1": list(1, maxHeld+1)}, maxHeld},
		"of two interfaces": {Addresses{"nic1": list(1, maxHeld-1), "nic2": list(2, 5)}, maxHeld},
	}
	for name, test := range tests {
		held := Held{}
		held.AddMachine(specOf(dhcp()), test.recorded, "m")
		check.Equal(t, name, len(held.HoldersOn("")), test.want)
	}

	// The network of a removed interface is unknown, so the address counts on all networks.
	held := Held{}
	held.AddMachine(specOf(dhcp()), Addresses{"nic1": list(1, 2), "gone": list(3, 1)}, "m")
	check.Equal(t, "on the network of the machine", len(held.HoldersOn("vlan")), 3)
	check.Equal(t, "on another network", len(held.HoldersOn("else")), 1)
}

func TestWhoHoldsAnAddressOnANetwork(t *testing.T) {
	held := Held{}
	a, b, c := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	held.AddAddress("one", a, "A")
	held.AddAddress("two", b, "B")
	held.AddAddress("", c, "C")

	check.Equal(t, "on one", fmt.Sprint(held.HoldersOn("one")), fmt.Sprint(map[netip.Addr]string{a: "A", c: "C"}))
	check.Equal(t, "on two", fmt.Sprint(held.HoldersOn("two")), fmt.Sprint(map[netip.Addr]string{b: "B", c: "C"}))
	check.Equal(t, "on any", len(held.HoldersOn("")), 3)
}

func TestNamesAndAddressesOfAMachine(t *testing.T) {
	m := &infrav1.OLVMMachine{}
	m.Status.Addresses = []clusterv1.MachineAddress{
		{Type: clusterv1.MachineHostName, Address: "host"}, {Type: clusterv1.MachineInternalDNS, Address: "in"},
		{Type: clusterv1.MachineExternalDNS, Address: "out"}, {Type: clusterv1.MachineInternalIP, Address: "10.0.0.7"},
		{Type: clusterv1.MachineExternalIP, Address: "fd00::7"}, {Type: clusterv1.MachineInternalIP, Address: "ten"},
		{Type: "Else", Address: "10.0.0.8"},
	}
	names, ips := CollectNamesAndAddresses(m)
	check.Equal(t, "names", names, []string{"host", "in", "out"})
	check.Equal(t, "addresses", fmt.Sprint(ips), fmt.Sprint([]net.IP{net.ParseIP("10.0.0.7"), net.ParseIP("fd00::7")}))

	check.Equal(t, "a machine without a VM may have one", CanHaveVM(m), false)
	m.Spec.ProviderID = "olvm://x"
	check.Equal(t, "a machine with a VM may have one", CanHaveVM(m), true)
	m.Spec.ProviderID, m.Annotations = "", map[string]string{infrav1.CreateRequestedAnnotation: "x"}
	check.Equal(t, "a machine whose VM was asked for may have one", CanHaveVM(m), true)
}
