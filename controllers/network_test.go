package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// networkedInventory returns the default inventory and one more network. This network has a DHCP server, and a router
// that advertises a prefix. The default network has neither, as on OLVM.
func networkedInventory() ovirtsim.Inventory {
	inventory := ovirtsim.DefaultInventory()
	dc := &inventory.DataCenters[0]
	dc.Networks = append(dc.Networks, ovirtsim.Network{
		Name:         "dynamic",
		VNICProfiles: []string{"dynamic"},
		SLAAC:        "fd00:99::/64",
		DHCP:         &ovirtsim.DHCP{First: "10.99.0.10", Last: "10.99.0.99", Bits: 24, Gateway: "10.99.0.1"}})

	return inventory
}

// nics describes each network interface of the engine's initialization in one line.
func nics(vm *engine.VM) []string {
	var out []string
	if vm.Initialization == nil || vm.Initialization.NICs == nil {
		return nil
	}

	for _, n := range vm.Initialization.NICs.Items {
		text := fmt.Sprintf("%s %s", n.Name, n.BootProtocol)
		if n.IP != nil && n.IP.Address != "" {
			text += fmt.Sprintf(" %s/%s via %s", n.IP.Address, n.IP.Netmask, n.IP.Gateway)
		}

		if n.IPv6Boot != "" && n.IPv6Boot != "none" {
			text += " v6 " + n.IPv6Boot
		}

		if n.IPv6 != nil && n.IPv6.Address != "" {
			text += fmt.Sprintf(" %s/%s via %s", n.IPv6.Address, n.IPv6.Netmask, n.IPv6.Gateway)
		}

		out = append(out, text)
	}

	return out
}

// ips returns the internal addresses in the machine's status, in order.
func ips(m *infrav1.OLVMMachine) string {
	var out []string

	for _, address := range m.Status.Addresses {
		if address.Type == clusterv1.MachineInternalIP {
			out = append(out, address.Address)
		}
	}

	return strings.Join(out, " ")
}

