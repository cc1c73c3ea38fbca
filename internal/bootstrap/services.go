package bootstrap

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"text/template"
)

//go:embed files
var serviceFiles embed.FS

// renderFile renders a file in serviceFiles.
var renderFile = FileTemplates(serviceFiles)

// FileTemplates returns a function that renders the templates in files. The values must be addresses, numbers or
// validated names, because they are not escaped.
func FileTemplates(files fs.FS) func(name string, values any) string {
	templates := template.Must(template.ParseFS(files, "files/*"))

	return func(name string, values any) string {
		var out strings.Builder
		if err := templates.ExecuteTemplate(&out, name, values); err != nil {
			panic(fmt.Sprintf("%s: %v", name, err)) // a mistake in this program
		}

		return out.String()
	}
}

// LoadBalancer distributes control plane connections to the API servers.
type LoadBalancer string

// These are the load balancers. Without one, each API server itself listens on the endpoint's port.
const (
	NoLoadBalancer LoadBalancer = ""
	HAProxy        LoadBalancer = "HAProxy"
	Nginx          LoadBalancer = "Nginx"
)

// Services are the services for the cluster's endpoints on one of its nodes.
type Services struct {
	// HostName is the host name of the node.
	HostName string
	// Interface is the interface for the virtual addresses. Self is the node's own address on it.
	Interface string
	Self      netip.Addr
	// API is the control plane endpoint. It is nil on workers, and for an endpoint that is served elsewhere.
	API *APIEndpoint
	// Ingress is the virtual address for the service on ports 80 and 443, or nil.
	Ingress *VirtualAddress
	// IngressSelf is the node's own address with the family of Ingress. It is invalid if it equals Self.
	IngressSelf netip.Addr
	// DNS serves the names of the cluster. It is nil without a name server.
	DNS *DNS
	// Node opens the ports of Kubernetes in the firewall. If it is nil, the firewall of the image stays as it is.
	Node *Node
}

// DefaultAPIServerPort is the default port of API servers behind load balancers on the nodes.
const DefaultAPIServerPort = 6444

// APIEndpoint is a control plane endpoint on one of the control plane nodes.
type APIEndpoint struct {
	VirtualAddress
	// Port is the port of the endpoint.
	Port int32
	// Nodes are the known addresses of control plane nodes, with the family of the endpoint's address.
	Nodes []netip.Addr
	// LoadBalancer is the load balancer in front of the API servers. With one, they listen on ServerPort.
	LoadBalancer LoadBalancer
	ServerPort   int32
	// NginxImage is the image of nginx for podman. "" means the nginx of the VM image.
	NginxImage string
	// KubeVIPImage is the image of kube-vip if it holds the address. "" means that keepalived holds it.
	KubeVIPImage string
	// KubeVIPLease has the timings of kube-vip's election.
	KubeVIPLease Lease
}

// Lease limits how long the holder of an address may be silent, in seconds.
type Lease struct {
	// Duration is the time until another node takes the address. RenewDeadline is the time until the holder gives it
	// up. RetryPeriod is the time between attempts.
	Duration, RenewDeadline, RetryPeriod int32
}

// OrDefault returns the lease with defaults for unset fields. With the defaults, the holder survives if etcd stalls for
// some seconds, as on shared storage.
func (l Lease) OrDefault() Lease {
	return Lease{
		Duration:      cmp.Or(l.Duration, 15),
		RenewDeadline: cmp.Or(l.RenewDeadline, 10),
		RetryPeriod:   cmp.Or(l.RetryPeriod, 2),
	}
}

// VirtualAddress is an address that one of several nodes holds.
type VirtualAddress struct {
	Address netip.Addr
	// Additional is the address of the other family on the same node. It is invalid without such an address.
	Additional netip.Addr
	// RouterID is the VRRP ID, from 1 to 255. It is unique on the network.
	RouterID int
}

// VIP returns the address, for use in templates.
func (v VirtualAddress) VIP() netip.Addr { return v.Address }

// HasIPv4 reports whether one of the addresses is IPv4. Services listen only on the endpoint's families, because an
// image may have IPv6 disabled.
func (v VirtualAddress) HasIPv4() bool { return v.Address.Is4() || v.Additional.Is4() }

// HasIPv6 reports whether one of the addresses is IPv6.
func (v VirtualAddress) HasIPv6() bool { return v.Address.Is6() || v.Additional.Is6() }

// LoopbackHost returns the node's loopback address, in the form of a URL's host.
func (v VirtualAddress) LoopbackHost() string {
	if v.HasIPv4() {
		return "127.0.0.1"
	}

	return "[::1]"
}

// All returns the addresses.
func (v VirtualAddress) All() []netip.Addr {
	if !v.Additional.IsValid() {
		return []netip.Addr{v.Address}
	}

	return []netip.Addr{v.Address, v.Additional}
}

