package guestnet

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
)

func newCluster(l *lan, name, endpoint string, router int, balancer bootstrap.LoadBalancer) *cluster {
	c := &cluster{lan: l, name: name, endpoint: netip.MustParseAddr(endpoint)}
	c.services = bootstrap.APIEndpoint{
		VirtualAddress: bootstrap.VirtualAddress{Address: c.endpoint, RouterID: router},
		Port:           6443,
		LoadBalancer:   balancer,
		ServerPort:     6444,
	}

	return c
}

// answers waits until the endpoint answers. It returns the name of the node that answers, and the time until the
// answer.
func (c *cluster) answers(by ...string) (string, time.Duration) {
	c.lan.t.Helper()
	got := ""
	took := c.lan.eventually("the endpoint of "+c.name+" answers", func() error {
		if got = c.lan.ask(c.endpoint.String() + ":6443"); got == "" || len(by) > 0 && !slices.Contains(by, got) {
			return fmt.Errorf("it says %q", got)
		}

		return nil
	})

	return got, took
}

// held waits until exactly one node has the endpoint's address, and returns the node.
func (c *cluster) held() *node {
	c.lan.t.Helper()
	var out *node
	c.lan.eventually("one node holds the endpoint of "+c.name, func() (err error) {
		if out, err = c.holder(c.endpoint); err == nil && out == nil {
			err = errors.New("none does")
		}

		return err
	})

	return out
}

// TestTheEndpointMovesWhenItsHolderDies uses three control plane nodes, and a second cluster on the same network.
func TestTheEndpointMovesWhenItsHolderDies(t *testing.T) {
	l := newLAN(t)
	a := newCluster(l, "a", "10.99.0.5", 51, bootstrap.NoLoadBalancer)
	b := newCluster(l, "b", "10.99.0.6", 52, bootstrap.NoLoadBalancer)

	for i := range 3 {
		a.start(fmt.Sprintf("10.99.0.%d", 11+i))
	}

	b.start("10.99.0.21")
	b.start("10.99.0.22")

	for _, c := range []*cluster{a, b} {
		l.eventually("the nodes of "+c.name+" know each other, and no others", func() error {
			return c.knowEachOther(c.nodes, "")
		})
	}

	// When a node learns of a new peer, the address may move once.
	l.eventually("the addresses stay", func() error {
		before, other := a.held(), b.held()
		time.Sleep(4 * time.Second)
		if a.held() != before || b.held() != other {
			return errors.New("they move")
		}

		return nil
	})
	first, other := a.held(), b.held()
	if by, _ := a.answers(); by != first.name {
		t.Errorf("%s answers, and %s holds the address", by, first.name)
	}

	first.fail() // only the API server of the node fails
	_, took := a.answers()
	t.Logf("%s: the endpoint answers again %.1f s after the API server of its holder ended", first.name, took.Seconds())
	second := a.held()
	if second == first {
		t.Fatalf("%s holds the address without an API server", first.name)
	}

	second.off()
	_, took = a.answers()
	t.Logf("%s: the endpoint answers again %.1f s after its holder was switched off", second.name, took.Seconds())
	if third := a.held(); third == first || third == second {
		t.Errorf("%s holds the address", third.name)
	}

	if now := b.held(); now != other {
		t.Errorf("the other cluster's address went from %s to %s", other.name, now.name)
	}

	first.serve()
	a.held()
}

// TestAnAddressHasOneHolderWhileNodesJoin adds nodes whose API servers run before the other nodes know them. Their
// addresses are lower and higher than that of the holder, because VRRP decides by address.
func TestAnAddressHasOneHolderWhileNodesJoin(t *testing.T) {
	l := newLAN(t)
	c := newCluster(l, "c", "10.99.0.5", 51, bootstrap.NoLoadBalancer)
	c.joining = true
	first := c.start("10.99.0.12")
	c.answers(first.name)

	var joined []*node
	for _, address := range []string{"10.99.0.11", "10.99.0.13"} {
		joined = append(joined, c.start(address))
	}

	watch := func(long time.Duration) {
		t.Helper()

		for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			if now, err := c.holder(c.endpoint); err != nil || now != first {
				t.Fatalf("%s does not hold the address alone: %v, %v", first.name, now, err)
			}
		}
	}
	watch(6 * time.Second) // longer than VRRP waits for a holder

	for _, n := range joined {
		c.list(n)
	}

	l.eventually("the holder knows them", func() error {
		for _, n := range joined {
			if !strings.Contains(first.config("keepalived/keepalived.conf"), "\n        "+n.address.String()+"\n") {
				return errors.New(first.config("keepalived/keepalived.conf"))
			}
		}

		return nil
	})
	c.held() // a reload may move the address to another node, but never to two
	first.off()
	_, took := c.answers() // the API servers join after a while
	t.Logf("the endpoint answers again %.1f s after the only node that had been there for long was switched off",
		took.Seconds())
}

