// Package inventoryvm reconciles the OLVMInventoryVMs whose VMs an inventory creates. It creates each VM once, and
// deletes the VM with its object.
package inventoryvm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	capicontrollerutil "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/enginepool"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

const (
	// retry is the retry interval if the engine did not answer, or if a user must solve a problem.
	retry = 10 * time.Second
	// settlePeriod is the time for other management clusters to notice a deletion. If one of them chose the VM earlier,
	// it has tagged the VM by then.
	settlePeriod = 2 * time.Second
)

// statePrefix separates the state of an OLVMInventoryVM from that of an OLVMMachine with the same name.
const statePrefix = "olvminventoryvm."

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvminventoryvms,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvminventoryvms/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvminventoryvms/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvminventories,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmmachinetemplates,verbs=get;list;watch

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// Reconciler creates and deletes the VMs of inventories.
type Reconciler struct {
	Client client.Client
	// APIReader bypasses the cache for reads that must not be stale.
	APIReader client.Reader
	Engines   *enginepool.Registry
	// Runs is shared by all controllers. Addresses is shared by all controllers that allocate addresses.
	Runs             *workspace.RunQueue
	Addresses        *addressing.Allocator
	Recorder         events.EventRecorder
	WatchFilterValue string

	passes     pass.Tracker
	workspaces *workspace.Kind
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if r.Client == nil || r.APIReader == nil || r.Engines == nil || r.Runs == nil || r.Addresses == nil ||
		r.Recorder == nil {
		return errors.New("fields Client, APIReader, Engines, Runs, Addresses and Recorder must be set")
	}

	r.workspaces = workspace.NewKind(workspace.Kind{
		Name:     workspace.InventoryVMKind,
		New:      func() client.Object { return &infrav1alpha1.OLVMInventoryVM{} },
		Prefix:   statePrefix,
		Runs:     r.Runs,
		Recorder: r.Recorder,
		Status:   terraformStatus,
	})

	log := ctrl.LoggerFrom(ctx).WithValues("controller", "olvminventoryvm")
	err := capicontrollerutil.NewControllerManagedBy(mgr, log).
		For(&infrav1alpha1.OLVMInventoryVM{}, builder.WithPredicates(r.passes.ChangedPredicate())).
		Named("olvminventoryvm").
		WithOptions(options).
		WatchesRawSource(source.Channel(
			r.Runs.WakeChannel(workspace.InventoryVMKind), &handler.EnqueueRequestForObject{})).
		Complete(ctx, r)
	if err != nil {
		return fmt.Errorf("failed to set up the OLVMInventoryVM controller: %w", err)
	}

	return nil
}

func terraformStatus(object client.Object) **infrav1.TerraformStatus {
	//nolint:forcetypeassert,errcheck // New makes no others
	return &object.(*infrav1alpha1.OLVMInventoryVM).Status.Terraform
}

// scope holds the facts of one pass.
type scope struct {
	pass *pass.Pass

	vm *infrav1alpha1.OLVMInventoryVM
	// inventory is nil if it does not exist.
	inventory *infrav1alpha1.OLVMInventory
	workspace *workspace.Workspace
	// observed is the state and the result of the last run. action is the decision about the next run.
	observed workspace.Observation
	action   workspace.Action
	// session is nil if the engine is unavailable; err is then the reason. reconcileEngine sets session and config.
	session *engine.Client
	config  engine.Config
	// spec is the VM's spec. built has the objects to create, or is nil if they cannot be rendered; err is then the
	// reason. reconcileConfiguration sets them.
	spec   infrav1.OLVMMachineSpec
	built  *desired.Built
	digest string
	err    error
	// allocation contains the assigned addresses. reconcileConfiguration sets it.
	allocation addressing.Allocation
	// missing reports that the engine has no VM of the object. reconcileOwnership sets it.
	missing bool
	// announcing reports that a new tag announces the VM's deletion to other management clusters. reconcileOwnership
	// sets it.
	announcing bool
	// blocked explains why a deletion must wait. It is nil if the deletion may proceed.
	blocked *blocker.Error
	// moving reports that clusterctl move is running; err is then the reason to wait. enterUnlessMoving sets both.
	moving bool
}

