package controllers

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// vaultOf makes a namespace with the credentials and the CA of a site's engine, and an identity for them that nobody
// may use yet. Its name is that of the namespace.
func vaultOf(s *site) *infrav1.OLVMClusterIdentity {
	s.T.Helper()
	vault := s.Namespace + "-vault"
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: vault, Name: name} }
	s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: vault}})
	s.Create(&corev1.Secret{
		ObjectMeta: meta("engine"),
		StringData: map[string]string{"username": s.Sim.Username(), "password": s.Sim.Password()},
	})
	s.Create(&corev1.ConfigMap{ObjectMeta: meta("ca"), Data: map[string]string{"ca.crt": string(s.Sim.CA())}})

	identity := &infrav1.OLVMClusterIdentity{
		ObjectMeta: metav1.ObjectMeta{Name: vault},
		Spec: infrav1.OLVMClusterIdentitySpec{
			CredentialsSecret: infrav1.ObjectOfNamespace{Namespace: vault, Name: "engine"},
			CAConfigMap:       &infrav1.ObjectOfNamespace{Namespace: vault, Name: "ca"},
			AllowedServerURLs: []string{s.Sim.URL()},
		},
	}
	s.Create(identity)
	s.T.Cleanup(func() { _ = s.Client.Delete(context.Background(), identity) })

	return identity
}

// TestAnIdentityIsForTheNamespacesAndEnginesThatItNames connects a cluster by an identity, once that allows it in each
// of its ways.
func TestAnIdentityIsForTheNamespacesAndEnginesThatItNames(t *testing.T) {
	s := newSite(t, func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
		c.Spec.OLVMOvirtAPIServer.CredentialsSecret = infrav1.NamespacedName{}
		c.Spec.OLVMOvirtAPIServer.CAConfigMap = nil
		c.Spec.OLVMOvirtAPIServer.IdentityRef = &infrav1.OLVMClusterIdentityReference{Name: c.Namespace + "-vault"}
	})
	refused := func(reason string, texts ...string) {
		t.Helper()
		message := s.Expect(s.OLVM, infrav1.EngineAvailableCondition, "False/"+reason)

		for _, text := range texts {
			check.Contains(t, "the message", message, text)
		}
	}
	denied := []string{"spec.olvmOvirtAPIServer.identityRef", "does not exist, or does not allow namespace", s.Namespace}
	refused(infrav1.CredentialsNotAllowedReason, denied...)

	identity := vaultOf(s)
	allow := func(change func(*infrav1.OLVMClusterIdentitySpec)) {
		t.Helper()
		before := identity.DeepCopy()
		change(&identity.Spec)
		check.Error(t, s.Client.Patch(t.Context(), identity, client.MergeFrom(before)), "")
	}
	connected := func() {
		t.Helper()
		s.Expect(s.OLVM, infrav1.EngineAvailableCondition, "True/"+infrav1.EngineAvailableReason)
	}
	refused(infrav1.CredentialsNotAllowedReason, denied...) // the same: whether it exists is nobody's business

	allow(func(spec *infrav1.OLVMClusterIdentitySpec) {
		spec.AllowedNamespaces = &infrav1.AllowedNamespaces{List: []string{"elsewhere", s.Namespace}}
	})
	connected()

	m := s.Machine("one", nil)
	s.ExpectProvisioned(m)

	allow(func(spec *infrav1.OLVMClusterIdentitySpec) {
		spec.AllowedServerURLs = []string{"https://other.example.com/ovirt-engine"}
	})
	refused(infrav1.EngineNotAllowedReason, "allowedServerURLs", s.Sim.URL())

	allow(func(spec *infrav1.OLVMClusterIdentitySpec) {
		spec.AllowedServerURLs = []string{s.Sim.URL()}
		spec.AllowedNamespaces = &infrav1.AllowedNamespaces{Selector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"team": "a"},
		}}
	})
	refused(infrav1.CredentialsNotAllowedReason, denied...)

	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"team":"a"}}}`))
	check.Error(t, s.Client.Patch(t.Context(), space, label), "")
	connected()

	allow(func(spec *infrav1.OLVMClusterIdentitySpec) { spec.AllowedNamespaces = &infrav1.AllowedNamespaces{} })
	connected()

	s.Delete(m)
	s.ExpectGone(m)
}
