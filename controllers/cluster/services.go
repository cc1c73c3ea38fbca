package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
)

// reconcileServices checks the control plane services. It assigns virtual router IDs to them and to the cluster's load
// balancers, before any machine needs the IDs. It records the IDs, because running machines keep them.
//
// problem is an error for a user to correct. err is any other error.
func (r *Reconciler) reconcileServices(ctx context.Context, scope *clusterScope) (problem, err error) {
	c := scope.olvmCluster
	problem = desired.ValidateServices(c.Spec)
	if problem != nil || c.Spec.ControlPlaneServices == nil && scope.services == nil {
		return problem, nil
	}

	r.routerIDs.Lock() // each choice must see the previous one
	defer r.routerIDs.Unlock()

	for range 3 { // another manager may have chosen the same IDs at the same moment
		changed, err := r.ensureRouterIDs(ctx, scope)
		var field *blocker.Error
		if errors.As(err, &field) {
			return field, nil
		}

		if err != nil || !changed {
			return nil, err
		}
	}

	return nil, nil
}

// ensureRouterIDs records the virtual router IDs of a cluster, and reports whether they have changed.
func (r *Reconciler) ensureRouterIDs(ctx context.Context, scope *clusterScope) (changed bool, err error) {
	c := scope.olvmCluster
	recorded, err := desired.ParseRouterIDs(c)
	if err != nil {
		return false, err
	}

	name := client.ObjectKeyFromObject(c).String()

	// A provisioned cluster keeps its IDs, so there is no need to read the others.
	hasNone, provisioned := len(recorded) == 0, ptr.Deref(c.Status.Initialization.Provisioned, false)
	same, err := desired.ChooseRouterIDs(name, c.Spec, scope.services, recorded, nil)
	if err == nil && maps.Equal(same, recorded) && (hasNone || provisioned) {
		return false, nil
	}

	has, inUse, err := r.listRouterIDsInUse(ctx, scope, recorded)
	if err != nil {
		return false, err
	}

	wanted, err := desired.ChooseRouterIDs(name, c.Spec, scope.services, has, inUse)
	if err != nil {
		return false, err
	}

	if maps.Equal(wanted, recorded) {
		return false, nil
	}

	text, err := json.Marshal(wanted)
	if err != nil {
		return false, fmt.Errorf("failed to encode virtual router IDs: %w", err)
	}

	metav1.SetMetaDataAnnotation(&c.ObjectMeta, infrav1.RouterIDsAnnotation, string(text))
	if err := scope.pass.WriteObject(ctx); err != nil {
		return false, fmt.Errorf("failed to record virtual router IDs: %w", err)
	}

	return true, nil
}

// listRouterIDsInUse returns the IDs of other clusters on the engine, and the cluster's own IDs. It omits own IDs lost
// to another cluster.
func (r *Reconciler) listRouterIDsInUse(
	ctx context.Context, scope *clusterScope, recorded desired.RouterIDs,
) (has desired.RouterIDs, inUse []int, err error) {
	c, where := scope.olvmCluster, scope.engineID()
	has = recorded

	var all infrav1.OLVMClusterList
	if err := r.APIReader.List(ctx, &all); err != nil {
		return has, nil, fmt.Errorf("failed to list OLVMClusters: %w", err)
	}

	for i := range all.Items {
		other := &all.Items[i]
		if other.UID == c.UID || !where.IsUsedBy(connection.ClusterEngine(other), c.Namespace) {
			continue
		}

		ids, err := desired.ParseRouterIDs(other)
		if err != nil {
			continue // its own condition reports the error
		}

		if !shouldKeepRouterIDs(c, other) {
			has = has.Without(ids)
		}

		inUse = append(inUse, ids.All()...)
	}

	return has, inUse, nil
}

// shouldKeepRouterIDs reports whether c keeps an ID used by both clusters. A provisioned cluster keeps the ID, because
// its machines may use it. If neither is provisioned, the first by name keeps it.
func shouldKeepRouterIDs(c, other *infrav1.OLVMCluster) bool {
	provisioned := ptr.Deref(c.Status.Initialization.Provisioned, false)
	otherProvisioned := ptr.Deref(other.Status.Initialization.Provisioned, false)
	if provisioned != otherProvisioned {
		return provisioned
	}

	return provisioned || client.ObjectKeyFromObject(c).String() < client.ObjectKeyFromObject(other).String()
}
