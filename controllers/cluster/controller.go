// Package cluster reconciles OLVMClusters: the endpoint, the engine, failure domains, and affinity groups of machines.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	capicontrollerutil "sigs.k8s.io/cluster-api/util/controller"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/enginepool"
	"github.com/capolvm/cluster-api-provider-olvm/internal/holder"
	"github.com/capolvm/cluster-api-provider-olvm/internal/objectstatus"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/placement"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

const (
	// engineCheck is the interval between checks of the engine. engineRetry is the retry interval after other failures.
	engineCheck = time.Minute
	engineRetry = 10 * time.Second
	// hostCheck is the interval between checks of the hosts used by affinity groups or failure domains.
	hostCheck = 30 * time.Second
	// cacheLag is the retry interval for an object missing from the cache.
	cacheLag = time.Second
	// jitter spreads periodic work, so a restart does not align all objects.
	jitter = 0.2
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmclusteridentities,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmclusters/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmsupportservices,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvminventoryvms,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=apps,resources=deployments,resourceNames=olvm-capi-controller-manager,verbs=get

// Reconciler reconciles OLVMClusters. It checks the endpoint, the engine and the failure domains, and creates the
// affinity groups of the machines. It keeps the object until its machines are deleted.
type Reconciler struct {
	Client client.Client
	// APIReader bypasses the cache for reads that must not be stale.
	APIReader client.Reader
	Engines   *enginepool.Pool
	// Runs is shared by all controllers.
	Runs *workspace.RunQueue
	// Addresses is shared by all controllers that allocate addresses.
	Addresses        *addressing.Allocator
	Recorder         events.EventRecorder
	WatchFilterValue string

	passes     pass.Tracker
	workspaces *workspace.Kind
	limiter    enginepool.ReconcileLimiter
	routerIDs  sync.Mutex
	// kubeconfigs caches the checked kubeconfigs: *seenKubeconfig by the key of the Secret.
	kubeconfigs sync.Map
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(
	ctx context.Context, mgr ctrl.Manager, options controller.Options,
) error {
	if r.Client == nil || r.APIReader == nil || r.Engines == nil || r.Runs == nil || r.Recorder == nil ||
		r.Addresses == nil {
		return errors.New("fields Client, APIReader, Engines, Runs, Recorder and Addresses must be set")
	}

	if err := indexNamed(ctx, mgr); err != nil {
		return fmt.Errorf("failed to index OLVMClusters: %w", err)
	}

	r.workspaces = workspace.NewKind(workspace.Kind{
		Name:     workspace.ClusterKind,
		New:      func() client.Object { return &infrav1.OLVMCluster{} },
		Prefix:   statePrefix,
		Runs:     r.Runs,
		Recorder: r.Recorder,
		Status:   clusterTerraformStatus,
	})
	r.limiter.Limit = options.MaxConcurrentReconciles
	options.MaxConcurrentReconciles *= enginepool.WorkersPerPlace
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "olvmcluster")
	controller := capicontrollerutil.NewControllerManagedBy(mgr, log).
		For(&infrav1.OLVMCluster{}, builder.WithPredicates(r.passes.Changed())).
		WithOptions(options).
		WithEventFilter(predicate.Or[client.Object](named,
			predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilterValue))).
		WithEventFilter(predicates.ResourceIsNotExternallyManaged(mgr.GetScheme(), log)).
		Watches(&clusterv1.Cluster{},
			handler.EnqueueRequestsFromMapFunc(util.ClusterToInfrastructureMapFunc(ctx,
				infrav1.GroupVersion.WithKind("OLVMCluster"), mgr.GetClient(), &infrav1.OLVMCluster{})),
		).
		Watches(&infrav1.OLVMMachine{}, handler.EnqueueRequestsFromMapFunc(r.machineToCluster),
			objectstatus.IgnoreStatus).
		Watches(&infrav1alpha1.OLVMSupportServices{}, handler.EnqueueRequestsFromMapFunc(r.servicesToCluster),
			servicesChanged).
		WatchesRawSource(source.Channel(r.Runs.Woken(workspace.ClusterKind), &handler.EnqueueRequestForObject{})).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.namedBy(secretIndex))).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.namedBy(configMapIndex)))
	if !r.Engines.NoIdentities {
		controller = controller.Watches(&infrav1alpha1.OLVMClusterIdentity{},
			handler.EnqueueRequestsFromMapFunc(r.namedBy(identityIndex)))
	}

	if err := controller.Complete(ctx, r); err != nil {
		return fmt.Errorf("failed to set up the OLVMCluster controller: %w", err)
	}

	return nil
}

