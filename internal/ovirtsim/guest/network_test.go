package guest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
)

// networkOf starts the network of a guest with the given files from user data. Their default mode is 0600.
func networkOf(machine api.GuestVM, keyfiles map[string]string, commands ...string) (*network, error) {
	sys := newSystem()
	sys.commands = commands

	for name, content := range keyfiles {
		mode := uint32(0o600)
		if text, ok := strings.CutPrefix(content, "0644 "); ok {
			content, mode = text, 0o644
		}

		sys.write(keyfileFolder+"/"+name, strings.ReplaceAll(content, "|", "\n"), mode)
	}

	profiles, warnings, err := profilesOf(machine, sys)
	if err != nil {
		return nil, err
	}

	return configureNetwork(machine.Interfaces, profiles, warnings)
}

// says describes a network in one line: the node's addresses, and the report about each interface.
func (n *network) says() string {
	out := strings.Join(n.nodeAddresses, ",")
	for _, device := range n.reported {
		out += fmt.Sprintf(" %s=%s", device.Name, strings.Join(device.Addresses, ","))
	}

	return out
}

func devices(count int, lease string) []api.GuestInterface {
	var out []api.GuestInterface
	for i := range count {
		out = append(out, api.GuestInterface{
			Name:    fmt.Sprintf("enp%ds0", i+1),
			MAC:     fmt.Sprintf("56:6f:1a:00:00:%02x", i+1),
			Network: "ovirtmgmt",
		})
	}

	if count > 0 {
		out[0].DHCP = lease
	}

	return out
}

func v4(device, address, gateway string) api.GuestNIC {
	return api.GuestNIC{
		Interface:    device,
		BootProtocol: "static",
		Address:      address,
		Netmask:      "255.255.255.0",
		Gateway:      gateway,
	}
}

func v6(nic api.GuestNIC, address, prefix, gateway string) api.GuestNIC {
	nic.IPv6BootProtocol, nic.IPv6Address, nic.IPv6Prefix, nic.IPv6Gateway = "static", address, prefix, gateway
	return nic
}

type nics = []api.GuestNIC

