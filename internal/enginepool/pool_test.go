package enginepool

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

const engineURL = "https://engine.example.com/ovirt-engine"

// newPool returns a pool with a fake API server and one Secret. Two OLVMClusters use its password.
func newPool() (*Registry, *infrav1.OLVMCluster, *infrav1.OLVMCluster) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "login", Namespace: "default"},
		Data: map[string][]byte{
			"username":                   []byte("admin@internal"),
			"password":                   []byte("secret"),
			infrav1.AllowedServerURLsKey: []byte(engineURL),
		},
	}
	reader := fake.NewClientBuilder().WithObjects(secret).Build()
	pool := &Registry{Reader: reader, Metadata: reader, Sessions: &engine.Sessions{}}

	return pool, newCluster("a", "1"), newCluster("b", "2")
}

func newCluster(name string, uid types.UID) *infrav1.OLVMCluster {
	cluster := &infrav1.OLVMCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: uid}}
	cluster.Spec.OLVMOvirtAPIServer.ServerURL = engineURL
	cluster.Spec.OLVMOvirtAPIServer.CredentialsSecret.Name = "login"

	return cluster
}

// use opens and records the session of an OLVMCluster, as its controller does.
func use(t *testing.T, pool *Registry, cluster *infrav1.OLVMCluster) *engine.Client {
	t.Helper()

	session, _, err := pool.OpenSession(t.Context(), connection.ClusterEngine(cluster))
	if err != nil {
		t.Fatal(err)
	}

	pool.RecordSession(client.ObjectKeyFromObject(cluster), session)

	return session
}

// TestForget drops both OLVMClusters. The session must end with the second one, and no password may remain.
func TestForget(t *testing.T) {
	pool, a, b := newPool()

	session := use(t, pool, a)
	if use(t, pool, b) != session {
		t.Fatal("two OLVMClusters with the same credentials have two sessions")
	}

	pool.DropCluster(client.ObjectKeyFromObject(a))

	if !pool.Sessions.HasClient(session) {
		t.Error("the session ended while an OLVMCluster used it")
	}

	pool.DropCluster(client.ObjectKeyFromObject(b))

	if pool.Sessions.HasClient(session) {
		t.Error("the session of no OLVMCluster goes on")
	}

	if len(pool.access) != 0 {
		t.Errorf("the credentials are kept: of %d OLVMClusters", len(pool.access))
	}
}

// TestForOfNewObject creates an object with the name of a deleted one. The registry must read the connection of the new
// one.
func TestForOfNewObject(t *testing.T) {
	pool, before, _ := newPool()
	use(t, pool, before)

	after := newCluster(before.Name, "3")
	after.Spec.OLVMOvirtAPIServer.ServerURL = "https://other.example.com/ovirt-engine"

	if _, config, err := pool.OpenSession(t.Context(), connection.ClusterEngine(after)); err == nil {
		t.Errorf("the new OLVMCluster gets the connection of the one before: %s", config.URL)
	}
}
