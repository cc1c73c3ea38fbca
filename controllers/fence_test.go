package controllers

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// join creates the Node of a machine.
func (w *workloadServer) join(s *site, m *infrav1.OLVMMachine) *corev1.Node {
	s.T.Helper()
	s.ExpectProvisioned(m)

	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name}, Spec: corev1.NodeSpec{ProviderID: m.Spec.ProviderID},
	}
	check.Error(s.T, w.client.Create(context.Background(), node), "")

	return node
}

// isFenced reports whether a Node has the taint out-of-service.
func (w *workloadServer) isFenced(s *site, node *corev1.Node) bool {
	s.T.Helper()
	check.Error(s.T, w.client.Get(context.Background(), client.ObjectKeyFromObject(node), node), "")

	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService && t.Effect == corev1.TaintEffectNoExecute
	})
}

func (w *workloadServer) expectFence(s *site, node *corev1.Node, want bool) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("node %s is fenced: %t", node.Name, want), func() error {
		if w.isFenced(s, node) != want {
			return fmt.Errorf("its taints are %v", node.Spec.Taints)
		}

		return nil
	})
}

// countEvents returns how often an event was recorded.
func (s *site) countEvents(about, reason string) int {
	s.T.Helper()
	var list eventsv1.EventList
	check.Error(s.T, suite.client.List(s.T.Context(), &list, client.InNamespace(s.Namespace)), "")

	count := 0

	for _, event := range list.Items {
		if event.Regarding.Kind != "OLVMMachine" || event.Regarding.Name != about || event.Reason != reason {
			continue
		}

		count++
		if event.Series != nil {
			count += int(event.Series.Count) - 1
		}
	}

	return count
}

// TestANodeIsFencedIfTheEngineProvesThatItsVMCannotRun covers three VMs: one crashes, a user stops one, and the engine
// restarts one after a crash. TestOnlyAProofMakesAFailure covers the end of a VM with its host.
func TestANodeIsFencedIfTheEngineProvesThatItsVMCannotRun(t *testing.T) {
	s := newSite(t, nil)
	w := s.workload()
	ctx := t.Context()

	crashed, stopped := s.CreateMachine("fence-crashed", nil), s.CreateMachine("fence-stopped", nil)
	available := s.CreateMachine("fence-available", func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.HighAvailability = &infrav1.HighAvailability{}
	})

	nodes := map[*infrav1.OLVMMachine]*corev1.Node{}
	for _, m := range []*infrav1.OLVMMachine{crashed, stopped, available} {
		nodes[m] = w.join(s, m)
	}

	check.Error(t, s.NewSession().StopVM(ctx, engine.ID(stopped.Status.OLVM.VirtualMachine.VMID), false), "")
	check.Error(t, s.Sim.CrashVM(available.Name), "")
	s.ExpectCondition(stopped, infrav1.VirtualMachineRunningCondition, "False/"+infrav1.VirtualMachineNotRunningReason)

	check.Error(t, s.Sim.CrashVM(crashed.Name), "")
	s.ExpectCondition(crashed, infrav1.VirtualMachineRunningCondition, "False/"+infrav1.VirtualMachineFailedReason)
	w.expectFence(s, nodes[crashed], true)
	s.expectEvent(crashed.Name, infrav1.NodeFencedReason, crashed.Name)

	check.Error(t, s.NewSession().StartVM(ctx, engine.ID(crashed.Status.OLVM.VirtualMachine.VMID), false), "")
	w.expectFence(s, nodes[crashed], false)
	s.expectEvent(crashed.Name, infrav1.NodeReleasedReason, crashed.Name)
	check.Equal(t, "marks", nodes[crashed].Annotations[infrav1.NodeFencedAnnotation], "")

	s.ExpectCondition(available, infrav1.VirtualMachineRunningCondition, "True/"+infrav1.VirtualMachineRunningReason)
	check.Equal(t, "the VM of a user is fenced", w.isFenced(s, nodes[stopped]), false)
	check.Equal(t, "the VM that the engine restarts is fenced", w.isFenced(s, nodes[available]), false)
}

// TestAFencedVMIsStartedWhenItsVolumesAreDetached remediates a machine with a volume that is still attached.
func TestAFencedVMIsStartedWhenItsVolumesAreDetached(t *testing.T) {
	s := newSite(t, nil)
	w := s.workload()
	ctx := t.Context()

	m := s.CreateMachine("fence-attached", nil)
	node := w.join(s, m)
	volume := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "fence-attached"},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "csi.ovirt.org", NodeName: node.Name,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("data")},
		},
	}
	check.Error(t, w.client.Create(ctx, volume), "")

	check.Error(t, s.Sim.CrashVM(m.Name), "")
	w.expectFence(s, node, true)

	starts := s.actions("start")
	machine := s.setHealth(m.Name, false)
	s.Eventually("the Machine has its Node", func() error {
		machine.Status.NodeRef.Name = node.Name
		if err := suite.client.Status().Update(ctx, machine); err != nil {
			return suite.client.Get(ctx, client.ObjectKeyFromObject(machine), machine)
		}

		return nil
	})

	r := s.remediate(machine)
	s.expectStep(r, infrav1alpha1.StartingStep)
	s.ExpectCondition(r, infrav1.RemediatedCondition, "False/"+infrav1.NodeFencedReason)
	check.Equal(t, "starts", s.actions("start"), starts)
	check.Equal(t, "it is fenced", w.isFenced(s, node), true)

	check.Error(t, w.client.Delete(ctx, volume), "")
	w.expectFence(s, node, false)
	s.expectStep(r, infrav1alpha1.WaitingStep)
	check.Equal(t, "starts", s.actions("start"), starts+1)
	s.ExpectCondition(m, infrav1.VirtualMachineRunningCondition, "True/"+infrav1.VirtualMachineRunningReason)
	check.Equal(t, "it is fenced again", w.isFenced(s, node), false)
	s.expectEvent(m.Name, infrav1.NodeReleasedReason, m.Name)
	check.Equal(t, "times that it was fenced", s.countEvents(m.Name, infrav1.NodeFencedReason), 1)

	s.Delete(r)
	s.ExpectGone(r)
}
