// Package inventory reconciles OLVMInventories. It lists the VMs of an inventory, and assigns them to waiting machines.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	capicontrollerutil "sigs.k8s.io/cluster-api/util/controller"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/enginepool"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

const (
	// steady is the requeue interval of an inventory without pending work.
	steady = 30 * time.Second
	// settling is the requeue interval for claims without a confirmation. It is long enough for both of two
	// simultaneous tags to become visible.
	settling = time.Second
	// engineRetry is the retry interval after a failed request to the engine.
	engineRetry = 10 * time.Second
	// atOnce limits concurrent changes of VMs in the engine, per inventory.
	atOnce = 8
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvminventories,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvminventories/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvminventories/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvminventoryvms,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvminventoryvms/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinesets,verbs=get
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes,verbs=get

// Reconciler reconciles OLVMInventories. Each pass decides all claims of an inventory. Passes for the same inventory
// never overlap.
type Reconciler struct {
	Client client.Client
	// APIReader bypasses the cache for reads that must not be stale.
	APIReader client.Reader
	Engines   *enginepool.Registry
	// Addresses is shared by all controllers that allocate addresses.
	Addresses        *addressing.Allocator
	Recorder         events.EventRecorder
	WatchFilterValue string

	passes pass.Tracker
	moves  moves
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if r.Client == nil || r.APIReader == nil || r.Engines == nil || r.Addresses == nil || r.Recorder == nil {
		return errors.New("fields Client, APIReader, Engines, Addresses and Recorder must be set")
	}

	log := ctrl.LoggerFrom(ctx).WithValues("controller", "olvminventory")
	err := capicontrollerutil.NewControllerManagedBy(mgr, log).
		For(&infrav1alpha1.OLVMInventory{}, builder.WithPredicates(r.passes.ChangedPredicate())).
		Owns(&infrav1alpha1.OLVMInventoryVM{}, predicate.Or(predicate.GenerationChangedPredicate{}, outcomeChanged)).
		WithOptions(options).
		Watches(&infrav1.OLVMMachine{}, handler.EnqueueRequestsFromMapFunc(machineToInventory),
			pass.SpecOrOwnersChanged).
		Watches(&infrav1.OLVMCluster{}, handler.EnqueueRequestsFromMapFunc(r.clusterToInventories),
			pass.SpecOrOwnersChanged).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.clusterToInventories),
			predicates.ClusterPausedTransitions(mgr.GetScheme(), log)).
		Complete(ctx, r)
	if err != nil {
		return fmt.Errorf("failed to set up the OLVMInventory controller: %w", err)
	}

	return nil
}

// outcomeChanged selects updates that complete the creation of a VM, or begin or end its failure.
var outcomeChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*infrav1alpha1.OLVMInventoryVM)
		after, too := e.ObjectNew.(*infrav1alpha1.OLVMInventoryVM)

		return ok && too &&
			(inventory.IsComplete(before) != inventory.IsComplete(after) || isFailing(before) != isFailing(after))
	},
}

// isFailing reports whether the creation or deletion of a VM has failed.
func isFailing(vm *infrav1alpha1.OLVMInventoryVM) bool {
	return slices.ContainsFunc([]string{infrav1.InfrastructureAppliedCondition, infrav1.DeletingCondition},
		func(condition string) bool {
			found := conditions.Get(vm, condition)
			return found != nil && pass.IsFailure(*found)
		})
}

// machineToInventory maps a machine to the inventory named in its spec.
func machineToInventory(_ context.Context, object client.Object) []ctrl.Request {
	m, ok := object.(*infrav1.OLVMMachine)
	if !ok || m.Spec.FromInventory == nil {
		return nil
	}

	return []ctrl.Request{
		{NamespacedName: types.NamespacedName{Namespace: m.Namespace, Name: m.Spec.FromInventory.InventoryName}},
	}
}

// clusterToInventories maps a Cluster or an OLVMCluster to the inventories of its namespace. They must react when a
// Cluster is paused or unpaused, and when an OLVMCluster changes its standby VMs.
func (r *Reconciler) clusterToInventories(ctx context.Context, cluster client.Object) []ctrl.Request {
	var list infrav1alpha1.OLVMInventoryList
	if err := r.Client.List(ctx, &list, client.InNamespace(cluster.GetNamespace())); err != nil {
		return nil
	}

	var out []ctrl.Request
	for i := range list.Items {
		out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}

	return out
}

