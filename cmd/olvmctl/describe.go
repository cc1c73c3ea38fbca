package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

func newDescribeCommand(s streams) *cobra.Command {
	var management managementFlags
	var output outputFlag
	command := &cobra.Command{
		Use:               "describe CLUSTER",
		Short:             "Show a cluster with its machines, their VMs and Terraform runs",
		Args:              requireName("CLUSTER", "the name of a cluster", clusterWords),
		ValidArgsFunction: management.completeClusters,
		RunE: func(command *cobra.Command, args []string) error {
			return printTree(command.Context(), s, management.Options, nameOf(args, clusterWords), output)
		},
	}
	management.addFlags(command)
	output.addFlag(command, formatTable)

	return command
}

// printTree prints the tree of a cluster.
func printTree(ctx context.Context, s streams, management mgmtcluster.Options, name string, output outputFlag) error {
	in, err := mgmtcluster.ConnectInstalled(ctx, management)
	if err != nil {
		return err
	}

	tree, err := in.Describe(ctx, name)
	if err != nil {
		return err
	}

	warnOfManager(ctx, s, in)

	show := tree.Print
	if isColored(s.out) {
		show = tree.PrintColored
	}

	return output.printValue(s.out, tree, func() error { return show(s.out) })
}
