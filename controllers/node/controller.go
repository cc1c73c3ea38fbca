// Package node manages the Nodes of workload clusters, like a cloud controller manager.
package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/annotations"
	capicontrollerutil "sigs.k8s.io/cluster-api/util/controller"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/enginepool"
	"github.com/capolvm/cluster-api-provider-olvm/internal/holder"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workload"
)

const nodeController = "olvmnode"

// nodePass limits the duration of a pass, because the API server of a workload cluster belongs to a tenant and may be
// slow.
const nodePass = time.Minute

// Reconciler acts like a cloud controller manager in workload clusters. It sets the provider ID of Nodes if the kubelet
// did not. It labels Nodes with the location of their machines, and taints them with out-of-service while their VM has
// failed. It approves the serving certificates of kubelets. In a workload cluster, it deletes only its own labels and
// taints.
type Reconciler struct {
	Client       client.Client
	ClusterCache clustercache.ClusterCache
	Recorder     events.EventRecorder
	// LabelNodes enables labels with the location of machines. Without it, labels stay unchanged.
	LabelNodes bool
	// FenceNodes enables the taint out-of-service on Nodes with failed VMs. Without it, the manager only removes its
	// own taints.
	FenceNodes bool
	// ApproveServingCertificates enables the approval of kubelets' requests. Without it, another approver must decide.
	ApproveServingCertificates bool
	WatchFilterValue           string

	controller capicontrollerutil.Controller
	limiter    enginepool.ReconcileLimiter

	mu sync.Mutex
	// reported holds the logged messages about the Nodes and requests of a Cluster, by UID, to log each only once.
	reported map[client.ObjectKey]map[types.UID]string
}

// NewClusterCache returns a cache with connections to the workload clusters of OLVMClusters. It caches only the parts
// of Nodes needed by the controllers.
func NewClusterCache(
	ctx context.Context, mgr ctrl.Manager, userAgent, watchFilterValue string,
) (clustercache.ClusterCache, error) {
	workloads, err := clustercache.SetupWithManager(ctx, mgr, clustercache.Options{
		SecretClient:     workload.Secrets{Reader: mgr.GetAPIReader(), Clusters: mgr.GetClient()},
		WatchFilterValue: watchFilterValue,
		ClusterFilter:    holder.HasOLVMCluster,
		Client:           clustercache.ClientOptions{UserAgent: userAgent},
		Cache: clustercache.CacheOptions{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         map[client.Object]cache.ByObject{&corev1.Node{}: {Transform: shrinkNode}},
		},
	}, controller.Options{MaxConcurrentReconciles: 10})
	if err != nil {
		return nil, fmt.Errorf("failed to set up the connections to workload clusters: %w", err)
	}

	return workloads, nil
}

// shrinkNode drops the parts of a Node not needed by any controller, such as the list of images, the largest part.
func shrinkNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}

	labels, annotations := keepLabels(node)

	return &corev1.Node{
		TypeMeta: node.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion,
			Labels: labels, Annotations: annotations,
		},
		Spec:   corev1.NodeSpec{ProviderID: node.Spec.ProviderID, Taints: node.Spec.Taints},
		Status: corev1.NodeStatus{Addresses: node.Status.Addresses, Conditions: getReadiness(node)},
	}, nil
}

// getReadiness returns the condition Ready of a Node without its times, which change all the time.
func getReadiness(node *corev1.Node) []corev1.NodeCondition {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return []corev1.NodeCondition{{Type: condition.Type, Status: condition.Status}}
		}
	}

	return nil
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if r.Client == nil || r.ClusterCache == nil || r.Recorder == nil {
		return errors.New("fields Client, ClusterCache and Recorder must be set")
	}

	r.reported = map[client.ObjectKey]map[types.UID]string{}
	r.limiter.Limit = options.MaxConcurrentReconciles
	options.MaxConcurrentReconciles *= enginepool.WorkersPerPlace
	log := ctrl.LoggerFrom(ctx).WithValues("controller", nodeController)
	var err error
	r.controller, err = capicontrollerutil.NewControllerManagedBy(mgr, log).
		Named(nodeController).
		For(&clusterv1.Cluster{}).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilterValue)).
		Watches(&infrav1.OLVMMachine{}, handler.EnqueueRequestsFromMapFunc(machineToOwningCluster)).
		WatchesRawSource(r.ClusterCache.GetClusterSource(nodeController, requestItself)).
		Build(ctx, r)
	if err != nil {
		return fmt.Errorf("failed to set up the Node controller: %w", err)
	}

	return nil
}

