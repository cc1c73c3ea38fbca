package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// anotherCluster creates a second Cluster with an OLVMCluster of the same engine. asked is the host of the endpoint in
// the Cluster's spec, or "".
func (s *site) anotherCluster(name, host, asked string) *infrav1.OLVMCluster {
	s.T.Helper()
	owner := s.newOwner(name)
	owner.Spec.ControlPlaneEndpoint.Host = asked

	if asked != "" {
		owner.Spec.ControlPlaneEndpoint.Port = 6443
	}

	s.Create(owner)

	out := &infrav1.OLVMCluster{ObjectMeta: s.NewMeta(name), Spec: *s.OLVM.Spec.DeepCopy()}
	out.Labels = map[string]string{clusterv1.ClusterNameLabel: name}
	out.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: host, Port: 6443}
	out.OwnerReferences = ownedBy(owner)
	s.Create(out)

	return out
}

// newOwner creates another Cluster with an OLVMCluster of the same name.
func (s *site) newOwner(name string) *clusterv1.Cluster {
	s.T.Helper()
	owner := &clusterv1.Cluster{ObjectMeta: s.NewMeta(name), Spec: *s.Cluster.Spec.DeepCopy()}
	owner.Labels = map[string]string{clusterv1.ClusterNameLabel: name}
	owner.Spec.InfrastructureRef.Name, owner.Spec.ControlPlaneRef.Name = name, name

	return owner
}

// ownedBy returns the owner references of an OLVMCluster that a Cluster has adopted.
func ownedBy(owner *clusterv1.Cluster) []metav1.OwnerReference {
	return []metav1.OwnerReference{
		{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: owner.Name, UID: owner.UID},
	}
}

// isProvisioned reports whether the infrastructure of a cluster is provisioned, so that machines are created.
func (s *site) isProvisioned(c *infrav1.OLVMCluster) bool {
	s.T.Helper()
	check.Error(s.T, s.Client.Get(s.T.Context(), client.ObjectKeyFromObject(c), c), "")

	return ptr.Deref(c.Status.Initialization.Provisioned, false)
}

// TestAnEndpointThatAnotherHasIsRefused requests the endpoint of another cluster, and the address of a machine.
func TestAnEndpointThatAnotherHasIsRefused(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("one", func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.Network.IPv4 = &infrav1.IPv4Network{
			Subnet: "10.0.0.0/24", IPAddresses: []string{"10.0.0.60"},
		}
	})
	s.ExpectProvisioned(m)

	for name, test := range map[string]struct{ host, holder string }{
		"twin":    {"10.0.0.5", "the control plane endpoint of OLVMCluster " + s.Namespace + "/demo"},
		"usurper": {"10.0.0.60", "OLVMMachine " + s.Namespace + "/one"},
	} {
		c := s.anotherCluster(name, test.host, "")
		message := s.ExpectCondition(c, infrav1.EndpointConfiguredCondition, "False/"+infrav1.EndpointInUseReason)
		check.Contains(t, name, message, "spec.controlPlaneEndpoint.host: "+test.host+" belongs to "+test.holder)
		check.Equal(t, name+" is provisioned", s.isProvisioned(c), false)

		if name == "usurper" { // the message says to delete the other object
			s.Delete(m)
			s.ExpectGone(m)
			s.ExpectCondition(c, infrav1.EndpointConfiguredCondition, "True/"+infrav1.EndpointConfiguredReason)
			check.Equal(t, name+" is provisioned", s.isProvisioned(c), true)
		}
	}

	s.ExpectCondition(s.OLVM, infrav1.EndpointConfiguredCondition, "True/"+infrav1.EndpointConfiguredReason)
}

// TestTwoEndpointsOfOneClusterAreNamed covers a Cluster and an OLVMCluster with different endpoints.
func TestTwoEndpointsOfOneClusterAreNamed(t *testing.T) {
	s := newSite(t, nil)
	c := s.anotherCluster("twin", "10.0.0.7", "10.0.0.8")

	message := s.ExpectCondition(c, infrav1.EndpointConfiguredCondition, "False/"+infrav1.EndpointsDifferReason)
	check.Contains(t, "message", message, "spec.controlPlaneEndpoint: it is 10.0.0.7:6443")
	check.Contains(t, "message", message, "spec.controlPlaneEndpoint of Cluster twin is 10.0.0.8:6443")
	check.Equal(t, "it is provisioned", s.isProvisioned(c), false)

	owner := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	change(s, owner, func(owner *clusterv1.Cluster) { owner.Spec.ControlPlaneEndpoint.Host = "10.0.0.7" })
	s.ExpectCondition(c, infrav1.EndpointConfiguredCondition, "True/"+infrav1.EndpointConfiguredReason)
	check.Equal(t, "it is provisioned", s.isProvisioned(c), true)
}
