package main

import (
	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/lifecycle"
	"github.com/capolvm/cluster-api-provider-olvm/internal/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/preview"
)

func newTemplateCommand(s streams) *cobra.Command {
	var file clusterFileFlags
	var kubeconfig string
	command := &cobra.Command{
		Use:   "template -f FILE",
		Short: "Print the manifests that a cluster file asks for",
		Long: `template checks a cluster file as validate does, and prints the Cluster API
manifests that it asks for, in the shape of a flavor of config/templates. Variables of the flavor
that the file says nothing about come from the environment. On OCI, the cloud is asked for the
OCIDs of the compartment and of images.

The Secret with the credentials of the engine is not among the manifests, so that they can be kept in git.

OLVMMachineTemplates cannot be changed. With --kubeconfig, a template that differs from the one that runs has the
next name, and its machines are rolled out when the manifests are applied, as olvmctl upgrade does it. Without it,
templates have their first names, and the API server refuses a change of one.`,
		Example: `  olvmctl template -f cluster.yaml >manifests/prod.yaml
  olvmctl template -f cluster.yaml --flavor default | kubectl apply -f -
  olvmctl template -f cluster.yaml --kubeconfig management.kubeconfig | kubectl apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			cluster, err := file.load(s.err)
			if err != nil {
				return err
			}

			provider, err := lifecycle.NewProvider(cluster.ProviderName(), lifecycle.ProviderOptions{})
			if err != nil {
				return err
			}

			objects, err := lifecycle.Template(command.Context(), cluster, provider)
			if err != nil {
				return err
			}

			if kubeconfig != "" {
				live, err := mgmtcluster.Connect(mgmtcluster.Options{Kubeconfig: kubeconfig})
				if err != nil {
					return err
				}

				if objects, err = preview.FollowGenerations(command.Context(), objects, live); err != nil {
					return err
				}
			}

			return manifest.Write(s.out, objects)
		},
	}
	file.addFlags(command)
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "",
		"kubeconfig of the management cluster to which the manifests will be applied, for the names of its templates")

	return command
}
