package machine

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// condition returns a condition as "status/reason", or "" if there is none.
func condition(m *infrav1.OLVMMachine, kind string) string {
	c := conditions.Get(m, kind)
	if c == nil {
		return ""
	}

	return string(c.Status) + "/" + c.Reason
}

func message(m *infrav1.OLVMMachine, kind string) string {
	if c := conditions.Get(m, kind); c != nil {
		return c.Message
	}

	return ""
}

// newMachine returns an OLVMMachine. With an empty ID, it has no VM.
func newMachine(id string) *infrav1.OLVMMachine {
	m := newObjects().olvmMachine
	if id != "" {
		m.Spec.ProviderID = "olvm://" + id
	}

	return m
}

func deleted(m *infrav1.OLVMMachine) *infrav1.OLVMMachine {
	m.DeletionTimestamp = ptr.To(metav1.Now())

	return m
}

func provisioned(m *infrav1.OLVMMachine) *infrav1.OLVMMachine {
	m.Status.Initialization.Provisioned = ptr.To(true)

	return m
}

func fromInventory(m *infrav1.OLVMMachine) *infrav1.OLVMMachine {
	m.Spec = infrav1.OLVMMachineSpec{
		ProviderID: m.Spec.ProviderID, FromInventory: &infrav1.FromInventory{InventoryName: "lab"},
	}

	return m
}

func TestRecordCreation(t *testing.T) {
	broken := errors.New("no space left")

	for name, tt := range map[string]struct {
		run  terraform.Status
		id   string
		want infrav1.VirtualMachineStatus
	}{
		"a run that made the VM": {
			run: terraform.Status{Operation: terraform.Apply}, id: vmID,
			want: infrav1.VirtualMachineStatus{CreationStatus: "Created", LastGeneration: "7"},
		},
		"a run that failed before there was one": {
			run:  terraform.Status{Operation: terraform.Apply, Err: broken},
			want: infrav1.VirtualMachineStatus{CreationStatus: "Failed", CreationError: "no space left"},
		},
		"an error that does not fit into the status": {
			run: terraform.Status{Operation: terraform.Apply, Err: errors.New(strings.Repeat("x", 2000))},
			want: infrav1.VirtualMachineStatus{
				CreationStatus: "Failed", CreationError: strings.Repeat("x", 1024) + " ...",
			},
		},
		"a change of a VM that failed creates nothing": {
			run: terraform.Status{Operation: terraform.Apply, Err: broken}, id: vmID,
			want: infrav1.VirtualMachineStatus{CreationError: "before"},
		},
		"a destruction creates nothing": {
			run:  terraform.Status{Operation: terraform.Destroy},
			want: infrav1.VirtualMachineStatus{CreationError: "before"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(tt.id)
			m.Generation = 7
			m.Status.OLVM = &infrav1.OLVMStatus{VirtualMachine: infrav1.VirtualMachineStatus{CreationError: "before"}}
			recordCreation(m, tt.run)
			check.Equal(t, "the VM", m.Status.OLVM.VirtualMachine, tt.want)
		})
	}
}

// TestWhatTheStatusOfAVMMeans covers the statuses of a provisioned machine's VM.
func TestWhatTheStatusOfAVMMeans(t *testing.T) {
	const running, starting, stopped, unseen = "True/" + infrav1.VirtualMachineRunningReason,
		"False/" + infrav1.VirtualMachineStartingReason, "False/" + infrav1.VirtualMachineNotRunningReason,
		"Unknown/" + infrav1.VirtualMachineOutOfSightReason

	for status, want := range map[engine.VMStatus]struct{ condition, message string }{
		engine.VMUp:               {running, ""},
		engine.VMMigrating:        {running, "migrating to another host"},
		engine.VMRebootInProgress: {starting, "reboot_in_progress"},
		engine.VMWaitForLaunch:    {starting, "wait_for_launch"},
		engine.VMPoweringUp:       {starting, "powering_up"},
		engine.VMImageLocked:      {starting, "image_locked"},
		engine.VMDown:             {stopped, "start it in the engine"},
		engine.VMPoweringDown:     {stopped, "start it in the engine"},
		engine.VMPaused:           {stopped, "resume it in the engine"},
		engine.VMSavingState:      {stopped, "resume it in the engine"},
		engine.VMUnknown:          {unseen, "Check the host"},
		engine.VMNotResponding:    {unseen, "Check the host"},
	} {
		t.Run(string(status), func(t *testing.T) {
			scope := &machineScope{olvmMachine: provisioned(newMachine(vmID))}
			scope.vm.current = &engine.VM{Status: status}
			setRunningCondition(scope)
			check.Equal(t, "the condition", condition(scope.olvmMachine, infrav1.VirtualMachineRunningCondition),
				want.condition)
			check.Contains(t, "the message", message(scope.olvmMachine, infrav1.VirtualMachineRunningCondition),
				want.message)
		})
	}
}

