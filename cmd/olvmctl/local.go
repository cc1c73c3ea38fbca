package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/lifecycle"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/shellword"
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
	}, newLocalStartCommand(s, local), newLocalStopCommand(s, local), newLocalStatusCommand(s, local))

	return command
}

func newLocalStartCommand(s streams, local mgmtcluster.Local) *cobra.Command {
	var output outputFlag
	command := &cobra.Command{
		Use: "start", Short: "Start it", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := lifecycle.StartLocal(command.Context(), progress.NewDisplay(s.err)); err != nil {
				return err
			}

			if output.isForPeople() {
				_, err := fmt.Fprintf(s.out, "export KUBECONFIG=%s\n", shellword.QuoteWord(local.Kubeconfig()))
				return err
			}

			return showLocalStatus(command.Context(), s, local, output)
		},
	}
	output.addFlag(command, formatText, formatName)

	return command
}

func newLocalStopCommand(s streams, local mgmtcluster.Local) *cobra.Command {
	var output outputFlag
	command := &cobra.Command{
		Use: "stop", Short: "Stop it, and keep what is in it", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if local.PID() == 0 {
				return output.printValue(s.out, outcome{Name: localName, Done: "unchanged"}, func() error {
					_, err := fmt.Fprintln(s.out, "the local management cluster does not run")
					return err
				})
			}

			err := progress.NewDisplay(s.err).RunStep("Stopping the local management cluster", func() error {
				return local.Stop(command.Context())
			})
			if err != nil {
				return err
			}

			return output.printValue(s.out, outcome{Name: localName, Done: "stopped"}, func() error { return nil })
		},
	}
	output.addFlag(command, formatText)

	return command
}

// localName is the name of the local management cluster in outputs.
const localName = "local"

func newLocalStatusCommand(s streams, local mgmtcluster.Local) *cobra.Command {
	var output outputFlag
	command := &cobra.Command{
		Use:   "status",
		Short: "Say whether it runs, what is in it, its age, versions and sizes",
		Long: `status says whether the local management cluster runs, what is in it, its age, versions and sizes.
With -o name it prints its name if there is one.

Exit codes: 0; 1 if it has ended although nobody stopped it, or an error.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return showLocalStatus(command.Context(), s, local, output)
		},
	}
	output.addFlag(command, formatText, formatName)

	return command
}

// showLocalStatus writes the status in the requested format. If the cluster has ended without being stopped,
// showLocalStatus returns an error.
func showLocalStatus(ctx context.Context, s streams, local mgmtcluster.Local, output outputFlag) error {
	status, err := local.FetchStatus(ctx)
	if err != nil {
		return err
	}

	ended := status.State == mgmtcluster.LocalEnded

	switch {
	case output.isForPeople() && ended:
		return errors.New(status.Text(time.Now()))
	case output.isForPeople():
		_, err := fmt.Fprintln(s.out, status.Text(time.Now()))
		return err
	case output.format == formatName && status.State == mgmtcluster.LocalAbsent:
		return nil
	case output.format == formatName:
		_, err := fmt.Fprintln(s.out, localName)
		return err
	}

	if err := encodeValue(s.out, output.format, &status); err != nil {
		return err
	}

	if ended {
		return errUnwell
	}

	return nil
}
