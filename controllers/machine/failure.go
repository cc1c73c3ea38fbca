package machine

import (
	"context"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// proof is what is known of the end of a VM before its events are read.
type proof int

const (
	// noFailure is a VM that runs, may run, was never a node, was stopped by a user, or is started by the engine.
	noFailure proof = iota
	// failure is one that is known to have failed.
	failure
	// readEvents is a VM that is down. The engine's events say whether its guest or an error ended it.
	readEvents
)

// proofOf returns what proves that a VM has failed. No time-out is a proof: a VM that is out of sight may run. If it
// comes from there to down, its host was fenced, or says that it does not have it. The engine starts a highly available
// VM again, so its volumes must stay with it.
func proofOf(m *infrav1.OLVMMachine, vm *engine.VM) proof {
	if vm == nil || vm.Status != engine.VMDown || vm.StopReason != nil || vm.IsHighlyAvailable() ||
		m.Spec.VirtualMachine.HighAvailability != nil || !m.DeletionTimestamp.IsZero() ||
		!ptr.Deref(m.Status.Initialization.Provisioned, false) {
		return noFailure
	}

	known := conditions.Get(m, infrav1.VirtualMachineRunningCondition)
	wasLost := m.Status.OLVM != nil && engine.VMStatus(m.Status.OLVM.VirtualMachine.Status).OutOfSight()
	if wasLost || known != nil && known.Reason == infrav1.VirtualMachineFailedReason {
		return failure
	}

	return readEvents
}

// hasFailed reports whether the engine proves that the VM of a node has failed. Without an answer nothing is proved,
// and the next pass asks again. The code of the event is in public logs of engines. That a stop leaves a reason is
// recorded; that a failure leaves none is not.
func hasFailed(ctx context.Context, scope *machineScope) bool {
	switch proofOf(scope.olvmMachine, scope.vm.seen) {
	case failure:
		return true
	case readEvents:
		ended, err := scope.engine.session.EndedByError(ctx, scope.vm.seen)
		return err == nil && ended
	}

	return false
}