// scope holds the facts of one pass.
type scope struct {
	pass *pass.Pass

	inventory *infrav1alpha1.OLVMInventory
	clusters  clusterFacts
	listed    listFacts
	engine    engineFacts
	// provision is set by reconcileProvision.
	provision provisionFacts
	// entries are the OLVMInventoryVMs with their VMs, by name. reconcileObjects sets them.
	entries []*entry
	// machines are the OLVMMachines waiting for or using a VM of the inventory, by name. groups are the groups in need
	// of VMs. reconcileGroups sets both.
	machines map[string]*infrav1.OLVMMachine
	groups   []inventory.Group
	plan     inventory.Plan
	// complete reports that the pass completed with a reachable engine, so its counts are valid.
	complete bool
	// claimed lists the VMs with a claim. reconcileDelete sets it.
	claimed []string
	// requeueSoon reports pending work in the engine. failed reports that the engine has refused a request.
	requeueSoon, failed bool
}

// clusterFacts hold the Clusters of the namespace by name. active holds the unpaused ones.
type clusterFacts struct {
	all, active map[string]bool
	// moving is the name of a Cluster with spec.paused, or of one deleted while paused. Then clusterctl move is
	// probably running. It is "" if there is no such Cluster.
	moving string
}

// listFacts hold the OLVMInventoryVMs of the inventory, including those in deletion. taken holds the names of all
// OLVMInventoryVMs in the namespace.
type listFacts struct {
	objects []infrav1alpha1.OLVMInventoryVM
	taken   map[string]bool
}

// engineFacts hold the access to the engine. Without it, session and contents are nil, and err holds the cause.
type engineFacts struct {
	session *engine.Client
	err     error
	// contents are the VMs and hosts in the engine.
	contents *inventory.Pool
}

// entry is an OLVMInventoryVM with its VM, and the result of this pass.
type entry struct {
	object *infrav1alpha1.OLVMInventoryVM
	// vm is the engine's VM; nil if there is none.
	vm *engine.DescribedVM
	// lost is the mark of the winning claimant in the engine; nil unless the claim was lost.
	lost *inventory.Mark
	// confirmed reports that the engine has the claim. waiting is the reason why the VM cannot be recycled yet.
	confirmed bool
	waiting   string
	// requeueSoon reports pending work in the engine. failed reports that the engine has refused a request.
	requeueSoon, failed bool
}

// Reconcile runs one pass for an OLVMInventory.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return pass.Controller[*infrav1alpha1.OLVMInventory]{
		Tracker:          &r.passes,
		Client:           r.Client,
		Recorder:         r.Recorder,
		WatchFilterValue: r.WatchFilterValue,
		Forget:           r.forgetRecords,
		Open:             r.openPass,
	}.Reconcile(ctx, req, &infrav1alpha1.OLVMInventory{})
}

