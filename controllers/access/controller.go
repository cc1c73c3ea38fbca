// Package access keeps the Secrets, ConfigMaps and OLVMClusterIdentities named by OLVMClusters until no OLVMCluster
// needs them. It also keeps externally managed OLVMClusters until they have no machines.
package access

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/annotations"
	capicontrollerutil "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// +kubebuilder:rbac:groups="",resources=secrets;configmaps,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmclusteridentities,verbs=patch

// Kind is the kind of objects kept by a Reconciler.
type Kind int

// The kinds of objects named by OLVMClusters for the connection to their engines.
const (
	Secrets Kind = iota
	ConfigMaps
	Identities
	// Clusters are externally managed OLVMClusters. The OLVMCluster controller ignores them, and adds no finalizer.
	Clusters
)

func (k Kind) String() string {
	return [...]string{Secrets: "secret", ConfigMaps: "configmap", Identities: "identity", Clusters: "cluster"}[k]
}

// newObject returns an empty object of the kind.
func (k Kind) newObject() client.Object {
	return [...]client.Object{
		Secrets: &corev1.Secret{}, ConfigMaps: &corev1.ConfigMap{}, Identities: &infrav1alpha1.OLVMClusterIdentity{},
		Clusters: &infrav1.OLVMCluster{},
	}[k]
}

func (k Kind) groupVersionKind() schema.GroupVersionKind {
	return [...]schema.GroupVersionKind{
		Secrets:    corev1.SchemeGroupVersion.WithKind("Secret"),
		ConfigMaps: corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		Identities: infrav1alpha1.GroupVersion.WithKind("OLVMClusterIdentity"),
		Clusters:   infrav1.GroupVersion.WithKind("OLVMCluster"),
	}[k]
}

// Reconciler adds a finalizer to the Secrets, CA ConfigMaps and identities named by OLVMClusters, so these outlive the
// OLVMClusters. A user may delete a whole namespace, or all objects of a repository, at once. Until their deletion
// ends, machines need the connection to their engine. Reconciler also makes clusterctl move Secrets and ConfigMaps with
// the cluster. It writes metadata only.
type Reconciler struct {
	Client client.Client
	// APIReader sees OLVMClusters not watched by this manager.
	APIReader client.Reader
	// Kind is the kind of the objects to keep.
	Kind Kind
	// IdentityNamespace is the namespace of the objects named by OLVMClusterIdentities. If it is empty, the Reconciler
	// ignores identities.
	IdentityNamespace string
}

// AddAll adds the controllers of all kinds to the manager, and the controller for the status of identities. See
// Reconciler for identityNamespace.
func AddAll(
	ctx context.Context, mgr ctrl.Manager, reader client.Reader, identityNamespace string, options controller.Options,
) error {
	kinds := []Kind{Secrets, ConfigMaps, Clusters}
	if identityNamespace != "" {
		kinds = append(kinds, Identities)
	}

	for _, kind := range kinds {
		err := (&Reconciler{
			Client: mgr.GetClient(), APIReader: reader, Kind: kind, IdentityNamespace: identityNamespace,
		}).SetupWithManager(ctx, mgr, options)
		if err != nil {
			return err
		}
	}

	if identityNamespace == "" {
		return nil
	}

	return (&IdentityReconciler{
		Client: mgr.GetClient(), APIReader: reader, Recorder: mgr.GetEventRecorder("olvmclusteridentity-controller"),
		Namespace: identityNamespace,
	}).SetupWithManager(ctx, mgr, options)
}

// user is an object that uses an engine: an OLVMCluster, an OLVMSupportServices or an OLVMInventory.
type engineUser struct {
	engine connection.Engine
	// secrets are further Secrets named by the object.
	secrets []client.ObjectKey
}

// toEngineUser returns the engine and Secrets of an OLVMCluster, OLVMSupportServices or OLVMInventory. It returns false
// for other objects.
func toEngineUser(object client.Object) (engineUser, bool) {
	switch object := object.(type) {
	case *infrav1.OLVMCluster:
		return engineUser{engine: connection.ClusterEngine(object)}, true
	case *infrav1alpha1.OLVMSupportServices: // it uses the OLVMCluster's engine
		none := connection.Engine{Key: client.ObjectKeyFromObject(object)}
		return engineUser{none, support.CollectSecrets(object)}, true
	case *infrav1alpha1.OLVMInventory:
		return engineUser{engine: connection.InventoryEngine(object)}, true
	default:
		return engineUser{}, false
	}
}

