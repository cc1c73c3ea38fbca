// Package lifecycle creates, upgrades, scales, moves and deletes whole clusters.
//
// An operation that takes long is a list of named steps. The display of progress has a line for each of them. A step is
// safe to run again, so an operation that was interrupted goes on when it is started again: it runs its list from the
// beginning, and leaves out what is not needed any more.
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
	// Driver is one of mgmtcluster's; it may mean the local management cluster.
	Driver string
	// Preserve keeps a local management cluster without clusters.
	Preserve bool
	// Providers says where providers come from, where some are missing.
	Providers clusterctl.Providers
	// Timeout of everything that is waited for.
	Timeout time.Duration
	// Display shows the steps.
	Display *progress.Display
}

// wait is what a step runs that repeats a check until it succeeds.
func (o *Common) wait(check func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return o.Display.Wait(ctx, o.Timeout, check) }
}

// Step is a part of an operation.
type Step struct {
	// name for people.
	name string
	// quiet steps have no line of their own: they are over at once. Those that ask the user say nothing at all.
	quiet, asks bool
	// needed reports whether there is something to do; nil means always. It is asked when the turn of the step comes,
	// so it may use what the steps before have found.
	needed func() bool
	// run does it.
	run func(context.Context) error
}

// runSteps runs those that are needed, one after the other, up to the first that fails.
func runSteps(ctx context.Context, display *progress.Display, steps []Step) error {
	for _, s := range steps {
		if s.needed != nil && !s.needed() {
			continue
		}

		show := display.Step

		switch {
		case s.asks:
			show = func(_ string, run func() error) error { return run() }
		case s.quiet:
			show = display.Quietly
		}

		if err := show(s.name, func() error { return s.run(ctx) }); err != nil {
			return err
		}
	}

	return nil
}

// only gives a step one more condition.
func only(needed func() bool, steps ...Step) []Step {
	for i := range steps {
		before := steps[i].needed
		steps[i].needed = func() bool { return needed() && (before == nil || before()) }
	}

	return steps
}
