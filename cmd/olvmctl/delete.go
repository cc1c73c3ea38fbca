package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/lifecycle"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/preview"
)

func newDeleteCommand(s streams) *cobra.Command {
	var management managementFlags
	var access accessFlags
	var file clusterFileFlags
	var to mgmtcluster.Options
	var yes bool
	var output outputFlag
	command := &cobra.Command{
		Use:   "delete CLUSTER | -f FILE",
		Short: "Delete a cluster and its VMs, and wait until they are gone",
		Long: `Delete the Cluster, and wait until its machines and their VMs are deleted. The command also removes
what start has created: the Secret with the credentials, the kubeconfig file, and an empty namespace.

A cluster that manages itself cannot delete itself. The command first moves its objects to the
management cluster of --to-kubeconfig, or to a temporary local management cluster. It does not
delete a cluster that also manages other clusters.

If start --bootstrap vm has not completed the cluster, the command also deletes the bootstrap VM.
This requires the credentials of the engine: set OLVM_USERNAME and OLVM_PASSWORD, or use
--credentials.

With -f, the name and the namespace come from the cluster file.

The command asks for confirmation. Without a terminal, use --yes.`,
		Example: `  olvmctl delete prod -n prod --kubeconfig management.kubeconfig
  olvmctl delete -f cluster.yaml
  olvmctl delete prod -n prod --kubeconfig ~/.kube/kubeconfig.prod --to-kubeconfig other.kubeconfig --yes`,
		ValidArgsFunction: management.completeClusters,
		RunE: func(command *cobra.Command, args []string) error {
			name, err := clusterToDelete(args, file, &management.Options)
			if err != nil {
				return err
			}

			options := lifecycle.DeleteOptions{
				Common: management.commonOptions(s),
				Name:   name,
				To:     to,
				Engine: func() (preview.Credentials, error) { return access.loadCredentials(file.path) },
				Confirm: func(question, word string) error {
					return confirmWord(command.Context(), s, yes, question, word)
				},
			}

			return deleteCluster(command.Context(), s, options, output)
		},
	}
	set := command.Flags()
	management.addFlags(command)
	output.addFlag(command, formatText)
	management.addProviderFlags(set)
	management.addDriverFlags(command)
	access.addFlags(set)
	set.StringVarP(&file.path, "filename", "f", "", "cluster file; replaces the argument CLUSTER")
	file.addDefaultsFlag(set)
	set.StringVar(&to.Context, "to-context", "", "context in --to-kubeconfig (default: its current context)")
	set.StringVar(&to.Kubeconfig, "to-kubeconfig", "",
		"kubeconfig of another management cluster, to delete a cluster that manages itself")
	set.BoolVarP(&yes, "yes", "y", false, "skip the confirmation")

	return command
}

// deleteCluster deletes a cluster, and prints the outcome if the output is for programs.
func deleteCluster(ctx context.Context, s streams, o lifecycle.DeleteOptions, output outputFlag) error {
	if o.To.Context != "" && o.To.Kubeconfig == "" {
		return errors.New("--to-context requires --to-kubeconfig")
	}

	if err := lifecycle.Delete(ctx, o); err != nil {
		return err
	}

	done := outcome{Namespace: o.Management.Namespace, Name: o.Name, Done: "deleted"}

	return output.printValue(s.out, done, func() error { return nil })
}

// clusterToDelete returns the name of the cluster from the argument or from a cluster file. The file also sets the
// namespace. Even an invalid file can name the cluster.
func clusterToDelete(args []string, file clusterFileFlags, management *mgmtcluster.Options) (string, error) {
	names, err := namesOf(args, clusterWords)

	switch {
	case err != nil:
		return "", err
	case len(names) > 1:
		return "", fmt.Errorf("delete takes one CLUSTER: unexpected argument %q", names[1])
	case len(names) == 1 && file.path == "":
		return names[0], nil
	case len(names) == 1:
		return "", errors.New("specify either the name of a cluster or a cluster file with -f, not both")
	case file.path == "":
		return "", errors.New("CLUSTER is missing: specify the name of a cluster, or a cluster file with -f")
	}

	source, err := clusterfile.Read(file.path, file.defaults)
	if err != nil {
		return "", err
	}

	namespace := source.Namespace()

	if source.Name == "" {
		return "", fmt.Errorf("%s: name: required", file.path)
	}

	given := managementFlags{Options: *management}
	if err := given.checkNamespace(file.path, namespace); err != nil {
		return "", err
	}

	management.Namespace = namespace

	return source.Name, nil
}
