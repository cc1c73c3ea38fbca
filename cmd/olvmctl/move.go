package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newMoveCommand(s streams) *cobra.Command {
	from := management{}
	to := management{}
	command := &cobra.Command{
		Use:   "move --to-kubeconfig FILE",
		Short: "Move the clusters of a namespace to another management cluster",
		Long: `move installs Cluster API and its providers into the other management cluster, where
they are missing, and moves all clusters of the namespace there, with their Terraform states and
credentials. The engine notices nothing: no VM is made, restarted or deleted. A move that was
interrupted goes on when it is started again.

To make a cluster manage itself, move it to its own kubeconfig.`,
		Example: `  olvmctl move -n prod --to-kubeconfig other.kubeconfig
  olvmctl get kubeconfig prod -n prod >prod.kubeconfig && olvmctl move -n prod --to-kubeconfig prod.kubeconfig`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := from.connect(); err != nil {
				return err
			}

			to.namespace = from.namespace
			if err := to.connect(); err != nil {
				return fmt.Errorf("--to-kubeconfig: %w", err)
			}

			return from.move(command.Context(), &steps{progress: s.err}, &to)
		},
	}
	from.addFlags(command)
	from.addProviderFlags(command)
	command.Flags().StringVar(&to.kubeconfig, "to-kubeconfig", "", "kubeconfig of the management cluster to move to")
	_ = command.MarkFlagRequired("to-kubeconfig")

	return command
}
