// Package remediation reconciles OLVMRemediations: it reboots the VMs of machines that a MachineHealthCheck has found
// unhealthy, and has Cluster API replace those that a reboot does not heal.
package remediation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	capicontrollerutil "sigs.k8s.io/cluster-api/util/controller"
	"sigs.k8s.io/cluster-api/util/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/enginepool"
	"github.com/capolvm/cluster-api-provider-olvm/internal/objectstatus"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

const (
	// poll is how often a VM is looked at while it goes down or starts.
	poll = 5 * time.Second
	// steady is how often all else is looked at again that wakes nobody.
	steady = 15 * time.Second
	// unasked is how long an object stays if no MachineHealthCheck has found its Machine unhealthy. A
	// MachineHealthCheck ignores a Machine that has an object, so a moved or restored object is in the way.
	unasked = 2 * time.Minute
	// jitter spreads periodic work, as a share.
	jitter = 0.2
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmremediations,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmremediations/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmmachines;olvmclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/status,verbs=patch

// Reconciler reconciles OLVMRemediations.
type Reconciler struct {
	Client client.Client
	// APIReader reads Machines, whose conditions the cache does not hold.
	APIReader client.Reader
	Engines   *enginepool.Pool
	// Runs are shared by all controllers. A VM is not rebooted while Terraform changes it.
	Runs     *workspace.RunQueue
	Recorder events.EventRecorder
	// WatchFilterValue selects the OLVMMachines that are remediated; empty selects all.
	WatchFilterValue string

	passes pass.Tracker
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if r.Client == nil || r.APIReader == nil || r.Engines == nil || r.Runs == nil || r.Recorder == nil {
		return errors.New("fields Client, APIReader, Engines, Runs and Recorder must be set")
	}

	log := ctrl.LoggerFrom(ctx).WithValues("controller", "olvmremediation")
	err := capicontrollerutil.NewControllerManagedBy(mgr, log).
		For(&infrav1alpha1.OLVMRemediation{}, builder.WithPredicates(r.passes.Changed())).
		WithOptions(options).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(machineToRemediation),
			objectstatus.IgnoreStatus).
		Complete(ctx, r)
	if err != nil {
		return fmt.Errorf("failed to set up the OLVMRemediation controller: %w", err)
	}

	return nil
}

// machineToRemediation wakes the remediation of a Machine, which has the same name.
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
	// session and vm are nil if the engine cannot be used, or has no such VM.
	session *engine.Client
	vm      *engine.VM
	// blocked is why nothing is done now; nil if nothing is in the way.
	blocked *blocker.Error
	// news is the event of what the pass does; nil for none.
	news *news
}

// news is an event.
type news struct{ kind, reason, text string }

// Reconcile brings one OLVMRemediation forward.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, reterr error) {
	remediation := &infrav1alpha1.OLVMRemediation{}
	this, err := r.passes.Begin(ctx, r.Client, req.NamespacedName, remediation)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil
	} else if err != nil {
		return pass.Unbegun(err)
	}

	defer this.End(&result, &reterr)

	s := &scope{pass: this, remediation: remediation}
	if err := r.findOwners(ctx, s); err != nil {
		return ctrl.Result{}, err
	}

	orphan := s.watched() == nil && !remediation.DeletionTimestamp.IsZero() // any manager lets it go
	if r.WatchFilterValue != "" && !orphan &&
		(s.watched() == nil || !labels.HasWatchLabel(s.watched(), r.WatchFilterValue)) {
		return ctrl.Result{}, nil // another manager does it
	}

	wasPaused := conditions.IsTrue(remediation, clusterv1.PausedCondition)
	paused, err := workspace.PausedWithoutState(ctx, this, remediation, "OLVMRemediation", s.cluster)
	if err != nil || paused {
		return ctrl.Result{RequeueAfter: utilwait.Jitter(steady, jitter)}, err
	}

	if wasPaused && remediation.Status.Step != "" { // Cluster API did not look at the node meanwhile
		remediation.Status.StepTime = now()
	}

	after, err := r.reconcile(ctx, s)
	writeErr := objectstatus.Write(ctx, this, r.Recorder, remediation, func() { updateStatus(s) },
		func() map[string]string { return nil })
	if err == nil && objectstatus.IgnoreGone(writeErr) == nil && s.news != nil {
		r.Recorder.Eventf(remediation, s.machine, s.news.kind, s.news.reason, "Remediate", "%s", s.news.text)
	}

	return ctrl.Result{RequeueAfter: utilwait.Jitter(after, jitter)},
		kerrors.NewAggregate([]error{err, objectstatus.IgnoreGone(writeErr)})
}

