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
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// This file contains the OLVMCluster controller's use of support services. Another controller reconciles the support
// services themselves.

// servicesChanged selects the changes of an OLVMSupportServices relevant to its OLVMCluster.
var servicesChanged = predicate.Or[client.Object](pass.SpecOrOwnersChanged, predicate.Funcs{
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
	return r.requestsOfCluster(ctx, client.ObjectKeyFromObject(services))
}

// findServices reads the support services of the Cluster. It returns nil if there are none.
func (r *Reconciler) findServices(
	ctx context.Context, scope *clusterScope,
) (*infrav1alpha1.OLVMSupportServices, error) {
	return support.FindServices(ctx, r.Client,
		client.ObjectKey{Namespace: scope.olvmCluster.Namespace, Name: getClusterName(scope)})
}

// isEndpointServed reports whether the required load balancers serve the control plane endpoint.
func (s *clusterScope) isEndpointServed() bool {
	for _, service := range support.CollectServices(s.services) {
		if !service.IsServingEndpoint(s.olvmCluster.Spec) {
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

// collectSupportVMs returns the names of the machines of support services.
func collectSupportVMs(machines []infrav1.OLVMMachine) []string {
	var out []string

	for i := range machines {
		if support.NewStandInMachine(&machines[i]) != nil {
			out = append(out, machines[i].Name)
		}
	}

	return out
}

// deleteServices deletes the support services of a cluster without nodes, and returns them while they exist.
func (r *Reconciler) deleteServices(
	ctx context.Context, scope *clusterScope,
) (*infrav1alpha1.OLVMSupportServices, error) {
	services, err := r.findServices(ctx, scope)
	if err != nil || services == nil {
		return nil, err
	}

	if !services.DeletionTimestamp.IsZero() || workspace.IsMoving(scope.olvmCluster) {
		return services, nil
	}

	err = r.Client.Delete(ctx, services, client.Preconditions{UID: &services.UID})
	if client.IgnoreNotFound(err) != nil {
		return services, fmt.Errorf("failed to delete OLVMSupportServices %s: %w",
			client.ObjectKeyFromObject(services), err)
	}

	return services, nil
}