func TestGuestsGetTheNetworkThatTheirMachinesAskFor(t *testing.T) {
	v4 := func(list ...string) *infrav1.IPv4Network {
		return &infrav1.IPv4Network{Subnet: "10.0.0.0/24", IPAddresses: list}
	}
	dynamic := infrav1.OLVMNetwork{NetworkName: "dynamic", VNICProfileName: "dynamic"}

	tests := map[string]struct {
		ask       func(*infrav1.OLVMMachineSpec)
		nics      []string
		dns       string
		addresses string // SLAAC stands for the address that the first interface derives from its MAC address
	}{
		"dual stack with lists, DNS and domains": {func(s *infrav1.OLVMMachineSpec) {
			n := &s.VirtualMachine.Network
			n.IPv6 = &infrav1.IPv6Network{IPAddresses: []string{"fd00::10-fd00::20"}}
			n.DNSServers = []string{"10.0.0.53", "fd00::53"}
			n.SearchDomains = []string{"example.com", "lab.example.com"}
		}, []string{"enp1s0 static 10.0.0.10/255.255.255.0 via 10.0.0.1 v6 static fd00::10/64 via "},
			"10.0.0.53 fd00::53|example.com lab.example.com", "10.0.0.10 fd00::10"},
		"a static IPv4 address and SLAAC": {func(s *infrav1.OLVMMachineSpec) {
			s.OLVMNetwork = dynamic
			s.VirtualMachine.Network.IPv6 = &infrav1.IPv6Network{AutoConf: true}
		}, []string{"enp1s0 static 10.0.0.10/255.255.255.0 via 10.0.0.1"}, "|", "10.0.0.10 SLAAC"},
		"DHCP and SLAAC": {func(s *infrav1.OLVMMachineSpec) {
			s.OLVMNetwork = dynamic
			s.VirtualMachine.Network = infrav1.GuestNetwork{
				Addressing: infrav1.Addressing{
					IPv4: &infrav1.IPv4Network{DHCP: true},
					IPv6: &infrav1.IPv6Network{AutoConf: true},
				},
			}
		}, []string{"enp1s0 dhcp"}, "|", "10.99.0.10 SLAAC"},
		"IPv6 alone": {func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.Network = infrav1.GuestNetwork{
				Addressing: infrav1.Addressing{
					IPv6: &infrav1.IPv6Network{
						Subnet:      "fd00::/48",
						Gateway:     "fe80::1",
						IPAddresses: []string{"fd00::10"},
					},
				},
			}
		}, []string{"enp1s0 none v6 static fd00::10/48 via fe80::1"}, "|", "fd00::10"},
		"a profile of the cluster, with names of the machine's own": {func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.Network = infrav1.GuestNetwork{
				IPProfileName: "lab",
				Interface:     "enp1s0",
				Addressing:    infrav1.Addressing{SearchDomains: []string{"own.example.com"}},
			}
		}, []string{"enp1s0 static 10.0.0.100/255.255.255.0 via 10.0.0.254"}, "10.0.0.53|own.example.com",
			"10.0.0.100"},
		"several interfaces, of which one has the default route": {func(s *infrav1.OLVMMachineSpec) {
			s.AdditionalNetworks = []infrav1.AdditionalNetwork{
				{
					OLVMNetwork: dynamic,
					Guest: &infrav1.AdditionalGuestNetwork{
						Interface: "enp2s0",
						Addressing: infrav1.Addressing{
							IPv4:       &infrav1.IPv4Network{DHCP: true},
							DNSServers: []string{"10.99.0.53"},
						},
					},
				},
				{
					OLVMNetwork: infrav1.OLVMNetwork{NetworkName: "ovirtmgmt", VNICProfileName: "ovirtmgmt"},
					Guest: &infrav1.AdditionalGuestNetwork{
						Interface:  "enp3s0",
						Addressing: infrav1.Addressing{IPv4: v4("10.0.0.10")},
					},
				},
				{
					OLVMNetwork: infrav1.OLVMNetwork{NetworkName: "ovirtmgmt", VNICProfileName: "ovirtmgmt"},
					Guest: &infrav1.AdditionalGuestNetwork{
						Interface:  "enp4s0",
						Addressing: infrav1.Addressing{IPv4: v4("10.0.0.20"), Gateway: "10.0.0.9"},
					},
				},
			}
			s.VirtualMachine.Network.IPv4 = v4("10.0.0.11")
		}, []string{"enp1s0 static 10.0.0.11/255.255.255.0 via 10.0.0.1", "enp2s0 dhcp",
			"enp3s0 static 10.0.0.10/255.255.255.0 via ", "enp4s0 static 10.0.0.20/255.255.255.0 via 10.0.0.9"},
			"10.99.0.53|", "10.0.0.11 10.99.0.10 10.0.0.10 10.0.0.20"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if name == "a static IPv4 address and SLAAC" || name == "DHCP and SLAAC" {
				testenv.SkipInShort(t, "the other cases have static addresses, DHCP and IPv6")
			}

			s := newSiteIn(t, networkedInventory(), nil)
			change(s, s.OLVM, func(c *infrav1.OLVMCluster) {
				c.Spec.IPProfiles = []infrav1.IPProfile{{Name: "lab", Addressing: infrav1.Addressing{
					Gateway:       "10.0.0.254",
					IPv4:          v4("10.0.0.100-10.0.0.110"),
					DNSServers:    []string{"10.0.0.53"},
					SearchDomains: []string{"example.com"},
				}}}
			})
			m := s.CreateMachine("one", test.ask)
			s.ExpectProvisioned(m)
			got := s.inspect("one")
			if !slices.Equal(nics(got.vm), test.nics) {
				t.Errorf("the engine tells the guest %q, want %q", nics(got.vm), test.nics)
			}

			if dns := got.vm.Initialization.DNSServers + "|" + got.vm.Initialization.DNSSearch; dns != test.dns {
				t.Errorf("DNS is %q, want %q", dns, test.dns)
			}

			mac, err := net.ParseMAC(got.nics[0].MAC.Address)
			if err != nil {
				t.Fatal(err)
			}

			slaac := netip.AddrFrom16([16]byte{
				0:  0xfd,
				3:  0x99,
				8:  mac[0] ^ 2,
				9:  mac[1],
				10: mac[2],
				11: 0xff,
				12: 0xfe,
				13: mac[3],
				14: mac[4],
				15: mac[5],
			})
			want := strings.ReplaceAll(test.addresses, "SLAAC", slaac.String())
			s.Eventually("the guest's addresses are in the status", func() error {
				if err := suite.client.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
					return err
				}

				if ips(m) != want || !strings.HasPrefix(want, m.Status.OLVM.IPAddress) {
					return fmt.Errorf("%s and first %s, want %s; the guest says %q", ips(m), m.Status.OLVM.IPAddress,
						want, s.Sim.ListVMs()[0].GuestError)
				}

				return nil
			})
			s.Delete(m)
			s.ExpectGone(m)
		})
	}
}