func clusterTerraformStatus(object client.Object) **infrav1.TerraformStatus {
	return &object.(*infrav1.OLVMCluster).Status.Terraform //nolint:forcetypeassert,errcheck // New makes no others
}

// named passes Secrets, ConfigMaps and identities. They need no watch label, because the OLVMClusters naming them have
// one.
var named = predicate.NewPredicateFuncs(func(o client.Object) bool {
	switch o.(type) {
	case *metav1.PartialObjectMetadata, *infrav1alpha1.OLVMClusterIdentity:
		return true
	default:
		return false
	}
})

// machineToCluster maps a machine to its OLVMCluster.
func (r *Reconciler) machineToCluster(ctx context.Context, object client.Object) []ctrl.Request {
	return r.ofCluster(ctx, addressing.ClusterOf(object))
}

// ofCluster returns requests for the OLVMClusters with the label of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.ObjectKey) []ctrl.Request {
	var clusters infrav1.OLVMClusterList
	if err := r.Client.List(ctx, &clusters, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}

	return requestsFor(clusters.Items)
}

// Indexes of OLVMClusters by the objects they name. A management cluster has many Secrets, and few of them are named.
const (
	secretIndex    = "namedSecrets"
	configMapIndex = "namedConfigMaps"
	identityIndex  = "namedIdentity"
)

// indexNamed registers the indexes with the cache.
func indexNamed(ctx context.Context, mgr ctrl.Manager) error {
	for name, of := range map[string]func(*infrav1.OLVMCluster) []client.ObjectKey{
		secretIndex:    secretsOf,
		configMapIndex: configMapsOf,
		identityIndex:  identityOf,
	} {
		keys := func(object client.Object) []string {
			cluster, ok := object.(*infrav1.OLVMCluster)
			if !ok {
				return nil
			}

			var out []string
			for _, key := range of(cluster) {
				out = append(out, key.String())
			}

			return out
		}
		if err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.OLVMCluster{}, name, keys); err != nil {
			return err
		}
	}

	return nil
}

// namedBy maps a changed Secret, ConfigMap or identity to the clusters naming it. A corrected password thus takes
// effect at once.
func (r *Reconciler) namedBy(index string) handler.MapFunc {
	return func(ctx context.Context, object client.Object) []ctrl.Request {
		var clusters infrav1.OLVMClusterList
		err := r.Client.List(ctx, &clusters, client.MatchingFields{
			index: client.ObjectKeyFromObject(object).String(),
		}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil
		}

		return requestsFor(clusters.Items)
	}
}

// secretsOf returns the Secrets used by an OLVMCluster.
func secretsOf(c *infrav1.OLVMCluster) []client.ObjectKey {
	out := enginepool.Keys(connection.ClusterEngine(c), enginepool.CredentialsOf)
	if key, ok := kubeconfigOf(c); ok {
		out = append(out, key)
	}

	return out
}

// identityOf returns the OLVMClusterIdentity named by an OLVMCluster.
func identityOf(c *infrav1.OLVMCluster) []client.ObjectKey {
	return []client.ObjectKey{{Name: connection.IdentityOf(connection.ClusterEngine(c))}}
}

// configMapsOf returns the ConfigMaps used by an OLVMCluster.
func configMapsOf(c *infrav1.OLVMCluster) []client.ObjectKey {
	return enginepool.Keys(connection.ClusterEngine(c), enginepool.CAOf)
}

func requestsFor(clusters []infrav1.OLVMCluster) []ctrl.Request {
	var out []ctrl.Request
	for i := range clusters {
		out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&clusters[i])})
	}

	return out
}

