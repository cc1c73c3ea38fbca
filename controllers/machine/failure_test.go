package machine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

func TestOnlyAProofMakesAFailure(t *testing.T) {
	highlyAvailable := &engine.HighAvailability{Enabled: ptr.To(true)}
	// of returns a machine whose VM had this status, and whose condition has this reason.
	of := func(status engine.VMStatus, reason string) *infrav1.OLVMMachine {
		m := &infrav1.OLVMMachine{}
		m.Status.Initialization.Provisioned = ptr.To(true)
		m.Status.OLVM = &infrav1.OLVMStatus{VirtualMachine: infrav1.VirtualMachineStatus{Status: string(status)}}
		conditions.Set(m, metav1.Condition{
			Type: infrav1.VirtualMachineRunningCondition, Status: metav1.ConditionFalse, Reason: reason,
		})

		return m
	}
	edited := func(m *infrav1.OLVMMachine, edit func(*infrav1.OLVMMachine)) *infrav1.OLVMMachine {
		edit(m)
		return m
	}

	const other, failed = infrav1.VirtualMachineRunningReason, infrav1.VirtualMachineFailedReason
	down := engine.VM{Status: engine.VMDown}

	for name, c := range map[string]struct {
		machine *infrav1.OLVMMachine
		vm      engine.VM
		want    proof
	}{
		"a VM that ran and is down may have failed":      {of("up", other), down, readEvents},
		"a VM whose host was fenced has failed":          {of("unknown", other), down, failure},
		"a VM that hung and ended has failed":            {of("not_responding", other), down, failure},
		"a VM that failed has failed until it runs":      {of("down", failed), down, failure},
		"a VM that a user stopped has not":               {of("up", other), engine.VM{Status: engine.VMDown, StopReason: ptr.To("")}, noFailure},
		"a VM that a user stopped for a reason has not":  {of("unknown", failed), engine.VM{Status: engine.VMDown, StopReason: ptr.To("broken")}, noFailure},
		"a VM that the engine starts again has not":      {of("unknown", other), engine.VM{Status: engine.VMDown, HighAvailability: highlyAvailable}, noFailure},
		"a VM that reboots has not":                      {of("up", other), engine.VM{Status: engine.VMRebootInProgress}, noFailure},
		"a VM that goes down has not":                    {of("up", other), engine.VM{Status: engine.VMPoweringDown}, noFailure},
		"a VM that starts again has not":                 {of("down", failed), engine.VM{Status: engine.VMWaitForLaunch}, noFailure},
		"a VM that runs again has not":                   {of("down", failed), engine.VM{Status: engine.VMUp}, noFailure},
		"a VM whose host is lost may run":                {of("up", other), engine.VM{Status: engine.VMUnknown}, noFailure},
		"a VM that hangs may write":                      {of("up", other), engine.VM{Status: engine.VMNotResponding}, noFailure},
		"a VM that is paused keeps its volumes":          {of("up", other), engine.VM{Status: engine.VMPaused}, noFailure},
		"a VM that is suspended keeps its volumes":       {of("up", other), engine.VM{Status: engine.VMSuspended}, noFailure},
		"a VM whose disks are locked may not be started": {of("unknown", other), engine.VM{Status: engine.VMImageLocked}, noFailure},
		"a VM that was never a node has no volumes": {edited(of("unknown", other), func(m *infrav1.OLVMMachine) {
			m.Status.Initialization.Provisioned = nil
		}), down, noFailure},
		"a machine that is to be highly available": {edited(of("unknown", other), func(m *infrav1.OLVMMachine) {
			m.Spec.VirtualMachine.HighAvailability = &infrav1.HighAvailability{}
		}), down, noFailure},
		"a machine that is deleted": {edited(of("unknown", other), func(m *infrav1.OLVMMachine) {
			m.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now()))
		}), down, noFailure},
	} {
		check.Equal(t, name, assessEnd(c.machine, &c.vm), c.want)
	}

	check.Equal(
		t, "a VM that the engine does not have may run on a host", assessEnd(of("unknown", other), nil), noFailure,
	)
}

