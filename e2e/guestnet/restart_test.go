package guestnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
)

// pids returns the IDs of a program's processes in a node.
func (n *node) pids(program string) []string {
	n.cluster.lan.t.Helper()
	var out []string

	for _, pid := range strings.Fields(run(n.cluster.lan.t, "ip", "netns", "pids", n.namespace)) {
		name, _ := os.ReadFile("/proc/" + pid + "/comm")
		if strings.TrimSpace(string(name)) == program {
			out = append(out, pid)
		}
	}

	return out
}

// kill kills all processes of a program at the same time, so that none can clean up or start another process.
func (n *node) kill(program string) {
	n.cluster.lan.t.Helper()
	found := n.pids(program)
	if len(found) == 0 {
		n.cluster.lan.t.Fatalf("%s does not run on %s", program, n.name)
	}

	run(n.cluster.lan.t, "kill", append([]string{"-STOP"}, found...)...)
	run(n.cluster.lan.t, "kill", append([]string{"-KILL"}, found...)...)
}

// settled returns the node with an address after it has held the address for longer than VRRP needs to detect a lost
// node.
func (c *cluster) settled(address netip.Addr) *node {
	c.lan.t.Helper()
	var out *node
	c.lan.eventually("one node holds "+address.String(), func() error {
		before, err := c.holder(address)
		if err != nil || before == nil {
			return errors.Join(err, errors.New("none does"))
		}

		for range 10 {
			time.Sleep(500 * time.Millisecond)
			if now, err := c.holder(address); err != nil || now != before {
				return errors.Join(err, fmt.Errorf("it went from %s to %s", before.nameOf(), now.nameOf()))
			}
		}

		out = before

		return nil
	})

	return out
}

// killsTheHolder kills keepalived on the node that holds the address. Afterwards, it expects one holder, and keepalived
// on each node.
func (c *cluster) killsTheHolder(address netip.Addr) {
	t := c.lan.t
	t.Helper()
	holder := c.settled(address)
	before := holder.pids("keepalived")
	holder.kill("keepalived")

	if !holder.has(address) {
		t.Fatalf("keepalived of %s had the time to give %s away, which is not what this test is about", holder.name, address)
	}

	c.lan.eventually("keepalived of "+holder.name+" runs again", func() error {
		if now := holder.pids("keepalived"); len(now) < len(before) {
			return fmt.Errorf("there were %v, and are %v", before, now)
		}

		return nil
	})
	c.settled(address)
}

// TestAnEndpointHasOneHolderAfterKeepalivedWasKilled kills keepalived before keepalived can remove the address from the
// interface. Another node takes the address. The first node releases the address after systemd has restarted
// keepalived.
func TestAnEndpointHasOneHolderAfterKeepalivedWasKilled(t *testing.T) {
	l := newLAN(t)
	c := newCluster(l, "k", "10.99.0.5", 51, bootstrap.NoLoadBalancer)

	for i := range 3 {
		c.start(fmt.Sprintf("10.99.0.%d", 11+i))
	}

	l.eventually("all know each other", func() error { return c.knowEachOther(c.nodes, "") })

	for range 2 { // systemd starts the program again each time
		c.killsTheHolder(c.endpoint)
	}

	c.answers()
}

// TestAnEndpointAnswersAfterHAProxyWasKilled verifies that systemd restarts haproxy, unless the address moves before.
func TestAnEndpointAnswersAfterHAProxyWasKilled(t *testing.T) {
	l := newLAN(t)
	c := newCluster(l, "h", "10.99.0.5", 61, bootstrap.HAProxy)

	for i := range 2 {
		c.start(fmt.Sprintf("10.99.0.%d", 11+i))
	}

	l.eventually("all know each other", func() error { return c.knowEachOther(c.nodes, "haproxy/haproxy.cfg") })
	holder := c.settled(c.endpoint)
	holder.kill("haproxy")
	_, took := c.answers()
	t.Logf("%s: the endpoint answers again %.1f s after haproxy of its holder was killed", holder.name, took.Seconds())
	l.eventually("haproxy of "+holder.name+" runs again", func() error {
		if len(holder.pids("haproxy")) == 0 {
			return errors.New("it does not")
		}

		return nil
	})
}

// drained is the maximum time during which connections go to an unreachable node. The node's health check must fail
// three times, two seconds apart, and each try takes up to three seconds.
const drained = 20 * time.Second

