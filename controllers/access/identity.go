package access

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	capicontrollerutil "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmclusteridentities/status,verbs=patch

// IdentityReconciler sets the status of OLVMClusterIdentities: whether the objects named by them are usable. A
// namespace without access learns only that it may not use the identity.
type IdentityReconciler struct {
	Client client.Client
	// APIReader reads Secrets and ConfigMaps.
	APIReader client.Reader
	Recorder  events.EventRecorder
	// Namespace is the namespace of the objects named by OLVMClusterIdentities.
	Namespace string

	passes pass.Tracker
}

// SetupWithManager adds the controller to the manager.
func (r *IdentityReconciler) SetupWithManager(
	ctx context.Context, mgr ctrl.Manager, options controller.Options,
) error {
	if r.Client == nil || r.APIReader == nil || r.Recorder == nil || r.Namespace == "" {
		return errors.New("fields Client, APIReader, Recorder and Namespace must be set")
	}

	const name = "olvmclusteridentity"
	log := ctrl.LoggerFrom(ctx).WithValues("controller", name)
	err := capicontrollerutil.NewControllerManagedBy(mgr, log).
		Named(name).
		For(&infrav1alpha1.OLVMClusterIdentity{}, builder.WithPredicates(r.passes.ChangedPredicate())).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.secretToIdentities)).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.configMapToIdentities)).
		WithOptions(options).
		Complete(ctx, r)
	if err != nil {
		return fmt.Errorf("failed to set up the %s controller: %w", name, err)
	}

	return nil
}

// secretToIdentities maps a Secret to the identities with a reference to it.
func (r *IdentityReconciler) secretToIdentities(ctx context.Context, secret client.Object) []ctrl.Request {
	return r.findReferencing(
		ctx,
		secret,
		func(spec infrav1alpha1.OLVMClusterIdentitySpec) *infrav1alpha1.ObjectOfNamespace {
			return &spec.CredentialsSecret
		},
	)
}

// configMapToIdentities maps a ConfigMap to the identities with a reference to it.
func (r *IdentityReconciler) configMapToIdentities(ctx context.Context, ca client.Object) []ctrl.Request {
	return r.findReferencing(
		ctx,
		ca,
		func(spec infrav1alpha1.OLVMClusterIdentitySpec) *infrav1alpha1.ObjectOfNamespace {
			return spec.CAConfigMap
		},
	)
}

// findReferencing returns requests for the identities with a reference to an object. named returns an identity's
// reference to such an object.
func (r *IdentityReconciler) findReferencing(
	ctx context.Context,
	object client.Object,
	named func(infrav1alpha1.OLVMClusterIdentitySpec) *infrav1alpha1.ObjectOfNamespace,
) []ctrl.Request {
	if object.GetNamespace() != r.Namespace {
		return nil
	}

	var list infrav1alpha1.OLVMClusterIdentityList
	if err := r.Client.List(ctx, &list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list OLVMClusterIdentities")
		return nil
	}

	var out []ctrl.Request

	for i := range list.Items {
		it := named(list.Items[i].Spec)
		if it != nil && it.Namespace == object.GetNamespace() && it.Name == object.GetName() {
			out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}

	return out
}

// Reconcile reports whether the objects named by an identity are usable.
func (r *IdentityReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return pass.Controller[*infrav1alpha1.OLVMClusterIdentity]{
		Tracker:  &r.passes,
		Client:   r.Client,
		Recorder: r.Recorder,
		Open:     r.openPass,
	}.Reconcile(ctx, req, &infrav1alpha1.OLVMClusterIdentity{})
}

// openPass checks the objects named by an identity. All managers share an identity, and it cannot be paused.
func (r *IdentityReconciler) openPass(
	ctx context.Context, _ *pass.Pass, identity *infrav1alpha1.OLVMClusterIdentity,
) (pass.Frame, error) {
	var problem *blocker.Error

	policy := connection.Policy{IdentityNamespace: r.Namespace}
	err := connection.CheckIdentityObjects(ctx, r.APIReader, identity, policy)
	if err != nil && !errors.As(err, &problem) {
		return pass.Frame{}, fmt.Errorf("failed to read the references of OLVMClusterIdentity %s: %w", identity.Name,
			err)
	}

	return pass.Frame{
		EnsurePaused: pass.NeverPaused,
		Work:         func(context.Context) (ctrl.Result, error) { return ctrl.Result{}, nil },
		SetStatus:    func() { setUsable(identity, problem) },
	}, nil
}
