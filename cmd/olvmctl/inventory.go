package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clustertree"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

func newInventoryCommand(s streams) *cobra.Command {
	var management managementFlags
	var all bool
	var output outputFlag
	command := &cobra.Command{
		Use:               "inventory [NAME]",
		Short:             "List the inventories of existing VMs, or the VMs of one inventory",
		Args:              atMostOne("NAME", "the name of an inventory"),
		ValidArgsFunction: management.completeInventories,
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
	set.BoolVarP(&all, "all-namespaces", "A", false, "list the inventories in all namespaces")
	output.addFlag(command, formatTable, formatWide, formatName)

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

	return printInventories(s, output, list, namespaceOf(in, all), name, all)
}

// printInventories writes a list of inventories in the requested format. If the user has named an inventory, it writes
// the VMs of this inventory.
func printInventories(
	s streams, output outputFlag, list []inventory.Overview, namespace, name string, all bool,
) error {
	if output.format == formatName {
		return printNames(s.out, inventoryTable(list))
	}

	return printList(s, "inventories", namespace, output, list, func(list []inventory.Overview) error {
		printer := printers.NewTablePrinter(printers.PrintOptions{WithNamespace: all})
		if err := printer.PrintObj(inventoryTable(list), s.out); err != nil || name == "" || len(list[0].VMs) == 0 {
			return err
		}

		_, _ = fmt.Fprintln(s.out)

		return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(vmTable(list[0]), s.out)
	})
}

// inventoryTable converts a list to a table for kubectl's printers.
func inventoryTable(list []inventory.Overview) *metav1.Table {
	out := clustertree.NewTable("Name", "Total", "Available", "Claimed", "Recycling", "Ineligible", "Problem")

	for i := range list {
		o := &list[i]
		clustertree.AddRow(out, inventoryKind, o.Namespace, o.Name, nil, o.Name, o.Total, o.Available, o.Claimed,
			o.Recycling, o.Ineligible, clustertree.OneLine(o.Problem))
	}

	return out
}

// vmTable returns a table of the VMs in an inventory.
func vmTable(of inventory.Overview) *metav1.Table {
	out := clustertree.NewTable("VM", "Phase", "Cluster", "Machine", "VMStatus", "Host", "Addresses", "Why")

	for _, vm := range of.VMs {
		clustertree.AddRow(out, inventoryVMKind, of.Namespace, vm.Name, nil, vm.Name, vm.Phase, vm.Cluster, vm.Machine,
			vm.VMStatus, vm.HostName, vm.AddressList(), clustertree.OneLine(vm.PhaseProblem()))
	}

	return out
}

// These are the kinds of the listed objects for kubectl's printers.
var (
	inventoryKind   = infrav1alpha1.GroupVersion.WithKind("OLVMInventory")
	inventoryVMKind = infrav1alpha1.GroupVersion.WithKind("OLVMInventoryVM")
)
