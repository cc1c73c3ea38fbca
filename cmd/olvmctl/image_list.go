package main

import (
	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/image"
)

func newImageListCommand(s streams, f *engineFlags) *cobra.Command {
	var output outputFlag
	command := &cobra.Command{
		Use:     "list",
		Short:   "List the templates of the engine, or of --data-center",
		Example: "  olvmctl image list --server https://engine.example.com/ovirt-engine --ca-file ca.pem",
		Args:    noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return f.atEngine(command.Context(), func(session *engineSession) error {
				list, err := image.ListTemplates(command.Context(), session.Client, f.template.DataCenter)
				if err != nil {
					return err
				}

				return output.print(s.out, list, func() error { return image.PrintTemplates(s.out, list) })
			})
		},
	}
	output.addFlag(command, formatTable)

	return command
}