// clusterScope holds the facts of one pass.
type clusterScope struct {
	pass *pass.Pass

	cluster     *clusterv1.Cluster
	olvmCluster *infrav1.OLVMCluster
	// workspace holds the state, the result of the last run, and the chosen action.
	workspace *workspace.Workspace
	// session and config connect to the engine. If the engine cannot be used, engineErr holds the cause, dataCenter is
	// nil, and product is empty. reconcileEngine sets them.
	session    *engine.Client
	config     engine.Config
	engineErr  error
	dataCenter *engine.DataCenter
	product    engine.Product
	// lastEvent is the engine event to record.
	lastEvent *infrav1.EngineEvent
	// engineKnown reports that the engine has the machines of the cluster, or that there are none yet.
	engineKnown bool
	// kubeconfig describes the cluster's kubeconfig; nil if unknown. reconcileKubeconfig sets it.
	kubeconfig *seenKubeconfig
	// unowned are the remaining machines without an owning Machine. reconcileDelete sets them.
	unowned []string
	// claims are the Clusters naming the OLVMCluster.
	claims holder.Claims
	// endpointErr reports that the Cluster names another endpoint, or names another object using a virtual address of
	// the cluster. reconcileEndpoint and reconcileVirtualAddresses set it.
	endpointErr error
	// addressesChecked reports that this pass checked the virtual addresses against other objects.
	addressesChecked bool
	// servicesErr describes a problem of the control plane services. reconcileServices sets it.
	servicesErr error
	// domains are the usable failure domains, and wrongDomains the problems of others. domainsErr explains why both are
	// unknown. reconcileFailureDomains sets them.
	domains      []clusterv1.FailureDomain
	wrongDomains []error
	domainsErr   error
	// services are the support services of the Cluster; nil for none. findServices sets it.
	services *infrav1alpha1.OLVMSupportServices
	// supportVMs are the existing OLVMMachines of support services. deleteServices sets them.
	supportVMs []string
	// groups are the desired affinity groups, and rendered their configuration. groupsErr explains why both are
	// unknown. drifted reports that the engine's groups differ from the applied ones. incomplete reports that a machine
	// is still missing from the cache. reconcileGroups sets them.
	groups     []placement.Group
	rendered   render.Configuration
	groupsErr  error
	drifted    bool
	incomplete bool
	// machines are the existing machines; reconcileDelete sets them.
	machines []string
	// kept are the OLVMInventoryVMs claimed for the cluster without a machine; reconcileDelete sets them.
	kept []string
	// blocked explains why a deletion must stop; nil if it may proceed. reconcileDestroy sets it.
	blocked *blocker.Error
}

// Reconcile runs one pass for an OLVMCluster.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, reterr error) {
	olvmCluster := &infrav1.OLVMCluster{}
	this, err := r.passes.Begin(ctx, r.Client, req.NamespacedName, olvmCluster)
	if apierrors.IsNotFound(err) {
		// Clean up here, not on removal of the finalizer: clusterctl move and users remove finalizers, too.
		r.Engines.Forget(req.NamespacedName)

		return ctrl.Result{}, r.workspaces.Abandon(req.NamespacedName)
	} else if err != nil {
		return pass.Unbegun(err)
	}

	defer this.End(&result, &reterr)

	foreign := r.WatchFilterValue != "" && !labels.HasWatchLabel(olvmCluster, r.WatchFilterValue)
	if annotations.IsExternallyManaged(olvmCluster) || foreign {
		// The event filter checked the label of the object in the event, not of this one.
		return ctrl.Result{}, nil
	}

	claims, err := holder.Find(ctx, r.Client, olvmCluster)
	if err != nil {
		return ctrl.Result{}, err
	}

	owned := util.HasOwner(olvmCluster.OwnerReferences, clusterv1.GroupVersion.String(), []string{"Cluster"})
	if (claims.Holder == nil || !owned) && olvmCluster.DeletionTimestamp.IsZero() {
		ctrl.LoggerFrom(ctx).Info("Waiting for the Cluster to own this OLVMCluster")
		return ctrl.Result{}, endSharing(ctx, this, olvmCluster, claims)
	}

	scope := &clusterScope{pass: this, cluster: claims.Holder, olvmCluster: olvmCluster, claims: claims}
	scope.workspace = r.workspaces.Open(this, olvmCluster, clusterNameOf(scope))

	return r.reconcileOwned(ctx, scope)
}

