package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// shareWith creates a second Cluster that names the OLVMCluster of the site, and makes it an owner, as Cluster API
// does. Both Clusters then have Cluster API's finalizer.
func (s *site) shareWith(name string) *clusterv1.Cluster {
	s.T.Helper()
	second := &clusterv1.Cluster{ObjectMeta: s.NewMeta(name), Spec: *s.Cluster.Spec.DeepCopy()}
	second.Labels, second.Finalizers = nil, []string{clusterv1.ClusterFinalizer}
	second.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.0.0.5", Port: 6443} // copied by Cluster API
	s.Create(second)
	second.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	s.UpdateStatus(second)

	change(s, s.Cluster, func(c *clusterv1.Cluster) {
		controllerutil.AddFinalizer(c, clusterv1.ClusterFinalizer)
	})
	s.T.Cleanup(func() {
		s.letGo(second)
		s.letGo(s.Cluster)
		s.Eventually("the deletion is not refused", func() error {
			return client.IgnoreNotFound(s.Client.Delete(context.Background(), s.OLVM))
		})
	})
	s.own(s.OLVM, second)

	return second
}

// own makes a Cluster an owner of an OLVMCluster, as Cluster API does. The label gets the name of the latest owner.
func (s *site) own(c *infrav1.OLVMCluster, owner *clusterv1.Cluster) {
	s.T.Helper()
	change(s, c, func(c *infrav1.OLVMCluster) {
		c.OwnerReferences = append(c.OwnerReferences, metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: owner.Name, UID: owner.UID,
		})
		c.Labels = map[string]string{clusterv1.ClusterNameLabel: owner.Name}
	})
}

// letGo deletes a Cluster, but not its infrastructure.
func (s *site) letGo(c *clusterv1.Cluster) {
	s.T.Helper()
	ctx := context.Background() // also used for cleanup
	_ = s.Client.Delete(ctx, c)

	err := s.Client.Get(ctx, client.ObjectKeyFromObject(c), c)
	if err == nil {
		c.Finalizers = nil
		err = s.Client.Update(ctx, c)
	}

	check.Error(s.T, client.IgnoreNotFound(err), "")
}

// machineOf creates a machine of a Cluster, with unique addresses.
func (s *site) machineOf(cluster, name, addresses string) *infrav1.OLVMMachine {
	s.T.Helper()
	s.Label = map[string]string{clusterv1.ClusterNameLabel: cluster}

	return s.CreateMachine(name, func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.Network.IPv4.IPAddresses = []string{addresses}
	})
}

// giveOwnOLVMCluster follows the remedy of the message: it makes the Cluster name an OLVMCluster of its own.
func (s *site) giveOwnOLVMCluster(second *clusterv1.Cluster, host string) *infrav1.OLVMCluster {
	s.T.Helper()
	own := &infrav1.OLVMCluster{ObjectMeta: s.NewMeta(second.Name), Spec: *s.OLVM.Spec.DeepCopy()}
	own.Labels = nil
	own.Spec.ControlPlaneEndpoint.Host = host
	s.Create(own)
	change(s, second, func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef.Name = own.Name })
	s.own(own, second)

	return own
}

// expectRefused deletes an OLVMCluster, and expects a refusal for this reason.
func (s *site) expectRefused(c *infrav1.OLVMCluster, why string) {
	s.T.Helper()
	err := s.Client.Delete(s.T.Context(), c)
	check.Equal(s.T, "the deletion is forbidden", apierrors.IsForbidden(err), true)
	check.Contains(s.T, "the refusal", fmt.Sprint(err), why)
}

// expectDeletable deletes an OLVMCluster as soon as this is allowed, as Cluster API does.
func (s *site) expectDeletable(c *infrav1.OLVMCluster) {
	s.T.Helper()
	s.Eventually("the deletion is not refused", func() error {
		return client.IgnoreNotFound(s.Client.Delete(s.T.Context(), c))
	})
	s.ExpectGone(c)
}

// expectHealed waits until an OLVMCluster no longer reports that Clusters share it.
func (s *site) expectHealed(c *infrav1.OLVMCluster) {
	s.T.Helper()
	s.ExpectCondition(c, infrav1.EndpointConfiguredCondition, "True/"+infrav1.EndpointConfiguredReason)
}

const sharedBy = "False/" + infrav1.SharedByClustersReason