// TestSetRunningCondition covers all inputs other than the status of the VM.
func TestSetRunningCondition(t *testing.T) {
	known := newMachine(vmID)
	conditions.Set(known, metav1.Condition{
		Type: infrav1.VirtualMachineRunningCondition, Status: metav1.ConditionTrue, Reason: "Before",
	})

	for name, tt := range map[string]struct {
		machine         *infrav1.OLVMMachine
		vm              vmFacts
		want, message   string
		nothingElseSaid bool
	}{
		"the engine has lost the VM": {
			newMachine(vmID), vmFacts{missing: true}, "False/" + infrav1.VirtualMachineNotFoundReason,
			"VM " + vmID + " no longer exists in the engine", false,
		},
		"a VM that was never recorded is not lost": {
			newMachine(""), vmFacts{missing: true}, "False/" + infrav1.WaitingForVirtualMachineReason, "", true,
		},
		"there is no VM yet": {
			newMachine(""), vmFacts{}, "False/" + infrav1.WaitingForVirtualMachineReason, "", true,
		},
		"the engine has not answered yet": {
			newMachine(vmID), vmFacts{}, "Unknown/" + infrav1.WaitingForEngineReason, "", true,
		},
		"an engine that is away changes nothing": {known, vmFacts{}, "True/Before", "", true},
		"a VM that is down before its first start": {
			newMachine(vmID), vmFacts{current: &engine.VM{Status: engine.VMDown}},
			"False/" + infrav1.VirtualMachineStartingReason, "VM is down", false,
		},
		"a VM that is paused before its first start": {
			newMachine(vmID), vmFacts{current: &engine.VM{Status: engine.VMPaused}},
			"False/" + infrav1.VirtualMachineNotRunningReason, "resume it", false,
		},
		"settings wait for a restart": {
			newMachine(vmID),
			vmFacts{current: &engine.VM{Status: engine.VMUp}, pendingSettings: []string{"memory", "CPU"}},
			"True/" + infrav1.VirtualMachineRunningReason, "waits for a restart: memory, CPU", false,
		},
		"nothing waits": {
			newMachine(vmID), vmFacts{current: &engine.VM{Status: engine.VMUp}},
			"True/" + infrav1.VirtualMachineRunningReason, "", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			scope := &machineScope{olvmMachine: tt.machine, vm: tt.vm}
			setRunningCondition(scope)
			check.Equal(t, "the condition", condition(tt.machine, infrav1.VirtualMachineRunningCondition), tt.want)
			check.Contains(t, "the message", message(tt.machine, infrav1.VirtualMachineRunningCondition), tt.message)

			if tt.nothingElseSaid {
				check.Equal(t, "the message", message(tt.machine, infrav1.VirtualMachineRunningCondition), "")
			}
		})
	}
}

// TestSetAppliedConditionBeforeTheFirstRun covers the causes that delay a machine's first run, by precedence. Most
// cases also have a cause of lower precedence, which the condition must not report.
func TestSetAppliedConditionBeforeTheFirstRun(t *testing.T) {
	var (
		conflict = blocker.New(infrav1.IPAddressConflictReason, "spec.networkDevices[0]", "192.0.2.7 is of machine b")
		noName   = blocker.New(infrav1.VMTemplateNotFoundReason, "spec.vmTemplateName", "there is no ol9")
		waiting  = &blocker.Error{Reason: infrav1.WaitingForBootstrapDataReason, Message: "no Secret"}
		failed   = workspace.Failure{Count: 2, Err: errors.New("exit status 1")}
	)

	for name, tt := range map[string]struct {
		scope           machineScope
		observed        workspace.Observation
		action          workspace.Action
		reason, message string
	}{
		"the state cannot be used, which hides all else": {
			scope:    machineScope{engine: engineFacts{err: errors.New("HTTP 500")}},
			observed: workspace.Observation{StateErr: errors.New("not gzip")},
			reason:   infrav1.StateInvalidReason,
			message:  "not gzip; repair that Secret, or delete it",
		},
		"the engine is away": {
			scope:   machineScope{engine: engineFacts{err: errors.New("HTTP 500")}, desired: desiredFacts{err: noName}},
			reason:  infrav1.WaitingForEngineReason,
			message: "HTTP 500",
		},
		"a name is wrong": {
			scope:    machineScope{desired: desiredFacts{err: noName}},
			observed: workspace.Observation{Failure: failed},
			reason:   infrav1.VMTemplateNotFoundReason,
			message:  "spec.vmTemplateName: there is no ol9",
		},
		"a run has failed": {
			scope:    machineScope{userDataBlocker: waiting},
			observed: workspace.Observation{Failure: failed}, action: workspace.Action{Kind: workspace.Wait},
			reason:  infrav1.ApplyFailedReason,
			message: "exit status 1 (the controller retries after a pause",
		},
		"a run has failed, and the next one begins": {
			observed: workspace.Observation{Failure: failed},
			action:   workspace.Action{Kind: workspace.Apply, Message: "begins"},
			reason:   infrav1.ApplyingReason,
			message:  "begins",
		},
		"a run is queued": {
			scope: machineScope{userDataBlocker: waiting},
			action: workspace.Action{
				Kind: workspace.Wait, Reason: infrav1.ApplyingReason, Message: "Terraform Apply is Queued",
			},
			reason:  infrav1.ApplyingReason,
			message: "Terraform Apply is Queued",
		},
		"there is no bootstrap data": {
			scope:   machineScope{userDataBlocker: waiting, claim: claimFacts{err: &blocker.Error{Message: "none"}}},
			reason:  infrav1.WaitingForBootstrapDataReason,
			message: "no Secret",
		},
		"no VM of the inventory is claimed": {
			scope: machineScope{
				claim: claimFacts{err: &blocker.Error{Message: "none"}}, network: networkFacts{err: conflict},
			},
			reason:  infrav1.WaitingForClaimReason,
			message: "Waiting for a VM of the inventory",
		},
		"an address is in use": {
			scope:   machineScope{network: networkFacts{err: conflict}, vm: vmFacts{err: errors.New("HTTP 500")}},
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
			action: workspace.Action{
				Kind: workspace.Block, Reason: infrav1.VirtualMachineNotFoundReason, Message: "gone",
			},
			reason:  infrav1.VirtualMachineNotFoundReason,
			message: "gone",
		},
		"nothing is known": {reason: infrav1.ApplyingReason, message: "No run has started yet"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.scope.olvmMachine, tt.scope.workspace = &infrav1.OLVMMachine{}, &workspace.Workspace{}
			tt.scope.observed, tt.scope.action = tt.observed, tt.action
			setAppliedCondition(&tt.scope, tt.scope.judgeSpec())
			check.Equal(t, "the condition", condition(tt.scope.olvmMachine, infrav1.InfrastructureAppliedCondition),
				"False/"+tt.reason)
			check.Contains(t, "the message", message(tt.scope.olvmMachine, infrav1.InfrastructureAppliedCondition),
				tt.message)
		})
	}
}