// resolveNamedObjects returns the objects that a user names and may use, directly or through its identity.
func (r *Reconciler) resolveNamedObjects(
	ctx context.Context, reader client.Reader, u engineUser,
) ([]client.ObjectKey, error) {
	name, namespace := connection.GetIdentityName(u.engine), u.engine.Key.Namespace
	if name == "" || r.IdentityNamespace == "" {
		return r.collectNamedDirectly(u), nil
	}

	identity := &infrav1alpha1.OLVMClusterIdentity{}
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, identity); apierrors.IsNotFound(err) {
		return r.collectNamedDirectly(u), nil
	} else if err != nil {
		return nil, fmt.Errorf("failed to get OLVMClusterIdentity %s: %w", name, err)
	}

	space := &metav1.PartialObjectMetadata{}
	space.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := reader.Get(ctx, client.ObjectKey{Name: namespace}, space); err != nil {
		return nil, fmt.Errorf("failed to get Namespace %s: %w", namespace, err)
	}

	if !connection.CanUse(identity, namespace, &corev1.Namespace{ObjectMeta: space.ObjectMeta}) {
		return r.collectNamedDirectly(u), nil
	}

	return append(r.collectNamedDirectly(u), r.collectNamedByIdentity(u.engine, identity)...), nil
}

// collectNamedDirectly returns the objects named by a user itself.
func (r *Reconciler) collectNamedDirectly(u engineUser) []client.ObjectKey {
	switch r.Kind {
	case Secrets:
		return append(slices.Clone(u.secrets), u.engine.NamedSecrets()...)
	case ConfigMaps:
		return u.engine.NamedCAConfigMaps()
	default:
		return nil
	}
}

// collectNamedByIdentity returns the objects named by the identity of an engine. The caller has checked that the
// identity allows the engine's user.
func (r *Reconciler) collectNamedByIdentity(
	of connection.Engine, identity *infrav1alpha1.OLVMClusterIdentity,
) []client.ObjectKey {
	var key client.ObjectKey

	switch r.Kind {
	case Secrets:
		key, _ = connection.CredentialsKey(of, identity)
	case ConfigMaps:
		key, _ = connection.CAKey(of, identity)
	default:
		return []client.ObjectKey{client.ObjectKeyFromObject(identity)}
	}

	if key.Namespace != r.IdentityNamespace {
		return nil
	}

	return []client.ObjectKey{key}
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if r.Client == nil || r.APIReader == nil {
		return errors.New("fields Client and APIReader must be set")
	}

	name := "olvmaccess-" + r.Kind.String()
	log := ctrl.LoggerFrom(ctx).WithValues("controller", name)
	build := capicontrollerutil.NewControllerManagedBy(mgr, log).
		Named(name).
		For(r.Kind.newObject(), builder.OnlyMetadata,
			builder.WithPredicates(predicate.NewPredicateFuncs(hasAccessFinalizer)))

	if r.Kind == Clusters {
		build = build.Watches(&infrav1.OLVMMachine{}, handler.EnqueueRequestsFromMapFunc(r.machineToClusters),
			pass.SpecOrOwnersChanged)
	} else { // a changed reference wakes the old and the new object
		build = build.
			Watches(&infrav1.OLVMCluster{}, handler.EnqueueRequestsFromMapFunc(r.userToObjects)).
			Watches(&infrav1alpha1.OLVMSupportServices{}, handler.EnqueueRequestsFromMapFunc(r.userToObjects)).
			Watches(&infrav1alpha1.OLVMInventory{}, handler.EnqueueRequestsFromMapFunc(r.userToObjects))
	}

	if r.IdentityNamespace != "" && (r.Kind == Secrets || r.Kind == ConfigMaps) {
		build = build.Watches(
			&infrav1alpha1.OLVMClusterIdentity{}, handler.EnqueueRequestsFromMapFunc(r.identityToObjects))
	}

	if err := build.WithOptions(options).Complete(ctx, r); err != nil {
		return fmt.Errorf("failed to set up the %s controller: %w", name, err)
	}

	return nil
}

