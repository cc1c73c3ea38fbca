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

// renderFile fills one of our files.
var renderFile = FileTemplates(serviceFiles)

// FileTemplates returns what fills one of the files below files, which are templates of this program. The values are
// addresses, numbers and checked names.
func FileTemplates(files fs.FS) func(name string, values any) string {
	templates := template.Must(template.ParseFS(files, "files/*"))

	return func(name string, values any) string {
		var out strings.Builder
		if err := templates.ExecuteTemplate(&out, name, values); err != nil {
			panic(fmt.Sprintf("%s: %v", name, err)) // a template of this program
		}

		return out.String()
	}
}

// LoadBalancer spreads connections to the control plane over its API servers.
type LoadBalancer string

// The load balancers; none means that each API server is at the endpoint's port itself.
const (
	NoLoadBalancer LoadBalancer = ""
	HAProxy        LoadBalancer = "HAProxy"
	Nginx          LoadBalancer = "Nginx"
)

// Services make the cluster's endpoints on its nodes.
type Services struct {
	// HostName of the node.
	HostName string
	// Interface that has the virtual addresses, and the node's own address there.
	Interface string
	Self      netip.Addr
	// API is the endpoint of the control plane; nil on workers, or where it is made by others.
	API *APIEndpoint
	// Ingress is the virtual address of whatever serves the ports 80 and 443; nil for none.
	Ingress *VirtualAddress
	// IngressSelf is the node's own address of the family of Ingress; invalid if that is Self.
	IngressSelf netip.Addr
	// DNS answers for the names of the cluster; nil for none.
	DNS *DNS
	// Node has the firewall let in what Kubernetes needs; nil leaves that to the image.
	Node *Node
}

// DefaultAPIServerPort is that of API servers behind load balancers of the nodes, where none is set.
const DefaultAPIServerPort = 6444

// APIEndpoint is the endpoint of the control plane, on a node of it.
type APIEndpoint struct {
	VirtualAddress
	// Port of the endpoint.
	Port int32
	// Nodes are the addresses of the control plane's nodes that are known, of the address's family.
	Nodes []netip.Addr
	// LoadBalancer in front of the API servers, which listen on ServerPort then.
	LoadBalancer LoadBalancer
	ServerPort   int32
	// NginxImage runs nginx with podman; empty means the nginx of the image of the VM.
	NginxImage string
	// KubeVIPImage holds the address with kube-vip; empty means with keepalived.
	KubeVIPImage string
	// KubeVIPLease is how kube-vip elects who holds it.
	KubeVIPLease Lease
}

// Lease is how long the holder of an address may be silent, in seconds.
type Lease struct {
	// Duration after which another one takes the address, RenewDeadline after which the holder lets go, and RetryPeriod
	// between tries.
	Duration, RenewDeadline, RetryPeriod int32
}

// OrDefault is the lease with defaults for what is not set. They outlive some seconds in which etcd does not answer, as
// on shared storage.
func (l Lease) OrDefault() Lease {
	return Lease{
		Duration:      cmp.Or(l.Duration, 15),
		RenewDeadline: cmp.Or(l.RenewDeadline, 10),
		RetryPeriod:   cmp.Or(l.RetryPeriod, 2),
	}
}

// VirtualAddress is an address that one of several nodes has.
type VirtualAddress struct {
	Address netip.Addr
	// Additional address of the other family, which the same node has; invalid for none.
	Additional netip.Addr
	// RouterID of VRRP, 1 to 255: others on the network have other ones.
	RouterID int
}

// VIP is the address, for the templates.
func (v VirtualAddress) VIP() netip.Addr { return v.Address }

// HasIPv4 reports whether one of the addresses is of IPv4: services listen at the families of the endpoint alone, for
// an image may have IPv6 turned off.
func (v VirtualAddress) HasIPv4() bool { return v.Address.Is4() || v.Additional.Is4() }

// HasIPv6 reports whether one of the addresses is of IPv6.
func (v VirtualAddress) HasIPv6() bool { return v.Address.Is6() || v.Additional.Is6() }

// LoopbackHost is where the node itself is asked, as in a URL.
func (v VirtualAddress) LoopbackHost() string {
	if v.HasIPv4() {
		return "127.0.0.1"
	}

	return "[::1]"
}

// All are the addresses.
func (v VirtualAddress) All() []netip.Addr {
	if !v.Additional.IsValid() {
		return []netip.Addr{v.Address}
	}

	return []netip.Addr{v.Address, v.Additional}
}

// bindPort is the port of the API server of this node; zero leaves it. Without a load balancer, the API server is at
// the endpoint's port itself.
func (s *Services) bindPort() int32 {
	switch {
	case s == nil || s.API == nil:
		return 0
	case s.API.LoadBalancer == NoLoadBalancer:
		return s.API.Port
	}

	return s.API.ServerPort
}

// names are what the API server is reached by, beside its endpoint.
func (s *Services) names() []string {
	if s == nil {
		return nil
	}

	out := s.DNS.APINames()
	if s.API != nil && s.API.Additional.IsValid() {
		out = append(out, s.API.Additional.String())
	}

	return out
}

// keepalived reports whether it holds the address here.
func (a *APIEndpoint) keepalived() bool { return a != nil && a.KubeVIPImage == "" }

// keepalived reports whether it holds an address here.
func (s *Services) keepalived() bool { return s.Ingress != nil || s.API.keepalived() }

// follows reports whether the node's services follow the nodes of the cluster.
func (s *Services) follows() bool { return s.keepalived() || s.DNS != nil && s.DNS.ControlPlane }

