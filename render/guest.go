package render

import (
	"net"
	"net/netip"
	"strconv"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// GuestNIC configures a network interface in the guest. The engine passes it to cloud-init. The user data contain it
// for Ignition, and contain everything that the engine cannot pass.
type GuestNIC struct {
	// Name is the interface's name in the guest, such as enp1s0.
	Name string
	// IPv4 and IPv6 configure both address families.
	IPv4, IPv6 IP
	// DefaultRoute allows the guest to use this interface for its default routes, if the network provides them.
	DefaultRoute bool
}

// IP configures one address family.
type IP struct {
	// Method is Off by default.
	Method Method
	// Address is the address with its prefix length, for Static.
	Address netip.Prefix
	// Gateway is the gateway, for Static. It is invalid if there is none.
	Gateway netip.Addr
	// Placeholder describes an Address that is not known yet. Only a preview has one.
	Placeholder string
}

// Method is how an interface gets its address.
type Method int

// These are the methods.
const (
	Off Method = iota
	Static
	DHCP
	// AutoConf is SLAAC. The engine refuses to pass it to guests.
	AutoConf
)

// isPassedToGuest reports whether the engine passes the configuration of this family to the guest.
func (ip IP) isPassedToGuest() bool { return ip.Method == Static || ip.Method == DHCP }

// formatNetmask returns the dotted netmask for IPv4, or the prefix length for IPv6.
func (ip IP) formatNetmask() string {
	if ip.Address.Addr().Is4() {
		return net.IP(net.CIDRMask(ip.Address.Bits(), 32)).String()
	}

	return strconv.Itoa(ip.Address.Bits())
}

// passedGuests returns the interfaces that the engine passes to the guest.
func (in *Machine) passedGuests() []GuestNIC {
	var out []GuestNIC

	for _, guest := range in.Guests {
		if guest.IPv4.isPassedToGuest() || guest.IPv6.isPassedToGuest() {
			out = append(out, guest)
		}
	}

	return out
}

// renderGuestFile writes an override file, which Terraform merges into the VM. It is a separate file, because its
// settings never change later, and Terraform need not plan because of them.
func renderGuestFile(in Machine) []byte {
	file := hclwrite.NewEmptyFile()
	writeComment(file.Body(), "Added to the VM: what its guest is told about its network at its first boot.")
	vm := in.vmAddress()
	body := file.Body().AppendNewBlock("resource", []string{vm.kind, vm.name}).Body()
	if len(in.DNSServers) > 0 {
		body.SetAttributeValue("initialization_dns_servers", toTuple(in.DNSServers))
	}

	if len(in.SearchDomains) > 0 {
		body.SetAttributeValue("initialization_search_domains", toTuple(in.SearchDomains))
	}

	for i, guest := range in.passedGuests() {
		if i > 0 || in.hasGuestDNS() {
			body.AppendNewline()
		}

		nic := body.AppendNewBlock("initialization_nic", nil).Body()
		nic.SetAttributeValue("name", cty.StringVal(guest.Name))
		guest.IPv4.writeFamily(nic, "ipv4")
		guest.IPv6.writeFamily(nic, "ipv6")
	}

	return file.Bytes()
}

// writeFamily adds the block of a family if the engine passes the family to the guest.
func (ip IP) writeFamily(nic *hclwrite.Body, family string) {
	if !ip.isPassedToGuest() {
		return
	}

	block := nic.AppendNewBlock(family, nil).Body()

	switch {
	case ip.Method == DHCP:
		setText(block, "boot_protocol", "dhcp")
	case ip.Placeholder != "":
		// As in the preview, Terraform knows the value only after the apply. The provider rejects any text that is not
		// an address.
		for _, name := range []string{"address", "netmask"} {
			block.SetAttributeRaw(name, hclwrite.TokensForFunctionCall("timestamp"))
		}
	default:
		setText(block, "address", ip.Address.Addr().String())
		setText(block, "netmask", ip.formatNetmask())
		if ip.Gateway.IsValid() {
			setText(block, "gateway", ip.Gateway.String())
		}
	}
}
