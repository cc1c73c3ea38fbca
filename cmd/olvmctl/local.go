package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/adrg/xdg"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// Drivers of management clusters.
const (
	driverAuto     = "auto"
	driverExisting = "existing"
	driverProcess  = "process"
)

const (
	// localStartLimit bounds how long the processes take until they serve.
	localStartLimit = 3 * time.Minute
	// localStopLimit is longer than the manager takes to interrupt its runs.
	localStopLimit = 2 * time.Minute
	// localCheck is how often the processes are looked at.
	localCheck = 2 * time.Second
)

// local is the management cluster that runs as processes of this machine, one for each user. What is in it outlives
// them.
type local struct{ dir string }

func newLocal() local { return local{filepath.Join(xdg.StateHome, "capolvm", "local")} }

func (l local) kubeconfig() string { return filepath.Join(l.dir, "admin.kubeconfig") }
func (l local) data() string       { return filepath.Join(l.dir, "data") }
func (l local) pidFile() string    { return filepath.Join(l.dir, "pid") }
func (l local) readyFile() string  { return filepath.Join(l.dir, "ready") }
func (l local) logFile() string    { return filepath.Join(l.dir, "local.log") }

// exists reports whether there is one, running or not.
func (l local) exists() bool { return fileExists(l.data()) }

// pid of the process that runs it; 0 for none.
func (l local) pid() int {
	content, err := os.ReadFile(l.pidFile())
	if err != nil {
		return 0
	}

	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0
	}

	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // the number may be another process's by now
	if err != nil || !strings.Contains(string(line), "\x00local\x00serve") {
		return 0
	}

	return pid
}

// stopped is an error where a configuration is that of the local management cluster, and nothing runs it.
func (l local) stopped(host string) error {
	if !l.exists() || l.pid() != 0 {
		return nil
	}

	if own, err := serverOf(l.kubeconfig()); err != nil || host != own {
		return nil //nolint:nilerr // it is another management cluster
	}

	return errors.New("the local management cluster is stopped; start it with olvmctl local start")
}

// start starts it, where it does not run.
func (l local) start(ctx context.Context, s *steps) error {
	if l.pid() != 0 && fileExists(l.readyFile()) {
		s.say("the local management cluster runs, as process %d", l.pid())
		return nil
	}

	tools, err := toolchain.Embedded()
	if err != nil {
		return err
	}

	tools.Progress = s.say
	err = s.do("What a local management cluster needs", func() error {
		if err := tools.Build(ctx, "plane"); err != nil {
			return fmt.Errorf("%w; it is built with Go: install that, or give a management cluster with --kubeconfig",
				err)
		}

		_, err := tools.EnsureExecutor(ctx)

		return err
	})
	if err != nil {
		return err
	}

	return s.do("Starting a local management cluster", func() error { return l.launch(ctx) })
}

// launch starts the process that runs it, unless there is one already, and waits until it is ready.
func (l local) launch(ctx context.Context) error {
	ended := make(chan error, 1)
	if l.pid() == 0 {
		command, err := l.begin()
		if err != nil {
			return err
		}

		go func() { ended <- command.Wait() }()
	} else { // one that was interrupted has begun it
		go func() {
			for l.pid() != 0 {
				time.Sleep(100 * time.Millisecond)
			}

			ended <- nil
		}()
	}

	deadline := time.After(localStartLimit)

	for !fileExists(l.readyFile()) {
		select {
		case err := <-ended:
			return fmt.Errorf("the local management cluster has ended (%w); see %s",
				errors.Join(err, errors.New("before it was ready")), l.logFile())
		case <-deadline:
			return fmt.Errorf("the local management cluster is not ready after %s; see %s", localStartLimit,
				l.logFile())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}

	return nil
}

// begin starts the process that runs it.
func (l local) begin() (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("failed to find this program: %w", err)
	}

	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return nil, fmt.Errorf("failed to make a folder for the local management cluster: %w", err)
	}

	_ = os.Remove(l.readyFile())
	log, err := os.OpenFile(l.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("failed to open the log of the local management cluster: %w", err)
	}
	defer log.Close()
	command := exec.Command(program, "local", "serve") //nolint:noctx // it outlives this command
	command.Stdout, command.Stderr, command.SysProcAttr = log, log, &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("failed to start the local management cluster: %w", err)
	}

	return command, nil
}

