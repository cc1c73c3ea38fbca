package controllers

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

func TestAVMThatIsProtectedAgainstDeletionKeepsRunning(t *testing.T) {
	skipProved(t, "TestAVMThatIsProtectedAgainstDeletionKeepsRunning of controllers/machine")

	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	s.expectEvent("one", infrav1.VirtualMachineRunningReason, "VM one ("+s.Sim.ListVMs()[0].ID+") is up at 10.0.0.10")
	s.expectEvent("demo", infrav1.EngineAvailableReason, s.Sim.URL())
	protect := func(yes bool) {
		t.Helper()
		_, err := s.NewSession().UpdateVM(context.Background(), engine.ID(s.Sim.ListVMs()[0].ID), &engine.VM{
			DeleteProtected: &yes,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	protect(true)
	s.Delete(m)
	message := s.ExpectCondition(m, infrav1.DeletingCondition, "True/"+infrav1.DeletionBlockedReason)
	if !strings.Contains(message, "turn off Delete Protection") {
		t.Error(message)
	}

	s.expectEvent("one", infrav1.DeletionBlockedReason, "protected against deletion")
	if vm := s.Sim.ListVMs()[0]; vm.Status != "up" {
		t.Errorf("the VM is %s", vm.Status)
	}

	protect(false)
	s.ExpectGone(m)
	if s.Sim.Summarize().VMs != 0 {
		t.Error("the VM was left")
	}
}

// TestAHealthyDeletionWarnsNobody deletes a healthy machine. The loss of its VM and its state must cause no warning.
func TestAHealthyDeletionWarnsNobody(t *testing.T) {
	skipProved(t, "TestAHealthyDeletionWarnsNobody of controllers/machine")

	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	s.Delete(m)
	s.ExpectGone(m)
	s.expectEvent("one", infrav1.DeletingReason, "is being deleted")
	var list eventsv1.EventList
	if err := suite.client.List(context.Background(), &list, client.InNamespace(s.Namespace)); err != nil {
		t.Fatal(err)
	}

	for _, event := range list.Items {
		if event.Type == corev1.EventTypeWarning {
			t.Errorf("%s of %s: %s", event.Reason, event.Regarding.Name, event.Note)
		}
	}
}
