package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/lifecycle"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
)

func newLocalCommand(s streams) *cobra.Command {
	command := &cobra.Command{
		Use:   "local",
		Short: "Look after the management cluster that runs as processes of this machine",
		Long: `local is about the management cluster that start makes where there is none: etcd,
kube-apiserver, Cluster API and this provider, as processes of this machine that listen on loopback.
What is in it is kept in $XDG_STATE_HOME/capolvm over restarts.

Clusters that it manages run without it, but nothing looks after their machines while it is stopped.`,
	}
	local := mgmtcluster.LocalOfUser()
	command.AddCommand(&cobra.Command{
		Use: "serve", Short: "Run it in the foreground", Args: cobra.NoArgs, Hidden: true,
		RunE: func(command *cobra.Command, _ []string) error {
			return local.Serve(command.Context(), []string{managerCommand}, func(format string, args ...any) {
				_, _ = fmt.Fprintf(s.out, format+"\n", args...)
			})
		},
	}, &cobra.Command{
		Use: "start", Short: "Start it", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := lifecycle.StartLocal(command.Context(), progress.To(s.err)); err != nil {
				return err
			}

			_, err := fmt.Fprintf(s.out, "export KUBECONFIG=%s\n", local.Kubeconfig())

			return err
		},
	}, &cobra.Command{
		Use: "stop", Short: "Stop it, and keep what is in it", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if local.PID() == 0 {
				_, err := fmt.Fprintln(s.out, "the local management cluster does not run")
				return err
			}

			return progress.To(s.err).Step("Stopping the local management cluster", func() error {
				return local.Stop(command.Context())
			})
		},
	}, &cobra.Command{
		Use: "status", Short: "Say whether it runs, what is in it, its age, versions and sizes", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return printLocalStatus(command.Context(), s, local)
		},
	})

	return command
}

func printLocalStatus(ctx context.Context, s streams, local mgmtcluster.Local) error {
	var err error

	switch {
	case !local.Exists():
		_, err = fmt.Fprintln(s.out, "there is no local management cluster; olvmctl local start makes one")
	case local.PID() != 0 && !local.Runs():
		_, err = fmt.Fprintf(s.out, "the local management cluster starts or stops, as process %d; see %s\n",
			local.PID(), local.LogFile())
	case local.Died() != nil:
		err = fmt.Errorf("the local management cluster %s\nolvmctl local start starts it again, with all that is in it",
			local.Died())
	case !local.Runs():
		_, err = fmt.Fprintln(s.out, "the local management cluster is stopped; olvmctl local start starts it")
	default:
		uses, failed := local.CountUses(ctx)
		if failed != nil {
			return failed
		}

		lines, failed := local.Status(ctx, time.Now())
		if failed != nil {
			return failed
		}

		_, err = fmt.Fprintf(s.out, "the local management cluster runs, as process %d, with %s\n  %s\n"+
			"  export KUBECONFIG=%s\n", local.PID(), uses, strings.Join(lines, "\n  "), local.Kubeconfig())
	}

	return err
}
