package bootstrap

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Allowed lists the settings of SELinux and the firewall that the services of a VM need.
type Allowed struct {
	// Booleans are the booleans to turn on in the SELinux policy.
	Booleans []string
	// HTTPPorts are the ports of nginx, because SELinux has no boolean for them.
	HTTPPorts []int
	// Ports are the ports to open, such as 6443/tcp. Protocols are the protocols to allow, such as vrrp.
	Ports, Protocols []string
	// Neighbors are the networks that may use NeighborPorts and NeighborProtocols.
	Neighbors                        []netip.Prefix
	NeighborPorts, NeighborProtocols []string
	// Trusted are the networks with unrestricted access.
	Trusted []netip.Prefix
}

// Node describes a Kubernetes node for its firewall.
type Node struct {
	ControlPlane bool
	// Neighbors are the networks of the nodes. Pods are the networks of the cluster's pods.
	Neighbors, Pods []netip.Prefix
}

// nodePort is a port that a node opens.
type nodePort struct {
	// port is a port with its protocol, or the number of a protocol without ports.
	port string
	// controlPlane opens the port only on control plane nodes. neighbors opens it only for the networks of the nodes.
	controlPlane, neighbors bool
	what                    string
}

// nodePorts are the ports that Kubernetes nodes open, besides those of Services. docs/user/endpoints.md has the same
// table. Protocols without authentication, such as overlays of pod networks, are only for neighbors.
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

// allowKubernetes allows the ports of a Kubernetes node. held reports whether the node's own services hold the
// endpoint. They then open its ports.
func (a *Allowed) allowKubernetes(node *Node, held bool) {
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

// NeighborRules returns the firewalld rules for neighbors. The template calls it.
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

// AllowTCP opens TCP ports.
func (a *Allowed) AllowTCP(ports ...int) {
	for _, port := range ports {
		if text := fmt.Sprintf("%d/tcp", port); !slices.Contains(a.Ports, text) {
			a.Ports = append(a.Ports, text)
		}
	}
}

// AllowKeepalived allows keepalived to hold an address, and to check its service.
func (a *Allowed) AllowKeepalived() {
	a.Booleans = append(a.Booleans, "keepalived_connect_any")
	a.Protocols = append(a.Protocols, "vrrp")
}

// AllowHAProxy allows haproxy to listen on any port, and to connect to any port.
func (a *Allowed) AllowHAProxy() { a.Booleans = append(a.Booleans, "haproxy_connect_any") }

// AllowNginx allows the nginx of the image to listen on a port, and to connect to others. nginx in a container needs
// neither.
func (a *Allowed) AllowNginx(port int) {
	a.Booleans = append(a.Booleans, "httpd_can_network_connect")
	a.HTTPPorts = append(a.HTTPPorts, port)
}

// RenderScript returns a script that applies the settings on systems with SELinux or firewalld. It changes nothing on
// other systems.
func (a *Allowed) RenderScript() string { return renderFile("allow.sh", a) }

// These are the script of a node, and the unit that runs it before the services.
const (
	allowPath = "/etc/capolvm/allow.sh"
	allowUnit = "capolvm-allow.service"
)

// buildAllowed returns the settings that the node's services need.
func (s *Services) buildAllowed() *Allowed {
	out := &Allowed{}
	if s.hasKeepalived() {
		out.AllowKeepalived()
	}

	if api := s.API; api != nil {
		out.AllowTCP(int(api.Port))

		switch api.LoadBalancer {
		case HAProxy:
			out.AllowHAProxy()
			out.AllowTCP(int(api.ServerPort))
		case Nginx:
			if api.NginxImage == "" {
				out.AllowNginx(int(api.Port))
			}

			out.AllowTCP(int(api.ServerPort))
		}
	}

	if s.Ingress != nil {
		out.AllowTCP(80, 443)
	}

	if s.DNS != nil {
		out.AllowTCP(53)
		out.Ports = append(out.Ports, "53/udp")
	}

	out.allowKubernetes(s.Node, s.API != nil)

	return out
}

// newAllowUnit returns a unit that runs the script before other units.
func newAllowUnit(before string) Unit {
	return Unit{
		Name: allowUnit,
		Contents: "[Unit]\nDescription=Have SELinux and the firewall allow the services of this node\n" +
			"After=firewalld.service\nBefore=" + before +
			"\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/bash " + allowPath +
			"\n[Install]\nWantedBy=multi-user.target\n",
	}
}
