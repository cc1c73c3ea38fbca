package main

import (
	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/lifecycle"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

func newMoveCommand(s streams) *cobra.Command {
	var from managementFlags
	var to mgmtcluster.Options
	var output outputFlag
	command := &cobra.Command{
		Use:   "move --to-kubeconfig FILE",
		Short: "Move the clusters of a namespace to another management cluster",
		Long: `Move all clusters of a namespace to another management cluster, with their Terraform states and
credentials. If Cluster API or its providers are missing there, the command installs them. It does
not create, restart or delete any VM. To resume an interrupted move, run the command again.

To make a cluster manage itself, move it to its own kubeconfig.`,
		Example: `  olvmctl move -n prod --to-kubeconfig other.kubeconfig
  olvmctl get kubeconfig prod -n prod >prod.kubeconfig && olvmctl move -n prod --to-kubeconfig prod.kubeconfig`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			err := lifecycle.Move(command.Context(), lifecycle.MoveOptions{Common: from.commonOptions(s), To: to})
			if err != nil {
				return err
			}

			done := outcome{Namespace: from.Namespace, Done: "moved"}

			return output.printValue(s.out, done, func() error { return nil })
		},
	}
	set := command.Flags()
	from.addFlags(command)
	output.addFlag(command, formatText)
	from.addProviderFlags(set)
	set.StringVar(&to.Context, "to-context", "", "context in --to-kubeconfig (default: its current context)")
	set.StringVar(&to.Kubeconfig, "to-kubeconfig", "", "kubeconfig of the target management cluster")
	_ = command.MarkFlagRequired("to-kubeconfig")

	return command
}