// getEngine returns the engine of the inventory.
func (s *scope) getEngine() connection.Engine { return connection.InventoryEngine(s.inventory) }

// ownerMark returns the owner mark of the object's VM.
func (s *scope) ownerMark() ownermark.Owner {
	return ownermark.NewOwner(s.vm)
}

// isRequested reports whether a run may have created anything.
func (s *scope) isRequested() bool {
	_, ok := s.vm.Annotations[infrav1.CreateRequestedAnnotation]
	return ok
}

// Reconcile runs one pass for an OLVMInventoryVM.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return pass.Controller[*infrav1alpha1.OLVMInventoryVM]{
		Tracker:          &r.passes,
		Client:           r.Client,
		Recorder:         r.Recorder,
		WatchFilterValue: r.WatchFilterValue,
		Forget: func(_ context.Context, key client.ObjectKey) error {
			return r.workspaces.CleanUpDeleted(key)
		},
		Open: r.openPass,
	}.Reconcile(ctx, req, &infrav1alpha1.OLVMInventoryVM{})
}

// openPass finds the inventory of a VM. The inventory has the watch label.
func (r *Reconciler) openPass(
	ctx context.Context, of *pass.Pass, vm *infrav1alpha1.OLVMInventoryVM,
) (pass.Frame, error) {
	s := &scope{pass: of, vm: vm, workspace: r.workspaces.Open(of, vm, "")}
	found := &infrav1alpha1.OLVMInventory{}
	key := client.ObjectKey{Namespace: vm.Namespace, Name: vm.Spec.InventoryName}
	if err := r.Client.Get(ctx, key, found); err == nil {
		s.inventory = found
	} else if !apierrors.IsNotFound(err) {
		return pass.Frame{}, fmt.Errorf("failed to get OLVMInventory %s: %w", key, err)
	}

	frame := pass.Frame{
		Admit: func(context.Context) (bool, ctrl.Result, error) {
			return vm.Spec.FromProvision != nil, ctrl.Result{}, nil // otherwise, someone else created the VM
		},
		EnsurePaused: func(ctx context.Context) (bool, error) { return ensurePausedCondition(ctx, s) },
		Enter:        func(ctx context.Context) (func(), ctrl.Result, error) { return r.enterUnlessMoving(ctx, s) },
		Work:         func(ctx context.Context) (ctrl.Result, error) { return r.reconcileVM(ctx, s) },
		SetStatus:    func() { updateStatus(s) },
		Written: func(gone bool) {
			if !gone {
				s.workspace.DropRecordedRun()
			}
		},
	}
	if s.inventory != nil {
		frame.Labelled = s.inventory
	}

	return frame, nil
}

// ensurePausedCondition reports whether the VM or its inventory is paused, and writes the cause.
func ensurePausedCondition(ctx context.Context, s *scope) (bool, error) {
	if s.inventory == nil || !annotations.HasPaused(s.inventory) {
		return s.workspace.EnsurePausedCondition(ctx, nil)
	}

	cause := fmt.Sprintf("OLVMInventory %s has the %s annotation", s.inventory.Name, clusterv1.PausedAnnotation)

	return true, workspace.WritePaused(ctx, s.pass, s.vm, cause)
}

// enterUnlessMoving ends the pass for a complete VM while clusterctl move is running.
func (r *Reconciler) enterUnlessMoving(ctx context.Context, s *scope) (func(), ctrl.Result, error) {
	// In the target cluster of clusterctl move, the states arrive after the objects. In the source cluster, nothing may
	// change.
	moving, err := r.checkMoving(ctx, s)
	if moving && s.vm.DeletionTimestamp.IsZero() && inventory.IsComplete(s.vm) {
		return nil, ctrl.Result{RequeueAfter: retry}, nil
	}

	s.moving = moving

	return func() {}, ctrl.Result{}, err
}