// watched is the object whose label decides which manager remediates; nil if there is none.
func (s *scope) watched() metav1.Object {
	switch {
	case s.olvmMachine != nil:
		return s.olvmMachine
	case s.machine != nil:
		return s.machine
	}

	return nil
}

// now is the time, as a status stores it.
func now() metav1.Time { return metav1.NewTime(time.Now().Truncate(time.Second)) }

// reconcile does the next step. It returns when to look again.
func (r *Reconciler) reconcile(ctx context.Context, s *scope) (time.Duration, error) {
	if !s.remediation.DeletionTimestamp.IsZero() {
		return r.reconcileDelete(ctx, s)
	}

	s.blocked = whyNotRemediated(s)
	if s.blocked == nil {
		r.reconcileVM(ctx, s)
	}

	if s.blocked != nil {
		return steady, r.deleteUnasked(ctx, s)
	}

	r.restartClock(s)

	// Its object may be deleted while the VM is off.
	controllerutil.AddFinalizer(s.remediation, infrav1alpha1.RemediationFinalizer)

	return r.act(ctx, s)
}

// restartClock gives the step its whole time again if the controller could not act, or Cluster API could not see the
// node.
func (r *Reconciler) restartClock(s *scope) {
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
		status.StepTime = now()
	}
}

// deleteUnasked deletes an object that no MachineHealthCheck asks for any more. If it does, it makes another one. A
// Machine whose OLVMMachine is gone is its owner's to replace.
func (r *Reconciler) deleteUnasked(ctx context.Context, s *scope) error {
	reason := s.blocked.Reason
	known := conditions.Get(s.remediation, infrav1.RemediatedCondition)
	if reason != infrav1.WaitingForHealthCheckReason && reason != infrav1.MachineNotFoundReason ||
		known == nil || known.Reason != reason || time.Since(known.LastTransitionTime.Time) < unasked {
		return nil
	}

	if s.machine != nil && conditions.IsFalse(s.machine, clusterv1.MachineHealthCheckSucceededCondition) {
		return r.askOwner(ctx, s)
	}

	err := r.Client.Delete(ctx, s.remediation, client.Preconditions{
		UID: &s.remediation.UID, ResourceVersion: &s.remediation.ResourceVersion,
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("failed to delete OLVMRemediation %s: %w", s.remediation.Name, err)
	}

	return nil
}

// findOwners gets the Machine that owns the object, its Cluster, and their infrastructure. A Machine counts only if it
// has the name and the UID that the owner reference has.
func (r *Reconciler) findOwners(ctx context.Context, s *scope) error {
	machine := &clusterv1.Machine{}
	if found, err := fetch(ctx, r.APIReader, s, s.remediation.Name, machine); err != nil || !found {
		return err
	}

	for _, owner := range s.remediation.OwnerReferences {
		if owner.Kind == "Machine" && owner.UID == machine.UID &&
			strings.HasPrefix(owner.APIVersion, clusterv1.GroupVersion.Group+"/") {
			s.machine = machine
		}
	}

	if s.machine == nil {
		return nil
	}

	cluster := &clusterv1.Cluster{}
	if found, err := fetch(ctx, r.Client, s, machine.Spec.ClusterName, cluster); err != nil || !found {
		return err
	}

	s.cluster = cluster

	olvmMachine := &infrav1.OLVMMachine{}
	ref := machine.Spec.InfrastructureRef
	if ref.APIGroup == infrav1.GroupVersion.Group && ref.Kind == "OLVMMachine" {
		found, err := fetch(ctx, r.Client, s, ref.Name, olvmMachine)
		if err != nil {
			return err
		}

		if found && metav1.IsControlledBy(olvmMachine, machine) {
			s.olvmMachine = olvmMachine
		}
	}

	olvmCluster := &infrav1.OLVMCluster{}
	if ref := cluster.Spec.InfrastructureRef; ref.APIGroup != infrav1.GroupVersion.Group || ref.Kind != "OLVMCluster" {
		return nil
	}

	if found, err := fetch(ctx, r.Client, s, cluster.Spec.InfrastructureRef.Name, olvmCluster); err != nil || !found {
		return err
	}

	s.olvmCluster = olvmCluster

	return nil
}

// fetch gets an object of the namespace. It reports whether there is one.
func fetch(
	ctx context.Context, from client.Reader, s *scope, name string, object client.Object,
) (bool, error) {
	key := client.ObjectKey{Namespace: s.remediation.Namespace, Name: name}
	if err := from.Get(ctx, key, object); apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("failed to get %T %s: %w", object, key, err)
	}

	return true, nil
}

