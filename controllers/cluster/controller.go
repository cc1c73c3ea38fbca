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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	capicontrollerutil "sigs.k8s.io/cluster-api/util/controller"
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
	Engines   *enginepool.Registry
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
	// kubeconfigs caches the checked kubeconfigs: *checkedKubeconfig by the key of the Secret.
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
		For(&infrav1.OLVMCluster{}, builder.WithPredicates(r.passes.ChangedPredicate())).
		WithOptions(options).
		WithEventFilter(predicate.Or[client.Object](isNamedObject,
			predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilterValue))).
		WithEventFilter(predicates.ResourceIsNotExternallyManaged(mgr.GetScheme(), log)).
		Watches(&clusterv1.Cluster{},
			handler.EnqueueRequestsFromMapFunc(util.ClusterToInfrastructureMapFunc(ctx,
				infrav1.GroupVersion.WithKind("OLVMCluster"), mgr.GetClient(), &infrav1.OLVMCluster{})),
		).
		Watches(&infrav1.OLVMMachine{}, handler.EnqueueRequestsFromMapFunc(r.machineToCluster),
			pass.SpecOrOwnersChanged).
		Watches(&infrav1alpha1.OLVMSupportServices{}, handler.EnqueueRequestsFromMapFunc(r.servicesToCluster),
			servicesChanged).
		WatchesRawSource(source.Channel(r.Runs.WakeChannel(workspace.ClusterKind), &handler.EnqueueRequestForObject{})).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.mapNamedBy(secretIndex))).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.mapNamedBy(configMapIndex)))
	if !r.Engines.NoIdentities {
		controller = controller.Watches(&infrav1alpha1.OLVMClusterIdentity{},
			handler.EnqueueRequestsFromMapFunc(r.mapNamedBy(identityIndex)))
	}

	if err := controller.Complete(ctx, r); err != nil {
		return fmt.Errorf("failed to set up the OLVMCluster controller: %w", err)
	}

	return nil
}

func clusterTerraformStatus(object client.Object) **infrav1.TerraformStatus {
	return &object.(*infrav1.OLVMCluster).Status.Terraform //nolint:forcetypeassert,errcheck // New makes no others
}

// isNamedObject accepts Secrets, ConfigMaps and identities without a watch label, because their OLVMClusters have one.
var isNamedObject = predicate.NewPredicateFuncs(func(o client.Object) bool {
	switch o.(type) {
	case *metav1.PartialObjectMetadata, *infrav1alpha1.OLVMClusterIdentity:
		return true
	default:
		return false
	}
})

// machineToCluster maps a machine to its OLVMCluster.
func (r *Reconciler) machineToCluster(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requestsOfCluster(ctx, addressing.GetClusterKey(object))
}

// requestsOfCluster returns requests for the OLVMClusters with the label of a Cluster.
func (r *Reconciler) requestsOfCluster(ctx context.Context, cluster client.ObjectKey) []ctrl.Request {
	var clusters infrav1.OLVMClusterList
	if err := r.Client.List(ctx, &clusters, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}

	return pass.ToRequests(clusters.Items)
}

// These are the names of the indexes of OLVMClusters by named objects. An index is necessary, because most of the many
// Secrets in a management cluster belong to no OLVMCluster.
const (
	secretIndex    = "namedSecrets"
	configMapIndex = "namedConfigMaps"
	identityIndex  = "namedIdentity"
)

