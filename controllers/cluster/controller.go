// Package cluster reconciles OLVMClusters: endpoint, engine, failure domains, and affinity groups of the machines.
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
	// engineCheck is how often a cluster looks whether its engine is there; engineRetry is when to
	// look again after something else failed.
	engineCheck = time.Minute
	engineRetry = 10 * time.Second
	// hostCheck is how often a cluster looks at hosts on which affinity groups or failure domains depend.
	hostCheck = 30 * time.Second
	// cacheLag is when to look again for an object that the cache does not have yet.
	cacheLag = time.Second
	// jitter spreads periodic work, so that a restart does not line all objects up.
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

// Reconciler reconciles OLVMClusters: it checks the endpoint, the engine and the failure domains, makes the
// affinity groups of the machines, and keeps the object until its machines are gone.
type Reconciler struct {
	Client client.Client
	// APIReader reads past the cache, where an old answer would do harm.
	APIReader client.Reader
	Engines   *enginepool.Pool
	// Runs are shared by all controllers.
	Runs *workspace.RunQueue
	// Addresses are shared by all that give addresses.
	Addresses        *addressing.Allocator
	Recorder         events.EventRecorder
	WatchFilterValue string

	passes     pass.Tracker
	workspaces *workspace.Kind
	limiter    enginepool.ReconcileLimiter
	routerIDs  sync.Mutex
	// kubeconfigs are those that were seen, *seenKubeconfig by the key of the Secret.
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

// named lets Secrets, ConfigMaps and identities through, which need no watch label: the OLVMClusters that name them
// have it.
var named = predicate.NewPredicateFuncs(func(o client.Object) bool {
	switch o.(type) {
	case *metav1.PartialObjectMetadata, *infrav1alpha1.OLVMClusterIdentity:
		return true
	default:
		return false
	}
})

// machineToCluster wakes the cluster of a machine.
func (r *Reconciler) machineToCluster(ctx context.Context, object client.Object) []ctrl.Request {
	return r.ofCluster(ctx, addressing.ClusterOf(object))
}

// ofCluster wakes the OLVMClusters that have the label of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.ObjectKey) []ctrl.Request {
	var clusters infrav1.OLVMClusterList
	if err := r.Client.List(ctx, &clusters, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}

	return requestsFor(clusters.Items)
}

// The indexes of OLVMClusters by what they name. A management cluster has many Secrets, and few of them are named.
const (
	secretIndex    = "namedSecrets"
	configMapIndex = "namedConfigMaps"
	identityIndex  = "namedIdentity"
)

// indexNamed has the cache index OLVMClusters by what they name.
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

// namedBy wakes the clusters that name the Secret, ConfigMap or identity that changed, so that a corrected password
// heals at once.
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

// secretsOf are the Secrets that an OLVMCluster depends on.
func secretsOf(c *infrav1.OLVMCluster) []client.ObjectKey {
	out := enginepool.Keys(connection.ClusterEngine(c), enginepool.CredentialsOf)
	if key, ok := kubeconfigOf(c); ok {
		out = append(out, key)
	}

	return out
}

// identityOf is the OLVMClusterIdentity that an OLVMCluster names.
func identityOf(c *infrav1.OLVMCluster) []client.ObjectKey {
	return []client.ObjectKey{{Name: connection.IdentityOf(connection.ClusterEngine(c))}}
}

