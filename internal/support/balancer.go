package support

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
)

// Balancer is the configuration of one VM in a load balancer.
type Balancer struct {
	// Name is the name of the VM.
	Name string
	// Ports are the ports on which the VM listens. BackendPort is the port of the API servers. With 0, the VM connects
	// to the port on which it was called.
	Ports       []int
	BackendPort int
	// Backends are the machines behind the load balancer, sorted by name.
	Backends []Node
	// VirtualIP is an address that one of the VMs holds. It is invalid if there is none. The other fields configure
	// this address: the interface, the VM's own address on it, the other VMs, and the ID for VRRP.
	VirtualIP netip.Addr
	Interface string
	Self      netip.Addr
	Peers     []netip.Addr
	RouterID  int
	// Own are the addresses of the VM. An unspecified address stands for an address that comes from elsewhere. The VM
	// listens on the families of these addresses. If no address is known, it listens on both families.
	Own []netip.Addr
	// Version is the version of the configuration, as haproxy reports it. BuildFiles sets it.
	Version string
}

// VersionPort returns the loopback port on which haproxy reports its version. The template calls this method.
func (b Balancer) VersionPort() int { return versionPort }

// NewBalancer returns the configuration that all VMs of the service have in common. The cluster must be valid.
func (s Service) NewBalancer(cluster infrav1.OLVMClusterSpec, nodes []Node) (Balancer, error) {
	controlPlane := s.Balancer.Role == infrav1.ControlPlaneRole
	ofOthers := func(n Node) bool { return n.ControlPlane != controlPlane }
	out := Balancer{Backends: slices.DeleteFunc(sortNodes(nodes), ofOthers)}

	var err error
	if out.Ports, err = s.parsePorts(cluster); err != nil {
		return out, err
	}

	if controlPlane {
		out.BackendPort = int(cmp.Or(s.Balancer.BackendPort, apiServerPort(cluster)))
	}

	out.VirtualIP = s.parseVirtualIP()

	return out, nil
}

// apiServerPort returns the port of a cluster's API servers.
func apiServerPort(cluster infrav1.OLVMClusterSpec) int32 {
	services := cluster.ControlPlaneServices

	switch {
	case services == nil:
		return defaultPort
	case services.LoadBalancerProvider != "" && services.LoadBalancerProvider != "None":
		return cmp.Or(services.APIServerPort, bootstrap.DefaultAPIServerPort)
	case services.VirtualIPProvider == "KubeVIP" || services.VirtualIPProvider == "Keepalived":
		return cmp.Or(cluster.ControlPlaneEndpoint.Port, defaultPort)
	}

	return defaultPort
}

// HasIPv4 reports whether the VM listens on IPv4 addresses.
func (b Balancer) HasIPv4() bool { return b.isListening(netip.Addr.Is4) }

// HasIPv6 reports whether the VM listens on IPv6 addresses. The image may have turned IPv6 off.
func (b Balancer) HasIPv6() bool { return b.isListening(netip.Addr.Is6) }

func (b Balancer) isListening(family func(netip.Addr) bool) bool {
	known := slices.DeleteFunc(append([]netip.Addr{b.VirtualIP, b.Self}, b.Own...), func(a netip.Addr) bool {
		return !a.IsValid()
	})

	return len(known) == 0 || slices.ContainsFunc(known, family)
}

// LinkLocal returns the link-local address for VRRP's own hardware address. keepalived 2.0 requires such an address
// before an IPv6 address that is announced to the whole network.
func (b Balancer) LinkLocal() netip.Addr {
	return netip.AddrFrom16([16]byte{
		0: 0xfe, 1: 0x80, 8: 0x02, 10: 0x5e, 11: 0xff, 12: 0xfe, 14: 2, 15: byte(b.RouterID),
	})
}

// At returns the address and port of a backend, for connections to a port of the VM. The template calls this method.
func (b Balancer) At(backend Node, port int) netip.AddrPort {
	return netip.AddrPortFrom(backend.Address, uint16(cmp.Or(b.BackendPort, port)))
}

// BuildFiles returns the configuration files of the VM.
func (b Balancer) BuildFiles() []bootstrap.File {
	allowed := &bootstrap.Allowed{}
	allowed.AllowHAProxy()
	allowed.AllowTCP(b.Ports...)

	if b.VirtualIP.IsValid() {
		allowed.AllowKeepalived()
	}

	b.Version = ""
	b.Version = fmt.Sprintf("%x", sha256.Sum256([]byte(render("haproxy.cfg", b))))[:16]
	out := []bootstrap.File{
		{Path: applyFile, Content: render("balancer.sh", nil), Mode: 0o700},
		{Path: "haproxy.cfg", Content: render("haproxy.cfg", b), Mode: 0o644},
		{Path: allowFile, Content: allowed.RenderScript(), Mode: 0o700},
		{Path: "start-again.conf", Content: bootstrap.StartAgain, Mode: 0o644},
	}
	if !b.VirtualIP.IsValid() {
		return out
	}

	return append(out,
		bootstrap.File{Path: "check.sh", Content: render("check.sh", versionPort), Mode: 0o755},
		bootstrap.File{Path: "keepalived.conf", Content: render("keepalived.conf", b), Mode: 0o644},
	)
}