// indexNamed registers the indexes with the cache.
func indexNamed(ctx context.Context, mgr ctrl.Manager) error {
	for name, of := range map[string]func(*infrav1.OLVMCluster) []client.ObjectKey{
		secretIndex:    collectSecrets,
		configMapIndex: collectConfigMaps,
		identityIndex:  collectIdentities,
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

// mapNamedBy maps a changed Secret, ConfigMap or identity to the clusters naming it. A corrected password thus takes
// effect at once.
func (r *Reconciler) mapNamedBy(index string) handler.MapFunc {
	return func(ctx context.Context, object client.Object) []ctrl.Request {
		var clusters infrav1.OLVMClusterList
		err := r.Client.List(ctx, &clusters, client.MatchingFields{
			index: client.ObjectKeyFromObject(object).String(),
		}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil
		}

		return pass.ToRequests(clusters.Items)
	}
}

// collectSecrets returns the Secrets used by an OLVMCluster.
func collectSecrets(c *infrav1.OLVMCluster) []client.ObjectKey {
	out := connection.ClusterEngine(c).NamedSecrets()
	if key, ok := getKubeconfigKey(c); ok {
		out = append(out, key)
	}

	return out
}

// collectIdentities returns the OLVMClusterIdentity named by an OLVMCluster.
func collectIdentities(c *infrav1.OLVMCluster) []client.ObjectKey {
	return []client.ObjectKey{{Name: connection.GetIdentityName(connection.ClusterEngine(c))}}
}

// collectConfigMaps returns the ConfigMaps used by an OLVMCluster.
func collectConfigMaps(c *infrav1.OLVMCluster) []client.ObjectKey {
	return connection.ClusterEngine(c).NamedCAConfigMaps()
}

// clusterScope holds the facts of one pass.
type clusterScope struct {
	pass *pass.Pass

	cluster     *clusterv1.Cluster
	olvmCluster *infrav1.OLVMCluster
	workspace   *workspace.Workspace
	// observed is the state and the result of the last run. action is the decision about the next run.
	observed workspace.Observation
	action   workspace.Action
	// claims are the Clusters naming the OLVMCluster.
	claims holder.Claims
	// services are the support services of the Cluster, or nil.
	services *infrav1alpha1.OLVMSupportServices
	// endpointErr reports that the Cluster names another endpoint, or that another object uses a virtual address of the
	// cluster. addressesChecked reports that this pass looked for such objects.
	endpointErr      error
	addressesChecked bool
	// servicesErr describes a problem of the control plane services.
	servicesErr error
	// kubeconfig describes the cluster's kubeconfig; nil if unknown.
	kubeconfig *checkedKubeconfig

	engine  engineFacts
	domains domainFacts
	groups  groupFacts
	left    leftFacts
	// blocked explains why a deletion must stop; nil if it may proceed.
	blocked *blocker.Error
}

// engineFacts hold the access to the engine, and its answers.
type engineFacts struct {
	// session and config connect to the engine. err explains why it cannot be used.
	session *engine.Client
	config  engine.Config
	err     error
	// dataCenter and product are empty if the engine did not answer.
	dataCenter *engine.DataCenter
	product    engine.Product
	// lastEvent is the engine event to record.
	lastEvent *infrav1.EngineEvent
	// idConfirmed reports that the engine has the machines of the cluster, or that there are none yet.
	idConfirmed bool
}

// domainFacts hold the usable failure domains, and the problems of others. err explains why both are unknown.
type domainFacts struct {
	usable []clusterv1.FailureDomain
	wrong  []error
	err    error
}

// groupFacts hold the affinity groups. err explains why they are unknown.
type groupFacts struct {
	wanted   []placement.Group
	rendered render.Configuration
	err      error
	// drifted reports that the engine's groups differ from the applied ones. incomplete reports that a machine is still
	// missing from the cache.
	drifted, incomplete bool
}

// leftFacts hold the names of the objects that block a deletion.
type leftFacts struct {
	// machines are the remaining machines. unowned are those of them without an owning Machine.
	machines, unowned []string
	// supportVMs are the OLVMMachines of support services.
	supportVMs []string
	// inventoryVMs are the OLVMInventoryVMs claimed for the cluster, but not for a machine.
	inventoryVMs []string
}

// Reconcile runs one pass for an OLVMCluster.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return pass.Controller[*infrav1.OLVMCluster]{
		Tracker:          &r.passes,
		Client:           r.Client,
		Recorder:         r.Recorder,
		WatchFilterValue: r.WatchFilterValue,
		Forget:           r.forgetRecords,
		Open:             r.openPass,
	}.Reconcile(ctx, req, &infrav1.OLVMCluster{})
}

// forgetRecords drops all records of a deleted OLVMCluster.
func (r *Reconciler) forgetRecords(_ context.Context, key client.ObjectKey) error {
	r.Engines.DropCluster(key)

	return r.workspaces.CleanUpDeleted(key)
}