// whyNotRemediated returns why a machine is not remediated, whatever its VM does; nil if it may be.
func whyNotRemediated(s *scope) *blocker.Error {
	switch {
	case s.machine == nil:
		return &blocker.Error{
			Reason: infrav1.MachineNotFoundReason, Field: "metadata.ownerReferences", Message: fmt.Sprintf(
				"no Machine %s owns this object; Cluster API makes OLVMRemediations, so delete this one",
				s.remediation.Name),
		}
	case s.olvmMachine == nil || s.olvmCluster == nil:
		return &blocker.Error{
			Reason:  infrav1.MachineNotFoundReason,
			Message: fmt.Sprintf("Machine %s has no OLVMMachine or no OLVMCluster", s.machine.Name),
		}
	case !s.machine.DeletionTimestamp.IsZero() || !s.olvmMachine.DeletionTimestamp.IsZero():
		return &blocker.Error{Reason: infrav1.WaitingForMachinesDeletionReason, Message: "The Machine is being deleted"}
	case annotations.HasPaused(s.machine) || annotations.HasPaused(s.olvmMachine) ||
		annotations.HasSkipRemediation(s.machine):
		return &blocker.Error{
			Reason: infrav1.RemediationSkippedReason,
			Message: fmt.Sprintf("The Machine or its OLVMMachine has the annotation %s or %s",
				clusterv1.PausedAnnotation, clusterv1.MachineSkipRemediationAnnotation),
		}
	case !conditions.IsFalse(s.machine, clusterv1.MachineHealthCheckSucceededCondition):
		return &blocker.Error{
			Reason:  infrav1.WaitingForHealthCheckReason,
			Message: "No MachineHealthCheck has found the Machine unhealthy",
		}
	}

	return nil
}

// reconcileVM finds the VM of the machine in the engine. Whoever may write an OLVMMachine can write the ID of any VM
// there, so that only a VM with the mark of the machine is touched.
func (r *Reconciler) reconcileVM(ctx context.Context, s *scope) {
	if r.isRunning(s) {
		return
	}

	if err := r.findVM(ctx, s); err != nil && !errors.As(err, &s.blocked) {
		s.blocked = &blocker.Error{Reason: infrav1.WaitingForEngineReason, Message: err.Error()}
	}
}

// isRunning reports whether Terraform changes the machine, and notes that nothing is done meanwhile.
func (r *Reconciler) isRunning(s *scope) bool {
	key := workspace.Key{Kind: workspace.MachineKind, Namespace: s.olvmMachine.Namespace, Name: s.olvmMachine.Name}
	if !r.Runs.IsInFlight(key) {
		return false
	}

	s.blocked = &blocker.Error{
		Reason: infrav1.WaitingForTerraformReason, Message: "Waiting for the Terraform run of the machine to end",
	}

	return true
}

// findVM sets the session, and the VM if the engine has it. A *blocker.Error says why the VM must not be touched.
func (r *Reconciler) findVM(ctx context.Context, s *scope) error {
	of := connection.ClusterEngine(s.olvmCluster)
	session, _, err := r.Engines.For(ctx, of)
	if err != nil {
		return err
	}

	identity, err := session.Identity(ctx)
	if err != nil {
		return err
	}

	if err := connection.CheckEngine(of, connection.EngineOfMachine(s.olvmMachine).Installation, identity); err != nil {
		return err
	}

	id, made := strings.CutPrefix(s.olvmMachine.Spec.ProviderID, bootstrap.ProviderIDPrefix)
	if !made {
		s.session = session
		return nil
	}

	vm, err := session.VM(ctx, engine.ID(id))
	if engine.IsNotFound(err) {
		s.session = session
		return checkMissing(s.olvmMachine)
	} else if err != nil {
		return err
	}

	owner := ownermark.Owner{
		Namespace: s.olvmMachine.Namespace, Name: s.olvmMachine.Name, UID: string(s.olvmMachine.UID),
	}
	if !owner.Marks(vm.CommentText()) {
		return &blocker.Error{Reason: infrav1.VMNotOwnedReason, Message: fmt.Sprintf(
			"VM %s does not have the mark of OLVMMachine %s, so the controller does not reboot it", id,
			s.olvmMachine.Name)}
	}

	s.session, s.vm = session, vm

	return nil
}

