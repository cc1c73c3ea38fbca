package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clustertree"
)

func newDescribeCommand(s streams) *cobra.Command {
	var m management
	var output string
	command := &cobra.Command{
		Use:   "describe CLUSTER",
		Short: "Show a cluster with its machines, their VMs and Terraform runs",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := checkOutput(output, "table", "json", "yaml"); err != nil {
				return err
			}

			if err := m.connect(); err != nil {
				return err
			}

			tree, err := m.describe(command.Context(), args[0])
			if err != nil {
				return err
			}

			return printTree(s.out, output, tree)
		},
	}
	m.addFlags(command)
	command.Flags().StringVarP(&output, "output", "o", "table", "output: table (a tree), json or yaml")

	return command
}

// describe discovers the tree of a cluster.
func (m *management) describe(ctx context.Context, name string) (*clustertree.Node, error) {
	cluster, err := m.cluster(ctx, name)
	if err != nil {
		return nil, err
	}

	return clustertree.Discover(ctx, m.Client, cluster)
}

func printTree(out io.Writer, output string, tree *clustertree.Node) error {
	if output != "table" {
		return encode(out, output, tree)
	}

	return tree.Print(out)
}

func newGetCommand(s streams) *cobra.Command {
	command := &cobra.Command{Use: "get", Short: "Get something of a cluster"}
	var m management
	get := &cobra.Command{
		Use:   "kubeconfig CLUSTER",
		Short: "Print the kubeconfig of a cluster",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := m.connect(); err != nil {
				return err
			}

			if _, err := m.cluster(command.Context(), args[0]); err != nil {
				return err
			}

			content, err := kubeconfig.FromSecret(command.Context(), m.Client, client.ObjectKey{
				Namespace: m.namespace,
				Name:      args[0],
			})
			if apierrors.IsNotFound(err) {
				return fmt.Errorf(
					"cluster %s has no kubeconfig yet; its control plane is not initialised (olvmctl describe %s)",
					args[0],
					args[0],
				)
			} else if err != nil {
				return fmt.Errorf("failed to get the kubeconfig: %w", err)
			}

			_, err = s.out.Write(content)

			return err
		},
	}
	m.addFlags(get)
	command.AddCommand(get)

	return command
}
