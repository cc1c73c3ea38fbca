// Package addressrange chooses static addresses from ranges. It only calculates with sets of addresses. The caller
// knows who holds which address.
package addressrange

import (
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
)

// ErrExhausted reports that every address of a set is in use.
var ErrExhausted = errors.New("every address is in use")

// Address is an address as a guest configures it.
type Address struct {
	// Prefix is the address, with the length of its subnet's prefix.
	Prefix netip.Prefix
	// Gateway is the default route. It is invalid if there is none.
	Gateway netip.Addr
}

// Addr returns the address without the length of the prefix.
func (a Address) Addr() netip.Addr { return a.Prefix.Addr() }

// Is4 reports whether it is an IPv4 address.
func (a Address) Is4() bool { return a.Addr().Is4() }

// Set is a set of addresses of one family that machines may have.
type Set struct {
	// Gateway is the gateway for these addresses. No machine gets the gateway's address. It is invalid if there is
	// none.
	Gateway netip.Addr

	bits      int // length of the subnet's prefix
	addresses *netipx.IPSet
}

// FieldError is the error for a field with an unusable value. It contains the remedy.
type FieldError struct {
	// Field is the path of the field relative to the network: ipv4.subnet, ipv6.ipAddresses[2], gateway.
	Field string
	// Problem describes the problem and the remedy.
	Problem string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// family contains the differences between IPv4 and IPv6.
type family struct {
	name, field, gateway, example string
	is                            func(netip.Addr) bool
}

var (
	v4 = family{"IPv4", "ipv4", "gateway", "10.20.30.0/24", netip.Addr.Is4}
	v6 = family{"IPv6", "ipv6", "ipv6.gateway", "fd00:20:30::/64", func(a netip.Addr) bool {
		return a.Is6() &&
			!a.Is4In6() && a.Zone() == ""
	}}
)

// NewIPv4 parses a subnet, a gateway and ranges. An empty gateway means the first address of the subnet. A range is a
// single address, an inclusive range a-b, or a CIDR block. A block means the addresses from the written one to the end
// of the block.
func NewIPv4(subnet, gateway string, ranges []string) (*Set, error) {
	prefix, err := v4.parseSubnet(subnet)
	if err != nil {
		return nil, err
	}

	set := &Set{bits: prefix.Bits()}
	if first := prefix.Addr().Next(); prefix.Contains(first) {
		set.Gateway = first
	}

	if strings.TrimSpace(gateway) != "" {
		set.Gateway, err = netip.ParseAddr(strings.TrimSpace(gateway))
		if err != nil || !prefix.Contains(set.Gateway) {
			return nil, &FieldError{v4.gateway, fmt.Sprintf("%q is not an address of the subnet %s", gateway, prefix)}
		}
	}

	if err := set.addRanges(v4, prefix, ranges); err != nil {
		return nil, err
	}

	return set, nil
}

// NewIPv6 parses ranges like NewIPv4. An empty subnet means that each address is in its own /64. An empty gateway means
// that there is none, because routers announce themselves. A gateway may be link-local.
func NewIPv6(subnet, gateway string, ranges []string) (*Set, error) {
	set := &Set{bits: 64}
	var prefix netip.Prefix
	var err error
	if strings.TrimSpace(subnet) != "" {
		if prefix, err = v6.parseSubnet(subnet); err != nil {
			return nil, err
		}

		set.bits = prefix.Bits()
	}

	if strings.TrimSpace(gateway) != "" {
		set.Gateway, err = netip.ParseAddr(strings.TrimSpace(gateway))
		if err != nil || !v6.is(set.Gateway) ||
			!set.Gateway.IsLinkLocalUnicast() && prefix.IsValid() && !prefix.Contains(set.Gateway) {
			return nil, &FieldError{
				v6.gateway,
				fmt.Sprintf("%q is neither an address of the subnet %s nor link-local", gateway, prefix),
			}
		}
	}

	if err := set.addRanges(v6, prefix, ranges); err != nil {
		return nil, err
	}

	return set, nil
}

func (f family) parseSubnet(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil || !f.is(prefix.Addr()) {
		return netip.Prefix{}, &FieldError{
			f.field + ".subnet",
			fmt.Sprintf("%q is not an %s subnet in CIDR notation; write for example %s", text, f.name, f.example),
		}
	}

	return prefix.Masked(), nil
}

// FindCommon returns the first address that both pools contain, and whether there is one.
func (p *Set) FindCommon(other *Set) (netip.Addr, bool) {
	var builder netipx.IPSetBuilder
	builder.AddSet(p.addresses)
	builder.Intersect(other.addresses)

	both, err := builder.IPSet()
	if err != nil || len(both.Ranges()) == 0 {
		return netip.Addr{}, false
	}

	return both.Ranges()[0].From(), true
}

// addRanges collects the addresses in the ranges, without those that no machine can have.
func (p *Set) addRanges(f family, subnet netip.Prefix, ranges []string) error {
	var builder netipx.IPSetBuilder
	var anycast []netip.Addr

	for i, text := range ranges {
		field := fmt.Sprintf("%s.ipAddresses[%d]", f.field, i)
		r, err := f.parseRange(strings.TrimSpace(text))
		if err != nil {
			return &FieldError{field, err.Error()}
		}

		if subnet.IsValid() && (!subnet.Contains(r.From()) || !subnet.Contains(r.To())) {
			return &FieldError{field, fmt.Sprintf("%q is not inside the subnet %s", text, subnet)}
		}

		builder.AddRange(r)
		if !subnet.IsValid() { // the anycast addresses of the routers in the first and last /64 of the range
			anycast = append(anycast, netip.PrefixFrom(r.From(), p.bits).Masked().Addr(),
				netip.PrefixFrom(r.To(), p.bits).Masked().Addr())
		}
	}

	for _, address := range anycast {
		builder.Remove(address)
	}

	if p.Gateway.IsValid() {
		builder.Remove(p.Gateway)
	}

	if subnet.IsValid() && subnet.Bits() < subnet.Addr().BitLen()-1 {
		whole := netipx.RangeOfPrefix(subnet)
		builder.Remove(whole.From()) // the network itself, or the anycast address of its routers
		if subnet.Addr().Is4() {
			builder.Remove(whole.To()) // the broadcast address
		}
	}

	var err error
	if p.addresses, err = builder.IPSet(); err != nil {
		return &FieldError{f.field + ".ipAddresses", err.Error()}
	}

	if len(p.addresses.Ranges()) == 0 {
		return &FieldError{
			f.field + ".ipAddresses",
			"no address is left once network address, broadcast address and gateway are taken out; add some",
		}
	}

	return nil
}

// ParseRange parses one range in the form of NewIPv4 and NewIPv6. It accepts both families.
func ParseRange(text string) (netipx.IPRange, error) {
	if strings.Contains(text, ":") {
		return v6.parseRange(text)
	}

	return v4.parseRange(text)
}

func (f family) parseRange(text string) (netipx.IPRange, error) {
	malformed := fmt.Errorf("%q is not an %s address, a range a-b or a CIDR block", text, f.name)
	if from, to, ok := strings.Cut(text, "-"); ok {
		first, err1 := netip.ParseAddr(strings.TrimSpace(from))
		last, err2 := netip.ParseAddr(strings.TrimSpace(to))
		if err1 != nil || err2 != nil || !f.is(first) || !f.is(last) {
			return netipx.IPRange{}, malformed
		}

		if last.Less(first) {
			return netipx.IPRange{}, fmt.Errorf("the range %q ends before it begins; swap its ends", text)
		}

		return netipx.IPRangeFrom(first, last), nil
	}

	if strings.Contains(text, "/") {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || !f.is(prefix.Addr()) {
			return netipx.IPRange{}, malformed
		}

		return netipx.IPRangeFrom(prefix.Addr(), netipx.PrefixLastIP(prefix)), nil
	}

	address, err := netip.ParseAddr(text)
	if err != nil || !f.is(address) {
		return netipx.IPRange{}, malformed
	}

	return netipx.IPRangeFrom(address, address), nil
}

// Contains reports whether machines may have the address.
func (p *Set) Contains(address netip.Addr) bool { return p.addresses.Contains(address) }

// Is4 reports whether the addresses are IPv4.
func (p *Set) Is4() bool { return p.addresses.Ranges()[0].From().Is4() }

// ToAddress returns an address of the set in the form in which a guest configures it.
func (p *Set) ToAddress(address netip.Addr) Address {
	return Address{Prefix: netip.PrefixFrom(address, p.bits), Gateway: p.Gateway}
}

// LowestFree returns the lowest address that is not in use, or ErrExhausted. It returns the lowest address so that the
// same call has the same result after a restart.
func (p *Set) LowestFree(inUse []netip.Addr) (netip.Addr, error) {
	free, err := p.freeRanges(inUse)
	if err != nil {
		return netip.Addr{}, err
	}

	return free[0].From(), nil
}

// HighestFree returns the highest address that is not in use, or ErrExhausted.
func (p *Set) HighestFree(inUse []netip.Addr) (netip.Addr, error) {
	free, err := p.freeRanges(inUse)
	if err != nil {
		return netip.Addr{}, err
	}

	return free[len(free)-1].To(), nil
}

// freeRanges returns the ranges of addresses that are not in use, in order. It returns ErrExhausted if there is none.
func (p *Set) freeRanges(inUse []netip.Addr) ([]netipx.IPRange, error) {
	var builder netipx.IPSetBuilder
	builder.AddSet(p.addresses)

	for _, address := range inUse {
		builder.Remove(address)
	}

	free, err := builder.IPSet()
	if err != nil {
		return nil, fmt.Errorf("failed to subtract the addresses in use: %w", err)
	}

	ranges := free.Ranges()
	if len(ranges) == 0 {
		return nil, ErrExhausted
	}

	return ranges, nil
}

// Size returns the number of addresses in the set. For IPv6, this can exceed an int64.
func (p *Set) Size() *big.Int {
	size := new(big.Int)
	for _, r := range p.addresses.Ranges() {
		from, to := new(big.Int).SetBytes(r.From().AsSlice()), new(big.Int).SetBytes(r.To().AsSlice())
		size.Add(size, to.Sub(to, from).Add(to, big.NewInt(1)))
	}

	return size
}

// ParseAll parses addresses, and omits invalid texts.
func ParseAll(texts []string) []netip.Addr {
	var out []netip.Addr

	for _, text := range texts {
		if address, err := netip.ParseAddr(text); err == nil {
			out = append(out, address.Unmap())
		}
	}

	slices.SortFunc(out, netip.Addr.Compare)

	return out
}
