package main

import (
	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/lifecycle"
	"github.com/capolvm/cluster-api-provider-olvm/internal/mgmtcluster"
)

func newDeleteCommand(s streams) *cobra.Command {
	var management managementFlags
	var to mgmtcluster.Options
	var yes bool
	command := &cobra.Command{
		Use:   "delete CLUSTER",
		Short: "Delete a cluster with its VMs, and wait until all is gone",
		Long: `delete deletes the Cluster, waits until Cluster API has deleted all machines and the
engine their VMs, and removes what start has made beside them: the Secret with the credentials, the
namespace if nothing else is in it, and the file with the kubeconfig.

A cluster that manages itself cannot delete itself: its objects are moved to the management cluster
of --to-kubeconfig first, or to one that runs as processes of this machine for as long as that
takes. One that manages other clusters, too, is not deleted.

It asks before; --yes answers, and is needed where there is no terminal.`,
		Example: `  olvmctl delete prod -n prod --kubeconfig management.kubeconfig
  olvmctl delete prod -n prod --kubeconfig ~/.kube/kubeconfig.prod --to-kubeconfig other.kubeconfig --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return lifecycle.Delete(command.Context(), lifecycle.DeleteOptions{
				Common:  management.common(s),
				Name:    args[0],
				To:      to,
				Confirm: func(question, word string) error { return confirm(s, yes, question, word) },
			})
		},
	}
	set := command.Flags()
	management.addFlags(set)
	management.addProviderFlags(set)
	management.addDriverFlags(set)
	set.StringVar(&to.Kubeconfig, "to-kubeconfig", "",
		"kubeconfig of the management cluster that deletes a cluster that manages itself")
	set.BoolVarP(&yes, "yes", "y", false, "do not ask")

	return command
}
