package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/mgmtcluster"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MoveOptions say what moves where.
type MoveOptions struct {
	Common
	// To is the management cluster that the namespace moves to.
	To mgmtcluster.Options
}

// Move moves all clusters of a namespace to another management cluster, which gets the providers that are missing
// there.
func Move(ctx context.Context, o MoveOptions) error {
	from, err := newManagement(o.Management, mgmtcluster.DriverExisting)
	if err != nil {
		return err
	}

	if err := from.connect(ctx); err != nil {
		return err
	}

	o.To.Namespace = from.Namespace
	to, err := newManagement(o.To, mgmtcluster.DriverExisting)
	if err != nil {
		return err
	}

	if err := to.connect(ctx); err != nil {
		return fmt.Errorf("--to-kubeconfig: %w", err)
	}

	return runSteps(ctx, o.Display, []step{
		ensureProviders(&o.Common, to, func() ([]Provider, error) { return providersIn(ctx, from.Cluster) }),
		move(&o.Common, from, to),
	})
}

// providersIn are those of the clusters of a namespace.
func providersIn(ctx context.Context, in *mgmtcluster.Cluster) ([]Provider, error) {
	var list clusterv1.ClusterList
	if err := in.List(ctx, &list, client.InNamespace(in.Namespace)); err != nil {
		return nil, fmt.Errorf("failed to list the Clusters: %w", err)
	}

	found := map[string]Provider{}

	for i := range list.Items {
		one := providerOf(&list.Items[i])
		found[one.Components().Name] = one
	}

	return slices.Collect(maps.Values(found)), nil
}

// providers are those of the options, with what they wait for shown below the step.
func (o *Common) providers() clusterctl.Providers {
	out := o.Providers
	out.Timeout, out.Progress = o.Timeout, o.Display.Say

	return out
}
