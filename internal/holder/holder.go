// Package holder determines which of several Clusters holds an OLVMCluster that all of them name.
package holder

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
)

// Claims are the Clusters that name an OLVMCluster in spec.infrastructureRef.
type Claims struct {
	olvmCluster string
	// Holder is the Cluster that holds the OLVMCluster, or nil if no Cluster owns or names it.
	Holder *clusterv1.Cluster
	// Others are the other Clusters that name the OLVMCluster, the oldest first. Callers must not change them.
	Others []*clusterv1.Cluster
}

// FindClaims finds the Clusters that name an OLVMCluster. The holder is the first owner if it still names the
// OLVMCluster. Otherwise, it is the oldest Cluster that names it.
func FindClaims(ctx context.Context, reader client.Reader, c *infrav1.OLVMCluster) (Claims, error) {
	var list clusterv1.ClusterList
	if err := reader.List(ctx, &list, client.InNamespace(c.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return Claims{}, fmt.Errorf("failed to list the Clusters that name OLVMCluster %s: %w",
			client.ObjectKeyFromObject(c), err)
	}

	owner, out := firstOwner(c), Claims{olvmCluster: c.Name}
	var owning *clusterv1.Cluster

	for i := range list.Items {
		cluster := &list.Items[i]
		if owner != nil && cluster.Name == owner.Name {
			owning = cluster
		}

		if isNaming(cluster, c) {
			out.Others = append(out.Others, cluster)
		}
	}

	slices.SortFunc(out.Others, func(a, b *clusterv1.Cluster) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})

	at := slices.IndexFunc(out.Others, func(cluster *clusterv1.Cluster) bool {
		return owner != nil && cluster.Name == owner.Name && cluster.UID == owner.UID
	})

	switch {
	case len(out.Others) > 0:
		at = max(at, 0)
		out.Holder = out.Others[at].DeepCopy()
		out.Others = slices.Delete(out.Others, at, at+1)
	case owning != nil:
		out.Holder = owning.DeepCopy()
	}

	return out, nil
}

// firstOwner returns the first owner reference to a Cluster, or nil if there is none.
func firstOwner(c *infrav1.OLVMCluster) *metav1.OwnerReference {
	at := slices.IndexFunc(c.OwnerReferences, func(ref metav1.OwnerReference) bool {
		version, err := schema.ParseGroupVersion(ref.APIVersion)
		return err == nil && version.Group == clusterv1.GroupVersion.Group && ref.Kind == "Cluster"
	})
	if at < 0 {
		return nil
	}

	return &c.OwnerReferences[at]
}

// isNaming reports whether a Cluster in the same namespace names an OLVMCluster.
func isNaming(cluster *clusterv1.Cluster, c *infrav1.OLVMCluster) bool {
	return HasOLVMCluster(cluster) && cluster.Spec.InfrastructureRef.Name == c.Name
}

// HasOLVMCluster reports whether the infrastructure of a Cluster is an OLVMCluster.
func HasOLVMCluster(cluster *clusterv1.Cluster) bool {
	ref := cluster.Spec.InfrastructureRef

	return ref.Kind == "OLVMCluster" && ref.APIGroup == infrav1.GroupVersion.Group
}

// IsExcluded reports whether a Cluster names an OLVMCluster that another Cluster holds.
func (c Claims) IsExcluded(cluster *clusterv1.Cluster) bool {
	return slices.Contains(c.OtherNames(), cluster.Name)
}

// IsShared reports whether several Clusters name the OLVMCluster and one of them is not being deleted. If so, the
// OLVMCluster must not be deleted.
func (c Claims) IsShared() bool {
	stays := func(cluster *clusterv1.Cluster) bool { return cluster.DeletionTimestamp.IsZero() }

	return len(c.Others) > 0 && (stays(c.Holder) || slices.ContainsFunc(c.Others, stays))
}

// OtherNames returns the names of the other Clusters.
func (c Claims) OtherNames() []string {
	out := make([]string, 0, len(c.Others))
	for _, other := range c.Others {
		out = append(out, other.Name)
	}

	return out
}

// ToError returns an error with the holder, the other Clusters, and the remedy. To keep another Cluster, users must
// create it again, because Cluster API has given it the endpoint of the OLVMCluster.
func (c Claims) ToError() *blocker.Error {
	clusters, verb, it, whose := "Cluster "+c.OtherNames()[0], "names", "it", "its"
	if len(c.Others) > 1 {
		clusters, verb, it, whose = "Clusters "+strings.Join(c.OtherNames(), ", "), "name", "each of them", "their"
	}

	return &blocker.Error{
		Reason: infrav1.SharedByClustersReason,
		Message: fmt.Sprintf("%s %s OLVMCluster %s in spec.infrastructureRef, but Cluster %s has it: no VM is made "+
			"for %s, and the OLVMCluster cannot be deleted. Make an OLVMCluster for %s, and name it in %s "+
			"spec.infrastructureRef. Only then delete %s, and make %s again with an OLVMCluster of %s own",
			clusters, verb, c.olvmCluster, c.Holder.Name, clusters, it, whose, clusters, it, whose),
	}
}
