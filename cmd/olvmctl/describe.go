package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/mgmtcluster"
)

func newDescribeCommand(s streams) *cobra.Command {
	var management managementFlags
	var output string
	command := &cobra.Command{
		Use:               "describe CLUSTER",
		Short:             "Show a cluster with its machines, their VMs and Terraform runs",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: management.completeClusters,
		RunE: func(command *cobra.Command, args []string) error {
			if err := checkOutput(output, "table", "json", "yaml"); err != nil {
				return err
			}

			return describe(command.Context(), s, management.Options, args[0], output)
		},
	}
	management.addFlags(command.Flags())
	command.Flags().StringVarP(&output, "output", "o", "table", "output: table (a tree), json or yaml")

	return command
}

// describe prints the tree of a cluster.
func describe(ctx context.Context, s streams, management mgmtcluster.Options, name, output string) error {
	in, err := mgmtcluster.Connect(management)
	if err != nil {
		return err
	}

	tree, err := in.Describe(ctx, name)
	if err != nil {
		return err
	}

	if output != "table" {
		return encode(s.out, output, tree)
	}

	return tree.Print(s.out)
}