// TestAnEditThatIsNotAppliedIsToldByUpToDate verifies that InfrastructureApplied keeps the generation of the applied
// spec, while UpToDate describes the current spec. Generation 3 was applied, and the spec has been edited since.
func TestAnEditThatIsNotAppliedIsToldByUpToDate(t *testing.T) {
	gone := blocker.New(infrav1.VMTemplateNotFoundReason, "spec.vmTemplateName", "there is no ol9")
	profile := blocker.New(infrav1.IPProfileNotFoundReason, "spec.virtualMachine.network.ipProfileName",
		"there is no lab")
	away := errors.New("HTTP 500")
	refusal := workspace.Failure{Count: 1, Err: &terraform.GuardError{}}
	failure := workspace.Failure{Count: 1, Err: errors.New("exit status 1")}
	wait := workspace.Action{Kind: workspace.Wait}
	settled := workspace.Action{Kind: workspace.None, Reason: infrav1.AppliedReason}

	for name, tt := range map[string]struct {
		scope         machineScope
		action        workspace.Action
		failure       workspace.Failure
		want, message string
		applied       int64
	}{
		"all is well": {action: settled, want: "True/" + infrav1.UpToDateReason, applied: 4},
		"a setting waits for the next start": {
			scope: machineScope{vm: vmFacts{pendingSettings: []string{"memory"}}}, action: settled,
			want: "False/" + infrav1.WaitingForRestartReason, message: "waits for a restart: memory", applied: 4,
		},
		"it names a template that does not exist": {
			scope: machineScope{desired: desiredFacts{err: gone}}, action: wait,
			want:    "False/" + infrav1.VMTemplateNotFoundReason,
			message: "no change of this machine can be applied: spec.vmTemplateName", applied: 3,
		},
		"it is wrong, and an earlier one was refused": {
			scope: machineScope{desired: desiredFacts{err: gone}}, action: wait, failure: refusal,
			want: "False/" + infrav1.VMTemplateNotFoundReason, applied: 3,
		},
		"it names an IP profile that does not exist": {
			scope: machineScope{network: networkFacts{err: profile}}, action: wait,
			want:    "False/" + infrav1.IPProfileNotFoundReason,
			message: "no change of this machine can be applied: spec.virtualMachine", applied: 3,
		},
		"the engine is away": {
			scope: machineScope{engine: engineFacts{err: away}}, action: wait,
			want: "Unknown/" + infrav1.WaitingForEngineReason, applied: 3,
		},
		"the engine does not answer for a name": {
			scope: machineScope{desired: desiredFacts{err: &engine.Fault{}}}, action: wait,
			want: "Unknown/" + infrav1.WaitingForEngineReason, applied: 3,
		},
		"the engine does not answer for the VM": {
			scope: machineScope{vm: vmFacts{err: away}}, action: wait,
			want: "Unknown/" + infrav1.WaitingForEngineReason, applied: 3,
		},
		"its VM is lost, which another condition says": {
			action: workspace.Action{
				Kind: workspace.Block, Reason: infrav1.VirtualMachineNotFoundReason, Message: "gone",
			},
			want: "False/" + infrav1.VirtualMachineNotFoundReason, applied: 3,
		},
		"it was refused": {
			action: wait, failure: refusal, want: "False/" + infrav1.ReplaceRefusedReason,
			message: "the controller retries after a pause", applied: 3,
		},
		"its run has failed": {
			action: wait, failure: failure, want: "False/" + infrav1.ApplyFailedReason, message: "exit status 1",
			applied: 3,
		},
		"an earlier edit was refused, and a run for this one goes": {
			scope:   machineScope{desired: desiredFacts{digest: "b"}},
			action:  workspace.Action{Kind: workspace.Wait, Reason: infrav1.ApplyingReason, Message: "a run goes"},
			failure: workspace.Failure{Count: 1, Digest: "a", Err: &terraform.GuardError{}},
			want:    "False/" + infrav1.ApplyingReason, message: "a run goes", applied: 3,
		},
		"it is on its way": {
			action: workspace.Action{Kind: workspace.Apply, Reason: infrav1.ApplyingReason},
			want:   "False/" + infrav1.ApplyingReason, applied: 3,
		},
		"nothing to do for another reason than that it is applied": {
			action: workspace.Action{Kind: workspace.None, Reason: "Other"}, want: "False/Other",
			message: "No run has started yet", applied: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(vmID)
			tt.scope.olvmMachine = m
			tt.scope.observed.State = parsed(t, "digest", "ovirt_vm="+vmID)
			m.Generation = 3
			setUpToDateConditions(&machineScope{olvmMachine: m, observed: tt.scope.observed, action: settled})
			m.Generation = 4
			tt.scope.action, tt.scope.observed.Failure = tt.action, tt.failure
			setUpToDateConditions(&tt.scope)

			upToDate, applied := infrav1.UpToDateCondition, infrav1.InfrastructureAppliedCondition
			check.Equal(t, "the verdict", condition(m, upToDate), tt.want)
			check.Equal(t, "its generation", conditions.Get(m, upToDate).ObservedGeneration, 4)
			check.Equal(t, "what was applied", condition(m, applied), "True/"+infrav1.AppliedReason)
			check.Equal(t, "its message", message(m, applied), "")
			check.Equal(t, "its generation", conditions.Get(m, applied).ObservedGeneration, tt.applied)

			if tt.message == "" && tt.failure.Count == 0 && tt.scope.desired.err == nil && tt.scope.engine.err == nil &&
				tt.scope.vm.err == nil {
				check.Equal(t, "the message", message(m, upToDate), "")
			}

			check.Contains(t, "the message", message(m, upToDate), tt.message)
		})
	}
}

// TestAVerdictOnThisSpecStaysWhileNothingElseIsKnown covers a machine with an unedited spec. Neither an unreachable
// engine nor a deleted template makes it outdated.
func TestAVerdictOnThisSpecStaysWhileNothingElseIsKnown(t *testing.T) {
	gone := blocker.New(infrav1.VMTemplateNotFoundReason, "spec.vmTemplateName", "there is no ol9")
	settled := workspace.Action{Kind: workspace.None, Reason: infrav1.AppliedReason}
	upToDate := infrav1.UpToDateCondition

	m := newMachine(vmID)
	m.Generation = 3
	scope := &machineScope{
		olvmMachine: m, action: settled, observed: workspace.Observation{State: parsed(t, "digest", "ovirt_vm="+vmID)},
	}
	setUpToDateConditions(scope)

	scope.action = workspace.Action{Kind: workspace.Wait}
	scope.engine.err = errors.New("HTTP 500")
	setUpToDateConditions(scope)
	check.Equal(t, "the engine is away", condition(m, upToDate), "True/"+infrav1.UpToDateReason)

	scope.engine.err, scope.desired.err = nil, gone
	setUpToDateConditions(scope)
	check.Equal(t, "the template is gone", condition(m, upToDate), "True/"+infrav1.UpToDateReason)
	check.Contains(t, "its message", message(m, upToDate), "no change of this machine can be applied")

	m.Generation = 4
	setUpToDateConditions(scope)
	check.Equal(t, "an edit comes", condition(m, upToDate), "False/"+infrav1.VMTemplateNotFoundReason)
}

