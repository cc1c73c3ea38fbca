package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/supportbundle"
)

// supportBundleFlags are the flags of the support-bundle command.
type supportBundleFlags struct {
	managementFlags
	out         string
	output      outputFlag
	engine, yes bool
}

func newSupportBundleCommand(s streams) *cobra.Command {
	var f supportBundleFlags
	command := &cobra.Command{
		Use:   "support-bundle CLUSTER",
		Short: "Collect diagnostic data of a cluster, without secrets",
		Long: `Write an archive with the objects of a cluster and their conditions, its events, the history of its
machines, the contents of its Terraform states, and the manager's log. With --engine, the archive
also contains the VMs, disks and events of the engine.

The command removes values of Secrets and user data, also from texts that repeat them. It lists the
collected files, and asks for confirmation before it writes the archive. It changes nothing else.`,
		Example:           "  olvmctl support-bundle prod -n prod --engine",
		Args:              requireName("CLUSTER", "the name of a cluster", clusterWords),
		ValidArgsFunction: f.completeClusters,
		RunE: func(command *cobra.Command, args []string) error {
			return f.writeBundle(command.Context(), s, nameOf(args, clusterWords))
		},
	}
	set := command.Flags()
	f.addFlags(command)
	set.StringVar(&f.out, "out", "", "output file (default CLUSTER-support-TIME.tar.gz)")
	set.BoolVar(&f.engine, "engine", false, "include data of the engine, read with the credentials of the cluster")
	set.BoolVarP(&f.yes, "yes", "y", false, "skip the confirmation")
	f.output.file = "--out"
	f.output.addFlag(command, formatText)

	return command
}

func (f *supportBundleFlags) writeBundle(ctx context.Context, s streams, name string) error {
	in, err := mgmtcluster.ConnectInstalled(ctx, f.Options)
	if err != nil {
		return err
	}

	now := time.Now()
	bundle, err := supportbundle.Gather(ctx, supportbundle.Options{In: in, Name: name, Engine: f.engine, Now: now})
	if err != nil {
		return err
	}

	folder := name + "-support-" + now.UTC().Format("20060102-150405")
	if f.out == "" {
		f.out = folder + ".tar.gz"
	}

	for _, file := range bundle.Files {
		if _, err := fmt.Fprintf(s.err, "%8d  %s\n", len(file.Content), file.Path); err != nil {
			return err
		}
	}

	for _, problem := range bundle.Problems {
		_, _ = fmt.Fprintf(s.err, "not included: %v\n", problem)
	}

	question := fmt.Sprintf("Write these %d files to %s? Type yes to confirm: ", len(bundle.Files), f.out)
	if err := confirmWord(ctx, s, f.yes, question, "yes"); err != nil {
		return err
	}

	if err := writeArchive(f.out, func(to io.Writer) error { return bundle.Write(to, folder, now) }); err != nil {
		return err
	}

	return f.output.printValue(s.out, map[string]string{"file": f.out}, func() error {
		_, err := fmt.Fprintln(s.out, f.out)
		return err
	})
}

// writeArchive writes a new file. If this fails, it removes the file.
func writeArchive(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}

	err = write(file)
	if closed := file.Close(); err == nil {
		err = closed
	}

	if err != nil {
		_ = os.Remove(path)
		return fmt.Errorf("failed to write %s: %w", path, err)
	}

	return nil
}
