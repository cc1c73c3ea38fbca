package bootstrap

import (
	"fmt"
	"slices"
)

// Allowed is what SELinux and the firewall of a VM have to allow its services.
type Allowed struct {
	// Booleans of SELinux's policy to turn on.
	Booleans []string
	// HTTPPorts are where nginx listens, for which SELinux has no boolean.
	HTTPPorts []int
	// Ports to open, such as 6443/tcp, and Protocols, such as vrrp.
	Ports, Protocols []string
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
