// Package machinetemplate reconciles OLVMMachineTemplates. It reports the capacity of the machines created from them.
package machinetemplate

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	capicontrollerutil "sigs.k8s.io/cluster-api/util/controller"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmmachinetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmmachinetemplates/status,verbs=patch

// Reconciler sets the capacity of future machines in the status of OLVMMachineTemplates, so that an autoscaler can
// scale from zero.
type Reconciler struct {
	Client           client.Client
	Recorder         events.EventRecorder
	WatchFilterValue string

	passes pass.Tracker
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(
	ctx context.Context, mgr ctrl.Manager, options controller.Options,
) error {
	if r.Client == nil || r.Recorder == nil {
		return errors.New("fields Client and Recorder must be set")
	}

	log := ctrl.LoggerFrom(ctx).WithValues("controller", "olvmmachinetemplate")
	err := capicontrollerutil.NewControllerManagedBy(mgr, log).
		For(&infrav1.OLVMMachineTemplate{}, builder.WithPredicates(r.passes.ChangedPredicate())).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilterValue)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.clusterToTemplates),
			predicates.ClusterUnpaused(mgr.GetScheme(), log)).
		Complete(ctx, r)
	if err != nil {
		return fmt.Errorf("failed to set up the OLVMMachineTemplate controller: %w", err)
	}

	return nil
}

// clusterToTemplates maps an unpaused Cluster to its templates. Cluster API makes the Cluster their owner.
func (r *Reconciler) clusterToTemplates(ctx context.Context, cluster client.Object) []ctrl.Request {
	var templates infrav1.OLVMMachineTemplateList
	if err := r.Client.List(ctx, &templates, client.InNamespace(cluster.GetNamespace())); err != nil {
		return nil
	}

	var out []ctrl.Request

	for i := range templates.Items {
		if util.IsOwnedByObject(&templates.Items[i], cluster, clusterv1.GroupVersion.WithKind("Cluster").GroupKind()) {
			out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&templates.Items[i])})
		}
	}

	return out
}

// Reconcile runs one pass for an OLVMMachineTemplate.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return pass.Controller[*infrav1.OLVMMachineTemplate]{
		Tracker:          &r.passes,
		Client:           r.Client,
		Recorder:         r.Recorder,
		WatchFilterValue: r.WatchFilterValue,
		Open:             r.openPass,
	}.Reconcile(ctx, req, &infrav1.OLVMMachineTemplate{})
}

// openPass finds the owner of a template: the Cluster or the ClusterClass. A new template has none.
func (r *Reconciler) openPass(
	ctx context.Context, _ *pass.Pass, template *infrav1.OLVMMachineTemplate,
) (pass.Frame, error) {
	cluster, err := util.GetOwnerCluster(ctx, r.Client, template.ObjectMeta)
	if err != nil && !apierrors.IsNotFound(err) {
		return pass.Frame{}, fmt.Errorf("failed to get the owner of OLVMMachineTemplate %s: %w", template.Name, err)
	}

	return pass.Frame{
		Labelled: template,
		Admit: func(context.Context) (bool, ctrl.Result, error) {
			return template.DeletionTimestamp.IsZero(), ctrl.Result{}, nil
		},
		EnsurePaused: func(context.Context) (bool, error) { // an OLVMMachineTemplate has no condition to report a pause
			return annotations.HasPaused(template) || cluster != nil && annotations.IsPaused(cluster, template), nil
		},
		Work: func(ctx context.Context) (ctrl.Result, error) {
			r.reconcileCapacity(ctx, template)
			return ctrl.Result{}, nil
		},
		SetStatus: func() {}, // reconcileCapacity has set it
	}, nil
}

// reconcileCapacity writes the capacity from the spec. With a wrong capacity, an autoscaler would add nodes that are
// too small for any pod. Without a capacity, it does not scale the node group.
func (r *Reconciler) reconcileCapacity(ctx context.Context, template *infrav1.OLVMMachineTemplate) {
	spec := template.Spec.Template.Spec
	if spec.FromInventory != nil { // the VMs of a pool determine their own capacity
		template.Status.NodeInfo, template.Status.Capacity = infrav1.NodeInfo{}, nil
		return
	}

	template.Status.NodeInfo = desired.BuildNodeInfo(spec)
	capacity, err := desired.ComputeCapacity(spec)
	var field *blocker.Error
	if errors.As(err, &field) {
		ctrl.LoggerFrom(ctx).Info("Capacity is unknown", "reason", field.Reason, "error", field.Error())
		r.Recorder.Eventf(template, nil, corev1.EventTypeWarning, field.Reason, "Capacity",
			"spec.template.%s; the autoscaler cannot scale from zero with this template", field.Error())
	}

	template.Status.Capacity = capacity
}
