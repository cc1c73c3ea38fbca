package desired

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
)

// RouterIDs maps virtual routers to their IDs. The keys are APIRouter, IngressRouter and the results of BalancerRouter.
type RouterIDs map[string]int

// These are the virtual routers of the nodes.
const (
	APIRouter     = "api"
	IngressRouter = "ingress"
)

// BalancerRouter returns the name of the virtual router for a load balancer on VMs of its own.
func BalancerRouter(name string) string { return "lb/" + name }

// ParseRouterIDs returns the IDs recorded on an OLVMCluster.
func ParseRouterIDs(c *infrav1.OLVMCluster) (RouterIDs, error) {
	out := RouterIDs{}
	text := c.Annotations[infrav1.RouterIDsAnnotation]
	if text == "" {
		return out, nil
	}

	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return RouterIDs{}, &blocker.Error{
			Reason: infrav1.ControlPlaneServicesInvalidReason,
			Field:  "metadata.annotations[" + infrav1.RouterIDsAnnotation + "]",
			Message: fmt.Sprintf(
				"%v; restore its value, such as {\"api\":51}, from /etc/keepalived/keepalived.conf of the nodes",
				err,
			),
		}
	}

	return out, nil
}

// All returns the IDs.
func (r RouterIDs) All() []int { return slices.Collect(maps.Values(r)) }

// Without returns the IDs that other does not use.
func (r RouterIDs) Without(other RouterIDs) RouterIDs {
	out, taken := RouterIDs{}, other.All()

	for router, id := range r {
		if !slices.Contains(taken, id) {
			out[router] = id
		}
	}

	return out
}

// maxRouterID is the highest ID that VRRP allows. The lowest is 1.
const maxRouterID = 255

// virtualRouter is a virtual router of a cluster.
type virtualRouter struct {
	name string
	// field is the field that may set the router's ID. written is the ID in this field, or 0.
	field   string
	written int32
}

// collectVirtualRouters returns the virtual routers of a cluster.
func collectVirtualRouters(
	cluster infrav1.OLVMClusterSpec, of *infrav1alpha1.OLVMSupportServices,
) []virtualRouter {
	var out []virtualRouter

	if services := cluster.ControlPlaneServices; services != nil && services.VirtualIPProvider == keepalived {
		out = append(out, virtualRouter{APIRouter, "spec.controlPlaneServices.virtualRouterID",
			services.VirtualRouterID})
	}

	if services := cluster.ControlPlaneServices; services != nil && services.IngressVirtualIP != "" {
		out = append(out, virtualRouter{IngressRouter, "spec.controlPlaneServices.ingressVirtualRouterID",
			services.IngressVirtualRouterID})
	}

	if of == nil {
		return out
	}

	for i, balancer := range of.Spec.LoadBalancers {
		if balancer.VirtualIP != "" {
			field := fmt.Sprintf("OLVMSupportServices spec.loadBalancers[%d].virtualRouterID", i)
			out = append(out, virtualRouter{BalancerRouter(balancer.Name), field, balancer.VirtualRouterID})
		}
	}

	return out
}

// ChooseRouterIDs chooses the virtual router IDs of a cluster. It prefers explicit IDs, then recorded ones, then free
// ones. A free ID is derived from a hash of the name, so that clusters of different managers rarely collide. inUse are
// the IDs of other clusters.
func ChooseRouterIDs(
	name string, cluster infrav1.OLVMClusterSpec, of *infrav1alpha1.OLVMSupportServices, has RouterIDs, inUse []int,
) (RouterIDs, error) {
	out := RouterIDs{}

	for _, router := range collectVirtualRouters(cluster, of) {
		id, err := chooseRouterID(name, router, has, slices.Concat(inUse, out.All()))
		if err != nil {
			return out, err
		}

		out[router.name] = id
	}

	return out, nil
}

// chooseRouterID chooses the ID of one virtual router.
func chooseRouterID(cluster string, router virtualRouter, has RouterIDs, inUse []int) (int, error) {
	written, had := int(router.written), has[router.name]

	switch {
	case written != 0 && written != had && slices.Contains(inUse, written):
		return 0, &blocker.Error{
			Reason: infrav1.VirtualRouterIDInUseReason,
			Field:  router.field,
			Message: fmt.Sprintf(
				"%d is the ID of another virtual router of this engine; choose another, or remove it",
				written,
			),
		}
	case written != 0:
		return written, nil
	case had != 0:
		return had, nil
	}

	hash := fnv.New32a()
	_, _ = hash.Write([]byte(cluster + "/" + router.name)) // never fails

	first := int(hash.Sum32() % maxRouterID)
	for i := range maxRouterID {
		if id := (first+i)%maxRouterID + 1; !slices.Contains(inUse, id) {
			return id, nil
		}
	}

	return 0, &blocker.Error{
		Reason: infrav1.VirtualRouterIDInUseReason,
		Field:  router.field,
		Message: fmt.Sprintf("other clusters of this engine use all %d IDs; use virtualIPProvider KubeVIP",
			maxRouterID),
	}
}
