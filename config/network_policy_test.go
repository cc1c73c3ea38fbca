package config_test

import (
	"net/netip"
	"os"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// peer is the kind of host at an address: some networks choose the rules by it.
type peer int

const (
	outside peer = iota
	node
	pod
)

// network decides whether a block of addresses can contain a peer.
type network map[peer]bool

var (
	// byAddress follows the NetworkPolicy API: a block contains every host with an address in it.
	byAddress = network{outside: true, node: true, pod: true}
	// byIdentity is Cilium with its default policyCIDRMatchMode, according to its documentation: blocks contain neither
	// nodes nor Pods. No Cilium has confirmed this evaluator.
	byIdentity = network{outside: true}
)

// TestTheManagerReachesItsAPIServerAndNothingOfTheLink evaluates the egress rules of the shipped NetworkPolicy for
// connections of the manager, in both kinds of networks.
func TestTheManagerReachesItsAPIServerAndNothingOfTheLink(t *testing.T) {
	t.Parallel()
	policy := shippedPolicy(t)

	for _, c := range []struct {
		what    string
		to      string
		who     peer
		allowed bool
	}{
		{"an API server on a node", "192.168.10.11:6443", node, true},
		{"an API server on a node with IPv6", "[2001:db8::11]:6443", node, true},
		{"an API server on a virtual IP of a node", "192.168.10.5:6443", node, true},
		{"an API server in a Pod", "10.244.1.7:6443", pod, true},
		{"an API server in a Pod at another port", "10.244.1.7:8443", pod, true},
		{"an API server in a Pod with IPv6", "[fd12::7]:443", pod, true},
		{"a managed API server outside", "203.0.113.10:443", outside, true},
		{"an API server of a workload cluster", "10.20.30.5:6443", outside, true},
		{"an API server outside with IPv6", "[2001:db8:1::5]:6443", outside, true},
		{"an engine", "10.20.30.2:443", outside, true},
		{"an engine at another port", "10.20.30.2:8443", outside, true},
		{"credentials of a cloud", "169.254.169.254:80", outside, false},
		{"credentials of a cloud with TLS", "169.254.169.254:443", outside, false},
		{"credentials of a Pod in a cloud", "169.254.170.23:80", outside, false},
		{"credentials of a cloud that the node serves", "169.254.169.254:80", node, false},
		{"credentials of a cloud with IPv6", "[fd00:ec2::254]:80", outside, false},
		{"an address of the link with IPv6", "[fe80::a9fe:a9fe]:80", outside, false},
	} {
		for name, enforcer := range map[string]network{"by address": byAddress, "by identity": byIdentity} {
			to := netip.MustParseAddrPort(c.to)
			check.Equal(t, c.what+", "+name, enforcer.allows(t, policy, to, c.who), c.allowed)
		}
	}

	// Kubelets are on nodes, and tenants do not lead the manager there: only byIdentity keeps it away from them.
	kubelet := netip.MustParseAddrPort("192.168.10.11:10250")
	check.Equal(t, "a kubelet, by identity", byIdentity.allows(t, policy, kubelet, node), false)
}

func shippedPolicy(t *testing.T) *networkingv1.NetworkPolicy {
	t.Helper()
	content, err := os.ReadFile("components/network-policy/network_policy.yaml")
	check.Error(t, err, "")

	var policy networkingv1.NetworkPolicy
	check.Error(t, yaml.UnmarshalStrict(content, &policy), "")

	return &policy
}

// allows reports whether one of the egress rules allows a TCP connection.
func (n network) allows(t *testing.T, policy *networkingv1.NetworkPolicy, to netip.AddrPort, who peer) bool {
	t.Helper()

	for _, rule := range policy.Spec.Egress {
		if hasPort(rule.Ports, to.Port()) && n.hasPeer(t, rule.To, to.Addr(), who) {
			return true
		}
	}

	return false
}

func hasPort(ports []networkingv1.NetworkPolicyPort, port uint16) bool {
	for _, p := range ports {
		if (p.Protocol == nil || *p.Protocol == "TCP") && (p.Port == nil || p.Port.IntValue() == int(port)) {
			return true
		}
	}

	return len(ports) == 0
}

func (n network) hasPeer(t *testing.T, peers []networkingv1.NetworkPolicyPeer, address netip.Addr, who peer) bool {
	t.Helper()

	for _, p := range peers {
		switch {
		case p.IPBlock != nil:
			if n[who] && contains(p.IPBlock, address) {
				return true
			}
		case p.NamespaceSelector != nil && len(p.NamespaceSelector.MatchLabels)+
			len(p.NamespaceSelector.MatchExpressions) == 0 && p.PodSelector == nil:
			if who == pod {
				return true
			}
		default:
			t.Fatalf("the evaluator does not know the peer %v", p)
		}
	}

	return len(peers) == 0
}

func contains(block *networkingv1.IPBlock, address netip.Addr) bool {
	if !netip.MustParsePrefix(block.CIDR).Contains(address) {
		return false
	}

	for _, except := range block.Except {
		if netip.MustParsePrefix(except).Contains(address) {
			return false
		}
	}

	return true
}
