// Package access keeps the Secrets and ConfigMaps that OLVMClusters name until no OLVMCluster needs them.
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
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	capicontrollerutil "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/enginepool"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// +kubebuilder:rbac:groups="",resources=secrets;configmaps,verbs=patch

// Reconciler lets the Secrets that OLVMClusters name, or the ConfigMaps with CAs, outlive them:
// who deletes a whole namespace, or everything that a repository has, must not take the connection to the engine from
// the machines that are still to be deleted. And it has clusterctl move them with the cluster. It sees and writes
// metadata only.
type Reconciler struct {
	Client client.Client
	// APIReader sees OLVMClusters that this manager does not watch.
	APIReader client.Reader
	// ConfigMaps are looked after instead of Secrets.
	ConfigMaps bool
}

func (r *Reconciler) kind() schema.GroupVersionKind {
	if r.ConfigMaps {
		return corev1.SchemeGroupVersion.WithKind("ConfigMap")
	}

	return corev1.SchemeGroupVersion.WithKind("Secret")
}

// named are the objects that an OLVMCluster refers to.
func (r *Reconciler) named(c *infrav1.OLVMCluster) []client.ObjectKey {
	if r.ConfigMaps {
		return enginepool.Keys(c, enginepool.CAOf)
	}

	return append(support.SecretsOf(c), enginepool.Keys(c, enginepool.CredentialsOf)...)
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if r.Client == nil || r.APIReader == nil {
		return errors.New("fields Client and APIReader must be set")
	}

	object := client.Object(&corev1.Secret{})
	if r.ConfigMaps {
		object = &corev1.ConfigMap{}
	}

	name := "olvmaccess-" + map[bool]string{false: "secret", true: "configmap"}[r.ConfigMaps]
	log := ctrl.LoggerFrom(ctx).WithValues("controller", name)
	err := capicontrollerutil.NewControllerManagedBy(mgr, log).
		Named(name).
		For(object, builder.OnlyMetadata, builder.WithPredicates(predicate.NewPredicateFuncs(hasAccessFinalizer))).
		// An OLVMCluster that names another object wakes both.
		Watches(&infrav1.OLVMCluster{}, handler.EnqueueRequestsFromMapFunc(r.clusterToObject)).
		Watches(&infrav1.OLVMInventory{}, handler.EnqueueRequestsFromMapFunc(r.clusterToObject)).
		WithOptions(options).
		Complete(ctx, r)
	if err != nil {
		return fmt.Errorf("failed to set up the %s controller: %w", name, err)
	}

	return nil
}

// hasAccessFinalizer selects the objects that are held already; others are found through an OLVMCluster.
func hasAccessFinalizer(object client.Object) bool {
	return controllerutil.ContainsFinalizer(object, infrav1.AccessFinalizer)
}

// clusterToObject maps an OLVMCluster or an OLVMInventory to the objects that it names.
func (r *Reconciler) clusterToObject(_ context.Context, object client.Object) []ctrl.Request {
	if pool, ok := object.(*infrav1.OLVMInventory); ok {
		object = connection.OfInventory(pool)
	}

	c, ok := object.(*infrav1.OLVMCluster)
	if !ok {
		return nil
	}

	var out []ctrl.Request
	for _, key := range r.named(c) {
		out = append(out, ctrl.Request{NamespacedName: key})
	}

	return out
}

// Reconcile holds one object, or lets it go.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(r.kind())
	if err := r.Client.Get(ctx, req.NamespacedName, object); apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("failed to get %s %s: %w", object.Kind, req, err)
	}

	held := controllerutil.ContainsFinalizer(object, infrav1.AccessFinalizer)
	needed, err := r.needed(ctx, r.Client, object)
	if err != nil || needed == held {
		return ctrl.Result{}, err
	}

	if held { // the cache of this manager may not have all OLVMClusters
		if needed, err = r.needed(ctx, r.APIReader, object); err != nil || needed {
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
		// clusterctl moves what is owned or so labelled
		metav1.SetMetaDataLabel(&object.ObjectMeta, clusterctlv1.ClusterctlMoveLabel, "")
	}

	err = r.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err := client.IgnoreNotFound(err); err != nil {
		return ctrl.Result{}, fmt.Errorf("failed to hold %s %s: %w", object.Kind, req, err)
	}

	return ctrl.Result{}, nil
}

// needed reports whether an OLVMCluster or an OLVMInventory names the object, and may.
func (r *Reconciler) needed(ctx context.Context, reader client.Reader, object client.Object) (bool, error) {
	var clusters infrav1.OLVMClusterList
	if err := reader.List(ctx, &clusters); err != nil {
		return false, fmt.Errorf("failed to list OLVMClusters: %w", err)
	}

	for i := range clusters.Items {
		c := &clusters.Items[i]
		if controllerutil.ContainsFinalizer(c, infrav1.ClusterFinalizer) && r.names(c, object) {
			return true, nil
		}
	}

	var pools infrav1.OLVMInventoryList
	if err := reader.List(ctx, &pools); err != nil {
		return false, fmt.Errorf("failed to list OLVMInventories: %w", err)
	}

	for i := range pools.Items {
		pool := &pools.Items[i]
		if controllerutil.ContainsFinalizer(pool, infrav1.InventoryFinalizer) &&
			r.names(connection.OfInventory(pool), object) {
			return true, nil
		}
	}

	return false, nil
}

// names reports whether an OLVMCluster names the object, and may.
func (r *Reconciler) names(c *infrav1.OLVMCluster, object client.Object) bool {
	return slices.Contains(r.named(c), client.ObjectKeyFromObject(object)) && connection.Allowed(object, c.Namespace)
}
