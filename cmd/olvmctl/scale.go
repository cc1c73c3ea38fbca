package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/lifecycle"
)

func newScaleCommand(s streams) *cobra.Command {
	var management managementFlags
	var o lifecycle.ScaleOptions
	var controlPlane, workers int32
	command := &cobra.Command{
		Use:   "scale CLUSTER [--control-plane N] [--workers N]",
		Short: "Change the number of machines of a cluster",
		Long: `scale writes replicas of the KubeadmControlPlane and of a MachineDeployment, or of
the topology of a Cluster with a ClusterClass. It does not wait; see olvmctl describe.`,
		Example:           "  olvmctl scale prod --workers 5",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: management.completeClusters,
		RunE: func(command *cobra.Command, args []string) error {
			o.Management, o.Name = management.Options, args[0]
			if command.Flags().Changed("control-plane") {
				o.ControlPlane = &controlPlane
			}

			if command.Flags().Changed("workers") { // also to 0
				o.Workers = &workers
			}

			return lifecycle.Scale(command.Context(), o, func(line string) { _, _ = fmt.Fprintln(s.out, line) })
		},
	}
	set := command.Flags()
	management.addFlags(set)
	set.Int32Var(&controlPlane, "control-plane", 0, "number of control plane machines, which is odd")
	set.Int32Var(&workers, "workers", 0, "number of workers")
	set.StringVar(&o.Deployment, "machine-deployment", "", "whose workers; needed where there are several")

	return command
}
