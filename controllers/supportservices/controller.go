// Package supportservices reconciles OLVMSupportServices. It creates, configures and replaces the VMs of a cluster's
// support services, and keeps the object until they are gone.
package supportservices

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
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
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
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/holder"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/userdataserver"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workload"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

const (
	// steady is the requeue interval without events, because certificates expire and VMs may not apply their
	// configuration in time.
	steady = time.Minute
	// retry is the requeue interval during a deletion.
	retry = 10 * time.Second
	// cacheLag is the requeue interval while an object is missing from the cache.
	cacheLag = time.Second
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmsupportservices,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmsupportservices/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmsupportservices/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmmachines,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmmachinetemplates,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch

// Reconciler reconciles OLVMSupportServices.
type Reconciler struct {
	Client client.Client
	// APIReader bypasses the cache for reads that must not be stale.
	APIReader client.Reader
	// Runs and Addresses are shared by all controllers that use them.
	Runs             *workspace.RunQueue
	Addresses        *addressing.Allocator
	Recorder         events.EventRecorder
	WatchFilterValue string
	// Delivery provides the VMs with their configuration. It is nil if the manager serves nothing to VMs.
	Delivery *userdataserver.Server

	passes pass.Tracker
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if r.Client == nil || r.APIReader == nil || r.Runs == nil || r.Addresses == nil || r.Recorder == nil {
		return errors.New("fields Client, APIReader, Runs, Addresses and Recorder must be set")
	}

	err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1alpha1.OLVMSupportServices{}, secretIndex, collectSecretKeys)
	if err != nil {
		return fmt.Errorf("failed to index OLVMSupportServices: %w", err)
	}

	log := ctrl.LoggerFrom(ctx).WithValues("controller", "olvmsupportservices")
	err = capicontrollerutil.NewControllerManagedBy(mgr, log).
		For(&infrav1alpha1.OLVMSupportServices{}, builder.WithPredicates(r.passes.ChangedPredicate())).
		WithOptions(options).
		WithEventFilter(predicate.Or[client.Object](isSecret,
			predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilterValue))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(nameToServices), pass.SpecOrOwnersChanged).
		Watches(&infrav1.OLVMCluster{}, handler.EnqueueRequestsFromMapFunc(labelToServices), clusterFactsChanged).
		Watches(&infrav1.OLVMMachine{}, handler.EnqueueRequestsFromMapFunc(labelToServices),
			predicate.Or[client.Object](pass.SpecOrOwnersChanged, machineFactsChanged)).
		Watches(&infrav1.OLVMMachineTemplate{}, handler.EnqueueRequestsFromMapFunc(r.templateToServices), created).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(labelToServices), deletionChanged).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.secretToServices)).
		Complete(ctx, r)
	if err != nil {
		return fmt.Errorf("failed to set up the OLVMSupportServices controller: %w", err)
	}

	return nil
}

// isSecret accepts Secrets without a watch label, because the objects with references to them have one.
var isSecret = predicate.NewPredicateFuncs(func(o client.Object) bool {
	_, ok := o.(*metav1.PartialObjectMetadata)
	return ok
})

// created selects new objects.
var created = predicate.Funcs{
	UpdateFunc: func(event.UpdateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// clusterFactsChanged selects the changes of an OLVMCluster relevant to its support services.
var clusterFactsChanged = predicate.Or[client.Object](pass.SpecOrOwnersChanged, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*infrav1.OLVMCluster)
		after, too := e.ObjectNew.(*infrav1.OLVMCluster)

		return ok && too && (before.Annotations[infrav1.RouterIDsAnnotation] !=
			after.Annotations[infrav1.RouterIDsAnnotation] ||
			conditions.IsTrue(before, infrav1.EngineAvailableCondition) !=
				conditions.IsTrue(after, infrav1.EngineAvailableCondition))
	},
})

// machineFactsChanged selects the changes of a machine that affect the configuration or status of support services.
var machineFactsChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*infrav1.OLVMMachine)
		after, too := e.ObjectNew.(*infrav1.OLVMMachine)
		if !ok || !too {
			return false
		}

		was, is := conditions.Get(before, infrav1.ReadyCondition), conditions.Get(after, infrav1.ReadyCondition)
		turned := (was == nil) != (is == nil) || was != nil && (was.Status != is.Status || was.Reason != is.Reason)

		return before.Annotations[infrav1.AddressesAnnotation] != after.Annotations[infrav1.AddressesAnnotation] ||
			!slices.Equal(before.Status.Addresses, after.Status.Addresses) ||
			support.GetServiceName(after) != "" && turned
	},
}

// deletionChanged selects Machines whose deletion begins or ends. Load balancers must then open no new connections to
// them.
var deletionChanged = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	},
}

// nameToServices maps a Cluster to its support services, which have the same name.
func nameToServices(_ context.Context, object client.Object) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
}

