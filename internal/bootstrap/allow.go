package bootstrap

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Allowed is what SELinux and the firewall of a VM have to allow its services.
type Allowed struct {
	// Booleans of SELinux's policy to turn on.
	Booleans []string
	// HTTPPorts are where nginx listens, for which SELinux has no boolean.
	HTTPPorts []int
	// Ports to open, such as 6443/tcp, and Protocols, such as vrrp.
	Ports, Protocols []string
	// Neighbors are networks from which NeighborPorts are open, and NeighborProtocols let in.
	Neighbors                        []netip.Prefix
	NeighborPorts, NeighborProtocols []string
	// Trusted are networks from which all is let in.
	Trusted []netip.Prefix
}

// Node is what the firewall of a node of Kubernetes has to know.
type Node struct {
	ControlPlane bool
	// Neighbors are the networks of the node, where the other ones are. Pods are those of the cluster's pods.
	Neighbors, Pods []netip.Prefix
}

// nodePort is what a node is asked at.
type nodePort struct {
	// port with its protocol, or the number of a protocol without ports.
	port string
	// controlPlane and neighbors say that it is for nodes of the control plane alone, and from networks of nodes alone.
	controlPlane, neighbors bool
	what                    string
}

// nodePorts are what nodes of Kubernetes are asked at, beside the services that Services are for. The table in
// docs/user/endpoints.md is the same. What trusts whoever sends it, as overlays of pod networks do, is for neighbors.
var nodePorts = []nodePort{
	{"10250/tcp", false, false, "kubelet"},
	{"10256/tcp", false, false, "health of kube-proxy"},
	{"30000-32767/tcp", false, false, "NodePorts"},
	{"30000-32767/udp", false, false, "NodePorts"},
	{"6443/tcp", true, false, "API server behind an endpoint of others"},
	{"2379-2380/tcp", true, false, "etcd"},
	{"8472/udp", false, true, "VXLAN of Flannel and Cilium"},
	{"4789/udp", false, true, "VXLAN of Calico"},
	{"6081/udp", false, true, "Geneve"},
	{"51820-51821/udp", false, true, "WireGuard"},
	{"179/tcp", false, true, "BGP"},
	{"5473/tcp", false, true, "Typha of Calico"},
	{"4240/tcp", false, true, "health of Cilium"},
	{"4", false, true, "IP in IP of Calico"},
}

// kubernetes allows what a node of Kubernetes is asked at. held reports that the node's services hold the endpoint, and
// open its ports.
func (a *Allowed) kubernetes(node *Node, held bool) {
	if node == nil {
		return
	}

	for _, each := range nodePorts {
		_, hasPort, _ := strings.Cut(each.port, "/")

		switch {
		case each.controlPlane && !node.ControlPlane, each.port == "6443/tcp" && held:
		case !each.neighbors:
			a.Ports = append(a.Ports, each.port)
		case hasPort == "":
			a.NeighborProtocols = append(a.NeighborProtocols, each.port)
		default:
			a.NeighborPorts = append(a.NeighborPorts, each.port)
		}
	}

	a.Neighbors, a.Trusted = node.Neighbors, node.Pods
}

// NeighborRules are the rules of firewalld for neighbors, for the template.
func (a *Allowed) NeighborRules() []string {
	var out []string

	for _, network := range a.Neighbors {
		family := "ipv6"
		if network.Addr().Is4() {
			family = "ipv4"
		}

		rule := fmt.Sprintf("rule family=%q source address=%q ", family, network)

		for _, each := range a.NeighborPorts {
			port, protocol, _ := strings.Cut(each, "/")
			out = append(out, rule+fmt.Sprintf("port port=%q protocol=%q accept", port, protocol))
		}

		for _, each := range a.NeighborProtocols {
			out = append(out, rule+fmt.Sprintf("protocol value=%q accept", each))
		}
	}

	return out
}

// TCP opens ports of TCP.
func (a *Allowed) TCP(ports ...int) {
	for _, port := range ports {
		if text := fmt.Sprintf("%d/tcp", port); !slices.Contains(a.Ports, text) {
			a.Ports = append(a.Ports, text)
		}
	}
}

// Keepalived allows keepalived to hold an address, and to ask the service that it checks.
func (a *Allowed) Keepalived() {
	a.Booleans = append(a.Booleans, "keepalived_connect_any")
	a.Protocols = append(a.Protocols, "vrrp")
}

// HAProxy allows haproxy to listen and to connect at any port.
func (a *Allowed) HAProxy() { a.Booleans = append(a.Booleans, "haproxy_connect_any") }

// Nginx allows the nginx of the image to listen at a port, and to connect to others. A container needs neither.
func (a *Allowed) Nginx(port int) {
	a.Booleans = append(a.Booleans, "httpd_can_network_connect")
	a.HTTPPorts = append(a.HTTPPorts, port)
}

// Script allows it where SELinux or firewalld would not, and changes nothing elsewhere.
func (a *Allowed) Script() string { return renderFile("allow.sh", a) }

// The script and the unit of a node, which runs it before the services.
const (
	allowPath = "/etc/capolvm/allow.sh"
	allowUnit = "capolvm-allow.service"
)

// allowed is what the node's services need.
func (s *Services) allowed() *Allowed {
	out := &Allowed{}
	if s.keepalived() {
		out.Keepalived()
	}

	if api := s.API; api != nil {
		out.TCP(int(api.Port))

		switch api.LoadBalancer {
		case HAProxy:
			out.HAProxy()
			out.TCP(int(api.ServerPort))
		case Nginx:
			if api.NginxImage == "" {
				out.Nginx(int(api.Port))
			}

			out.TCP(int(api.ServerPort))
		}
	}

	if s.Ingress != nil {
		out.TCP(80, 443)
	}

	if s.DNS != nil {
		out.TCP(53)
		out.Ports = append(out.Ports, "53/udp")
	}

	out.kubernetes(s.Node, s.API != nil)

	return out
}

// allowing is the unit that runs the script before others.
func allowing(before string) Unit {
	return Unit{
		Name: allowUnit,
		Contents: "[Unit]\nDescription=Have SELinux and the firewall allow the services of this node\n" +
			"After=firewalld.service\nBefore=" + before +
			"\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/bash " + allowPath +
			"\n[Install]\nWantedBy=multi-user.target\n",
	}
}
