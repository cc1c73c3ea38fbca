package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

// template creates an OLVMMachineTemplate. spoil may edit it before.
func (s *site) template(name string, spoil func(*infrav1.OLVMMachineTemplate)) *infrav1.OLVMMachineTemplate {
	s.T.Helper()
	template := &infrav1.OLVMMachineTemplate{ObjectMeta: s.NewMeta(name)}
	template.Spec.Template.Spec = s.MachineSpec()
	if spoil != nil {
		spoil(template)
	}

	s.Create(template)

	return template
}

func (s *site) expectCapacity(template *infrav1.OLVMMachineTemplate, cpu, memory string) {
	s.T.Helper()
	s.Eventually("capacity of "+template.Name, func() error {
		if err := suite.client.Get(context.Background(), client.ObjectKeyFromObject(template), template); err != nil {
			return err
		}

		status := template.Status
		if status.Capacity.Cpu().String() != cpu || status.Capacity.Memory().String() != memory ||
			status.NodeInfo.OperatingSystem != "linux" {
			return fmt.Errorf("status %+v", status)
		}

		return nil
	})
}

func TestATemplateSaysWhatItsMachinesWillBeAndKeepsItTrue(t *testing.T) {
	s := newSite(t, nil)
	template := s.template("sized", func(m *infrav1.OLVMMachineTemplate) {
		m.Spec.Template.Spec.VirtualMachine.CPU = infrav1.CPU{
			Architecture: "aarch64",
			Topology:     infrav1.CPUTopology{Cores: 4, Sockets: 1, Threads: 2},
		}
	})
	s.expectCapacity(template, "8", "4Gi")
	if template.Status.NodeInfo.Architecture != infrav1.ArchitectureArm64 {
		t.Errorf("node info %+v", template.Status.NodeInfo)
	}

	template.Status = infrav1.OLVMMachineTemplateStatus{}
	s.UpdateStatus(template)
	s.expectCapacity(template, "8", "4Gi")
}

func TestATemplateWithoutASizeHasNoCapacityAndSaysSo(t *testing.T) {
	s := newSite(t, nil)
	template := s.template("unsized", func(m *infrav1.OLVMMachineTemplate) {
		m.Spec.Template.Spec.VirtualMachine.Memory, m.Spec.Template.Spec.VirtualMachine.InstanceType = "", "Large"
	})
	s.Eventually("an event names the field", func() error {
		var list eventsv1.EventList
		if err := suite.client.List(context.Background(), &list, client.InNamespace(s.Namespace)); err != nil {
			return err
		}

		for _, event := range list.Items {
			if event.Regarding.Name == template.Name && event.Reason == infrav1.InvalidHardwareReason &&
				strings.Contains(event.Note, "spec.template.spec.virtualMachine.instanceType") {
				return nil
			}
		}

		return fmt.Errorf("%d other events", len(list.Items))
	})
	err := suite.client.Get(t.Context(), client.ObjectKeyFromObject(template), template)
	if err != nil || len(template.Status.Capacity) != 0 {
		t.Errorf("capacity %v, %v", template.Status.Capacity, err)
	}
}

func TestATemplateOfAPausedClusterIsWrittenWhenItGoesOn(t *testing.T) {
	s := newSite(t, nil)
	paused := true
	change(s, s.Cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = &paused })
	var template *infrav1.OLVMMachineTemplate
	s.Eventually("the controller sees that the cluster is paused", func() error {
		// The controller's cache may be stale. Then the first template gets a status, and the loop tries another
		// template.
		if template != nil {
			s.Delete(template)
			s.ExpectGone(template)
		}

		template = s.template("paused", func(m *infrav1.OLVMMachineTemplate) {
			m.OwnerReferences = []metav1.OwnerReference{
				{
					APIVersion: clusterv1.GroupVersion.String(),
					Kind:       "Cluster",
					Name:       s.Cluster.Name,
					UID:        s.Cluster.UID,
				},
			}
		})
		marker := s.template("marker", nil) // created later, so it is reconciled later
		s.expectCapacity(marker, "4", "4Gi")
		s.Delete(marker)
		if err := suite.client.Get(context.Background(), client.ObjectKeyFromObject(template), template); err != nil {
			return err
		}

		if len(template.Status.Capacity) != 0 {
			return errors.New("a paused template was written")
		}

		return nil
	})
	paused = false
	change(s, s.Cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = &paused })
	s.expectCapacity(template, "4", "4Gi")
}
