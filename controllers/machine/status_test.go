package machine

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
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
			check.Equal(t, "got.Status", got.Status, want.status)
			check.Equal(t, "got.Reason", got.Reason, want.reason)
			check.Contains(t, "got.Message", got.Message, want.message)
		})
	}
}

// TestSetAppliedConditionBeforeTheFirstRun names what keeps a machine from its first run.
func TestSetAppliedConditionBeforeTheFirstRun(t *testing.T) {
	conflict := blocker.New(infrav1.IPAddressConflictReason, "spec.networkDevices[0]", "192.0.2.7 is of machine b")

	for name, tt := range map[string]struct {
		scope   machineScope
		action  workspace.Action
		reason  string
		message string
	}{
		"an address is in use": {
			scope:   machineScope{network: networkFacts{err: conflict}},
			reason:  infrav1.WaitingForIPAddressesReason,
			message: "Waiting for the addresses",
		},
		"the addresses cannot be read": {
			scope:   machineScope{network: networkFacts{err: errors.New("conflict")}},
			reason:  infrav1.WaitingForIPAddressesReason,
			message: "Waiting for the addresses",
		},
		"the engine does not answer for the VM": {
			scope:   machineScope{vm: vmFacts{err: errors.New("HTTP 500")}},
			reason:  infrav1.WaitingForEngineReason,
			message: "HTTP 500",
		},
		"what a failed run made is gone": {
			action:  workspace.Action{Kind: workspace.Block, Reason: infrav1.VirtualMachineNotFoundReason, Message: "gone"},
			reason:  infrav1.VirtualMachineNotFoundReason,
			message: "gone",
		},
		"nothing is known": {reason: infrav1.ApplyingReason, message: "No run has begun yet"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.scope.olvmMachine = &infrav1.OLVMMachine{}
			tt.scope.workspace = &workspace.Workspace{Action: tt.action}
			setAppliedCondition(&tt.scope)

			got := conditions.Get(tt.scope.olvmMachine, infrav1.InfrastructureAppliedCondition)
			check.Equal(t, "got.Status", got.Status, metav1.ConditionFalse)
			check.Equal(t, "got.Reason", got.Reason, tt.reason)
			check.Contains(t, "got.Message", got.Message, tt.message)
		})
	}
}
