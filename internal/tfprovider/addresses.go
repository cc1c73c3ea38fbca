package tfprovider

import (
	"context"
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// family checks the addresses of a guest. The engine accepts any text, but nobody can reach a VM with a wrong address.
type family struct {
	// address and netmask describe the accepted texts.
	address, netmask     string
	isAddress, isNetmask func(string) bool
}

var (
	is4 = family{
		address: "must be an IPv4 address such as 10.0.0.9",
		netmask: "must be a dotted netmask such as 255.255.255.0",
		isAddress: func(text string) bool {
			address, err := netip.ParseAddr(text)
			return err == nil && address.Is4()
		},
		isNetmask: isDottedMask,
	}
	is6 = family{
		address: "must be an IPv6 address such as 2001:db8::9",
		netmask: "must be the length of a prefix, 1 to 128, such as 64",
		isAddress: func(text string) bool {
			address, err := netip.ParseAddr(text)
			return err == nil && address.Is6() && !address.Is4In6() && address.Zone() == ""
		},
		isNetmask: func(text string) bool {
			length, err := strconv.Atoi(text)
			return err == nil && length >= 1 && length <= 128 && strconv.Itoa(length) == text
		},
	}
)

// isDottedMask reports whether text is an IPv4 netmask: one bits, followed by zero bits.
func isDottedMask(text string) bool {
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Is4() {
		return false
	}

	var mask uint32
	for _, octet := range address.As4() {
		mask = mask<<8 | uint32(octet)
	}

	return mask != 0 && bits.LeadingZeros32(^mask) == bits.OnesCount32(mask)
}

// addressRule is a validator that accepts a text if its function does.
type addressRule struct {
	ruleText
	accepts func(string) bool
}

func (r addressRule) ValidateString(
	_ context.Context, req validator.StringRequest, resp *validator.StringResponse,
) {
	if isKnown(req.ConfigValue) && !r.accepts(req.ConfigValue.ValueString()) {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid network configuration",
			fmt.Sprintf("%s %s; it is %q.", req.Path, r.ruleText, req.ConfigValue.ValueString()))
	}
}