// checkMissing returns an error unless the controller of machines has missed the VM, too: one answer of the engine
// costs no machine.
func checkMissing(m *infrav1.OLVMMachine) error {
	running := conditions.Get(m, infrav1.VirtualMachineRunningCondition)
	if running != nil && running.Reason == infrav1.VirtualMachineNotFoundReason {
		return nil
	}

	return &blocker.Error{
		Reason:  infrav1.WaitingForVirtualMachineReason,
		Message: "The engine has no VM of that ID; waiting for the condition VirtualMachineRunning to say so, too",
	}
}

// act does the next step of the remediation.
func (r *Reconciler) act(ctx context.Context, s *scope) (time.Duration, error) {
	status := &s.remediation.Status

	switch decide(s.remediation, s.vm, time.Now()) {
	case begin:
		if err := r.awaitTurn(ctx, s); err != nil || s.blocked != nil {
			return steady, err
		}

		status.Step, status.StepTime, status.PowerOffTime = infrav1alpha1.PoweringOffStep, now(), metav1.Time{}
		status.Attempts++
		s.news = &news{corev1.EventTypeNormal, "Rebooting", fmt.Sprintf("Powering VM %s off and on: reboot %d of %d",
			s.vm.Name, status.Attempts, s.remediation.Spec.Strategy.Retries())}

		return time.Millisecond, nil
	case powerOff:
		err := r.powerOff(ctx, s)

		return s.pause(), err
	case recordOff:
		if status.PowerOffTime.IsZero() { // it was down before
			status.PowerOffTime = now()
		}

		status.Step, status.StepTime = infrav1alpha1.StartingStep, now()

		return time.Millisecond, nil
	case start:
		err := r.start(ctx, s)

		return s.pause(), err
	case recordStart:
		status.Step, status.StepTime = infrav1alpha1.WaitingStep, now()
		return poll, nil
	case giveUp:
		return steady, r.giveUp(ctx, s)
	}

	if isOverdue(s.remediation, time.Now()) {
		return steady, r.askOwner(ctx, s)
	}

	if status.Step == infrav1alpha1.WaitingStep {
		return steady, nil
	}

	return poll, nil
}

// pause is when to look again after a request. One that the engine has refused is not repeated at once.
func (s *scope) pause() time.Duration {
	if s.blocked != nil {
		return steady
	}

	return poll
}

// awaitTurn notes that a machine of the control plane waits for another one: etcd may not survive two that are off. If
// two begin at the same time, the first by name does.
func (r *Reconciler) awaitTurn(ctx context.Context, s *scope) error {
	if !util.IsControlPlaneMachine(s.machine) {
		return nil
	}

	var machines clusterv1.MachineList
	err := r.Client.List(ctx, &machines, client.InNamespace(s.machine.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: s.machine.Spec.ClusterName},
		client.HasLabels{clusterv1.MachineControlPlaneLabel})
	if err != nil {
		return fmt.Errorf("failed to list the Machines of Cluster %s: %w", s.machine.Spec.ClusterName, err)
	}

	var remediations infrav1alpha1.OLVMRemediationList
	if err := r.APIReader.List(ctx, &remediations, client.InNamespace(s.machine.Namespace)); err != nil {
		return fmt.Errorf("failed to list OLVMRemediations: %w", err)
	}

	for i := range machines.Items {
		other := &machines.Items[i]
		at := slices.IndexFunc(remediations.Items, func(r infrav1alpha1.OLVMRemediation) bool {
			return r.Name == other.Name && goesFirst(&r, s.remediation.Name)
		})
		if other.Name != s.machine.Name && (at >= 0 || !other.DeletionTimestamp.IsZero()) {
			s.blocked = &blocker.Error{
				Reason:  infrav1.WaitingForOtherMachineReason,
				Message: fmt.Sprintf("Waiting for Machine %s of the control plane to be healthy or gone", other.Name),
			}
		}
	}

	return nil
}

// goesFirst reports whether a remediation has begun, or begins before the one of a name.
func goesFirst(other *infrav1alpha1.OLVMRemediation, name string) bool {
	if other.Status.Step == "" {
		return conditions.Get(other, infrav1.RemediatedCondition) == nil && other.Name < name
	}

	return other.Status.Step != infrav1alpha1.GivenUpStep
}

