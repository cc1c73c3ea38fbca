package controllers

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ipam"
	"github.com/capolvm/cluster-api-provider-olvm/internal/resolve"
)

// addressAllocator gives each OLVMMachine an address of its ranges, and records it on the object before anybody uses it.
// The object is the record: an address is in use while an OLVMMachine names it, whatever restarts in between. One
// allocation goes at a time, on objects read past the cache; leader election keeps other processes out.
type addressAllocator struct {
	client client.Client
	reader client.Reader
	mu     sync.Mutex
}

// allocate returns the machine's address; it writes the annotation where there is none yet.
func (a *addressAllocator) allocate(ctx context.Context, machine *infrav1.OLVMMachine, cluster *infrav1.OLVMCluster) (string, error) {
	if address := machine.Annotations[infrav1.IPv4AddressAnnotation]; address != "" {
		return address, nil
	}
	pool, err := resolve.Pool(machine.Spec.VirtualMachine.Network, cluster.Spec.ControlPlaneEndpoint)
	if err != nil {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	inUse, err := a.inUse(ctx, networkOf(machine, cluster))
	if err != nil {
		return "", err
	}
	address, err := pool.Free(inUse)
	if err != nil {
		return "", &resolve.Error{Reason: infrav1.AddressPoolExhaustedReason, Field: "spec.virtualMachine.network.ipv4.ipAddresses",
			Message: fmt.Sprintf("all %d addresses are in use; add addresses or delete machines", pool.Size())}
	}
	// The lock refuses a machine that was read before an earlier allocation was written.
	patched := machine.DeepCopy()
	setAddress(patched, address.String())
	if err := a.client.Patch(ctx, patched, client.MergeFromWithOptions(machine, client.MergeFromWithOptimisticLock{})); err != nil {
		return "", fmt.Errorf("failed to record the address of OLVMMachine %s/%s: %w", machine.Namespace, machine.Name, err)
	}
	setAddress(machine, address.String())
	return address.String(), nil
}

func setAddress(machine *infrav1.OLVMMachine, address string) {
	if machine.Annotations == nil {
		machine.Annotations = map[string]string{}
	}
	machine.Annotations[infrav1.IPv4AddressAnnotation] = address
}

// network is where an address must be unique: ranges of another engine or another network may be the same.
type network struct{ engine, name string }

func networkOf(machine *infrav1.OLVMMachine, cluster *infrav1.OLVMCluster) network {
	return network{engine: engineOf(cluster), name: machine.Spec.OLVMNetwork.NetworkName}
}

func engineOf(cluster *infrav1.OLVMCluster) string {
	base, err := engine.BaseURL(cluster.Spec.OLVMOvirtAPIServer.ServerURL)
	if err != nil {
		return cluster.Spec.OLVMOvirtAPIServer.ServerURL
	}
	return base.Host
}

// inUse lists the addresses that machines hold on the network, and the control plane endpoints on its engine.
func (a *addressAllocator) inUse(ctx context.Context, where network) ([]netip.Addr, error) {
	var clusters infrav1.OLVMClusterList
	if err := a.reader.List(ctx, &clusters); err != nil {
		return nil, fmt.Errorf("failed to list OLVMClusters: %w", err)
	}
	var machines infrav1.OLVMMachineList
	if err := a.reader.List(ctx, &machines); err != nil {
		return nil, fmt.Errorf("failed to list OLVMMachines: %w", err)
	}
	var taken []string
	engines := map[client.ObjectKey]string{}
	for i := range clusters.Items {
		c := &clusters.Items[i]
		engines[client.ObjectKey{Namespace: c.Namespace, Name: c.Labels[clusterv1.ClusterNameLabel]}] = engineOf(c)
		if engineOf(c) == where.engine {
			taken = append(taken, c.Spec.ControlPlaneEndpoint.Host)
		}
	}
	for i := range machines.Items {
		m := &machines.Items[i]
		owner, known := engines[client.ObjectKey{Namespace: m.Namespace, Name: m.Labels[clusterv1.ClusterNameLabel]}]
		if known && owner != where.engine || m.Spec.OLVMNetwork.NetworkName != where.name {
			continue // a machine whose engine is not known counts as on this one
		}
		taken = append(taken, m.Annotations[infrav1.IPv4AddressAnnotation])
	}
	return ipam.ParseAll(taken), nil
}
