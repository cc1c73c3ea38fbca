// Package remediation reconciles OLVMRemediations. It reboots the VMs of machines found unhealthy by a
// MachineHealthCheck. If reboots do not help, it asks Cluster API to replace the machine.
package remediation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/conditions"
	capicontrollerutil "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/enginepool"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

const (
	// poll is the interval of checks while a VM goes down or starts.
	poll = 5 * time.Second
	// steady is the interval of all other checks of facts without events.
	steady = 15 * time.Second
	// unrequestedGrace is the lifetime of an object whose Machine no MachineHealthCheck has found unhealthy. A
	// MachineHealthCheck ignores a Machine that has an object, so a moved or restored object would block it.
	unrequestedGrace = 2 * time.Minute
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmremediations,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmremediations/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmmachines;olvmclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/status,verbs=patch

// Reconciler reconciles OLVMRemediations.
type Reconciler struct {
	Client client.Client
	// APIReader reads Machines, because the cache omits their conditions.
	APIReader client.Reader
	Engines   *enginepool.Registry
	// Runs is shared by all controllers. The controller does not reboot a VM while Terraform changes it.
	Runs     *workspace.RunQueue
	Recorder events.EventRecorder
	// Workloads connects to the workload clusters, to check whether a Node is fenced.
	Workloads clustercache.ClusterCache
	// WatchFilterValue selects the OLVMMachines to remediate. If it is empty, it selects all.
	WatchFilterValue string

	passes pass.Tracker
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if r.Client == nil || r.APIReader == nil || r.Engines == nil || r.Runs == nil || r.Recorder == nil ||
		r.Workloads == nil {
		return errors.New("fields Client, APIReader, Engines, Runs, Recorder and Workloads must be set")
	}

	log := ctrl.LoggerFrom(ctx).WithValues("controller", "olvmremediation")
	err := capicontrollerutil.NewControllerManagedBy(mgr, log).
		For(&infrav1alpha1.OLVMRemediation{}, builder.WithPredicates(r.passes.ChangedPredicate())).
		WithOptions(options).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(machineToRemediation),
			pass.SpecOrOwnersChanged).
		Complete(ctx, r)
	if err != nil {
		return fmt.Errorf("failed to set up the OLVMRemediation controller: %w", err)
	}

	return nil
}

// machineToRemediation maps a Machine to its remediation, which has the same name.
func machineToRemediation(_ context.Context, object client.Object) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
}

// scope holds the facts of one pass.
type scope struct {
	pass        *pass.Pass
	remediation *infrav1alpha1.OLVMRemediation

	// The owners are nil if they do not exist.
	machine     *clusterv1.Machine
	cluster     *clusterv1.Cluster
	olvmMachine *infrav1.OLVMMachine
	olvmCluster *infrav1.OLVMCluster
	// session is nil if the engine is unavailable. vm is nil then, and also if the engine has no such VM.
	session *engine.Client
	vm      *engine.VM
	// blocked explains why the controller must do nothing now. It is nil if it may act.
	blocked *blocker.Error
	// stepEvent is the event of the pass, or nil. failed reports an error of the pass.
	stepEvent *stepEvent
	failed    bool
}

// stepEvent is an event.
type stepEvent struct{ kind, reason, text string }

// Reconcile runs one pass for an OLVMRemediation.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return pass.Controller[*infrav1alpha1.OLVMRemediation]{
		Tracker:          &r.passes,
		Client:           r.Client,
		Recorder:         r.Recorder,
		WatchFilterValue: r.WatchFilterValue,
		Open:             r.openPass,
	}.Reconcile(ctx, req, &infrav1alpha1.OLVMRemediation{})
}

// openPass finds the owners of a remediation.
func (r *Reconciler) openPass(
	ctx context.Context, of *pass.Pass, remediation *infrav1alpha1.OLVMRemediation,
) (pass.Frame, error) {
	s := &scope{pass: of, remediation: remediation}
	if err := r.findOwners(ctx, s); err != nil {
		return pass.Frame{}, err
	}

	wasPaused := conditions.IsTrue(remediation, clusterv1.PausedCondition)

	return pass.Frame{
		Labelled: s.labelledOwner(),
		EnsurePaused: func(ctx context.Context) (bool, error) {
			return workspace.EnsurePausedConditionWithoutState(ctx, of, remediation, "OLVMRemediation", s.cluster)
		},
		RetryPaused: steady,
		Work: func(ctx context.Context) (ctrl.Result, error) {
			if wasPaused && remediation.Status.Step != "" { // Cluster API did not check the node meanwhile
				remediation.Status.StepTime = currentTime()
			}

			after, err := r.reconcileStep(ctx, s)
			s.failed = err != nil

			return ctrl.Result{RequeueAfter: pass.Jitter(after)}, err
		},
		SetStatus: func() { updateStatus(s) },
		Written:   func(bool) { r.announceStep(s) },
	}, nil
}