// TestAChangeThatFailedHalfWayLeavesTheMachineApplied covers a state marked as changing.
func TestAChangeThatFailedHalfWayLeavesTheMachineApplied(t *testing.T) {
	m := newMachine(vmID)
	half := parsed(t, "", "ovirt_vm="+vmID)
	half.ChangingFrom = "digest"
	setUpToDateConditions(&machineScope{
		olvmMachine: m,
		observed: workspace.Observation{
			State: half, Failure: workspace.Failure{Count: 1, Err: errors.New("exit status 1")},
		},
		action: workspace.Action{Kind: workspace.Wait},
	})
	check.Equal(t, "applied", condition(m, infrav1.InfrastructureAppliedCondition), "True/"+infrav1.AppliedReason)
	check.Equal(t, "up to date", condition(m, infrav1.UpToDateCondition), "False/"+infrav1.ApplyFailedReason)
}

// TestAStateThatNoRunHasFinishedIsNotApplied covers a VM after a failed first run.
func TestAStateThatNoRunHasFinishedIsNotApplied(t *testing.T) {
	scope := &machineScope{olvmMachine: newMachine(vmID), engine: engineFacts{err: errors.New("HTTP 500")}}
	scope.observed.State = parsed(t, "", "ovirt_vm="+vmID)
	setAppliedCondition(scope, scope.judgeSpec())
	check.Equal(t, "the condition", condition(scope.olvmMachine, infrav1.InfrastructureAppliedCondition),
		"False/"+infrav1.WaitingForEngineReason)
}

func TestSetMachineDeletingCondition(t *testing.T) {
	away := errors.New("HTTP 500")
	graceful := workspace.Action{
		Kind: workspace.Wait, Reason: infrav1.WaitingForGuestShutdownReason, Message: "Waiting for the guest",
	}
	// The workspace uses this digest for destroy runs.
	destruction := workspace.Failure{Count: 1, Digest: "destroy", Err: errors.New("it is being exported")}

	for name, tt := range map[string]struct {
		machine       *infrav1.OLVMMachine
		scope         machineScope
		observed      workspace.Observation
		action        workspace.Action
		want, message string
	}{
		"nobody deletes it": {
			machine: newMachine(vmID), scope: machineScope{blocked: blocker.NewDeletionError(0, "not yet")},
			want: "False/" + infrav1.NotDeletingReason,
		},
		"it is on its way": {want: "True/" + infrav1.DeletingReason},
		"it must not go, which hides all else": {
			scope:    machineScope{blocked: blocker.NewDeletionError(0, "not marked as ours")},
			observed: workspace.Observation{StateErr: errors.New("not gzip")},
			want:     "True/" + infrav1.DeletionBlockedReason, message: "not marked as ours",
		},
		"its state cannot be used": {
			scope:    machineScope{engine: engineFacts{err: away}},
			observed: workspace.Observation{StateErr: errors.New("not gzip")},
			want:     "True/" + infrav1.DeletionBlockedReason,
			message:  "not gzip; repair that Secret, or delete it: the controller then",
		},
		"the engine is away": {
			scope:    machineScope{engine: engineFacts{err: away}},
			observed: workspace.Observation{Failure: destruction},
			want:     "True/" + infrav1.WaitingForEngineReason, message: "HTTP 500",
		},
		"the engine does not answer for the VM": {
			scope: machineScope{vm: vmFacts{err: away}},
			want:  "True/" + infrav1.WaitingForEngineReason, message: "HTTP 500",
		},
		"the engine that has the VM of an inventory is away": {
			machine: deleted(fromInventory(newMachine(vmID))), scope: machineScope{engine: engineFacts{err: away}},
			want: "True/" + infrav1.UnableToDecommissionReason, message: "HTTP 500",
		},
		"a destruction has failed": {
			observed: workspace.Observation{Failure: destruction}, action: graceful,
			want:    "True/" + infrav1.DeletionFailedReason,
			message: "it is being exported (the controller retries after a pause",
		},
		"the guest shuts down": {
			action: graceful,
			want:   "True/" + infrav1.WaitingForGuestShutdownReason, message: "Waiting for the guest",
		},
		"a run goes": {
			action: workspace.Action{Reason: infrav1.ApplyingReason, Message: "a run goes"},
			want:   "True/" + infrav1.WaitingForTerraformReason, message: "a run goes",
		},
		"the failure of an apply is of no interest": {
			observed: workspace.Observation{Failure: workspace.Failure{Count: 1, Digest: "d", Err: away}},
			want:     "True/" + infrav1.DeletingReason,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.machine == nil {
				tt.machine = deleted(newMachine(vmID))
			}

			tt.scope.olvmMachine, tt.scope.observed, tt.scope.action = tt.machine, tt.observed, tt.action
			setMachineDeletingCondition(&tt.scope)
			check.Equal(t, "the condition", condition(tt.machine, infrav1.DeletingCondition), tt.want)

			if tt.message == "" {
				check.Equal(t, "the message", message(tt.machine, infrav1.DeletingCondition), "")
			}

			check.Contains(t, "the message", message(tt.machine, infrav1.DeletingCondition), tt.message)
		})
	}
}

