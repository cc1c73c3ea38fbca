package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localroot"
)

func newImageTemplateCommand(s streams, f *engineFlags) *cobra.Command {
	var output outputFlag
	command := &cobra.Command{
		Use:   "template",
		Short: "Create a VM template from a disk or an image file",
		Long: `Create a VM template with Terraform (tfmodules/image): attach the disk to a temporary VM, create the
template from this VM, and delete the VM. With --file, the command first uploads the image, and
later deletes the uploaded disk, because the template has a copy. It keeps a disk that already
contained the image. After a failure or an interrupt, it removes incomplete objects. If it is
killed, the next image template on the same machine removes them.`,
		Example: `  olvmctl image template --file ock-1.33.qcow2 -f cluster.yaml
  olvmctl image template --disk ol9 --name ol9-v1.36.1 \
    --cluster Default --os-type other_linux --server https://engine.example.com/ovirt-engine --ca-file ca.pem`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return f.withEngine(command.Context(), func(session *engineSession) error {
				return f.makeTemplate(command.Context(), s, session, output)
			})
		},
	}
	set := command.Flags()
	f.addUploadFlags(set)
	output.addFlag(command, formatText)
	set.StringVar(&f.template.Name, "name", "", "name of the template")
	set.StringVar(&f.template.Cluster, "cluster", "", "name of the engine's cluster")
	set.StringVar(&f.template.Path, "file", "", "image file to upload")
	set.StringVar(&f.template.OSType, "os-type", desired.IgnitionOS,
		"operating system type of the engine; other than "+desired.IgnitionOS+" for images with cloud-init")

	return command
}

// makeTemplate creates the VM template, and prints its UUID.
func (f *engineFlags) makeTemplate(
	ctx context.Context, s streams, session *engineSession, output outputFlag,
) error {
	local, err := localroot.NewRunner(ctx, session.sessions)
	if err != nil {
		return err
	}
	defer local.Close()

	f.template.Out = s.err
	id, err := f.template.CreateInEngine(ctx, session.Client, connection.RenderEngine(session.Client, session.config),
		local.Executor, local.Dir)
	if err != nil {
		return err
	}

	return printID(s, output, id)
}