// failing returns a bench with a machine whose VM has crashed. It has no cached list of VMs.
func failing(t *testing.T, holds time.Duration) *bench {
	t.Helper()
	b := running(t, ownVM(true), nil)
	b.r.FailureDelay = holds
	check.Error(t, b.sim.CrashVM("m"), "")
	b.r.Engines.Sessions = &engine.Sessions{} // drop cached answers

	return b
}

// expectRunning runs one pass, and checks the condition VirtualMachineRunning.
func (b *bench) expectRunning(what, want string) ctrl.Result {
	b.t.Helper()
	result := b.pass()
	check.Equal(b.t, what, condition(b.stored(), infrav1.VirtualMachineRunningCondition), want)

	return result
}

const (
	saidNotRunning = "False/" + infrav1.VirtualMachineNotRunningReason
	saidFailed     = "False/" + infrav1.VirtualMachineFailedReason
)

func TestAFailureIsToldAfterItHasHeld(t *testing.T) {
	b := failing(t, time.Minute)
	result := b.expectRunning("at first", saidNotRunning)
	check.Equal(t, "it is looked at again", result.RequeueAfter > 0 && result.RequeueAfter <= time.Minute, true)

	b.r.FailureDelay = time.Nanosecond
	b.expectRunning("later", saidFailed)
	check.Contains(t, "the message", message(b.stored(), infrav1.VirtualMachineRunningCondition),
		"can start it safely once its Node no longer has the taint node.kubernetes.io/out-of-service")
}

// TestAVMThatTheEngineRunsAgainHasNotFailed uses a cached list of VMs from before the second start.
func TestAVMThatTheEngineRunsAgainHasNotFailed(t *testing.T) {
	b := failing(t, time.Minute)
	b.expectRunning("at first", saidNotRunning)
	check.Error(t, b.session.StartVM(t.Context(), vmID, false), "")
	b.eventually("the VM runs", func() bool { return b.vm(vmID).Status == engine.VMUp })

	b.r.FailureDelay = time.Nanosecond
	b.expectRunning("by the old list", saidNotRunning)

	b.r.Engines.Sessions = &engine.Sessions{}
	b.expectRunning("by a new one", "True/"+infrav1.VirtualMachineRunningReason)
}

// TestALaterEndOfAVMIsJudgedAnew covers a VM that has ended again after a failure.
func TestALaterEndOfAVMIsJudgedAnew(t *testing.T) {
	b := failing(t, time.Nanosecond)
	b.expectRunning("the first end", saidFailed)

	cache := &b.r.vmEnds
	end := cache.ends[workspace.NewMachineKey(b.stored())]
	end.stopTime = "2020-01-01T00:00:00Z"
	cache.recordEnd(workspace.NewMachineKey(b.stored()), end)
	b.r.FailureDelay = time.Minute
	b.expectRunning("the second end", saidNotRunning)
	check.Equal(t, "the first end is a proof", cache.ends[workspace.NewMachineKey(b.stored())].proved, false)
}

// TestANewManagerConfirmsAFailure starts another manager while a VM is down.
func TestANewManagerConfirmsAFailure(t *testing.T) {
	b := failing(t, time.Nanosecond)
	b.expectRunning("by the first manager", saidFailed)

	b.r.vmEnds = endCache{}
	b.r.FailureDelay = time.Hour
	b.expectRunning("by the second", saidFailed)
}

func TestTheEngineIsAskedOnceWhyAVMIsDown(t *testing.T) {
	b := failing(t, time.Minute)
	b.expectRunning("at first", saidNotRunning) // lists the VMs before the fault, because the list needs events, too
	b.r.FailureDelay = time.Nanosecond
	check.Error(t, b.sim.Inject(ovirtsim.Fault{Path: "/api/events", Status: 503, Count: 1}), "")
	result := b.expectRunning("without an answer", saidNotRunning)
	check.Equal(t, "it asks again", result.RequeueAfter > 0 && result.RequeueAfter <= engineRetry, true)

	b.expectRunning("with one", saidFailed)
	check.Error(t, b.sim.Inject(ovirtsim.Fault{Path: "/api/events", Status: 503, Count: 1}), "")
	b.expectRunning("without being asked", saidFailed)
}

