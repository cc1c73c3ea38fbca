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
		Short: "Delete a cluster with its VMs, and wait until all is gone",
		Long: `delete deletes the Cluster, waits until Cluster API has deleted all machines and the
engine their VMs, and removes what start has made beside them: the Secret with the credentials, the
namespace if nothing else is in it, and the file with the kubeconfig.

A cluster that manages itself cannot delete itself: its objects are moved to the management cluster
of --to-kubeconfig first, or to one that runs as processes of this machine for as long as that
takes. One that manages other clusters, too, is not deleted.

A cluster that start --bootstrap vm has not completed goes with its bootstrap VM, for which the
credentials of the engine are needed: OLVM_USERNAME and OLVM_PASSWORD, or --credentials.

With -f the name and the namespace are those of the cluster file.

It asks before; --yes answers, and is needed where there is no terminal.`,
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
	set.StringVarP(&file.path, "filename", "f", "", "cluster file, in place of the name")
	file.addDefaultsFlag(set)
	set.StringVar(&to.Context, "to-context", "", "context of --to-kubeconfig; empty means its current one")
	set.StringVar(&to.Kubeconfig, "to-kubeconfig", "",
		"kubeconfig of the management cluster that deletes a cluster that manages itself")
	set.BoolVarP(&yes, "yes", "y", false, "do not ask")

	return command
}

// deleteCluster deletes a cluster, and prints the outcome if the output is for programs.
func deleteCluster(ctx context.Context, s streams, o lifecycle.DeleteOptions, output outputFlag) error {
	if o.To.Context != "" && o.To.Kubeconfig == "" {
		return errors.New("--to-context: name its file with --to-kubeconfig")
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
		return "", fmt.Errorf("delete takes one CLUSTER, and %q is one more", names[1])
	case len(names) == 1 && file.path == "":
		return names[0], nil
	case len(names) == 1:
		return "", errors.New("give the name of a cluster or a cluster file with -f, not both")
	case file.path == "":
		return "", errors.New("give the name of a cluster, or a cluster file with -f")
	}

	source, err := clusterfile.Read(file.path, file.defaults)
	if err != nil {
		return "", err
	}

	namespace := source.Namespace()

	if source.Name == "" {
		return "", fmt.Errorf("%s: name: it is needed", file.path)
	}

	given := managementFlags{Options: *management}
	if err := given.checkNamespace(file.path, namespace); err != nil {
		return "", err
	}

	management.Namespace = namespace

	return source.Name, nil
}
