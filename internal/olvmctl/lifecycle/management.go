package lifecycle

import (
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
)

// management is the management cluster of an operation. An operation may have to start it first.
type management struct {
	options mgmtcluster.Options
	// isLocal reports whether it is the local management cluster. unused reports whether it has no clusters left.
	isLocal, unused bool
	local           mgmtcluster.Local
	// Cluster is nil before connect.
	*mgmtcluster.Cluster
}

func newManagement(options mgmtcluster.Options, driver string) (_ *management, err error) {
	if options.Kubeconfig != "" { // a command in another folder may read it from the stored data
		if options.Kubeconfig, err = filepath.Abs(options.Kubeconfig); err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
	}

	isLocal, err := options.IsLocal(driver)
	if err != nil {
		return nil, err
	}

	m := &management{options: options, isLocal: isLocal, local: mgmtcluster.LocalOfUser()}
	if isLocal {
		m.options.Kubeconfig = m.local.Kubeconfig()
	} else if read, err := options.Read(); err == nil { // otherwise the connection reports the error
		m.options = read
	}

	return m, nil
}

// connect creates the client. It selects the context of the kubeconfig once. A local management cluster has only one
// context, and rewrites its kubeconfig at each start.
func (m *management) connect(context.Context) (err error) {
	options := m.options
	if !m.isLocal {
		if options, err = options.Read(); err != nil {
			return err
		}

		m.options = options
	}

	m.Cluster, err = mgmtcluster.Connect(options)

	return err
}

// setContext makes the next connection read the kubeconfig again, and use the given context.
func (m *management) setContext(context string) {
	m.options = mgmtcluster.Options{
		Kubeconfig: m.options.Kubeconfig, Context: context, Namespace: m.options.Namespace,
	}
}

// startSteps returns the steps to start a local management cluster. The steps call of to get the infrastructure of the
// cluster. If of is nil, the management cluster gets only the provider of this project.
func (m *management) startSteps(display *progress.Display, of func() Provider) []Step {
	stopped := func() bool { return m.isLocal && !m.local.IsRunning() }
	name := func() string { return of().Components().Name }

	return []Step{
		{
			name:   "Adding the infrastructure provider to the local management cluster",
			needed: func() bool { return of != nil && m.isLocal && m.local.LacksProvider(name()) },
			run:    func(ctx context.Context) error { return m.local.AddProvider(ctx, name(), display.PrintLine) },
		},
		{
			name:   "Preparing the programs of the local management cluster",
			needed: stopped,
			run:    func(ctx context.Context) error { return m.local.BuildPrograms(ctx, display.PrintLine) },
		},
		{
			name:   "Starting the local management cluster",
			needed: stopped,
			run: func(ctx context.Context) error {
				if end := m.local.DetectEnd(); end != nil {
					display.PrintLine("the local management cluster %s; it resumes with its data", end)
				}

				return m.local.Launch(ctx)
			},
		},
		{
			name:   "Checking whether the infrastructure provider is running",
			quiet:  true,
			needed: func() bool { return of != nil && m.isLocal },
			run:    func(ctx context.Context) error { return m.checkServes(ctx, of()) },
		},
	}
}

// checkServes fails if the local management cluster does not know an infrastructure, because the manager of its
// provider has not started.
func (m *management) checkServes(ctx context.Context, of Provider) error {
	if err := m.connect(ctx); err != nil {
		return err
	}

	_, err := findServedKind(m.Cluster, of.Components().ClusterKind)
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("provider %s is not running in the local management cluster; see %s", of.Components().Name,
			m.local.LogFile())
	}

	return err
}

// removalSteps returns the steps to remove a local management cluster without any clusters.
func (m *management) removalSteps(o *Common) []Step {
	return withCondition(func() bool { return m.isLocal && !o.Preserve },
		Step{
			name:  "Counting the remaining clusters",
			quiet: true,
			run: func(ctx context.Context) error {
				left, err := m.local.CountUses(ctx)
				if !left.IsEmpty() {
					o.Display.PrintLine("the local management cluster keeps running, because it still has %s", left)
				}

				m.unused = err == nil && left.IsEmpty()

				return err
			},
		},
		Step{
			name:   "Stopping the local management cluster",
			needed: func() bool { return m.unused },
			run:    m.local.Remove,
		},
	)
}

// remindOfLocal tells the user about a running local management cluster after an interrupt.
func (m *management) remindOfLocal(ctx context.Context, display *progress.Display) {
	if ctx.Err() != nil && m.isLocal && m.local.PID() != 0 {
		display.PrintLine("the local management cluster is still running; to stop it, run olvmctl local stop")
	}
}

// ensureProviders returns the step to install the missing providers in a management cluster, and to wait for all
// providers. The step calls needed when it runs.
func ensureProviders(o *Common, in *management, needed func() ([]Provider, error)) Step {
	return Step{
		name: "Installing Cluster API and its providers",
		run: func(ctx context.Context) error {
			list, err := needed()
			if err != nil {
				return err
			}

			var infrastructures []clusterctl.Infrastructure
			for _, one := range list {
				infrastructures = append(infrastructures, one.Components())
			}

			providers := o.clusterctlProviders()
			installed, err := providers.EnsureInstalled(ctx, in.ClusterctlAccess(), infrastructures...)
			if err == nil && len(installed) == 0 {
				o.Display.PrintLine("already installed")
			}

			return err
		},
	}
}

// StartLocal starts the user's local management cluster, unless it runs.
func StartLocal(ctx context.Context, display *progress.Display) error {
	m, err := newManagement(mgmtcluster.Options{}, mgmtcluster.DriverProcess)
	if err != nil {
		return err
	}

	if m.local.IsRunning() {
		_, damaged := mgmtcluster.ServerOf(m.local.Kubeconfig())
		if damaged == nil {
			display.PrintLine("the local management cluster is running as process %d", m.local.PID())
			return nil
		}

		display.PrintLine("its kubeconfig is damaged; restarting to write it again: %v", damaged)

		if err := display.RunStep("Stopping the local management cluster", func() error {
			return m.local.Stop(ctx)
		}); err != nil {
			return err
		}
	}

	return runSteps(ctx, display, m.startSteps(display, nil))
}