func TestSetAddressesCondition(t *testing.T) {
	conflict := blocker.New(infrav1.IPAddressConflictReason, "metadata.name", "of machine b")
	profile := blocker.New(infrav1.IPProfileNotFoundReason, "spec.virtualMachine.network.ipProfileName",
		"there is no lab")
	available := "True/" + infrav1.AddressesAllocatedReason

	for name, tt := range map[string]struct {
		machine *infrav1.OLVMMachine
		err     error
		known   bool
		want    string
		message string
	}{
		"they are known": {machine: newMachine(""), known: true, want: available},
		"they are not": {
			machine: newMachine(""), want: "False/" + infrav1.WaitingForGuestAddressesReason, message: "once it is up",
		},
		"a machine that was ready once has some, even if its guest is silent": {
			machine: provisioned(newMachine(vmID)), want: available,
		},
		"its profile is gone": {
			machine: newMachine(""), err: profile, known: true,
			want: "False/" + infrav1.IPProfileNotFoundReason, message: "ipProfileName: there is no lab",
		},
		"its profile is gone, and its VM has its addresses": {
			machine: newMachine(vmID), err: profile, known: true, want: available,
		},
		"its profile is gone, and it was ready once": {
			machine: provisioned(newMachine(vmID)), err: profile, want: available,
		},
		"its profile is gone before its VM has an address": {
			machine: newMachine(vmID), err: profile, want: "False/" + infrav1.IPProfileNotFoundReason,
			message: "no lab",
		},
		"another machine has its address": {
			machine: provisioned(newMachine(vmID)), err: conflict, known: true,
			want: "False/" + infrav1.IPAddressConflictReason, message: "of machine b",
		},
		"the API server does not answer": {
			machine: newMachine(vmID), err: errors.New("HTTP 500"), known: true,
			want: "Unknown/" + clusterv1.InternalErrorReason, message: "Please check the controller's logs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			scope := &machineScope{olvmMachine: tt.machine, network: networkFacts{err: tt.err}}
			setAddressesCondition(scope, tt.known)
			check.Equal(t, "the condition", condition(tt.machine, infrav1.AddressesAllocatedCondition), tt.want)
			check.Contains(t, "the message", message(tt.machine, infrav1.AddressesAllocatedCondition), tt.message)
		})
	}
}

func TestWhyNoGuestAddress(t *testing.T) {
	up, off := &engine.VM{Status: engine.VMUp}, &engine.VM{Status: engine.VMDown}
	reports := []engine.GuestInterface{{Name: "eth0"}, {Name: "eth1"}}

	for name, tt := range map[string]struct {
		vm    *engine.VM
		guest []engine.GuestInterface
		want  string
	}{
		"there is no VM yet":             {nil, nil, "once it is up"},
		"the VM is down":                 {off, reports, "once it is up"},
		"the agent is silent":            {up, nil, "the image needs qemu-guest-agent"},
		"the interface has another name": {up, reports, "it reports addresses of eth0, eth1"},
	} {
		scope := &machineScope{vm: vmFacts{current: tt.vm}, guest: guestFacts{interfaces: tt.guest}}
		check.Contains(t, name, scope.explainNoGuestAddress(), tt.want)
	}
}

func TestSetBootstrapCondition(t *testing.T) {
	scope := &machineScope{olvmMachine: newMachine("")}
	setBootstrapCondition(scope)
	check.Equal(t, "with nothing to wait for", condition(scope.olvmMachine, infrav1.BootstrapDataAvailableCondition),
		"True/"+infrav1.BootstrapDataAvailableReason)

	scope.userDataBlocker = newWaitingForDataError("no Secret")
	setBootstrapCondition(scope)
	check.Equal(t, "without data", condition(scope.olvmMachine, infrav1.BootstrapDataAvailableCondition),
		"False/"+infrav1.WaitingForBootstrapDataReason)
	check.Equal(t, "the message", message(scope.olvmMachine, infrav1.BootstrapDataAvailableCondition), "no Secret")
}

func TestSetClaimedCondition(t *testing.T) {
	scope := &machineScope{olvmMachine: newMachine("")}
	setClaimedCondition(scope)
	check.Equal(t, "of a VM that is made", condition(scope.olvmMachine, infrav1.VirtualMachineClaimedCondition), "")

	fromInventory(scope.olvmMachine)
	setClaimedCondition(scope)
	check.Equal(t, "of a VM that is claimed", condition(scope.olvmMachine, infrav1.VirtualMachineClaimedCondition),
		"True/"+infrav1.VirtualMachineClaimedReason)

	scope.claim.err = &blocker.Error{Reason: infrav1.UnschedulableReason, Field: "spec.fromInventory",
		Message: "too few"}
	setClaimedCondition(scope)
	check.Equal(t, "of a VM that is not", condition(scope.olvmMachine, infrav1.VirtualMachineClaimedCondition),
		"False/"+infrav1.UnschedulableReason)
	check.Equal(t, "the message", message(scope.olvmMachine, infrav1.VirtualMachineClaimedCondition),
		"spec.fromInventory: too few")
}

func TestSetDriftCondition(t *testing.T) {
	for name, tt := range map[string]struct {
		terraform     *infrav1.TerraformStatus
		want, message string
	}{
		"nothing was applied": {},
		"nothing was checked": {terraform: &infrav1.TerraformStatus{}},
		"a check that found nothing": {
			terraform: &infrav1.TerraformStatus{Drift: &infrav1.DriftStatus{}}, want: "False/" + infrav1.NoDriftReason,
		},
		"a check that found something": {
			terraform: &infrav1.TerraformStatus{
				Drift: &infrav1.DriftStatus{Differences: []string{"ovirt_vm.this (memory)"}},
			},
			want: "True/" + infrav1.DriftDetectedReason, message: "ovirt_vm.this (memory)",
		},
		"a check that failed says nothing of what one before found": {
			terraform: &infrav1.TerraformStatus{
				Drift: &infrav1.DriftStatus{Error: "HTTP 500", Differences: []string{"ovirt_vm.this"}},
			},
			want: "Unknown/" + infrav1.DriftCheckFailedReason, message: "HTTP 500",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(vmID)
			conditions.Set(m, metav1.Condition{Type: infrav1.DriftDetectedCondition, Status: "True", Reason: "Before"})
			m.Status.Terraform = tt.terraform
			setDriftCondition(&machineScope{olvmMachine: m, workspace: &workspace.Workspace{}})
			check.Equal(t, "the condition", condition(m, infrav1.DriftDetectedCondition), tt.want)
			check.Contains(t, "the message", message(m, infrav1.DriftDetectedCondition), tt.message)
		})
	}
}

