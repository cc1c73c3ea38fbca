package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clustertree"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/image"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/plaintext"
)

func newImageListCommand(s streams, f *engineFlags) *cobra.Command {
	var output outputFlag
	command := &cobra.Command{
		Use:     "list",
		Short:   "List the VM templates in the engine",
		Example: "  olvmctl image list --server https://engine.example.com/ovirt-engine --ca-file ca.pem",
		Args:    noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return f.withEngine(command.Context(), func(session *engineSession) error {
				list, err := image.ListTemplates(command.Context(), session.Client, f.template.DataCenter)
				if err != nil {
					return err
				}

				return printTemplates(s.out, output, list)
			})
		},
	}
	output.addFlag(command, formatTable, formatWide, formatName)

	return command
}

// printTemplates writes the VM templates of an engine in the requested format.
func printTemplates(out io.Writer, output outputFlag, list []image.ListedTemplate) error {
	switch output.format {
	case formatName:
		for _, t := range list {
			if _, err := fmt.Fprintln(out, plaintext.OneLine(t.Name)); err != nil {
				return err
			}
		}

		return nil
	case formatTable, formatWide:
		printer := printers.NewTablePrinter(printers.PrintOptions{Wide: true})

		return printer.PrintObj(templateTable(list), out)
	}

	return encodeValue(out, output.format, list)
}

// templateTable converts a list to a table for kubectl's printers.
func templateTable(list []image.ListedTemplate) *metav1.Table {
	table := clustertree.NewTable("Name", "Version", "User Data", "OS Type", "Data Center", "ID")

	for _, t := range list {
		table.Rows = append(table.Rows, metav1.TableRow{
			Cells: []any{t.Name, t.Version, t.UserData, t.OSType, cmp.Or(t.DataCenter, "all"), t.ID},
		})
	}

	return table
}
