package desired

import (
	"fmt"
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing/addressrange"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

func nic(name string, guest *addressing.GuestNIC) addressing.NIC {
	return addressing.NIC{
		OLVMNetwork: infrav1.OLVMNetwork{VNICName: name}, Guest: guest, Field: "spec.olvmNetwork.",
	}
}

func TestTheNetworkOfAGuest(t *testing.T) {
	static := func(text, gateway string) addressrange.Address {
		out := addressrange.Address{Prefix: netip.MustParsePrefix(text)}
		if gateway != "" {
			out.Gateway = netip.MustParseAddr(gateway)
		}

		return out
	}

	tests := map[string]struct {
		nics      []addressing.NIC
		addresses map[string][]addressrange.Address
		namePools bool
		want      []render.GuestNIC
		problem   string
	}{
		"DHCP of both families": {
			nics: []addressing.NIC{nic("nic1", &addressing.GuestNIC{
				Interface: "eth0", First: true, DHCPv4: true, DHCPv6: true,
			})},
			want: []render.GuestNIC{{
				Name: "eth0", DefaultRoute: true,
				IPv4: render.IP{Method: render.DHCP}, IPv6: render.IP{Method: render.DHCP},
			}},
		},
		"IPv6 that routers announce": {
			nics: []addressing.NIC{nic("nic1", &addressing.GuestNIC{Interface: "eth0", AutoConf: true})},
			want: []render.GuestNIC{{Name: "eth0", IPv6: render.IP{Method: render.AutoConf}}},
		},
		"an address of each family, and another interface": {
			nics: []addressing.NIC{
				nic("nic1", &addressing.GuestNIC{Interface: "eth0", First: true}),
				nic("nic2", &addressing.GuestNIC{Interface: "eth1"}),
			},
			addresses: map[string][]addressrange.Address{
				"nic1": {static("10.0.0.7/24", "10.0.0.1"), static("fd00::7/64", "fd00::1")},
				"nic2": {static("10.1.0.7/16", "")},
			},
			want: []render.GuestNIC{
				{
					Name: "eth0", DefaultRoute: true,
					IPv4: render.IP{
						Method: render.Static, Address: netip.MustParsePrefix("10.0.0.7/24"),
						Gateway: netip.MustParseAddr("10.0.0.1"),
					},
					IPv6: render.IP{
						Method: render.Static, Address: netip.MustParsePrefix("fd00::7/64"),
						Gateway: netip.MustParseAddr("fd00::1"),
					},
				},
				{Name: "eth1", IPv4: render.IP{Method: render.Static, Address: netip.MustParsePrefix("10.1.0.7/16")}},
			},
		},
		"an interface that we do not configure, and one that keeps its configuration": {
			nics: []addressing.NIC{nic("nic1", nil), nic("nic2", &addressing.GuestNIC{Interface: "eth1", Own: true})},
		},
		"two addresses of one family": {
			nics:      []addressing.NIC{nic("nic1", &addressing.GuestNIC{Field: "spec.virtualMachine.network"})},
			addresses: map[string][]addressrange.Address{"nic1": {static("10.0.0.7/24", ""), static("10.0.0.8/24", "")}},
			problem:   "spec.virtualMachine.network: it gets two addresses of one family, and 10.0.0.8 is the second",
		},
		"DHCP and an address of the same family": {
			nics:      []addressing.NIC{nic("nic1", &addressing.GuestNIC{Field: "f", DHCPv6: true})},
			addresses: map[string][]addressrange.Address{"nic1": {static("fd00::7/64", "")}},
			problem:   "fd00::7 is the second",
		},
		"the name of a pool, for a preview": {
			nics: []addressing.NIC{nic("nic1", &addressing.GuestNIC{
				Interface: "eth0", FromPools: []ipamv1.IPPoolReference{{Kind: "InClusterIPPool", Name: "a"}},
			})},
			namePools: true,
			want: []render.GuestNIC{{
				Name: "eth0", IPv4: render.IP{Method: render.Static, Placeholder: "(of InClusterIPPool a)"},
			}},
		},
		"an address that is known, for a preview": {
			nics: []addressing.NIC{nic("nic1", &addressing.GuestNIC{
				Interface: "eth0", FromPools: []ipamv1.IPPoolReference{{Kind: "InClusterIPPool", Name: "a"}},
			})},
			addresses: map[string][]addressrange.Address{"nic1": {static("10.0.0.7/24", "")}},
			namePools: true,
			want: []render.GuestNIC{{
				Name: "eth0", IPv4: render.IP{Method: render.Static, Address: netip.MustParsePrefix("10.0.0.7/24")},
			}},
		},
		"no pool to name, for a preview": {
			nics:      []addressing.NIC{nic("nic1", &addressing.GuestNIC{Interface: "eth0"})},
			namePools: true,
			want:      []render.GuestNIC{{Name: "eth0"}},
		},
		"a pool, but not for a preview": {
			nics: []addressing.NIC{nic("nic1", &addressing.GuestNIC{
				Interface: "eth0", FromPools: []ipamv1.IPPoolReference{{Kind: "InClusterIPPool", Name: "a"}},
			})},
			want: []render.GuestNIC{{Name: "eth0"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out render.Machine
			err := resolveGuests(Input{NICs: test.nics, Addresses: test.addresses, NamePools: test.namePools}, &out)
			check.Error(t, err, test.problem)
			check.Equal(t, "interfaces", fmt.Sprint(out.Guests), fmt.Sprint(test.want))
		})
	}
}

func TestNameServersOfAllInterfacesAreAskedOnce(t *testing.T) {
	var out render.Machine
	err := resolveGuests(Input{NICs: []addressing.NIC{
		nic("nic1", &addressing.GuestNIC{DNSServers: []string{"10.0.0.3", "10.0.0.2"}, SearchDomains: []string{"b", "a"}}),
		nic("nic2", &addressing.GuestNIC{DNSServers: []string{"10.0.0.2", "10.0.0.4"}, SearchDomains: []string{"a", "c"}}),
	}}, &out)
	check.Error(t, err, "")
	check.Equal(t, "servers", out.DNSServers, []string{"10.0.0.3", "10.0.0.2", "10.0.0.4"})
	check.Equal(t, "domains", out.SearchDomains, []string{"b", "a", "c"})
}

// serving returns a node of a cluster with these services. Its first interface has these addresses.
func serving(role infrav1.MachineRole, services infrav1.ControlPlaneServices, texts ...string) Input {
	return Input{
		VMName: "demo-1", Role: role,
		NICs: []addressing.NIC{nic("nic1", &addressing.GuestNIC{
			Interface: "eth0", DNSServers: []string{"10.0.0.3"}, SearchDomains: []string{"example.com"},
		})},
		Addresses: map[string][]addressrange.Address{"nic1": addresses(texts...)},
		Cluster: infrav1.OLVMClusterSpec{
			ControlPlaneEndpoint: infrav1.APIEndpoint{Host: "10.0.0.5"}, ControlPlaneServices: &services,
		},
		RouterIDs: RouterIDs{APIRouter: 51, IngressRouter: 52},
		ControlPlaneNodes: []netip.Addr{
			netip.MustParseAddr("10.0.0.11"), netip.MustParseAddr("fd00::12"), netip.MustParseAddr("10.0.0.13"),
		},
	}
}

// TestANodeAsksItsOwnNameServerFirst has clusters whose nodes resolve the cluster's names.
func TestANodeAsksItsOwnNameServerFirst(t *testing.T) {
	dns := infrav1.ControlPlaneServices{DNS: &infrav1.ClusterDNS{Domain: "c.example.com"}}

	tests := map[string]struct {
		in      Input
		change  func(*Input)
		servers string
		domains string
		problem string
	}{
		"a node with an address": {
			in:      serving(infrav1.WorkerRole, dns, "10.0.0.7/24"),
			servers: "[10.0.0.7 10.0.0.3]", domains: "[example.com c.example.com]",
		},
		"the address of the endpoint's family": {
			in:      serving(infrav1.WorkerRole, dns, "fd00::7/64", "10.0.0.7/24"),
			servers: "[10.0.0.7 10.0.0.3]", domains: "[example.com c.example.com]",
		},
		"the address of the endpoint's family, IPv6": {
			in:      serving(infrav1.WorkerRole, dns, "10.0.0.7/24", "fd00::7/64"),
			change:  func(in *Input) { in.Cluster.ControlPlaneEndpoint.Host = "fd00::5" },
			servers: "[fd00::7 10.0.0.3]", domains: "[example.com c.example.com]",
		},
		"an endpoint that is a name": {
			in:      serving(infrav1.WorkerRole, dns, "fd00::7/64", "10.0.0.7/24"),
			change:  func(in *Input) { in.Cluster.ControlPlaneEndpoint.Host = "api.example.com" },
			servers: "[fd00::7 10.0.0.3]", domains: "[example.com c.example.com]",
		},
		"no node": {in: serving("", dns, "10.0.0.7/24"), servers: "[10.0.0.3]", domains: "[example.com]"},
		"a cluster without names": {
			in:      serving(infrav1.WorkerRole, infrav1.ControlPlaneServices{}, "10.0.0.7/24"),
			servers: "[10.0.0.3]", domains: "[example.com]",
		},
		"a cluster without services": {
			in:      serving(infrav1.WorkerRole, dns, "10.0.0.7/24"),
			change:  func(in *Input) { in.Cluster.ControlPlaneServices = nil },
			servers: "[10.0.0.3]", domains: "[example.com]",
		},
		"a node without an address": {
			in:      serving(infrav1.WorkerRole, dns),
			servers: "[10.0.0.3]", domains: "[example.com]",
			problem: "spec.olvmNetwork: controlPlaneServices.dns needs a static address on the first network interface",
		},
		"a node without an address, in a preview": {
			in:      serving(infrav1.WorkerRole, dns),
			change:  func(in *Input) { in.NamePools = true },
			servers: "[10.0.0.3]", domains: "[example.com]",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.change != nil {
				test.change(&test.in)
			}

			var out render.Machine
			err := resolveGuests(test.in, &out)
			check.Error(t, err, test.problem)
			check.Equal(t, "servers", fmt.Sprint(out.DNSServers), test.servers)
			check.Equal(t, "domains", fmt.Sprint(out.SearchDomains), test.domains)
		})
	}
}

// TestTheServicesOfANode checks the services that each kind of node has for the endpoints of its cluster.
func TestTheServicesOfANode(t *testing.T) {
	all := infrav1.ControlPlaneServices{
		VirtualIPProvider: keepalived, AdditionalVirtualIP: "fd00::5", LoadBalancerProvider: "HAProxy", APIServerPort: 7443,
		NginxImage: "nginx", IngressVirtualIP: "10.0.0.6", AdditionalIngressVirtualIP: "fd00::6",
		DNS: &infrav1.ClusterDNS{Domain: "c.example.com", Image: "dns"},
	}
	ip := netip.MustParseAddr
	api := bootstrap.VirtualAddress{Address: ip("10.0.0.5"), Additional: ip("fd00::5"), RouterID: 51}
	ingress := bootstrap.VirtualAddress{Address: ip("10.0.0.6"), Additional: ip("fd00::6"), RouterID: 52}
	servers := []netip.Addr{ip("10.0.0.7"), ip("10.0.0.3")}

	tests := map[string]struct {
		in     Input
		change func(*Input)
		want   *bootstrap.Services
	}{
		"a control plane with all of it": {
			in: serving(infrav1.ControlPlaneRole, all, "10.0.0.7/24", "fd00::7/64"),
			want: &bootstrap.Services{
				HostName: "demo-1", Interface: "eth0", Self: ip("10.0.0.7"),
				API: &bootstrap.APIEndpoint{
					VirtualAddress: api, Port: 6443, Nodes: []netip.Addr{ip("10.0.0.11"), ip("10.0.0.13")},
					LoadBalancer: bootstrap.HAProxy, ServerPort: 7443, NginxImage: "nginx",
				},
				Ingress: &ingress,
				DNS: &bootstrap.DNS{
					Domain: "c.example.com", Image: "dns", ControlPlane: true,
					Addresses: []netip.Addr{ip("10.0.0.7"), ip("fd00::7")},
					Endpoint:  api.All(), Floating: api.All(), Ingress: ingress.All(), Upstream: servers[1:],
					Servers: []netip.Addr{ip("10.0.0.5"), ip("fd00::5"), ip("10.0.0.11"), ip("fd00::12"), ip("10.0.0.13")},
				},
			},
		},
		"a worker has no API": {
			in: serving(infrav1.WorkerRole, all, "10.0.0.7/24"),
			want: &bootstrap.Services{
				HostName: "demo-1", Interface: "eth0", Self: ip("10.0.0.7"), Ingress: &ingress,
				DNS: &bootstrap.DNS{
					Domain: "c.example.com", Image: "dns", Addresses: []netip.Addr{ip("10.0.0.7")},
					Endpoint: api.All(), Ingress: ingress.All(), Upstream: servers[1:],
					Servers: []netip.Addr{ip("10.0.0.5"), ip("fd00::5"), ip("10.0.0.11"), ip("fd00::12"), ip("10.0.0.13")},
				},
			},
		},
		"kube-vip needs no address of the node": {
			in: serving(infrav1.ControlPlaneRole, infrav1.ControlPlaneServices{
				VirtualIPProvider: kubeVIP, KubeVIPImage: "vip", LoadBalancerProvider: noLoadBalancer,
			}),
			change: func(in *Input) {
				in.Cluster.ControlPlaneEndpoint.Port = 443
				in.NICs[0].Guest = nil
			},
			want: &bootstrap.Services{HostName: "demo-1", API: &bootstrap.APIEndpoint{
				VirtualAddress: bootstrap.VirtualAddress{Address: ip("10.0.0.5"), RouterID: 51}, Port: 443,
				Nodes: []netip.Addr{ip("10.0.0.11"), ip("10.0.0.13")}, ServerPort: 6444, KubeVIPImage: "vip",
			}},
		},
		"names alone, of an endpoint that others hold": {
			in: serving(infrav1.ControlPlaneRole, infrav1.ControlPlaneServices{
				VirtualIPProvider: "External", DNS: &infrav1.ClusterDNS{Domain: "c.example.com"},
			}, "10.0.0.7/24"),
			want: &bootstrap.Services{HostName: "demo-1", Interface: "eth0", DNS: &bootstrap.DNS{
				Domain: "c.example.com", Image: defaultCoreDNSImage, ControlPlane: true,
				Addresses: []netip.Addr{ip("10.0.0.7")}, Endpoint: []netip.Addr{ip("10.0.0.5")}, Upstream: servers[1:],
				Servers: []netip.Addr{ip("10.0.0.11"), ip("fd00::12"), ip("10.0.0.13")},
			}},
		},
		"an ingress of IPv6 beside an endpoint that others hold": {
			in: serving(infrav1.WorkerRole, infrav1.ControlPlaneServices{IngressVirtualIP: "fd00::6"},
				"10.0.0.7/24", "fd00::7/64"),
			want: &bootstrap.Services{
				HostName: "demo-1", Interface: "eth0", Self: ip("fd00::7"),
				Ingress: &bootstrap.VirtualAddress{Address: ip("fd00::6"), RouterID: 52},
			},
		},
		"an ingress of the family that the endpoint does not have": {
			in: serving(infrav1.ControlPlaneRole, infrav1.ControlPlaneServices{
				VirtualIPProvider: keepalived, IngressVirtualIP: "fd00::6",
			}, "10.0.0.7/24", "fd00::7/64"),
			want: &bootstrap.Services{
				HostName: "demo-1", Interface: "eth0", Self: ip("10.0.0.7"), IngressSelf: ip("fd00::7"),
				API: &bootstrap.APIEndpoint{
					VirtualAddress: bootstrap.VirtualAddress{Address: ip("10.0.0.5"), RouterID: 51}, Port: 6443,
					Nodes: []netip.Addr{ip("10.0.0.11"), ip("10.0.0.13")}, ServerPort: 6444,
				},
				Ingress: &bootstrap.VirtualAddress{Address: ip("fd00::6"), RouterID: 52},
			},
		},
		"an endpoint that others hold": {
			in: serving(infrav1.ControlPlaneRole, infrav1.ControlPlaneServices{VirtualIPProvider: "External"}, "10.0.0.7/24"),
		},
		"a worker of an endpoint that nodes hold": {
			in: serving(infrav1.WorkerRole, infrav1.ControlPlaneServices{VirtualIPProvider: keepalived}, "10.0.0.7/24"),
		},
		"a VM that is no node": {in: serving("", all, "10.0.0.7/24")},
		"a cluster without services": {
			in:     serving(infrav1.ControlPlaneRole, all, "10.0.0.7/24"),
			change: func(in *Input) { in.Cluster.ControlPlaneServices = nil },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.change != nil {
				test.change(&test.in)
			}

			got, err := buildServices(test.in, servers)
			check.Error(t, err, "")
			check.Equal(t, "services", got, test.want)
		})
	}
}

