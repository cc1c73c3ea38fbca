package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// identityOf creates the credentials and the CA of a site's engine in a namespace, and an identity that refers to them.
// The identity allows no namespace. All have the name of the site's namespace.
func identityOf(s *site, namespace string) *infrav1alpha1.OLVMClusterIdentity {
	s.T.Helper()
	name := s.Namespace
	err := s.Client.Create(s.T.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	check.Error(s.T, client.IgnoreAlreadyExists(err), "")

	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	s.Create(&corev1.Secret{
		ObjectMeta: meta,
		StringData: map[string]string{"username": s.Sim.Username(), "password": s.Sim.Password()},
	})
	s.Create(&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"ca.crt": string(s.Sim.CA())}})

	identity := &infrav1alpha1.OLVMClusterIdentity{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: infrav1alpha1.OLVMClusterIdentitySpec{
			CredentialsSecret: infrav1alpha1.ObjectOfNamespace{Namespace: namespace, Name: name},
			CAConfigMap:       &infrav1alpha1.ObjectOfNamespace{Namespace: namespace, Name: name},
			AllowedServerURLs: []string{s.Sim.URL()},
		},
	}
	s.Create(identity)
	s.T.Cleanup(func() { _ = s.Client.Delete(context.Background(), identity) })

	return identity
}

// withIdentity makes the OLVMCluster name the identity of its site.
func withIdentity(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
	server := &c.Spec.OLVMOvirtAPIServer
	server.CredentialsSecret, server.CAConfigMap = infrav1.NamespacedName{}, nil
	server.IdentityRef = &infrav1.OLVMClusterIdentityReference{Name: c.Namespace}
}

// TestAnIdentityUsesTheManagersNamespaceAlone covers an identity that names the Secret of another namespace.
func TestAnIdentityUsesTheManagersNamespaceAlone(t *testing.T) {
	s := newSite(t, withIdentity)
	identity := identityOf(s, s.Namespace+"-other")
	before := identity.DeepCopy()
	identity.Spec.AllowedNamespaces = &infrav1alpha1.AllowedNamespaces{Selector: &infrav1.LabelSelector{}}
	check.Error(t, s.Client.Patch(t.Context(), identity, client.MergeFrom(before)), "")

	s.Eventually("the reason is the namespace", func() error {
		message := s.ExpectCondition(
			s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.CredentialsNotAllowedReason,
		)
		if !strings.Contains(message, "must be in the manager's namespace "+managerNamespace) {
			return errors.New(message)
		}

		return nil
	})

	var secret corev1.Secret
	check.Error(t, s.Client.Get(t.Context(), client.ObjectKey(identity.Spec.CredentialsSecret), &secret), "")
	check.Length(t, "finalizers of a Secret that is not used", secret.Finalizers, 0)
}

// TestAnIdentityOutlivesTheMachines deletes everything at once, the administrator's objects first.
func TestAnIdentityOutlivesTheMachines(t *testing.T) {
	s := newSite(t, withIdentity)
	identity := identityOf(s, managerNamespace)
	before := identity.DeepCopy()
	identity.Spec.AllowedNamespaces = &infrav1alpha1.AllowedNamespaces{List: []string{s.Namespace}}
	check.Error(t, s.Client.Patch(t.Context(), identity, client.MergeFrom(before)), "")

	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)

	meta := metav1.ObjectMeta{Namespace: managerNamespace, Name: s.Namespace}
	held := []client.Object{&corev1.Secret{ObjectMeta: meta}, &corev1.ConfigMap{ObjectMeta: meta}, identity}

	for _, o := range held {
		s.Eventually(fmt.Sprintf("%T is held", o), func() error {
			if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}

			if !controllerutil.ContainsFinalizer(o, infrav1.AccessFinalizer) {
				return fmt.Errorf("finalizers %v", o.GetFinalizers())
			}

			return nil
		})
		check.Equal(t, "labels, such as that of clusterctl move", len(o.GetLabels()), 0)
		s.Delete(o)
	}

	s.Delete(s.OLVM)
	s.Delete(m)
	s.ExpectGone(m)
	s.ExpectGone(s.OLVM)

	for _, o := range held {
		s.ExpectGone(o)
	}

	s.ExpectEmptyEngine()
}

