package controllers

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// managedByOthers marks an OLVMCluster as managed by another controller.
func managedByOthers(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
	c.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "other"}
}

// provideManaged stands in for the other controller, and reports that the infrastructure is provisioned.
func provideManaged(s *site) {
	s.T.Helper()
	s.OLVM.Status.Initialization.Provisioned = ptr.To(true)
	s.UpdateStatus(s.OLVM)
}

// withRange gives a machine a range of two addresses.
func withRange(spec *infrav1.OLVMMachineSpec) {
	spec.VirtualMachine.Network.IPv4 = &infrav1.IPv4Network{
		Subnet: "10.0.0.0/24", IPAddresses: []string{"10.0.0.60-10.0.0.61"},
	}
}

// TestMachinesOfAClusterThatOthersManageHaveTheirAddressesAlone covers two namespaces that use the same range on one
// engine.
func TestMachinesOfAClusterThatOthersManageHaveTheirAddressesAlone(t *testing.T) {
	s := newSite(t, managedByOthers)
	provideManaged(s)
	first := s.CreateMachine("one", withRange)
	s.ExpectProvisioned(first)

	second := &site{Site: testsite.New(t, suite.client, testsite.Options{
		Inventory: ovirtsim.Inventory{},
		Change: func(secret *corev1.Secret, ca *corev1.ConfigMap, c *infrav1.OLVMCluster) {
			secret.StringData["password"] = s.Sim.Password()
			secret.StringData[infrav1.AllowedServerURLsKey] = s.Sim.URL()
			ca.Data["ca.crt"] = string(s.Sim.CA())
			c.Spec.OLVMOvirtAPIServer.ServerURL = s.Sim.URL()
			c.Spec.ControlPlaneEndpoint.Host = "10.0.0.6"
		},
	})}
	m := second.CreateMachine("two", withRange)
	second.ExpectProvisioned(m)

	if slices.Equal(addressesOf(first), addressesOf(m)) {
		t.Errorf("both have %v", addressesOf(m))
	}

	second.Delete(m)
	second.ExpectGone(m)
}

func addressesOf(m *infrav1.OLVMMachine) []string {
	var out []string

	for _, address := range m.Status.Addresses {
		if address.Type == clusterv1.MachineInternalIP {
			out = append(out, address.Address)
		}
	}

	return out
}

// TestANamespaceWithAClusterThatOthersManageCanBeDeleted deletes everything at once, in the worst order.
func TestANamespaceWithAClusterThatOthersManageCanBeDeleted(t *testing.T) {
	s := newSite(t, managedByOthers)
	provideManaged(s)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)

	access := []client.Object{
		s.OLVM, &corev1.Secret{ObjectMeta: s.NewMeta("creds")}, &corev1.ConfigMap{ObjectMeta: s.NewMeta("ca")},
	}
	for _, object := range access {
		s.Eventually(fmt.Sprintf("%T is held", object), func() error {
			if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}

			if !slices.Contains(object.GetFinalizers(), infrav1.AccessFinalizer) {
				return fmt.Errorf("its finalizers are %v", object.GetFinalizers())
			}

			return nil
		})
	}

	for _, object := range access {
		s.Delete(object)
	}

	s.Delete(m)
	s.ExpectGone(m)

	for _, object := range access {
		s.ExpectGone(object)
	}

	check.Length(t, "VMs", s.Sim.ListVMs(), 0)
}