// hasAccessFinalizer reports whether this controller already keeps an object. It finds other objects through the
// OLVMClusters.
func hasAccessFinalizer(object client.Object) bool {
	return controllerutil.ContainsFinalizer(object, infrav1.AccessFinalizer)
}

// userToObjects maps an OLVMCluster, an OLVMSupportServices or an OLVMInventory to the named objects.
func (r *Reconciler) userToObjects(ctx context.Context, object client.Object) []ctrl.Request {
	u, ok := toEngineUser(object)
	if !ok {
		return nil
	}

	named, err := r.resolveNamedObjects(ctx, r.Client, u)
	if err != nil { // the next event of the object retries
		ctrl.LoggerFrom(ctx).Error(err, "Failed to determine the engine objects that an object refers to", "object",
			u.engine.Key)
	}

	var out []ctrl.Request
	for _, key := range named {
		out = append(out, ctrl.Request{NamespacedName: key})
	}

	return out
}

// identityToObjects maps an OLVMClusterIdentity to the objects it names.
func (r *Reconciler) identityToObjects(_ context.Context, object client.Object) []ctrl.Request {
	identity, ok := object.(*infrav1alpha1.OLVMClusterIdentity)
	if !ok {
		return nil
	}

	var out []ctrl.Request
	for _, key := range r.collectNamedByIdentity(newEngineWith(identity), identity) {
		out = append(out, ctrl.Request{NamespacedName: key})
	}

	return out
}

// machineToClusters maps an OLVMMachine to the OLVMClusters of its Cluster.
func (r *Reconciler) machineToClusters(ctx context.Context, machine client.Object) []ctrl.Request {
	var clusters infrav1.OLVMClusterList
	if err := r.Client.List(ctx, &clusters, selectCluster(machine)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the OLVMClusters of an OLVMMachine")
		return nil
	}

	var out []ctrl.Request

	for i := range clusters.Items {
		c := &clusters.Items[i]
		if annotations.IsExternallyManaged(c) || hasAccessFinalizer(c) {
			out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c)})
		}
	}

	return out
}

// selectCluster selects the objects of the same Cluster.
func selectCluster(object client.Object) []client.ListOption {
	return []client.ListOption{
		client.InNamespace(object.GetNamespace()),
		client.MatchingLabels{clusterv1.ClusterNameLabel: object.GetLabels()[clusterv1.ClusterNameLabel]},
	}
}

// checkMachines reports whether an externally managed OLVMCluster has machines. Their deletion needs the OLVMCluster.
func checkMachines(ctx context.Context, reader client.Reader, cluster client.Object) (bool, error) {
	if !annotations.IsExternallyManaged(cluster) || cluster.GetLabels()[clusterv1.ClusterNameLabel] == "" {
		return false, nil
	}

	var machines infrav1.OLVMMachineList
	if err := reader.List(ctx, &machines, selectCluster(cluster)...); err != nil {
		return false, fmt.Errorf("failed to list the OLVMMachines of OLVMCluster %s: %w",
			client.ObjectKeyFromObject(cluster), err)
	}

	return slices.ContainsFunc(machines.Items, func(m infrav1.OLVMMachine) bool {
		return controllerutil.ContainsFinalizer(&m, infrav1.MachineFinalizer)
	}), nil
}

// newEngineWith returns the engine of an object with an identity.
func newEngineWith(identity *infrav1alpha1.OLVMClusterIdentity) connection.Engine {
	return connection.Engine{Server: infrav1.OvirtAPIServer{
		IdentityRef: &infrav1.OLVMClusterIdentityReference{Name: identity.Name},
	}}
}