// openPass finds the Clusters naming an OLVMCluster.
func (r *Reconciler) openPass(
	ctx context.Context, of *pass.Pass, olvmCluster *infrav1.OLVMCluster,
) (pass.Frame, error) {
	claims, err := holder.FindClaims(ctx, r.Client, olvmCluster)
	if err != nil {
		return pass.Frame{}, err
	}

	scope := &clusterScope{pass: of, cluster: claims.Holder, olvmCluster: olvmCluster, claims: claims}
	scope.workspace = r.workspaces.Open(of, olvmCluster, getClusterName(scope))

	return pass.Frame{
		Labelled: olvmCluster,
		Admit: func(ctx context.Context) (bool, ctrl.Result, error) {
			admitted, err := ensureAdmitted(ctx, scope)
			return admitted, ctrl.Result{}, err
		},
		EnsurePaused: func(ctx context.Context) (bool, error) {
			return scope.workspace.EnsurePausedCondition(ctx, scope.cluster)
		},
		Enter: func(ctx context.Context) (func(), ctrl.Result, error) {
			return pass.PlaceTaken(
				r.limiter.AcquirePlace(ctx, olvmCluster.Namespace, connection.GetEngineID(olvmCluster).Key()),
			)
		},
		Work:      func(ctx context.Context) (ctrl.Result, error) { return r.reconcileAdmitted(ctx, scope) },
		SetStatus: func() { updateClusterStatus(scope) },
		Steps:     scope.stepEvents,
		Written: func(gone bool) {
			if !gone {
				scope.workspace.DropRecordedRun()
			}
		},
	}, nil
}

// ensureAdmitted reports whether to reconcile an OLVMCluster: a Cluster must own it, or it must be in deletion. It also
// adds the finalizer.
func ensureAdmitted(ctx context.Context, scope *clusterScope) (bool, error) {
	olvmCluster := scope.olvmCluster
	if annotations.IsExternallyManaged(olvmCluster) {
		return false, nil
	}

	if !olvmCluster.DeletionTimestamp.IsZero() {
		return true, nil
	}

	owned := util.HasOwner(olvmCluster.OwnerReferences, clusterv1.GroupVersion.String(), []string{"Cluster"})
	if scope.cluster == nil || !owned {
		ctrl.LoggerFrom(ctx).Info("Waiting for the Cluster to own this OLVMCluster")
		return false, endSharing(ctx, scope)
	}

	controllerutil.AddFinalizer(olvmCluster, infrav1.ClusterFinalizer)

	if scope.claims.IsShared() {
		setEndpointCondition(scope) // even if paused: it protects the OLVMCluster when the other Cluster is deleted
	}

	return true, nil
}

// endSharing removes the condition SharedByClusters from an OLVMCluster without a Cluster. This allows the garbage
// collector to delete it.
func endSharing(ctx context.Context, scope *clusterScope) error {
	known := conditions.Get(scope.olvmCluster, infrav1.EndpointConfiguredCondition)
	if known == nil || known.Reason != infrav1.SharedByClustersReason || scope.claims.IsShared() {
		return nil
	}

	return pass.IgnoreGone(scope.pass.WriteWithStatus(ctx, func() { deleteEndpointCondition(scope) }))
}

// stepEvents maps a condition to the text of its event when it becomes true.
func (s *clusterScope) stepEvents() map[string]string {
	shown := engine.RedactURL(s.olvmCluster.Spec.OLVMOvirtAPIServer.ServerURL)

	return map[string]string{infrav1.EngineAvailableCondition: "The engine " + shown + " is available"}
}

func (r *Reconciler) reconcileAdmitted(ctx context.Context, scope *clusterScope) (ctrl.Result, error) {
	if !scope.olvmCluster.DeletionTimestamp.IsZero() {
		return r.reconcileDelete(ctx, scope)
	}

	return r.reconcileNormal(ctx, scope)
}

