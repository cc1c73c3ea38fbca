package controllers

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestEachConditionHasTheGenerationOfItsVerdict checks the conditions of a running machine and its cluster after
// invalid edits. The node stays ready.
func TestEachConditionHasTheGenerationOfItsVerdict(t *testing.T) {
	s := newSite(t, nil)
	disks := []infrav1.DataDisk{{Name: "etcd", Size: "1GB"}}
	m := s.CreateMachine("one", func(spec *infrav1.OLVMMachineSpec) { spec.VirtualMachine.DataDisks = disks })
	s.ExpectProvisioned(m)
	s.expectVerdict(m, "True/"+infrav1.UpToDateReason)
	good := m.Spec.DeepCopy()
	failing := ovirtsim.Fault{
		Method: "PUT", Path: "/vms/[^/]*$", Status: 400, Reason: "Operation Failed", Detail: "[no]",
	}

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
	s.ExpectCondition(m, clusterv1.PausedCondition, "True/"+clusterv1.PausedReason)

	for _, c := range m.Status.Conditions {
		check.Equal(t, c.Type+" is of the paused spec", c.ObservedGeneration == m.Generation,
			c.Type == clusterv1.PausedCondition)
	}
}

// expectVerdict waits for a verdict on the current spec, and checks that the machine stays ready.
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

// TestEachConditionOfEachKindHasTheGenerationOfItsVerdict edits objects of the other kinds. Each condition describes
// the current spec until the object is paused. Then only the Paused condition gets the generation of later edits.
func TestEachConditionOfEachKindHasTheGenerationOfItsVerdict(t *testing.T) {
	t.Run("OLVMCluster", func(t *testing.T) {
		s := newSite(t, nil)
		s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
		expectGenerations(s, s.OLVM, func(c *infrav1.OLVMCluster, count int) {
			c.Spec.IPProfiles = []infrav1.IPProfile{
				{Name: fmt.Sprint("a", count), Addressing: infrav1.Addressing{IPv4: &infrav1.IPv4Network{DHCP: true}}},
			}
		})
	})
	t.Run("OLVMInventory", func(t *testing.T) {
		p := newPool(t, "vm-a")
		p.ExpectCondition(p.inventory, infrav1.ReadyCondition, "True/Ready")
		expectGenerations(&site{Site: p.Site}, p.inventory, func(i *infrav1alpha1.OLVMInventory, count int) {
			i.Spec.LabelRules = []infrav1alpha1.InventoryLabel{
				{Key: fmt.Sprint("example.com/a", count), From: infrav1alpha1.LabelFromHost},
			}
		})
	})
	t.Run("OLVMInventoryVM", func(t *testing.T) {
		p := newPool(t, "vm-a")
		p.ExpectProvisioned(p.machine("one", nil)) // the claim changes the spec

		var list infrav1alpha1.OLVMInventoryVMList
		check.Error(t, p.Client.List(t.Context(), &list, client.InNamespace(p.Namespace)), "")
		check.Length(t, "VMs", list.Items, 1)
		check.Equal(t, "the spec has changed", list.Items[0].Generation > 1, true)
		expectOfNow(&site{Site: p.Site}, &list.Items[0])
	})
	t.Run("OLVMSupportServices", func(t *testing.T) {
		s := supported(t)
		expectGenerations(s, s.services(), func(o *infrav1alpha1.OLVMSupportServices, count int) {
			o.Spec.LoadBalancers = []infrav1alpha1.SupportLoadBalancer{{
				Name: fmt.Sprint("a", count), Role: infrav1.WorkerRole, Ports: []string{"443"},
				SupportVM: infrav1alpha1.SupportVM{MachineTemplateName: "there-is-none"},
			}}
		})
	})
}

// conditioned is an object with conditions.
type conditioned interface {
	client.Object
	conditions.Getter
}

// expectGenerations edits an object, pauses it, and edits it again.
func expectGenerations[T conditioned](s *site, object T, edit func(T, int)) {
	s.T.Helper()
	change(s, object, func(object T) { edit(object, 0) })
	expectOfNow(s, object)
	change(s, object, func(object T) {
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}

		annotations[clusterv1.PausedAnnotation] = ""
		object.SetAnnotations(annotations)
		edit(object, 1)
	})
	s.Eventually("it is paused", func() error {
		if err := s.Client.Get(s.T.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}

		if !conditions.IsTrue(object, clusterv1.PausedCondition) {
			return fmt.Errorf("it has %+v", object.GetConditions())
		}

		return nil
	})

	for _, c := range object.GetConditions() {
		check.Equal(s.T, c.Type+" is of the paused spec", c.ObservedGeneration == object.GetGeneration(),
			c.Type == clusterv1.PausedCondition)
	}
}

// expectOfNow waits until each condition describes the current spec.
func expectOfNow[T conditioned](s *site, object T) {
	s.T.Helper()
	s.Eventually("each condition is of the spec of now", func() error {
		if err := s.Client.Get(s.T.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}

		if len(object.GetConditions()) == 0 {
			return errors.New("it has no conditions")
		}

		for _, c := range object.GetConditions() {
			if c.ObservedGeneration != object.GetGeneration() {
				return fmt.Errorf("%+v of generation %d", c, object.GetGeneration())
			}
		}

		return nil
	})
}
