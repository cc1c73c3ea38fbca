package api

import (
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

var dataCenterRoutes = []route{
	{"GET", "/datacenters", listDataCenters},
	{"GET", "/datacenters/{id}", getDataCenter},
	{"GET", "/datacenters/{id}/clusters", listDataCenterClusters},
	{"GET", "/datacenters/{id}/clusters/{cluster}", getDataCenterCluster},
	{"GET", "/datacenters/{id}/iscsibonds", listNothing("iscsi_bonds")},
	{"GET", "/datacenters/{id}/permissions", permissionsOf("data_center", "datacenters", "id")},
	{"GET", "/datacenters/{id}/qoss", listNothing("qoss")},
	{"GET", "/datacenters/{id}/quotas", listQuotas},
}

// compatibilityLevel returns the compatibility version of clusters and data centers.
func (s *Engine) compatibilityLevel() string {
	switch {
	case s.atLeast(4, 5, 7):
		return "4.8"
	case s.atLeast(4, 5, 0):
		return "4.7"
	default:
		return "4.6"
	}
}

func dataCenterDocument(c *call, d *store.DataCenter) *wire.Element {
	domains := c.store.StorageDomains.Where(func(s *store.StorageDomain) bool {
		return s.DataCenter == d.ID
	}, func(s *store.StorageDomain) string { return s.Name })
	out := wire.NewObject("data_center", d.ID, "datacenters", d.ID).
		Str("name", d.Name).
		StrIfSet("description", d.Description).
		Flag("local", false).
		Str("quota_mode", "disabled")
	if len(domains) > 0 {
		out.Str("status", "up").Str("storage_format", "v5")
	} else {
		out.Str("status", "uninitialized")
	}

	level := c.compatibilityLevel()

	return out.Add(wire.El("supported_versions").AddItems(versionElement(level)), versionElement(level)).
		Add(wire.Ref("mac_pool", "macpools", c.store.MACPoolID()))
}

func dataCenterFields(c *call) fields[*store.DataCenter] {
	return fields[*store.DataCenter]{
		"name":        singleValue(func(d *store.DataCenter) string { return d.Name }),
		"id":          singleValue(func(d *store.DataCenter) string { return d.ID }),
		"status":      singleValue(func(*store.DataCenter) string { return "up" }),
		"description": singleValue(func(d *store.DataCenter) string { return d.Description }),
		"clusters.name": func(d *store.DataCenter) []string {
			var names []string

			for _, g := range c.store.Clusters.Rows {
				if g.DataCenter == d.ID {
					names = append(names, g.Name)
				}
			}

			return names
		},
	}
}

func listDataCenters(c *call) (*wire.Element, error) {
	return answerList(c, "data_centers", c.store.DataCenters.Where(nil, func(d *store.DataCenter) string {
		return d.Name
	}), dataCenterFields(c), dataCenterDocument)
}

func getDataCenter(c *call) (*wire.Element, error) {
	d, err := findRow(c.store.DataCenters, c.pathID("id"))
	if err != nil {
		return nil, err
	}

	return dataCenterDocument(c, d), nil
}

// listQuotas lists the only quota of a data center.
func listQuotas(c *call) (*wire.Element, error) {
	out := wire.El("quotas")
	if d := c.store.DataCenters.Get(c.pathID("id")); d != nil {
		id := c.store.IDOf("", "quota", d.ID)
		out.AddItems(wire.NewObject("quota", id, "datacenters", d.ID, "quotas", id).Str("name", "Default").
			Str("description", "Default unlimited quota").
			Num("cluster_hard_limit_pct", 20).Num("cluster_soft_limit_pct", 80).Num("storage_hard_limit_pct", 20).
			Num("storage_soft_limit_pct", 80).
			Add(wire.Ref("data_center", "datacenters", d.ID)))
	}

	return out, nil
}
