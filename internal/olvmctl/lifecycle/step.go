// Package lifecycle creates, upgrades, scales, moves and deletes whole clusters.
//
// A long operation is a list of named steps. The progress display shows a line for each step. Steps are idempotent, so
// a user can start an interrupted operation again. It runs its list from the beginning, and skips steps with nothing to
// do.
package lifecycle

import (
	"context"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
)

// Common are the options of all operations.
type Common struct {
	// Management is the management cluster, and the namespace of the cluster in it.
	Management mgmtcluster.Options
	// Driver is one of mgmtcluster's drivers. It may select the local management cluster.
	Driver string
	// Preserve keeps a local management cluster after its last cluster is gone.
	Preserve bool
	// Providers is the source of missing providers.
	Providers clusterctl.Providers
	// Timeout bounds each wait.
	Timeout time.Duration
	// Display shows the steps.
	Display *progress.Display
}

// waitFor returns a step function that repeats a check until it succeeds.
func (o *Common) waitFor(check func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return o.Display.WaitFor(ctx, o.Timeout, check) }
}

// Step is a part of an operation.
type Step struct {
	// name is shown to the user.
	name string
	// quiet steps end at once, so the display shows no line for them. asks marks steps that ask the user. The display
	// prints nothing during these steps.
	quiet, asks bool
	// needed reports whether the step has something to do. A nil function means always. It is called just before the
	// step, so it may use the results of the previous steps.
	needed func() bool
	// run executes the step.
	run func(context.Context) error
}

// runSteps runs the needed steps in order, until one fails.
func runSteps(ctx context.Context, display *progress.Display, steps []Step) error {
	for _, s := range steps {
		if s.needed != nil && !s.needed() {
			continue
		}

		show := display.RunStep

		switch {
		case s.asks:
			show = func(_ string, run func() error) error { return run() }
		case s.quiet:
			show = display.RunQuietly
		}

		if err := show(s.name, func() error { return s.run(ctx) }); err != nil {
			return err
		}
	}

	return nil
}

// withCondition adds a condition to steps.
func withCondition(needed func() bool, steps ...Step) []Step {
	for i := range steps {
		before := steps[i].needed
		steps[i].needed = func() bool { return needed() && (before == nil || before()) }
	}

	return steps
}
