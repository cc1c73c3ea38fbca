package security

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// TestATenantCannotReserveAddressesOfOthers (row M3 of docs/operate/security.md) lets a tenant of another namespace
// record the addresses of a cluster. The records are endpoints of OLVMClusters that were never connected to the engine,
// and machines without an owner.
func TestATenantCannotReserveAddressesOfOthers(t *testing.T) {
	s := testsite.New(t, suite.API.Client, testsite.Options{})
	thief := "thief-" + s.Namespace
	s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: thief}})
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: thief,
			Name:      name,
			Labels:    map[string]string{clusterv1.ClusterNameLabel: "demo"},
		}
	}

	for i := 10; i < 20; i++ { // the whole range of addresses for the site's machines
		address := fmt.Sprintf("10.0.0.%d", i)
		claims := &infrav1.OLVMCluster{ObjectMeta: meta(fmt.Sprintf("c%d", i)), Spec: *s.OLVM.Spec.DeepCopy()}
		claims.Spec.ControlPlaneEndpoint.Host = address
		s.Create(claims)
		m := &infrav1.OLVMMachine{ObjectMeta: meta(fmt.Sprintf("m%d", i)), Spec: s.MachineSpec()}
		m.Annotations = map[string]string{
			infrav1.AddressesAnnotation:       `{"nic1":["` + address + `"]}`,
			infrav1.CreateRequestedAnnotation: "x",
		}
		m.Spec.ProviderID = "olvm://11111111-1111-4111-8111-111111111111"
		s.Create(m)
	}

	start(t, s, "")
	machine := s.CreateMachine("one", nil)
	s.ExpectProvisioned(machine)
	if machine.Status.OLVM.IPAddress != "10.0.0.10" {
		t.Errorf("the machine has the address %s", machine.Status.OLVM.IPAddress)
	}
}

// TestAnAddressConflictDoesNotNameOtherTenants (row M3 of docs/operate/security.md) uses two namespaces that share an
// engine and a range, so that their addresses conflict. The message must report the conflict, but not name the other
// tenant.
func TestAnAddressConflictDoesNotNameOtherTenants(t *testing.T) {
	a := testsite.New(t, suite.API.Client, testsite.Options{})
	b := testsite.New(
		t,
		suite.API.Client,
		testsite.Options{Change: func(secret *corev1.Secret, ca *corev1.ConfigMap, c *infrav1.OLVMCluster) {
			for key, value := range map[string]string{
				"username":                   a.Sim.Username(),
				"password":                   a.Sim.Password(),
				infrav1.AllowedServerURLsKey: a.Sim.URL(),
			} {
				secret.StringData[key] = value
			}

			ca.Data["ca.crt"] = string(a.Sim.CA())
			c.Spec.OLVMOvirtAPIServer.ServerURL = a.Sim.URL()
			c.Spec.ControlPlaneEndpoint.Host = "10.0.0.6"
		}},
	)
	start(t, a, "")
	start(t, b, "")
	one := func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.Network.IPv4.IPAddresses = []string{"10.0.0.10"}
	}
	first := a.CreateMachine("secret-project", one)
	a.ExpectProvisioned(first)
	b.ExpectCondition(b.OLVM, infrav1.EngineAvailableCondition, "True/"+infrav1.EngineAvailableReason)
	second := b.CreateMachine("curious", one)
	message := b.ExpectCondition(
		second, infrav1.AddressesAllocatedCondition, "False/"+infrav1.AddressRangeExhaustedReason,
	)
	if strings.Contains(message, "secret-project") || strings.Contains(message, a.Namespace+"/") {
		t.Errorf("the message names what is not theirs: %s", message)
	}
}

// TestForeignSecrets lets a tenant name an existing Secret of another namespace, and a missing one.
func TestForeignSecrets(t *testing.T) {
	messages := map[string]string{}

	for _, name := range []string{"there", "missing"} {
		s := testsite.New(
			t,
			suite.API.Client,
			testsite.Options{Change: func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
				c.Spec.OLVMOvirtAPIServer.CredentialsSecret = infrav1.NamespacedName{
					Namespace: "kube-system",
					Name:      name,
				}
			}},
		)
		if name == "there" {
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
				StringData: map[string]string{"username": "u", "password": canary},
			}
			s.Create(secret)
			t.Cleanup(func() { s.Delete(secret) })
		}

		start(t, s, "")
		message := s.ExpectCondition(
			s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.CredentialsNotAllowedReason,
		)
		messages[name] = strings.NewReplacer(name, "NAME", s.Namespace, "NAMESPACE").Replace(message)
	}

	if messages["there"] != messages["missing"] {
		t.Errorf("a tenant can tell which Secrets there are: %q and %q", messages["there"], messages["missing"])
	}
}
