package v1

import (
	"k8s.io/apimachinery/pkg/api/equality"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
)

// OLVMNetwork names a network of the data center and one of its vNIC profiles.
// +kubebuilder:validation:XValidation:rule="has(self.networkName) && size(self.networkName) > 0 || has(self.vnicProfileName) && size(self.vnicProfileName) > 0",message="set networkName, vnicProfileName or both"
type OLVMNetwork struct {
	// networkName is the name of the network. If omitted, it is that of the vNIC profile, whose name must be unique
	// then. Changes take effect at once.
	// +optional
	NetworkName EngineName `json:"networkName,omitempty"`

	// vnicName is the name of the VM's network interface in the engine. If omitted, it is nic1. Changes take effect at
	// once.
	// +optional
	VNICName DeviceName `json:"vnicName,omitempty"`

	// vnicProfileName is the name of the vNIC profile. If omitted, it is the one that has the network's name, or its
	// only one. Changes take effect at once.
	// +optional
	VNICProfileName EngineName `json:"vnicProfileName,omitempty"`

	// macAddress of the network interface. If omitted, it is one of the engine's pool. A template gives it to every
	// machine, so it is for single machines. Changes take effect on new machines.
	// +optional
	MACAddress MACAddress `json:"macAddress,omitempty"`

	// interfaceType is the emulated hardware: virtio, e1000, e1000e or rtl8139. If omitted, it is virtio. Changes take
	// effect on new machines.
	// +optional
	// +kubebuilder:validation:Enum=virtio;e1000;e1000e;rtl8139
	InterfaceType string `json:"interfaceType,omitempty"`
}

// AdditionalNetwork is the network of a further network interface.
// +kubebuilder:validation:XValidation:rule="!has(self.guest) || (has(self.guest.interface) && size(self.guest.interface) > 0)",message="set guest.interface: what a guest calls its further network interfaces depends on its hardware"
type AdditionalNetwork struct {
	OLVMNetwork `json:",inline"`

	// guest configures the network interface in the guest. If omitted, that is up to the image or the user data. It
	// gets no default route unless a gateway is written. Changes take effect on new machines.
	// +optional
	Guest *AdditionalGuestNetwork `json:"guest,omitempty"`
}

// GuestNetwork configures a network interface in the guest. Its addresses come from ranges (ipv4, ipv6), from an IP
// profile of the OLVMCluster, or from pools of IPAM providers.
// +kubebuilder:validation:XValidation:rule="!(has(self.ipProfileName) && size(self.ipProfileName) > 0) || (!has(self.ipv4) && !has(self.ipv6) && !(has(self.gateway) && size(self.gateway) > 0) && !has(self.addressesFromPools))",message="ipProfileName says where addresses come from; remove gateway, ipv4, ipv6 and addressesFromPools"
// +kubebuilder:validation:XValidation:rule="!has(self.addressesFromPools) || (!has(self.ipv4) && !(has(self.ipv6) && has(self.ipv6.ipAddresses)))",message="addressesFromPools says where addresses come from; remove ipv4 and ipv6.ipAddresses"
// +kubebuilder:validation:XValidation:rule=`!has(self.ipv6) || !has(self.ipv6.gateway) || size(self.ipv6.gateway) == 0 || has(self.ipv6.ipAddresses) && size(self.ipv6.ipAddresses) > 0 || has(self.addressesFromPools)`,message="the gateway is for static addresses; add ipv6.ipAddresses or addressesFromPools, or remove it",fieldPath=".ipv6.gateway"
type GuestNetwork struct {
	// interface is the guest's name of the network interface. If omitted, it is enp1s0.
	// +optional
	Interface InterfaceName `json:"interface,omitempty"`

	// interfaceType is the emulated hardware of the network interface. If omitted, it is virtio.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`size(self) == 0 || self.lowerAscii() in ['virtio', 'e1000', 'e1000e', 'rtl8139']`,message="write virtio, e1000, e1000e or rtl8139"
	InterfaceType string `json:"interfaceType,omitempty"`

	// ipProfileName is the name of one of the OLVMCluster's ipProfiles. If omitted, the other fields say where
	// addresses come from.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	IPProfileName string `json:"ipProfileName,omitempty"`

	// addressesFromPools are pools of Cluster API's IPAM providers, such as an InClusterIPPool. The interface gets one
	// address of each. The default route is that of the first interface's pools. If omitted, addresses come from ipv4
	// and ipv6.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:XValidation:rule=`self.all(a, self.exists_one(b, a == b))`,message="a pool is there twice; remove one of the two"
	AddressesFromPools []ipamv1.IPPoolReference `json:"addressesFromPools,omitempty"`

	Addressing `json:",inline"`
}

