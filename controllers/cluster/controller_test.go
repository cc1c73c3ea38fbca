package cluster

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/enginepool"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// TestNextTry simulates the retries of a cluster with an unreachable engine.
func TestNextTry(t *testing.T) {
	for away, most := range map[time.Duration]int{time.Minute: 12, time.Hour: 75, 24 * time.Hour: 1500} {
		tries, down := 0, time.Duration(0)
		for down < away {
			pause := pass.Jitter(computeRetryDelay(down))
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

// TestReconcileGone ends the session of an OLVMCluster after someone else removed its finalizer, as clusterctl move
// does.
func TestReconcileGone(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}

	sessions := &engine.Sessions{}
	session, err := sessions.Get(
		engine.Config{URL: "https://engine.example.com", Username: "admin", Password: "secret"},
	)
	if err != nil {
		t.Fatal(err)
	}

	gone := types.NamespacedName{Namespace: "default", Name: "gone"}
	engines := &enginepool.Registry{Sessions: sessions}
	engines.RecordSession(gone, session)

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

	if sessions.HasClient(session) {
		t.Error("the session, and with it the password, is kept")
	}
}