// getBindPort returns the port of this node's API server. 0 leaves the port unchanged. Without a load balancer, the API
// server listens on the endpoint's port.
func (s *Services) getBindPort() int32 {
	switch {
	case s == nil || s.API == nil:
		return 0
	case s.API.LoadBalancer == NoLoadBalancer:
		return s.API.Port
	}

	return s.API.ServerPort
}

// serverNames returns the names of the API server other than its endpoint.
func (s *Services) serverNames() []string {
	if s == nil {
		return nil
	}

	out := s.DNS.APINames()
	if s.API != nil && s.API.Additional.IsValid() {
		out = append(out, s.API.Additional.String())
	}

	return out
}

// hasKeepalived reports whether keepalived holds the endpoint's address.
func (a *APIEndpoint) hasKeepalived() bool { return a != nil && a.KubeVIPImage == "" }

// hasKeepalived reports whether keepalived holds an address on this node.
func (s *Services) hasKeepalived() bool { return s.Ingress != nil || s.API.hasKeepalived() }

// shouldFollowNodes reports whether the node's services need the current list of the cluster's nodes.
func (s *Services) shouldFollowNodes() bool {
	return s.hasKeepalived() || s.DNS != nil && s.DNS.ControlPlane
}

// buildFiles returns the files of the services. superAdmin reports whether kubeadm writes a super-admin.conf on the
// node.
func (s *Services) buildFiles(superAdmin bool) []File {
	if s == nil {
		return nil
	}

	var out []File
	add := func(path string, mode int, content string) {
		out = append(out, File{Path: path, Mode: mode, Content: content})
	}
	add(allowPath, 0o700, s.buildAllowed().RenderScript())

	if s.shouldFollowNodes() {
		add("/etc/capolvm/follow.sh", 0o700, s.renderFollowScript())
	}

	if s.hasKeepalived() {
		add("/etc/capolvm/keepalived.conf", 0o644, s.renderKeepalivedConfig())
		add("/etc/capolvm/control-plane", 0o644, s.knownNodes())
	}

	out = append(out, s.restartDropIns()...)
	out = append(out, s.DNS.buildFiles(s.HostName)...)
	if s.Ingress != nil {
		add("/etc/keepalived/capolvm-check-ingress.sh", 0o755, renderFile("check-ingress.sh", s.collectIngressHosts()))
		add("/etc/capolvm/nodes", 0o644, s.ingressSelf().String()+"\n")
	}

	api := s.API
	if api == nil {
		return out
	}

	if api.hasKeepalived() {
		add("/etc/keepalived/capolvm-check-api.sh", 0o755, renderFile("check-api.sh", api))
	} else {
		add("/etc/kubernetes/manifests/kube-vip.yaml", 0o600, renderKubeVIPPod(s, superAdmin))
	}

	switch api.LoadBalancer {
	case HAProxy:
		add("/etc/capolvm/haproxy.cfg", 0o644, renderFile("haproxy.cfg", api))
	case Nginx:
		add("/etc/capolvm/nginx.conf", 0o644, renderFile("nginx.conf", api))
	}

	return out
}

// StartAgain is a drop-in for a unit of the image. With it, systemd restarts the service without a limit. The units of
// keepalived, and of haproxy on Oracle Linux, do not restart the service.
const StartAgain = "[Unit]\n" + startAgainUnit + "[Service]\n" + startAgainService

// These are its parts, for the sections of this package's own units.
const (
	startAgainUnit    = "StartLimitIntervalSec=0\n"
	startAgainService = "Restart=always\nRestartSec=2\n"
)

// restartDropIns returns the drop-ins for services of the image.
func (s *Services) restartDropIns() []File {
	var out []File

	for _, unit := range s.buildUnits() {
		if unit.Contents == "" {
			path := fmt.Sprintf("/etc/systemd/system/%s.d/10-capolvm.conf", unit.Name)
			out = append(out, File{Path: path, Mode: 0o644, Content: StartAgain})
		}
	}

	return out
}

// collectIngressHosts returns the addresses that must answer before the node holds the ingress address. Container
// runtimes do not map IPv6 ports on the loopback address, so they include the node's own address.
func (s *Services) collectIngressHosts() []string {
	var out []string
	if s.Ingress.HasIPv4() {
		out = append(out, "127.0.0.1")
	}

	if s.Ingress.HasIPv6() {
		out = append(out, "::1")
		if self := s.ingressSelf(); self.Is6() {
			out = append(out, self.String())
		}
	}

	return out
}

// ingressSelf returns the node's own address, for messages to other nodes that may hold the ingress address.
func (s *Services) ingressSelf() netip.Addr {
	if s.IngressSelf.IsValid() {
		return s.IngressSelf
	}

	return s.Self
}

func (s *Services) renderKeepalivedConfig() string {
	type instance struct {
		VirtualAddress
		Interface string
		Self      netip.Addr
	}
	values := struct {
		HostName     string
		API, Ingress *instance
	}{HostName: s.HostName}
	if s.API.hasKeepalived() {
		values.API = &instance{s.API.VirtualAddress, s.Interface, s.Self}
	}

	if s.Ingress != nil {
		values.Ingress = &instance{*s.Ingress, s.Interface, s.ingressSelf()}
	}

	return renderFile("keepalived.conf", values)
}