// reconcileVM creates or deletes the VM, unless clusterctl move is running.
func (r *Reconciler) reconcileVM(ctx context.Context, s *scope) (ctrl.Result, error) {
	if s.moving {
		return ctrl.Result{RequeueAfter: retry}, nil
	}

	if !s.vm.DeletionTimestamp.IsZero() {
		return r.reconcileDelete(ctx, s)
	}

	controllerutil.AddFinalizer(s.vm, infrav1alpha1.InventoryVMFinalizer)

	return r.reconcileNormal(ctx, s)
}

// checkMoving reports whether a Cluster of the namespace is paused, as during clusterctl move. It skips this check if
// the VM needs no change.
func (r *Reconciler) checkMoving(ctx context.Context, s *scope) (bool, error) {
	// During a move, an object without the finalizer is about to be deleted. It must not get its finalizers back.
	if s.vm.DeletionTimestamp.IsZero() && inventory.IsComplete(s.vm) &&
		controllerutil.ContainsFinalizer(s.vm, infrav1alpha1.InventoryVMFinalizer) {
		return false, nil // there is nothing to do
	}

	var clusters clusterv1.ClusterList
	if err := r.APIReader.List(ctx, &clusters, client.InNamespace(s.vm.Namespace)); err != nil {
		return false, fmt.Errorf("failed to list Clusters: %w", err)
	}

	for i := range clusters.Items {
		if ptr.Deref(clusters.Items[i].Spec.Paused, false) {
			s.err = &blocker.Error{Reason: infrav1.WaitingForMoveReason, Message: fmt.Sprintf(
				"Cluster %s is paused, for example by clusterctl move", clusters.Items[i].Name)}
			return true, nil
		}
	}

	return false, nil
}

// reconcileNormal creates the VM. It does not change a complete VM, because a claim may have changed it.
func (r *Reconciler) reconcileNormal(ctx context.Context, s *scope) (ctrl.Result, error) {
	observed, err := s.workspace.Observe(ctx)
	if s.observed = observed; err != nil {
		return ctrl.Result{}, err
	}

	if !s.observed.State.Empty() && !s.isRequested() {
		s.err = blocker.New(infrav1.StateInvalidReason, "", "Secret %s has the Terraform state of an earlier object "+
			"of this name. Delete the Secret and its finalizer, or delete this object", s.stateSecret())
		return ctrl.Result{RequeueAfter: retry}, nil
	}

	if id := s.observed.State.VMID(); id != "" && s.vm.Spec.VMID == "" {
		s.vm.Spec.VMID = id
	}

	if s.isComplete() {
		return ctrl.Result{}, nil
	}

	r.reconcileEngine(ctx, s)

	if lost, err := r.deleteIfLost(ctx, s); err != nil || lost {
		return ctrl.Result{}, err
	}

	if s.err == nil {
		s.err = r.reconcileConfiguration(ctx, s)
	}

	if s.err == nil && !s.isRequested() {
		if taken, err := r.deleteIfConflicting(ctx, s); err != nil || taken {
			return ctrl.Result{}, err
		}
	}

	if err := r.reconcileRun(ctx, s); err != nil {
		return ctrl.Result{}, err
	}

	if s.err != nil {
		return ctrl.Result{RequeueAfter: retry}, nil
	}

	return ctrl.Result{RequeueAfter: s.action.After}, nil
}

// stateSecret returns the name of the Secret with the state.
func (s *scope) stateSecret() string {
	if s.vm.Status.Terraform == nil {
		return ""
	}

	return s.vm.Status.Terraform.StateSecretName
}

// deleteIfLost deletes the object if someone deleted its incomplete VM in the engine. The inventory then creates
// another object, and with it another VM.
func (r *Reconciler) deleteIfLost(ctx context.Context, s *scope) (bool, error) {
	if s.session == nil || s.vm.Spec.VMID == "" || s.workspace.IsInFlight() {
		return false, nil
	}

	_, err := s.session.FetchVM(ctx, engine.ID(s.vm.Spec.VMID))
	if !engine.IsNotFound(err) {
		s.err = err
		return false, nil
	}

	return true, r.deleteObject(ctx, s)
}

