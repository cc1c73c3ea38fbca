package controllers

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// setHealth writes the verdict of a MachineHealthCheck on a Machine.
func (s *site) setHealth(name string, healthy bool) *clusterv1.Machine {
	s.T.Helper()

	machine := &clusterv1.Machine{}
	key := client.ObjectKey{Namespace: s.Namespace, Name: name}
	s.Eventually("the health of the Machine is written", func() error {
		if err := suite.client.Get(context.Background(), key, machine); err != nil {
			return err
		}

		condition := metav1.Condition{
			Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.MachineHealthCheckUnhealthyNodeReason,
		}
		if healthy {
			condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.MachineHealthCheckSucceededReason
		}

		conditions.Set(machine, condition)

		return suite.client.Status().Update(context.Background(), machine)
	})

	return machine
}

// remediate creates the OLVMRemediation of a Machine, as a MachineHealthCheck does.
func (s *site) remediate(machine *clusterv1.Machine) *infrav1alpha1.OLVMRemediation {
	s.T.Helper()

	r := &infrav1alpha1.OLVMRemediation{ObjectMeta: s.NewMeta(machine.Name)}
	r.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: machine.Name, UID: machine.UID,
	}}
	r.Spec.Strategy.Type = infrav1alpha1.RebootStrategy
	s.Create(r)

	return r
}

// actions counts the requests to start or stop VMs.
func (s *site) actions(verb string) int {
	n := 0

	for _, request := range s.Sim.ListRequests() {
		if request.Method == http.MethodPost && request.Status == http.StatusOK &&
			len(request.Path) > len(verb) && request.Path[len(request.Path)-len(verb)-1:] == "/"+verb {
			n++
		}
	}

	return n
}

func (s *site) expectStep(r *infrav1alpha1.OLVMRemediation, want infrav1alpha1.RemediationStep) {
	s.T.Helper()
	s.Eventually("the step "+string(want), func() error {
		if err := suite.client.Get(context.Background(), client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}

		if r.Status.Step != want {
			return fmt.Errorf("step %q, conditions %v", r.Status.Step, r.Status.Conditions)
		}

		return nil
	})
}

func TestAnUnhealthyMachineIsRebootedBeforeItIsReplaced(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("hung", nil)
	s.ExpectProvisioned(m)

	starts := s.actions("start")
	r := s.remediate(s.setHealth("hung", false))
	s.expectStep(r, infrav1alpha1.WaitingStep)
	check.Equal(t, "stops", s.actions("stop"), 1)
	check.Equal(t, "starts", s.actions("start"), starts+1)
	check.Equal(t, "r.Status.Attempts", r.Status.Attempts, 1)
	s.ExpectCondition(r, infrav1.RemediatedCondition, "False/"+infrav1.WaitingForHealthyNodeReason)

	owned := &clusterv1.Machine{ObjectMeta: s.NewMeta("hung")}
	check.Error(t, suite.client.Get(context.Background(), client.ObjectKeyFromObject(owned), owned), "")
	check.Equal(
		t, "its owner is not asked yet", conditions.Has(owned, clusterv1.MachineOwnerRemediatedCondition), false,
	)

	// The node does not become healthy in time.
	r.Status.StepTime = metav1.NewTime(time.Now().Add(-time.Hour))
	s.UpdateStatus(r)
	s.touch(r)
	s.expectStep(r, infrav1alpha1.GivenUpStep)
	s.ExpectCondition(r, infrav1.RemediatedCondition, "False/"+infrav1.RetriesExhaustedReason)
	s.Eventually("the owner of the Machine is asked to replace it", func() error {
		if err := suite.client.Get(context.Background(), client.ObjectKeyFromObject(owned), owned); err != nil {
			return err
		}

		if !conditions.IsFalse(owned, clusterv1.MachineOwnerRemediatedCondition) ||
			!v1beta1conditions.IsFalse(owned, clusterv1.MachineOwnerRemediatedV1Beta1Condition) {
			return fmt.Errorf("conditions %v", owned.Status.Conditions)
		}

		return nil
	})
	check.Equal(t, "the verdict of the health check stays",
		conditions.IsFalse(owned, clusterv1.MachineHealthCheckSucceededCondition), true)
	check.Equal(t, "it is not rebooted again", s.actions("stop"), 1)

	s.Delete(r)
	s.ExpectGone(r)
}

// touch wakes the controller of an object.
func (s *site) touch(r *infrav1alpha1.OLVMRemediation) {
	s.T.Helper()
	change(s, r, func(r *infrav1alpha1.OLVMRemediation) {
		r.Annotations = map[string]string{"touched": time.Now().String()}
	})
}

