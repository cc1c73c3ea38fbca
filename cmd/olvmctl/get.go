package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/mgmtcluster"
)

func newGetCommand(s streams) *cobra.Command {
	command := &cobra.Command{Use: "get", Short: "Get something of a cluster"}
	var management managementFlags
	get := &cobra.Command{
		Use:   "kubeconfig CLUSTER",
		Short: "Print the kubeconfig of a cluster",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return getKubeconfig(command.Context(), s, management.Options, args[0])
		},
	}
	management.addFlags(get.Flags())
	command.AddCommand(get)

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
