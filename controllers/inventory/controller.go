// Package inventory reconciles OLVMInventories: it lists the VMs of a pool, and gives them to the machines that want
// one.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
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
	"github.com/capolvm/cluster-api-provider-olvm/internal/objectstatus"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

const (
	// steady is when to look at a pool again in which nothing is on its way.
	steady = 30 * time.Second
	// settling is when to look again at claims that the engine must confirm: long enough that two tags which were made
	// in the same moment are both seen.
	settling = time.Second
	// engineRetry is when to look again at what the engine did not answer.
	engineRetry = 10 * time.Second
	// atOnce is how many VMs of a pool are changed in the engine at the same time.
	atOnce = 8
	// jitter spreads periodic work.
	jitter = 0.2
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvminventories,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvminventories/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvminventories/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvminventoryvms,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvminventoryvms/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinesets,verbs=get
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes,verbs=get

// Reconciler reconciles OLVMInventories. One pass over a pool decides all claims on it, one pass at a time.
type Reconciler struct {
	Client client.Client
	// APIReader reads past the cache, where an old answer would do harm.
	APIReader client.Reader
	Engines   *enginepool.Pool
	// Addresses are shared by all controllers that give some.
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
		For(&infrav1alpha1.OLVMInventory{}, builder.WithPredicates(r.passes.Changed())).
		Owns(&infrav1alpha1.OLVMInventoryVM{}, predicate.Or(predicate.GenerationChangedPredicate{}, madeOrNot)).
		WithOptions(options).
		Watches(&infrav1.OLVMMachine{}, handler.EnqueueRequestsFromMapFunc(machineToInventory),
			objectstatus.IgnoreStatus).
		Watches(&infrav1.OLVMCluster{}, handler.EnqueueRequestsFromMapFunc(r.clusterToInventories),
			objectstatus.IgnoreStatus).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.clusterToInventories),
			predicates.ClusterPausedTransitions(mgr.GetScheme(), log)).
		Complete(ctx, r)
	if err != nil {
		return fmt.Errorf("failed to set up the OLVMInventory controller: %w", err)
	}

	return nil
}

// madeOrNot passes what tells that a VM of the pool is made, or that this has failed.
var madeOrNot = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*infrav1alpha1.OLVMInventoryVM)
		after, too := e.ObjectNew.(*infrav1alpha1.OLVMInventoryVM)

		return ok && too && (inventory.Made(before) != inventory.Made(after) || failing(before) != failing(after))
	},
}

// failing reports whether a VM of the pool cannot be made or deleted.
func failing(vm *infrav1alpha1.OLVMInventoryVM) bool {
	return slices.ContainsFunc([]string{infrav1.InfrastructureAppliedCondition, infrav1.DeletingCondition},
		func(condition string) bool {
			found := conditions.Get(vm, condition)
			return found != nil && objectstatus.IsFailure(*found)
		})
}

// machineToInventory wakes the inventory that a machine wants a VM of.
func machineToInventory(_ context.Context, object client.Object) []ctrl.Request {
	m, ok := object.(*infrav1.OLVMMachine)
	if !ok || m.Spec.FromInventory == nil {
		return nil
	}

	return []ctrl.Request{
		{NamespacedName: types.NamespacedName{Namespace: m.Namespace, Name: m.Spec.FromInventory.InventoryName}},
	}
}

// clusterToInventories wakes the inventories of a namespace whose Cluster goes on, or keeps other VMs for later.
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
	// session is nil where the engine cannot be used, and engineErr says why.
	session   *engine.Client
	engineErr error
	// pool is what the engine has; nil where it cannot be used.
	pool *inventory.Pool
	// objects are the OLVMInventoryVMs of the inventory, those that are being deleted too, and taken the names of all
	// of the namespace. Set by reconcileList.
	objects []infrav1alpha1.OLVMInventoryVM
	taken   map[string]bool
	// provision is set by reconcileProvision.
	provision provisionFacts
	// entries are the OLVMInventoryVMs with the VMs that they are for, by name. Set by reconcileObjects.
	entries []*entry
	// clusters are the Clusters of the namespace, by name, and active those that are not paused; moving is the name of
	// one whose spec.paused is true, as clusterctl move has it, or was until it was gone; empty where there is none.
	// Set by reconcileClusters.
	clusters, active map[string]bool
	moving           string
	// machines are the OLVMMachines that want a VM of the pool, by name, and groups those that are to have one. Set by
	// reconcileGroups.
	machines map[string]*infrav1.OLVMMachine
	groups   []inventory.Group
	plan     inventory.Plan
	// decided reports that the pass came to its end with an engine: what it has counted is true.
	decided bool
	// claimed lists the VMs that still have a claim. Set by reconcileDelete.
	claimed []string
	// soon reports that something is on its way in the engine, and failed that the engine refused something.
	soon, failed bool
}

// entry is an OLVMInventoryVM.
type entry struct {
	object *infrav1alpha1.OLVMInventoryVM
	// vm is what the engine has; nil where it has none.
	vm *engine.DescribedVM
	// lost is the mark of another in the engine, where the claim on the VM was lost to it.
	lost *inventory.Mark
	// confirmed reports that the engine has the claim, and waiting what a recycling VM waits for.
	confirmed bool
	waiting   string
	// soon reports that something is on its way in the engine, and failed that the engine refused it.
	soon, failed bool
}