// TestANodeThatIsUnreachableIsDrained (row 24) disconnects a node from the network, as when a host loses its power. The
// node does not refuse connections. Instead, each of them takes haproxy's timeout of five seconds.
func TestANodeThatIsUnreachableIsDrained(t *testing.T) {
	l := newLAN(t)
	c := newCluster(l, "d", "10.99.0.5", 62, bootstrap.HAProxy)

	for i := range 3 {
		c.start(fmt.Sprintf("10.99.0.%d", 11+i))
	}

	l.eventually("all know each other", func() error { return c.knowEachOther(c.nodes, "haproxy/haproxy.cfg") })
	l.eventually("all API servers get connections", func() error { return c.spread(c.nodes) })

	holder := c.settled(c.endpoint)
	lost := c.nodes[slices.IndexFunc(c.nodes, func(n *node) bool { return n != holder })]
	run(t, "ip", "netns", "exec", lost.namespace, "ip", "link", "set", "enp1s0", "down")

	var until time.Duration

	begun := time.Now()
	l.eventually("no connection goes to "+lost.name, func() error {
		until = time.Since(begun)

		for range 10 { // each of the three servers gets some connections
			asked := time.Now()
			if by := l.ask(c.endpoint.String() + ":6443"); by == "" || by == lost.name || time.Since(asked) > 3*time.Second {
				return fmt.Errorf("%q answers after %s", by, time.Since(asked))
			}
		}

		return nil
	})
	t.Logf("%s was drained %.1f s after it became unreachable", lost.name, until.Seconds())

	if until > drained {
		t.Errorf("%s was drained after %s", lost.name, until)
	}
}

// ingressOf starts a listener on the ingress port of a node.
func ingressOf(t *testing.T, n *node) net.Listener {
	t.Helper()
	listener, err := listenIn(n.namespace, ":443")
	if err != nil {
		t.Fatal(err)
	}

	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}

			_ = connection.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })

	return listener
}

// TestTheIngressAddressIsWhereSomethingServes uses two workers that serve. One of them stops serving, and on the other,
// keepalived is killed. The nodes find each other as nodes of a cluster do, only by unicast.
func TestTheIngressAddressIsWhereSomethingServes(t *testing.T) {
	l := newLAN(t)
	c := newCluster(l, "i", "10.99.0.5", 81, bootstrap.NoLoadBalancer)
	ingress := netip.MustParseAddr("10.99.0.6")
	c.ingress = &bootstrap.VirtualAddress{Address: ingress, RouterID: 82}
	c.start("10.99.0.11")
	one, other := c.startNode("10.99.0.21", true), c.startNode("10.99.0.22", true)
	l.eventually("each node has the others as peers", func() error {
		for _, n := range c.nodes {
			for _, peer := range c.nodes {
				_, instance, _ := strings.Cut(n.config("keepalived/keepalived.conf"), "vrrp_instance ingress")
				if has := strings.Contains(instance, "\n        "+peer.address.String()+"\n"); has != (n != peer) {
					return fmt.Errorf("%s: %s is a peer: %t\n%s", n.name, peer.name, has, instance)
				}
			}
		}

		return nil
	})

	serving := map[*node]net.Listener{one: ingressOf(t, one), other: ingressOf(t, other)}
	first := c.settled(ingress)
	if serving[first] == nil {
		t.Fatalf("%s holds the ingress address, and serves nothing", first.name)
	}

	_ = serving[first].Close()
	l.eventually("the ingress address moves to the one that serves", func() error {
		if now, err := c.holder(ingress); err != nil || now == first || serving[now] == nil {
			return fmt.Errorf("%s has it: %w", now.nameOf(), err)
		}

		return nil
	})

	serving[first] = ingressOf(t, first)
	c.killsTheHolder(ingress)
	c.held() // the endpoint
}

// TestAnIngressAddressHasOneHolderWhileWorkersJoin lets workers join and serve at the same time. A node that the others
// do not know does not hear of a holder.
func TestAnIngressAddressHasOneHolderWhileWorkersJoin(t *testing.T) {
	l := newLAN(t)
	c := newCluster(l, "w", "10.99.0.5", 83, bootstrap.NoLoadBalancer)
	c.joining = true
	ingress := netip.MustParseAddr("10.99.0.6")
	c.ingress = &bootstrap.VirtualAddress{Address: ingress, RouterID: 84}
	first := c.start("10.99.0.12")
	ingressOf(t, first)
	l.eventually("the only node holds the ingress address", func() error {
		if now, err := c.holder(ingress); now != first {
			return fmt.Errorf("%s has it: %w", now.nameOf(), err)
		}

		return nil
	})

	for _, address := range []string{"10.99.0.11", "10.99.0.21"} {
		n := c.startNode(address, true)
		ingressOf(t, n)
		c.list(n)
	}

	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if _, err := c.holder(ingress); err != nil {
			t.Fatal(err)
		}
	}

	l.eventually("the workers have read that they are nodes", func() error {
		for _, n := range c.nodes {
			if n.config("capolvm/nodes") != "10.99.0.11\n10.99.0.12\n10.99.0.21\n" {
				return fmt.Errorf("%s knows %q", n.name, n.config("capolvm/nodes"))
			}
		}

		return nil
	})
	l.eventually("another node takes it from one that is switched off", func() error {
		if first.process != nil {
			first.off()
		}

		if now, err := c.holder(ingress); err != nil || now == nil {
			return errors.Join(err, errors.New("none does"))
		}

		return nil
	})
}