func (s *Services) renderFollowScript() string {
	values := map[string]any{"Self": s.Self, "Separator": ".", "Open": "", "Close": "", "Keepalived": s.hasKeepalived()}
	if s.DNS != nil && s.DNS.ControlPlane {
		values["Domain"] = s.DNS.Domain
	}

	if s.Ingress != nil {
		values["Ingress"], values["IngressSelf"], values["IngressSeparator"] = true, s.ingressSelf(), "."
		if s.ingressSelf().Is6() {
			values["IngressSeparator"] = ":"
		}
	}

	if s.Self.Is6() {
		values["Separator"], values["Open"], values["Close"] = ":", "[", "]"
	}

	if s.API != nil {
		values["BackendPort"] = s.API.ServerPort
		values["OwnPort"] = s.getBindPort()
		values["HAProxy"], values["Nginx"] = s.API.LoadBalancer == HAProxy, s.API.LoadBalancer == Nginx
	}

	return renderFile("follow.sh", values)
}

// knownNodes returns the nodes known at the first boot.
func (s *Services) knownNodes() string {
	lines := []string{s.Self.String()}
	if s.API != nil {
		for _, node := range s.API.Nodes {
			if node != s.Self {
				lines = append(lines, node.String())
			}
		}
	}

	return strings.Join(lines, "\n") + "\n"
}

// nginxService is the unit of nginx.
const nginxService = "capolvm-nginx.service"

// buildUnits returns the units of the services, in the order of their start.
func (s *Services) buildUnits() []Unit {
	if s == nil {
		return nil
	}

	before, started := "kubelet.service", []Unit{}
	if s.hasKeepalived() {
		before += " keepalived.service"
	}

	if s.API != nil {
		switch s.API.LoadBalancer {
		case HAProxy:
			before += " haproxy.service"
			started = append(started, Unit{Name: "haproxy.service"})
		case Nginx:
			before += " " + nginxService
			started = append(started, Unit{Name: nginxService, Contents: newNginxUnit(s.API.NginxImage)})
		}
	}

	if !s.shouldFollowNodes() {
		return []Unit{newAllowUnit(before)}
	}

	out := []Unit{
		newAllowUnit(before + " capolvm-follow.service"),
		{
			Name: "capolvm-follow.service",
			Contents: "[Unit]\nDescription=Follow the nodes of the " +
				"cluster\nAfter=network-online.target\nWants=network-online.target\nBefore=" + before +
				"\n[Service]\nType=oneshot\nExecStart=/bin/bash " +
				"/etc/capolvm/follow.sh\n[Install]\nWantedBy=multi-user.target\n",
		},
	}
	out = append(out, started...)
	if s.hasKeepalived() {
		out = append(out, Unit{Name: "keepalived.service"})
	}

	if s.API != nil || s.Ingress != nil || s.DNS != nil && s.DNS.ControlPlane {
		out = append(out, Unit{
			Name: "capolvm-follow.timer",
			Contents: "[Unit]\nDescription=Follow the nodes of the cluster\n" +
				"[Timer]\nOnActiveSec=10s\nOnUnitInactiveSec=10s\nAccuracySec=1s\n[Install]\nWantedBy=timers.target\n",
		})
	}

	return out
}

// pullingUnits returns the units that pull an image without the container runtime of Kubernetes.
func (s *Services) pullingUnits() []string {
	if s == nil || s.API == nil || s.API.LoadBalancer != Nginx || s.API.NginxImage == "" {
		return nil
	}

	return []string{nginxService}
}

// newNginxUnit returns a unit that runs nginx with its own configuration, and does not change the image's
// configuration.
func newNginxUnit(image string) string {
	start := "ExecStart=/usr/sbin/nginx -c /etc/capolvm/nginx/nginx.conf -g 'daemon off;'\n"
	reload := "ExecReload=/usr/sbin/nginx -c /etc/capolvm/nginx/nginx.conf -s reload\n"
	if image != "" {
		start = "ExecStartPre=-/usr/bin/podman rm --force capolvm-nginx\nExecStart=/usr/bin/podman run --rm --name " +
			"capolvm-nginx --network host --volume /etc/capolvm/nginx:/etc/nginx:ro,Z " + escapeUnit(
			image,
		) + "\nExecStop=/usr/bin/podman stop capolvm-nginx\n"
		reload = "ExecReload=/usr/bin/podman kill --signal HUP capolvm-nginx\n"
	}

	return "[Unit]\nDescription=Load balancer of the control plane\nAfter=network-online.target " +
		"capolvm-follow.service\nWants=network-online.target\n" + startAgainUnit + "[Service]\n" + start + reload +
		startAgainService + "[Install]\nWantedBy=multi-user.target\n"
}
