// Package state releases the Terraform states of deleted objects.
package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	capicontrollerutil "sigs.k8s.io/cluster-api/util/controller"
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
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=patch

// Reconciler removes the finalizer of a state Secret in deletion if the owner of the state no longer exists. For
// example, a user may remove the finalizer of an OLVMMachine to keep its VM. Nothing needs its state then, but its
// finalizer would block the deletion of the namespace.
type Reconciler struct {
	Client client.Client
	// APIReader sees objects missing from the cache, or not watched by this manager.
	APIReader client.Reader

	// ended maps the keys of states to the UIDs of owners, if this process has seen the owners' deletion.
	ended sync.Map
}

// restoreGrace is how long a deleted state stays if its owner does not exist. A restore may create Secrets before their
// owners, and the garbage collector then deletes the Secrets at once.
const restoreGrace = time.Hour

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if r.Client == nil || r.APIReader == nil {
		return errors.New("fields Client and APIReader must be set")
	}

	log := ctrl.LoggerFrom(ctx).WithValues("controller", "olvmstate")
	build := capicontrollerutil.NewControllerManagedBy(mgr, log).
		Named("olvmstate").
		For(&corev1.Secret{}, builder.OnlyMetadata, builder.WithPredicates(predicate.NewPredicateFuncs(isFinalizing))).
		WithOptions(options)

	for _, owner := range []client.Object{
		&infrav1.OLVMCluster{}, &infrav1.OLVMMachine{}, &infrav1alpha1.OLVMInventoryVM{},
	} {
		build = build.Watches(owner, handler.EnqueueRequestsFromMapFunc(r.ownerToStates), deleted)
	}

	if err := build.Complete(ctx, r); err != nil {
		return fmt.Errorf("failed to set up the state controller: %w", err)
	}

	return nil
}

// deleted selects deletions of objects.
var deleted = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// isFinalizing reports whether a state is in deletion and still has the finalizer.
func isFinalizing(object client.Object) bool {
	return !object.GetDeletionTimestamp().IsZero() && controllerutil.ContainsFinalizer(object, tfstate.Finalizer)
}

var secretKind = corev1.SchemeGroupVersion.WithKind("Secret")

// ownerToStates maps a deleted object to its states.
func (r *Reconciler) ownerToStates(ctx context.Context, owner client.Object) []ctrl.Request {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(secretKind)

	err := r.Client.List(ctx, list, client.InNamespace(owner.GetNamespace()), client.MatchingLabels(tfstate.Labels),
		client.UnsafeDisableDeepCopy) // the objects are only read
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list states")
		return nil
	}

	var out []ctrl.Request

	for i := range list.Items {
		if ref := metav1.GetControllerOf(&list.Items[i]); ref != nil && ref.UID == owner.GetUID() {
			key := client.ObjectKeyFromObject(&list.Items[i])
			r.ended.Store(key, ref.UID)
			out = append(out, ctrl.Request{NamespacedName: key})
		}
	}

	return out
}

// Reconcile removes the finalizer of one state, if its owner no longer exists.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(secretKind)
	if err := r.Client.Get(ctx, req.NamespacedName, secret); apierrors.IsNotFound(err) {
		r.ended.Delete(req.NamespacedName)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("failed to get Secret %s: %w", req, err)
	}

	if !isFinalizing(secret) {
		return ctrl.Result{}, nil
	}

	if gone, err := r.checkOwnerGone(ctx, secret); err != nil || !gone {
		return ctrl.Result{}, err
	}

	if left, err := r.fetchRemainingGrace(ctx, secret); err != nil || left > 0 {
		return ctrl.Result{RequeueAfter: left}, err
	}

	before := secret.DeepCopy()
	controllerutil.RemoveFinalizer(secret, tfstate.Finalizer)

	err := r.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("failed to release the state Secret %s: %w", req, err)
	}

	r.ended.Delete(req.NamespacedName)
	ctrl.LoggerFrom(ctx).Info("Released the Terraform state of a deleted object", "secret", req)

	return ctrl.Result{}, nil
}

// fetchRemainingGrace returns the remaining time of restoreGrace. It is zero if this process has seen the deletion of
// the owner, or if the namespace is being deleted.
func (r *Reconciler) fetchRemainingGrace(ctx context.Context, secret client.Object) (time.Duration, error) {
	uid, _ := r.ended.Load(client.ObjectKeyFromObject(secret))
	if uid == metav1.GetControllerOf(secret).UID {
		return 0, nil
	}

	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))

	err := r.APIReader.Get(ctx, client.ObjectKey{Name: secret.GetNamespace()}, namespace)
	if err != nil && !apierrors.IsForbidden(err) {
		return 0, fmt.Errorf("failed to get Namespace %s: %w", secret.GetNamespace(), err)
	}

	if !namespace.DeletionTimestamp.IsZero() {
		return 0, nil
	}

	return restoreGrace - time.Since(secret.GetDeletionTimestamp().Time), nil
}

// checkOwnerGone reports whether no object has the kind and the name of a state's owner. A recreated object may
// continue with the state.
func (r *Reconciler) checkOwnerGone(ctx context.Context, secret client.Object) (bool, error) {
	ref := metav1.GetControllerOf(secret)
	if ref == nil {
		return false, nil
	}

	owner := &metav1.PartialObjectMetadata{}
	owner.SetGroupVersionKind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))

	key := client.ObjectKey{Namespace: secret.GetNamespace(), Name: ref.Name}
	if owner.GroupVersionKind().Group != infrav1.GroupVersion.Group {
		return false, nil
	}

	err := r.APIReader.Get(ctx, key, owner)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("failed to get %s %s: %w", ref.Kind, key, err)
	}

	return apierrors.IsNotFound(err), nil
}
