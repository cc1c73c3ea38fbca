package guestnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
)

// resolve asks a server for the addresses of a name, from the client. It returns no addresses for an unknown name.
func (l *lan) resolve(server netip.Addr, name string) ([]string, error) {
	resolver := net.Resolver{
		PreferGo:     true,
		StrictErrors: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialIn(ctx, l.client, network, netip.AddrPortFrom(server, 53).String())
		},
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Second)
	defer cancel()
	found, err := resolver.LookupNetIP(ctx, "ip", name+".")

	var out []string
	for _, address := range found {
		out = append(out, address.Unmap().String())
	}

	slices.Sort(out)

	return out, err
}

// TestEachNodeKnowsTheNamesOfItsCluster uses two control plane nodes and a worker with addresses of both families. The
// only name server on their network does not know the cluster.
func TestEachNodeKnowsTheNamesOfItsCluster(t *testing.T) {
	l := newLAN(t)
	c := newCluster(l, "d", "10.99.0.5", 71, bootstrap.NoLoadBalancer)
	c.services.Additional = netip.MustParseAddr("fd00:99::5")
	c.ingress = &bootstrap.VirtualAddress{
		Address:    netip.MustParseAddr("10.99.0.6"),
		Additional: netip.MustParseAddr("fd00:99::6"),
		RouterID:   72,
	}
	c.domain = "d.example.com"
	first, second := c.start("10.99.0.11"), c.start("10.99.0.12")
	worker := c.startNode("10.99.0.21", true)
	all := []*node{first, second, worker}

	knows := func(server netip.Addr, name string, want ...string) func() error {
		return func() error {
			got, err := l.resolve(server, name)
			if len(want) == 0 {
				if notFound := (&net.DNSError{}); !errors.As(err, &notFound) || !notFound.IsNotFound {
					return fmt.Errorf("%s says of %s: %v, %w", server, name, got, err)
				}

				return nil
			}

			if err != nil || !slices.Equal(got, want) {
				return fmt.Errorf("%s says of %s: %v, %w", server, name, got, err)
			}

			return nil
		}
	}
	for _, server := range []netip.Addr{first.address, second.address, worker.address,
		netip.MustParseAddr(v6(worker.address.String())), c.endpoint, c.services.Additional} {
		for name, want := range map[string][]string{
			"api.d.example.com": {"10.99.0.5", "fd00:99::5"}, "api-int.d.example.com": {"10.99.0.5", "fd00:99::5"},
			"console.apps.d.example.com": {"10.99.0.6", "fd00:99::6"},
			"a.b.apps.d.example.com":     {"10.99.0.6", "fd00:99::6"},
			"d-1.d.example.com":          {"10.99.0.11", "fd00:99::11"},
			"d-2.d.example.com":          {"10.99.0.12", "fd00:99::12"},
			"d-3.d.example.com":          {"10.99.0.21", "fd00:99::21"},
			"d-9.d.example.com":          nil,
		} {
			l.eventually(fmt.Sprintf("%s knows %s", server, name), knows(server, name, want...))
		}
	}

	// One node holds both addresses of the endpoint, and API servers answer at both.
	holder := c.held()
	out := l.in(holder.namespace, "ip", "-oneline", "address", "show", "dev", "enp1s0")
	if !strings.Contains(out, " fd00:99::5/") {
		t.Errorf("%s has the endpoint's address of IPv4 alone:\n%s", holder.name, out)
	}

	l.eventually("the holder answers at the endpoint's address of IPv6", func() error {
		if by := l.ask("[fd00:99::5]:6443"); by != holder.name {
			return fmt.Errorf("%q answers, and %s holds it", by, holder.name)
		}

		return nil
	})

	late := c.startNode("10.99.0.22", true)
	for _, n := range append(all, late) {
		l.eventually(n.name+" knows a node that was made later",
			knows(n.address, "d-4.d.example.com", "10.99.0.22", "fd00:99::22"))
	}

	c.remove(late)
	l.eventually("nobody knows a node that is gone", knows(worker.address, "d-4.d.example.com"))
	holder.off()
	c.answers()
	l.eventually("the worker asks who is left",
		knows(worker.address, "d-2.d.example.com", "10.99.0.12", "fd00:99::12"))
}
