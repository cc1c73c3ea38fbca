package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clustertree"
	"github.com/capolvm/cluster-api-provider-olvm/internal/mgmtcluster"
)

// completionLimit is how long a shell waits for names.
const completionLimit = 3 * time.Second

// completeClusters are the names of clusters, for a shell.
func (f *managementFlags) completeClusters(
	command *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	return f.complete(command, args, func(ctx context.Context, in *mgmtcluster.Cluster) ([]string, error) {
		list, err := clustertree.List(ctx, in.Client, in.Namespace)

		var names []string
		for _, c := range list {
			names = append(names, c.Name)
		}

		return names, err
	})
}

// completeMachines are the names of Machines, for a shell.
func (f *managementFlags) completeMachines(
	command *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	return f.complete(command, args, func(ctx context.Context, in *mgmtcluster.Cluster) ([]string, error) {
		var list clusterv1.MachineList
		err := in.List(ctx, &list, client.InNamespace(in.Namespace))

		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}

		return names, err
	})
}

// complete asks the management cluster for the names of the first argument. Errors complete nothing: a shell has no
// place for them.
func (f *managementFlags) complete(
	command *cobra.Command, args []string, names func(context.Context, *mgmtcluster.Cluster) ([]string, error),
) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	in, err := mgmtcluster.Connect(f.Options)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}

	ctx, cancel := context.WithTimeout(command.Context(), completionLimit)
	defer cancel()

	found, err := names(ctx, in)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}

	return found, cobra.ShellCompDirectiveNoFileComp
}