// IsConfigured reports whether anything is said about the network interface.
func (n GuestNetwork) IsConfigured() bool { return !equality.Semantic.DeepEqual(n, GuestNetwork{}) }

// AdditionalGuestNetwork configures a further network interface in the guest, as GuestNetwork does the first. Its
// addresses come from ranges (ipv4, ipv6), from an IP profile of the OLVMCluster, or from pools of IPAM providers.
// +kubebuilder:validation:XValidation:rule="!(has(self.ipProfileName) && size(self.ipProfileName) > 0) || (!has(self.ipv4) && !has(self.ipv6) && !(has(self.gateway) && size(self.gateway) > 0) && !has(self.addressesFromPools))",message="ipProfileName says where addresses come from; remove gateway, ipv4, ipv6 and addressesFromPools"
// +kubebuilder:validation:XValidation:rule="!has(self.addressesFromPools) || (!has(self.ipv4) && !(has(self.ipv6) && has(self.ipv6.ipAddresses)))",message="addressesFromPools says where addresses come from; remove ipv4 and ipv6.ipAddresses"
// +kubebuilder:validation:XValidation:rule=`!has(self.ipv6) || !has(self.ipv6.gateway) || size(self.ipv6.gateway) == 0 || has(self.ipv6.ipAddresses) && size(self.ipv6.ipAddresses) > 0 || has(self.addressesFromPools)`,message="the gateway is for static addresses; add ipv6.ipAddresses or addressesFromPools, or remove it",fieldPath=".ipv6.gateway"
// +kubebuilder:validation:XValidation:rule=`has(self.ipv4) || has(self.ipv6) && (has(self.ipv6.autoConf) && self.ipv6.autoConf || has(self.ipv6.dhcp) && self.ipv6.dhcp || has(self.ipv6.ipAddresses) && size(self.ipv6.ipAddresses) > 0) || has(self.ipProfileName) && size(self.ipProfileName) > 0 || has(self.addressesFromPools)`,message="the network says nothing about addresses; set ipv4 or ipv6, ipProfileName, or addressesFromPools"
type AdditionalGuestNetwork struct {
	// interface is the guest's name of the network interface. If omitted, the object is refused once something is
	// configured in the guest. Changes take effect on new machines.
	// +optional
	Interface InterfaceName `json:"interface,omitempty"`

	// ipProfileName is the name of one of the OLVMCluster's ipProfiles. If omitted, the other fields say where
	// addresses come from. Changes take effect on new machines.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	IPProfileName string `json:"ipProfileName,omitempty"`

	// addressesFromPools are pools of Cluster API's IPAM providers, such as an InClusterIPPool. The interface gets one
	// address of each. The default route is that of the first interface's pools. If omitted, addresses come from
	// elsewhere. Changes take effect on new machines.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:XValidation:rule=`self.all(a, self.exists_one(b, a == b))`,message="a pool is there twice; remove one of the two"
	AddressesFromPools []ipamv1.IPPoolReference `json:"addressesFromPools,omitempty"`

	Addressing `json:",inline"`
}

// GuestNetwork is the same as that of a first network interface; nil of nil.
func (n *AdditionalGuestNetwork) GuestNetwork() *GuestNetwork {
	if n == nil {
		return nil
	}

	return &GuestNetwork{
		Interface: n.Interface, IPProfileName: n.IPProfileName, AddressesFromPools: n.AddressesFromPools,
		Addressing: n.Addressing,
	}
}

