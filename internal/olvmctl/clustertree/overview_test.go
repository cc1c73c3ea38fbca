package clustertree

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestListOfClusters(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cluster := func(namespace, name string) *clusterv1.Cluster {
		return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
			Namespace:         namespace,
			Name:              name,
			CreationTimestamp: metav1.NewTime(now.Add(-3 * time.Hour)),
		}}
	}
	ready := cluster("b", "prod")
	ready.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.0.0.5", Port: 6443}
	ready.Status.Phase = "Provisioned"
	ready.Status.Conditions = condition(clusterv1.ClusterAvailableCondition, true, "Available", "")
	ready.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
		DesiredReplicas: ptr.To[int32](3), ReadyReplicas: ptr.To[int32](3)}
	ready.Status.Workers = &clusterv1.WorkersStatus{DesiredReplicas: ptr.To[int32](2), ReadyReplicas: ptr.To[int32](1)}
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}

	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(ready, cluster("a", "new")).Build()

	for name, test := range map[string]struct{ namespace, want string }{
		"all namespaces": {"", `NAMESPACE   NAME   PHASE         AVAILABLE   CONTROL PLANE   WORKERS   VERSION   AGE   ENDPOINT        PROBLEM
a           new                  no          0/0             0/0                 3h                    Available is unknown
b           prod   Provisioned   yes         3/3             1/2                 3h    10.0.0.5:6443   
`},
		"one namespace": {"a", `NAMESPACE   NAME   PHASE   AVAILABLE   CONTROL PLANE   WORKERS   VERSION   AGE   ENDPOINT   PROBLEM
a           new            no          0/0             0/0                 3h               Available is unknown
`},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := List(t.Context(), c, client.InNamespace(test.namespace))
			if err != nil {
				t.Fatal(err)
			}

			var out bytes.Buffer
			printer := printers.NewTablePrinter(printers.PrintOptions{WithNamespace: true, Wide: true})
			check.Error(t, printer.PrintObj(ClusterTable(list, now), &out), "")

			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAMachineThatGoesIsNoProblem checks the sign of waiting, and the colors on a terminal.
func TestAMachineThatGoesIsNoProblem(t *testing.T) {
	tree := &Node{Kind: "Cluster", Name: "demo", Children: []Node{
		{Kind: "Machine", Name: "old", Problem: "NotReady: Deleting", Machine: &Machine{Deleting: true}},
		{Kind: "Machine", Name: "stuck", Problem: "NotReady: x", Machine: &Machine{Deleting: true}, Stuck: true},
		{Kind: "Machine", Name: "new", Problem: "NotReady: y", Machine: &Machine{}},
	}}

	var plain, colored bytes.Buffer
	check.Error(t, tree.Print(&plain), "")
	check.Error(t, tree.PrintColored(&colored), "")

	for _, want := range []string{"… NotReady: Deleting\n", "! NotReady: x\n", "! NotReady: y\n"} {
		check.Contains(t, "tree", plain.String(), want)
	}

	check.Lacks(t, "plain tree", plain.String(), "\x1b")

	for _, want := range []string{"\x1b[33m… NotReady: Deleting\x1b[0m\n", "\x1b[31m! NotReady: x\x1b[0m\n"} {
		check.Contains(t, "colored tree", colored.String(), want)
	}
}

// TestAnOverviewHasTheVersionAndWhetherItChanges has a control plane during an upgrade.
func TestAnOverviewHasTheVersionAndWhetherItChanges(t *testing.T) {
	cluster := &clusterv1.Cluster{}
	plane := &controlplanev1.KubeadmControlPlane{}
	plane.Spec.Version = "v1.36.2"
	plane.Status.Version = "v1.36.1" //nolint:staticcheck // see overview

	got := newOverview(cluster, plane)
	check.Equal(t, "versions", []any{got.Version, got.DesiredVersion, got.Updating}, []any{"v1.36.1", "v1.36.2", true})

	plane.Status.Version = "v1.36.2" //nolint:staticcheck // see overview
	got = newOverview(cluster, plane)
	check.Equal(t, "versions", []any{got.Version, got.DesiredVersion, got.Updating}, []any{"v1.36.2", "v1.36.2", false})

	cluster.Status.Conditions = condition(clusterv1.ClusterRollingOutCondition, true, "RollingOut", "")
	check.Equal(t, "updating", newOverview(cluster, plane).Updating, true)
}
