package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clustertree"
	"github.com/capolvm/cluster-api-provider-olvm/internal/mgmtcluster"
)

func newGetCommand(s streams) *cobra.Command {
	command := &cobra.Command{Use: "get", Short: "Get clusters, or the kubeconfig of one"}
	command.AddCommand(newGetKubeconfigCommand(s), newGetClustersCommand(s))

	return command
}

func newGetKubeconfigCommand(s streams) *cobra.Command {
	var management managementFlags
	command := &cobra.Command{
		Use:               "kubeconfig CLUSTER",
		Short:             "Print the kubeconfig of a cluster",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: management.completeClusters,
		RunE: func(command *cobra.Command, args []string) error {
			return getKubeconfig(command.Context(), s, management.Options, args[0])
		},
	}
	management.addFlags(command.Flags())

	return command
}

func getKubeconfig(ctx context.Context, s streams, management mgmtcluster.Options, name string) error {
	in, err := mgmtcluster.Connect(management)
	if err != nil {
		return err
	}

	if _, err := in.GetCluster(ctx, name); err != nil {
		return err
	}

	content, err := kubeconfig.FromSecret(ctx, in.Client, client.ObjectKey{Namespace: in.Namespace, Name: name})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("cluster %[1]s has no kubeconfig yet; its control plane is not initialised "+
			"(olvmctl describe %[1]s)", name)
	} else if err != nil {
		return fmt.Errorf("failed to get the kubeconfig: %w", err)
	}

	_, err = s.out.Write(content)

	return err
}

func newGetClustersCommand(s streams) *cobra.Command {
	var management managementFlags
	var all bool
	var output string
	command := &cobra.Command{
		Use:   "clusters",
		Short: "List the clusters of a management cluster",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkOutput(output, "table", "json", "yaml"); err != nil {
				return err
			}

			return getClusters(command.Context(), s, management.Options, all, output)
		},
	}
	set := command.Flags()
	management.addFlags(set)
	set.BoolVarP(&all, "all-namespaces", "A", false, "the clusters of all namespaces")
	set.StringVarP(&output, "output", "o", "table", "output: table, json or yaml")

	return command
}

func getClusters(ctx context.Context, s streams, management mgmtcluster.Options, all bool, output string) error {
	in, err := mgmtcluster.Connect(management)
	if err != nil {
		return err
	}

	list, err := clustertree.List(ctx, in.Client, namespaceOf(in, all))
	if err != nil {
		return err
	}

	return printList(s, "clusters", namespaceOf(in, all), output, list, func(list []clustertree.Overview) error {
		return clustertree.PrintList(s.out, list, time.Now())
	})
}

// namespaceOf is the namespace of which a command lists objects; empty for all of them.
func namespaceOf(in *mgmtcluster.Cluster, all bool) string {
	if all {
		return ""
	}

	return in.Namespace
}

// printList writes a list as it was asked for, or that a namespace has none. table writes it for people.
func printList[T any](s streams, what, namespace, output string, list []T, table func([]T) error) error {
	switch {
	case output != "table":
		return encode(s.out, output, list)
	case len(list) == 0 && namespace != "":
		_, err := fmt.Fprintf(s.err, "there are no %s in namespace %s; -A lists those of all\n", what, namespace)
		return err
	}

	return table(list)
}
