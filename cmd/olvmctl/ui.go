package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/dashboard"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

// uiFlags are the flags of the ui command.
type uiFlags struct {
	managementFlags
	all, engine bool
	address     string
	output      outputFlag
}

func newUICommand(s streams) *cobra.Command {
	var f uiFlags
	command := &cobra.Command{
		Use:   "ui",
		Args:  noArguments,
		Short: "Show the management cluster on a page of this machine",
		Long: `ui serves a page with the clusters of a management cluster, their machines and VMs, what waits for
what, conditions and Terraform runs as they come, and events. It watches with the rights of the
kubeconfig, and changes nothing. The page is on loopback, and its URL has a token: who does not
know it sees nothing. Ctrl-C ends it.

With --engine it shows beside that what the engines say of the VMs, with the credentials of the
clusters; you need the right to read their Secrets.`,
		Example: "  olvmctl ui -A --engine",
		RunE: func(command *cobra.Command, _ []string) error {
			return f.serveDashboard(command.Context(), s)
		},
	}
	set := command.Flags()
	f.addFlags(command)
	f.output.addFlag(command, formatText)
	set.BoolVarP(&f.all, "all-namespaces", "A", false, "the clusters of all namespaces")
	set.BoolVar(&f.engine, "engine", false, "ask the engines, too, with the credentials of the clusters")
	set.StringVar(&f.address, "address", "127.0.0.1:0", "HOST:PORT of loopback for the page; port 0 is a free one")

	return command
}

func (f *uiFlags) serveDashboard(ctx context.Context, s streams) error {
	in, err := mgmtcluster.ConnectInstalled(ctx, f.Options)
	if err != nil {
		return err
	}

	page, err := dashboard.Serve(ctx, dashboard.Options{
		In:        in,
		Namespace: namespaceOf(in, f.all),
		Address:   f.address,
		Engines:   f.engine,
		Access:    in.ShellAccess(),
	})
	if err != nil {
		return err
	}
	defer page.Close()

	err = f.output.printValue(s.out, map[string]string{"url": page.URL()}, func() error {
		_, err := fmt.Fprintln(s.out, page.URL())
		return err
	})
	if err != nil {
		return err
	}

	<-ctx.Done()

	return nil
}
