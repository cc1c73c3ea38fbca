package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/mgmtcluster"
)

func newInventoryCommand(s streams) *cobra.Command {
	var management managementFlags
	var all bool
	var output string
	command := &cobra.Command{
		Use:   "inventory [NAME]",
		Short: "List the pools of VMs that clusters claim machines from, or the VMs of one",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := checkOutput(output, "table", "json", "yaml"); err != nil {
				return err
			}

			name := ""
			if len(args) > 0 {
				name = args[0]
			}

			return listInventories(command.Context(), s, management.Options, name, all, output)
		},
	}
	set := command.Flags()
	management.addFlags(set)
	set.BoolVarP(&all, "all-namespaces", "A", false, "the inventories of all namespaces")
	set.StringVarP(&output, "output", "o", "table", "output: table, json or yaml")

	return command
}

func listInventories(
	ctx context.Context, s streams, management mgmtcluster.Options, name string, all bool, output string,
) error {
	in, err := mgmtcluster.Connect(management)
	if err != nil {
		return err
	}

	list, err := inventory.List(ctx, in.Client, namespaceOf(in, all), name)
	if err != nil {
		return err
	}

	return printList(s, "inventories", namespaceOf(in, all), output, list, func(list []inventory.Overview) error {
		return inventory.Print(s.out, list, name != "")
	})
}
