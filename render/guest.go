package render

import (
	"net"
	"net/netip"
	"strconv"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// GuestNIC is the configuration of a network interface in the guest. The engine tells it to cloud-init; the user data
// has it for Ignition, and what the engine cannot tell.
type GuestNIC struct {
	// Name that the guest gives it, such as enp1s0.
	Name string
	// IPv4 and IPv6 of it.
	IPv4, IPv6 IP
	// DefaultRoute reports that the default routes may be this interface's where the network configures it.
	DefaultRoute bool
}

// IP is the configuration of one address family.
type IP struct {
	// Method is Off where it is zero.
	Method Method
	// Address with its prefix, for Static.
	Address netip.Prefix
	// Gateway of Static, invalid for none.
	Gateway netip.Addr
	// Placeholder says for which Address it stands that is not known yet; only a preview has one.
	Placeholder string
}

// Method is how an interface gets its address.
type Method int

// The methods.
const (
	Off Method = iota
	Static
	DHCP
	// AutoConf is SLAAC. The engine refuses to tell guests of it.
	AutoConf
)

// told reports whether the engine is told of the family.
func (ip IP) told() bool { return ip.Method == Static || ip.Method == DHCP }

// netmask is dotted for IPv4, and the length of the prefix for IPv6.
func (ip IP) netmask() string {
	if ip.Address.Addr().Is4() {
		return net.IP(net.CIDRMask(ip.Address.Bits(), 32)).String()
	}

	return strconv.Itoa(ip.Address.Bits())
}

// guests are the interfaces that the engine is told of.
func (in *Machine) guests() []GuestNIC {
	var out []GuestNIC

	for _, guest := range in.Guests {
		if guest.IPv4.told() || guest.IPv6.told() {
			out = append(out, guest)
		}
	}

	return out
}

// guestFile is an override: Terraform adds it to the VM. It is a file of its own because what a guest was told is not
// changed later, and no reason to plan.
func guestFile(in Machine) []byte {
	file := hclwrite.NewEmptyFile()
	comment(file.Body(), "Added to the VM: what its guest is told about its network at its first boot.")
	vm := in.vmAddress()
	body := file.Body().AppendNewBlock("resource", []string{vm.kind, vm.name}).Body()
	if len(in.DNSServers) > 0 {
		body.SetAttributeValue("initialization_dns_servers", texts(in.DNSServers))
	}

	if len(in.SearchDomains) > 0 {
		body.SetAttributeValue("initialization_search_domains", texts(in.SearchDomains))
	}

	for i, guest := range in.guests() {
		if i > 0 || in.guestDNS() {
			body.AppendNewline()
		}

		nic := body.AppendNewBlock("initialization_nic", nil).Body()
		nic.SetAttributeValue("name", cty.StringVal(guest.Name))
		guest.IPv4.write(nic, "ipv4")
		guest.IPv6.write(nic, "ipv6")
	}

	return file.Bytes()
}

// write adds the block of a family that the engine is told of.
func (ip IP) write(nic *hclwrite.Body, family string) {
	if !ip.told() {
		return
	}

	block := nic.AppendNewBlock(family, nil).Body()

	switch {
	case ip.Method == DHCP:
		setText(block, "boot_protocol", "dhcp")
	case ip.Placeholder != "":
		// Terraform knows it only after the apply, as the preview does: the provider takes no text for an address.
		for _, name := range []string{"address", "netmask"} {
			block.SetAttributeRaw(name, hclwrite.TokensForFunctionCall("timestamp"))
		}
	default:
		setText(block, "address", ip.Address.Addr().String())
		setText(block, "netmask", ip.netmask())
		if ip.Gateway.IsValid() {
			setText(block, "gateway", ip.Gateway.String())
		}
	}
}
