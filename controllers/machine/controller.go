// Package machine reconciles OLVMMachines. Each OLVMMachine gets one VM, created by Terraform.
package machine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	capicontrollerutil "sigs.k8s.io/cluster-api/util/controller"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/enginepool"
	"github.com/capolvm/cluster-api-provider-olvm/internal/holder"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/userdataserver"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmmachines/status,verbs=patch
// Some API servers check owner references with blockOwnerDeletion. There, the controller needs permission to update the
// finalizers of the owner.
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmmachines/finalizers;olvmclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create;update;delete
// +kubebuilder:rbac:groups=ipam.cluster.x-k8s.io,resources=ipaddressclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=ipam.cluster.x-k8s.io,resources=ipaddresses,verbs=get;list;watch

// Reconciler reconciles OLVMMachines. It creates one VM for each of them, with Terraform.
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
	// Delivery serves user data over HTTP. It is nil if VMs get all user data from the engine.
	Delivery *userdataserver.Server
	// KeepUserData keeps user data in the engine and in states after the VM becomes a node.
	KeepUserData bool
	// FailureDelay is how long a VM must be down before it counts as failed. 0 means 30 seconds.
	FailureDelay time.Duration

	passes     pass.Tracker
	workspaces *workspace.Kind
	watcher    vmWatcher
	digests    desired.DigestCache
	limiter    enginepool.ReconcileLimiter
	vmEnds     endCache
}

// vmWatcher wakes a machine when its VM changes.
type vmWatcher interface {
	manager.Runnable

	Watch(machine workspace.Key, vm enginepool.WatchedVM)
	Unwatch(machine workspace.Key)
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(
	ctx context.Context, mgr ctrl.Manager, options controller.Options,
) error {
	if r.Client == nil || r.APIReader == nil || r.Engines == nil || r.Recorder == nil || r.Runs == nil ||
		r.Addresses == nil {
		return errors.New("fields Client, APIReader, Engines, Recorder, Runs and Addresses must be set")
	}

	if err := indexClaimants(ctx, mgr); err != nil {
		return fmt.Errorf("failed to index OLVMInventoryVMs: %w", err)
	}

	r.setUpWorkspaces()
	r.limiter.Limit = options.MaxConcurrentReconciles
	options.MaxConcurrentReconciles *= enginepool.WorkersPerPlace
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "olvmmachine")
	clusterToMachines, err := util.ClusterToTypedObjectsMapper(mgr.GetClient(), &infrav1.OLVMMachineList{},
		mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("failed to map Clusters to OLVMMachines: %w", err)
	}

	machineToOLVMMachine := util.MachineToInfrastructureMapFunc(infrav1.GroupVersion.WithKind("OLVMMachine"))
	err = capicontrollerutil.NewControllerManagedBy(mgr, log).
		For(&infrav1.OLVMMachine{}, builder.WithPredicates(r.passes.ChangedPredicate())).
		Owns(&ipamv1.IPAddressClaim{}).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilterValue)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(machineToOLVMMachine), ownerChanged).
		Watches(&infrav1.OLVMCluster{}, handler.EnqueueRequestsFromMapFunc(r.olvmClusterToMachines)).
		Watches(&infrav1alpha1.OLVMInventoryVM{}, handler.EnqueueRequestsFromMapFunc(inventoryVMToMachine)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(clusterToMachines),
			predicates.ClusterPausedTransitionsOrInfrastructureProvisioned(mgr.GetScheme(), log)).
		WatchesRawSource(source.Channel(r.Runs.WakeChannel(workspace.MachineKind), workspace.PrioritizeWoken)).
		Complete(ctx, r)
	if err != nil {
		return fmt.Errorf("failed to set up the OLVMMachine controller: %w", err)
	}

	for _, runnable := range []manager.Runnable{r.Runs, r.watcher} {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("failed to add the Terraform runs and the VM watcher: %w", err)
		}
	}

	return nil
}

// ownerChanged selects the changes of a Machine relevant to its OLVMMachine. Cluster API updates the status of a
// Machine many times while its node joins.
var ownerChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*clusterv1.Machine)
		after, too := e.ObjectNew.(*clusterv1.Machine)

		return !ok || !too || before.Generation != after.Generation ||
			before.Status.NodeRef.IsDefined() != after.Status.NodeRef.IsDefined() ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations)
	},
}

