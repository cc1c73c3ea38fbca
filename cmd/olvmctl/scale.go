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
		Short: "Change the number of machines of a cluster",
		Long: `scale writes replicas of the KubeadmControlPlane and of a MachineDeployment, or of
the topology of a Cluster with a ClusterClass. It does not wait; see olvmctl describe.

It asks before machines go, before there are more than ten times as many as today, and before there
are more machines than addresses; --yes answers, and is needed where there is no terminal.`,
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
	set.Int32Var(&controlPlane, "control-plane", 0, "number of control plane machines, which is odd")
	set.Int32Var(&workers, "workers", 0, "number of workers")
	set.BoolVarP(&yes, "yes", "y", false, "do not ask")
	set.StringVar(&o.Deployment, "machine-deployment", "", "whose workers; needed where there are several")

	return command
}

// confirmScale asks whether to scale a cluster despite the alarms. If yes is set, it only prints the alarms.
func confirmScale(ctx context.Context, s streams, yes bool, name, where string, alarms []string) error {
	lines := strings.Join(alarms, "\n")
	if yes {
		_, _ = fmt.Fprintln(s.err, lines)
	}

	return confirmWord(ctx, s, yes, lines+"\nScale "+name+" "+where+"? Type its name: ", name)
}
