package cluster

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/enginepool"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// TestNextTry plays the tries of a cluster whose engine is away.
func TestNextTry(t *testing.T) {
	for away, most := range map[time.Duration]int{time.Minute: 12, time.Hour: 75, 24 * time.Hour: 1500} {
		tries, down := 0, time.Duration(0)
		for down < away {
			pause := wait.Jitter(nextTry(down), jitter)
			if pause < 5*time.Second || pause > 72*time.Second {
				t.Fatalf("after %s the next try is in %s", down, pause)
			}

			down += pause
			tries++
		}

		if tries > most {
			t.Errorf("%d tries in %s", tries, away)
		}
	}
}

// TestTwoEndpoints compares the endpoints of a Cluster and its OLVMCluster.
func TestTwoEndpoints(t *testing.T) {
	at := func(host string, port int32) clusterv1.APIEndpoint {
		return clusterv1.APIEndpoint{Host: host, Port: port}
	}
	for name, test := range map[string]struct {
		asked, own clusterv1.APIEndpoint
		differ     bool
	}{
		"the Cluster has none":         {at("", 0), at("10.0.0.5", 6443), false},
		"the same":                     {at("10.0.0.5", 6443), at("10.0.0.5", 6443), false},
		"another address":              {at("10.0.0.8", 6443), at("10.0.0.5", 6443), true},
		"another port":                 {at("10.0.0.5", 7443), at("10.0.0.5", 6443), true},
		"an address in another form":   {at("FD00:0::5", 6443), at("fd00::5", 6443), false},
		"a name in other capitals":     {at("API.example.com.", 6443), at("api.example.com", 6443), false},
		"a name instead of an address": {at("api.example.com", 6443), at("10.0.0.5", 6443), true},
	} {
		scope := &clusterScope{cluster: &clusterv1.Cluster{}, olvmCluster: &infrav1.OLVMCluster{}}
		scope.cluster.Name = "demo"
		scope.cluster.Spec.ControlPlaneEndpoint = test.asked
		scope.olvmCluster.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint(test.own)
		setEndpointCondition(scope)

		condition := conditions.Get(scope.olvmCluster, infrav1.EndpointConfiguredCondition)
		if test.differ != (condition.Reason == infrav1.EndpointsDifferReason) {
			t.Errorf("%s: %s: %s", name, condition.Reason, condition.Message)
		}

		if test.differ && (!strings.Contains(condition.Message, test.asked.Host) ||
			!strings.Contains(condition.Message, test.own.Host)) {
			t.Errorf("%s: %s", name, condition.Message)
		}
	}
}

// TestReconcileGone ends the session of an OLVMCluster whose finalizer others removed, as clusterctl move does.
func TestReconcileGone(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := infrav1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}

	sessions := &engine.Sessions{}
	session, err := sessions.Get(engine.Config{URL: "https://engine.example.com", Username: "admin", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}

	gone := types.NamespacedName{Namespace: "default", Name: "gone"}
	engines := &enginepool.Pool{Sessions: sessions}
	engines.Replaced(gone, session)

	runs := workspace.NewRunQueue(1, time.Minute)
	runs.WorkDir = t.TempDir()
	r := &Reconciler{
		Client:     fake.NewClientBuilder().WithScheme(scheme).Build(),
		Engines:    engines,
		workspaces: workspace.NewKind(workspace.Kind{Name: workspace.ClusterKind, Prefix: statePrefix, Runs: runs}),
	}

	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: gone}); err != nil {
		t.Fatal(err)
	}

	if sessions.Has(session) {
		t.Error("the session, and with it the password, is kept")
	}
}
