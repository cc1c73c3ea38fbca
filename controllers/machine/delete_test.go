package machine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// TestWhyNoEngine deletes a machine whose Cluster is gone, with none, one and two OLVMClusters of its label.
func TestWhyNoEngine(t *testing.T) {
	const vm, end = "123e4567-e89b-12d3-a456-426614174000", "; to keep the VM remove the finalizer " +
		infrav1.MachineFinalizer + " from this object"

	for name, tt := range map[string]struct {
		clusters []string
		found    string
		why      string
	}{
		"none": {
			why: "The OLVMCluster, which names the engine, does not exist. To delete the VM " + vm +
				" make it again, with the label cluster.x-k8s.io/cluster-name=prod" + end,
		},
		"one": {clusters: []string{"a"}, found: "a"},
		"two": {
			clusters: []string{"b", "a"},
			why: "Several OLVMClusters have the label cluster.x-k8s.io/cluster-name=prod: a, b. To delete the VM " + vm +
				" leave the label on the one that names its engine" + end,
		},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := infrav1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}

			r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(labelled(tt.clusters)...).Build()}
			scope := &machineScope{olvmMachine: &infrav1.OLVMMachine{}, workspace: &workspace.Workspace{}}
			scope.olvmMachine.Labels = map[string]string{clusterv1.ClusterNameLabel: "prod"}
			scope.olvmMachine.Spec.ProviderID = "olvm://" + vm
			if err := r.findOLVMCluster(t.Context(), scope); err != nil {
				t.Fatal(err)
			}

			if tt.found != "" {
				if scope.olvmCluster == nil || scope.olvmCluster.Name != tt.found {
					t.Errorf("the OLVMCluster is %v, not %s", scope.olvmCluster, tt.found)
				}

				return
			}

			if scope.olvmCluster != nil {
				t.Errorf("the OLVMCluster is %s", scope.olvmCluster.Name)
			}

			if diff := cmp.Diff(tt.why, whyNoEngine(scope).Message); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// labelled are OLVMClusters of these names with the label of the Cluster prod.
func labelled(names []string) []client.Object {
	var out []client.Object

	for _, name := range names {
		cluster := &infrav1.OLVMCluster{}
		cluster.Name = name
		cluster.Labels = map[string]string{clusterv1.ClusterNameLabel: "prod"}
		out = append(out, cluster)
	}

	return out
}
