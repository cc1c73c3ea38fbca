package machine

import (
	"context"
	"fmt"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// reconcileDelete destroys the VM, deletes the state, and removes the finalizer, in this order. It stops at the first
// unfinished step, so it never releases an address still in use by the VM.
func (r *Reconciler) reconcileDelete(ctx context.Context, scope *machineScope) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(scope.olvmMachine, infrav1.MachineFinalizer) {
		return ctrl.Result{}, nil
	}

	r.vmEnds.dropEnd(scope.workspace.Key())

	if _, err := r.reconcileState(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}

	if workspace.IsMoving(scope.olvmMachine) {
		scope.blocked = blocker.NewDeletionError(
			0, "The object is being moved to another management cluster; its VM stays",
		)

		return ctrl.Result{}, nil
	}

	if _, err := r.reconcileEngine(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}

	if _, err := r.reconcileClaim(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}

	if scope.olvmCluster == nil && (!scope.observed.State.Empty() || addressing.CanHaveVM(scope.olvmMachine)) {
		scope.blocked = explainNoEngine(scope)
		return ctrl.Result{RequeueAfter: scope.blocked.RetryAfter}, nil
	}

	if scope.olvmCluster == nil {
		scope.engine.err = &blocker.Error{
			Reason:  infrav1.WaitingForEngineReason,
			Field:   "Cluster spec.infrastructureRef",
			Message: "the OLVMCluster with the engine's URL does not exist",
		}
	}

	r.checkOwnershipForDelete(ctx, scope)
	if scope.blocked != nil {
		return ctrl.Result{RequeueAfter: scope.blocked.RetryAfter}, nil
	}

	return r.reconcileDestroy(ctx, scope)
}

// explainNoEngine explains why the engine of a machine without a Cluster is unknown, and names the remedy.
func explainNoEngine(scope *machineScope) *blocker.Error {
	label := clusterv1.ClusterNameLabel + "=" + scope.olvmMachine.Labels[clusterv1.ClusterNameLabel]
	problem, remedy := "The OLVMCluster with the engine's URL does not exist", "recreate it with the label "+label
	if len(scope.olvmClusters) > 0 {
		names := strings.Join(scope.olvmClusters, ", ")
		problem = fmt.Sprintf("Several OLVMClusters have the label %s: %s", label, names)
		remedy = "keep the label only on the OLVMCluster with the machine's engine"
	}

	return blocker.NewDeletionError(steadyInterval,
		"%s. To delete the VM %s, %s. To keep the VM, remove the finalizer %s from this object",
		problem, scope.vmID(), remedy, infrav1.MachineFinalizer)
}

// checkOwnershipForDelete verifies ownership of every VM named by the object, its state or its claim. It runs before
// any change to a VM.
func (r *Reconciler) checkOwnershipForDelete(ctx context.Context, scope *machineScope) {
	if scope.engine.session == nil {
		return
	}

	ids := scope.vmIDs()
	scope.vm.missing = len(ids) > 0

	for _, id := range ids {
		vm, err := scope.engine.session.FetchVM(ctx, id)

		switch {
		case engine.IsNotFound(err):
			continue
		case err != nil:
			scope.vm.err, scope.vm.missing = err, false
			return
		}

		scope.vm.current, scope.vm.missing = vm, false
		if scope.blocked = explainNotDeleted(scope, vm); scope.blocked != nil {
			return
		}
	}
}

// explainNotDeleted explains why a VM must not be deleted for the machine. It returns nil if deletion is allowed.
func explainNotDeleted(scope *machineScope, vm *engine.VM) *blocker.Error {
	if ours := ownermark.NewOwner(scope.olvmMachine); !isOwned(ours, vm) {
		return blocker.NewDeletionError(engineRetry, "VM %s (%s) does not have the mark of this machine: its comment "+
			"is %q. To delete the VM, replace its comment with exactly %q. To keep it, remove the finalizer %s from "+
			"this object; this also releases addresses of IPAM providers",
			vm.Name, vm.ID, vm.CommentText(), ours.Comment(), infrav1.MachineFinalizer)
	}

	if vm.DeleteProtected != nil && *vm.DeleteProtected && !scope.isFromInventory() {
		// Check this first. Otherwise, the run would power off the VM, and then fail to delete it.
		return blocker.NewDeletionError(engineRetry, "VM %s (%s) is protected against deletion. To delete it, turn "+
			"off Delete Protection in the engine", vm.Name, vm.ID)
	}

	return nil
}

// reconcileDestroy submits a destroy run if needed, and releases the object once nothing is left.
func (r *Reconciler) reconcileDestroy(ctx context.Context, scope *machineScope) (ctrl.Result, error) {
	request := workspace.Request{
		Facts: workspace.Facts{
			Ready: scope.engine.session != nil && scope.vm.err == nil,
			// A submitted run may have created a VM without recording its ID. Only the destroy run looks for such a VM
			// by name.
			MayExist:     !scope.vm.missing && addressing.CanHaveVM(scope.olvmMachine),
			Seen:         scope.vm.current != nil && !scope.isFromInventory(), // no run deletes VMs of an inventory
			ShutdownLeft: computeShutdownLeft(scope),
		},
		Subject: func() workspace.Subject { return r.newSubject(scope) },
	}
	if scope.olvmCluster != nil {
		request.Engine = connection.GetEngineID(scope.olvmCluster).Key()
	}

	action, err := scope.workspace.Destroy(ctx, scope.observed, request)
	if scope.action = action; err != nil {
		return ctrl.Result{}, err
	}

	if action.Reason == infrav1.WaitingForGuestShutdownReason && scope.vm.current.Status == engine.VMUp {
		err := scope.engine.session.ShutdownVM(ctx, scope.vm.current.ID, false)
		if err != nil && !engine.IsConflict(err) {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to ask the guest to shut down; retrying until its power is cut")
		}
	}

	if action.Kind == workspace.Release {
		return ctrl.Result{}, r.releaseMachine(ctx, scope)
	}

	return ctrl.Result{RequeueAfter: action.After}, nil
}

// releaseMachine releases the machine's addresses and claim, deletes its state, and removes the finalizer.
func (r *Reconciler) releaseMachine(ctx context.Context, scope *machineScope) error {
	if err := r.Addresses.ReleaseClaims(ctx, scope.olvmMachine); err != nil {
		return err
	}

	if err := scope.workspace.Remove(ctx); err != nil {
		return err
	}

	if err := r.releaseClaim(ctx, scope); err != nil {
		return err
	}

	r.watcher.Unwatch(scope.workspace.Key())
	controllerutil.RemoveFinalizer(scope.olvmMachine, infrav1.MachineFinalizer)

	return nil
}

// defaultShutdown is the default time for a guest to shut down.
const defaultShutdown = 5 * time.Minute

// computeShutdownLeft returns the time left for a graceful shutdown of the guest, or 0 if the destroy run need not wait
// for one. It counts from the deletion timestamp, so a restart of the manager does not prolong it.
func computeShutdownLeft(scope *machineScope) time.Duration {
	want, vm := scope.olvmMachine.Spec.VirtualMachine.Shutdown, scope.vm.current
	if want.Mode != "Graceful" || vm == nil || vm.Status != engine.VMUp && vm.Status != engine.VMPoweringDown {
		return 0
	}

	limit := time.Duration(want.TimeoutSeconds) * time.Second
	if limit == 0 {
		limit = defaultShutdown
	}

	return max(time.Until(scope.olvmMachine.DeletionTimestamp.Add(limit)), 0)
}