func requestItself(_ context.Context, object client.Object) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
}

// machineToOwningCluster maps a provisioned machine to its Cluster. Before it is provisioned, a machine cannot be
// matched with a Node.
func machineToOwningCluster(_ context.Context, object client.Object) []ctrl.Request {
	m, ok := object.(*infrav1.OLVMMachine)
	name := object.GetLabels()[clusterv1.ClusterNameLabel]
	if ok && name != "" && ptr.Deref(m.Status.Initialization.Provisioned, false) {
		return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: name}}}
	}

	return nil
}

// Reconcile reconciles the Nodes of one workload cluster.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, cluster); err != nil {
		r.dropReported(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}

	if !holder.HasOLVMCluster(cluster) || !cluster.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}

	leave, result, err := pass.PlaceTaken(r.limiter.AcquirePlace(ctx, cluster.Namespace, cluster.Name))
	if err != nil || leave == nil {
		return result, err
	}

	defer leave()
	ctx, cancel := context.WithTimeout(ctx, nodePass)
	defer cancel()

	workload, err := r.ClusterCache.GetClient(ctx, req.NamespacedName)
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return ctrl.Result{}, nil // the connection starts a pass
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("failed to reach the workload cluster: %w", err)
	}

	scope := &nodeScope{cluster: cluster, workload: workload, reported: map[types.UID]string{}}
	var machines infrav1.OLVMMachineList
	err = r.Client.List(ctx, &machines, client.InNamespace(cluster.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: cluster.Name,
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("failed to list the machines of Cluster %s: %w", req.NamespacedName, err)
	}

	for i := range machines.Items {
		scope.all = append(scope.all, &machines.Items[i])
		if !annotations.IsPaused(cluster, &machines.Items[i]) {
			scope.machines = append(scope.machines, &machines.Items[i])
		}
	}

	isPaused := annotations.IsPaused(cluster, cluster) // then only remove taints
	if !isPaused {
		if err := r.readOLVMCluster(ctx, scope); err != nil {
			return ctrl.Result{}, err
		}
	}

	errs := []error{r.reconcileNodes(ctx, scope)}
	if r.ApproveServingCertificates && !isPaused {
		errs = append(errs, r.reconcileServingCertificates(ctx, scope))
	}

	r.setReported(req.NamespacedName, scope.reported)
	if err := kerrors.NewAggregate(errs); err != nil && !errors.Is(err, clustercache.ErrClusterNotConnected) {
		return ctrl.Result{}, err
	}

	return ctrl.Result{RequeueAfter: r.computeNextCheck(scope)}, nil
}

// computeNextCheck returns the delay before the next check of facts without events, or 0 if none is necessary.
func (r *Reconciler) computeNextCheck(scope *nodeScope) time.Duration {
	if scope.hasTaint || r.FenceNodes && slices.ContainsFunc(scope.machines, pass.HasVMFailed) {
		return pass.Jitter(fencePoll)
	}

	return 0
}

// nodeScope holds the facts of one pass.
type nodeScope struct {
	cluster     *clusterv1.Cluster
	olvmCluster *infrav1.OLVMCluster
	workload    client.Client
	// machines are the unpaused machines. There are none if the Cluster is paused. all includes the paused machines.
	machines, all []*infrav1.OLVMMachine
	// reported holds the findings of this pass, by the UID of the object.
	reported map[types.UID]string
	// live reads from the API server of the workload cluster. It is nil until it is needed.
	live client.Reader
	// attached has the names of the Nodes with attached volumes. It is nil until it is needed.
	attached map[string]bool
	// hasTaint reports that a Node has the taint of the manager.
	hasTaint bool
}