// configMapsOf are the ConfigMaps that an OLVMCluster depends on.
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
	// workspace has the state, what became of the last run, and the action that was decided on.
	workspace *workspace.Workspace
	// session and the connection to the engine, or why it cannot be used; dataCenter is nil and product empty then. Set
	// by reconcileEngine.
	session    *engine.Client
	config     engine.Config
	engineErr  error
	dataCenter *engine.DataCenter
	product    engine.Product
	// lastEvent of the engine that is to be recorded.
	lastEvent *infrav1.EngineEvent
	// engineKnown reports that the engine has the machines of the cluster, or that there are none yet.
	engineKnown bool
	// kubeconfig of the cluster, nil where nothing is known of it. Set by reconcileKubeconfig.
	kubeconfig *seenKubeconfig
	// unowned are the machines among those left that no Machine owns. Set by reconcileDelete.
	unowned []string
	// claims are the Clusters that name the OLVMCluster.
	claims holder.Claims
	// endpointErr says that the Cluster names another endpoint, or which other object has a virtual address of the
	// cluster. Set by reconcileEndpoint and reconcileVirtualAddresses.
	endpointErr error
	// addressesChecked reports that this pass looked for other objects that have a virtual address of the cluster.
	addressesChecked bool
	// servicesErr says what is wrong with the services of the control plane. Set by reconcileServices.
	servicesErr error
	// domains that can be used, what is wrong with others, or why neither is known. Set by reconcileFailureDomains.
	domains      []clusterv1.FailureDomain
	wrongDomains []error
	domainsErr   error
	// services are the support services of the Cluster; nil for none. Set by findServices.
	services *infrav1alpha1.OLVMSupportServices
	// supportVMs are the OLVMMachines of support services that still exist. Set by deleteServices.
	supportVMs []string
	// groups as they should be and their configuration, or why neither is known; drifted reports that the engine has
	// others than were applied, incomplete that a machine is still to be seen. Set by reconcileGroups.
	groups     []placement.Group
	rendered   render.Configuration
	groupsErr  error
	drifted    bool
	incomplete bool
	// machines that still exist; set by reconcileDelete.
	machines []string
	// kept are the OLVMInventoryVMs that are still claimed for no machine; set by reconcileDelete.
	kept []string
	// blocked is why a deletion must not go on; nil where it may. Set by reconcileDestroy.
	blocked *blocker.Error
}

