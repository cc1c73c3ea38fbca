package lifecycle

import (
	"context"
	"fmt"
	"math/big"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

// warnOfAddresses warns if an OLVMMachineTemplate has fewer addresses than planned machines, because the remaining
// machines would wait for an address. It gives no warning for templates of other providers, or for addresses from DHCP
// or from IPAM providers.
func warnOfAddresses(
	ctx context.Context, in *mgmtcluster.Cluster, cluster *clusterv1.Cluster,
	ref clusterv1.ContractVersionedObjectReference, machines int32, say func(line string),
) {
	var (
		infrastructure infrav1.OLVMCluster
		template       infrav1.OLVMMachineTemplate
	)

	key := client.ObjectKey{Namespace: in.Namespace, Name: cluster.Spec.InfrastructureRef.Name}
	if ref.Kind != "OLVMMachineTemplate" || in.Get(ctx, key, &infrastructure) != nil {
		return
	}

	if err := in.Get(ctx, client.ObjectKey{Namespace: in.Namespace, Name: ref.Name}, &template); err != nil {
		return
	}

	nics, err := addressing.BuildNICs(template.Spec.Template.Spec, infrastructure.Spec)
	if err != nil {
		return // the machines report this error
	}

	for _, nic := range nics {
		if nic.Guest == nil {
			continue
		}

		for _, pool := range nic.Guest.Pools {
			if size := pool.Size(); size.Cmp(big.NewInt(int64(machines))) < 0 {
				say(fmt.Sprintf("warning: OLVMMachineTemplate %s has %s addresses for network interface %s, but "+
					"there will be %d machines; machines without an address will wait (AddressRangeExhausted)",
					template.Name, size,
					nic.VNICName, machines))
			}
		}
	}
}
