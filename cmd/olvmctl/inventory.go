package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

func newInventoryCommand(s streams) *cobra.Command {
	var management managementFlags
	var all bool
	var output outputFlag
	command := &cobra.Command{
		Use:   "inventory [NAME]",
		Short: "List the pools of VMs that clusters claim machines from, or the VMs of one",
		Args:  atMostOne("NAME", "the name of an inventory"),
		RunE: func(command *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}

			return listInventories(command.Context(), s, management.Options, name, all, output)
		},
	}
	set := command.Flags()
	management.addFlags(command)
	set.BoolVarP(&all, "all-namespaces", "A", false, "the inventories of all namespaces")
	output.addFlag(command, formatTable)

	return command
}

func listInventories(
	ctx context.Context, s streams, management mgmtcluster.Options, name string, all bool, output outputFlag,
) error {
	in, err := mgmtcluster.ConnectInstalled(ctx, management)
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