// Reconcile adds the finalizer to one object if it is needed, or removes it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(r.Kind.groupVersionKind())
	if err := r.Client.Get(ctx, req.NamespacedName, object); apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("failed to get %s %s: %w", object.Kind, req, err)
	}

	held := controllerutil.ContainsFinalizer(object, infrav1.AccessFinalizer)
	needed, err := r.checkNeeded(ctx, r.Client, object)
	if err != nil || needed == held {
		return ctrl.Result{}, err
	}

	if held { // this manager's cache may lack some OLVMClusters
		if needed, err = r.checkNeeded(ctx, r.APIReader, object); err != nil || needed {
			return ctrl.Result{}, err
		}
	}

	before := object.DeepCopy()
	switch {
	case held:
		controllerutil.RemoveFinalizer(object, infrav1.AccessFinalizer)
	case !object.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil
	default:
		controllerutil.AddFinalizer(object, infrav1.AccessFinalizer)

		// clusterctl moves objects with owners or this label. It must not move objects of the manager and its
		// administrator.
		if r.Kind != Identities && r.Kind != Clusters && object.Namespace != r.IdentityNamespace {
			metav1.SetMetaDataLabel(&object.ObjectMeta, clusterctlv1.ClusterctlMoveLabel, "")
		}
	}

	err = r.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err := client.IgnoreNotFound(err); err != nil {
		return ctrl.Result{}, fmt.Errorf("failed to update the finalizer of %s %s: %w", object.Kind, req, err)
	}

	return ctrl.Result{}, nil
}

// checkNeeded reports whether another object names the object and may use it. If the object is an OLVMCluster,
// checkNeeded reports whether it has machines.
func (r *Reconciler) checkNeeded(ctx context.Context, reader client.Reader, object client.Object) (bool, error) {
	if r.Kind == Clusters {
		return checkMachines(ctx, reader, object)
	}

	var clusters infrav1.OLVMClusterList
	if err := reader.List(ctx, &clusters); err != nil {
		return false, fmt.Errorf("failed to list OLVMClusters: %w", err)
	}

	for i := range clusters.Items {
		c := &clusters.Items[i]
		if !controllerutil.ContainsFinalizer(c, infrav1.ClusterFinalizer) && !hasAccessFinalizer(c) {
			continue
		}

		if named, err := r.checkReferenced(ctx, reader, c, object); err != nil || named {
			return named, err
		}
	}

	if needed, err := r.checkNeededBySupport(ctx, reader, object); err != nil || needed {
		return needed, err
	}

	var pools infrav1alpha1.OLVMInventoryList
	if err := reader.List(ctx, &pools); err != nil {
		return false, fmt.Errorf("failed to list OLVMInventories: %w", err)
	}

	for i := range pools.Items {
		pool := &pools.Items[i]
		if !controllerutil.ContainsFinalizer(pool, infrav1alpha1.InventoryFinalizer) {
			continue
		}

		if named, err := r.checkReferenced(ctx, reader, pool, object); err != nil || named {
			return named, err
		}
	}

	return false, nil
}

// checkNeededBySupport reports whether support services name the object.
func (r *Reconciler) checkNeededBySupport(
	ctx context.Context, reader client.Reader, object client.Object,
) (bool, error) {
	if r.Kind != Secrets {
		return false, nil
	}

	var list infrav1alpha1.OLVMSupportServicesList
	if err := reader.List(ctx, &list, client.InNamespace(object.GetNamespace())); err != nil {
		return false, fmt.Errorf("failed to list OLVMSupportServices: %w", err)
	}

	return slices.ContainsFunc(list.Items, func(of infrav1alpha1.OLVMSupportServices) bool {
		return controllerutil.ContainsFinalizer(&of, infrav1alpha1.SupportServicesFinalizer) &&
			slices.Contains(support.CollectSecrets(&of), client.ObjectKeyFromObject(object))
	}), nil
}

// checkReferenced reports whether an OLVMCluster or an OLVMInventory names the object and may use it.
func (r *Reconciler) checkReferenced(
	ctx context.Context, reader client.Reader, by, object client.Object,
) (bool, error) {
	u, _ := toEngineUser(by)

	key := client.ObjectKeyFromObject(object)
	if slices.Contains(r.collectNamedDirectly(u), key) {
		return connection.IsAllowed(object, u.engine.Key.Namespace), nil
	}

	if connection.GetIdentityName(u.engine) == "" {
		return false, nil
	}

	named, err := r.resolveNamedObjects(ctx, reader, u)

	return slices.Contains(named, key), err
}