// stop ends its processes; forget also removes what is in it.
func (l local) stop(ctx context.Context, forget bool) error {
	if pid := l.pid(); pid != 0 {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			return fmt.Errorf("failed to stop the local management cluster: %w", err)
		}

		ctx, cancel := context.WithTimeout(ctx, localStopLimit)
		defer cancel()

		for l.pid() == pid {
			select {
			case <-ctx.Done():
				return fmt.Errorf("the local management cluster has not stopped: process %d", pid)
			case <-time.After(100 * time.Millisecond):
			}
		}
	}

	if !forget {
		return nil
	}

	if err := os.RemoveAll(l.dir); err != nil {
		return fmt.Errorf("failed to remove the local management cluster: %w", err)
	}

	return nil
}

// forgetIfEmpty stops it and forgets it, if no cluster is in it.
func (l local) forgetIfEmpty(ctx context.Context, s *steps) error {
	m := management{kubeconfig: l.kubeconfig()}
	if err := m.connect(); err != nil {
		return err
	}

	var clusters infrav1.OLVMClusterList
	if err := m.List(ctx, &clusters); err != nil {
		return fmt.Errorf("failed to list the clusters of the local management cluster: %w", err)
	}

	if len(clusters.Items) > 0 {
		s.say("the local management cluster goes on: it has %d other clusters", len(clusters.Items))
		return nil
	}

	return s.do("Stopping the local management cluster", func() error { return l.stop(ctx, true) })
}

// serve runs it until it is told to end.
func (l local) serve(ctx context.Context, say func(format string, args ...any)) error {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return fmt.Errorf("failed to make a folder: %w", err)
	}

	lock, err := os.OpenFile(l.pidFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("failed to open the file of the process: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another process runs it: %w", err)
	}

	if err := errors.Join(lock.Truncate(0), writePID(lock)); err != nil {
		return fmt.Errorf("failed to write the number of the process: %w", err)
	}

	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("failed to find this program: %w", err)
	}

	tools, err := toolchain.Embedded()
	if err != nil {
		return err
	}

	plane, err := localplane.Start(ctx, localplane.Options{
		Tools:        tools,
		Dir:          l.dir,
		DataDir:      l.data(),
		NoSimulator:  true,
		Manager:      []string{program, managerCommand},
		FeatureGates: []string{"KubeadmBootstrapFormatIgnition"},
		Progress:     say,
	})
	if err != nil {
		return err
	}
	defer plane.Stop()
	if err := os.WriteFile(l.readyFile(), nil, 0o600); err != nil {
		return fmt.Errorf("failed to say that it is ready: %w", err)
	}

	defer os.Remove(l.readyFile())

	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(localCheck):
		}

		if err := plane.Failed(); err != nil {
			return err
		}
	}
}

func writePID(file *os.File) error {
	_, err := fmt.Fprintln(file, os.Getpid())
	return err
}

func newLocalCommand(s streams) *cobra.Command {
	command := &cobra.Command{
		Use:   "local",
		Short: "Look after the management cluster that runs as processes of this machine",
		Long: `local is about the management cluster that start makes where there is none: etcd,
kube-apiserver, Cluster API and this provider, as processes of this machine that listen on loopback.
What is in it is kept in $XDG_STATE_HOME/capolvm over restarts.

Clusters that it manages run without it, but nothing looks after their machines while it is stopped.`,
	}
	l := newLocal()
	command.AddCommand(&cobra.Command{
		Use: "serve", Short: "Run it in the foreground", Args: cobra.NoArgs, Hidden: true,
		RunE: func(command *cobra.Command, _ []string) error {
			return l.serve(command.Context(), func(format string, args ...any) {
				_, _ = fmt.Fprintf(s.out, format+"\n", args...)
			})
		},
	}, &cobra.Command{
		Use: "start", Short: "Start it", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := l.start(command.Context(), &steps{progress: s.err}); err != nil {
				return err
			}

			_, err := fmt.Fprintf(s.out, "export KUBECONFIG=%s\n", l.kubeconfig())

			return err
		},
	}, &cobra.Command{
		Use: "stop", Short: "Stop it, and keep what is in it", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if l.pid() == 0 {
				_, err := fmt.Fprintln(s.out, "the local management cluster does not run")
				return err
			}

			return (&steps{
				progress: s.err,
			}).do("Stopping the local management cluster", func() error { return l.stop(command.Context(), false) })
		},
	})

	return command
}

// emptyConfig reports whether kubectl would find no cluster.
func emptyConfig(config clientcmd.ClientConfig) bool {
	_, err := config.ClientConfig()
	return clientcmd.IsEmptyConfig(err)
}
