package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/image"
)

func newImageCheckCommand(s streams, f *engineFlags) *cobra.Command {
	var version string
	var output outputFlag
	command := &cobra.Command{
		Use:   "check FILE",
		Short: "Look into an image file, and say what nodes lack",
		Long: `check looks into a qcow2 or raw file with guestfish (libguestfs), boots nothing and changes
nothing. It says of each thing that nodes need what the image has, and what to do: kubeadm and kubelet
of the version, a container runtime that starts, cloud-init or Ignition that finds the engine's config
drive, keepalived with haproxy or podman, SELinux with its tools, the guest agent, and what machines
must not share.

Exit codes: 0 nothing has to be mended, perhaps with warnings; 1 something has, or an error.`,
		Example: `  olvmctl image check ol9.qcow2 --version 1.36
  olvmctl image check ock-1.33.qcow2 -f cluster.yaml -o json`,
		Args: oneArgument("FILE", "an image file"),
		RunE: func(command *cobra.Command, args []string) error {
			return f.checkImage(command.Context(), s, args[0], version, output)
		},
	}
	command.Flags().StringVar(&version, "version", "",
		"version of Kubernetes, with or without its patch (default that of the cluster file)")
	output.addFlag(command, formatText)

	return command
}

// checkImage prints the findings about an image file.
func (f *engineFlags) checkImage(
	ctx context.Context, s streams, path, version string, output outputFlag,
) error {
	if version == "" && f.file.path != "" {
		file, err := clusterfile.Read(f.file.path, f.file.defaults)
		if err != nil {
			return err
		}

		version = file.KubernetesVersion
	}

	findings, err := image.Check(ctx, path, version)
	if err != nil {
		return err
	}

	return showFindings(s, output, findings)
}