// files of the services; superAdmin reports that the node gets a super-admin.conf of kubeadm's.
func (s *Services) files(superAdmin bool) []File {
	if s == nil {
		return nil
	}

	var out []File
	add := func(path string, mode int, content string) {
		out = append(out, File{Path: path, Mode: mode, Content: content})
	}
	add(allowPath, 0o700, s.allowed().Script())

	if s.follows() {
		add("/etc/capolvm/follow.sh", 0o700, s.followScript())
	}

	if s.keepalived() {
		add("/etc/capolvm/keepalived.conf", 0o644, s.keepalivedConfig())
		add("/etc/capolvm/control-plane", 0o644, s.knownNodes())
	}

	out = append(out, s.startAgain()...)
	out = append(out, s.DNS.files(s.HostName)...)
	if s.Ingress != nil {
		add("/etc/keepalived/capolvm-check-ingress.sh", 0o755, renderFile("check-ingress.sh", s.ingressHosts()))
		add("/etc/capolvm/nodes", 0o644, s.ingressSelf().String()+"\n")
	}

	api := s.API
	if api == nil {
		return out
	}

	if api.keepalived() {
		add("/etc/keepalived/capolvm-check-api.sh", 0o755, renderFile("check-api.sh", api))
	} else {
		add("/etc/kubernetes/manifests/kube-vip.yaml", 0o600, kubeVIP(s, superAdmin))
	}

	switch api.LoadBalancer {
	case HAProxy:
		add("/etc/capolvm/haproxy.cfg", 0o644, renderFile("haproxy.cfg", api))
	case Nginx:
		add("/etc/capolvm/nginx.conf", 0o644, renderFile("nginx.conf", api))
	}

	return out
}

// StartAgain is a drop-in for a unit of the image: systemd starts the service again, however often it ended. Units of
// keepalived, and of haproxy on Oracle Linux, leave it ended.
const StartAgain = "[Unit]\n" + startAgainUnit + "[Service]\n" + startAgainService

// The same in the sections of a unit of ours.
const (
	startAgainUnit    = "StartLimitIntervalSec=0\n"
	startAgainService = "Restart=always\nRestartSec=2\n"
)

// startAgain are the drop-ins of the services that the image brings.
func (s *Services) startAgain() []File {
	var out []File

	for _, unit := range s.units() {
		if unit.Contents == "" {
			path := fmt.Sprintf("/etc/systemd/system/%s.d/10-capolvm.conf", unit.Name)
			out = append(out, File{Path: path, Mode: 0o644, Content: StartAgain})
		}
	}

	return out
}

// ingressHosts are where something must answer for the node to hold the ingress address. Container runtimes do not map
// ports of IPv6 on the loopback, so that the node's own address is asked, too.
func (s *Services) ingressHosts() []string {
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

// ingressSelf is the node's own address, with which it talks to the others that may hold the ingress address.
func (s *Services) ingressSelf() netip.Addr {
	if s.IngressSelf.IsValid() {
		return s.IngressSelf
	}

	return s.Self
}

func (s *Services) keepalivedConfig() string {
	type instance struct {
		VirtualAddress
		Interface string
		Self      netip.Addr
	}
	values := struct {
		HostName     string
		API, Ingress *instance
	}{HostName: s.HostName}
	if s.API.keepalived() {
		values.API = &instance{s.API.VirtualAddress, s.Interface, s.Self}
	}

	if s.Ingress != nil {
		values.Ingress = &instance{*s.Ingress, s.Interface, s.ingressSelf()}
	}

	return renderFile("keepalived.conf", values)
}

func (s *Services) followScript() string {
	values := map[string]any{"Self": s.Self, "Separator": ".", "Open": "", "Close": "", "Keepalived": s.keepalived()}
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
		values["OwnPort"] = s.bindPort()
		values["HAProxy"], values["Nginx"] = s.API.LoadBalancer == HAProxy, s.API.LoadBalancer == Nginx
	}

	return renderFile("follow.sh", values)
}

// knownNodes is what is known at the first boot.
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

// units of the services, in the order in which they start.
func (s *Services) units() []Unit {
	if s == nil {
		return nil
	}

	before, started := "kubelet.service", []Unit{}
	if s.keepalived() {
		before += " keepalived.service"
	}

	if s.API != nil {
		switch s.API.LoadBalancer {
		case HAProxy:
			before += " haproxy.service"
			started = append(started, Unit{Name: "haproxy.service"})
		case Nginx:
			before += " " + nginxService
			started = append(started, Unit{Name: nginxService, Contents: nginxUnit(s.API.NginxImage)})
		}
	}

	if !s.follows() {
		return []Unit{allowing(before)}
	}

	out := []Unit{
		allowing(before + " capolvm-follow.service"),
		{
			Name: "capolvm-follow.service",
			Contents: "[Unit]\nDescription=Follow the nodes of the " +
				"cluster\nAfter=network-online.target\nWants=network-online.target\nBefore=" + before +
				"\n[Service]\nType=oneshot\nExecStart=/bin/bash " +
				"/etc/capolvm/follow.sh\n[Install]\nWantedBy=multi-user.target\n",
		},
	}
	out = append(out, started...)
	if s.keepalived() {
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

// pulling are the units that pull an image without the container runtime of Kubernetes.
func (s *Services) pulling() []string {
	if s == nil || s.API == nil || s.API.LoadBalancer != Nginx || s.API.NginxImage == "" {
		return nil
	}

	return []string{nginxService}
}

// nginxUnit runs nginx with a configuration of its own, so that the one of the image is left alone.
func nginxUnit(image string) string {
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
