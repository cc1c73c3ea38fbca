// Package ipam chooses static addresses from ranges. It is set arithmetic:
// who holds which address is the caller's to know.
package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
)

// ErrExhausted says that every address of the pool is in use.
var ErrExhausted = errors.New("every address is in use")

// Pool is a subnet and the addresses in it that machines may take.
type Pool struct {
	// Subnet of the machines.
	Subnet netip.Prefix
	// Gateway of the subnet; never given to a machine.
	Gateway netip.Addr

	addresses *netipx.IPSet
}

// FieldError names the field that cannot be used, and the remedy.
type FieldError struct {
	// Field relative to the network: ipv4.subnet, ipv4.ipAddresses[2], gateway.
	Field string
	// Problem and remedy.
	Problem string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// NewPool reads subnet, gateway (empty means the first address of the subnet) and ranges: single addresses, inclusive
// ranges a-b, and CIDR blocks, which mean the addresses from the written one to the end of the block.
func NewPool(subnet, gateway string, ranges []string) (*Pool, error) {
	prefix, err := netip.ParsePrefix(strings.TrimSpace(subnet))
	if err != nil || !prefix.Addr().Is4() {
		return nil, &FieldError{"ipv4.subnet", fmt.Sprintf("%q is not an IPv4 subnet in CIDR notation; write for example 10.20.30.0/24", subnet)}
	}
	prefix = prefix.Masked()
	pool := &Pool{Subnet: prefix, Gateway: prefix.Addr().Next()}
	if strings.TrimSpace(gateway) != "" {
		pool.Gateway, err = netip.ParseAddr(strings.TrimSpace(gateway))
		if err != nil || !prefix.Contains(pool.Gateway) {
			return nil, &FieldError{"gateway", fmt.Sprintf("%q is not an address of the subnet %s", gateway, prefix)}
		}
	}
	var builder netipx.IPSetBuilder
	for i, text := range ranges {
		field := fmt.Sprintf("ipv4.ipAddresses[%d]", i)
		r, err := parseRange(strings.TrimSpace(text))
		if err != nil {
			return nil, &FieldError{field, err.Error()}
		}
		if !prefix.Contains(r.From()) || !prefix.Contains(r.To()) {
			return nil, &FieldError{field, fmt.Sprintf("%q is not inside the subnet %s", text, prefix)}
		}
		builder.AddRange(r)
	}
	builder.Remove(pool.Gateway)
	if prefix.Bits() < 31 { // network and broadcast address
		whole := netipx.RangeOfPrefix(prefix)
		builder.Remove(whole.From())
		builder.Remove(whole.To())
	}
	if pool.addresses, err = builder.IPSet(); err != nil {
		return nil, &FieldError{"ipv4.ipAddresses", err.Error()}
	}
	if len(pool.addresses.Ranges()) == 0 {
		return nil, &FieldError{"ipv4.ipAddresses", "no address is left once network address, broadcast address and gateway are taken out; add some"}
	}
	return pool, nil
}

func parseRange(text string) (netipx.IPRange, error) {
	malformed := fmt.Errorf("%q is not an IPv4 address, a range a-b or a CIDR block", text)
	if from, to, ok := strings.Cut(text, "-"); ok {
		first, err1 := netip.ParseAddr(strings.TrimSpace(from))
		last, err2 := netip.ParseAddr(strings.TrimSpace(to))
		if err1 != nil || err2 != nil || !first.Is4() || !last.Is4() {
			return netipx.IPRange{}, malformed
		}
		if last.Less(first) {
			return netipx.IPRange{}, fmt.Errorf("the range %q ends before it begins; swap its ends", text)
		}
		return netipx.IPRangeFrom(first, last), nil
	}
	if strings.Contains(text, "/") {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || !prefix.Addr().Is4() {
			return netipx.IPRange{}, malformed
		}
		return netipx.IPRangeFrom(prefix.Addr(), netipx.PrefixLastIP(prefix)), nil
	}
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Is4() {
		return netipx.IPRange{}, malformed
	}
	return netipx.IPRangeFrom(address, address), nil
}

// Contains says whether machines may take the address.
func (p *Pool) Contains(address netip.Addr) bool { return p.addresses.Contains(address) }

// Free returns the lowest address that is not in use, or ErrExhausted. The lowest, so that the same question has the
// same answer after a restart.
func (p *Pool) Free(inUse []netip.Addr) (netip.Addr, error) {
	var builder netipx.IPSetBuilder
	builder.AddSet(p.addresses)
	for _, address := range inUse {
		builder.Remove(address)
	}
	free, err := builder.IPSet()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("failed to subtract the addresses in use: %w", err)
	}
	if ranges := free.Ranges(); len(ranges) > 0 {
		return ranges[0].From(), nil
	}
	return netip.Addr{}, ErrExhausted
}

// Size counts the addresses of the pool.
func (p *Pool) Size() int {
	size := 0
	for _, r := range p.addresses.Ranges() {
		from, to := r.From().As4(), r.To().As4()
		size += int(be(to)-be(from)) + 1
	}
	return size
}

func be(b [4]byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// Netmask is the subnet's mask, dotted.
func (p *Pool) Netmask() string {
	mask := uint32(0xffffffff) << (32 - p.Subnet.Bits())
	if p.Subnet.Bits() == 0 {
		mask = 0
	}
	return netip.AddrFrom4([4]byte{byte(mask >> 24), byte(mask >> 16), byte(mask >> 8), byte(mask)}).String()
}

// ParseAll reads addresses and leaves out what is none.
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