// Reconcile brings one OLVMInventory forward.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, reterr error) {
	pool := &infrav1alpha1.OLVMInventory{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
	this, err := r.passes.Begin(ctx, r.Client, req.NamespacedName, pool)
	if apierrors.IsNotFound(err) {
		r.Engines.Forget(connection.InventoryEngine(pool).Key)
		forget(pool.Namespace, pool.Name)
		r.moves.forget(req.NamespacedName)

		return ctrl.Result{}, nil
	} else if err != nil {
		return pass.Unbegun(err)
	}

	defer this.End(&result, &reterr)

	if !r.ours(pool) {
		return ctrl.Result{}, nil
	}

	if paused, err := workspace.PausedWithoutState(ctx, this, pool, "OLVMInventory", nil); err != nil || paused {
		return ctrl.Result{}, err
	}

	if pool.DeletionTimestamp.IsZero() {
		controllerutil.AddFinalizer(pool, infrav1alpha1.InventoryFinalizer)
		if err := this.WriteObject(ctx); err != nil { // before there is anything that it is for
			return ctrl.Result{}, err
		}
	}

	s := &scope{pass: this, inventory: pool}
	defer func() { reterr = kerrors.NewAggregate([]error{reterr, r.write(ctx, s)}) }()

	return r.reconcile(ctx, s)
}

// ours reports whether the watch filter lets an inventory through.
func (r *Reconciler) ours(pool *infrav1alpha1.OLVMInventory) bool {
	return r.WatchFilterValue == "" || pool.Labels[clusterv1.WatchLabel] == r.WatchFilterValue
}

// reconcile looks at the pool, decides the claims, and makes them true in the engine.
func (r *Reconciler) reconcile(ctx context.Context, s *scope) (ctrl.Result, error) {
	if err := r.reconcileClusters(ctx, s); err != nil {
		return ctrl.Result{}, err
	}

	// The engine comes after the objects: a VM that is deleted in between is not taken for one that has no object yet.
	if err := r.reconcileList(ctx, s); err != nil {
		return ctrl.Result{}, err
	}

	r.reconcileEngine(ctx, s)

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

	s.decided = s.session != nil

	if err := r.reconcileStatuses(ctx, s); err != nil {
		return ctrl.Result{}, err
	}

	if !s.inventory.DeletionTimestamp.IsZero() {
		r.reconcileDelete(s)
	}

	switch {
	case s.soon:
		return ctrl.Result{RequeueAfter: settling}, nil
	case s.engineErr != nil || s.failed:
		return ctrl.Result{RequeueAfter: wait.Jitter(engineRetry, jitter)}, nil
	}

	return ctrl.Result{RequeueAfter: wait.Jitter(steady, jitter)}, nil
}

// write writes the object and its status, and records events.
func (r *Reconciler) write(ctx context.Context, s *scope) error {
	conclude := func() {
		updateStatus(s)

		if s.decided {
			count(s.inventory)
		}
	}
	steps := func() map[string]string {
		return map[string]string{
			infrav1.EngineAvailableCondition: fmt.Sprintf("The pool has %d VMs", s.inventory.Status.Total),
		}
	}

	return objectstatus.IgnoreGone(objectstatus.Write(ctx, s.pass, r.Recorder, s.inventory, conclude, steps))
}

// reconcileEngine asks the engine for the VMs of the pool. A condition tells where it does not answer.
func (r *Reconciler) reconcileEngine(ctx context.Context, s *scope) {
	of := connection.InventoryEngine(s.inventory)
	session, _, err := r.Engines.For(ctx, of)
	if err != nil {
		s.engineErr = err
		enginepool.MarkRestored(s.inventory.Status.LastEvent, err)

		return
	}

	r.Engines.Replaced(of.Key, session)
	if s.pool, s.engineErr = inventory.Read(ctx, session, s.inventory.Spec); s.engineErr == nil {
		s.session = session
		s.inventory.Status.ServerURL = s.inventory.Spec.OLVMOvirtAPIServer.ServerURL
		s.engineErr = recordEngine(ctx, s)
	}
}

// lastRun returns when the last run for a VM of the pool ended; zero if none has.
func lastRun(vms []infrav1alpha1.OLVMInventoryVM) time.Time {
	var last time.Time

	for i := range vms {
		last = workspace.LaterRun(vms[i].Status.Terraform, last)
	}

	return last
}

// recordEngine records which engine has the VMs of the pool. A pool that has VMs, and no record yet, gets one when one
// of them is found.
func recordEngine(ctx context.Context, s *scope) error {
	known := s.inventory.Status.EngineID != "" || len(s.objects) == 0 ||
		slices.ContainsFunc(s.objects, func(vm infrav1alpha1.OLVMInventoryVM) bool {
			_, found := s.pool.VMs[engine.ID(vm.Spec.VMID)]
			return found
		})
	if !known {
		return nil
	}

	identity, err := s.session.Identity(ctx)
	if err != nil {
		return err
	}

	of := connection.InventoryEngine(s.inventory)

	last, err := enginepool.LastEvent(ctx, s.session, of, lastRun(s.objects), time.Now())
	if err == nil {
		s.inventory.Status.LastEvent = last
	}

	s.inventory.Status.EngineID = identity.Installation

	return err
}