// labelToServices maps an object to the support services of the Cluster in its label.
func labelToServices(_ context.Context, object client.Object) []ctrl.Request {
	key := addressing.GetClusterKey(object)
	if key.Name == "" {
		return nil
	}

	return []ctrl.Request{{NamespacedName: key}}
}

// templateToServices maps a template to the support services with a reference to it.
func (r *Reconciler) templateToServices(ctx context.Context, template client.Object) []ctrl.Request {
	var list infrav1alpha1.OLVMSupportServicesList
	err := r.Client.List(ctx, &list, client.InNamespace(template.GetNamespace()), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil
	}

	names := func(s support.Service) bool { return s.VM.MachineTemplateName == template.GetName() }

	return pass.ToRequests(slices.DeleteFunc(list.Items, func(of infrav1alpha1.OLVMSupportServices) bool {
		return !slices.ContainsFunc(support.CollectServices(&of), names)
	}))
}

// secretIndex is the name of the index of OLVMSupportServices by their Secrets.
const secretIndex = "namedSecrets"

// collectSecretKeys returns the keys of the Secrets needed by an OLVMSupportServices.
func collectSecretKeys(object client.Object) []string {
	of, ok := object.(*infrav1alpha1.OLVMSupportServices)
	if !ok {
		return nil
	}

	var out []string
	for _, key := range append(support.CollectSecrets(of), workload.KubeconfigSecret(client.ObjectKeyFromObject(of))) {
		out = append(out, key.String())
	}

	return out
}

// secretToServices maps a Secret to the support services with a reference to it, or with a VM using it.
func (r *Reconciler) secretToServices(ctx context.Context, secret client.Object) []ctrl.Request {
	if support.GetServiceName(secret) != "" {
		return labelToServices(ctx, secret)
	}

	var list infrav1alpha1.OLVMSupportServicesList
	err := r.Client.List(ctx, &list, client.MatchingFields{secretIndex: client.ObjectKeyFromObject(secret).String()},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil
	}

	return pass.ToRequests(list.Items)
}

// scope holds the facts of one pass.
type scope struct {
	pass *pass.Pass

	object *infrav1alpha1.OLVMSupportServices
	// cluster and olvmCluster are nil if they do not exist.
	cluster     *clusterv1.Cluster
	olvmCluster *infrav1.OLVMCluster
	// err is a *blocker.Error that prevents all services, or nil.
	err error
	// services are the requested services in order.
	services []*serviceFacts
	// left are the names of OLVMMachines of services no longer requested. requeueSoon reports that the cache lacks a
	// new object.
	left        []string
	requeueSoon bool
	// remainingMachines are the names of machines that may need the services until they are deleted. reconcileDelete
	// sets them.
	remainingMachines []string
}

// Reconcile reconciles one OLVMSupportServices.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return pass.Controller[*infrav1alpha1.OLVMSupportServices]{
		Tracker:          &r.passes,
		Client:           r.Client,
		Recorder:         r.Recorder,
		WatchFilterValue: r.WatchFilterValue,
		Open:             r.openPass,
	}.Reconcile(ctx, req, &infrav1alpha1.OLVMSupportServices{})
}

// openPass finds the Cluster of support services.
func (r *Reconciler) openPass(
	ctx context.Context, of *pass.Pass, object *infrav1alpha1.OLVMSupportServices,
) (pass.Frame, error) {
	s := &scope{pass: of, object: object}
	if err := r.findCluster(ctx, s); err != nil {
		return pass.Frame{}, err
	}

	return pass.Frame{
		Labelled: object,
		Admit: func(context.Context) (bool, ctrl.Result, error) {
			if s.cluster != nil && object.DeletionTimestamp.IsZero() {
				adoptObject(s)
			}

			return true, ctrl.Result{}, nil
		},
		EnsurePaused: func(ctx context.Context) (bool, error) {
			return workspace.EnsurePausedConditionWithoutState(ctx, of, object, support.Kind, s.cluster)
		},
		Work:      func(ctx context.Context) (ctrl.Result, error) { return r.reconcileAdmitted(ctx, s) },
		SetStatus: func() { updateStatus(s) },
	}, nil
}

func (r *Reconciler) reconcileAdmitted(ctx context.Context, s *scope) (ctrl.Result, error) {
	switch {
	case !s.object.DeletionTimestamp.IsZero():
		return r.reconcileDelete(ctx, s)
	case s.err != nil:
		return ctrl.Result{}, nil // nothing changes until an event of the missing object
	}

	if err := s.pass.WriteObject(ctx); err != nil { // the finalizer must be stored before there is anything to protect
		return ctrl.Result{}, err
	}

	if err := r.reconcileServices(ctx, s); err != nil {
		return ctrl.Result{}, err
	}

	if s.requeueSoon {
		return ctrl.Result{RequeueAfter: cacheLag}, nil
	}

	return ctrl.Result{RequeueAfter: pass.Jitter(steady)}, nil
}