// endSharing removes the condition SharedByClusters from an OLVMCluster without a Cluster. This allows the garbage
// collector to delete it.
func endSharing(ctx context.Context, this *pass.Pass, c *infrav1.OLVMCluster, claims holder.Claims) error {
	known := conditions.Get(c, infrav1.EndpointConfiguredCondition)
	if known == nil || known.Reason != infrav1.SharedByClustersReason || claims.Shared() {
		return nil
	}

	err := this.Write(ctx, func() { conditions.Delete(c, infrav1.EndpointConfiguredCondition) })

	return objectstatus.IgnoreGone(err)
}

// reconcileOwned reconciles an OLVMCluster with an owning Cluster, or one in deletion.
func (r *Reconciler) reconcileOwned(ctx context.Context, scope *clusterScope) (_ ctrl.Result, reterr error) {
	olvmCluster := scope.olvmCluster
	if scope.cluster != nil && olvmCluster.DeletionTimestamp.IsZero() {
		controllerutil.AddFinalizer(olvmCluster, infrav1.ClusterFinalizer)
	}

	if scope.claims.Shared() && olvmCluster.DeletionTimestamp.IsZero() {
		setEndpointCondition(scope) // even if paused: the condition protects it when the other Cluster is deleted
	}

	if paused, err := scope.workspace.Paused(ctx, scope.cluster); err != nil || paused {
		return ctrl.Result{}, err
	}

	leave, ok := r.limiter.Enter(ctx, olvmCluster.Namespace, connection.EngineOf(olvmCluster).Key())
	if !ok {
		return ctrl.Result{RequeueAfter: wait.Jitter(engineRetry, jitter)}, nil
	}

	defer leave()

	defer func() { reterr = kerrors.NewAggregate([]error{reterr, r.write(ctx, scope)}) }()

	if !olvmCluster.DeletionTimestamp.IsZero() {
		return r.reconcileDelete(ctx, scope)
	}

	return r.reconcileNormal(ctx, scope)
}

// write writes the object and its status, and records events.
func (r *Reconciler) write(ctx context.Context, scope *clusterScope) error {
	c := scope.olvmCluster
	conclude := func() { updateClusterStatus(scope) }
	steps := func() map[string]string {
		shown := engine.ShownURL(c.Spec.OLVMOvirtAPIServer.ServerURL)

		return map[string]string{infrav1.EngineAvailableCondition: "The engine " + shown + " can be used"}
	}
	if err := objectstatus.Write(ctx, scope.pass, r.Recorder, c, conclude, steps); err != nil {
		return objectstatus.IgnoreGone(err)
	}

	scope.workspace.Recorded()

	return nil
}

func (r *Reconciler) reconcileNormal(ctx context.Context, scope *clusterScope) (ctrl.Result, error) {
	// Record the end of a run even if the engine is unreachable.
	observeErr := scope.workspace.Observe(ctx)

	if err := r.findServices(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}

	reconcileEndpoint(scope)
	r.reconcileEngine(ctx, scope) // its ID determines the other clusters to consider
	if err := r.reconcileServices(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}

	if err := r.reconcileKubeconfig(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}

	if scope.engineErr != nil {
		reason, _ := blocker.EngineReason(scope.engineErr)
		ctrl.LoggerFrom(ctx).Info("Engine cannot be used", "reason", reason, "error", scope.engineErr.Error())
		return ctrl.Result{RequeueAfter: wait.Jitter(nextTry(downFor(scope.olvmCluster)), jitter)}, nil
	}

	r.reconcileFailureDomains(ctx, scope)
	if err := r.reconcileVirtualAddresses(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}

	if endpointReady(scope.olvmCluster) && scope.endpointErr == nil && !scope.claims.Shared() &&
		scope.endpointServed() && scope.servicesErr == nil && scope.domainsErr == nil {
		scope.olvmCluster.Status.Initialization.Provisioned = ptr.To(true)
	}

	if observeErr != nil {
		return ctrl.Result{}, observeErr
	}

	r.reconcileGroups(ctx, scope)
	if err := r.reconcileRun(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}

	return ctrl.Result{RequeueAfter: nextLook(scope)}, nil
}

