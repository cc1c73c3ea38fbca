package cluster

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/objectstatus"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// This file covers the OLVMCluster's view of its Cluster's support services. They have a controller of their own.

// servicesChanged passes changes of an OLVMSupportServices relevant to an OLVMCluster.
var servicesChanged = predicate.Or[client.Object](objectstatus.IgnoreStatus, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*infrav1alpha1.OLVMSupportServices)
		after, too := e.ObjectNew.(*infrav1alpha1.OLVMSupportServices)

		return ok && too && (before.Status.ObservedGeneration != after.Status.ObservedGeneration ||
			conditions.GetReason(before, infrav1.DeletingCondition) !=
				conditions.GetReason(after, infrav1.DeletingCondition) ||
			!slices.EqualFunc(before.Status.Services, after.Status.Services,
				func(a, b infrav1alpha1.SupportServiceStatus) bool {
					return a.Name == b.Name && (a.ReadyMachines > 0) == (b.ReadyMachines > 0)
				}))
	},
})

// servicesToCluster maps support services to their OLVMCluster. They have the name of the Cluster.
func (r *Reconciler) servicesToCluster(ctx context.Context, services client.Object) []ctrl.Request {
	return r.ofCluster(ctx, client.ObjectKeyFromObject(services))
}

// findServices reads the support services of the Cluster.
func (r *Reconciler) findServices(ctx context.Context, scope *clusterScope) error {
	key := client.ObjectKey{Namespace: scope.olvmCluster.Namespace, Name: clusterNameOf(scope)}
	found, err := support.Find(ctx, r.Client, key)
	scope.services = found

	return err
}

// endpointServed reports whether the required load balancers serve the control plane endpoint.
func (s *clusterScope) endpointServed() bool {
	for _, service := range support.Services(s.services) {
		if !service.ServesEndpoint(s.olvmCluster.Spec) {
			continue
		}

		serves := slices.ContainsFunc(s.services.Status.Services, func(of infrav1alpha1.SupportServiceStatus) bool {
			return of.Name == service.Name && of.ReadyMachines > 0
		})
		if !serves || s.services.Status.ObservedGeneration != s.services.Generation {
			return false
		}
	}

	return true
}

// deleteServices deletes the support services of a cluster without nodes, and lists their remaining VMs.
func (r *Reconciler) deleteServices(
	ctx context.Context, scope *clusterScope, machines []infrav1.OLVMMachine,
) error {
	for i := range machines {
		if support.MachineOf(&machines[i]) != nil {
			scope.supportVMs = append(scope.supportVMs, machines[i].Name)
		}
	}

	if err := r.findServices(ctx, scope); err != nil || scope.services == nil {
		return err
	}

	if !scope.services.DeletionTimestamp.IsZero() || workspace.Moving(scope.olvmCluster) {
		return nil
	}

	same := client.Preconditions{UID: &scope.services.UID}
	if err := r.Client.Delete(ctx, scope.services, same); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to delete OLVMSupportServices %s: %w",
			client.ObjectKeyFromObject(scope.services), err)
	}

	return nil
}
