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

// proof is the knowledge about the end of a VM before the engine's events are read.
type proof int

const (
	// noFailure means that the VM runs or may run, was never a node, was stopped by a user, or is restarted by the
	// engine.
	noFailure proof = iota
	// failure means that the VM has certainly failed.
	failure
	// readEvents means that the VM is down. The engine's events show whether its guest or an error ended it.
	readEvents
)

// findProof returns whether a VM has certainly failed. A timeout is no proof, because a VM that the engine cannot reach
// may still run. If such a VM is down later, its host was fenced, or the host reports that it does not have the VM. The
// engine restarts a highly available VM, so its volumes must stay attached.
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

// isKnownFailed reports whether an earlier pass has reported the failure of the machine's VM.
func isKnownFailed(m *infrav1.OLVMMachine) bool {
	return conditions.GetReason(m, infrav1.VirtualMachineRunningCondition) == infrav1.VirtualMachineFailedReason
}

// failureHolds is the default of Reconciler.FailureHolds. Within this time, the engine may restart the VM on another
// host.
const failureHolds = 30 * time.Second

// vmEnd is the last end of a VM, with the decision whether it was a failure.
type vmEnd struct {
	vm       engine.ID
	stopTime string
	// since is the time of the first pass with this end. proved reports whether this pass had a proof of a failure.
	// Later passes cannot see this proof, and a new manager reads the events instead.
	since  time.Time
	proved bool
	// told reports whether an earlier manager has reported the failure.
	told bool
	// judged reports whether an uncached request has confirmed the end. failed is then the decision.
	judged, failed bool
}

// endCache holds the last ends of the VMs that are down. So the controller asks the engine only once about each end.
type endCache struct {
	mu   sync.Mutex
	ends map[workspace.Key]vmEnd
}

// dropEnd drops the end of a VM that runs or may run.
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

// findEnd returns the recorded end of a VM, if it is still the last one. Otherwise, it returns a new end, and isNew is
// true. isFirst is then true if this manager has recorded no end of the VM.
func (c *endCache) findEnd(key workspace.Key, vm *engine.VM) (end vmEnd, isFirst, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end, known := c.ends[key]
	if known && end.vm == vm.ID && end.stopTime == vm.StopTime {
		return end, false, false
	}

	return vmEnd{vm: vm.ID, stopTime: vm.StopTime, since: time.Now()}, !known, true
}

// hasFailed reports whether the engine proves that the VM of a node has failed. It also returns the delay before the
// next check, or 0. The VM must stay down for FailureHolds, and an uncached request must confirm its end. If the engine
// does not answer, the decision does not change. Sources: public logs of engines show the code of the event. A
// recording of an engine shows that a stop leaves a stop reason. No recording shows that a failure leaves none.
func (r *Reconciler) hasFailed(ctx context.Context, scope *machineScope) (bool, time.Duration, error) {
	key, m, vm := scope.workspace.Key(), scope.olvmMachine, scope.vm.seen
	proof := findProof(m, vm)
	if proof == noFailure {
		r.ends.dropEnd(key)
		return false, 0, nil
	}

	end, isFirst, isNew := r.ends.findEnd(key, vm)
	if isNew { // the VM has run since an earlier end, so an earlier failure proves nothing
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

// checkLiveEnd fetches the VM itself, because a cached list may be old. failed reports whether the last end of the VM
// was a failure. stands reports whether it is still the last end.
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
