package api

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains the entry point of the API, and the engine's options.

var rootRoutes = []route{
	{"GET", "", rootDocument},
	{"GET", "/options/{id}", getOption},
}

// searchable are the collections in the root document that support searches.
var searchable = []string{
	"clusters",
	"datacenters",
	"disks",
	"events",
	"groups",
	"hosts",
	"instancetypes",
	"networks",
	"storagedomains",
	"templates",
	"users",
	"vmpools",
	"vms",
}

// rootRels returns the names of the collections in the root document, and their paths.
func rootRels() (rels []string, paths map[string]string) {
	paths = map[string]string{}

	for _, rel := range wire.SortedKeys(wire.API().Services["system"].Paths) {
		if rel == "options" {
			continue
		}

		rels, paths[rel] = append(rels, rel), rel
		if slices.Contains(searchable, rel) {
			search := rel + "?search={query}"
			if rel == "events" {
				search = "events;from={event_id}?search={query}"
			}

			rels, paths[rel+"/search"] = append(rels, rel+"/search"), search
		}
	}

	return rels, paths
}

// rootLinks returns the Link header of the root document.
func (s *Engine) rootLinks() string {
	rels, paths := rootRels()

	var out []string
	for _, rel := range rels {
		out = append(out, "<"+s.URL()+"/api/"+paths[rel]+">; rel="+rel)
	}

	return strings.Join(out, ",")
}

// rootDocument returns the entry point of the API.
func rootDocument(c *call) (*wire.Element, error) {
	out := wire.El("api")

	rels, paths := rootRels()
	for _, rel := range rels {
		out.AddItems(wire.El("link").SetAttr("href", wire.Href(paths[rel])).SetAttr("rel", rel))
	}

	parts := strings.Split(c.version+".0", ".")
	product := wire.El("product_info").Str("instance_id", c.store.IDOf("", "instance")).Str("name", "oVirt Engine").
		Str("vendor", "ovirt.org").Add(
		wire.El("version").Str("build", parts[2]).Str("full_version", c.version+"-1.el8").Str("major", parts[0]).
			Str("minor", parts[1]).Str("revision", parts[3]))
	if !c.filtered {
		out.Add(wire.El("engine_backup"))
	} else {
		product.Kids = product.Kids[1:]
	}

	out.Add(
		product,
		wire.El("special_objects").
			Add(wire.Ref("blank_template", "templates", store.BlankTemplateID),
				wire.Ref("root_tag", "tags", store.RootTagID)),
	)

	count := func(name string, total, active int) *wire.Element {
		return wire.El(name).Num("active", int64(active)).Num("total", int64(total))
	}
	up := len(c.store.VMs.Where(func(v *store.VM) bool { return v.IsRunning() }, store.VMKey))
	hostsUp := len(c.store.Hosts.Where(func(h *store.Host) bool {
		return h.Status == store.HostUp
	}, func(h *store.Host) string { return h.Name }))
	domains := len(c.store.StorageDomains.Rows)
	if !c.filtered {
		out.Add(
			wire.El("summary").
				Add(count("hosts", len(c.store.Hosts.Rows), hostsUp), count("storage_domains", domains, domains),
					count("users", len(c.store.Users.Rows), 1), count("vms", len(c.store.VMs.Rows), up)),
		)
	}

	return out.Str("time", formatTime(time.Now())).Add(wire.Ref("authenticated_user", "users", c.user.ID),
		wire.Ref("effective_user", "users", c.user.ID)), nil
}

// options are the engine settings that clients request, for one cluster version. The engine shows no other settings
// here.
var options = map[string]string{"PredefinedVMProperties": predefinedProperties, "UserDefinedVMProperties": ""}

func getOption(c *call) (*wire.Element, error) {
	name := c.pathID("id")
	value, known := options[name]
	if !known {
		return nil, wire.NotFound()
	}

	entry := wire.El("system_option_value").Str("value", value).
		Str("version", cmp.Or(c.query.Get("version"), "general"))

	return wire.El("system_option").SetAttr("href", wire.Href("options", name)).SetAttr("id", name).Str("name", name).
		Add(wire.El("values").AddItems(entry)), nil
}