func TestTheNetworkOfAGuest(t *testing.T) {
	none := api.GuestNIC{Interface: "enp1s0", BootProtocol: "none"}
	slaac := map[string]string{
		"a.nmconnection": "[connection]|interface-name=enp1s0|[ipv4]|method=manual|address1=10.0.0.5/24,10.0.0.1|[ipv6]|method=auto",
	}
	slaacAlone := map[string]string{
		"a.nmconnection": "[connection]|interface-name=enp1s0|[ipv4]|method=disabled|[ipv6]|method=auto",
	}
	up := []string{"nmcli connection reload", "nmcli --wait 60 connection up enp1s0"}

	tests := map[string]struct {
		ignition bool
		devices  []api.GuestInterface
		nics     nics
		files    map[string]string
		commands []string
		want     string // the result of says, or the start of an error
	}{
		// These networks are valid.
		"cloud-init: a static address": {
			devices: devices(1, ""),
			nics:    nics{v4("enp1s0", "10.0.0.5", "10.0.0.1")},
			want:    "10.0.0.5 enp1s0=10.0.0.5",
		},
		"cloud-init: DHCP": {
			devices: devices(1, "10.0.0.50/24"),
			nics:    nics{{Interface: "enp1s0", BootProtocol: "dhcp"}},
			want:    "10.0.0.50 enp1s0=10.0.0.50",
		},
		"cloud-init: two families": {
			devices: devices(1, ""),
			nics:    nics{v6(v4("enp1s0", "10.0.0.5", "10.0.0.1"), "fd00::5", "64", "fd00::1")},
			want:    "10.0.0.5,fd00::5 enp1s0=10.0.0.5,fd00::5",
		},
		"cloud-init: two families, IPv6 with the router as it is on the link": {
			devices: devices(1, ""),
			nics:    nics{v6(v4("enp1s0", "10.0.0.5", "10.0.0.1"), "fd00::5", "64", "fe80::1")},
			want:    "10.0.0.5,fd00::5 enp1s0=10.0.0.5,fd00::5",
		},
		"cloud-init: two families, IPv6 with a default route of the device": {
			devices: devices(1, ""),
			nics:    nics{v6(v4("enp1s0", "10.0.0.5", "10.0.0.1"), "fd00::5", "64", "")},
			want:    "10.0.0.5,fd00::5 enp1s0=10.0.0.5,fd00::5",
		},
		"cloud-init: IPv6 only": {
			devices: devices(1, ""),
			nics:    nics{v6(none, "fd00::5", "64", "fd00::1")},
			want:    "fd00::5 enp1s0=fd00::5",
		},
		"cloud-init: IPv4, and a link-local address of its own making": {
			devices: devices(1, ""), nics: nics{v4("enp1s0", "10.0.0.5", "10.0.0.1")}, files: slaac, commands: up,
			want: "10.0.0.5 enp1s0=10.0.0.5,fe80::546f:1aff:fe00:1"},
		"cloud-init: IPv4, and an address in the prefix that a router announces": {
			devices: []api.GuestInterface{{Name: "enp1s0", MAC: "56:6f:1a:00:00:01", SLAAC: "fd00:99::/64"}},
			nics:    nics{v4("enp1s0", "10.0.0.5", "10.0.0.1")}, files: slaac, commands: up,
			want: "10.0.0.5,fd00:99::546f:1aff:fe00:1 enp1s0=10.0.0.5,fe80::546f:1aff:fe00:1,fd00:99::546f:1aff:fe00:1",
		},
		"cloud-init: two interfaces": {
			devices: devices(2, ""),
			nics:    nics{v4("enp2s0", "10.0.1.5", ""), v4("enp1s0", "10.0.0.5", "10.0.0.1")},
			want:    "10.0.0.5 enp1s0=10.0.0.5 enp2s0=10.0.1.5",
		},
		"cloud-init: two interfaces, of which one has nothing": {
			devices: devices(2, ""),
			nics:    nics{v4("enp2s0", "10.0.1.5", "10.0.1.1")},
			want:    "10.0.1.5 enp2s0=10.0.1.5",
		},
		"cloud-init: two interfaces, of which one uses DHCP": {
			devices: devices(2, "10.0.0.50/24"),
			nics:    nics{v4("enp2s0", "10.0.1.5", "")},
			want:    "10.0.0.50 enp1s0=10.0.0.50 enp2s0=10.0.1.5",
		},
		"cloud-init: a keyfile": {
			devices: devices(1, ""),
			files: map[string]string{
				"a.nmconnection": "[connection]|interface-name=enp1s0|[ipv4]|method=manual|address1=10.0.0.7/24,10.0.0.1",
			},
			want: "10.0.0.7 enp1s0=10.0.0.7"},
		"nothing configured: DHCP":         {devices: devices(1, "10.0.0.50/24"), want: "10.0.0.50 enp1s0=10.0.0.50"},
		"nothing configured: DHCP of IPv6": {devices: devices(1, "fd00::50/64"), want: "fd00::50 enp1s0=fd00::50"},
		"Ignition: the engine's configuration does not reach it": {
			ignition: true,
			devices:  devices(1, "10.0.0.50/24"),
			nics:     nics{v4("enp1s0", "10.0.0.5", "10.0.0.1")},
			want:     "10.0.0.50 enp1s0=10.0.0.50",
		},
		"Ignition: a keyfile with the gateway beside the address": {
			ignition: true,
			devices:  devices(1, "10.0.0.50/24"),
			files: map[string]string{
				"a.nmconnection": "# made|[connection]|id=a|type=ethernet|interface-name=enp1s0||[ipv4]|method=manual|address1=10.0.0.7/24,10.0.0.1|dns=10.0.0.2;|[ipv6]|method=disabled",
			},
			want: "10.0.0.7 enp1s0=10.0.0.7"},
		"Ignition: a keyfile with several addresses, and two families": {
			ignition: true,
			devices:  devices(1, ""),
			files: map[string]string{
				"a.nmconnection": "[connection]|interface-name=enp1s0|[ipv4]|method=manual|addresses=10.0.0.7/24;10.0.0.8/24;|gateway=10.0.0.1|[ipv6]|method=manual|address=fd00::7/64|gateway=fd00::1",
			},
			want: "10.0.0.7,10.0.0.8,fd00::7 enp1s0=10.0.0.7,10.0.0.8,fd00::7"},
		"Ignition: a keyfile with DHCP, and IPv6 by itself": {
			ignition: true,
			devices:  devices(1, "10.0.0.50/24"),
			files: map[string]string{
				"a.nmconnection": "[connection]|interface-name=enp1s0|[ipv4]|method=auto|[ipv6]|method=auto",
			},
			want: "10.0.0.50 enp1s0=10.0.0.50,fe80::546f:1aff:fe00:1"},
		"Ignition: a keyfile that says nothing of IPv4": {
			ignition: true,
			devices:  devices(1, "10.0.0.50/24"),
			files: map[string]string{
				"a.nmconnection": "[connection]|interface-name=enp1s0|[ipv6]|method=link-local",
			},
			want: "10.0.0.50 enp1s0=10.0.0.50,fe80::546f:1aff:fe00:1"},
		"Ignition: a keyfile by MAC address, and one for whatever is left": {
			ignition: true, devices: devices(2, ""), files: map[string]string{
				"a.nmconnection": "[connection]|id=rest|[ipv4]|method=manual|address1=10.0.0.7/24,10.0.0.1",
				"b.nmconnection": "[ethernet]|mac-address=56:6F:1A:00:00:02|[ipv4]|method=manual|address1=10.0.1.7/24"},
			want: "10.0.0.7 enp1s0=10.0.0.7 enp2s0=10.0.1.7"},
		"Ignition: a keyfile with open permissions is ignored": {
			ignition: true,
			devices:  devices(1, "10.0.0.50/24"),
			files: map[string]string{
				"a.nmconnection": "0644 [connection]|interface-name=enp1s0|[ipv4]|method=manual|address1=10.0.0.7/24,10.0.0.1",
			},
			want: "10.0.0.50 enp1s0=10.0.0.50"},
		"Ignition: a keyfile that does not start by itself is ignored": {
			ignition: true,
			devices:  devices(1, "10.0.0.50/24"),
			files: map[string]string{
				"a.nmconnection": "[connection]|interface-name=enp1s0|autoconnect=false|[ipv4]|method=manual|address1=10.0.0.7/24",
			},
			want: "10.0.0.50 enp1s0=10.0.0.50"},
		"Ignition: files that are no keyfiles": {
			ignition: true,
			devices:  devices(1, "10.0.0.50/24"),
			files:    map[string]string{"README": "not a keyfile"},
			want:     "10.0.0.50 enp1s0=10.0.0.50",
		},

		// These networks are invalid.
		"no network interface": {want: "network: the VM has no network interface"},
		"nothing configured and no DHCP": {
			devices: devices(1, ""),
			want:    `network: no interface has an address: enp1s0 uses DHCP (nothing configures it) and its network "ovirtmgmt" has no DHCP`,
		},
		"DHCP where there is none": {
			devices: devices(1, ""),
			nics:    nics{{Interface: "enp1s0", BootProtocol: "dhcp"}},
			want:    "network: no interface has an address: enp1s0 uses DHCP (the NIC configuration",
		},
		"two interfaces without addresses, each with its reason": {
			devices: devices(2, ""),
			nics:    nics{none},
			want: "network: no interface has an address: enp1s0 has none configured (the NIC configuration of " +
				"the VM's initialization); enp2s0 uses DHCP",
		},
		"a link-local address only": {
			devices: devices(1, ""),
			files:   slaacAlone,
			want:    "network: no interface has an address: enp1s0 has a link-local address only",
		},
		"a link-local address of no MAC address": {
			devices: []api.GuestInterface{{Name: "enp1s0"}},
			files:   slaacAlone,
			want:    "network: enp1s0: it has no usable MAC address",
		},
		"SLAAC by the engine, which no engine hands on": {
			devices: devices(1, ""),
			nics:    nics{{Interface: "enp1s0", IPv6BootProtocol: "autoconf"}},
			want:    `network: enp1s0: IPv6: there is no boot protocol "autoconf"`,
		},
		"a keyfile beside the engine's configuration that nothing puts to use": {
			devices: devices(1, ""),
			nics:    nics{v4("enp1s0", "10.0.0.5", "10.0.0.1")},
			files:   slaac,
			want:    "network: enp1s0 is configured twice",
		},
		"a lease that is none": {
			devices: devices(1, "10.0.0.50"),
			want:    `network: the DHCP lease "10.0.0.50" of enp1s0 is unusable`,
		},
		"an unknown interface": {
			devices: devices(2, ""),
			nics:    nics{v4("eth0", "10.0.0.5", "10.0.0.1")},
			want:    `network: the guest has no interface "eth0" (the NIC configuration of the VM's initialization), it has enp1s0, enp2s0`,
		},
		"an interface twice": {
			devices: devices(1, ""),
			nics:    nics{v4("enp1s0", "10.0.0.5", "10.0.0.1"), v4("enp1s0", "10.0.0.6", "10.0.0.1")},
			want:    "network: enp1s0 is configured twice",
		},
		"an interface by the engine and by a keyfile": {
			devices: devices(1, ""),
			nics:    nics{v4("enp1s0", "10.0.0.5", "10.0.0.1")},
			files:   map[string]string{"a.nmconnection": "[connection]|interface-name=enp1s0|[ipv4]|method=auto"},
			want: "network: enp1s0 is configured twice, by the NIC configuration of the VM's initialization and " +
				"by /etc/NetworkManager/system-connections/a.nmconnection",
		},
		"no address": {
			devices: devices(1, ""),
			nics:    nics{v4("enp1s0", "", "10.0.0.1")},
			want:    `network: enp1s0 has an unusable configuration: address ""`,
		},
		"an address that is none": {
			devices: devices(1, ""),
			nics:    nics{v4("enp1s0", "10.0.0.300", "10.0.0.1")},
			want:    `network: enp1s0 has an unusable configuration: address "10.0.0.300"`,
		},
		"a group's address": {
			devices: devices(1, ""),
			nics:    nics{v4("enp1s0", "224.0.0.5", "224.0.0.1")},
			want:    "network: enp1s0 has an unusable configuration",
		},
		"everybody's address": {
			devices: devices(1, ""),
			nics:    nics{v4("enp1s0", "0.0.0.0", "10.0.0.1")},
			want:    "network: enp1s0 has an unusable configuration",
		},
		"an IPv6 address as IPv4": {
			devices: devices(1, ""),
			nics:    nics{v4("enp1s0", "fd00::5", "10.0.0.1")},
			want:    "network: enp1s0 has an unusable configuration",
		},
		"an IPv4 address as IPv6": {
			devices: devices(1, ""),
			nics:    nics{v6(none, "10.0.0.5", "24", "10.0.0.1")},
			want:    "network: enp1s0 has an unusable configuration: IPv6 address",
		},
		"an IPv4 address within IPv6": {
			devices: devices(1, ""),
			nics:    nics{v6(none, "::ffff:10.0.0.5", "64", "")},
			want:    "network: enp1s0 has an unusable configuration: IPv6 address",
		},
		"an IPv6 address without a prefix": {
			devices: devices(1, ""),
			nics:    nics{v6(none, "fd00::5", "", "fd00::1")},
			want:    "network: enp1s0 has an unusable configuration: IPv6 address",
		},
		"a netmask with holes": {
			devices: devices(1, ""),
			nics: nics{
				{
					Interface:    "enp1s0",
					BootProtocol: "static",
					Address:      "10.0.0.5",
					Netmask:      "255.0.255.0",
					Gateway:      "10.0.0.1",
				},
			},
			want: `network: enp1s0 has an unusable configuration: address "10.0.0.5", netmask "255.0.255.0"`},
		"no netmask": {
			devices: devices(1, ""),
			nics:    nics{{Interface: "enp1s0", BootProtocol: "static", Address: "10.0.0.5", Gateway: "10.0.0.1"}},
			want:    "network: enp1s0 has an unusable configuration",
		},
		"a gateway that is none": {
			devices: devices(1, ""),
			nics:    nics{v4("enp1s0", "10.0.0.5", "router")},
			want:    "network: enp1s0 has an unusable configuration",
		},
		"a gateway elsewhere": {
			devices: devices(1, ""),
			nics:    nics{v4("enp1s0", "10.0.0.5", "10.9.0.1")},
			want:    "gateway 10.9.0.1 is not in the subnet 10.0.0.0/24",
		},
		"a gateway elsewhere (IPv6)": {
			devices: devices(1, ""),
			nics:    nics{v6(none, "fd00::5", "64", "fd01::1")},
			want:    "gateway fd01::1 is not in the subnet fd00::/64",
		},
		"a gateway of another family": {
			devices: devices(1, ""),
			nics:    nics{v6(none, "fd00::5", "64", "10.0.0.1")},
			want:    "gateway 10.0.0.1 is not in the subnet fd00::/64",
		},
		"no gateway": {
			devices: devices(1, ""),
			nics:    nics{v4("enp1s0", "10.0.0.5", "")},
			want:    "network: enp1s0 has a static address and no gateway, so the guest has no default route",
		},
		"no gateway of IPv4, but of IPv6": {
			devices: devices(1, ""),
			nics:    nics{v6(v4("enp1s0", "10.0.0.5", ""), "fd00::5", "64", "fd00::1")},
			want:    "network: enp1s0 has a static address and no gateway",
		},
		"no gateway of IPv6 alone": {
			devices: devices(1, ""),
			nics:    nics{v6(none, "fd00::5", "64", "")},
			want:    "network: enp1s0 has a static address and no gateway",
		},
		"two interfaces with one address": {
			devices: devices(2, ""),
			nics:    nics{v4("enp1s0", "10.0.0.5", "10.0.0.1"), v4("enp2s0", "10.0.0.5", "")},
			want:    "network: enp1s0 and enp2s0 have the same address 10.0.0.5",
		},
		"two interfaces with one address, one by DHCP": {
			devices: devices(2, "10.0.0.5/24"),
			nics:    nics{v4("enp2s0", "10.0.0.5", "")},
			want:    "network: enp1s0 and enp2s0 have the same address 10.0.0.5",
		},
		"a boot protocol of nobody's": {
			devices: devices(1, ""),
			nics:    nics{{Interface: "enp1s0", BootProtocol: "bootp"}},
			want:    `network: enp1s0: there is no boot protocol "bootp"`,
		},
		"a boot protocol of nobody's (IPv6)": {
			devices: devices(1, ""),
			nics:    nics{{Interface: "enp1s0", IPv6BootProtocol: "slaac"}},
			want:    `network: enp1s0: IPv6: there is no boot protocol "slaac"`,
		},
		"a keyfile with open permissions, and no DHCP": {
			ignition: true,
			devices:  devices(1, ""),
			files:    map[string]string{"a.nmconnection": "0644 [connection]|interface-name=enp1s0"},
			want:     `network: no interface has an address: enp1s0 uses DHCP (nothing configures it) and its network "ovirtmgmt" has no DHCP; NetworkManager ignores /etc/NetworkManager/system-connections/a.nmconnection: its permissions 0644 are insecure, they must be 0600`,
		},
		"a keyfile for an unknown interface": {
			ignition: true,
			devices:  devices(1, ""),
			files:    map[string]string{"a.nmconnection": "[connection]|interface-name=ens3"},
			want:     `network: the guest has no interface "ens3" (/etc/NetworkManager/system-connections/a.nmconnection), it has enp1s0`,
		},
		"a keyfile for an unknown MAC address": {
			ignition: true,
			devices:  devices(1, ""),
			files:    map[string]string{"a.nmconnection": "[ethernet]|mac-address=00:00:00:00:00:01"},
			want:     "network: the guest has no interface with MAC address 00:00:00:00:00:01",
		},
		"a keyfile that is none": {
			ignition: true,
			devices:  devices(1, ""),
			files:    map[string]string{"a.nmconnection": "enp1s0 up"},
			want:     "network: /etc/NetworkManager/system-connections/a.nmconnection: line 1 is neither",
		},
		"a keyfile of a bond": {
			ignition: true,
			devices:  devices(1, ""),
			files:    map[string]string{"a.nmconnection": "[connection]|type=bond"},
			want:     `network: /etc/NetworkManager/system-connections/a.nmconnection: connections of type "bond" are not simulated`,
		},
		"a keyfile with a method of its own": {
			ignition: true,
			devices:  devices(1, ""),
			files:    map[string]string{"a.nmconnection": "[ipv4]|method=shared"},
			want:     `network: /etc/NetworkManager/system-connections/a.nmconnection: [ipv4]: method "shared" is not simulated`,
		},
		"a keyfile without an address": {
			ignition: true,
			devices:  devices(1, ""),
			files:    map[string]string{"a.nmconnection": "[ipv4]|method=manual"},
			want: "network: /etc/NetworkManager/system-connections/a.nmconnection: [ipv4]: method is manual and " +
				"there is no address",
		},
		"a keyfile with an address and no method": {
			ignition: true,
			devices:  devices(1, ""),
			files:    map[string]string{"a.nmconnection": "[ipv6]|address1=fd00::7/64"},
			want:     "network: /etc/NetworkManager/system-connections/a.nmconnection: [ipv6]: there are addresses",
		},
		"a keyfile with an address that is none": {
			ignition: true,
			devices:  devices(1, ""),
			files:    map[string]string{"a.nmconnection": "[ipv4]|method=manual|address1=10.0.0.7"},
			want:     `network: /etc/NetworkManager/system-connections/a.nmconnection: [ipv4]: unusable address1 "10.0.0.7"`,
		},
		"a keyfile with a gateway elsewhere": {
			ignition: true,
			devices:  devices(1, ""),
			files:    map[string]string{"a.nmconnection": "[ipv4]|method=manual|address1=10.0.0.7/24,10.9.0.1"},
			want: "network: /etc/NetworkManager/system-connections/a.nmconnection: [ipv4]: gateway 10.9.0.1 is " +
				"not in the subnet 10.0.0.0/24",
		},
		"a keyfile without a gateway": {
			ignition: true,
			devices:  devices(1, ""),
			files:    map[string]string{"a.nmconnection": "[ipv4]|method=manual|address1=10.0.0.7/24"},
			want:     "network: enp1s0 has a static address and no gateway",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := networkOf(api.GuestVM{
				Ignition:   test.ignition,
				Interfaces: test.devices,
				NICs:       test.nics,
			}, test.files, test.commands...)
			if err != nil {
				if !strings.HasPrefix(err.Error(), "network: ") || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got error %v, want %q", err, test.want)
				}

				return
			}

			if got.says() != test.want {
				t.Errorf("got %q, want %q", got.says(), test.want)
			}
		})
	}
}
