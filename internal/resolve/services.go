package resolve

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ipam"
)

// The ways to hold the control plane endpoint, and the defaults of controlPlaneServices.
const (
	kubeVIP        = "KubeVIP"
	keepalived     = "Keepalived"
	noLoadBalancer = "None"

	defaultAPIServerPort = 6444
	defaultKubeVIPImage  = "ghcr.io/kube-vip/kube-vip:v0.8.9"
)

// DefaultEndpointPort stands in for a port of the control plane endpoint that is not set.
const DefaultEndpointPort = 6443

// RouterIDs are the virtual router IDs of a cluster; zero for one that it does not need.
type RouterIDs struct {
	API     int `json:"api,omitempty"`
	Ingress int `json:"ingress,omitempty"`
}

// RecordedRouterIDs are those that an OLVMCluster records.
func RecordedRouterIDs(c *infrav1.OLVMCluster) (RouterIDs, error) {
	var out RouterIDs
	text := c.Annotations[infrav1.RouterIDsAnnotation]
	if text == "" {
		return out, nil
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return RouterIDs{}, &Error{infrav1.ControlPlaneServicesInvalidReason, "metadata.annotations[" + infrav1.RouterIDsAnnotation + "]", fmt.Sprintf(
			"%v; write back what it was, such as {\"api\":51}: it stands in /etc/keepalived/keepalived.conf of the nodes", err)}
	}
	return out, nil
}

// Without leaves out those that another cluster has.
func (r RouterIDs) Without(other RouterIDs) RouterIDs {
	for _, id := range []*int{&r.API, &r.Ingress} {
		if *id == other.API || *id == other.Ingress {
			*id = 0
		}
	}
	return r
}

// maxRouterID is the highest that VRRP knows; the lowest is 1.
const maxRouterID = 255

// ChooseRouterIDs gives a cluster the virtual router IDs that it needs: those that are written, else those that it has, else
// free ones, which are hashed from its name so that clusters of different managers hardly have the same ones. inUse are those
// of other clusters.
func ChooseRouterIDs(name string, services *infrav1.ControlPlaneServices, has RouterIDs, inUse []int) (RouterIDs, error) {
	if services == nil {
		return RouterIDs{}, nil
	}
	var out RouterIDs
	choose := func(kind, field string, written, has int) (int, error) {
		if written != 0 {
			if written != has && slices.Contains(inUse, written) {
				return 0, &Error{infrav1.VirtualRouterIDInUseReason, "spec.controlPlaneServices." + field, fmt.Sprintf("%d is the ID of another cluster of this engine; choose another, or remove it", written)}
			}
			return written, nil
		}
		if has != 0 {
			return has, nil
		}
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(name + "/" + kind)) // never fails
		first := int(hash.Sum32() % maxRouterID)
		for i := range maxRouterID {
			if id := (first+i)%maxRouterID + 1; !slices.Contains(inUse, id) {
				return id, nil
			}
		}
		return 0, &Error{infrav1.VirtualRouterIDInUseReason, "spec.controlPlaneServices." + field, fmt.Sprintf("all %d IDs are in use by other clusters of this engine; use virtualIP KubeVIP", maxRouterID)}
	}
	var err error
	if services.VirtualIP == keepalived {
		if out.API, err = choose("api", "virtualRouterID", int(services.VirtualRouterID), has.API); err != nil {
			return out, err
		}
		inUse = append(slices.Clone(inUse), out.API)
	}
	if services.IngressVirtualIP != "" {
		out.Ingress, err = choose("ingress", "ingressVirtualRouterID", int(services.IngressVirtualRouterID), has.Ingress)
	}
	return out, err
}

