package v1

import (
	"k8s.io/apimachinery/pkg/api/equality"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
)

// OLVMNetwork names a network of the data center and one of its vNIC profiles.
// +kubebuilder:validation:XValidation:rule="has(self.networkName) && size(self.networkName) > 0 || has(self.vnicProfileName) && size(self.vnicProfileName) > 0",message="set networkName, vnicProfileName or both"
type OLVMNetwork struct {
	// networkName is the name of the network. Empty means that of the vNIC profile, whose name must be unique then.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	NetworkName string `json:"networkName,omitempty"`

	// vnicName is the name of the VM's network interface in the engine. Empty means nic1.
	// +optional
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]*$`
	VNICName string `json:"vnicName,omitempty"`

	// vnicProfileName is the name of the vNIC profile. Empty means the one that has the network's name, or its only
	// one.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	VNICProfileName string `json:"vnicProfileName,omitempty"`

	// macAddress of the network interface. Empty means one from the engine's pool; a template gives it to every
	// machine, so it is for single machines.
	// +optional
	// +kubebuilder:validation:Pattern=`^$|^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$`
	// +kubebuilder:validation:MaxLength=17
	MACAddress string `json:"macAddress,omitempty"`

	// interfaceType is the emulated hardware: virtio, e1000, e1000e or rtl8139. Empty means virtio.
	// +optional
	// +kubebuilder:validation:Enum="";virtio;e1000;e1000e;rtl8139
	InterfaceType string `json:"interfaceType,omitempty"`
}

// AdditionalNetwork is the network of a further network interface.
// +kubebuilder:validation:XValidation:rule="!has(self.guest) || (has(self.guest.interface) && size(self.guest.interface) > 0)",message="set guest.interface: what a guest calls its further network interfaces depends on its hardware"
type AdditionalNetwork struct {
	OLVMNetwork `json:",inline"`

	// guest configures the network interface in the guest. Without it that is up to the image or the user data. It gets
	// no default route unless a gateway is written.
	// +optional
	Guest *GuestNetwork `json:"guest,omitempty"`
}

// GuestNetwork configures a network interface in the guest. Its addresses come from ranges (ipv4, ipv6), from an IP
// profile of the OLVMCluster, or from pools of IPAM providers.
// +kubebuilder:validation:XValidation:rule="!(has(self.ipProfileName) && size(self.ipProfileName) > 0) || (!has(self.ipv4) && !has(self.ipv6) && !(has(self.gateway) && size(self.gateway) > 0) && !has(self.addressesFromPools))",message="ipProfileName says where addresses come from; remove gateway, ipv4, ipv6 and addressesFromPools"
// +kubebuilder:validation:XValidation:rule="!has(self.addressesFromPools) || (!has(self.ipv4) && !(has(self.ipv6) && has(self.ipv6.ipAddresses)))",message="addressesFromPools says where addresses come from; remove ipv4 and ipv6.ipAddresses"
type GuestNetwork struct {
	// interface is the guest's name of the network interface. Empty means enp1s0.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	Interface string `json:"interface,omitempty"`

	// interfaceType is the emulated hardware of the network interface. Empty means virtio.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	InterfaceType string `json:"interfaceType,omitempty"`

	// ipProfileName is the name of one of the OLVMCluster's ipProfiles.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	IPProfileName string `json:"ipProfileName,omitempty"`

	// addressesFromPools are pools of Cluster API's IPAM providers, such as an InClusterIPPool. The interface gets one
	// address of each. The default route is that of the first interface's pools.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	AddressesFromPools []ipamv1.IPPoolReference `json:"addressesFromPools,omitempty"`

	Addressing `json:",inline"`
}

// Configured reports whether anything is said about the network interface.
func (n GuestNetwork) Configured() bool { return !equality.Semantic.DeepEqual(n, GuestNetwork{}) }

// Addressing says which addresses the network interfaces of guests get, and how they find other networks and names.
type Addressing struct {
	// gateway is the IPv4 default route. Empty means the first address of the IPv4 subnet.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	Gateway string `json:"gateway,omitempty"`

	// ipv4 says where IPv4 addresses come from.
	// +optional
	IPv4 *IPv4Network `json:"ipv4,omitempty"`

	// ipv6 says where IPv6 addresses come from.
	// +optional
	IPv6 *IPv6Network `json:"ipv6,omitempty"`

	// dnsServers of the guest, as IP addresses. Those of a machine replace those of its IP profile.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=45
	DNSServers []string `json:"dnsServers,omitempty"`

	// searchDomains are those in which the guest looks for names without a domain. Those of a machine replace those of
	// its IP profile.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	SearchDomains []string `json:"searchDomains,omitempty"`
}

// IPv4Network is a subnet and the addresses in it that machines may take, or DHCP.
// +kubebuilder:validation:XValidation:rule="(has(self.dhcp) && self.dhcp) ? !has(self.subnet) && !has(self.ipAddresses) : has(self.subnet) && has(self.ipAddresses)",message="set subnet and ipAddresses, or dhcp"
type IPv4Network struct {
	// dhcp lets the guest ask a DHCP server of the network.
	// +optional
	DHCP bool `json:"dhcp,omitempty"`

	// subnet in CIDR notation, for example 10.20.30.0/24.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=43
	Subnet string `json:"subnet,omitempty"`

	// ipAddresses that machines may take: single addresses, inclusive ranges a-b, and CIDR blocks
	// (from the address that is written to the end of its block). The subnet's network and broadcast addresses,
	// the gateway and the control plane endpoint are never given to a machine.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=91
	IPAddresses []string `json:"ipAddresses,omitempty"`
}

// IPv6Network configures IPv6 in the guest: static addresses, router advertisements (SLAAC) or DHCP.
// +kubebuilder:validation:XValidation:rule="!(has(self.autoConf) && self.autoConf && has(self.dhcp) && self.dhcp)",message="set one of autoConf and dhcp"
// +kubebuilder:validation:XValidation:rule="!(has(self.ipAddresses) && size(self.ipAddresses) > 0 && has(self.dhcp) && self.dhcp)",message="set one of ipAddresses and dhcp"
type IPv6Network struct {
	// autoConf lets the guest configure itself from router advertisements (SLAAC). Where there are ipAddresses, the
	// guest has one of those instead.
	// +optional
	AutoConf bool `json:"autoConf,omitempty"`

	// dhcp lets the guest ask a DHCPv6 server of the network.
	// +optional
	DHCP bool `json:"dhcp,omitempty"`

	// subnet in CIDR notation, for example fd00:20:30::/64. Empty means that each address is in a /64 of its own.
	// +optional
	// +kubebuilder:validation:MaxLength=43
	Subnet string `json:"subnet,omitempty"`

	// gateway is the IPv6 default route; it may be link-local. Empty means what the routers of the network announce.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	Gateway string `json:"gateway,omitempty"`

	// ipAddresses that machines may take: single addresses, inclusive ranges a-b, and CIDR blocks.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=91
	IPAddresses []string `json:"ipAddresses,omitempty"`
}

// IPProfile is where machines get their addresses from, under a name.
type IPProfile struct {
	// name by which machines refer to it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	Addressing `json:",inline"`
}