// Addressing says which addresses the network interfaces of guests get, and how they find other networks and names.
// +kubebuilder:validation:XValidation:rule=`!has(self.gateway) || size(self.gateway) == 0 || isIP(self.gateway.trim()) && ip(self.gateway.trim()).family() == 4 && !ip(self.gateway.trim()).isUnspecified() && !cidr('224.0.0.0/3').containsIP(self.gateway.trim())`,message="write the IPv4 address of a router, such as 10.20.30.1; that of IPv6 is ipv6.gateway",fieldPath=".gateway"
// +kubebuilder:validation:XValidation:rule=`!has(self.gateway) || !has(self.ipv4) || !has(self.ipv4.subnet) || !isIP(self.gateway.trim()) || !isCIDR(self.ipv4.subnet.trim()) || cidr(self.ipv4.subnet.trim()).containsIP(self.gateway.trim())`,message="the gateway is outside ipv4.subnet; correct one of the two",fieldPath=".gateway"
type Addressing struct {
	// gateway is the IPv4 default route. If omitted, it is the first address of the IPv4 subnet.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	Gateway string `json:"gateway,omitempty"`

	// ipv4 says where IPv4 addresses come from. If omitted, the guest gets none.
	// +optional
	IPv4 *IPv4Network `json:"ipv4,omitempty"`

	// ipv6 says where IPv6 addresses come from. If omitted, the guest gets none.
	// +optional
	IPv6 *IPv6Network `json:"ipv6,omitempty"`

	// dnsServers of the guest, as IP addresses. Those of a machine replace those of its IP profile. If omitted, the
	// guest is told of none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a == b))",message="an address is there twice; remove one of the two"
	DNSServers []IPAddress `json:"dnsServers,omitempty"`

	// searchDomains are those in which the guest looks for names without a domain. Those of a machine replace those of
	// its IP profile. If omitted, there are none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a == b))",message="a domain is there twice; remove one of the two"
	SearchDomains []DomainName `json:"searchDomains,omitempty"`
}

// IPv4Network is a subnet and the addresses in it that machines may take, or DHCP.
// +kubebuilder:validation:XValidation:rule="(has(self.dhcp) && self.dhcp) ? !has(self.subnet) && !has(self.ipAddresses) : has(self.subnet) && has(self.ipAddresses)",message="set subnet and ipAddresses, or dhcp"
// +kubebuilder:validation:XValidation:rule=`!has(self.subnet) || isCIDR(self.subnet.trim()) && cidr(self.subnet.trim()).ip().family() == 4`,message="write an IPv4 subnet in CIDR notation, such as 10.20.30.0/24",fieldPath=".subnet"
// +kubebuilder:validation:XValidation:rule=`!has(self.subnet) || !has(self.ipAddresses) || !isCIDR(self.subnet.trim()) || self.ipAddresses.all(r, isCIDR(r.trim()) ? cidr(self.subnet.trim()).containsCIDR(r.trim()) : !isIP(r.find('^[^-]*').trim()) || !isIP(r.find('[^-]*$').trim()) || cidr(self.subnet.trim()).containsIP(r.find('^[^-]*').trim()) && cidr(self.subnet.trim()).containsIP(r.find('[^-]*$').trim()))`,message="an address is outside the subnet; correct it or the subnet",fieldPath=".ipAddresses"
type IPv4Network struct {
	// dhcp lets the guest ask a DHCP server of the network. If omitted, the guest gets one of ipAddresses.
	// +optional
	DHCP bool `json:"dhcp,omitempty"`

	// subnet in CIDR notation, for example 10.20.30.0/24. Omit it with dhcp only.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=43
	Subnet string `json:"subnet,omitempty"`

	// ipAddresses that machines may take: single addresses, inclusive ranges a-b, and CIDR blocks (from the address
	// that is written to the end of its block). The subnet's network and broadcast addresses, the gateway and the
	// control plane endpoint are never given to a machine. Omit them with dhcp only.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	IPAddresses []IPv4Range `json:"ipAddresses,omitempty"`
}

