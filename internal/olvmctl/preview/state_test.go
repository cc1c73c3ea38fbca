package preview

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAStateOfTheManagementClusterIsNotShownToAStrangersEngine has a running machine whose state cannot be decoded. An
// error proves that the state was used.
func TestAStateOfTheManagementClusterIsNotShownToAStrangersEngine(t *testing.T) {
	t.Parallel()

	login := types.NamespacedName{Namespace: "team-a", Name: "login"}
	secret := &corev1.Secret{}

	tests := map[string]struct {
		change      func(*Manifests)
		credentials Credentials
		used        bool
	}{
		"the login is the management cluster's": {
			func(m *Manifests) { m.Running.Secrets[login] = secret }, Credentials{}, true,
		},
		"the login is that of manifests": {
			func(m *Manifests) { m.Written.Secrets[login] = secret }, Credentials{}, false,
		},
		"who runs the plan gives the login": {
			func(*Manifests) {}, Credentials{Username: "admin@internal", Password: "p"}, true,
		},
		"no management cluster is read": {
			func(m *Manifests) {
				m.Connected = false
				m.Written, m.Running = m.Running, planinput.NewAccess()
				m.Written.Secrets[login] = secret
			}, Credentials{}, true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			cluster := &infrav1.OLVMCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "c"}}
			cluster.Spec.OLVMOvirtAPIServer.CredentialsSecret.Name = login.Name
			m := NewManifests(
				&planinput.Input{Connected: true, Written: planinput.NewAccess(), Running: planinput.NewAccess()},
			)
			m.Running.Secrets[planinput.StateKey(&infrav1.OLVMMachine{
				ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "one"},
			})] = secret
			test.change(m)

			_, err := m.findState(Machine{Namespace: "team-a", infraName: "one", live: true, olvmCluster: cluster},
				test.credentials)
			check.Equal(t, "used", err != nil, test.used)
		})
	}
}