// TestASecondClusterOfAnOLVMClusterGetsNoVM makes a second Cluster name the OLVMCluster of a running cluster, and
// follows the remedy in the conditions. The second Cluster then gets its machine, and can be deleted.
func TestASecondClusterOfAnOLVMClusterGetsNoVM(t *testing.T) {
	s := newSite(t, nil)
	first := s.machineOf("demo", "first", "10.0.0.10-10.0.0.12")
	s.ExpectProvisioned(first)

	second := s.shareWith("two")
	message := s.ExpectCondition(s.OLVM, infrav1.EndpointConfiguredCondition, sharedBy)
	check.Contains(t, "message", message, "Cluster two names OLVMCluster demo in spec.infrastructureRef, but Cluster "+
		"demo has it")
	check.Contains(t, "message", message, "Make an OLVMCluster for it, and name it in its spec.infrastructureRef. "+
		"Only then delete Cluster two")
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, sharedBy)
	check.Equal(t, "the first is provisioned", s.isProvisioned(s.OLVM), true)

	m := s.machineOf("two", "second", "10.0.0.13-10.0.0.15")
	check.Equal(
		t, "why there is no VM", s.ExpectCondition(m, infrav1.InfrastructureAppliedCondition, sharedBy), message,
	)
	s.ExpectCondition(m, infrav1.ReadyCondition, sharedBy)
	check.Equal(t, "VMs", s.Sim.Summarize().VMs, 1)
	check.Equal(t, "recorded addresses", m.Annotations[infrav1.AddressesAnnotation], "")

	another := s.machineOf("demo", "another", "10.0.0.16")
	s.ExpectProvisioned(another) // the first cluster continues

	s.Delete(second)
	s.expectRefused(s.OLVM, message)

	own := s.giveOwnOLVMCluster(second, "10.0.0.6")
	s.expectHealed(s.OLVM)

	// Cluster API has given the second Cluster the endpoint of the first one. Its nodes would take over that address.
	s.ExpectCondition(own, infrav1.EndpointConfiguredCondition, "False/"+infrav1.EndpointsDifferReason)
	s.ExpectCondition(m, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.WaitingForClusterInfrastructureReason)
	check.Equal(t, "VMs", s.Sim.Summarize().VMs, 2)
	change(s, second, func(c *clusterv1.Cluster) { c.Spec.ControlPlaneEndpoint.Host = "10.0.0.6" })
	s.expectHealed(own)
	s.ExpectProvisioned(m)

	s.Delete(m)
	s.ExpectGone(m)
	s.expectDeletable(own)
	s.letGo(second)
	s.ExpectGone(second)
	s.expectHealed(s.OLVM)
	s.ExpectCondition(first, infrav1.ReadyCondition, "True/Ready")
	check.Equal(t, "the first is being deleted", s.OLVM.DeletionTimestamp.IsZero(), true)
	check.Equal(t, "VMs", s.Sim.Summarize().VMs, 2)
}

// TestTheVMOfASecondClusterIsLeftAlone covers a second Cluster's VM created by an earlier version. The OLVMCluster
// knows the VM's engine, so it stays until the VM is deleted.
func TestTheVMOfASecondClusterIsLeftAlone(t *testing.T) {
	s := newSite(t, nil)
	second := s.shareWith("two")
	change(s, second, func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef.Name = "none" })
	s.expectHealed(s.OLVM)

	m := s.machineOf("demo", "second", "10.0.0.13-10.0.0.15")
	s.ExpectProvisioned(m)
	change(s, m, func(m *infrav1.OLVMMachine) { m.Labels[clusterv1.ClusterNameLabel] = "two" })
	change(s, second, func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef.Name = s.OLVM.Name })
	s.ExpectCondition(s.OLVM, infrav1.EndpointConfiguredCondition, sharedBy)
	s.ExpectCondition(m, infrav1.ReadyCondition, "True/Ready")

	s.Delete(second)
	s.Delete(s.Cluster)
	s.Eventually("the deletion is not refused", func() error { return s.Client.Delete(t.Context(), s.OLVM) })
	message := s.ExpectCondition(s.OLVM, infrav1.DeletingCondition, "True/"+infrav1.WaitingForMachinesDeletionReason)
	check.Contains(t, "what it waits for", message, "second")

	s.Delete(m)
	s.ExpectGone(m)
	s.ExpectGone(s.OLVM)
	s.ExpectEmptyEngine()
}