// announceStep records the event of a pass, unless the pass has failed.
func (r *Reconciler) announceStep(s *scope) {
	if s.stepEvent != nil && !s.failed {
		e := s.stepEvent
		r.Recorder.Eventf(s.remediation, s.machine, e.kind, e.reason, "Remediate", "%s", e.text)
	}
}

// labelledOwner returns the object with the watch label. If the owners do not exist, any manager may release a
// remediation in deletion. Only a manager without a filter reconciles other remediations without owners.
func (s *scope) labelledOwner() metav1.Object {
	switch {
	case s.olvmMachine != nil:
		return s.olvmMachine
	case s.machine != nil:
		return s.machine
	case !s.remediation.DeletionTimestamp.IsZero():
		return nil
	}

	return &metav1.ObjectMeta{}
}

// currentTime returns the time, as stored in a status.
func currentTime() metav1.Time { return metav1.NewTime(time.Now().Truncate(time.Second)) }

// reconcileStep takes the next step. It returns the delay before the next check.
func (r *Reconciler) reconcileStep(ctx context.Context, s *scope) (time.Duration, error) {
	if !s.remediation.DeletionTimestamp.IsZero() {
		return r.reconcileDelete(ctx, s)
	}

	s.blocked = explainNotRemediated(s)
	if s.blocked == nil {
		r.reconcileVM(ctx, s)
	}

	if s.blocked != nil {
		return steady, r.deleteUnrequested(ctx, s)
	}

	restartClock(s)

	// Without the finalizer, the object could be deleted while the VM is off.
	controllerutil.AddFinalizer(s.remediation, infrav1alpha1.RemediationFinalizer)

	return r.takeStep(ctx, s)
}

// restartClock restarts the time limit of the step if the controller could not act, or if Cluster API could not reach
// the Node.
func restartClock(s *scope) {
	status := &s.remediation.Status
	if status.Step == "" || status.Step == infrav1alpha1.GivenUpStep {
		return
	}

	var reason string
	if known := conditions.Get(s.remediation, infrav1.RemediatedCondition); known != nil {
		reason = known.Reason
	}

	probe := conditions.Get(s.cluster, clusterv1.ClusterRemoteConnectionProbeCondition)
	isBlind := status.Step == infrav1alpha1.WaitingStep && probe != nil && probe.Status != metav1.ConditionTrue
	if isBlind || slices.Contains([]string{
		infrav1.WaitingForEngineReason, infrav1.WaitingForTerraformReason, infrav1.RemediationSkippedReason,
	}, reason) {
		status.StepTime = currentTime()
	}
}