func (r *Reconciler) reconcileNormal(ctx context.Context, scope *clusterScope) (ctrl.Result, error) {
	// Record the end of a run even if the engine is unreachable.
	observed, observeErr := scope.workspace.Observe(ctx)
	scope.observed = observed

	var err error
	if scope.services, err = r.findServices(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}

	scope.endpointErr = reconcileEndpoint(scope)
	scope.engine = r.reconcileEngine(ctx, scope) // its ID determines the other clusters to consider
	if scope.servicesErr, err = r.reconcileServices(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}

	if scope.kubeconfig, err = r.reconcileKubeconfig(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}

	if scope.engine.err != nil {
		reason, _ := blocker.ExplainEngineError(scope.engine.err)
		ctrl.LoggerFrom(ctx).Info("Engine is unavailable", "reason", reason, "error", scope.engine.err.Error())
		return ctrl.Result{RequeueAfter: pass.Jitter(computeRetryDelay(getDowntime(scope.olvmCluster)))}, nil
	}

	scope.domains = reconcileFailureDomains(ctx, scope)
	if err := r.reconcileVirtualAddresses(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}

	if isEndpointReady(scope.olvmCluster) && scope.endpointErr == nil && !scope.claims.IsShared() &&
		scope.isEndpointServed() && scope.servicesErr == nil && scope.domains.err == nil {
		scope.olvmCluster.Status.Initialization.Provisioned = ptr.To(true)
	}

	if observeErr != nil {
		return ctrl.Result{}, observeErr
	}

	scope.groups = r.reconcileGroups(ctx, scope)
	if err := r.reconcileRun(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}

	return ctrl.Result{RequeueAfter: computeRequeueDelay(scope)}, nil
}

// getDowntime returns how long the engine has been unavailable.
func getDowntime(c *infrav1.OLVMCluster) time.Duration {
	known := conditions.Get(c, infrav1.EngineAvailableCondition)
	if known == nil || known.Status == metav1.ConditionTrue {
		return 0
	}

	return time.Since(known.LastTransitionTime.Time)
}

// computeRetryDelay returns the delay before the next request to an unavailable engine: half of the downtime, between 5
// seconds and a minute.
func computeRetryDelay(down time.Duration) time.Duration {
	const soonest, latest = 5 * time.Second, time.Minute
	return min(max(down/2, soonest), latest)
}

// computeRequeueDelay returns the requeue delay. It is short after failures and for missing objects, and otherwise
// frequent enough to notice hosts appearing or disappearing.
func computeRequeueDelay(scope *clusterScope) time.Duration {
	after := pass.Jitter(engineCheck)
	if len(scope.groups.wanted) > 0 || len(scope.olvmCluster.Spec.FailureDomains) > 0 {
		after = pass.Jitter(hostCheck)
	}

	if scope.servicesErr != nil || scope.domains.err != nil || scope.groups.err != nil || scope.endpointErr != nil {
		after = engineRetry
	}

	if scope.groups.incomplete {
		after = cacheLag
	}

	if scope.action.After > 0 {
		after = min(after, scope.action.After)
	}

	return after
}

// reconcileEndpoint completes the endpoint: the host from the Cluster or a load balancer, and the port. It returns an
// error if the Cluster names another endpoint.
func reconcileEndpoint(scope *clusterScope) error {
	endpoint := &scope.olvmCluster.Spec.ControlPlaneEndpoint
	desired.CompleteEndpoint(endpoint, scope.cluster.Spec.ControlPlaneEndpoint)

	if endpoint.Host == "" {
		endpoint.Host = support.FindEndpoint(scope.olvmCluster.Spec, scope.services)
	}

	if endpoint.Host != "" && endpoint.Port == 0 {
		endpoint.Port = desired.DefaultEndpointPort
	}

	return desired.CheckEndpoints(scope.cluster.Name, scope.cluster.Spec.ControlPlaneEndpoint, *endpoint)
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
		scope.endpointErr = taken.ToError()
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
	return connection.GetEngineID(s.olvmCluster).WithInstallation(s.engine.product.InstanceID)
}

func isEndpointReady(c *infrav1.OLVMCluster) bool {
	return c.Spec.ControlPlaneEndpoint.Host != "" && c.Spec.ControlPlaneEndpoint.Port != 0
}

