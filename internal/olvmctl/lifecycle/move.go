package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/scratchdir"
)

// MoveOptions configure Move.
type MoveOptions struct {
	Common
	// To is the new management cluster of the namespace.
	To mgmtcluster.Options
}

// Move moves all clusters of a namespace to another management cluster. It installs missing providers there.
func Move(ctx context.Context, o MoveOptions) error {
	scratchdir.Tidy(scratchdir.Command)

	from, err := newManagement(o.Management, mgmtcluster.DriverExisting)
	if err != nil {
		return err
	}

	if err := from.connect(ctx); err != nil {
		return err
	}

	if err := from.CheckInstalled(ctx); err != nil {
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

	var connected []string

	return runSteps(ctx, o.Display, []Step{
		{
			name:  "Comparing both management clusters",
			quiet: true,
			run:   func(ctx context.Context) error { return o.checkMovable(ctx, from, to) },
		},
		ensureProviders(&o.Common, to, func() ([]Provider, error) { return listProviders(ctx, from.Cluster) }),
		{
			name:  "Listing the clusters to move",
			quiet: true,
			run: func(ctx context.Context) (err error) {
				connected, err = listProvisioned(ctx, from.Cluster)
				return err
			},
		},
		{name: movingName, run: func(ctx context.Context) error { return o.moveClusters(ctx, from, to) }},
		{
			// Before that, Cluster API has no connection to the clusters, and cannot delete their control planes.
			name: "Waiting for Cluster API to connect to the clusters",
			run: o.waitFor(func(ctx context.Context) error {
				var problems []error
				for _, name := range connected {
					problems = append(problems, checkKnown(ctx, to.Cluster, name))
				}

				return errors.Join(problems...)
			}),
		},
	})
}

// listProvisioned returns the clusters of a namespace whose infrastructure Cluster API has seen.
func listProvisioned(ctx context.Context, in *mgmtcluster.Cluster) ([]string, error) {
	list, err := listClusters(ctx, in)
	var out []string

	for i := range list {
		if ptr.Deref(list[i].Status.Initialization.InfrastructureProvisioned, false) {
			out = append(out, list[i].Name)
		}
	}

	return out, err
}

// listProviders returns the providers of the clusters in a namespace.
func listProviders(ctx context.Context, in *mgmtcluster.Cluster) ([]Provider, error) {
	list, err := listClusters(ctx, in)
	found := map[string]Provider{}

	for i := range list {
		one := providerOf(&list[i])
		found[one.Components().Name] = one
	}

	return slices.Collect(maps.Values(found)), err
}

func listClusters(ctx context.Context, in *mgmtcluster.Cluster) ([]clusterv1.Cluster, error) {
	var list clusterv1.ClusterList
	if err := in.List(ctx, &list, client.InNamespace(in.Namespace)); err != nil {
		return nil, fmt.Errorf("failed to list the Clusters: %w", err)
	}

	return list.Items, nil
}

// clusterctlProviders returns the providers of the options. They display the reason for a wait below the current step.
func (o *Common) clusterctlProviders() clusterctl.Providers {
	out := o.Providers
	out.Timeout, out.Progress = o.Timeout, o.Display.PrintLine

	return out
}