// TestTheFirewallOfEachNodeKnowsTheNetworksOfTheCluster also covers nodes without services for the endpoints.
func TestTheFirewallOfEachNodeKnowsTheNetworksOfTheCluster(t *testing.T) {
	prefixes := func(texts ...string) (out []netip.Prefix) {
		for _, text := range texts {
			out = append(out, netip.MustParsePrefix(text))
		}

		return out
	}
	external := infrav1.ControlPlaneServices{VirtualIPProvider: "External"}

	for name, test := range map[string]struct {
		in     Input
		change func(*Input)
		want   *bootstrap.Node
	}{
		"a control plane": {
			in:   serving(infrav1.ControlPlaneRole, external, "10.0.0.7/24", "fd00::7/64"),
			want: &bootstrap.Node{ControlPlane: true, Neighbors: prefixes("10.0.0.0/24", "fd00::/64")},
		},
		"a worker whose neighbors have other profiles": {
			in: serving(infrav1.WorkerRole, external, "10.0.0.7/24"),
			change: func(in *Input) {
				in.Bootstrap.Network.Pods.CIDRBlocks = []string{"10.244.0.0/16", "none"}
				in.Cluster.IPProfiles = []infrav1.IPProfile{
					{Addressing: infrav1.Addressing{IPv4: &infrav1.IPv4Network{Subnet: " 10.0.0.0/24"}}},
					{Addressing: infrav1.Addressing{
						IPv4: &infrav1.IPv4Network{DHCP: true}, IPv6: &infrav1.IPv6Network{Subnet: "fd01::/64"},
					}},
				}
			},
			want: &bootstrap.Node{Neighbors: prefixes("10.0.0.0/24", "fd01::/64"), Pods: prefixes("10.244.0.0/16")},
		},
		"pods in the network of the nodes": {
			in: serving(infrav1.WorkerRole, external, "192.168.10.7/24"),
			change: func(in *Input) {
				in.Bootstrap.Network.Pods.CIDRBlocks = []string{"192.168.0.0/16", "10.244.0.0/16"}
			},
			want: &bootstrap.Node{Neighbors: prefixes("192.168.10.0/24"), Pods: prefixes("10.244.0.0/16")},
		},
		"a worker with DHCP":   {in: serving(infrav1.WorkerRole, external), want: &bootstrap.Node{}},
		"a VM that is no node": {in: serving("", external, "10.0.0.7/24")},
		"a cluster that asks for no services": {
			in:     serving(infrav1.WorkerRole, external, "10.0.0.7/24"),
			change: func(in *Input) { in.Cluster.ControlPlaneServices = nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.in.Bootstrap = &Bootstrap{}
			if test.change != nil {
				test.change(&test.in)
			}

			var got *bootstrap.Node
			if services := openNodeFirewall(test.in, nil); services != nil {
				got = services.Node
			}

			check.Equal(t, "node", got, test.want)
		})
	}
}

