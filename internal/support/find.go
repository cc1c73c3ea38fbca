package support

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
)

// FindServices returns the OLVMSupportServices of a Cluster, which have the Cluster's name. It returns nil if there are
// none.
func FindServices(
	ctx context.Context, reader client.Reader, cluster client.ObjectKey,
) (*infrav1alpha1.OLVMSupportServices, error) {
	if cluster.Name == "" {
		return nil, nil
	}

	out := &infrav1alpha1.OLVMSupportServices{}
	if err := reader.Get(ctx, cluster, out); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("failed to get OLVMSupportServices %s: %w", cluster, err)
	}

	return out, nil
}

// ListMachines returns the OLVMMachines of a Cluster sorted by name: nodes, and the VMs of support services. They are
// objects of the cache, so callers must not change them.
func ListMachines(ctx context.Context, reader client.Reader, cluster client.ObjectKey) ([]infrav1.OLVMMachine, error) {
	var list infrav1.OLVMMachineList
	err := reader.List(ctx, &list, client.InNamespace(cluster.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: cluster.Name,
	}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("failed to list the OLVMMachines of Cluster %s: %w", cluster, err)
	}

	slices.SortFunc(list.Items, func(a, b infrav1.OLVMMachine) int { return strings.Compare(a.Name, b.Name) })

	return list.Items, nil
}