// adoptObject adds the finalizer, and makes the Cluster an owner. clusterctl move and the deletion of the Cluster need
// the owner.
func adoptObject(s *scope) {
	controllerutil.AddFinalizer(s.object, infrav1alpha1.SupportServicesFinalizer)
	metav1.SetMetaDataLabel(&s.object.ObjectMeta, clusterv1.ClusterNameLabel, s.cluster.Name)
	s.object.OwnerReferences = util.EnsureOwnerRef(s.object.OwnerReferences, metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: s.cluster.Name, UID: s.cluster.UID,
	})
}

// findCluster finds the Cluster and its OLVMCluster. It sets s.err if there is none, or if it cannot have support
// services.
func (r *Reconciler) findCluster(ctx context.Context, s *scope) error {
	key := client.ObjectKey{Namespace: s.object.Namespace, Name: s.object.Spec.ClusterName}
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, key, cluster); apierrors.IsNotFound(err) {
		s.err = blocker.New(infrav1.NoClusterReason, "spec.clusterName",
			"there is no Cluster %q in namespace %s; create it, or delete this object", key.Name, key.Namespace)

		return nil
	} else if err != nil {
		return fmt.Errorf("failed to get Cluster %s: %w", key, err)
	}

	s.cluster = cluster

	switch ref := cluster.Spec.InfrastructureRef; {
	case !ref.IsDefined():
		s.err = newWaitingError("Cluster %s has no infrastructureRef yet", key.Name)
		return nil
	case !holder.HasOLVMCluster(cluster):
		s.err = blocker.New(infrav1.ClusterOfOtherProviderReason, "spec.clusterName",
			"the infrastructure of Cluster %s is the %s %s, but only clusters with an OLVMCluster can have support "+
				"services; delete this object", key.Name, ref.Kind, ref.Name)

		return nil
	}

	return r.findOLVMCluster(ctx, s)
}

// findOLVMCluster finds the Cluster's OLVMCluster, unless it belongs to another Cluster.
func (r *Reconciler) findOLVMCluster(ctx context.Context, s *scope) error {
	key := client.ObjectKey{Namespace: s.object.Namespace, Name: s.cluster.Spec.InfrastructureRef.Name}
	found := &infrav1.OLVMCluster{}
	if err := r.Client.Get(ctx, key, found); apierrors.IsNotFound(err) {
		s.err = newWaitingError("OLVMCluster %s of Cluster %s does not exist yet", key.Name, s.cluster.Name)
		return nil
	} else if err != nil {
		return fmt.Errorf("failed to get OLVMCluster %s: %w", key, err)
	}

	claims, err := holder.FindClaims(ctx, r.Client, found)
	if err != nil {
		return err
	}

	switch {
	case claims.IsExcluded(s.cluster):
		s.err = claims.ToError()
	case found.Labels[clusterv1.ClusterNameLabel] != s.cluster.Name && found.DeletionTimestamp.IsZero():
		s.err = newWaitingError("OLVMCluster %s does not belong to Cluster %s yet", key.Name, s.cluster.Name)
	default:
		s.olvmCluster = found
	}

	return nil
}

func newWaitingError(format string, args ...any) error {
	return &blocker.Error{
		Reason: infrav1.WaitingForClusterInfrastructureReason, Message: fmt.Sprintf(format, args...),
	}
}

// reconcileDelete deletes the VMs. During the deletion of the cluster, it waits for the nodes first.
func (r *Reconciler) reconcileDelete(ctx context.Context, s *scope) (ctrl.Result, error) {
	if workspace.IsMoving(s.object) {
		return ctrl.Result{}, nil // the VMs stay
	}

	machines, err := support.ListMachines(ctx, r.Client, s.clusterKey())
	if err != nil {
		return ctrl.Result{}, err
	}

	if s.cluster == nil || !s.cluster.DeletionTimestamp.IsZero() {
		for i := range machines {
			m := &machines[i]
			begun := controllerutil.ContainsFinalizer(m, infrav1.MachineFinalizer) || addressing.CanHaveVM(m)
			if support.NewStandInMachine(m) == nil && (len(m.OwnerReferences) > 0 || begun) {
				s.remainingMachines = append(s.remainingMachines, m.Name)
			}
		}
	}

	if len(s.remainingMachines) > 0 {
		ctrl.LoggerFrom(ctx).Info("Waiting for nodes to be deleted",
			"machines", strings.Join(s.remainingMachines, ", "))
		return ctrl.Result{RequeueAfter: retry}, nil
	}

	if err := r.deleteUnrequested(ctx, s, machines, nil); err != nil {
		return ctrl.Result{}, err
	}

	if len(s.left) > 0 {
		return ctrl.Result{RequeueAfter: retry}, nil
	}

	controllerutil.RemoveFinalizer(s.object, infrav1alpha1.SupportServicesFinalizer)

	return ctrl.Result{}, nil
}

// clusterKey returns the key of the services' Cluster, even if it does not exist.
func (s *scope) clusterKey() client.ObjectKey {
	return client.ObjectKey{Namespace: s.object.Namespace, Name: s.object.Spec.ClusterName}
}