// TestWhatReadyIsMadeOf verifies that only a machine of an inventory needs a claim to be ready.
func TestWhatReadyIsMadeOf(t *testing.T) {
	made, claimed := &machineScope{olvmMachine: newMachine("")}, &machineScope{
		olvmMachine: fromInventory(newMachine("")),
	}
	want := []string{
		infrav1.BootstrapDataAvailableCondition, infrav1.AddressesAllocatedCondition,
		infrav1.InfrastructureAppliedCondition, infrav1.VirtualMachineRunningCondition, infrav1.DeletingCondition,
	}
	check.Equal(t, "of a VM that is made", readyConditions(made), want)
	check.Equal(t, "of a VM that is claimed", readyConditions(claimed),
		slices.Insert(want, 1, infrav1.VirtualMachineClaimedCondition))
}

func TestWhatEventsSay(t *testing.T) {
	scope := &machineScope{olvmMachine: newMachine(vmID)}
	scope.olvmMachine.Status.OLVM = &infrav1.OLVMStatus{
		VirtualMachine: infrav1.VirtualMachineStatus{VMName: "m", VMID: vmID},
	}
	check.Equal(t, "a VM without an address", scope.stepEvents()[infrav1.VirtualMachineRunningCondition],
		"VM m ("+vmID+") is up")

	scope.olvmMachine.Status.OLVM.IPAddress = "10.0.0.10"
	scope.claim.object = &infrav1alpha1.OLVMInventoryVM{ObjectMeta: named("vm-a")}
	check.Equal(t, "all steps", scope.stepEvents(), map[string]string{
		infrav1.VirtualMachineClaimedCondition: "The machine has claimed VM vm-a",
		infrav1.VirtualMachineRunningCondition: "VM m (" + vmID + ") is up at 10.0.0.10",
		infrav1.DeletingCondition:              "The VM is being deleted",
	})
}

// TestUpdateMachineStatus covers the conditions written by a pass, and when a machine is provisioned.
func TestUpdateMachineStatus(t *testing.T) {
	up := vmFacts{current: &engine.VM{Status: engine.VMUp}}
	withAddress := func(id string) *infrav1.OLVMMachine {
		m := newMachine(id)
		m.Annotations = map[string]string{infrav1.AddressesAnnotation: `{"nic1":["10.0.0.10"]}`}

		return m
	}

	for name, tt := range map[string]struct {
		machine     *infrav1.OLVMMachine
		vm          vmFacts
		unread      bool
		provisioned bool
		conditions  string
	}{
		"a VM that is up with its address": {withAddress(vmID), up, false, true, "all"},
		"a VM that starts": {
			withAddress(vmID), vmFacts{current: &engine.VM{Status: engine.VMPoweringUp}}, false, false, "all",
		},
		"a VM without an address":                 {newMachine(vmID), up, false, false, "all"},
		"a VM whose ID is not recorded":           {withAddress(""), up, false, false, "all"},
		"a VM of a machine that is being deleted": {deleted(withAddress(vmID)), up, false, false, "running"},
		"a pass that could not read the state":    {withAddress(vmID), up, true, true, "running"},
		"once provisioned, always provisioned": {
			provisioned(newMachine(vmID)), vmFacts{missing: true}, false, true, "all",
		},
	} {
		t.Run(name, func(t *testing.T) {
			scope := &machineScope{
				olvmMachine: tt.machine, vm: tt.vm, machine: newObjects().machine,
				observed: workspace.Observation{StateUnread: tt.unread},
			}
			updateMachineStatus(scope)
			check.Equal(t, "provisioned", ptr.Deref(tt.machine.Status.Initialization.Provisioned, false),
				tt.provisioned)

			var got []string
			for _, c := range tt.machine.Status.Conditions {
				got = append(got, c.Type)
			}

			want := []string{infrav1.DeletingCondition, infrav1.ReadyCondition, infrav1.VirtualMachineRunningCondition}
			if tt.conditions == "all" {
				want = append(want, infrav1.BootstrapDataAvailableCondition, infrav1.AddressesAllocatedCondition,
					infrav1.InfrastructureAppliedCondition, infrav1.UpToDateCondition, infrav1.UserDataRemovedCondition)
			}

			slices.Sort(got)
			slices.Sort(want)
			check.Equal(t, "conditions", got, want)
		})
	}
}

