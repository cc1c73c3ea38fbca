package holder

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// cluster returns a Cluster with an OLVMCluster and the given age in minutes.
func cluster(name string, minutes int, names string) *clusterv1.Cluster {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Duration(minutes) * time.Minute)

	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "tenant", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(at),
		},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "OLVMCluster", Name: names,
		}},
	}
}

// deleted returns a Cluster that is being deleted.
func deleted(of *clusterv1.Cluster) *clusterv1.Cluster {
	of.DeletionTimestamp, of.Finalizers = &of.CreationTimestamp, []string{clusterv1.ClusterFinalizer}

	return of
}

// owner returns an owner reference to a Cluster.
func owner(name, uid string) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: name, UID: types.UID(uid),
	}
}

func TestWhichClusterHasAnOLVMCluster(t *testing.T) {
	scheme := runtime.NewScheme()
	check.Error(t, clusterv1.AddToScheme(scheme), "")

	elsewhere := cluster("old", 9, "c")
	elsewhere.Namespace = "another"
	foreign := cluster("old", 9, "c")
	foreign.Spec.InfrastructureRef.Kind = "DockerCluster"

	for name, test := range map[string]struct {
		owners         []metav1.OwnerReference
		clusters       []client.Object
		holder, others string
		shared         bool
	}{
		"none":     {nil, nil, "", "", false},
		"only one": {[]metav1.OwnerReference{owner("a", "a")}, []client.Object{cluster("a", 1, "c")}, "a", "", false},
		"the first owner, even if it is younger": {
			[]metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "b"}, owner("a", "a"), owner("b", "b")},
			[]client.Object{cluster("a", 1, "c"), cluster("b", 2, "c")}, "a", "b", true,
		},
		"the oldest where no owner is known": {
			nil, []client.Object{cluster("a", 1, "c"), cluster("b", 2, "c"), cluster("d", 2, "c")}, "b", "d a", true,
		},
		"the oldest where the first owner was another of that name": {
			[]metav1.OwnerReference{owner("a", "gone")},
			[]client.Object{cluster("a", 1, "c"), cluster("b", 2, "c")}, "b", "a", true,
		},
		"the one that still names it": {
			[]metav1.OwnerReference{owner("a", "a"), owner("b", "b")},
			[]client.Object{cluster("a", 3, "own"), cluster("b", 2, "c")}, "b", "", false,
		},
		"the owner where no Cluster names it": {
			[]metav1.OwnerReference{owner("a", "a")}, []client.Object{cluster("a", 1, "own")}, "a", "", false,
		},
		"not one of another namespace or kind": {
			[]metav1.OwnerReference{owner("a", "a")},
			[]client.Object{cluster("a", 1, "c"), elsewhere, foreign}, "a", "", false,
		},
		"one of them goes": {
			[]metav1.OwnerReference{owner("a", "a")},
			[]client.Object{deleted(cluster("a", 1, "c")), cluster("b", 2, "c")}, "a", "b", true,
		},
		"all of them go": {
			[]metav1.OwnerReference{owner("a", "a")},
			[]client.Object{deleted(cluster("a", 1, "c")), deleted(cluster("b", 2, "c"))}, "a", "b", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(test.clusters...).Build()
			claims, err := FindClaims(t.Context(), reader, &infrav1.OLVMCluster{
				ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "c", OwnerReferences: test.owners},
			})
			check.Error(t, err, "")

			got := ""
			if claims.Holder != nil {
				got = claims.Holder.Name
				check.Equal(t, "it is excluded", claims.IsExcluded(claims.Holder), false)
			}

			check.Equal(t, "holder", got, test.holder)
			check.Equal(t, "others", strings.Join(claims.OtherNames(), " "), test.others)
			check.Equal(t, "shared", claims.IsShared(), test.shared)
		})
	}
}
