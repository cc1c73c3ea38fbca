package image

import (
	"cmp"
	"context"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// ListedTemplate is a VM template in a list.
type ListedTemplate struct {
	Name string `json:"name"`
	// DataCenter is the data center of machines with this template. It is empty if machines in all data centers can use
	// the template.
	DataCenter string `json:"dataCenter,omitempty"`
	Version    int    `json:"version"`
	// UserData is the program that reads user data: cloud-init or Ignition.
	UserData string `json:"userData"`
	OSType   string `json:"osType"`
	ID       string `json:"id"`
}

// ListTemplates returns the templates of a data center without the blank template, sorted by name and version. An empty
// dataCenter means all data centers.
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
