package main

import (
	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/image"
)

func newImageListCommand(s streams, f *engineFlags) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:     "list",
		Short:   "List the templates of the engine, or of --data-center",
		Example: "  olvmctl image list --server https://engine.example.com/ovirt-engine --ca-file ca.pem",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkOutput(output, "table", "json", "yaml"); err != nil {
				return err
			}

			return f.atEngine(command.Context(), func(session *engineSession) error {
				list, err := image.ListTemplates(command.Context(), session.Client, f.template.DataCenter)
				if err != nil {
					return err
				}

				if output != "table" {
					return encode(s.out, output, list)
				}

				return image.PrintTemplates(s.out, list)
			})
		},
	}
	command.Flags().StringVarP(&output, "output", "o", "table", "output: table, json or yaml")

	return command
}