// downFor returns how long the engine has been unavailable.
func downFor(c *infrav1.OLVMCluster) time.Duration {
	known := conditions.Get(c, infrav1.EngineAvailableCondition)
	if known == nil || known.Status == metav1.ConditionTrue {
		return 0
	}

	return time.Since(known.LastTransitionTime.Time)
}

// nextTry returns the delay before the next request to an unavailable engine: half of the downtime, between 5 seconds
// and a minute.
func nextTry(down time.Duration) time.Duration {
	const soonest, latest = 5 * time.Second, time.Minute
	return min(max(down/2, soonest), latest)
}

// nextLook returns the requeue delay. It is short after failures and for missing objects, and otherwise frequent enough
// to notice hosts appearing or disappearing.
func nextLook(scope *clusterScope) time.Duration {
	after := wait.Jitter(engineCheck, jitter)
	if len(scope.groups) > 0 || len(scope.olvmCluster.Spec.FailureDomains) > 0 {
		after = wait.Jitter(hostCheck, jitter)
	}

	if scope.servicesErr != nil || scope.domainsErr != nil || scope.groupsErr != nil || scope.endpointErr != nil {
		after = engineRetry
	}

	if scope.incomplete {
		after = cacheLag
	}

	if scope.workspace.Action.After > 0 {
		after = min(after, scope.workspace.Action.After)
	}

	return after
}

// reconcileEndpoint completes the endpoint: the host from the Cluster or a load balancer, and the port.
func reconcileEndpoint(scope *clusterScope) {
	endpoint := &scope.olvmCluster.Spec.ControlPlaneEndpoint
	desired.CompleteEndpoint(endpoint, scope.cluster.Spec.ControlPlaneEndpoint)

	if endpoint.Host == "" {
		endpoint.Host = support.Endpoint(scope.olvmCluster.Spec, scope.services)
	}

	if endpoint.Host != "" && endpoint.Port == 0 {
		endpoint.Port = desired.DefaultEndpointPort
	}

	scope.endpointErr = desired.CheckEndpoints(scope.cluster.Name, scope.cluster.Spec.ControlPlaneEndpoint, *endpoint)
}

// reconcileVirtualAddresses checks that no other object uses a virtual address of the cluster. It checks before the
// cluster has machines, after each change, and until the address is free.
func (r *Reconciler) reconcileVirtualAddresses(ctx context.Context, scope *clusterScope) error {
	c := scope.olvmCluster
	if scope.endpointErr != nil || !isCheckDue(c) {
		return nil
	}

	taken, err := r.Addresses.CheckVirtualAddresses(ctx, c, scope.engineID())
	if taken != nil {
		scope.endpointErr = taken.Problem()
	}

	scope.addressesChecked = err == nil

	return err
}

// isCheckDue reports whether the virtual addresses of a cluster still need a check against other objects.
func isCheckDue(c *infrav1.OLVMCluster) bool {
	known := conditions.Get(c, infrav1.EndpointConfiguredCondition)

	return !ptr.Deref(c.Status.Initialization.Provisioned, false) || known == nil ||
		known.ObservedGeneration != c.Generation || known.Reason == infrav1.EndpointInUseReason ||
		known.Reason == infrav1.SharedByClustersReason // it hides EndpointInUse
}

// engineID returns the identity of the cluster's engine, as far as this pass knows it.
func (s *clusterScope) engineID() connection.EngineID {
	return connection.EngineOf(s.olvmCluster).WithInstallation(s.product.InstanceID)
}

func endpointReady(c *infrav1.OLVMCluster) bool {
	return c.Spec.ControlPlaneEndpoint.Host != "" && c.Spec.ControlPlaneEndpoint.Port != 0
}

