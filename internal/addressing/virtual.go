package addressing

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
)

// VirtualAddress is an address of a cluster that moves between machines, and what it is.
type VirtualAddress struct {
	Address netip.Addr
	What    string
	// Field of the OLVMCluster.
	Field string
}

// Taken is a virtual address that another object has.
type Taken struct {
	VirtualAddress
	// Holder is the other object, in words for a namespace.
	Holder string
}

// Problem returns a *blocker.Error with the field, the holder and the remedy.
func (t *Taken) Problem() error {
	return blocker.New(infrav1.EndpointInUseReason, t.Field,
		"%s belongs to %s; choose another address, or delete what has it", t.Address, t.Holder)
}

// CheckVirtualAddresses returns the first virtual address of a cluster that another cluster or machine of its engine
// has; nil if there is none. Of two new clusters with the same address, the older one keeps it.
func (a *Allocator) CheckVirtualAddresses(
	ctx context.Context, c *infrav1.OLVMCluster, where connection.EngineID,
) (*Taken, error) {
	a.mu.Lock()
	defer a.mu.Unlock()

	held, networks, err := a.heldBeside(ctx, c, where)
	if err != nil {
		return nil, err
	}

	if taken := FindTaken(c.Spec, networks, held); taken != nil {
		delete(a.admitted, c.UID) // for what it asks now
		return taken, nil
	}

	if a.admitted == nil {
		a.admitted = map[types.UID]bool{}
	}

	a.admitted[c.UID] = true

	return nil, nil
}

// FindTaken returns the first virtual address that another object has on one of the networks; no networks mean any.
func FindTaken(spec infrav1.OLVMClusterSpec, networks []string, held Held) *Taken {
	if len(networks) == 0 {
		networks = []string{""}
	}

	for _, virtual := range VirtualAddresses(spec) {
		for _, network := range networks {
			if holder := held.On(network)[virtual.Address]; holder != "" {
				return &Taken{virtual, holder}
			}
		}
	}

	return nil
}

// heldBeside returns who has which address beside a cluster and its machines, and the networks of the cluster. mu is
// held.
func (a *Allocator) heldBeside(
	ctx context.Context, c *infrav1.OLVMCluster, where connection.EngineID,
) (held Held, own []string, err error) {
	var clusters infrav1.OLVMClusterList
	if err := a.lists().List(ctx, &clusters); err != nil {
		return nil, nil, fmt.Errorf("failed to list OLVMClusters: %w", err)
	}

	machines, err := a.machines(ctx)
	if err != nil {
		return nil, nil, err
	}

	networks, err := a.networks(ctx)
	if err != nil {
		return nil, nil, err
	}

	held = Held{}
	holding := letInBy(where, machines)

	a.prune(clusters.Items)

	for i := range clusters.Items {
		other := &clusters.Items[i]
		counts := where.Has(connection.ClusterEngine(other), c.Namespace) || holding[ClusterOf(other)]

		if other.UID == c.UID || !counts {
			continue
		}

		holding[ClusterOf(other)] = true
		if a.admitted[other.UID] || Precedes(other, c) {
			held.AddVirtualAddresses(other, c, networks[ClusterOf(other)])
		}
	}

	for i := range machines {
		m := &machines[i]
		if of := ClusterOf(m); holding[of] && of != ClusterOf(c) {
			held.AddRunning(m, Holder(m, c.Namespace))
		}
	}

	self := seeker{Namespace: c.Namespace, Cluster: ClusterOf(c).Name}

	return held, networks[ClusterOf(c)], a.holdProvisioned(ctx, held, self, where)
}

// prune forgets clusters that are gone; mu is held.
func (a *Allocator) prune(clusters []infrav1.OLVMCluster) {
	there := map[types.UID]bool{}
	for i := range clusters {
		there[clusters[i].UID] = true
	}

	maps.DeleteFunc(a.admitted, func(uid types.UID, _ bool) bool { return !there[uid] })
}

// Precedes reports whether another cluster keeps an address that both want: one that may have machines and was not
// refused the address, else the older one.
func Precedes(other, c *infrav1.OLVMCluster) bool {
	refused := conditions.GetReason(other, infrav1.EndpointConfiguredCondition) == infrav1.EndpointInUseReason
	if ptr.Deref(other.Status.Initialization.Provisioned, false) && !refused {
		return true
	}

	age := other.CreationTimestamp.Compare(c.CreationTimestamp.Time)

	return cmp.Or(age, cmp.Compare(other.Namespace, c.Namespace), cmp.Compare(other.Name, c.Name)) < 0
}

// AddVirtualAddresses adds those of a cluster, each on the networks of that cluster, or on any if they are not known.
// Clusters behind one load balancer that is not on their machines may share an address with different ports.
func (h Held) AddVirtualAddresses(other, c *infrav1.OLVMCluster, networks []string) {
	if len(networks) == 0 {
		networks = []string{""}
	}

	holder := named("OLVMCluster", other, c.Namespace)
	shares := isExternal(other.Spec) && isExternal(c.Spec) &&
		other.Spec.ControlPlaneEndpoint.Port != c.Spec.ControlPlaneEndpoint.Port

	for _, virtual := range VirtualAddresses(other.Spec) {
		if shares && virtual.What == endpointAddress {
			continue
		}

		for _, network := range networks {
			h.Add(network, virtual.Address, virtual.What+" of "+holder)
		}
	}
}

// isExternal reports whether the cluster has its endpoint served by others.
func isExternal(spec infrav1.OLVMClusterSpec) bool {
	services := spec.ControlPlaneServices
	own := services != nil && services.VirtualIP != "" && services.VirtualIP != "External"

	return !own && (spec.SupportServices == nil || len(spec.SupportServices.LoadBalancers) == 0)
}

// networks returns the networks of the machines of clusters, by the templates that belong to a cluster. "" is any
// network, for an interface that names none.
func (a *Allocator) networks(ctx context.Context) (map[client.ObjectKey][]string, error) {
	var templates infrav1.OLVMMachineTemplateList
	if err := a.lists().List(ctx, &templates, client.UnsafeDisableDeepCopy); err != nil { // they are only read
		return nil, fmt.Errorf("failed to list OLVMMachineTemplates: %w", err)
	}

	out := map[client.ObjectKey][]string{}

	for i := range templates.Items {
		template := &templates.Items[i]
		for _, owner := range template.OwnerReferences {
			if owner.Kind != "Cluster" {
				continue
			}

			key := client.ObjectKey{Namespace: template.Namespace, Name: owner.Name}
			for _, n := range Networks(template.Spec.Template.Spec) {
				out[key] = append(out[key], n.NetworkName)
			}
		}
	}

	return out, nil
}

// ClusterOf returns the Cluster of an object by its label.
func ClusterOf(object client.Object) client.ObjectKey {
	return client.ObjectKey{Namespace: object.GetNamespace(), Name: object.GetLabels()[clusterv1.ClusterNameLabel]}
}