// TestASharedOLVMClusterIsProtectedWhileItIsPaused creates and deletes the second Cluster while the first is paused.
func TestASharedOLVMClusterIsProtectedWhileItIsPaused(t *testing.T) {
	s := newSite(t, nil)
	s.expectHealed(s.OLVM)
	change(s, s.Cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) })
	s.ExpectCondition(s.OLVM, clusterv1.PausedCondition, "True/"+clusterv1.PausedReason)

	second := s.shareWith("two")
	message := s.ExpectCondition(s.OLVM, infrav1.EndpointConfiguredCondition, sharedBy)
	s.Delete(second)
	s.expectRefused(s.OLVM, message)
}

// TestTheFirstClusterOfASharedOLVMClusterIsDeleted follows the remedy after the first Cluster is deleted. The remedy
// stays the same.
func TestTheFirstClusterOfASharedOLVMClusterIsDeleted(t *testing.T) {
	s := newSite(t, nil)
	second := s.shareWith("two")
	message := s.ExpectCondition(s.OLVM, infrav1.EndpointConfiguredCondition, sharedBy)

	s.Delete(s.Cluster)
	s.expectRefused(s.OLVM, message)
	own := s.giveOwnOLVMCluster(second, "10.0.0.6")
	s.expectDeletable(s.OLVM)
	s.letGo(s.Cluster)
	s.ExpectCondition(own, infrav1.EndpointConfiguredCondition, "False/"+infrav1.EndpointsDifferReason)
}

// TestASharedOLVMClusterPassesToTheOneThatStillNamesIt gives the first Cluster another OLVMCluster.
func TestASharedOLVMClusterPassesToTheOneThatStillNamesIt(t *testing.T) {
	s := newSite(t, nil)
	s.shareWith("two")
	m := s.machineOf("two", "second", "10.0.0.13-10.0.0.15")
	s.ExpectCondition(m, infrav1.InfrastructureAppliedCondition, sharedBy)

	change(s, s.Cluster, func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef.Name = "none" })
	s.expectHealed(s.OLVM)
	s.ExpectProvisioned(m)
}

// TestASharedOLVMClusterGoesWithAllThatNameIt deletes all Clusters that name an OLVMCluster, in each possible order.
func TestASharedOLVMClusterGoesWithAllThatNameIt(t *testing.T) {
	for name, end := range map[string]func(s *site, second *clusterv1.Cluster){
		"both Clusters": func(s *site, second *clusterv1.Cluster) {
			s.Delete(second)
			s.expectRefused(s.OLVM, "Cluster two names OLVMCluster demo")
			s.Delete(s.Cluster)
		},
		"a person removed both Clusters": func(s *site, second *clusterv1.Cluster) {
			s.letGo(second)
			s.letGo(s.Cluster)
		},
		"the namespace": func(s *site, _ *clusterv1.Cluster) {
			s.Delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}})
		},
		"a move to another management cluster": func(s *site, _ *clusterv1.Cluster) {
			change(s, s.OLVM, func(c *infrav1.OLVMCluster) {
				c.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil)
			second := s.shareWith("two")
			s.ExpectCondition(s.OLVM, infrav1.EndpointConfiguredCondition, sharedBy)
			end(s, second)

			s.Eventually("the deletion is not refused", func() error {
				return client.IgnoreNotFound(s.Client.Delete(t.Context(), s.OLVM))
			})
			err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(s.OLVM), s.OLVM)
			check.Equal(t, "it goes", apierrors.IsNotFound(err) || !s.OLVM.DeletionTimestamp.IsZero(), true)
		})
	}
}

// TestAllClustersThatNameAnOLVMClusterAreNamed adds two more Clusters before the first is provisioned: none gets a VM.
func TestAllClustersThatNameAnOLVMClusterAreNamed(t *testing.T) {
	s := newSite(t, func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
		c.OwnerReferences = nil // as if Cluster API had not seen a Cluster yet
	})
	s.shareWith("zwei")
	s.shareWith("drei")

	message := s.ExpectCondition(s.OLVM, infrav1.EndpointConfiguredCondition, sharedBy)
	check.Contains(t, "message", message, "but Cluster zwei has it")
	s.Eventually("all are named", func() error {
		err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(s.OLVM), s.OLVM)
		known := conditions.Get(s.OLVM, infrav1.EndpointConfiguredCondition)
		if err == nil && !strings.Contains(known.Message, "Clusters demo, drei name OLVMCluster demo in ") {
			return errors.New(known.Message)
		}

		return err
	})
	check.Equal(t, "it is provisioned", s.isProvisioned(s.OLVM), false)
}
