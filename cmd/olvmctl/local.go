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
		Short: "Start, stop or inspect the local management cluster",
		Long: `Manage the local management cluster, which olvmctl start creates if there is no other management
cluster. It consists of etcd, kube-apiserver, Cluster API and this provider. They run as processes
on this machine, and listen on loopback. Their data in $XDG_STATE_HOME/capolvm survives restarts.

While it is stopped, the clusters that it manages keep running, but their machines are not
reconciled.`,
	}
	local := mgmtcluster.LocalOfUser()
	command.AddCommand(&cobra.Command{
		Use: "serve", Short: "Run the local management cluster in the foreground", Args: cobra.NoArgs, Hidden: true,
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
		Use: "start", Short: "Start the local management cluster", Args: cobra.NoArgs,
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
		Use: "stop", Short: "Stop the local management cluster, and keep its data", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if local.PID() == 0 {
				return output.printValue(s.out, outcome{Name: localName, Done: "unchanged"}, func() error {
					_, err := fmt.Fprintln(s.out, "the local management cluster is not running")
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
		Short: "Show the status of the local management cluster",
		Long: `Show whether the local management cluster is running, its clusters, its age, its versions and its
size. With -o name, the command prints its name, or nothing if it does not exist.

Exit codes: 0 on success; 1 if it has exited without being stopped, or on an error.`,
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