// TestAnIdentityIsForTheNamespacesAndEnginesThatItNames connects a cluster through an identity. The identity refuses
// the cluster at first, and then allows it in each possible way.
func TestAnIdentityIsForTheNamespacesAndEnginesThatItNames(t *testing.T) {
	s := newSite(t, withIdentity)
	refused := func(reason string, texts ...string) {
		t.Helper()
		message := s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+reason)

		for _, text := range texts {
			check.Contains(t, "the message", message, text)
		}
	}
	denied := []string{
		"spec.olvmOvirtAPIServer.identityRef", "does not exist, or does not allow namespace", s.Namespace,
	}
	refused(infrav1.CredentialsNotAllowedReason, denied...)

	identity := identityOf(s, managerNamespace)
	allow := func(change func(*infrav1alpha1.OLVMClusterIdentitySpec)) {
		t.Helper()
		before := identity.DeepCopy()
		change(&identity.Spec)
		check.Error(t, s.Client.Patch(t.Context(), identity, client.MergeFrom(before)), "")
	}
	connected := func() {
		t.Helper()
		s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "True/"+infrav1.EngineAvailableReason)
	}
	refused(infrav1.CredentialsNotAllowedReason, denied...) // the same texts: tenants must not learn whether it exists

	allow(func(spec *infrav1alpha1.OLVMClusterIdentitySpec) {
		spec.AllowedNamespaces = &infrav1alpha1.AllowedNamespaces{List: []string{"elsewhere", s.Namespace}}
	})
	connected()

	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)

	allow(func(spec *infrav1alpha1.OLVMClusterIdentitySpec) {
		spec.AllowedServerURLs = []string{"https://other.example.com/ovirt-engine"}
	})
	refused(infrav1.EngineNotAllowedReason, "allowedServerURLs", s.Sim.URL())

	allow(func(spec *infrav1alpha1.OLVMClusterIdentitySpec) {
		spec.AllowedServerURLs = []string{s.Sim.URL()}
		spec.AllowedNamespaces = &infrav1alpha1.AllowedNamespaces{Selector: &infrav1.LabelSelector{
			MatchLabels: map[string]string{"team": "a"},
		}}
	})
	refused(infrav1.CredentialsNotAllowedReason, denied...)

	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"team":"a"}}}`))
	check.Error(t, s.Client.Patch(t.Context(), space, label), "")
	connected()

	allow(func(spec *infrav1alpha1.OLVMClusterIdentitySpec) {
		spec.AllowedNamespaces = &infrav1alpha1.AllowedNamespaces{Selector: &infrav1.LabelSelector{}}
	})
	connected()

	s.Delete(m)
	s.ExpectGone(m)
}

// TestAnIdentitySaysWhetherItCanBeUsed follows the condition of an identity while its administrator corrects it. Each
// verdict describes the current spec.
func TestAnIdentitySaysWhetherItCanBeUsed(t *testing.T) {
	s := newSite(t, withIdentity)
	identity := identityOf(s, managerNamespace)
	expect := func(want, text string) {
		t.Helper()
		s.Eventually("the identity says "+want, func() error {
			if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(identity), identity); err != nil {
				return err
			}

			got := conditions.Get(identity, infrav1.ReadyCondition)
			if got == nil || string(got.Status)+"/"+got.Reason != want ||
				got.ObservedGeneration != identity.Generation ||
				!strings.Contains(got.Message, text) {
				return fmt.Errorf("it is %+v, and the object of generation %d", got, identity.Generation)
			}

			return nil
		})
	}
	edit := func(apply func(*infrav1alpha1.OLVMClusterIdentitySpec)) {
		t.Helper()
		change(s, identity, func(i *infrav1alpha1.OLVMClusterIdentity) { apply(&i.Spec) })
	}

	expect("False/"+infrav1.NoNamespaceAllowedReason, "spec.allowedNamespaces")
	edit(func(spec *infrav1alpha1.OLVMClusterIdentitySpec) {
		spec.AllowedNamespaces = &infrav1alpha1.AllowedNamespaces{List: []string{s.Namespace + "-none"}}
	})
	expect("True/Ready", "")
	edit(func(spec *infrav1alpha1.OLVMClusterIdentitySpec) {
		spec.CredentialsSecret.Name = s.Namespace + "-other"
	})
	expect("False/"+infrav1.CredentialsNotFoundReason, "does not exist")

	other := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: s.Namespace + "-other"},
		StringData: map[string]string{"username": s.Sim.Username()},
	}
	s.Create(other)
	expect("False/"+infrav1.CredentialsNotFoundReason, "password")
	change(s, other, func(secret *corev1.Secret) {
		secret.StringData = map[string]string{"password": s.Sim.Password()}
	})
	expect("True/Ready", "")
	edit(func(spec *infrav1alpha1.OLVMClusterIdentitySpec) { spec.CAConfigMap.Namespace = s.Namespace })
	expect("False/"+infrav1.CredentialsNotAllowedReason, "must be in the manager's namespace "+managerNamespace)
}
