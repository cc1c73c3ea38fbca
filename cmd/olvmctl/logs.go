package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
)

// logsFlags are the flags of the logs command.
type logsFlags struct {
	managementFlags
	follow, manager bool
	output          outputFlag
}

func newLogsCommand(s streams) *cobra.Command {
	var f logsFlags
	command := &cobra.Command{
		Use:   "logs MACHINE",
		Short: "Show the events, conditions and Terraform runs of a machine",
		Long: `Show the events of a Machine and its OLVMMachine in order of time. They include Terraform runs, with
their changes or errors, and transitions of conditions. The API server keeps events for an hour. The
command always shows the last run, because the OLVMMachine records it.

With --manager, the output includes lines about the machine from the manager's log.`,
		Example:           "  olvmctl logs prod-md-0-x7k2p-9qwzt -n prod --follow",
		Args:              requireName("MACHINE", "the name of a Machine", machineWords),
		ValidArgsFunction: f.completeMachines,
		RunE: func(command *cobra.Command, args []string) error {
			if f.follow && !f.output.isForPeople() {
				return errors.New("--follow supports only text output; omit -o " + f.output.format)
			}

			return f.printLogs(command.Context(), s, nameOf(args, machineWords))
		},
	}
	set := command.Flags()
	f.addFlags(command)
	set.BoolVarP(&f.follow, "follow", "f", false, "stream new entries")
	set.BoolVar(&f.manager, "manager", false, "include lines about the machine from the manager's log")
	f.output.addFlag(command, formatText)

	return command
}

func (f *logsFlags) printLogs(ctx context.Context, s streams, name string) error {
	in, err := mgmtcluster.ConnectInstalled(ctx, f.Options)
	if err != nil {
		return err
	}

	machine, err := in.FindMachine(ctx, name)
	if err != nil {
		return err
	}

	begin := time.Now()
	entries, err := in.ListFullHistory(ctx, machine, f.manager, time.Time{})
	if err != nil {
		return err
	}

	if !f.output.isForPeople() {
		return encodeValue(s.out, f.output.format, append([]mgmtcluster.HistoryEntry{}, entries...))
	}

	if len(entries) == 0 {
		_, _ = fmt.Fprintf(s.err,
			"no events found for %s; to see what it is waiting for, run olvmctl describe %s -n %s\n",
			name, cmp.Or(machine.Labels[clusterv1.ClusterNameLabel], "CLUSTER"), in.Namespace)
	}

	printed := map[mgmtcluster.HistoryEntry]bool{}

	for {
		for _, entry := range entries {
			if printed[entry] {
				continue
			}

			printed[entry] = true
			if _, err := fmt.Fprintln(s.out, entry); err != nil {
				return err
			}
		}

		if !f.follow {
			return nil
		}

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(progress.PollInterval):
		}

		if entries, err = in.ListFullHistory(ctx, machine, f.manager, begin); err != nil && ctx.Err() == nil {
			_, _ = fmt.Fprintln(s.err, "olvmctl:", err) // the followed cluster may become reachable again
		}
	}
}