// watchObjects watches objects of a workload cluster. Their events start a pass for the Cluster.
func (r *Reconciler) watchObjects(
	ctx context.Context, scope *nodeScope, kind client.Object, wanted predicate.Predicate,
) error {
	key := client.ObjectKeyFromObject(scope.cluster)
	err := r.ClusterCache.Watch(ctx, key, clustercache.NewWatcher(clustercache.WatcherOptions{
		Name: fmt.Sprintf("%s-%T", nodeController, kind), Watcher: r.controller, Kind: kind,
		EventHandler: handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request {
			return []ctrl.Request{
				{NamespacedName: key},
			}
		}),
		Predicates: []predicate.TypedPredicate[client.Object]{wanted},
	}))
	if err != nil {
		return fmt.Errorf("failed to watch the workload cluster: %w", err)
	}

	return nil
}

// reportOnce logs a text about an object, and records an event on its machine, if any. It omits a repetition of the
// last text about the object.
func (r *Reconciler) reportOnce(
	ctx context.Context,
	scope *nodeScope,
	about client.Object,
	machine *infrav1.OLVMMachine,
	reason, action, text string,
) {
	scope.reported[about.GetUID()] = text
	r.mu.Lock()
	before := r.reported[client.ObjectKeyFromObject(scope.cluster)][about.GetUID()]
	r.mu.Unlock()
	if before == text {
		return
	}

	ctrl.LoggerFrom(ctx).Info(text, "reason", reason)
	if machine != nil {
		r.Recorder.Eventf(machine, nil, corev1.EventTypeWarning, reason, action, "%s", text)
	}
}

func (r *Reconciler) setReported(cluster client.ObjectKey, reported map[types.UID]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reported[cluster] = reported
}

func (r *Reconciler) dropReported(cluster client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reported, cluster)
}

// nodeChanged selects the events of Nodes that may require a change of the Node.
var nodeChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, isNode := e.ObjectOld.(*corev1.Node)
		after, isStill := e.ObjectNew.(*corev1.Node)

		return isNode && isStill && (after.Spec.ProviderID == "" || before.Spec.ProviderID != after.Spec.ProviderID ||
			!maps.Equal(before.Labels, after.Labels) || hasOutOfService(before) != hasOutOfService(after) ||
			isReady(before) != isReady(after) ||
			!maps.Equal(before.Annotations, after.Annotations))
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// reconcileNodes updates Nodes from their machines.
func (r *Reconciler) reconcileNodes(ctx context.Context, scope *nodeScope) error {
	if err := r.watchObjects(ctx, scope, &corev1.Node{}, nodeChanged); err != nil {
		return err
	}

	var nodes corev1.NodeList
	if err := scope.workload.List(ctx, &nodes); err != nil {
		return fmt.Errorf("failed to list the nodes of the workload cluster: %w", err)
	}

	var errs []error

	for i := range nodes.Items {
		node := &nodes.Items[i]
		if err := r.reconcileNode(ctx, scope, node); err != nil {
			errs = append(errs, fmt.Errorf("failed to reconcile node %s: %w", node.Name, err))
		}
	}

	return kerrors.NewAggregate(errs)
}

