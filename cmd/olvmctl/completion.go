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

// completionLimit bounds the time a shell waits for names.
const completionLimit = 3 * time.Second

// completeClusters completes the first argument with the names of clusters.
func (f *managementFlags) completeClusters(
	command *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	return f.completeNames(command, args, 1, &clusterv1.ClusterList{}, clusterWords)
}

// completeMachines completes the first argument with the names of Machines.
func (f *managementFlags) completeMachines(
	command *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	return f.completeNames(command, args, 1, &clusterv1.MachineList{}, machineWords)
}

// completeManyClusters completes every argument with the names of clusters.
func (f *managementFlags) completeManyClusters(
	command *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	return f.completeNames(command, args, len(args)+1, &clusterv1.ClusterList{}, nil)
}

// completeManyMachines completes every argument with the names of Machines.
func (f *managementFlags) completeManyMachines(
	command *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	return f.completeNames(command, args, len(args)+1, &clusterv1.MachineList{}, nil)
}

// completeInventories completes one argument with the names of inventories.
func (f *managementFlags) completeInventories(
	command *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	return f.completeNames(command, args, 1, &infrav1alpha1.OLVMInventoryList{}, nil)
}

// completeNames completes up to most arguments with names of objects in the namespace, except those already given.
// words may precede the name.
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

// completeNamespaces returns the names of all namespaces.
func (f *managementFlags) completeNamespaces(command *cobra.Command) []string {
	return f.askForNames(command, &corev1.NamespaceList{}, false)
}

// completeContexts returns the contexts in the kubeconfig.
func (f *managementFlags) completeContexts(*cobra.Command) []string {
	names, err := f.ContextNames()
	if err != nil {
		return nil
	}

	return names
}

// askForNames fetches the names of objects from the management cluster. After an error it returns no names, because a
// shell cannot show errors.
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

// registerCompletion registers the shell completion for the values of a flag.
func registerCompletion(command *cobra.Command, flag string, values func(*cobra.Command) []string) {
	_ = command.RegisterFlagCompletionFunc(
		flag,
		func(command *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return values(command), cobra.ShellCompDirectiveNoFileComp
		},
	)
}
