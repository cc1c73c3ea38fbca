package command

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestALeanMachineHasWhatControllersRead expects labels, annotations, the spec and the Node to remain.
func TestALeanMachineHasWhatControllersRead(t *testing.T) {
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name:          "m",
			Labels:        map[string]string{clusterv1.MachineControlPlaneLabel: ""},
			Annotations:   map[string]string{clusterv1.PausedAnnotation: "", corev1.LastAppliedConfigAnnotation: "{}"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "somebody"}},
		},
		Spec: clusterv1.MachineSpec{ClusterName: "demo", Version: "v1.36.1"},
		Status: clusterv1.MachineStatus{
			NodeRef:    clusterv1.MachineNodeReference{Name: "m"},
			Phase:      "Running",
			Conditions: []metav1.Condition{{Type: "Ready"}},
		},
	}
	want := machine.DeepCopy()
	want.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	want.ManagedFields, want.Status.Phase, want.Status.Conditions = nil, "", nil

	got, err := leanMachine(machine)
	check.Error(t, err, "")
	check.Equal(t, "the Machine", got, any(want))
	_, err = leanMachine(&corev1.Pod{})
	check.Error(t, err, "what was read as a Machine is none")
}