func TestOnlyAnUnhealthyMachineOfOursIsRebooted(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)

	healthy := s.remediate(s.setHealth("one", true))
	s.ExpectCondition(healthy, infrav1.RemediatedCondition, "False/"+infrav1.WaitingForHealthCheckReason)
	s.Delete(healthy)
	s.ExpectGone(healthy)

	machine := s.setHealth("one", false)
	stranger := machine.DeepCopy()
	stranger.UID = "another"
	forged := s.remediate(stranger)
	s.ExpectCondition(forged, infrav1.RemediatedCondition, "False/"+infrav1.MachineNotFoundReason)
	s.Delete(forged)
	s.ExpectGone(forged)

	// A tenant may write the ID of another VM, or an administrator may remove the owner mark. Both look the same.
	vm, err := s.NewSession().FetchVM(context.Background(), engine.ID(s.Sim.ListVMs()[0].ID))
	check.Error(t, err, "")
	_, err = s.NewSession().UpdateVM(context.Background(), vm.ID, &engine.VM{Comment: ptr.To("somebody's")})
	check.Error(t, err, "")

	foreign := s.remediate(machine)
	s.ExpectCondition(foreign, infrav1.RemediatedCondition, "False/"+infrav1.VMNotOwnedReason)
	check.Equal(t, "stops", s.actions("stop"), 0)
	s.Delete(foreign)
	s.ExpectGone(foreign)
}

func TestARemediationThatNobodyAsksForGoes(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)

	r := s.remediate(s.setHealth("one", true))
	s.ExpectCondition(r, infrav1.RemediatedCondition, "False/"+infrav1.WaitingForHealthCheckReason)
	check.Equal(t, "it stays for a while", r.DeletionTimestamp.IsZero(), true)

	conditionsOf := r.Status.Conditions
	for i := range conditionsOf {
		conditionsOf[i].LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Hour))
	}

	s.UpdateStatus(r)
	s.touch(r)
	s.ExpectGone(r)
	check.Equal(t, "stops", s.actions("stop"), 0)
}

func TestAMachineThatIsPausedIsNotRebooted(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	machine := s.setHealth("one", false)
	change(s, machine, func(machine *clusterv1.Machine) {
		machine.Annotations = map[string]string{clusterv1.MachineSkipRemediationAnnotation: ""}
	})

	r := s.remediate(machine)
	s.ExpectCondition(r, infrav1.RemediatedCondition, "False/"+infrav1.RemediationSkippedReason)
	check.Equal(t, "stops", s.actions("stop"), 0)
	s.Delete(r)
	s.ExpectGone(r)
}

func TestOneMachineOfAControlPlaneIsRebootedAtATime(t *testing.T) {
	s := newSite(t, nil)
	machines := map[string]*clusterv1.Machine{}

	for _, name := range []string{"one", "two"} {
		s.ExpectProvisioned(s.CreateMachine(name, nil))
		machines[name] = s.setHealth(name, false)
		change(s, machines[name], func(m *clusterv1.Machine) { m.Labels[clusterv1.MachineControlPlaneLabel] = "" })
	}

	check.Error(t, s.Sim.Inject(ovirtsim.Fault{Method: "POST", Path: "/start$", Status: 409}), "")

	first := s.remediate(machines["one"])
	s.expectStep(first, infrav1alpha1.StartingStep)

	second := s.remediate(machines["two"])
	s.ExpectCondition(second, infrav1.RemediatedCondition, "False/"+infrav1.WaitingForOtherMachineReason)
	check.Equal(t, "stops", s.actions("stop"), 1)

	s.Sim.ClearFaults()
	s.expectStep(first, infrav1alpha1.WaitingStep)
	s.Delete(second)
	s.ExpectGone(second)
}

func TestAVMThatARemediationPoweredOffIsStartedWhenTheRemediationGoes(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	check.Error(t, s.Sim.Inject(ovirtsim.Fault{Method: "POST", Path: "/start$", Status: 409}), "")

	r := s.remediate(s.setHealth("one", false))
	s.expectStep(r, infrav1alpha1.StartingStep)
	s.Delete(r)
	tried := s.Sim.CountHits()
	wait.Until(t, "a pass sees the deletion", func() bool { return s.Sim.CountHits() > tried })
	check.Error(t, suite.client.Get(context.Background(), client.ObjectKeyFromObject(r), r), "")

	s.Sim.ClearFaults()
	s.ExpectGone(r)
	check.Equal(t, "status of the VM", s.Sim.ListVMs()[0].Status != "down", true)
}