// powerOff asks the engine to power the VM off, once for each reboot.
func (r *Reconciler) powerOff(ctx context.Context, s *scope) error {
	if r.isRunning(s) { // it may have begun since the VM was looked at
		return nil
	}

	if err := r.Runs.MayAct(ctx); err != nil {
		return err
	}

	err := s.session.StopVM(ctx, s.vm.ID, true)
	if err == nil {
		s.remediation.Status.PowerOffTime = now()
		return nil
	}

	if engine.IsRefused(err) && isOver(s.remediation, time.Now()) {
		return r.giveUp(ctx, s)
	}

	report(s, err)

	return nil
}

// start asks the engine to start the VM. If the VM stays down for too long, the owner of the Machine is asked to
// replace it, and the engine is asked again all the same: some owners do not replace it.
func (r *Reconciler) start(ctx context.Context, s *scope) error {
	if err := r.Runs.MayAct(ctx); err != nil {
		return err
	}

	report(s, s.session.StartVM(ctx, s.vm.ID, false))

	if isOver(s.remediation, time.Now()) && s.remediation.DeletionTimestamp.IsZero() {
		return r.askOwner(ctx, s)
	}

	return nil
}

// report tells users what the engine answered, if it is an error. The request is made again.
func report(s *scope, err error) {
	switch {
	case err == nil:
	case engine.IsRefused(err):
		s.blocked = &blocker.Error{Reason: infrav1.WaitingForVirtualMachineReason, Message: err.Error()}
	default:
		s.blocked = &blocker.Error{Reason: infrav1.WaitingForEngineReason, Message: err.Error()}
	}
}

// giveUp ends the remediation, and has the owner of the Machine replace it.
func (r *Reconciler) giveUp(ctx context.Context, s *scope) error {
	s.remediation.Status.Step = infrav1alpha1.GivenUpStep

	return r.askOwner(ctx, s)
}

// askOwner asks the owner of the Machine to replace it, as a MachineHealthCheck without a template does.
func (r *Reconciler) askOwner(ctx context.Context, s *scope) error {
	if conditions.IsFalse(s.machine, clusterv1.MachineOwnerRemediatedCondition) {
		return nil // its owner writes it from now on
	}

	machine := s.machine.DeepCopy()
	v1beta1conditions.MarkFalse(machine, clusterv1.MachineOwnerRemediatedV1Beta1Condition,
		clusterv1.WaitingForRemediationV1Beta1Reason, clusterv1.ConditionSeverityWarning, "")
	conditions.Set(machine, metav1.Condition{
		Type:    clusterv1.MachineOwnerRemediatedCondition,
		Status:  metav1.ConditionFalse,
		Reason:  clusterv1.MachineOwnerRemediatedWaitingForRemediationReason,
		Message: "OLVMRemediation " + s.remediation.Name + " has given up: " + whyGivenUp(s),
	})

	// The Machine is read from the API server: a patch replaces all conditions, and the cache does not hold them.
	patch := client.MergeFromWithOptions(s.machine, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, machine, patch); apierrors.IsConflict(err) {
		return nil // the next pass reads it again
	} else if err != nil {
		return fmt.Errorf("failed to ask the owner of Machine %s to replace it: %w", machine.Name, err)
	}

	return nil
}

// reconcileDelete starts the VM if the controller has powered it off, and lets the object go. A Machine that is being
// deleted needs no VM.
func (r *Reconciler) reconcileDelete(ctx context.Context, s *scope) (time.Duration, error) {
	going := s.machine == nil || !s.machine.DeletionTimestamp.IsZero() || s.olvmMachine == nil ||
		!s.olvmMachine.DeletionTimestamp.IsZero() || s.olvmCluster == nil
	if going || !owesStart(s.remediation) {
		return release(s)
	}

	since := time.Since(s.remediation.DeletionTimestamp.Time)
	r.reconcileVM(ctx, s)

	mayGoDown := s.remediation.Status.Step != infrav1alpha1.StartingStep && since < engine.StopPatience

	switch {
	case since > s.remediation.Spec.Strategy.Timeout(): // Cluster API remediates nothing while the object is there
		s.news = &news{corev1.EventTypeWarning, "VirtualMachineMayBeOff",
			"The VM of the machine was powered off and is not seen to run; look at it in the engine"}

		return release(s)
	case s.blocked != nil:
		return steady, nil
	case s.vm == nil || toStart(s.vm.Status) == recordStart && !mayGoDown:
		return release(s)
	case toStart(s.vm.Status) == start:
		err := r.start(ctx, s)

		return s.pause(), err
	}

	return poll, nil
}

// release lets the object go.
func release(s *scope) (time.Duration, error) {
	controllerutil.RemoveFinalizer(s.remediation, infrav1alpha1.RemediationFinalizer)
	return 0, nil
}