// reconcileEngine requests the engine's version and the data center.
func (r *Reconciler) reconcileEngine(ctx context.Context, scope *clusterScope) {
	session, config, err := r.Engines.For(ctx, connection.ClusterEngine(scope.olvmCluster))
	scope.session, scope.config = session, config
	if err == nil && r.Engines.Replaced(client.ObjectKeyFromObject(scope.olvmCluster), session) {
		r.wakeMachines(ctx, scope) // the machines would continue with outdated credentials
	}

	if err == nil {
		scope.product, err = session.Product(ctx)
	}

	if err == nil {
		scope.dataCenter, err = session.DataCenter(ctx, scope.olvmCluster.Spec.OLVMDatacenterName)
	}

	var unknown *engine.NameError
	if errors.As(err, &unknown) {
		err = &blocker.Error{
			Reason:  infrav1.DataCenterNotFoundReason,
			Field:   "spec.olvmDatacenterName",
			Message: unknown.Error() + "; correct the name",
		}
	}

	if err == nil {
		scope.lastEvent, err = r.lastEvent(ctx, scope)
	}

	if err == nil { // after lastEvent, so the compared identity is also the recorded one
		err = checkIdentity(ctx, scope)
	}

	if err == nil {
		scope.engineErr = r.reconcileEngineID(ctx, scope)
		return
	}

	scope.engineErr = err
}

// lastEvent returns the engine event to record.
func (r *Reconciler) lastEvent(ctx context.Context, scope *clusterScope) (*infrav1.EngineEvent, error) {
	machines, err := r.machinesOf(ctx, scope)
	if err != nil {
		return nil, err
	}

	var lastRun time.Time

	for i := range machines {
		lastRun = workspace.LaterRun(machines[i].Status.Terraform, lastRun)
	}

	return enginepool.LastEvent(ctx, scope.session, connection.ClusterEngine(scope.olvmCluster), lastRun, time.Now())
}

// checkIdentity compares the identity of the responding engine with the recorded one.
func checkIdentity(ctx context.Context, scope *clusterScope) error {
	seen, err := scope.session.Identity(ctx)
	if err != nil {
		return err
	}

	scope.product.InstanceID = seen.Installation

	return connection.CheckEngine(connection.ClusterEngine(scope.olvmCluster), "", seen)
}

// reconcileEngineID decides whether the engine's identity may be recorded, and refuses a data center other than the
// recorded one. A cluster with machines but without a record gets a record as soon as one of its VMs is found.
func (r *Reconciler) reconcileEngineID(ctx context.Context, scope *clusterScope) error {
	recorded := ptr.Deref(scope.olvmCluster.Status.OLVMDatacenter, infrav1.OLVMDatacenterStatus{})
	seen := scope.dataCenter.ID.String()
	scope.engineKnown = recorded.EngineID != ""
	moved := scope.engineKnown && recorded.EngineID == scope.product.InstanceID && recorded.DataCenterID != "" &&
		recorded.DataCenterID != seen

	if scope.engineKnown && !moved {
		return nil // no need to look at the machines
	}

	machines, err := r.machinesOf(ctx, scope)
	if err != nil {
		return err
	}

	var ids []engine.ID

	for i := range machines {
		if id := bootstrap.VMOf(machines[i].Spec.ProviderID); id != "" {
			ids = append(ids, engine.ID(id))
		}
	}

	if moved && len(ids) > 0 {
		return blocker.New(infrav1.EngineChangedReason, "spec.olvmDatacenterName",
			"%s is data center %s, but the machines of this cluster are in data center %s (%s); nothing is changed. "+
				"Correct olvmDatacenterName",
			scope.dataCenter.Name, seen, recorded.DataCenterID, recorded.DataCenterName)
	}

	scope.engineKnown = scope.engineKnown || len(ids) == 0

	for _, id := range ids {
		if scope.engineKnown {
			break
		}

		vm, err := r.Engines.VM(ctx, scope.session, id, engineCheck)
		if err != nil {
			return err
		}

		scope.engineKnown = vm != nil
	}

	return nil
}

