package addressing

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// VirtualAddress is an address of a cluster that moves between machines, with a description.
type VirtualAddress struct {
	Address netip.Addr
	What    string
	// Field is the field of the OLVMCluster with the address.
	Field string
}

// Taken is a virtual address that another object holds.
type Taken struct {
	VirtualAddress
	// Holder describes this object for users who may read the namespace.
	Holder string
}

// ToError returns a *blocker.Error with the field, the holder and the remedy.
func (t *Taken) ToError() error {
	return blocker.New(infrav1.EndpointInUseReason, t.Field,
		"%s belongs to %s; choose another address, or delete that object", t.Address, t.Holder)
}

// CheckVirtualAddresses returns the first virtual address of a cluster that another cluster or a machine on its engine
// holds, or nil. If two new clusters have the same address, the older one keeps it.
func (a *Allocator) CheckVirtualAddresses(
	ctx context.Context, c *infrav1.OLVMCluster, where connection.EngineID,
) (*Taken, error) {
	a.mu.Lock()
	defer a.mu.Unlock()

	held, networks, err := a.collectHeldBeside(ctx, c, c, where)
	if err != nil {
		return nil, err
	}

	taken := FindTaken(CollectVirtualAddresses(c.Spec), networks, held)
	a.recordAdmitted(c, len(taken) == 0)

	if len(taken) > 0 {
		return &taken[0], nil
	}

	return nil, nil
}

// CheckSupportAddresses returns the virtual addresses of load balancers that another object on the engine holds. These
// objects are other clusters, their load balancers, and all machines, even those of the same cluster.
// CheckVirtualAddresses checks the control plane endpoint.
func (a *Allocator) CheckSupportAddresses(
	ctx context.Context, c *infrav1.OLVMCluster, of *infrav1alpha1.OLVMSupportServices, where connection.EngineID,
) ([]Taken, error) {
	a.mu.Lock()
	defer a.mu.Unlock()

	wanted := CollectSupportAddresses(c.Spec, of)
	if len(wanted) == 0 {
		return nil, nil
	}

	held, networks, err := a.collectHeldBeside(ctx, c, of, where)
	if err != nil {
		return nil, err
	}

	taken := FindTaken(wanted, networks, held)
	a.recordAdmitted(of, len(taken) == 0)

	return taken, nil
}

// recordAdmitted records whether an object's current virtual addresses were free. The caller must hold mu.
func (a *Allocator) recordAdmitted(object client.Object, free bool) {
	if !free {
		delete(a.admitted, object.GetUID())
		return
	}

	if a.admitted == nil {
		a.admitted = map[types.UID]bool{}
	}

	a.admitted[object.GetUID()] = true
}

// FindTaken returns the virtual addresses that another object holds on one of the networks. Without networks, it checks
// all of them.
func FindTaken(wanted []VirtualAddress, networks []string, held Held) []Taken {
	if len(networks) == 0 {
		networks = []string{""}
	}

	var out []Taken

	for _, virtual := range wanted {
		for _, network := range networks {
			if holder := held.HoldersOn(network)[virtual.Address]; holder != "" {
				out = append(out, Taken{virtual, holder})
				break
			}
		}
	}

	return out
}

// ServicesOf returns the support services of a cluster, or nil.
type ServicesOf func(*infrav1.OLVMCluster) *infrav1alpha1.OLVMSupportServices

// Services maps Clusters to their OLVMSupportServices. Both have the same name.
type Services map[client.ObjectKey]*infrav1alpha1.OLVMSupportServices

// GetServices returns the support services of the cluster in an OLVMCluster's label, or nil.
func (s Services) GetServices(c *infrav1.OLVMCluster) *infrav1alpha1.OLVMSupportServices {
	return s[GetClusterKey(c)]
}

// listSupportServices returns the OLVMSupportServices of all clusters.
func (a *Allocator) listSupportServices(ctx context.Context) (Services, error) {
	var list infrav1alpha1.OLVMSupportServicesList
	if err := a.listReader().List(ctx, &list); err != nil {
		return nil, fmt.Errorf("failed to list OLVMSupportServices: %w", err)
	}

	out := Services{}
	for i := range list.Items {
		out[client.ObjectKeyFromObject(&list.Items[i])] = &list.Items[i]
	}

	return out, nil
}

// collectHeldBeside returns the holders of addresses other than self, and the networks of the cluster. self is the
// cluster or its OLVMSupportServices. The cluster's machines do not count if self is the cluster, but they count if
// self is the services. The caller holds mu.
func (a *Allocator) collectHeldBeside(
	ctx context.Context, c *infrav1.OLVMCluster, self client.Object, where connection.EngineID,
) (held Held, own []string, err error) {
	var clusters infrav1.OLVMClusterList
	if err := a.listReader().List(ctx, &clusters); err != nil {
		return nil, nil, fmt.Errorf("failed to list OLVMClusters: %w", err)
	}

	machines, err := a.listMachines(ctx)
	if err != nil {
		return nil, nil, err
	}

	networks, err := a.listNetworks(ctx)
	if err != nil {
		return nil, nil, err
	}

	services, err := a.listSupportServices(ctx)
	if err != nil {
		return nil, nil, err
	}

	held = Held{}
	holding := findAcceptedClusters(where, machines)

	a.pruneAdmitted(clusters.Items, services)

	for i := range clusters.Items {
		other := &clusters.Items[i]
		counts := where.IsUsedBy(connection.ClusterEngine(other), c.Namespace) || holding[GetClusterKey(other)]

		if other.UID == c.UID || !counts {
			continue
		}

		holding[GetClusterKey(other)] = true
		if a.admitted[other.UID] || HasPrecedence(other, self) {
			held.AddVirtualAddresses(other, c, services.GetServices, networks[GetClusterKey(other)])
		}

		if of := services.GetServices(other); of != nil && (a.admitted[of.UID] || HasSupportPrecedence(of, self)) {
			held.AddSupportAddresses(other, of, c.Namespace, networks[GetClusterKey(other)])
		}
	}

	for i := range machines {
		m := &machines[i]
		node := self != client.Object(c) && support.GetServiceName(m) == ""
		if of := GetClusterKey(m); holding[of] && of != GetClusterKey(c) || node && of == GetClusterKey(c) {
			held.AddRunning(m, DescribeHolder(m, c.Namespace))
		}
	}

	seeks := seeker{Namespace: c.Namespace, Cluster: GetClusterKey(c).Name}

	return held, networks[GetClusterKey(c)], a.addProvisioned(ctx, held, seeks, where)
}