// deleteObject deletes the object, but not a later one with the same name. The inventory then creates another object.
func (r *Reconciler) deleteObject(ctx context.Context, s *scope) error {
	if err := r.Client.Delete(ctx, s.vm, client.Preconditions{UID: &s.vm.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to delete OLVMInventoryVM %s: %w", s.vm.Name, err)
	}

	return nil
}

// isComplete reports whether the VM is complete.
func (s *scope) isComplete() bool {
	return s.observed.State.WasApplied() && s.vm.Spec.VMID != ""
}

// reconcileEngine connects to the engine.
func (r *Reconciler) reconcileEngine(ctx context.Context, s *scope) {
	if s.inventory == nil {
		s.err = blocker.New(infrav1.InventoryNotFoundReason, "spec.inventoryName",
			"OLVMInventory %s with the engine's URL does not exist; recreate it", s.vm.Spec.InventoryName)
		return
	}

	s.session, s.config, s.err = r.Engines.OpenSession(ctx, s.getEngine())
}

// reconcileConfiguration resolves names, and builds the configuration of the VM.
func (r *Reconciler) reconcileConfiguration(ctx context.Context, s *scope) error {
	decided := *s.vm.Spec.FromProvision
	if err := r.reconcileSpec(ctx, s); err != nil {
		return err
	}

	nics, err := addressing.BuildNICs(s.spec, infrav1.OLVMClusterSpec{})
	if err != nil {
		return inventory.WrapTemplateError(decided.MachineTemplateName, err)
	}

	s.allocation = addressing.Allocation{NICs: nics, Recorded: addressing.ParseProvisioned(decided), InUse: true}
	given, _ := s.allocation.ResolveAddresses()
	s.built, err = desired.Build(ctx, s.session, desired.Input{
		Spec:      s.spec,
		Cluster:   inventory.BuildClusterSpec(s.inventory),
		VMName:    s.vm.Name,
		Owner:     s.ownerMark(),
		Pooled:    true,
		NICs:      nics,
		Addresses: given,
		Config:    s.config,
	})
	if err != nil {
		return inventory.WrapTemplateError(decided.MachineTemplateName, err)
	}

	s.digest, err = render.MachineDigest(s.built.Machine)

	return err
}

// reconcileSpec reads the spec of the VM from its template.
func (r *Reconciler) reconcileSpec(ctx context.Context, s *scope) error {
	decided := *s.vm.Spec.FromProvision
	template := &infrav1.OLVMMachineTemplate{}
	key := client.ObjectKey{Namespace: s.vm.Namespace, Name: decided.MachineTemplateName}
	if err := r.Client.Get(ctx, key, template); apierrors.IsNotFound(err) {
		return blocker.New(infrav1.MachineTemplateNotFoundReason, "spec.fromProvision.machineTemplateName",
			"there is no OLVMMachineTemplate %q; recreate it, or delete this object", key.Name)
	} else if err != nil {
		return fmt.Errorf("failed to get OLVMMachineTemplate %s: %w", key, err)
	}

	s.spec = inventory.BuildMachineSpec(template.Spec.Template.Spec, s.inventory.Spec.VirtualMachines.Tag, decided)

	return nil
}

// deleteIfConflicting deletes the object if another object got one of its addresses at the same time. The inventory
// then creates an object with other addresses. The engine has nothing of the object yet.
func (r *Reconciler) deleteIfConflicting(ctx context.Context, s *scope) (bool, error) {
	identity, err := s.session.LoadIdentity(ctx) // the inventory may not have recorded it yet
	if err != nil {
		return false, err
	}

	conflict, where := "", s.getEngine().ID().WithInstallation(identity.Installation)
	err = r.Addresses.WithHeld(ctx, client.ObjectKeyFromObject(s.vm), where, func(held addressing.Held) error {
		conflict = s.allocation.FindConflict(held)
		return nil
	})
	if err != nil || conflict == "" {
		return false, err
	}

	ctrl.LoggerFrom(ctx).Info("Choosing other addresses for a VM that does not exist yet", "conflict", conflict)

	return true, r.deleteObject(ctx, s)
}

// reconcileRun submits a run if necessary.
func (r *Reconciler) reconcileRun(ctx context.Context, s *scope) error {
	request := workspace.Request{
		Facts: workspace.Facts{
			Ready:    s.err == nil && s.built != nil,
			Digest:   s.digest,
			MayExist: s.isRequested(),
		},
		// Record that a VM may exist before anything can create one.
		Annotations: map[string]string{infrav1.CreateRequestedAnnotation: s.vm.Name},
		Subject:     func() workspace.Subject { return r.newSubject(s) },
	}
	if s.inventory != nil {
		request.Engine = s.getEngine().ID().Key()
	}

	action, err := s.workspace.Apply(ctx, &s.observed, request)
	s.action = action

	return err
}

// reconcileDelete deletes the VM, unless a cluster uses it.
func (r *Reconciler) reconcileDelete(ctx context.Context, s *scope) (ctrl.Result, error) {
	switch {
	case workspace.IsMoving(s.vm):
		s.blocked = blocker.NewDeletionError(0, "The object is being moved to another management cluster; its VM stays")
		return ctrl.Result{}, nil
	case controllerutil.ContainsFinalizer(s.vm, infrav1alpha1.InventoryFinalizer):
		s.blocked = &blocker.Error{
			Reason:  infrav1.WaitingForClaimsReason,
			Message: "Waiting for the claim on the VM to end",
		}

		return ctrl.Result{}, nil
	}

	observed, err := s.workspace.Observe(ctx)
	if s.observed = observed; err != nil {
		return ctrl.Result{}, err
	}

	if s.isRequested() || !s.observed.State.Empty() {
		r.reconcileEngine(ctx, s)
		r.reconcileOwnership(ctx, s)
	}

	// Only the template identifies the data disks. Without it, data disks missing from all states stay.
	var field *blocker.Error
	if s.inventory != nil {
		if err := r.reconcileSpec(ctx, s); err != nil && !errors.As(err, &field) {
			return ctrl.Result{}, err
		}
	}

	switch {
	case s.blocked != nil:
		return ctrl.Result{RequeueAfter: retry}, nil
	case s.announcing:
		return ctrl.Result{RequeueAfter: settlePeriod}, nil
	}

	return r.reconcileDestroy(ctx, s)
}

// reconcileOwnership verifies that nobody uses the VM before anything touches it. It checks the engine too, because
// another management cluster may have claimed the VM. A tag announces the deletion to other management clusters.
func (r *Reconciler) reconcileOwnership(ctx context.Context, s *scope) {
	if s.session == nil {
		return
	}

	ids := s.vmIDs()
	s.missing = len(ids) > 0

	for _, id := range ids {
		there, err := s.ensureDeletionTag(ctx, id)
		if err != nil {
			s.session, s.err = nil, err
			return
		}

		s.missing = s.missing && !there
	}
}

// vmIDs returns the VM IDs of the object and of its state. They differ if the VM was created twice.
func (s *scope) vmIDs() []engine.ID {
	var out []engine.ID

	for _, id := range []string{s.vm.Spec.VMID, s.observed.State.VMID()} {
		if id != "" && !slices.Contains(out, engine.ID(id)) {
			out = append(out, engine.ID(id))
		}
	}

	return out
}

// ensureDeletionTag records why a VM must not be deleted, or tags it for deletion. It reports whether the engine has
// the VM.
func (s *scope) ensureDeletionTag(ctx context.Context, id engine.ID) (bool, error) {
	vm, tags, err := fetchVMWithTags(ctx, s.session, id)
	if engine.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return true, err
	}

	blocked := explainNotDeleted(*vm, tags, s.ownerMark())
	if blocked != nil {
		s.blocked = blocked
		return true, nil
	}

	if inventory.IsMarkedDeleting(tags) {
		return true, nil
	}

	s.announcing = true

	return true, inventory.MarkDeleting(ctx, s.session, id)
}