// TestLoadBalancersFollowTheControlPlane starts with one node, adds two, and removes one.
func TestLoadBalancersFollowTheControlPlane(t *testing.T) {
	for i, test := range []struct {
		balancer bootstrap.LoadBalancer
		config   string
	}{{bootstrap.HAProxy, "haproxy/haproxy.cfg"}, {bootstrap.Nginx, "capolvm/nginx/nginx.conf"}} {
		t.Run(string(test.balancer), func(t *testing.T) {
			l := newLAN(t)
			c := newCluster(l, strings.ToLower(string(test.balancer)), fmt.Sprintf("10.99.0.%d", 5+i), 61+i,
				test.balancer)
			first := c.start("10.99.0.11")
			if by, _ := c.answers(); by != first.name {
				t.Errorf("%s answers", by)
			}

			second, third := c.start("10.99.0.12"), c.start("10.99.0.13")
			all := []*node{first, second, third}
			l.eventually("all know each other", func() error { return c.knowEachOther(all, test.config) })
			l.eventually("all API servers get connections", func() error { return c.spread(all) })

			third.fail() // the load balancer of the node keeps running, with the other servers

			for range 20 { // even before a health check notices the failure
				c.expectAnswer(first.name, second.name)
			}

			l.eventually("the API servers that are left get connections", func() error {
				return c.spread(all[:2])
			})

			c.remove(third)
			l.eventually("nobody knows it any more", func() error {
				return c.knowEachOther(all[:2], test.config)
			})
			c.answers(first.name, second.name)
		})
	}
}

// expectAnswer sends one request to the endpoint. If a load balancer cannot reach the API server that it has chosen, it
// chooses another one without the client's knowledge. The test tolerates only that the address moves meanwhile, or that
// the host is too busy to answer.
func (c *cluster) expectAnswer(names ...string) {
	t := c.lan.t
	t.Helper()
	before, _ := c.holder(c.endpoint)
	by, err := c.lan.request(c.endpoint.String()+":6443", time.Minute)
	after, _ := c.holder(c.endpoint)

	switch {
	case errors.Is(err, errNoAnswer), err != nil && before != after:
		t.Logf("not counted: %v, with the address at %s and then at %s", err, before.nameOf(), after.nameOf())
	case err != nil:
		t.Errorf("%s, which holds the address, has a client see that an API server has ended: %v", after.nameOf(), err)
	case !slices.Contains(names, by):
		t.Errorf("%q answers, whose API server has ended", by)
	}
}

// nameOf returns the name of a node, or "none" for nil.
func (n *node) nameOf() string {
	if n == nil {
		return "none"
	}

	return n.name
}

// knowEachOther returns an error if a configuration contains other nodes than these. The parameter balancer is the
// configuration file of the load balancer, or "".
func (c *cluster) knowEachOther(nodes []*node, balancer string) error {
	for _, n := range nodes {
		peers, backends := n.config("keepalived/keepalived.conf"), n.config(balancer)

		for _, other := range []string{"10.99.0.11", "10.99.0.12", "10.99.0.13", "10.99.0.21", "10.99.0.22"} {
			there := slices.ContainsFunc(nodes, func(node *node) bool { return node.address.String() == other })
			if has := strings.Contains(peers, "\n        "+other+"\n"); has != (there && other != n.address.String()) {
				return fmt.Errorf("%s: %s is a peer: %t\n%s", n.name, other, has, peers)
			}

			if has := strings.Contains(backends, other+":6444"); balancer != "" && has != there {
				return fmt.Errorf("%s: %s is a backend: %t\n%s", n.name, other, has, backends)
			}
		}
	}

	return nil
}

// spread returns an error if a node gets no connections, or if an unexpected node gets one.
func (c *cluster) spread(nodes []*node) error {
	seen := map[string]int{}

	for range 30 {
		by, err := c.lan.request(c.endpoint.String()+":6443", 5*time.Second)
		if !errors.Is(err, errNoAnswer) {
			seen[by]++
		}
	}

	for _, n := range nodes {
		if seen[n.name] == 0 {
			return fmt.Errorf("%s gets none: %v", n.name, seen)
		}
	}

	if len(seen) != len(nodes) {
		return fmt.Errorf("others answer, too: %v", seen)
	}

	return nil
}

// TestJoinedNodesTakeOverAnAddressWithoutAHolder turns the holder off as soon as the cluster lists the others. At this
// time, the others have not yet learned through the endpoint that they are control plane nodes.
func TestJoinedNodesTakeOverAnAddressWithoutAHolder(t *testing.T) {
	l := newLAN(t)
	c := newCluster(l, "j", "10.99.0.6", 52, bootstrap.NoLoadBalancer)
	c.joining = true
	first := c.start("10.99.0.22")
	c.answers(first.name)

	var joined []*node
	for _, address := range []string{"10.99.0.21", "10.99.0.23"} {
		joined = append(joined, c.start(address))
	}

	first.off()

	for _, n := range joined {
		c.list(n)
	}

	_, took := c.answers() // each node reads the list, and waits until the others have read it, too
	t.Logf("the endpoint answers %.1f s after its holder was switched off", took.Seconds())
	c.held()
}