// pruneAdmitted forgets deleted objects. The caller must hold mu.
func (a *Allocator) pruneAdmitted(clusters []infrav1.OLVMCluster, services Services) {
	there := map[types.UID]bool{}
	for i := range clusters {
		there[clusters[i].UID] = true
	}

	for _, of := range services {
		there[of.UID] = true
	}

	maps.DeleteFunc(a.admitted, func(uid types.UID, _ bool) bool { return !there[uid] })
}

// HasPrecedence reports whether other keeps an address that both clusters want. A provisioned cluster may have
// machines, so it keeps the address unless the address was refused to it. Otherwise, the older cluster keeps it.
func HasPrecedence(other *infrav1.OLVMCluster, object client.Object) bool {
	refused := conditions.GetReason(other, infrav1.EndpointConfiguredCondition) == infrav1.EndpointInUseReason
	if ptr.Deref(other.Status.Initialization.Provisioned, false) && !refused {
		return true
	}

	return isOlder(other, object)
}

// HasSupportPrecedence reports whether other's load balancers keep an address that both objects want. They keep it if
// they already serve with it. Otherwise, the older object keeps it.
func HasSupportPrecedence(other *infrav1alpha1.OLVMSupportServices, object client.Object) bool {
	serves := slices.ContainsFunc(support.CollectServices(other), func(service support.Service) bool {
		return service.Balancer != nil &&
			slices.ContainsFunc(other.Status.Services, func(s infrav1alpha1.SupportServiceStatus) bool {
				return s.Name == service.Name && s.Address == service.Balancer.VirtualIP &&
					conditions.IsTrue(&s, infrav1.ReadyCondition)
			})
	})

	return serves || isOlder(other, object)
}

// isOlder reports whether other is older than object. For objects created in the same second, the names decide.
func isOlder(other, object client.Object) bool {
	age := other.GetCreationTimestamp().Compare(object.GetCreationTimestamp().Time)

	return cmp.Or(age, cmp.Compare(other.GetNamespace(), object.GetNamespace()),
		cmp.Compare(other.GetName(), object.GetName())) < 0
}

// AddVirtualAddresses adds the virtual addresses of a cluster on each of its networks. Without networks, they count on
// every network. Clusters behind one external load balancer may share an address with different ports.
func (h Held) AddVirtualAddresses(other, c *infrav1.OLVMCluster, services ServicesOf, networks []string) {
	if len(networks) == 0 {
		networks = []string{""}
	}

	holder := describeObject("OLVMCluster", other, c.Namespace)
	shares := isExternal(other.Spec, services(other)) && isExternal(c.Spec, services(c)) &&
		other.Spec.ControlPlaneEndpoint.Port != c.Spec.ControlPlaneEndpoint.Port

	for _, virtual := range CollectVirtualAddresses(other.Spec) {
		if shares && virtual.What == endpointAddress {
			continue
		}

		for _, network := range networks {
			h.AddAddress(network, virtual.Address, virtual.What+" of "+holder)
		}
	}
}

// isExternal reports whether the cluster's endpoint is served by neither its nodes nor its load balancers.
func isExternal(spec infrav1.OLVMClusterSpec, of *infrav1alpha1.OLVMSupportServices) bool {
	services := spec.ControlPlaneServices
	own := services != nil && services.VirtualIPProvider != "" && services.VirtualIPProvider != "External"

	return !own && (of == nil || len(of.Spec.LoadBalancers) == 0)
}

// listNetworks returns the networks of each cluster's machines, from the templates owned by its Cluster. An interface
// without a network name counts as "", which means any network.
func (a *Allocator) listNetworks(ctx context.Context) (map[client.ObjectKey][]string, error) {
	var templates infrav1.OLVMMachineTemplateList
	if err := a.listReader().List(ctx, &templates, client.UnsafeDisableDeepCopy); err != nil { // callers only read them
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
			for _, n := range CollectNetworks(template.Spec.Template.Spec) {
				out[key] = append(out[key], n.NetworkName)
			}
		}
	}

	return out, nil
}

// GetClusterKey returns the key of an object's Cluster, from the object's label.
func GetClusterKey(object client.Object) client.ObjectKey {
	return client.ObjectKey{Namespace: object.GetNamespace(), Name: object.GetLabels()[clusterv1.ClusterNameLabel]}
}