// fetchVMWithTags reads a VM and its tags.
func fetchVMWithTags(ctx context.Context, session *engine.Client, id engine.ID) (*engine.VM, []engine.Tag, error) {
	vm, err := session.FetchVM(ctx, id)
	if err != nil {
		return nil, nil, err
	}

	tags, err := inventory.ListTags(ctx, session, id)

	return vm, tags, err
}

// explainNotDeleted explains why a VM must not be deleted now. It returns nil if it may be deleted.
func explainNotDeleted(vm engine.VM, tags []engine.Tag, of ownermark.Owner) *blocker.Error {
	mark, tagged := inventory.GetMark(engine.DescribedVM{VM: vm, Tags: tags})
	found, ours := ownermark.ParseInventoryOwner(vm.CommentText())

	switch {
	case tagged:
		return blocker.NewDeletionError(
			retry,
			"VM %s (%s) has the tag %s: %s claims it. The VM is deleted once the tag is removed",
			vm.Name,
			vm.ID,
			inventory.TagName(vm.ID),
			mark,
		)
	case !ours || !found.IsSameObject(of):
		return blocker.NewDeletionError(
			retry,
			"VM %s (%s) does not have the mark of this object: its comment is %q. To delete the VM, replace its "+
				"comment with exactly %q. To keep it, remove the finalizer %s from this object, and delete the "+
				"Secret with its state",
			vm.Name,
			vm.ID,
			vm.CommentText(),
			of.InventoryComment(),
			infrav1alpha1.InventoryVMFinalizer,
		)
	case inventory.IsRetained(tags):
		return blocker.NewDeletionError(
			retry,
			"VM %s (%s) has the tag capolvm-retained: it keeps the disk of a node. The VM is deleted once the tag is "+
				"removed",
			vm.Name,
			vm.ID,
		)
	case !vm.Status.IsOff() && !vm.Status.IsBusy():
		return blocker.NewDeletionError(
			retry, "VM %s (%s) is %s, but no machine claims it. To have it deleted, power it off", vm.Name, vm.ID,
			vm.Status,
		)
	case vm.DeleteProtected != nil && *vm.DeleteProtected:
		return blocker.NewDeletionError(
			retry,
			"VM %s (%s) is protected against deletion. To delete it, turn off Delete Protection in the engine",
			vm.Name,
			vm.ID,
		)
	}

	return nil
}

