package machine

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// TestWhatTheStatusOfAVMMeans has the statuses of a provisioned machine's VM: D15.
func TestWhatTheStatusOfAVMMeans(t *testing.T) {
	provisioned := true

	for status, want := range map[engine.VMStatus]struct {
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		engine.VMUp: {metav1.ConditionTrue, infrav1.VirtualMachineRunningReason, ""},
		engine.VMMigrating: {metav1.ConditionTrue, infrav1.VirtualMachineRunningReason,
			"migrating to another host"},
		engine.VMRebootInProgress: {metav1.ConditionFalse, infrav1.VirtualMachineStartingReason, "reboot_in_progress"},
		engine.VMDown: {metav1.ConditionFalse, infrav1.VirtualMachineNotRunningReason,
			"start it in the engine"},
		engine.VMPaused: {metav1.ConditionFalse, infrav1.VirtualMachineNotRunningReason,
			"resume it in the engine"},
		engine.VMSavingState: {metav1.ConditionFalse, infrav1.VirtualMachineNotRunningReason,
			"resume it in the engine"},
		engine.VMUnknown: {metav1.ConditionUnknown, infrav1.VirtualMachineOutOfSightReason,
			"look at the host"},
		engine.VMNotResponding: {metav1.ConditionUnknown, infrav1.VirtualMachineOutOfSightReason,
			"look at the host"},
	} {
		t.Run(string(status), func(t *testing.T) {
			scope := &machineScope{olvmMachine: &infrav1.OLVMMachine{}}
			scope.vm.seen = &engine.VM{Status: status}
			scope.olvmMachine.Status.Initialization.Provisioned = &provisioned
			setRunningCondition(scope)

			got := conditions.Get(scope.olvmMachine, infrav1.VirtualMachineRunningCondition)
			if got.Status != want.status || got.Reason != want.reason || !strings.Contains(got.Message, want.message) {
				t.Errorf("the condition is %+v", got)
			}
		})
	}
}
