package support

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
)

// Balancer is what one VM of a load balancer has to know.
type Balancer struct {
	// Name of the VM.
	Name string
	// Ports at which it listens, and BackendPort of the API servers; 0 where a machine is reached at the same port.
	Ports       []int
	BackendPort int
	// Backends by their names.
	Backends []Node
	// VirtualIP that one of the VMs holds; invalid for none. The rest is for it: the interface that gets it, the VM's
	// own address there, the other VMs, and the ID of VRRP.
	VirtualIP netip.Addr
	Interface string
	Self      netip.Addr
	Peers     []netip.Addr
	RouterID  int
	// Version of the configuration, which haproxy tells. Set by Files.
	Version string
}

// VersionPort is where haproxy tells its version on the loopback, for the template.
func (b Balancer) VersionPort() int { return versionPort }

// NewBalancer is what the service asks of each of its VMs. The cluster was validated.
func (s Service) NewBalancer(cluster infrav1.OLVMClusterSpec, nodes []Node) (Balancer, error) {
	controlPlane := s.Balancer.Role == infrav1.ControlPlaneRole
	ofOthers := func(n Node) bool { return n.ControlPlane != controlPlane }
	out := Balancer{Backends: slices.DeleteFunc(sorted(nodes), ofOthers)}

	var err error
	if out.Ports, err = s.ports(cluster); err != nil {
		return out, err
	}

	if controlPlane {
		out.BackendPort = int(cmp.Or(s.Balancer.BackendPort, apiServerPort(cluster)))
	}

	out.VirtualIP = s.virtualIP()

	return out, nil
}

// apiServerPort is the port of the API servers of a cluster.
func apiServerPort(cluster infrav1.OLVMClusterSpec) int32 {
	services := cluster.ControlPlaneServices
	if services != nil && services.LoadBalancer != "" && services.LoadBalancer != "None" {
		return cmp.Or(services.APIServerPort, bootstrap.DefaultAPIServerPort)
	}

	return defaultPort
}

// At is where a backend is reached for connections to a port, for the template.
func (b Balancer) At(backend Node, port int) netip.AddrPort {
	return netip.AddrPortFrom(backend.Address, uint16(cmp.Or(b.BackendPort, port)))
}

// Files are the configuration of the VM.
func (b Balancer) Files() []bootstrap.File {
	var ports strings.Builder
	for _, port := range b.Ports {
		fmt.Fprintln(&ports, port)
	}

	b.Version = ""
	b.Version = fmt.Sprintf("%x", sha256.Sum256([]byte(render("haproxy.cfg", b))))[:16]
	out := []bootstrap.File{
		{Path: applyFile, Content: render("balancer.sh", nil), Mode: 0o700},
		{Path: "haproxy.cfg", Content: render("haproxy.cfg", b), Mode: 0o644},
		{Path: "ports", Content: ports.String(), Mode: 0o644},
	}
	if !b.VirtualIP.IsValid() {
		return out
	}

	return append(out,
		bootstrap.File{Path: "check.sh", Content: render("check.sh", versionPort), Mode: 0o755},
		bootstrap.File{Path: "keepalived.conf", Content: render("keepalived.conf", b), Mode: 0o644},
	)
}
