package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/preview"
)

func newRenderCommand(s streams) *cobra.Command {
	var r renderFlags
	command := &cobra.Command{
		Use:   "render -f FILE|DIR|- | -k DIR | --kubeconfig FILE -o DIR",
		Short: "Write the Terraform configuration of each machine to a folder",
		Long: `render resolves the names of the manifests against the engine and writes one folder per machine, in which
terraform init and terraform plan can be run by hand. The file terraform.tfvars.json in it holds the engine's
password: only you can read it, and a .gitignore keeps it out of git.

With --kubeconfig the machines are those that the management cluster has, and each folder goes on where the controller
stopped: its backend is the Secret with the state of the machine, or what exists is imported if you may not read that.
Pause the Cluster before you apply anything there: docs/user/terraform-in-a-controller.md has the steps.

` + credentialsHelp,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return r.run(command.Context(), s)
		},
	}
	r.addFlags(command)
	command.Flags().StringVar(&r.kubeconfig, "kubeconfig", "",
		"kubeconfig of the management cluster whose states the folders go on with")
	command.Flags().StringVarP(&r.namespace, "namespace", "n", "",
		"namespace of the management cluster; empty means those of the manifests, or all")
	command.Flags().StringVarP(&r.dir, "output", "o", "", "folder to write to; it gets one folder per machine")
	command.MarkFlagsOneRequired("filename", "kustomize", "kubeconfig")
	_ = command.MarkFlagRequired("output")

	return command
}

// renderFlags are those of the render command.
type renderFlags struct {
	sourceFlags
	dir string
	// kubeconfig of the management cluster, and the namespace in it; empty for none, and for those that matter.
	kubeconfig, namespace string
}

// manifests loads the manifests, and what the management cluster has.
func (r *renderFlags) manifests(ctx context.Context, s streams) (*preview.Manifests, error) {
	manifests, err := r.load(s)
	if err != nil || r.kubeconfig == "" {
		return manifests, err
	}

	if r.kubeconfig, err = filepath.Abs(r.kubeconfig); err != nil { // Terraform runs in another folder
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}

	live, err := mgmtcluster.Connect(mgmtcluster.Options{Kubeconfig: r.kubeconfig})
	if err != nil {
		return nil, err
	}

	manifests.Prune(false)

	if err := manifests.AddLive(ctx, live, r.namespace); err != nil {
		return nil, err
	}

	return manifests, manifests.AddStates(ctx, live)
}

// run writes the folder of each machine, and prints its name.
func (r *renderFlags) run(ctx context.Context, s streams) error {
	manifests, err := r.manifests(ctx, s)
	if err != nil {
		return err
	}

	credentials, err := r.read(r.cluster.path)
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
		if machine.Destroyed != "" { // nothing is asked for
			continue
		}

		machine.Kubeconfig = r.kubeconfig
		folder, err := machine.WriteFolder(r.dir)
		if err != nil {
			return err
		}

		if _, err := fmt.Fprintln(s.out, folder); err != nil {
			return err
		}
	}

	return nil
}