// IPv6Network configures IPv6 in the guest: static addresses, router advertisements (SLAAC) or DHCP.
// +kubebuilder:validation:XValidation:rule="!(has(self.autoConf) && self.autoConf && has(self.dhcp) && self.dhcp)",message="set one of autoConf and dhcp"
// +kubebuilder:validation:XValidation:rule="!(has(self.ipAddresses) && size(self.ipAddresses) > 0 && has(self.dhcp) && self.dhcp)",message="set one of ipAddresses and dhcp"
// +kubebuilder:validation:XValidation:rule=`!has(self.subnet) || size(self.subnet) == 0 || isCIDR(self.subnet.trim()) && cidr(self.subnet.trim()).ip().family() == 6`,message="write an IPv6 subnet in CIDR notation, such as fd00:20:30::/64",fieldPath=".subnet"
// +kubebuilder:validation:XValidation:rule=`!has(self.subnet) || size(self.subnet) == 0 || has(self.ipAddresses) && size(self.ipAddresses) > 0`,message="there are no ipAddresses in the subnet; add some, or remove it",fieldPath=".subnet"
// +kubebuilder:validation:XValidation:rule=`!has(self.gateway) || size(self.gateway) == 0 || isIP(self.gateway.trim()) && ip(self.gateway.trim()).family() == 6 && !ip(self.gateway.trim()).isUnspecified() && !cidr('ff00::/8').containsIP(self.gateway.trim())`,message="write the IPv6 address of a router, such as fd00:20:30::1",fieldPath=".gateway"
// +kubebuilder:validation:XValidation:rule=`!has(self.gateway) || !has(self.subnet) || !isIP(self.gateway.trim()) || !isCIDR(self.subnet.trim()) || cidr('fe80::/10').containsIP(self.gateway.trim()) || cidr(self.subnet.trim()).containsIP(self.gateway.trim())`,message="the gateway is outside the subnet, and not link-local; correct one of the two",fieldPath=".gateway"
// +kubebuilder:validation:XValidation:rule=`!has(self.subnet) || !has(self.ipAddresses) || !isCIDR(self.subnet.trim()) || self.ipAddresses.all(r, isCIDR(r.trim()) ? cidr(self.subnet.trim()).containsCIDR(r.trim()) : !isIP(r.find('^[^-]*').trim()) || !isIP(r.find('[^-]*$').trim()) || cidr(self.subnet.trim()).containsIP(r.find('^[^-]*').trim()) && cidr(self.subnet.trim()).containsIP(r.find('[^-]*$').trim()))`,message="an address is outside the subnet; correct it or the subnet",fieldPath=".ipAddresses"
type IPv6Network struct {
	// autoConf lets the guest configure itself from router advertisements (SLAAC). If there are ipAddresses, the guest
	// has one of those instead. If omitted, it is off.
	// +optional
	AutoConf bool `json:"autoConf,omitempty"`

	// dhcp lets the guest ask a DHCPv6 server of the network. If omitted, it does not.
	// +optional
	DHCP bool `json:"dhcp,omitempty"`

	// subnet in CIDR notation, for example fd00:20:30::/64. If omitted, each address is in a /64 of its own.
	// +optional
	// +kubebuilder:validation:MaxLength=43
	Subnet string `json:"subnet,omitempty"`

	// gateway is the IPv6 default route; it may be link-local. If omitted, it is what the routers of the network
	// announce.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	Gateway string `json:"gateway,omitempty"`

	// ipAddresses that machines may take: single addresses, inclusive ranges a-b, and CIDR blocks. If omitted,
	// addresses come from autoConf or dhcp.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	IPAddresses []IPv6Range `json:"ipAddresses,omitempty"`
}

// IPProfile is where machines get their addresses from, under a name.
// +kubebuilder:validation:XValidation:rule=`!has(self.ipv6) || !has(self.ipv6.gateway) || size(self.ipv6.gateway) == 0 || has(self.ipv6.ipAddresses) && size(self.ipv6.ipAddresses) > 0`,message="the gateway is for static addresses; add ipv6.ipAddresses, or remove it",fieldPath=".ipv6.gateway"
// +kubebuilder:validation:XValidation:rule=`has(self.ipv4) || has(self.ipv6)`,message="the profile says nothing about addresses; set ipv4 or ipv6"
type IPProfile struct {
	// name by which machines refer to it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	Addressing `json:",inline"`
}