// reconcileEngine requests the engine's version and the data center.
func (r *Reconciler) reconcileEngine(ctx context.Context, scope *clusterScope) engineFacts {
	var facts engineFacts

	facts.session, facts.config, facts.err = r.Engines.OpenSession(ctx, connection.ClusterEngine(scope.olvmCluster))
	if facts.err != nil {
		return facts
	}

	if r.Engines.RecordSession(client.ObjectKeyFromObject(scope.olvmCluster), facts.session) {
		r.wakeMachines(ctx, scope) // the machines would continue with outdated credentials
	}

	facts.err = r.fetchEngineFacts(ctx, scope, &facts)

	return facts
}

// fetchEngineFacts requests the facts about an engine. The session is already open.
func (r *Reconciler) fetchEngineFacts(ctx context.Context, scope *clusterScope, facts *engineFacts) error {
	var err error
	if facts.product, err = facts.session.FetchProduct(ctx); err != nil {
		return err
	}

	facts.dataCenter, err = facts.session.FindDataCenter(ctx, scope.olvmCluster.Spec.OLVMDatacenterName)

	var unknown *engine.NameError
	if errors.As(err, &unknown) {
		return &blocker.Error{
			Reason:  infrav1.DataCenterNotFoundReason,
			Field:   "spec.olvmDatacenterName",
			Message: unknown.Error() + "; correct the name",
		}
	} else if err != nil {
		return err
	}

	machines, err := r.listMachines(ctx, scope)
	if err != nil {
		return err
	}

	of := connection.ClusterEngine(scope.olvmCluster)
	if facts.lastEvent, err = enginepool.DetermineLastEvent(
		ctx, facts.session, of, findLastRun(machines), time.Now(),
	); err != nil {
		return err
	}

	// Load the identity after DetermineLastEvent, because DetermineLastEvent may renew it: the checked identity must be
	// the recorded one.
	seen, err := facts.session.LoadIdentity(ctx)
	if err != nil {
		return err
	}

	facts.product.InstanceID = seen.Installation
	if err := connection.CheckEngine(of, "", seen); err != nil {
		return err
	}

	return r.reconcileEngineID(ctx, scope.olvmCluster, machines, facts)
}

// findLastRun returns the end of the last run for a machine, or the zero time.
func findLastRun(machines []infrav1.OLVMMachine) time.Time {
	var last time.Time

	for i := range machines {
		last = workspace.LatestRunEnd(machines[i].Status.Terraform, last)
	}

	return last
}

// reconcileEngineID decides whether the engine's identity may be recorded, and refuses a data center other than the
// recorded one. A cluster with machines but without a record gets a record as soon as one of its VMs is found.
func (r *Reconciler) reconcileEngineID(
	ctx context.Context, c *infrav1.OLVMCluster, machines []infrav1.OLVMMachine, facts *engineFacts,
) error {
	recorded := ptr.Deref(c.Status.OLVMDatacenter, infrav1.OLVMDatacenterStatus{})
	seen := facts.dataCenter.ID.String()
	facts.idConfirmed = recorded.EngineID != ""
	moved := facts.idConfirmed && recorded.EngineID == facts.product.InstanceID && recorded.DataCenterID != "" &&
		recorded.DataCenterID != seen

	if facts.idConfirmed && !moved {
		return nil
	}

	var ids []engine.ID

	for i := range machines {
		if id := bootstrap.ParseProviderID(machines[i].Spec.ProviderID); id != "" {
			ids = append(ids, engine.ID(id))
		}
	}

	if moved && len(ids) > 0 {
		return blocker.New(infrav1.EngineChangedReason, "spec.olvmDatacenterName",
			"%s is data center %s, but the machines of this cluster are in data center %s (%s). The controller "+
				"changes nothing. Correct olvmDatacenterName",
			facts.dataCenter.Name, seen, recorded.DataCenterID, recorded.DataCenterName)
	}

	facts.idConfirmed = facts.idConfirmed || len(ids) == 0

	for _, id := range ids {
		if facts.idConfirmed {
			break
		}

		vm, err := r.Engines.GetVM(ctx, facts.session, id, engineCheck)
		if err != nil {
			return err
		}

		facts.idConfirmed = vm != nil
	}

	return nil
}

