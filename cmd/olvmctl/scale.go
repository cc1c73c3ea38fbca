package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/lifecycle"
)

func newScaleCommand(s streams) *cobra.Command {
	var management managementFlags
	var o lifecycle.ScaleOptions
	var output outputFlag
	var controlPlane, workers int32
	var yes bool
	command := &cobra.Command{
		Use:   "scale CLUSTER [--control-plane N] [--workers N]",
		Short: "Set the number of machines of a cluster",
		Long: `Set the replicas of the KubeadmControlPlane and of a MachineDeployment, or of the topology of a
Cluster with a ClusterClass. The command does not wait for the machines; see olvmctl describe.

The command asks for confirmation before it deletes machines, creates more than ten times as many
machines, or asks for more machines than addresses. Without a terminal, use --yes.`,
		Example:           "  olvmctl scale prod --workers 5",
		Args:              requireName("CLUSTER", "the name of a cluster", clusterWords),
		ValidArgsFunction: management.completeClusters,
		RunE: func(command *cobra.Command, args []string) error {
			o.Management, o.Name = management.Options, nameOf(args, clusterWords)
			if command.Flags().Changed("control-plane") {
				o.ControlPlane = &controlPlane
			}

			if command.Flags().Changed("workers") { // also if it is 0
				o.Workers = &workers
			}

			o.Agree = func(alarms []string, where string) error {
				return confirmScale(command.Context(), s, yes, o.Name, where, alarms)
			}

			done := outcome{Namespace: o.Management.Namespace, Name: o.Name, Done: "scaled"}

			err := lifecycle.Scale(command.Context(), o, func(line string) {
				done.Messages = append(done.Messages, line)
				if output.isForPeople() {
					_, _ = fmt.Fprintln(s.out, line)
				}
			})
			if err != nil {
				return err
			}

			return output.printValue(s.out, done, func() error { return nil })
		},
	}
	set := command.Flags()
	management.addFlags(command)
	output.addFlag(command, formatText)
	set.Int32Var(&controlPlane, "control-plane", 0, "number of control plane machines; must be odd")
	set.Int32Var(&workers, "workers", 0, "number of workers")
	set.BoolVarP(&yes, "yes", "y", false, "skip the confirmation")
	set.StringVar(&o.Deployment, "machine-deployment", "",
		"MachineDeployment to scale; required if the cluster has several")

	return command
}

// confirmScale asks whether to scale a cluster despite the alarms. If yes is set, it only prints the alarms.
func confirmScale(ctx context.Context, s streams, yes bool, name, where string, alarms []string) error {
	lines := strings.Join(alarms, "\n")
	if yes {
		_, _ = fmt.Fprintln(s.err, lines)
	}

	return confirmWord(ctx, s, yes, lines+"\nScale "+name+" "+where+"? Type the name of the cluster to confirm: ", name)
}
