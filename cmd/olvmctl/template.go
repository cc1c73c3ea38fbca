package main

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/lifecycle"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
)

func newTemplateCommand(s streams) *cobra.Command {
	var file clusterFileFlags
	var management managementFlags
	var output outputFlag
	command := &cobra.Command{
		Use:   "template FILE",
		Short: "Print the manifests of a cluster file",
		Long: `Validate a cluster file, and print its Cluster API manifests. A flavor in config/templates defines
their structure. Variables of the flavor that are not in the cluster file come from the environment.
On OCI, the command gets the OCIDs of the compartment and of images from the cloud.

The manifests do not include the Secret with the credentials of the engine, so that you can keep
them in git.

OLVMMachineTemplates are immutable. With --kubeconfig, a template that differs from the one in the
management cluster gets a new name, and applying the manifests rolls out its machines, as with
olvmctl upgrade. Without --kubeconfig, templates have their first names, and the API server rejects
a changed template.`,
		Example: `  olvmctl template cluster.yaml >manifests/prod.yaml
  olvmctl template cluster.yaml --flavor default | kubectl apply -f -
  olvmctl template --provider oci
  olvmctl template cluster.yaml --kubeconfig management.kubeconfig | kubectl apply -f -`,
		RunE: func(command *cobra.Command, _ []string) error {
			return printTemplate(command.Context(), s, file, management, output)
		},
	}
	file.addFlags(command)
	file.addProviderFlag(command)
	management.addFlags(command)
	command.Flags().Lookup("kubeconfig").Usage =
		"kubeconfig of the management cluster that determines the names of changed templates"
	output.addFlag(command, formatYAML)

	return command
}

// printTemplate prints the manifests of a cluster file. It uses the template names that the management cluster expects.
func printTemplate(
	ctx context.Context, s streams, file clusterFileFlags, management managementFlags, output outputFlag,
) error {
	cluster, err := file.loadClusterFile(s.err)
	if err != nil {
		return err
	}

	if err := management.checkNamespace(file.path, cluster.Namespace()); err != nil {
		return err
	}

	provider, err := lifecycle.NewProvider(cluster.ProviderName(), lifecycle.ProviderOptions{})
	if err != nil {
		return err
	}

	objects, err := lifecycle.RenderManifests(ctx, cluster, provider)
	if err != nil {
		return err
	}

	if management.isGiven() {
		live, err := mgmtcluster.ConnectInstalled(ctx, management.Options)
		if err != nil {
			return err
		}

		if objects, err = planinput.FollowGenerations(ctx, objects, live); err != nil {
			return err
		}
	}

	if !output.isForPeople() {
		return encodeValue(s.out, output.format, listOf(objects))
	}

	return manifest.Write(s.out, objects)
}

// listOf returns objects in a List, as kubectl does.
func listOf(objects []*unstructured.Unstructured) map[string]any {
	items := make([]any, len(objects))
	for i, object := range objects {
		items[i] = object.Object
	}

	return map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
}