// reconcileDelete waits for the machines, and then removes their shared resources. Only this object knows the
// connection to the engine, and the machines still need it.
func (r *Reconciler) reconcileDelete(ctx context.Context, scope *clusterScope) (ctrl.Result, error) {
	if err := scope.workspace.Observe(ctx); err != nil {
		return ctrl.Result{}, err
	}

	c, name := scope.olvmCluster, clusterNameOf(scope)
	machines, err := r.machinesOf(ctx, scope)
	if err != nil {
		return ctrl.Result{}, err
	}

	for i := range machines {
		m := &machines[i]
		unowned := len(m.OwnerReferences) == 0
		begun := controllerutil.ContainsFinalizer(m, infrav1.MachineFinalizer) || addressing.MayHaveVM(m)

		if support.MachineOf(m) != nil || unowned && !begun { // it has no VM and will not get one
			continue
		}

		scope.machines = append(scope.machines, m.Name)
		if unowned {
			scope.unowned = append(scope.unowned, m.Name)
		}
	}

	if err := r.addMachinesOfOthers(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}

	// The nodes may need the services until they are deleted.
	if len(scope.machines) == 0 {
		if err := r.deleteServices(ctx, scope, machines); err != nil {
			return ctrl.Result{}, err
		}
	}

	if len(scope.machines)+len(scope.supportVMs) > 0 || scope.services != nil {
		r.reconcileEngine(ctx, scope) // the machines rely on this object's engine status
		ctrl.LoggerFrom(ctx).Info("Waiting for machines to be deleted", "machines",
			strings.Join(slices.Concat(scope.machines, scope.supportVMs), ", "))

		return ctrl.Result{RequeueAfter: engineRetry}, nil
	}

	if scope.kept, err = r.keptVMs(ctx, c.Namespace, name); err != nil || len(scope.kept) > 0 {
		return ctrl.Result{RequeueAfter: engineRetry}, err
	}

	gone, after, err := r.reconcileDestroy(ctx, scope)
	if err != nil {
		return ctrl.Result{}, err
	}

	if gone {
		r.forgetKubeconfig(c)
		controllerutil.RemoveFinalizer(c, infrav1.ClusterFinalizer)
	}

	return ctrl.Result{RequeueAfter: after}, nil
}

// machinesOf returns the OLVMMachines of the cluster. See support.Machines.
func (r *Reconciler) machinesOf(ctx context.Context, scope *clusterScope) ([]infrav1.OLVMMachine, error) {
	name := clusterNameOf(scope)
	if name == "" {
		return nil, nil
	}

	return support.Machines(ctx, r.Client, client.ObjectKey{Namespace: scope.olvmCluster.Namespace, Name: name})
}

// addMachinesOfOthers adds machines of other Clusters naming this OLVMCluster without holding it, if they may have a
// VM.
func (r *Reconciler) addMachinesOfOthers(ctx context.Context, scope *clusterScope) error {
	for _, name := range scope.claims.OtherNames() {
		machines, err := support.Machines(ctx, r.Client,
			client.ObjectKey{Namespace: scope.olvmCluster.Namespace, Name: name})
		if err != nil {
			return err
		}

		for i := range machines {
			if addressing.MayHaveVM(&machines[i]) {
				scope.machines = append(scope.machines, machines[i].Name)
			}
		}
	}

	return nil
}

// keptVMs returns the inventory VMs claimed for a cluster, but for none of its machines. Their inventory takes them
// back while it can still see the cluster.
func (r *Reconciler) keptVMs(ctx context.Context, namespace, cluster string) ([]string, error) {
	var list infrav1alpha1.OLVMInventoryVMList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("failed to list the OLVMInventoryVMs of Cluster %s/%s: %w", namespace, cluster, err)
	}

	var out []string

	for i := range list.Items {
		claim := list.Items[i].Spec.ClaimRef
		if claim != nil && claim.ClusterName == cluster && claim.MachineName == "" && !claim.Released {
			out = append(out, list.Items[i].Name)
		}
	}

	slices.Sort(out)

	return out, nil
}
