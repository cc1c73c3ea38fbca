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
		Short: "Check whether an image file has what nodes require",
		Long: `Check the content of a qcow2 or raw file with guestfish (libguestfs), and print the result and the
remedy of each check. The command neither boots nor changes the image. It checks:

- kubeadm and kubelet of the version
- a container runtime that starts at boot
- cloud-init or Ignition, and whether it reads the engine's config drive
- keepalived, with haproxy or podman
- SELinux and its tools
- the guest agent
- values that must differ between machines, such as the machine ID

Exit codes: 0 if all checks pass, even with warnings; 1 if a check fails, or on an error.`,
		Example: `  olvmctl image check ol9.qcow2 --version 1.36
  olvmctl image check ock-1.33.qcow2 -f cluster.yaml -o json`,
		Args: oneArgument("FILE", "an image file"),
		RunE: func(command *cobra.Command, args []string) error {
			return f.checkImage(command.Context(), s, args[0], version, output)
		},
	}
	command.Flags().StringVar(&version, "version", "",
		"Kubernetes version, such as 1.36 or 1.36.1 (default: from the cluster file)")
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
