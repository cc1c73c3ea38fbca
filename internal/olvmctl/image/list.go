package image

import (
	"cmp"
	"context"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// ListedTemplate is a template of the engine in a list.
type ListedTemplate struct {
	Name string `json:"name"`
	// DataCenter names the data center for machines of this template. It is empty if the template serves all data
	// centers.
	DataCenter string `json:"dataCenter,omitempty"`
	Version    int    `json:"version"`
	// UserData is the reader of user data: cloud-init or Ignition.
	UserData string `json:"userData"`
	OSType   string `json:"osType"`
	ID       string `json:"id"`
}

// ListTemplates lists the templates of a data center except the blank one, by name and version. An empty data center
// means all.
func ListTemplates(ctx context.Context, session *engine.Client, dataCenter string) ([]ListedTemplate, error) {
	var wanted *engine.DataCenter
	if dataCenter != "" {
		var err error
		if wanted, err = session.FindDataCenter(ctx, dataCenter); err != nil {
			return nil, err
		}
	}

	templates, err := session.ListTemplates(ctx)
	if err == nil {
		templates, err = engine.FilterByDataCenter(ctx, session, wanted, templates)
	}

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

		listed := ListedTemplate{
			Name: t.Name, Version: t.Version.Number, UserData: reads, OSType: t.OS.Type, ID: t.ID.String(),
		}

		if dc, err := session.FindDataCenterOf(ctx, engine.RefID(t.Cluster)); err != nil {
			return nil, err
		} else if dc != nil {
			listed.DataCenter = dc.Name
		}

		list = append(list, listed)
	}

	slices.SortFunc(list, func(a, b ListedTemplate) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.DataCenter, b.DataCenter),
			cmp.Compare(a.Version, b.Version))
	})

	return list, nil
}
