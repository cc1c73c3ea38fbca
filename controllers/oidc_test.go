package controllers

import (
	"context"
	"crypto/tls"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/servingcert"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// authoritySecret returns a Secret with a certificate authority.
func (s *site) authoritySecret(name string) *corev1.Secret {
	s.T.Helper()
	certPEM, keyPEM, err := servingcert.NewAuthority(name)
	check.Error(s.T, err, "")

	return &corev1.Secret{ObjectMeta: s.NewMeta(name), Data: map[string][]byte{"tls.crt": certPEM, "tls.key": keyPEM}}
}

// TestAnIssuerGetsItsConnectorsAndCertificate (row 54) checks the configuration of a VM that runs Dex: its connectors,
// and a certificate of the tenant's authority. e2e/guestnet proves that kube-apiserver accepts its tokens.
func TestAnIssuerGetsItsConnectorsAndCertificate(t *testing.T) {
	s := newSite(t, nil)
	s.support(infrav1alpha1.OLVMSupportServicesSpec{OIDC: &infrav1alpha1.SupportOIDC{
		Issuer:               "https://10.0.0.40:5556/dex",
		Clients:              []infrav1alpha1.SupportOIDCClient{{ID: "kubernetes"}},
		ConnectorsSecretName: "connectors",
		CASecretName:         "tenant-ca",
		SupportVM:            infrav1alpha1.SupportVM{MachineTemplateName: "lb"},
	}})
	s.expectServiceFailure(`oidc.connectorsSecretName: there is no Secret "connectors"`)

	connectors := &corev1.Secret{ObjectMeta: s.NewMeta("connectors"), StringData: map[string]string{
		"connectors.yaml": "- {type: ldap, id: ldap}",
	}}
	s.Create(connectors)
	s.expectServiceFailure("oidc.connectorsSecretName: Secret connectors: connectors.yaml: [0] has no name")
	change(s, connectors, func(secret *corev1.Secret) {
		secret.Data["connectors.yaml"] = []byte("- {type: ldap, id: ldap, name: LDAP}")
	})

	s.expectServiceFailure("oidc.issuer: its host is 10.0.0.40, but the VM has 10.0.0.30")
	change(s, s.services(), func(of *infrav1alpha1.OLVMSupportServices) {
		of.Spec.OIDC.Issuer = "https://10.0.0.30:5556/dex"
	})

	s.expectServiceFailure(`oidc.caSecretName: there is no Secret "tenant-ca"`)
	s.Create(s.authoritySecret("tenant-ca"))
	status := s.service("oidc")
	check.Equal(t, "address", status.Address, "10.0.0.30")
	s.expectConfigured(
		"demo-oidc-0", "dex.yaml", "issuer: https://10.0.0.30:5556/dex\n", "id: ldap\n", "id: kubernetes\n",
	)

	first, err := s.configured("demo-oidc-0", "tls.crt")
	check.Error(t, err, "")
	key, err := s.configured("demo-oidc-0", "tls.key")
	check.Error(t, err, "")
	pair, err := tls.X509KeyPair([]byte(first), []byte(key))
	check.Error(t, err, "")
	check.Error(t, pair.Leaf.VerifyHostname("10.0.0.30"), "")

	s.look()
	again, err := s.configured("demo-oidc-0", "tls.crt")
	check.Error(t, err, "")
	check.Equal(t, "the certificate stays", again, first)

	// After a change of the authority, the VM gets another certificate.
	other := s.authoritySecret("other-ca")
	s.Create(other)
	change(s, s.services(), func(of *infrav1alpha1.OLVMSupportServices) { of.Spec.OIDC.CASecretName = "other-ca" })
	s.expectConfigured("demo-oidc-0", "ca.crt", string(other.Data["tls.crt"]))
	s.expectConfigured("demo-oidc-0", "tls.crt", "!"+first)
	s.service("oidc")

	foreign := &corev1.Secret{}
	err = s.Client.Get(
		context.Background(), client.ObjectKey{Namespace: s.Namespace, Name: "demo-oidc-serving"}, foreign,
	)
	check.Error(t, err, "")
	check.Equal(t, "the Secret goes with the cluster", foreign.OwnerReferences[0].Name, "demo")
}
