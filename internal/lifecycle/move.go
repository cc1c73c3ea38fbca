package lifecycle

import (
	"context"
	"fmt"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/mgmtcluster"
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
		ensureProviders(&o.Common, to),
		move(&o.Common, from, to),
	})
}

// providers are those of the options, with what they wait for shown below the step.
func (o *Common) providers() clusterctl.Providers {
	out := o.Providers
	out.Timeout, out.Progress = o.Timeout, o.Display.Say

	return out
}