func (r *Reconciler) setUpWorkspaces() {
	r.workspaces = workspace.NewKind(workspace.Kind{
		Name:     workspace.MachineKind,
		New:      func() client.Object { return &infrav1.OLVMMachine{} },
		Runs:     r.Runs,
		Recorder: r.Recorder,
		Status:   machineTerraformStatus,

		ChecksDrift: true,
	})
	r.watcher = &enginepool.VMWatcher[workspace.Key]{Engines: r.Engines, Wake: r.Runs.WakeObject}
}

func machineTerraformStatus(object client.Object) **infrav1.TerraformStatus {
	return &object.(*infrav1.OLVMMachine).Status.Terraform //nolint:forcetypeassert,errcheck // New makes no others
}

// olvmClusterToMachines maps an OLVMCluster to its machines, to wake them when the engine connection changes.
func (r *Reconciler) olvmClusterToMachines(ctx context.Context, object client.Object) []ctrl.Request {
	var machines infrav1.OLVMMachineList
	if err := r.Client.List(ctx, &machines, client.InNamespace(object.GetNamespace()),
		client.MatchingLabels{clusterv1.ClusterNameLabel: object.GetLabels()[clusterv1.ClusterNameLabel]},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}

	out := make([]ctrl.Request, 0, len(machines.Items))
	for i := range machines.Items {
		out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&machines.Items[i])})
	}

	return out
}

// Reconcile runs one pass for an OLVMMachine.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return pass.Controller[*infrav1.OLVMMachine]{
		Tracker:          &r.passes,
		Client:           r.Client,
		Recorder:         r.Recorder,
		WatchFilterValue: r.WatchFilterValue,
		Forget:           r.dropMachine,
		Open:             r.openPass,
	}.Reconcile(ctx, req, &infrav1.OLVMMachine{})
}

// openPass finds the owners of a machine.
func (r *Reconciler) openPass(
	ctx context.Context, of *pass.Pass, olvmMachine *infrav1.OLVMMachine,
) (pass.Frame, error) {
	scope := r.newScope(of, olvmMachine)
	if err := r.findOwners(ctx, scope); err != nil {
		return pass.Frame{}, err
	}

	return pass.Frame{
		Labelled: olvmMachine,
		Admit:    func(ctx context.Context) (bool, ctrl.Result, error) { return r.ensureAdmitted(ctx, scope) },
		EnsurePaused: func(ctx context.Context) (bool, error) {
			return scope.workspace.EnsurePausedCondition(ctx, scope.cluster)
		},
		Enter: func(ctx context.Context) (func(), ctrl.Result, error) {
			return pass.PlaceTaken(r.acquirePlace(ctx, scope))
		},
		Work:      func(ctx context.Context) (ctrl.Result, error) { return r.reconcileAdmitted(ctx, scope) },
		SetStatus: func() { updateMachineStatus(scope) },
		Steps:     scope.stepEvents,
		Written: func(gone bool) {
			if !gone {
				countMachine(scope)
				scope.workspace.DropRecordedRun()
			}
		},
	}, nil
}

// newScope returns the scope of a new pass, without facts.
func (r *Reconciler) newScope(of *pass.Pass, olvmMachine *infrav1.OLVMMachine) *machineScope {
	return &machineScope{
		pass:        of,
		olvmMachine: olvmMachine,
		workspace:   r.workspaces.Open(of, olvmMachine, olvmMachine.Labels[clusterv1.ClusterNameLabel]),
		userData:    userDataFacts{kept: r.KeepUserData},
	}
}

// dropMachine drops all records of a deleted machine.
func (r *Reconciler) dropMachine(ctx context.Context, key types.NamespacedName) error {
	r.watcher.Unwatch(r.workspaces.Key(key))
	r.digests.DropDigest(key)

	return errors.Join(r.Addresses.AbandonClaims(ctx, key), r.workspaces.CleanUpDeleted(key))
}

// acquirePlace waits for a place among the concurrent reconciles of the machine's engine. Machines whose VM is being
// created have a queue of their own, so they do not wait behind machines without a VM.
func (r *Reconciler) acquirePlace(ctx context.Context, scope *machineScope) (leave func(), ok bool) {
	if scope.olvmCluster == nil {
		return func() {}, true
	}

	tenant := scope.olvmMachine.Namespace
	if hasBegun(scope) {
		tenant += "/begun" // no namespace has this name
	}

	return r.limiter.AcquirePlace(ctx, tenant, connection.GetEngineID(scope.olvmCluster).Key())
}

// hasBegun reports whether the VM is being created: a run has begun, or the VM exists but is not up yet.
func hasBegun(scope *machineScope) bool {
	if scope.workspace.HasBegun() {
		return true
	}

	return !ptr.Deref(scope.olvmMachine.Status.Initialization.Provisioned, false) && scope.vmID() != ""
}