// ValidateServices says what is wrong with the services of a cluster, whatever its machines are.
func ValidateServices(cluster infrav1.OLVMClusterSpec) error {
	services := cluster.ControlPlaneServices
	if services == nil {
		return nil
	}
	wrong := func(field, format string, args ...any) error {
		return &Error{infrav1.ControlPlaneServicesInvalidReason, field, fmt.Sprintf(format, args...)}
	}
	if services.VirtualIP == kubeVIP || services.VirtualIP == keepalived {
		if _, err := netip.ParseAddr(cluster.ControlPlaneEndpoint.Host); err != nil {
			return wrong("spec.controlPlaneEndpoint.host", "%q is not an IP address, which %s could give to a node; write one, or set controlPlaneServices.virtualIP to External", cluster.ControlPlaneEndpoint.Host, services.VirtualIP)
		}
	}
	if services.LoadBalancer != "" && services.LoadBalancer != noLoadBalancer {
		if port := or(services.APIServerPort, defaultAPIServerPort); port == or(cluster.ControlPlaneEndpoint.Port, DefaultEndpointPort) {
			return wrong("spec.controlPlaneServices.apiServerPort", "the load balancer listens at port %d itself; choose another", port)
		}
	}
	if services.IngressVirtualIP != "" {
		if address, err := netip.ParseAddr(services.IngressVirtualIP); err != nil {
			return wrong("spec.controlPlaneServices.ingressVirtualIP", "%q is not an IP address", services.IngressVirtualIP)
		} else if address.String() == cluster.ControlPlaneEndpoint.Host {
			return wrong("spec.controlPlaneServices.ingressVirtualIP", "%s is the control plane endpoint; ingress needs an address of its own", address)
		}
	}
	return nil
}

// services are what the node does for the endpoints of its cluster.
func services(in Input) (*bootstrap.Services, error) {
	asked := in.Cluster.ControlPlaneServices
	if asked == nil {
		return nil, nil
	}
	if err := ValidateServices(in.Cluster); err != nil {
		return nil, err
	}
	if asked.VirtualIP == keepalived && in.RouterIDs.API == 0 || asked.IngressVirtualIP != "" && in.RouterIDs.Ingress == 0 {
		return nil, &Error{infrav1.WaitingForClusterInfrastructureReason, "OLVMCluster metadata.annotations[" + infrav1.RouterIDsAnnotation + "]", "the virtual router IDs are not chosen yet"}
	}
	out := &bootstrap.Services{HostName: in.VMName}
	if guest := in.NICs[0].Guest; guest != nil {
		out.Interface = guest.Interface
	}
	self := func(like netip.Addr) netip.Addr {
		at := slices.IndexFunc(in.Addresses[in.NICs[0].VNICName], func(a ipam.Address) bool { return a.Addr().Is4() == like.Is4() })
		if at < 0 {
			return netip.Addr{}
		}
		return in.Addresses[in.NICs[0].VNICName][at].Addr()
	}
	none := func(what string, address netip.Addr) error {
		return &Error{infrav1.ControlPlaneServicesInvalidReason, in.NICs[0].field[:len(in.NICs[0].field)-1], fmt.Sprintf(
			"the first network interface has no static address of the family of %s %s, which keepalived is to hold; give it one, or use virtualIP KubeVIP", what, address)}
	}
	if vip, err := netip.ParseAddr(in.Cluster.ControlPlaneEndpoint.Host); err == nil && in.ControlPlane && asked.VirtualIP != "" && asked.VirtualIP != "External" {
		api := &bootstrap.APIEndpoint{
			VirtualAddress: bootstrap.VirtualAddress{Address: vip, RouterID: in.RouterIDs.API}, Port: or(in.Cluster.ControlPlaneEndpoint.Port, DefaultEndpointPort),
			ServerPort: or(asked.APIServerPort, defaultAPIServerPort), NginxImage: asked.NginxImage,
		}
		if asked.LoadBalancer != noLoadBalancer {
			api.LoadBalancer = bootstrap.LoadBalancer(asked.LoadBalancer)
		}
		if asked.VirtualIP == kubeVIP {
			api.KubeVIPImage = or(asked.KubeVIPImage, defaultKubeVIPImage)
		} else if out.Self = self(vip); !out.Self.IsValid() {
			return nil, none("the control plane endpoint", vip)
		}
		for _, node := range in.ControlPlaneNodes {
			if node.Is4() == vip.Is4() {
				api.Nodes = append(api.Nodes, node)
			}
		}
		out.API = api
	}
	if ingress, err := netip.ParseAddr(asked.IngressVirtualIP); err == nil {
		out.Ingress = &bootstrap.VirtualAddress{Address: ingress, RouterID: in.RouterIDs.Ingress}
		if address := self(ingress); !out.Self.IsValid() {
			if out.Self = address; !address.IsValid() {
				return nil, none("the ingress address", ingress)
			}
		}
	}
	if out.API == nil && out.Ingress == nil {
		return nil, nil
	}
	return out, nil
}
