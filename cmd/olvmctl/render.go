package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/preview"
)

func newRenderCommand(s streams) *cobra.Command {
	var r renderFlags
	command := &cobra.Command{
		Use:   "render FILE|DIR|-... | -k DIR | --kubeconfig FILE --out DIR",
		Short: "Write the Terraform configuration of each machine to a folder",
		Long: `Resolve the names in the manifests against the engine, and write a folder for each machine. You can
run terraform init and terraform plan in these folders. The file terraform.tfvars.json contains the
engine's password. Only you can read this file, and a .gitignore keeps it out of git.

With --kubeconfig, the command renders the machines in the management cluster. Each folder continues
from the state of the controller: its backend is the Secret with this state. If you may not read the
Secret, the folder imports the existing objects. Pause the Cluster before you run terraform apply:
docs/user/terraform-in-a-controller.md describes the steps.

` + credentialsHelp,
		RunE: func(command *cobra.Command, _ []string) error {
			return r.renderMachines(command.Context(), s)
		},
	}
	r.addFlags(command)
	r.management.addFlags(command)
	command.Flags().Lookup("kubeconfig").Usage =
		"kubeconfig of the management cluster with the Terraform states to continue from"
	command.Flags().Lookup("namespace").Usage =
		"namespace in the management cluster (default: those of the manifests, or all)"
	command.Flags().StringVar(&r.dir, "out", "", "output folder, with a subfolder for each machine")
	r.output.file = "--out"
	r.output.addFlag(command, formatText)
	_ = command.MarkFlagRequired("out")

	return command
}

// renderFlags are the flags of the render command.
type renderFlags struct {
	sourceFlags
	dir    string
	output outputFlag
	// management is the management cluster with the Terraform states to continue, if the user has named one.
	management managementFlags
	// kubeconfig is its kubeconfig. It is an absolute path, because Terraform runs in another folder. context is a
	// context in this kubeconfig.
	kubeconfig, context string
}

// loadWithLive loads the manifests, and the objects in the management cluster.
func (r *renderFlags) loadWithLive(ctx context.Context, s streams) (*preview.Manifests, error) {
	if len(r.files)+len(r.kustomizations) == 0 && !r.management.isGiven() {
		return nil, errors.New("nothing to render; specify manifests or a cluster file with -f, or a management " +
			"cluster with --kubeconfig")
	}

	manifests, err := r.loadSources(s)
	if err != nil || !r.management.isGiven() {
		return manifests, err
	}

	live, err := r.management.connectAllNamespaces(ctx)
	if err != nil {
		return nil, err
	}

	if r.kubeconfig, err = live.KubeconfigFile(); err != nil {
		return nil, err
	}

	r.context = live.Context

	manifests.SetPruning(false)

	if err := manifests.AddLive(ctx, live, r.management.Namespace); err != nil {
		return nil, err
	}

	if err := manifests.AddStates(ctx, live); err != nil {
		return nil, err
	}

	return manifests, warnOfStates(s.err, manifests)
}

// warnOfStates warns about states that both Terraform and the controllers would write, and about states that a folder
// cannot continue.
func warnOfStates(out io.Writer, manifests *preview.Manifests) error {
	var notes []string
	for _, cluster := range manifests.UnpausedClusters() {
		notes = append(notes, "Cluster "+cluster+" is not paused, and its controllers write the same Terraform "+
			"states; pause it before you run terraform apply")
	}

	for _, machine := range manifests.DropUnreadableStates() {
		notes = append(notes, "OLVMMachine "+machine+": Terraform's kubernetes backend does not support names that "+
			"end in a number; its folder imports the existing objects into a local state")
	}

	for _, note := range notes {
		if _, err := fmt.Fprintln(out, "note: "+note); err != nil {
			return err
		}
	}

	return nil
}

// renderMachines writes a folder for each machine, and prints its path.
func (r *renderFlags) renderMachines(ctx context.Context, s streams) error {
	manifests, err := r.loadWithLive(ctx, s)
	if err != nil {
		return err
	}

	credentials, err := r.loadCredentials(r.cluster.path)
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

	folders := []string{}

	for _, machine := range rendered {
		if machine.Destroyed != "" { // a deleted machine needs no folder
			continue
		}

		machine.Kubeconfig, machine.Context = r.kubeconfig, r.context
		folder, err := machine.WriteFolder(r.dir)
		if err != nil {
			return err
		}

		folders = append(folders, folder)
	}

	return r.output.printValue(s.out, map[string][]string{"folders": folders}, func() error {
		_, err := io.WriteString(s.out, strings.Join(append(folders, ""), "\n"))
		return err
	})
}