// reconcileNode sets the provider ID, the labels and the taint of a Node.
func (r *Reconciler) reconcileNode(ctx context.Context, scope *nodeScope, node *corev1.Node) error {
	before := node.DeepCopy()

	machine, problem := findMachineOfNode(node, scope.machines)
	switch {
	case problem != "":
		r.reportOnce(ctx, scope, node, machine, infrav1.NodeNotRecognizedReason, "SetProviderID", problem)
		return nil
	case machine != nil:
		node.Spec.ProviderID = machine.Spec.ProviderID
	default:
		machine = findMachineWithID(node, scope.machines)
	}

	labelled := r.LabelNodes && machine != nil &&
		setLabels(node, buildLabels(machine, scope.olvmCluster.Spec.OLVMDatacenterName))

	if machine == nil {
		machine = findMachineWithID(node, scope.all) // it may be paused
	}

	fenced, err := r.reconcileTaint(ctx, scope, node, machine)
	if err != nil {
		return err
	}

	if !labelled && fenced == "" && node.Spec.ProviderID == before.Spec.ProviderID {
		return nil
	}

	// The API server refuses to change an ID set concurrently by others.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := scope.workload.Patch(ctx, node, patch); isStale(err) {
		return nil
	} else if err != nil {
		return err
	}

	ctrl.LoggerFrom(ctx).Info("Updated a node", "Node", node.Name, "providerID", node.Spec.ProviderID,
		"labels", node.Labels, "outOfService", hasOutOfService(node))
	r.reportTaint(machine, node.Name, fenced)

	return nil
}

// isStale reports whether an error means that the cache is outdated. The event of the newer object starts another pass.
func isStale(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err)
}

// readOLVMCluster reads the OLVMCluster of the Cluster into the scope.
func (r *Reconciler) readOLVMCluster(ctx context.Context, scope *nodeScope) error {
	scope.olvmCluster = &infrav1.OLVMCluster{}
	key := client.ObjectKey{Namespace: scope.cluster.Namespace, Name: scope.cluster.Spec.InfrastructureRef.Name}
	if err := r.Client.Get(ctx, key, scope.olvmCluster); err != nil {
		return fmt.Errorf("failed to get OLVMCluster %s: %w", key, err)
	}

	return nil
}

// reconcileServingCertificates approves requests that certainly come from machines of the cluster. It denies no
// request, because another approver may know more.
func (r *Reconciler) reconcileServingCertificates(ctx context.Context, scope *nodeScope) error {
	kind := certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest")
	if _, err := scope.workload.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
		return nil // an API server without this API has no requests
	} else if err != nil {
		return fmt.Errorf("failed to discover certificate signing requests: %w", err)
	}

	pending := predicate.NewPredicateFuncs(func(object client.Object) bool {
		csr, ok := object.(*certificatesv1.CertificateSigningRequest)
		return ok && isPendingServing(csr)
	})
	if err := r.watchObjects(ctx, scope, &certificatesv1.CertificateSigningRequest{}, pending); err != nil {
		return err
	}

	var list certificatesv1.CertificateSigningRequestList
	if err := scope.workload.List(ctx, &list); err != nil {
		return fmt.Errorf("failed to list the certificate signing requests of the workload cluster: %w", err)
	}

	services, err := support.FindServices(ctx, r.Client, client.ObjectKeyFromObject(scope.cluster))
	if err != nil {
		return err
	}

	taken := collectReserved(scope.cluster, scope.olvmCluster, services, scope.all)

	var errs []error

	for i := range list.Items {
		csr := &list.Items[i]
		if !isPendingServing(csr) {
			continue
		}

		machine, problem := checkServingRequest(csr, scope.machines, taken)
		if problem != "" {
			r.reportOnce(ctx, scope, csr, machine,
				infrav1.ServingCertificateNotApprovedReason, "ApproveServingCertificate",
				fmt.Sprintf("Certificate signing request %s is not approved: %s", csr.Name, problem))

			continue
		}

		approveRequest(csr, machine)
		if err := scope.workload.SubResource("approval").Update(ctx, csr); isStale(err) {
			continue
		} else if err != nil {
			errs = append(errs, fmt.Errorf("failed to approve certificate signing request %s: %w", csr.Name, err))
			continue
		}

		ctrl.LoggerFrom(ctx).Info("Approved a serving certificate", "CertificateSigningRequest", csr.Name,
			"OLVMMachine", machine.Name)
		r.Recorder.Eventf(machine, nil, corev1.EventTypeNormal, infrav1.ServingCertificateApprovedReason,
			"ApproveServingCertificate", "Approved certificate signing request %s of the kubelet", csr.Name)
	}

	return kerrors.NewAggregate(errs)
}
