package pass

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestReadyHasTheReasonOfItsCause covers the reason that kubectl shows in the column REASON.
func TestReadyHasTheReasonOfItsCause(t *testing.T) {
	const (
		addresses = infrav1.AddressesAllocatedCondition
		applied   = infrav1.InfrastructureAppliedCondition
		running   = infrav1.VirtualMachineRunningCondition
		deleting  = infrav1.DeletingCondition
	)
	condition := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	waits := condition(running, metav1.ConditionFalse, infrav1.WaitingForVirtualMachineReason, "")
	alive := condition(deleting, metav1.ConditionFalse, infrav1.NotDeletingReason, "")

	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       string
	}{
		"all is well": {
			[]metav1.Condition{condition(running, metav1.ConditionTrue, infrav1.VirtualMachineRunningReason, ""), alive},
			clusterv1.ReadyReason,
		},
		"what is on its way": {
			[]metav1.Condition{condition(applied, metav1.ConditionFalse, infrav1.ApplyingReason, "a run goes"), waits, alive},
			infrav1.ApplyingReason,
		},
		"a mistake comes before what waits for it": {
			[]metav1.Condition{
				condition(addresses, metav1.ConditionFalse, infrav1.WaitingForIPAddressesReason, "no address yet"),
				condition(applied, metav1.ConditionFalse, infrav1.VMTemplateNotFoundReason, "correct the name"), waits, alive,
			},
			infrav1.VMTemplateNotFoundReason,
		},
		"a run that failed comes before what waits for it": {
			[]metav1.Condition{
				condition(addresses, metav1.ConditionFalse, infrav1.WaitingForGuestAddressesReason, "not up"),
				condition(applied, metav1.ConditionFalse, infrav1.ApplyFailedReason, "exit status 1"), waits, alive,
			},
			infrav1.ApplyFailedReason,
		},
		"a deletion explains that the VM is down": {
			[]metav1.Condition{
				condition(running, metav1.ConditionFalse, infrav1.VirtualMachineNotRunningReason, "start it"),
				condition(deleting, metav1.ConditionTrue, infrav1.DeletingReason, ""),
			},
			infrav1.DeletingReason,
		},
		"an engine that did not answer": {
			[]metav1.Condition{condition(running, metav1.ConditionUnknown, infrav1.WaitingForEngineReason, ""), alive},
			infrav1.WaitingForEngineReason,
		},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &infrav1.OLVMMachine{}
			machine.Status.Conditions = test.conditions

			var types []string
			for _, c := range test.conditions {
				types = append(types, c.Type)
			}

			SetReady(machine, types)
			check.Equal(t, "reason", conditions.Get(machine, infrav1.ReadyCondition).Reason, test.want)
		})
	}
}
