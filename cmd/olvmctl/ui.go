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
		Short: "Serve a dashboard of the management cluster on this machine",
		Long: `Serve a web page that shows the clusters of a management cluster, their machines and VMs,
dependencies between objects, conditions, Terraform runs and events. The page updates itself. The
command uses the permissions of the kubeconfig, and changes nothing. It listens on loopback, and the
URL of the page contains a token that is required for access. Press Ctrl-C to stop it.

With --engine, the page also shows the state of the VMs in the engines. This requires permission to
read the Secrets with the credentials of the clusters.`,
		Example: "  olvmctl ui -A --engine",
		RunE: func(command *cobra.Command, _ []string) error {
			return f.serveDashboard(command.Context(), s)
		},
	}
	set := command.Flags()
	f.addFlags(command)
	f.output.addFlag(command, formatText)
	set.BoolVarP(&f.all, "all-namespaces", "A", false, "show the clusters in all namespaces")
	set.BoolVar(&f.engine, "engine", false,
		"include the state of the VMs in the engines, read with the credentials of the clusters")
	set.StringVar(&f.address, "address", "127.0.0.1:0",
		"loopback address for the page, as HOST:PORT; port 0 selects a free port")

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
