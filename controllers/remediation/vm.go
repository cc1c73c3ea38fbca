package remediation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// reconcileVM finds the VM of the machine in the engine, or sets the reason to wait. Anybody with write access to an
// OLVMMachine can set the ID of any VM. The controller therefore changes only a VM with the owner mark of the machine.
func (r *Reconciler) reconcileVM(ctx context.Context, s *scope) {
	if r.checkRunInFlight(s) {
		return
	}

	if err := r.findVM(ctx, s); err != nil && !errors.As(err, &s.blocked) {
		s.blocked = &blocker.Error{Reason: infrav1.WaitingForEngineReason, Message: err.Error()}
	}
}

// checkRunInFlight reports whether Terraform is changing the machine. If so, it also sets the reason to wait.
func (r *Reconciler) checkRunInFlight(s *scope) bool {
	if !r.Runs.IsInFlight(workspace.NewMachineKey(s.olvmMachine)) {
		return false
	}

	s.blocked = &blocker.Error{
		Reason: infrav1.WaitingForTerraformReason, Message: "Waiting for the Terraform run of the machine to end",
	}

	return true
}

// findVM sets the session, and the VM if the engine has it. A *blocker.Error explains why the VM must not be changed.
func (r *Reconciler) findVM(ctx context.Context, s *scope) error {
	session, _, _, err := r.Engines.OpenMachineSession(ctx, connection.ClusterEngine(s.olvmCluster), s.olvmMachine)
	if err != nil {
		return err
	}

	id := bootstrap.ParseProviderID(s.olvmMachine.Spec.ProviderID)
	if id == "" {
		s.session = session
		return nil
	}

	vm, err := session.FetchVM(ctx, engine.ID(id))
	if engine.IsNotFound(err) {
		s.session = session
		return confirmMissing(s.olvmMachine)
	} else if err != nil {
		return err
	}

	if !ownermark.NewOwner(s.olvmMachine).IsNamedIn(vm.CommentText()) {
		return &blocker.Error{Reason: infrav1.VMNotOwnedReason, Message: fmt.Sprintf(
			"VM %s does not have the mark of OLVMMachine %s, so the controller does not reboot it", id,
			s.olvmMachine.Name)}
	}

	s.session, s.vm = session, vm

	return nil
}

// confirmMissing returns an error unless the condition of the OLVMMachine also reports that the VM does not exist. A
// single answer of the engine must not lead to a replacement.
func confirmMissing(m *infrav1.OLVMMachine) error {
	running := conditions.Get(m, infrav1.VirtualMachineRunningCondition)
	if running != nil && running.Reason == infrav1.VirtualMachineNotFoundReason {
		return nil
	}

	return &blocker.Error{
		Reason:  infrav1.WaitingForVirtualMachineReason,
		Message: "The engine does not have the VM; waiting for the condition VirtualMachineRunning to report this",
	}
}

// powerOff asks the engine to power off the VM.
func (r *Reconciler) powerOff(ctx context.Context, s *scope) error {
	if r.checkRunInFlight(s) { // a run may have begun since the VM was read
		return nil
	}

	if err := r.Runs.MayAct(ctx); err != nil {
		return err
	}

	err := s.session.StopVM(ctx, s.vm.ID, true)
	if err == nil {
		s.remediation.Status.PowerOffTime = currentTime()
		return nil
	}

	if engine.IsRefused(err) && isOver(s.remediation, time.Now()) {
		return r.giveUp(ctx, s)
	}

	reportError(s, err)

	return nil
}

// startVM asks the engine to start the VM. If the VM stays down for too long, startVM also asks the owner of the
// Machine to replace it. Some owners do not replace a Machine, so later passes ask the engine again.
func (r *Reconciler) startVM(ctx context.Context, s *scope) error {
	if err := r.Runs.MayAct(ctx); err != nil {
		return err
	}

	if s.blocked = r.fetchStartBlocker(ctx, s); s.blocked == nil {
		reportError(s, s.session.StartVM(ctx, s.vm.ID, false))
	}

	if isOver(s.remediation, time.Now()) && s.remediation.DeletionTimestamp.IsZero() {
		return r.requestReplacement(ctx, s)
	}

	return nil
}

// reportError records an error of the engine as the reason to wait. A later pass repeats the request.
func reportError(s *scope, err error) {
	switch {
	case err == nil:
	case engine.IsRefused(err):
		s.blocked = &blocker.Error{Reason: infrav1.WaitingForVirtualMachineReason, Message: err.Error()}
	default:
		s.blocked = &blocker.Error{Reason: infrav1.WaitingForEngineReason, Message: err.Error()}
	}
}