func TestServicesOfANodeThatAreRefused(t *testing.T) {
	tests := map[string]struct {
		in      Input
		change  func(*Input)
		problem string
	}{
		"an ingress of a family of which the node has no address": {
			in: serving(infrav1.ControlPlaneRole, infrav1.ControlPlaneServices{
				VirtualIPProvider: keepalived, IngressVirtualIP: "fd00::6",
			}, "10.0.0.7/24"),
			problem: "no static address of the same family as the ingress address fd00::6, so keepalived cannot " +
				"hold it; add a static address, or remove controlPlaneServices.ingressVirtualIP",
		},
		"keepalived without an address of the node": {
			in: serving(infrav1.ControlPlaneRole, infrav1.ControlPlaneServices{VirtualIPProvider: keepalived}, "fd00::7/64"),
			problem: "spec.olvmNetwork: the first network interface has no static address of the same family as " +
				"the control",
		},
		"an ingress without an address of the node": {
			in:      serving(infrav1.WorkerRole, infrav1.ControlPlaneServices{IngressVirtualIP: "10.0.0.6"}, "fd00::7/64"),
			problem: "of the same family as the ingress address 10.0.0.6",
		},
		"services that no node can have": {
			in:      serving(infrav1.WorkerRole, infrav1.ControlPlaneServices{IngressVirtualIP: "apps"}, "10.0.0.7/24"),
			problem: `spec.controlPlaneServices.ingressVirtualIP: "apps" is not an IP address`,
		},
		"an ingress without an ID": {
			in:      serving(infrav1.WorkerRole, infrav1.ControlPlaneServices{IngressVirtualIP: "10.0.0.6"}, "10.0.0.7/24"),
			change:  func(in *Input) { in.RouterIDs = RouterIDs{APIRouter: 51} },
			problem: "the virtual router IDs are not chosen yet",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.change != nil {
				test.change(&test.in)
			}

			_, err := buildServices(test.in, nil)
			check.Error(t, err, test.problem)
		})
	}
}