// forgetRecords drops all records of a deleted inventory.
func (r *Reconciler) forgetRecords(_ context.Context, key client.ObjectKey) error {
	gone := &infrav1alpha1.OLVMInventory{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	r.Engines.DropCluster(connection.InventoryEngine(gone).Key)
	dropMetrics(key.Namespace, key.Name)
	r.moves.dropMove(key)

	return nil
}

// openPass returns the frame of a pass. It reads nothing, because the guards need only the inventory.
func (r *Reconciler) openPass(_ context.Context, of *pass.Pass, pool *infrav1alpha1.OLVMInventory) (pass.Frame, error) {
	s := &scope{pass: of, inventory: pool}

	return pass.Frame{
		Labelled: pool,
		EnsurePaused: func(ctx context.Context) (bool, error) {
			return workspace.EnsurePausedConditionWithoutState(ctx, of, pool, "OLVMInventory", nil)
		},
		Enter: func(ctx context.Context) (func(), ctrl.Result, error) {
			return func() {}, ctrl.Result{}, writeFinalizer(ctx, of, pool)
		},
		Work:      func(ctx context.Context) (ctrl.Result, error) { return r.reconcileInventory(ctx, s) },
		SetStatus: func() { updateStatus(s) },
		Steps:     s.steps,
		Written: func(gone bool) {
			if s.complete && !gone {
				countVMs(s.inventory)
			}
		},
	}, nil
}

// writeFinalizer writes the finalizer, before anything is created.
func writeFinalizer(ctx context.Context, of *pass.Pass, pool *infrav1alpha1.OLVMInventory) error {
	if !pool.DeletionTimestamp.IsZero() {
		return nil
	}

	controllerutil.AddFinalizer(pool, infrav1alpha1.InventoryFinalizer)

	return of.WriteObject(ctx)
}

// reconcileInventory reads the inventory, decides the claims, and marks them in the engine.
func (r *Reconciler) reconcileInventory(ctx context.Context, s *scope) (ctrl.Result, error) {
	var err error
	if s.clusters, err = r.reconcileClusters(ctx, s); err != nil {
		return ctrl.Result{}, err
	}

	// Read the engine after the objects. Otherwise, a VM deleted in between looks like a VM without an object.
	if s.listed, err = r.reconcileList(ctx, s); err != nil {
		return ctrl.Result{}, err
	}

	s.engine = r.reconcileEngine(ctx, s)

	if err := r.reconcileObjects(ctx, s); err != nil {
		return ctrl.Result{}, err
	}

	if err := r.reconcileGroups(ctx, s); err != nil {
		return ctrl.Result{}, err
	}

	r.reconcileProvision(ctx, s)

	if err := r.reconcileClaims(ctx, s); err != nil {
		return ctrl.Result{}, err
	}

	r.reconcileMarks(ctx, s)

	s.complete = s.engine.session != nil

	if err := r.reconcileStatuses(ctx, s); err != nil {
		return ctrl.Result{}, err
	}

	if !s.inventory.DeletionTimestamp.IsZero() {
		r.reconcileDelete(s)
	}

	switch {
	case s.requeueSoon:
		return ctrl.Result{RequeueAfter: settling}, nil
	case s.engine.err != nil || s.failed:
		return ctrl.Result{RequeueAfter: pass.Jitter(engineRetry)}, nil
	}

	return ctrl.Result{RequeueAfter: pass.Jitter(steady)}, nil
}

// steps maps a condition to the text of its event when it becomes true.
func (s *scope) steps() map[string]string {
	return map[string]string{
		infrav1.EngineAvailableCondition: fmt.Sprintf("The pool has %d VMs", s.inventory.Status.Total),
	}
}

// reconcileEngine requests the VMs of the inventory. A condition reports an unreachable engine.
func (r *Reconciler) reconcileEngine(ctx context.Context, s *scope) engineFacts {
	of := connection.InventoryEngine(s.inventory)
	session, _, err := r.Engines.OpenSession(ctx, of)
	if err != nil {
		enginepool.MarkRestored(s.inventory.Status.LastEvent, err)
		return engineFacts{err: err}
	}

	r.Engines.RecordSession(of.Key, session)

	contents, err := inventory.FetchPool(ctx, session, s.inventory.Spec)
	if err != nil {
		return engineFacts{err: err}
	}

	s.inventory.Status.ServerURL = s.inventory.Spec.OLVMOvirtAPIServer.ServerURL
	err = fetchEngineRecord(ctx, s.inventory, s.listed.objects, session, contents)

	return engineFacts{session: session, contents: contents, err: err}
}

// findLastRun returns the end of the last run for a VM of the inventory, or the zero time.
func findLastRun(vms []infrav1alpha1.OLVMInventoryVM) time.Time {
	var last time.Time

	for i := range vms {
		last = workspace.LatestRunEnd(vms[i].Status.Terraform, last)
	}

	return last
}

// fetchEngineRecord fetches and records the engine's identity. If the inventory already has VMs, but no recorded
// identity, fetchEngineRecord does nothing until the engine has one of these VMs.
func fetchEngineRecord(
	ctx context.Context, of *infrav1alpha1.OLVMInventory, vms []infrav1alpha1.OLVMInventoryVM, session *engine.Client,
	contents *inventory.Pool,
) error {
	known := of.Status.EngineID != "" || len(vms) == 0 ||
		slices.ContainsFunc(vms, func(vm infrav1alpha1.OLVMInventoryVM) bool {
			_, found := contents.VMs[engine.ID(vm.Spec.VMID)]
			return found
		})
	if !known {
		return nil
	}

	identity, err := session.LoadIdentity(ctx)
	if err != nil {
		return err
	}

	last, err := enginepool.DetermineLastEvent(
		ctx, session, connection.InventoryEngine(of), findLastRun(vms), time.Now(),
	)
	if err == nil {
		of.Status.LastEvent = last
	}

	of.Status.EngineID = identity.Installation

	return err
}
