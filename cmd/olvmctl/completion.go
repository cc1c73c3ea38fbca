package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

// completionLimit limits a shell's wait for names.
const completionLimit = 3 * time.Second

// completeClusters returns names of clusters for the first argument.
func (f *managementFlags) completeClusters(
	command *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	return f.completeNames(command, args, 1, &clusterv1.ClusterList{}, clusterWords)
}

// completeMachines returns names of Machines for the first argument.
func (f *managementFlags) completeMachines(
	command *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	return f.completeNames(command, args, 1, &clusterv1.MachineList{}, machineWords)
}

// completeManyClusters returns names of clusters for every argument.
func (f *managementFlags) completeManyClusters(
	command *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	return f.completeNames(command, args, len(args)+1, &clusterv1.ClusterList{}, nil)
}

// completeManyMachines returns names of Machines for every argument.
func (f *managementFlags) completeManyMachines(
	command *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	return f.completeNames(command, args, len(args)+1, &clusterv1.MachineList{}, nil)
}

// completeInventories returns names of inventories for one argument.
func (f *managementFlags) completeInventories(
	command *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	return f.completeNames(command, args, 1, &infrav1alpha1.OLVMInventoryList{}, nil)
}

// completeNames returns unused names of objects in the namespace, for at most most arguments. words may precede the
// name.
func (f *managementFlags) completeNames(
	command *cobra.Command, args []string, most int, list client.ObjectList, words []string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && slices.Contains(words, args[0]) {
		args = args[1:]
	}

	if len(args) >= most {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	names := f.askForNames(command, list, true)

	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }),
		cobra.ShellCompDirectiveNoFileComp
}

// completeNamespaces returns names of namespaces.
func (f *managementFlags) completeNamespaces(command *cobra.Command) []string {
	return f.askForNames(command, &corev1.NamespaceList{}, false)
}

// completeContexts returns the contexts of the kubeconfig.
func (f *managementFlags) completeContexts(*cobra.Command) []string {
	names, err := f.ContextNames()
	if err != nil {
		return nil
	}

	return names
}

// askForNames asks the management cluster for names of objects. It returns none after an error, because a shell cannot
// show it.
func (f *managementFlags) askForNames(command *cobra.Command, list client.ObjectList, namespaced bool) []string {
	in, err := mgmtcluster.Connect(f.Options)
	if err != nil {
		return nil
	}

	ctx, cancel := context.WithTimeout(command.Context(), completionLimit)
	defer cancel()

	var of []client.ListOption
	if namespaced {
		of = append(of, client.InNamespace(in.Namespace))
	}

	names, err := in.ListNames(ctx, list, of...)
	if err != nil {
		return nil
	}

	return names
}

// registerCompletion registers a shell completion for the value of a flag.
func registerCompletion(command *cobra.Command, flag string, values func(*cobra.Command) []string) {
	_ = command.RegisterFlagCompletionFunc(
		flag,
		func(command *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return values(command), cobra.ShellCompDirectiveNoFileComp
		},
	)
}