// expectDown waits until the engine reports the VM as down.
func (b *bench) expectDown() {
	b.t.Helper()
	b.eventually("the VM is down", func() bool { return b.vm(vmID).Status == engine.VMDown })
}

// restart starts the VM in the engine, and ends it again with end.
func (b *bench) restart(end func() error) error {
	b.t.Helper()
	check.Error(b.t, b.session.StartVM(b.t.Context(), vmID, false), "")
	b.eventually("the VM runs", func() bool { return b.vm(vmID).Status == engine.VMUp })

	if err := end(); err != nil {
		return err
	}

	b.expectDown()

	return nil
}

// TestAFailureIsToldOnlyIfALiveLookRepeatsIt uses a cached list of VMs with an end that is no longer the VM's last one.
func TestAFailureIsToldOnlyIfALiveLookRepeatsIt(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*bench) error
		later   string
	}{
		"a user stops the VM": {func(b *bench) error {
			return b.restart(func() error { return b.session.StopVM(b.t.Context(), vmID, true) })
		}, saidNotRunning},
		"the VM fails again": {func(b *bench) error {
			return b.restart(func() error { return b.sim.CrashVM("m") })
		}, saidFailed},
		"the VM is deleted": {func(b *bench) error {
			b.destroyVMs(b.t.Context())
			return nil
		}, "False/" + infrav1.VirtualMachineNotFoundReason},
	} {
		t.Run(name, func(t *testing.T) {
			b := failing(t, time.Minute)
			b.expectRunning("at first", saidNotRunning)
			check.Error(t, c.happens(b), "")

			b.r.FailureDelay = time.Nanosecond
			b.expectRunning("by the old list", saidNotRunning)

			b.r.Engines.Sessions = &engine.Sessions{}
			b.expectRunning("by a new one", c.later)
		})
	}
}

// TestAFailureWaitsForAnEngineThatDoesNotShowTheVM uses a cached list, while the engine does not answer requests for
// the VM.
func TestAFailureWaitsForAnEngineThatDoesNotShowTheVM(t *testing.T) {
	b := failing(t, time.Minute)
	b.expectRunning("at first", saidNotRunning)

	b.r.FailureDelay = time.Nanosecond
	check.Error(t, b.sim.Inject(ovirtsim.Fault{Path: "/api/vms/" + vmID + "$", Status: 503, Count: 1}), "")
	result := b.expectRunning("without an answer", saidNotRunning)
	check.Equal(t, "it asks again", result.RequeueAfter > 0 && result.RequeueAfter <= engineRetry, true)
	b.expectRunning("with one", saidFailed)
}

// TestAVMOnAHostThatNobodySeesFailsWhenItsHostIsFenced covers a host that the engine cannot reach. The VM may run until
// the engine reports it as down.
func TestAVMOnAHostThatNobodySeesFailsWhenItsHostIsFenced(t *testing.T) {
	for name, seen := range map[string]bool{"the manager sees the loss": true, "the manager was away": false} {
		t.Run(name, func(t *testing.T) {
			b := running(t, ownVM(true), nil)
			b.r.FailureDelay = time.Nanosecond
			host := b.sim.ListVMs()[0].Host
			check.Error(t, b.sim.FailHost(host), "")

			want := saidNotRunning
			if seen {
				b.r.Engines.Sessions = &engine.Sessions{}
				for range 2 {
					b.expectRunning("while nobody sees the host", "Unknown/"+infrav1.VirtualMachineOutOfSightReason)
				}

				want = saidFailed
			}

			check.Error(t, b.sim.RecoverHost(host), "")
			b.expectDown()
			b.r.Engines.Sessions = &engine.Sessions{}
			b.expectRunning("when the host is back without the VM", want)
		})
	}
}