// ensureAdmitted reports whether to reconcile a machine: a Machine of an existing Cluster must own it, or it must be in
// deletion. It also adds the finalizer.
func (r *Reconciler) ensureAdmitted(ctx context.Context, scope *machineScope) (bool, ctrl.Result, error) {
	if !scope.olvmMachine.DeletionTimestamp.IsZero() {
		return true, ctrl.Result{}, nil
	}

	if scope.machine == nil || scope.cluster == nil {
		result, err := r.reconcileUnowned(ctx, scope)
		return false, result, err
	}

	controllerutil.AddFinalizer(scope.olvmMachine, infrav1.MachineFinalizer)

	return true, ctrl.Result{}, nil
}

func (r *Reconciler) reconcileAdmitted(ctx context.Context, scope *machineScope) (ctrl.Result, error) {
	if scope.machine != nil {
		ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues("Machine", scope.machine.Name))
	}

	if !scope.olvmMachine.DeletionTimestamp.IsZero() {
		return r.reconcileDelete(ctx, scope)
	}

	return r.reconcileNormal(ctx, scope)
}

// findOwners sets cluster, machine and olvmCluster. Each stays nil if the object does not exist.
func (r *Reconciler) findOwners(ctx context.Context, scope *machineScope) error {
	var err error
	if scope.machine = support.NewStandInMachine(scope.olvmMachine); scope.machine == nil {
		scope.machine, err = util.GetOwnerMachine(ctx, r.Client, scope.olvmMachine.ObjectMeta)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("failed to get the owner of OLVMMachine %s: %w", scope.workspace.Key(), err)
		}
	}

	scope.cluster, err = util.GetClusterFromMetadata(ctx, r.Client, scope.olvmMachine.ObjectMeta)
	if errors.Is(err, util.ErrNoCluster) || apierrors.IsNotFound(err) {
		scope.cluster = nil
	} else if err != nil {
		return fmt.Errorf("failed to get the Cluster of OLVMMachine %s: %w", scope.workspace.Key(), err)
	}

	scope.services, err = support.FindServices(ctx, r.Client, addressing.GetClusterKey(scope.olvmMachine))
	if err != nil {
		return err
	}

	if scope.cluster == nil {
		return r.findOLVMCluster(ctx, scope)
	}

	if !scope.cluster.Spec.InfrastructureRef.IsDefined() {
		return nil
	}

	found := &infrav1.OLVMCluster{}
	key := client.ObjectKey{Namespace: scope.olvmMachine.Namespace, Name: scope.cluster.Spec.InfrastructureRef.Name}
	if err := r.Client.Get(ctx, key, found); err == nil {
		scope.olvmCluster = found
		desired.CompleteEndpoint(&found.Spec.ControlPlaneEndpoint, scope.cluster.Spec.ControlPlaneEndpoint)

		return r.checkExcluded(ctx, scope)
	} else if !apierrors.IsNotFound(err) {
		return fmt.Errorf("failed to get OLVMCluster %s: %w", key, err)
	}

	return nil
}

// checkExcluded checks whether the OLVMCluster named by the machine's Cluster belongs to another Cluster. If so, it
// sets excluded.
func (r *Reconciler) checkExcluded(ctx context.Context, scope *machineScope) error {
	if scope.olvmMachine.Spec.ProviderID != "" {
		return nil // the machine keeps its VM
	}

	claims, err := holder.FindClaims(ctx, r.Client, scope.olvmCluster)
	if err == nil && claims.IsExcluded(scope.cluster) {
		scope.excluded = claims.ToError()
	}

	return err
}

// findOLVMCluster finds the OLVMCluster of a machine without a Cluster, by their common cluster label. A deletion still
// needs the connection to the engine.
func (r *Reconciler) findOLVMCluster(ctx context.Context, scope *machineScope) error {
	name := scope.olvmMachine.Labels[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil
	}

	var list infrav1.OLVMClusterList
	err := r.Client.List(ctx, &list, client.InNamespace(scope.olvmMachine.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: name,
	})
	if err != nil {
		return fmt.Errorf("failed to list the OLVMClusters of Cluster %s: %w", name, err)
	}

	if len(list.Items) == 1 {
		scope.olvmCluster = &list.Items[0]

		return nil
	}

	for i := range list.Items {
		scope.olvmClusters = append(scope.olvmClusters, list.Items[i].Name)
	}

	slices.Sort(scope.olvmClusters)

	return nil
}
