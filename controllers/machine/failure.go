package machine

import (
	"cmp"
	"context"
	"sync"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
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

// findProof returns what proves that a VM has failed. No time-out is a proof: a VM that is out of sight may run. If it
// comes from there to down, its host was fenced, or says that it does not have it. The engine starts a highly available
// VM again, so its volumes must stay with it.
func findProof(m *infrav1.OLVMMachine, vm *engine.VM) proof {
	if vm == nil || vm.Status != engine.VMDown || vm.StopReason != nil || vm.IsHighlyAvailable() ||
		m.Spec.VirtualMachine.HighAvailability != nil || !m.DeletionTimestamp.IsZero() ||
		!ptr.Deref(m.Status.Initialization.Provisioned, false) {
		return noFailure
	}

	if wasLost(m) || isKnownFailed(m) {
		return failure
	}

	return readEvents
}

// wasLost reports whether the engine did not see the VM of a machine, or its host, in the last pass.
func wasLost(m *infrav1.OLVMMachine) bool {
	return m.Status.OLVM != nil && engine.VMStatus(m.Status.OLVM.VirtualMachine.Status).IsOutOfSight()
}

// isKnownFailed reports whether an earlier pass has told the failure of the VM of a machine.
func isKnownFailed(m *infrav1.OLVMMachine) bool {
	return conditions.GetReason(m, infrav1.VirtualMachineRunningCondition) == infrav1.VirtualMachineFailedReason
}

// failureHolds is how long a VM must be down before it has failed: the engine may run it again on another host.
const failureHolds = 30 * time.Second

// vmEnd is the last end of a VM.
type vmEnd struct {
	vm       engine.ID
	stopTime string
	// since is when it was first seen, and proved that it was a failure then. No pass after that one sees the loss of
	// the VM, and a new manager asks the events.
	since  time.Time
	proved bool
	// told is set if a manager before this one has told the failure.
	told bool
	// judged is set when a live look has confirmed the end, and failed is the verdict.
	judged, failed bool
}

// endCache holds the ends of VMs that are down, so that the engine is asked once about each.
type endCache struct {
	mu   sync.Mutex
	ends map[workspace.Key]vmEnd
}

// dropEnd drops the end of a VM that runs, or may.
func (c *endCache) dropEnd(key workspace.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ends, key)
}

// recordEnd stores the end of a VM.
func (c *endCache) recordEnd(key workspace.Key, end vmEnd) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.ends == nil {
		c.ends = map[workspace.Key]vmEnd{}
	}

	c.ends[key] = end
}

// findEnd returns what is known of the end of a VM, and whether it is the first end that this manager knows of.
func (c *endCache) findEnd(key workspace.Key, vm *engine.VM) (end vmEnd, isFirst, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end, known := c.ends[key]
	if known && end.vm == vm.ID && end.stopTime == vm.StopTime {
		return end, false, false
	}

	return vmEnd{vm: vm.ID, stopTime: vm.StopTime, since: time.Now()}, !known, true
}

// hasFailed reports whether the engine proves that the VM of a node has failed, and when to ask again; 0 for not. The
// proof must hold for a while, and a live answer must repeat it. Without an answer nothing changes. The code of the
// event is in public logs of engines. That a stop leaves a reason is recorded; that a failure leaves none is not.
func (r *Reconciler) hasFailed(ctx context.Context, scope *machineScope) (bool, time.Duration, error) {
	key, m, vm := scope.workspace.Key(), scope.olvmMachine, scope.vm.seen
	proof := findProof(m, vm)
	if proof == noFailure {
		r.ends.dropEnd(key)
		return false, 0, nil
	}

	end, isFirst, isNew := r.ends.findEnd(key, vm)
	if isNew { // the VM has run since an earlier end, so that a failure of then proves nothing
		end.proved = proof == failure && (isFirst || wasLost(m))
		end.told = isFirst && isKnownFailed(m)
		r.ends.recordEnd(key, end)
	}

	if end.judged {
		return end.failed, 0, nil
	}

	if left := cmp.Or(r.FailureHolds, failureHolds) - time.Since(end.since); left > 0 && !end.told {
		return false, left, nil
	}

	failed, stands, err := checkLiveEnd(ctx, scope, end.proved)
	if err != nil {
		return end.told, engineRetry, err
	}

	if !stands {
		r.ends.dropEnd(key)
		return false, engineRetry, nil
	}

	end.judged, end.failed = true, failed
	r.ends.recordEnd(key, end)

	return failed, 0, nil
}

// checkLiveEnd looks at the VM itself, because a list may be old. It reports whether the last end of the VM was a
// failure, and whether that end still stands.
func checkLiveEnd(ctx context.Context, scope *machineScope, proved bool) (failed, stands bool, err error) {
	seen, session := scope.vm.seen, scope.engine.session
	live, err := session.FetchVM(ctx, seen.ID)
	if engine.IsNotFound(err) {
		return false, false, nil
	} else if err != nil {
		return false, false, err
	}

	if findProof(scope.olvmMachine, live) == noFailure || live.StopTime != seen.StopTime {
		return false, false, nil
	}

	if proved {
		return true, true, nil
	}

	failed, err = session.HasEndedByError(ctx, live)

	return failed, true, err
}