// TestSetMachineFacts covers the replaced and the unchanged parts of status.olvm.
func TestSetMachineFacts(t *testing.T) {
	before := func() *infrav1.OLVMStatus {
		return &infrav1.OLVMStatus{
			ClusterName: "old", VNICID: "nic-1", IPAddress: "10.0.0.9",
			VirtualMachine: infrav1.VirtualMachineStatus{VMName: "old", HostName: "host-1", CreationStatus: "Created"},
		}
	}

	for name, tt := range map[string]struct {
		change func(*machineScope)
		want   func(*infrav1.OLVMStatus)
	}{
		"a pass that found nothing": {func(*machineScope) {}, func(*infrav1.OLVMStatus) {}},
		"names that were resolved": {
			func(s *machineScope) {
				s.desired.built = &desired.Built{Names: &infrav1.OLVMStatus{ClusterName: "Default", VNICID: "x",
					IPAddress: "y"}}
			},
			func(o *infrav1.OLVMStatus) { o.ClusterName = "Default" },
		},
		"a VM that was asked for before it has a name of its own": {
			func(s *machineScope) {
				s.olvmMachine.Annotations = map[string]string{infrav1.CreateRequestedAnnotation: "m"}
				s.olvmMachine.Status.OLVM.VirtualMachine.VMName = ""
			},
			func(o *infrav1.OLVMStatus) {
				o.VirtualMachine.VMName, o.VirtualMachine.CreateRequestSubmitted = "m", true
			},
		},
		"the name that the VM has stays": {
			func(s *machineScope) {
				s.olvmMachine.Annotations = map[string]string{infrav1.CreateRequestedAnnotation: "m"}
			},
			func(o *infrav1.OLVMStatus) { o.VirtualMachine.CreateRequestSubmitted = true },
		},
		"a network interface in the state": {
			func(s *machineScope) { s.observed.State = parsed(t, "", "ovirt_nic=nic-2") },
			func(o *infrav1.OLVMStatus) { o.VNICID = "nic-2" },
		},
		"a state without one": {
			func(s *machineScope) { s.observed.State = parsed(t, "", "ovirt_vm="+vmID) },
			func(*infrav1.OLVMStatus) {},
		},
		"a VM that the engine has": {
			func(s *machineScope) {
				s.vm = vmFacts{current: &engine.VM{ID: vmID, Name: "m", Status: engine.VMUp}, host: "host-2"}
			},
			func(o *infrav1.OLVMStatus) {
				o.VirtualMachine = infrav1.VirtualMachineStatus{
					VMID: vmID, VMName: "m", Status: "up", HostName: "host-2", CreationStatus: "Created",
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			scope := &machineScope{olvmMachine: newMachine(""), machine: newObjects().machine,
				workspace: &workspace.Workspace{}}
			scope.olvmMachine.Status.OLVM = before()
			tt.change(scope)
			setMachineFacts(scope, nil)

			want := before()
			tt.want(want)
			check.Equal(t, "status.olvm", scope.olvmMachine.Status.OLVM, want)
		})
	}
}

func TestTheFailureDomainIsKnownWhenTheVMIsPlaced(t *testing.T) {
	scope := &machineScope{olvmMachine: newMachine(""), machine: newObjects().machine,
		workspace: &workspace.Workspace{}}
	scope.machine.Spec.FailureDomain = "a"
	setMachineFacts(scope, nil)
	check.Equal(t, "before", scope.olvmMachine.Status.FailureDomain, "")

	scope.desired.built = &desired.Built{Names: &infrav1.OLVMStatus{}}
	setMachineFacts(scope, nil)
	check.Equal(t, "after", scope.olvmMachine.Status.FailureDomain, "a")
}

// TestWhenAddressesAreWritten verifies that the last known addresses stay if a pass has not seen all of them.
func TestWhenAddressesAreWritten(t *testing.T) {
	static := []addressing.NIC{{Guest: &addressing.GuestNIC{}}}
	leased := []addressing.NIC{{Guest: &addressing.GuestNIC{DHCPv4: true}}}
	old, found := []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP,
		Address: "10.0.0.9"}}, []clusterv1.MachineAddress{
		{Type: clusterv1.MachineInternalIP, Address: "10.0.0.10"},
		{Type: clusterv1.MachineInternalIP, Address: "fd00::10"},
		{Type: clusterv1.MachineHostName, Address: "m"},
	}
	addresses := []netip.Addr{netip.MustParseAddr("10.0.0.10"), netip.MustParseAddr("fd00::10")}

	for name, tt := range map[string]struct {
		nics      []addressing.NIC
		asked     bool
		addresses []netip.Addr
		before    []clusterv1.MachineAddress
		noMachine bool
		want      []clusterv1.MachineAddress
	}{
		"static addresses need no guest": {
			nics: static, addresses: addresses, before: old, want: found,
		},
		"leased ones that the guest was asked for": {
			nics: leased, asked: true, addresses: addresses, before: old, want: found,
		},
		"leased ones of a guest that was not asked":    {nics: leased, addresses: addresses, before: old, want: old},
		"a machine whose interfaces are not known":     {addresses: addresses, before: old, want: old},
		"the first ones are better than none":          {addresses: addresses, want: found},
		"a guest that reports none keeps those it had": {nics: leased, asked: true, before: old, want: old},
		"a Machine that is gone has no name for the host": {
			nics: static, addresses: addresses, before: old, noMachine: true, want: old,
		},
	} {
		t.Run(name, func(t *testing.T) {
			scope := &machineScope{olvmMachine: newMachine(vmID), workspace: &workspace.Workspace{}}
			if !tt.noMachine {
				scope.machine = newObjects().machine
			}

			scope.network.nics, scope.guest.asked = tt.nics, tt.asked
			scope.olvmMachine.Status.Addresses = tt.before
			setMachineFacts(scope, tt.addresses)
			check.Equal(t, "status.addresses", scope.olvmMachine.Status.Addresses, tt.want)

			if slices.Equal(tt.want, found) {
				check.Equal(t, "status.olvm.ipAddress", scope.olvmMachine.Status.OLVM.IPAddress, "10.0.0.10")
			}
		})
	}
}

// TestMachineAddresses covers the addresses of a machine, and their order.
func TestMachineAddresses(t *testing.T) {
	more := func(m *infrav1.OLVMMachine) *infrav1.OLVMMachine {
		m.Spec.AdditionalNetworks = []infrav1.AdditionalNetwork{
			{OLVMNetwork: infrav1.OLVMNetwork{NetworkName: "storage"}},
		}

		return m
	}
	dhcp := func(vnic, device string) addressing.NIC {
		return addressing.NIC{
			OLVMNetwork: infrav1.OLVMNetwork{
				VNICName: vnic}, Guest: &addressing.GuestNIC{Interface: device, DHCPv4: true},
		}
	}
	report := func(device, address string) engine.GuestInterface {
		return engine.GuestInterface{Name: device, IPv4: []netip.Addr{netip.MustParseAddr(address)}}
	}

	for name, tt := range map[string]struct {
		machine  *infrav1.OLVMMachine
		recorded string
		nics     []addressing.NIC
		guest    []engine.GuestInterface
		want     string
	}{
		"one that is recorded":       {newMachine(""), `{"nic1":["10.0.0.10"]}`, nil, nil, "10.0.0.10"},
		"a record that nobody reads": {newMachine(""), `{`, nil, nil, ""},
		"the endpoint of the control plane is none of them": {
			newMachine(""), `{"nic1":["10.0.0.10","10.0.0.5"]}`, nil, nil, "10.0.0.10",
		},
		"none twice": {
			newMachine(""), `{"nic1":["10.0.0.10"]}`, []addressing.NIC{dhcp("nic1", "enp1s0")},
			[]engine.GuestInterface{report("enp1s0", "10.0.0.10"),
				report("enp1s0", "10.0.0.11")}, "10.0.0.10 10.0.0.11",
		},
		"those of the first interface come first": {
			more(newMachine("")), `{"nic1":["10.0.0.10"],"nic2":["10.9.0.10"]}`, nil, nil, "10.0.0.10 10.9.0.10",
		},
		"none while the node's own is not known": {more(newMachine("")), `{"nic2":["10.9.0.10"]}`, nil, nil, ""},
		"an interface that the guest configures by itself": {
			more(newMachine("")), `{"nic2":["10.9.0.10"]}`, []addressing.NIC{dhcp("nic1", "enp1s0")},
			[]engine.GuestInterface{report("enp1s0", "10.0.0.77")}, "10.0.0.77 10.9.0.10",
		},
		"interfaces that the spec has no longer come last, by their names": {
			newMachine(""), `{"nic3":["10.9.0.3"],"nic1":["10.0.0.10"],"nic2":["10.9.0.2"]}`, nil, nil,
			"10.0.0.10 10.9.0.2 10.9.0.3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			scope := &machineScope{olvmMachine: tt.machine, olvmCluster: newObjects().olvmCluster}
			scope.olvmMachine.Annotations = map[string]string{infrav1.AddressesAnnotation: tt.recorded}
			scope.network.nics, scope.guest.interfaces = tt.nics, tt.guest
			check.Equal(t, "addresses", joined(scope.machineAddresses()), tt.want)
		})
	}

	withoutCluster := &machineScope{olvmMachine: newMachine("")}
	withoutCluster.olvmMachine.Annotations = map[string]string{infrav1.AddressesAnnotation: `{"nic1":["10.0.0.5"]}`}
	check.Equal(t, "of a machine without a cluster", joined(withoutCluster.machineAddresses()), "10.0.0.5")
}

