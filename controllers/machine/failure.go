package machine

import (
	"cmp"
	"context"
	"sync"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// proof is the evidence for a failure of a VM, before any events are read.
type proof int

const (
	// noFailure means that the VM may be running, was never a node, was stopped by a user, or is restarted by the
	// engine.
	noFailure proof = iota
	// failure means that the VM has failed.
	failure
	// readEvents means that the VM is down for an unknown reason. The engine's events show whether its guest or an
	// error ended it.
	readEvents
)

// assessEnd returns the evidence that a VM has failed. A timeout proves nothing, because an unreachable VM may still be
// running. If the status changes from unreachable to down, the host was fenced, or has reported that it does not run
// the VM. A highly available VM never counts as failed: the engine restarts it, so its volumes must stay attached.
func assessEnd(m *infrav1.OLVMMachine, vm *engine.VM) proof {
	if vm == nil || vm.Status != engine.VMDown || vm.StopReason != nil || vm.IsHighlyAvailable() ||
		m.Spec.VirtualMachine.HighAvailability != nil || !m.DeletionTimestamp.IsZero() ||
		!ptr.Deref(m.Status.Initialization.Provisioned, false) {
		return noFailure
	}

	if wasLost(m) || pass.HasVMFailed(m) {
		return failure
	}

	return readEvents
}

// wasLost reports whether the VM of a machine, or its host, was unreachable in the last pass.
func wasLost(m *infrav1.OLVMMachine) bool {
	return m.Status.OLVM != nil && engine.VMStatus(m.Status.OLVM.VirtualMachine.Status).IsOutOfSight()
}

// failureDelay is the time a VM must be down before it counts as failed. Within this time, the engine may restart it on
// another host.
const failureDelay = 30 * time.Second

// vmEnd is the last end of a VM, with the decision whether it was a failure.
type vmEnd struct {
	vm       engine.ID
	stopTime string
	// since is the time when this manager first saw the end. proved reports whether assessEnd returned failure at that
	// time. Later passes no longer see that the VM was unreachable before. After a restart, the manager reads the
	// events instead.
	since  time.Time
	proved bool
	// reportedBefore reports whether an earlier manager has reported the failure in the condition.
	reportedBefore bool
	// confirmed reports whether a live request has confirmed the end. failed is the result: whether the VM has failed.
	confirmed, failed bool
}

// endCache has the ends of VMs that are down. With it, the manager asks the engine only once about each end.
type endCache struct {
	mu   sync.Mutex
	ends map[workspace.Key]vmEnd
}

// dropEnd removes the end of a VM that may be running.
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

// getEnd returns the stored end of a VM, or a new one. isNew reports whether it is new, and isFirst whether no end was
// stored for the machine.
func (c *endCache) getEnd(key workspace.Key, vm *engine.VM) (end vmEnd, isFirst, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end, known := c.ends[key]
	if known && end.vm == vm.ID && end.stopTime == vm.StopTime {
		return end, false, false
	}

	return vmEnd{vm: vm.ID, stopTime: vm.StopTime, since: time.Now()}, !known, true
}

// checkFailure reports whether the engine proves that the VM of a node has failed. It also returns the time until the
// next check, or 0 if none is needed. The VM must stay down for failureDelay, and a live request must then confirm the
// end. If this request fails, the result stays as before. Public logs of engines contain the code of the event. A
// recording shows that a stop by a user leaves a reason. No recording shows that a failure leaves none.
func (r *Reconciler) checkFailure(ctx context.Context, scope *machineScope) (bool, time.Duration, error) {
	key, m, vm := scope.workspace.Key(), scope.olvmMachine, scope.vm.current
	proof := assessEnd(m, vm)
	if proof == noFailure {
		r.vmEnds.dropEnd(key)
		return false, 0, nil
	}

	end, isFirst, isNew := r.vmEnds.getEnd(key, vm)
	if isNew { // the VM has run since any earlier end, so the failure of an earlier end proves nothing
		end.proved = proof == failure && (isFirst || wasLost(m))
		end.reportedBefore = isFirst && pass.HasVMFailed(m)
		r.vmEnds.recordEnd(key, end)
	}

	if end.confirmed {
		return end.failed, 0, nil
	}

	if left := cmp.Or(r.FailureDelay, failureDelay) - time.Since(end.since); left > 0 && !end.reportedBefore {
		return false, left, nil
	}

	failed, stands, err := checkLiveEnd(ctx, scope, end.proved)
	if err != nil {
		return end.reportedBefore, engineRetry, err
	}

	if !stands {
		r.vmEnds.dropEnd(key)
		return false, engineRetry, nil
	}

	end.confirmed, end.failed = true, failed
	r.vmEnds.recordEnd(key, end)

	return failed, 0, nil
}

// checkLiveEnd fetches the VM, because the list of VMs may be old. It reports whether the last end of the VM was a
// failure, and whether it is still the last end.
func checkLiveEnd(ctx context.Context, scope *machineScope, proved bool) (failed, stands bool, err error) {
	seen, session := scope.vm.current, scope.engine.session
	live, err := session.FetchVM(ctx, seen.ID)
	if engine.IsNotFound(err) {
		return false, false, nil
	} else if err != nil {
		return false, false, err
	}

	if assessEnd(scope.olvmMachine, live) == noFailure || live.StopTime != seen.StopTime {
		return false, false, nil
	}

	if proved {
		return true, true, nil
	}

	failed, err = session.HasEndedByError(ctx, live)

	return failed, true, err
}
