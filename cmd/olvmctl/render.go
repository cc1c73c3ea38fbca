package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/preview"
)

func newRenderCommand(s streams) *cobra.Command {
	var from sourceFlags
	var dir string
	command := &cobra.Command{
		Use:   "render -f FILE|DIR|- | -k DIR -o DIR",
		Short: "Write the Terraform configuration of each machine to a folder",
		Long: `render resolves the names of the manifests against the engine and writes one folder per machine, in which
terraform init and terraform plan can be run by hand. The file terraform.tfvars.json in it holds the engine's
password: only you can read it, and a .gitignore keeps it out of git.

` + credentialsHelp,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return renderAll(command.Context(), s, from, dir)
		},
	}
	from.addFlags(command)
	command.MarkFlagsOneRequired("filename", "kustomize")
	command.Flags().StringVarP(&dir, "output", "o", "", "folder to write to; it gets one folder per machine")
	_ = command.MarkFlagRequired("output")

	return command
}

// renderAll writes the folder of each machine, and prints its name.
func renderAll(ctx context.Context, s streams, from sourceFlags, dir string) error {
	manifests, err := from.load(s)
	if err != nil {
		return err
	}

	credentials, err := from.read(from.cluster.path)
	if err != nil {
		return err
	}

	machines, err := manifests.Machines()
	if err != nil {
		return err
	}

	sessions := &engine.Sessions{}
	defer sessions.Close(context.WithoutCancel(ctx))

	rendered, refused, err := preview.Render(ctx, manifests, machines, credentials, sessions)
	for _, one := range refused {
		err = errors.Join(err, one.Err)
	}

	if err != nil {
		return err
	}

	for _, machine := range rendered {
		folder, err := machine.WriteFolder(dir)
		if err != nil {
			return err
		}

		if _, err := fmt.Fprintln(s.out, folder); err != nil {
			return err
		}
	}

	return nil
}
