package controllers

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestEachConditionHasTheGenerationOfItsVerdict walks the conditions of a machine that runs, and of its cluster, after
// edits that are not applied. The node stays ready.
func TestEachConditionHasTheGenerationOfItsVerdict(t *testing.T) {
	s := newSite(t, nil)
	disks := []infrav1.DataDisk{{Name: "etcd", Size: "1GB"}}
	m := s.Machine("one", func(spec *infrav1.OLVMMachineSpec) { spec.VirtualMachine.DataDisks = disks })
	s.ExpectProvisioned(m)
	s.expectVerdict(m, "True/"+infrav1.UpToDateReason)
	good := m.Spec.DeepCopy()
	failing := ovirtsim.Fault{Method: "PUT", Path: "/vms/[^/]*$", Status: 400, Reason: "Operation Failed", Detail: "[no]"}

	for _, step := range []struct {
		name, want string
		edit       func(*infrav1.OLVMMachineSpec)
		fault      *ovirtsim.Fault
	}{
		{"an invalid edit", infrav1.VMTemplateNotFoundReason, func(spec *infrav1.OLVMMachineSpec) {
			spec.VMTemplateName = "ol9-k9s"
		}, nil},
		{"a refused edit", infrav1.ReplaceRefusedReason, func(spec *infrav1.OLVMMachineSpec) {
			spec.VirtualMachine.DataDisks = nil
		}, nil},
		{"an edit whose run fails", infrav1.ApplyFailedReason, func(spec *infrav1.OLVMMachineSpec) {
			spec.VirtualMachine.Description = "another"
		}, &failing},
	} {
		if step.fault != nil {
			check.Error(t, s.Sim.Inject(*step.fault), "")
		}

		change(s, m, func(m *infrav1.OLVMMachine) { step.edit(&m.Spec) })
		s.expectVerdict(m, "False/"+step.want)

		applied := conditions.Get(m, infrav1.InfrastructureAppliedCondition)
		check.Equal(t, step.name+": what was applied", applied.Status, metav1.ConditionTrue)
		check.Equal(t, step.name+": is of an earlier spec", applied.ObservedGeneration < m.Generation, true)
		s.Sim.ClearFaults()
		change(s, m, func(m *infrav1.OLVMMachine) { m.Spec = *good.DeepCopy() })
		s.expectVerdict(m, "True/"+infrav1.UpToDateReason)
		check.Equal(t, step.name+": is undone", conditions.Get(m,
			infrav1.InfrastructureAppliedCondition).ObservedGeneration, m.Generation)
	}

	change(s, m, func(m *infrav1.OLVMMachine) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.PausedAnnotation, "")
		m.Spec.VirtualMachine.Description = "while it is paused"
	})
	s.Expect(m, clusterv1.PausedCondition, "True/"+clusterv1.PausedReason)

	for _, c := range m.Status.Conditions {
		check.Equal(t, c.Type+" is of the paused spec", c.ObservedGeneration == m.Generation,
			c.Type == clusterv1.PausedCondition)
	}
}

// expectVerdict waits for the verdict on the spec of now, and that the machine is ready all the time.
func (s *site) expectVerdict(m *infrav1.OLVMMachine, want string) {
	s.T.Helper()
	s.Eventually("the verdict is "+want, func() error {
		if err := s.Client.Get(s.T.Context(), client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}

		if ready := conditions.Get(m, infrav1.ReadyCondition); ready.Status != metav1.ConditionTrue {
			s.T.Errorf("the machine is not ready any more: %s %s", ready.Reason, ready.Message)
		}

		got := conditions.Get(m, infrav1.UpToDateCondition)
		if got == nil || got.ObservedGeneration != m.Generation || string(got.Status)+"/"+got.Reason != want {
			return fmt.Errorf("it is %+v, and the object of generation %d", got, m.Generation)
		}

		return nil
	})

	for _, c := range m.Status.Conditions {
		check.Equal(s.T, c.Type+" is of a spec that was there", c.ObservedGeneration <= m.Generation, true)
	}
}