// Reconcile brings one OLVMCluster forward.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, reterr error) {
	olvmCluster := &infrav1.OLVMCluster{}
	this, err := r.passes.Begin(ctx, r.Client, req.NamespacedName, olvmCluster)
	if apierrors.IsNotFound(err) {
		// Here and not where the finalizer goes: clusterctl move and people remove finalizers, too.
		r.Engines.Forget(req.NamespacedName)

		return ctrl.Result{}, r.workspaces.Abandon(req.NamespacedName)
	} else if err != nil {
		return pass.Unbegun(err)
	}

	defer this.End(&result, &reterr)

	foreign := r.WatchFilterValue != "" && !labels.HasWatchLabel(olvmCluster, r.WatchFilterValue)
	if annotations.IsExternallyManaged(olvmCluster) || foreign {
		// The event filter saw the object that woke this one.
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

// endSharing takes the condition that several Clusters name it from an OLVMCluster that no Cluster has any more: the
// garbage collector may delete it.
func endSharing(ctx context.Context, this *pass.Pass, c *infrav1.OLVMCluster, claims holder.Claims) error {
	known := conditions.Get(c, infrav1.EndpointConfiguredCondition)
	if known == nil || known.Reason != infrav1.SharedByClustersReason || claims.Shared() {
		return nil
	}

	err := this.Write(ctx, func() { conditions.Delete(c, infrav1.EndpointConfiguredCondition) })

	return objectstatus.IgnoreGone(err)
}

// reconcileOwned reconciles an OLVMCluster that a Cluster owns, or that is being deleted.
func (r *Reconciler) reconcileOwned(ctx context.Context, scope *clusterScope) (_ ctrl.Result, reterr error) {
	olvmCluster := scope.olvmCluster
	if scope.cluster != nil && olvmCluster.DeletionTimestamp.IsZero() {
		controllerutil.AddFinalizer(olvmCluster, infrav1.ClusterFinalizer)
	}

	if scope.claims.Shared() && olvmCluster.DeletionTimestamp.IsZero() {
		setEndpointCondition(scope) // also if it is paused: the condition protects it from the deletion of the other
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
	// The end of a run is recorded also where the engine is away.
	observeErr := scope.workspace.Observe(ctx)

	if err := r.findServices(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}

	reconcileEndpoint(scope)
	r.reconcileEngine(ctx, scope) // whose ID decides which other clusters count
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

// downFor is how long the engine has been unavailable.
func downFor(c *infrav1.OLVMCluster) time.Duration {
	known := conditions.Get(c, infrav1.EngineAvailableCondition)
	if known == nil || known.Status == metav1.ConditionTrue {
		return 0
	}

	return time.Since(known.LastTransitionTime.Time)
}

// nextTry is when to ask an engine again that has been unavailable for so long: soon after it was lost, and more seldom
// the longer it is away, but at least every minute.
func nextTry(down time.Duration) time.Duration {
	const soonest, latest = 5 * time.Second, time.Minute
	return min(max(down/2, soonest), latest)
}

// nextLook is when to look again: soon after what did not work or was not there yet, else often enough to see hosts
// come and go.
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

// reconcileEndpoint fills in what the OLVMCluster leaves to the Cluster or to a load balancer, and the port.
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

// reconcileVirtualAddresses checks that no other object has a virtual address of the cluster: before it has machines,
// after each change, and until the address is free.
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

// isCheckDue reports whether the virtual addresses of a cluster have still to be compared with those of others.
func isCheckDue(c *infrav1.OLVMCluster) bool {
	known := conditions.Get(c, infrav1.EndpointConfiguredCondition)

	return !ptr.Deref(c.Status.Initialization.Provisioned, false) || known == nil ||
		known.ObservedGeneration != c.Generation || known.Reason == infrav1.EndpointInUseReason ||
		known.Reason == infrav1.SharedByClustersReason // which hides the other one
}

// engineID returns the engine of the cluster, as far as it is known in this pass.
func (s *clusterScope) engineID() connection.EngineID {
	return connection.EngineOf(s.olvmCluster).WithInstallation(s.product.InstanceID)
}

func endpointReady(c *infrav1.OLVMCluster) bool {
	return c.Spec.ControlPlaneEndpoint.Host != "" && c.Spec.ControlPlaneEndpoint.Port != 0
}

// reconcileEngine asks the engine for its version and the data center.
func (r *Reconciler) reconcileEngine(ctx context.Context, scope *clusterScope) {
	session, config, err := r.Engines.For(ctx, connection.ClusterEngine(scope.olvmCluster))
	scope.session, scope.config = session, config
	if err == nil && r.Engines.Replaced(client.ObjectKeyFromObject(scope.olvmCluster), session) {
		r.wakeMachines(ctx, scope) // they would go on with credentials that may not be good any more
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

	if err == nil { // what is recorded is what was compared
		err = checkIdentity(ctx, scope)
	}

	if err == nil {
		scope.engineErr = r.reconcileEngineID(ctx, scope)
		return
	}

	scope.engineErr = err
}

// lastEvent returns the event of the engine that is to be recorded.
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

// checkIdentity compares the engine that has answered with the recorded one.
func checkIdentity(ctx context.Context, scope *clusterScope) error {
	seen, err := scope.session.Identity(ctx)
	if err != nil {
		return err
	}

	scope.product.InstanceID = seen.Installation

	return connection.CheckEngine(connection.ClusterEngine(scope.olvmCluster), "", seen)
}

// reconcileEngineID records which engine has the machines, and refuses another data center than the recorded one. A
// cluster that has machines, and no record yet, gets one when one of its VMs is found.
func (r *Reconciler) reconcileEngineID(ctx context.Context, scope *clusterScope) error {
	recorded := ptr.Deref(scope.olvmCluster.Status.OLVMDatacenter, infrav1.OLVMDatacenterStatus{})
	seen := scope.dataCenter.ID.String()
	scope.engineKnown = recorded.EngineID != ""
	moved := scope.engineKnown && recorded.EngineID == scope.product.InstanceID && recorded.DataCenterID != "" &&
		recorded.DataCenterID != seen

	if scope.engineKnown && !moved {
		return nil // whatever the machines are
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

// reconcileDelete waits for the machines, which need the connection to the engine that only this object knows, and then
// removes what they shared.
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

		if support.MachineOf(m) != nil || unowned && !begun { // nothing was made for it, and nothing will be
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

	// The nodes may need the services until they are gone.
	if len(scope.machines) == 0 {
		if err := r.deleteServices(ctx, scope, machines); err != nil {
			return ctrl.Result{}, err
		}
	}

	if len(scope.machines)+len(scope.supportVMs) > 0 || scope.services != nil {
		r.reconcileEngine(ctx, scope) // the machines believe what this object says of the engine
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

// machinesOf are the OLVMMachines of the cluster, as support.Machines returns them.
func (r *Reconciler) machinesOf(ctx context.Context, scope *clusterScope) ([]infrav1.OLVMMachine, error) {
	name := clusterNameOf(scope)
	if name == "" {
		return nil, nil
	}

	return support.Machines(ctx, r.Client, client.ObjectKey{Namespace: scope.olvmCluster.Namespace, Name: name})
}

// addMachinesOfOthers adds the machines that may have a VM, and whose Cluster names the OLVMCluster without having it.
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

// keptVMs are the VMs of inventories that are claimed for a cluster, and for no machine of it: their inventory takes
// them back while the cluster can still be seen.
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