// deleteUnrequested deletes an object not needed by a MachineHealthCheck. The MachineHealthCheck creates a new one if
// necessary. If the Machine is unhealthy but its OLVMMachine or OLVMCluster is missing, deleteUnrequested asks the
// Machine's owner for a replacement instead.
func (r *Reconciler) deleteUnrequested(ctx context.Context, s *scope) error {
	reason := s.blocked.Reason
	known := conditions.Get(s.remediation, infrav1.RemediatedCondition)
	if reason != infrav1.WaitingForHealthCheckReason && reason != infrav1.MachineNotFoundReason ||
		known == nil || known.Reason != reason || time.Since(known.LastTransitionTime.Time) < unrequestedGrace {
		return nil
	}

	if s.machine != nil && conditions.IsFalse(s.machine, clusterv1.MachineHealthCheckSucceededCondition) {
		return r.requestReplacement(ctx, s)
	}

	err := r.Client.Delete(ctx, s.remediation, client.Preconditions{
		UID: &s.remediation.UID, ResourceVersion: &s.remediation.ResourceVersion,
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("failed to delete OLVMRemediation %s: %w", s.remediation.Name, err)
	}

	return nil
}

// takeStep takes the next step of the remediation.
func (r *Reconciler) takeStep(ctx context.Context, s *scope) (time.Duration, error) {
	status := &s.remediation.Status

	switch decideAction(s.remediation, s.vm, time.Now()) {
	case begin:
		if err := r.checkTurn(ctx, s); err != nil || s.blocked != nil {
			return steady, err
		}

		status.Step, status.StepTime, status.PowerOffTime = infrav1alpha1.PoweringOffStep, currentTime(), metav1.Time{}
		status.Attempts++
		s.stepEvent = &stepEvent{corev1.EventTypeNormal, "Rebooting", fmt.Sprintf(
			"Powering VM %s off and on: reboot %d of %d",
			s.vm.Name, status.Attempts, s.remediation.Spec.Strategy.Retries())}

		return time.Millisecond, nil
	case powerOff:
		err := r.powerOff(ctx, s)

		return s.computeRequeueDelay(), err
	case recordOff:
		if status.PowerOffTime.IsZero() { // it was already down
			status.PowerOffTime = currentTime()
		}

		status.Step, status.StepTime = infrav1alpha1.StartingStep, currentTime()

		return time.Millisecond, nil
	case start:
		err := r.startVM(ctx, s)

		return s.computeRequeueDelay(), err
	case recordStart:
		status.Step, status.StepTime = infrav1alpha1.WaitingStep, currentTime()
		return poll, nil
	case giveUp:
		return steady, r.giveUp(ctx, s)
	}

	if isOverdue(s.remediation, time.Now()) {
		return steady, r.requestReplacement(ctx, s)
	}

	if status.Step == infrav1alpha1.WaitingStep {
		return steady, nil
	}

	return poll, nil
}

// computeRequeueDelay returns the delay before the next check after a request. After a refusal by the engine, the delay
// is longer.
func (s *scope) computeRequeueDelay() time.Duration {
	if s.blocked != nil {
		return steady
	}

	return poll
}

// giveUp ends the remediation, and asks the owner of the Machine to replace it.
func (r *Reconciler) giveUp(ctx context.Context, s *scope) error {
	s.remediation.Status.Step = infrav1alpha1.GivenUpStep

	return r.requestReplacement(ctx, s)
}

// requestReplacement asks the owner of the Machine to replace it, like a MachineHealthCheck without a template.
func (r *Reconciler) requestReplacement(ctx context.Context, s *scope) error {
	if conditions.IsFalse(s.machine, clusterv1.MachineOwnerRemediatedCondition) {
		return nil // from now on, the owner writes the condition
	}

	machine := s.machine.DeepCopy()
	setOwnerRemediated(machine, s)

	// Read the Machine from the API server: a patch replaces all conditions, and the cache omits them.
	patch := client.MergeFromWithOptions(s.machine, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, machine, patch); apierrors.IsConflict(err) {
		return nil // the next pass reads it again
	} else if err != nil {
		return fmt.Errorf("failed to ask the owner of Machine %s to replace it: %w", machine.Name, err)
	}

	return nil
}

// reconcileDelete starts the VM if the controller has powered it off, and releases the object. If the Machine is being
// deleted, it does not start the VM.
func (r *Reconciler) reconcileDelete(ctx context.Context, s *scope) (time.Duration, error) {
	isDeleting := s.machine == nil || !s.machine.DeletionTimestamp.IsZero() || s.olvmMachine == nil ||
		!s.olvmMachine.DeletionTimestamp.IsZero() || s.olvmCluster == nil
	if isDeleting || !shouldStart(s.remediation) {
		return releaseObject(s)
	}

	since := time.Since(s.remediation.DeletionTimestamp.Time)
	r.reconcileVM(ctx, s)

	mayGoDown := s.remediation.Status.Step != infrav1alpha1.StartingStep && since < engine.StopPatience

	switch {
	case since > s.remediation.Spec.Strategy.Timeout(): // Cluster API remediates nothing while the object exists
		s.stepEvent = &stepEvent{corev1.EventTypeWarning, "VirtualMachineMayBeOff",
			"The VM of the machine was powered off, and has not been seen running since; check it in the engine"}

		return releaseObject(s)
	case s.blocked != nil:
		return steady, nil
	case s.vm == nil || canRelease(s, mayGoDown):
		return releaseObject(s)
	case decideStart(s.vm.Status) == start:
		err := r.startVM(ctx, s)

		return s.computeRequeueDelay(), err
	}

	return poll, nil
}

// canRelease reports whether the VM runs again. The object stays while the OLVMMachine still reports a failed VM.
// Without the object, the Node controller would fence a VM that runs.
func canRelease(s *scope, mayGoDown bool) bool {
	return decideStart(s.vm.Status) == recordStart && !mayGoDown && !pass.HasVMFailed(s.olvmMachine)
}

// releaseObject removes the finalizer. No further check is necessary.
func releaseObject(s *scope) (time.Duration, error) {
	controllerutil.RemoveFinalizer(s.remediation, infrav1alpha1.RemediationFinalizer)
	return 0, nil
}