func TestADigestIsRenderedOncePerConfiguration(t *testing.T) {
	s := newSite(t, "")
	built, err := s.build(t, func(*Input) {})
	check.Error(t, err, "")

	machine := built.Machine
	first := types.NamespacedName{Namespace: "default", Name: "demo-1"}
	cache := &DigestCache{}
	digest, err := cache.GetDigest(first, machine)
	check.Error(t, err, "")

	rendered, err := render.MachineDigest(machine)
	check.Error(t, err, "")
	check.Equal(t, "digest", digest, rendered)

	// The test recognizes a cached digest by this unique text.
	known := cache.known[first]
	known.digest = "cached"
	cache.known[first] = known
	of := func(what, want string, change func(*render.Machine)) {
		t.Helper()
		changed := machine
		change(&changed)
		got, err := cache.GetDigest(first, changed)
		check.Error(t, err, "")
		check.Equal(t, what, got, want)
	}
	of("the same", "cached", func(*render.Machine) {})
	of("another password", "cached", func(m *render.Machine) { m.Engine.Password = "other" })
	of("other user data", "cached", func(m *render.Machine) { m.UserData = "other" })

	got, err := cache.GetDigest(types.NamespacedName{Namespace: "default", Name: "demo-2"}, machine)
	check.Error(t, err, "")
	check.Equal(t, "another object", got, rendered)

	larger := machine
	larger.Memory *= 2
	got, err = cache.GetDigest(first, larger)
	check.Error(t, err, "")
	check.Equal(t, "more memory is another digest", got != rendered && got != "cached", true)

	of("the first configuration, which is forgotten", rendered, func(*render.Machine) {})
	cache.DropDigest(first)
	check.Equal(t, "configurations that are known", len(cache.known), 1)

	invalid := machine
	invalid.ClusterID = ""
	_, err = cache.GetDigest(first, invalid)
	check.Equal(t, "a machine that cannot be rendered is an error", err != nil, true)
	check.Equal(t, "configurations that are known after it", len(cache.known), 1)
}