func joined(addresses []netip.Addr) string {
	var out []string
	for _, address := range addresses {
		out = append(out, address.String())
	}

	return strings.Join(out, " ")
}

// TestReportedAddresses covers the choice of reported addresses for a network interface.
func TestReportedAddresses(t *testing.T) {
	guest := []engine.GuestInterface{
		{Name: "enp1s0", IPv4: []netip.Addr{netip.MustParseAddr("10.0.0.77")},
			IPv6: []netip.Addr{netip.MustParseAddr("fd00::77")}},
		{Name: "cni0", IPv4: []netip.Addr{netip.MustParseAddr("10.244.0.1")}},
	}

	for name, tt := range map[string]struct {
		nic  addressing.NIC
		want string
	}{
		"one that the guest has by DHCP": {
			addressing.NIC{Guest: &addressing.GuestNIC{Interface: "enp1s0", DHCPv4: true}}, "10.0.0.77",
		},
		"one that a router announces": {
			addressing.NIC{Guest: &addressing.GuestNIC{Interface: "enp1s0", AutoConf: true}}, "fd00::77",
		},
		"static ones are recorded, not reported": {
			addressing.NIC{Guest: &addressing.GuestNIC{Interface: "enp1s0"}}, "",
		},
		"the configuration is not ours": {addressing.NIC{}, ""},
		"an interface that the guest lacks": {
			addressing.NIC{Guest: &addressing.GuestNIC{Interface: "eth0", DHCPv4: true}}, "",
		},
		"a claimed VM keeps all that it has": {
			addressing.NIC{Guest: &addressing.GuestNIC{Interface: "eth0", Own: true}}, "10.0.0.77 fd00::77 10.244.0.1",
		},
	} {
		tt.nic.VNICName = "nic1"
		scope := &machineScope{network: networkFacts{nics: []addressing.NIC{tt.nic}},
			guest: guestFacts{interfaces: guest}}
		check.Equal(t, name, joined(scope.reportedAddresses("nic1")), tt.want)
		check.Equal(t, name+", asked for another interface", joined(scope.reportedAddresses("nic2")), "")
		check.Equal(t, name+", dynamic", scope.hasDynamic(), tt.nic.IsDynamic())
	}
}

// TestVMIDOfAMachine covers the sources of the ID of a VM.
func TestVMIDOfAMachine(t *testing.T) {
	inState := parsed(t, "", "ovirt_vm="+otherVMID)
	claimed := &infrav1alpha1.OLVMInventoryVM{Spec: infrav1alpha1.OLVMInventoryVMSpec{VMID: otherVMID}}

	for name, tt := range map[string]struct {
		machine *infrav1.OLVMMachine
		state   *tfstate.State
		claim   claimFacts
		want    engine.ID
	}{
		"nothing is known":             {newMachine(""), nil, claimFacts{}, ""},
		"what is recorded comes first": {newMachine(vmID), inState, claimFacts{}, vmID},
		"what the state has":           {newMachine(""), inState, claimFacts{}, otherVMID},
		"a claim that is confirmed":    {newMachine(""), nil, claimFacts{object: claimed}, otherVMID},
		"a claim that is not":          {newMachine(""), nil, claimFacts{object: claimed, err: &blocker.Error{}}, ""},
		"a provider ID of another provider": {
			&infrav1.OLVMMachine{Spec: infrav1.OLVMMachineSpec{ProviderID: "aws://i-1"}}, nil, claimFacts{}, "",
		},
	} {
		scope := &machineScope{olvmMachine: tt.machine, claim: tt.claim,
			observed: workspace.Observation{State: tt.state}}
		check.Equal(t, name, scope.vmID(), tt.want)
	}
}

// TestTheOnlyMachineOfAControlPlaneIsNotToBeDeleted checks each advice to delete a Machine, for a control plane machine
// and for a worker.
func TestTheOnlyMachineOfAControlPlaneIsNotToBeDeleted(t *testing.T) {
	for name, vm := range map[string]vmFacts{
		"the VM is gone":      {missing: true},
		"the VM is down":      {current: &engine.VM{Status: engine.VMDown}},
		"the VM is suspended": {current: &engine.VM{Status: engine.VMSuspended}},
	} {
		for control, want := range map[bool]string{
			true:  "Keep the last control plane machine: it has the only copy of etcd",
			false: "delete the Machine",
		} {
			t.Run(fmt.Sprintf("%s, control plane %t", name, control), func(t *testing.T) {
				scope := &machineScope{
					olvmMachine: provisioned(newMachine(vmID)), vm: vm, machine: &clusterv1.Machine{},
				}
				if control {
					scope.machine.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
				}

				setRunningCondition(scope)
				said := message(scope.olvmMachine, infrav1.VirtualMachineRunningCondition)
				check.Contains(t, "the message", said, want)
				check.Equal(t, "whether etcd is spoken of", strings.Contains(said, "etcd"), control)
			})
		}
	}
}