// reconcileDelete waits for the machines, and then removes their shared resources. Only this object knows the
// connection to the engine, and the machines still need it.
func (r *Reconciler) reconcileDelete(ctx context.Context, scope *clusterScope) (ctrl.Result, error) {
	observed, err := scope.workspace.Observe(ctx)
	if scope.observed = observed; err != nil {
		return ctrl.Result{}, err
	}

	machines, err := r.listMachines(ctx, scope)
	if err != nil {
		return ctrl.Result{}, err
	}

	if scope.left, err = r.listRemainingMachines(ctx, scope, machines); err != nil {
		return ctrl.Result{}, err
	}

	// Nodes may need the services until their machines are deleted.
	if len(scope.left.machines) == 0 {
		scope.left.supportVMs = collectSupportVMs(machines)
		if scope.services, err = r.deleteServices(ctx, scope); err != nil {
			return ctrl.Result{}, err
		}
	}

	if len(scope.left.machines)+len(scope.left.supportVMs) > 0 || scope.services != nil {
		scope.engine = r.reconcileEngine(ctx, scope) // the machines rely on this object's engine status
		ctrl.LoggerFrom(ctx).Info("Waiting for machines to be deleted", "machines",
			strings.Join(slices.Concat(scope.left.machines, scope.left.supportVMs), ", "))

		return ctrl.Result{RequeueAfter: engineRetry}, nil
	}

	c := scope.olvmCluster
	kept, err := r.listReservedVMs(ctx, c.Namespace, getClusterName(scope))
	if scope.left.inventoryVMs = kept; err != nil || len(kept) > 0 {
		return ctrl.Result{RequeueAfter: engineRetry}, err
	}

	gone, after, err := r.reconcileDestroy(ctx, scope)
	if err != nil {
		return ctrl.Result{}, err
	}

	if gone {
		r.dropKubeconfig(c)
		controllerutil.RemoveFinalizer(c, infrav1.ClusterFinalizer)
	}

	return ctrl.Result{RequeueAfter: after}, nil
}

// listMachines returns the OLVMMachines of the cluster. See support.ListMachines.
func (r *Reconciler) listMachines(ctx context.Context, scope *clusterScope) ([]infrav1.OLVMMachine, error) {
	name := getClusterName(scope)
	if name == "" {
		return nil, nil
	}

	return support.ListMachines(ctx, r.Client, client.ObjectKey{Namespace: scope.olvmCluster.Namespace, Name: name})
}

// listRemainingMachines returns the machines that block the deletion of an OLVMCluster. These are the machines of its
// Cluster, and the machines with a VM of other Clusters with the same OLVMCluster.
func (r *Reconciler) listRemainingMachines(
	ctx context.Context, scope *clusterScope, machines []infrav1.OLVMMachine,
) (leftFacts, error) {
	var left leftFacts

	for i := range machines {
		m := &machines[i]
		unowned := len(m.OwnerReferences) == 0
		begun := controllerutil.ContainsFinalizer(m, infrav1.MachineFinalizer) || addressing.CanHaveVM(m)

		if support.NewStandInMachine(m) != nil || unowned && !begun { // it has no VM and will not get one
			continue
		}

		left.machines = append(left.machines, m.Name)
		if unowned {
			left.unowned = append(left.unowned, m.Name)
		}
	}

	for _, name := range scope.claims.OtherNames() {
		others, err := support.ListMachines(ctx, r.Client,
			client.ObjectKey{Namespace: scope.olvmCluster.Namespace, Name: name})
		if err != nil {
			return left, err
		}

		for i := range others {
			if addressing.CanHaveVM(&others[i]) {
				left.machines = append(left.machines, others[i].Name)
			}
		}
	}

	return left, nil
}

// listReservedVMs returns the inventory VMs claimed for a cluster, but not for a machine. Their inventory releases them
// while the cluster still exists.
func (r *Reconciler) listReservedVMs(ctx context.Context, namespace, cluster string) ([]string, error) {
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