// TestAddressesOfAnIPAMProvider simulates the provider of an InClusterIPPool.
func TestAddressesOfAnIPAMProvider(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("one", func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.Network = infrav1.GuestNetwork{AddressesFromPools: []ipamv1.IPPoolReference{
			{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "four"},
			{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "six"},
		}}
	})
	message := s.ExpectCondition(m, infrav1.AddressesAllocatedCondition, "False/"+infrav1.WaitingForIPAddressesReason)
	if !strings.Contains(message, "InClusterIPPool four (IPAddressClaim one-0-0)") {
		t.Error(message)
	}

	vms := func() int { return s.Sim.Summarize().VMs }

	for name, address := range map[string]string{"one-0-0": "10.7.0.9", "one-0-1": "fd07::9"} {
		claim := &ipamv1.IPAddressClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
		s.Eventually("the claim "+name, func() error {
			return suite.client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim)
		})
		s.Create(&ipamv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
			Spec: ipamv1.IPAddressSpec{
				ClaimRef: ipamv1.IPAddressClaimReference{Name: name},
				PoolRef:  claim.Spec.PoolRef,
				Address:  address,
				Prefix:   ptr.To(int32(24)),
				Gateway:  map[bool]string{true: "10.7.0.1", false: "fd07::1"}[strings.HasPrefix(address, "10")],
			},
		})
		claim.Status.AddressRef.Name = name
		s.UpdateStatus(claim)
	}

	s.ExpectProvisioned(m)
	got := nics(s.inspect("one").vm)
	if !slices.Equal(
		got,
		[]string{"enp1s0 static 10.7.0.9/255.255.255.0 via 10.7.0.1 v6 static fd07::9/24 via fd07::1"},
	) {
		t.Errorf("the engine tells the guest %q", got)
	}

	if ips(m) != "10.7.0.9 fd07::9" {
		t.Errorf("the status has %s", ips(m))
	}

	// A deletion of the machine also deletes its claims, but only after the VM.
	held := make(chan bool)
	err := s.Sim.Inject(ovirtsim.Fault{Method: "DELETE", Path: "/api/vms/[^/]*$", Status: 503, Count: 3})
	if err != nil {
		t.Fatal(err)
	}

	go func() {
		for vms() > 0 {
			if suite.client.Get(context.Background(), client.ObjectKey{
				Namespace: s.Namespace,
				Name:      "one-0-1",
			}, &ipamv1.IPAddressClaim{}) != nil && vms() > 0 {
				held <- false
				return
			}
		}

		held <- true
	}()
	s.Delete(m)
	if !<-held {
		t.Error("a claim was given back while the VM was there")
	}

	s.ExpectGone(m)

	for _, name := range []string{"one-0-0", "one-0-1"} {
		s.ExpectGone(&ipamv1.IPAddressClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}})
	}

	if left := s.Sim.Summarize(); left.VMs != 0 {
		t.Errorf("left in the engine: %+v", left)
	}
}

func TestAGuestThatReportsNoAddressIsNotProvisioned(t *testing.T) {
	skipProved(t, "TestAGuestThatReportsNoAddressIsNotProvisioned of controllers/machine")

	s := newSite(t, nil)
	m := s.CreateMachine("one", func(spec *infrav1.OLVMMachineSpec) { // on a network without a DHCP server
		spec.VirtualMachine.Network = infrav1.GuestNetwork{
			Addressing: infrav1.Addressing{IPv4: &infrav1.IPv4Network{DHCP: true}},
		}
	})
	s.ExpectCondition(m, infrav1.VirtualMachineRunningCondition, "True/"+infrav1.VirtualMachineRunningReason)
	s.Eventually("the condition says what is missing", func() error {
		message := s.ExpectCondition(
			m, infrav1.AddressesAllocatedCondition, "False/"+infrav1.WaitingForGuestAddressesReason,
		)
		if !strings.Contains(message, "qemu-guest-agent") {
			return fmt.Errorf("it says %s", message)
		}

		return nil
	})
	if ptr.Deref(m.Status.Initialization.Provisioned, false) || len(m.Status.Addresses) != 0 {
		t.Errorf("provisioned %v, addresses %v", m.Status.Initialization, m.Status.Addresses)
	}
}