// removeMarks removes the deletion tags of deleted VMs.
func (s *scope) removeMarks(ctx context.Context) error {
	if s.session == nil {
		return nil // no VM was created
	}

	for _, id := range s.vmIDs() {
		if err := inventory.RemoveDeletingTag(ctx, s.session, id); err != nil {
			return err
		}
	}

	return nil
}

// reconcileDestroy submits a destroy run if needed, and releases the object once nothing is left.
func (r *Reconciler) reconcileDestroy(ctx context.Context, s *scope) (ctrl.Result, error) {
	request := workspace.Request{
		Facts: workspace.Facts{
			Ready:    s.session != nil,
			MayExist: !s.missing && s.isRequested(),
			Seen:     s.session != nil && len(s.vmIDs()) > 0 && !s.missing,
		},
		Subject: func() workspace.Subject { return r.newSubject(s) },
	}
	if s.inventory != nil {
		request.Engine = s.getEngine().ID().Key()
	}

	action, err := s.workspace.Destroy(ctx, s.observed, request)
	if s.action = action; err != nil {
		return ctrl.Result{}, err
	}

	if action.Kind != workspace.Release {
		return ctrl.Result{RequeueAfter: action.After}, nil
	}

	if err := s.removeMarks(ctx); err != nil {
		return ctrl.Result{}, err
	}

	if err := s.workspace.Remove(ctx); err != nil {
		return ctrl.Result{}, err
	}

	controllerutil.RemoveFinalizer(s.vm, infrav1alpha1.InventoryVMFinalizer)

	return ctrl.Result{}, nil
}
