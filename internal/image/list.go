package image

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// ListedTemplate is a template of the engine in a list.
type ListedTemplate struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	// UserData is what reads it: cloud-init or Ignition.
	UserData string `json:"userData"`
	OSType   string `json:"osType"`
	ID       string `json:"id"`
}

// ListTemplates are the templates of the engine but the blank one, by name and version.
func ListTemplates(ctx context.Context, session *engine.Client) ([]ListedTemplate, error) {
	templates, err := session.Templates(ctx)
	if err != nil {
		return nil, err
	}

	list := []ListedTemplate{}

	for _, t := range templates {
		if t.ID == engine.BlankTemplateID {
			continue
		}

		reads := "cloud-init"
		if t.OS.Type == desired.IgnitionOS {
			reads = "Ignition"
		}

		list = append(list, ListedTemplate{t.Name, t.Version.Number, reads, t.OS.Type, t.ID.String()})
	}

	slices.SortFunc(list, func(a, b ListedTemplate) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})

	return list, nil
}

// PrintTemplates writes a table for a terminal.
func PrintTemplates(out io.Writer, list []ListedTemplate) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)

	_, _ = fmt.Fprintln(table, "NAME\tVERSION\tUSER DATA\tOS TYPE\tID")
	for _, t := range list {
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", t.Name, t.Version, t.UserData, t.OSType, t.ID)
	}

	return table.Flush()
}