func TestNetworksThatContradictThemselvesAreNamed(t *testing.T) {
	skipProved(t, "TestNetworksThatCannotBeAreNamed of controllers/machine")

	tests := map[string]struct {
		ask     func(*infrav1.OLVMMachineSpec)
		reason  string
		message []string
	}{
		"an unknown profile": {func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.Network = infrav1.GuestNetwork{IPProfileName: "lap"}
		}, infrav1.IPProfileNotFoundReason, []string{"network.ipProfileName", `"lap"`, `["bad"]`}},
		"the endpoint in the IPv6 ranges": {func(s *infrav1.OLVMMachineSpec) {
			s.VirtualMachine.Network.IPv4.IPAddresses = []string{"10.0.0.1-10.0.0.9"}
		}, infrav1.EndpointInAddressRangeReason, []string{"ipv4.ipAddresses", "10.0.0.5"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil)
			change(s, s.OLVM, func(c *infrav1.OLVMCluster) {
				c.Spec.IPProfiles = []infrav1.IPProfile{
					{
						Name: "bad",
						Addressing: infrav1.Addressing{
							IPv4: &infrav1.IPv4Network{
								Subnet:      "10.0.0.0/24",
								IPAddresses: []string{"10.0.0.10", "10.0.0.15"},
							},
						},
					},
				}
			})
			s.ExpectNamed(
				s.CreateMachine("one", test.ask), infrav1.AddressesAllocatedCondition, test.reason, test.message,
			)
		})
	}
}

// TestAMachineThatRunsOutlivesItsProfile removes the IP profile of a running machine.
func TestAMachineThatRunsOutlivesItsProfile(t *testing.T) {
	s := newSite(t, nil)
	change(s, s.OLVM, func(c *infrav1.OLVMCluster) {
		c.Spec.IPProfiles = []infrav1.IPProfile{
			{
				Name: "lab",
				Addressing: infrav1.Addressing{
					IPv4: &infrav1.IPv4Network{Subnet: "10.0.0.0/24", IPAddresses: []string{"10.0.0.77"}},
				},
			},
		}
	})
	m := s.CreateMachine("one", func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.Network = infrav1.GuestNetwork{IPProfileName: "lab"}
	})
	s.ExpectProvisioned(m)

	// Changes of DNS servers and the gateway have no effect on a booted guest.
	runs := m.Status.Terraform.Runs

	for _, servers := range [][]string{{"10.0.0.53"}, nil} {
		change(s, s.OLVM, func(c *infrav1.OLVMCluster) {
			c.Spec.IPProfiles[0].DNSServers, c.Spec.IPProfiles[0].Gateway = servers, "10.0.0.254"
		})
		s.Eventually("the change is applied without one of the VM", func() error {
			if err := suite.client.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
				return err
			}

			last := m.Status.Terraform.LastRun
			if m.Status.Terraform.Runs == runs || last.Result != "Succeeded" ||
				last.Added+last.Changed+last.Destroyed != 0 {
				return fmt.Errorf("%d runs, the last %+v", m.Status.Terraform.Runs, last)
			}

			return nil
		})
		runs = m.Status.Terraform.Runs
		s.ExpectCondition(m, infrav1.ReadyCondition, "True/Ready")
	}

	change(s, s.OLVM, func(c *infrav1.OLVMCluster) { c.Spec.IPProfiles = nil })
	second := s.CreateMachine(
		"two", func(spec *infrav1.OLVMMachineSpec) { *spec = *m.Spec.DeepCopy(); spec.ProviderID = "" },
	)

	// the controller has seen the change
	s.ExpectCondition(second, infrav1.AddressesAllocatedCondition, "False/"+infrav1.IPProfileNotFoundReason)
	touch(t, m)
	s.ExpectCondition(m, infrav1.ReadyCondition, "True/Ready")
	if ips(m) != "10.0.0.77" {
		t.Errorf("the machine has %s", ips(m))
	}

	// Delete the record of its addresses, too, while other machines allocate addresses. The engine still has the
	// addresses of the VM.
	change(s, s.OLVM, func(c *infrav1.OLVMCluster) {
		c.Spec.IPProfiles = []infrav1.IPProfile{
			{
				Name: "lab",
				Addressing: infrav1.Addressing{
					IPv4: &infrav1.IPv4Network{Subnet: "10.0.0.0/24", IPAddresses: []string{"10.0.0.70-10.0.0.79"}},
				},
			},
		}
	})
	s.ExpectCondition(second, infrav1.AddressesAllocatedCondition, "True/"+infrav1.AddressesAllocatedReason)
	change(s, m, func(m *infrav1.OLVMMachine) { delete(m.Annotations, infrav1.AddressesAnnotation) })
	s.Eventually("the record is written again", func() error {
		err := suite.client.Get(t.Context(), client.ObjectKeyFromObject(m), m)
		if err != nil || m.Annotations[infrav1.AddressesAnnotation] != "" {
			return err
		}

		return errors.New("there is none")
	})
	var recorded map[string][]string
	err := json.Unmarshal([]byte(m.Annotations[infrav1.AddressesAnnotation]), &recorded)
	if err != nil || recorded["nic1"][0] != "10.0.0.77" {
		t.Errorf("it records %v, %v", recorded, err)
	}
}
