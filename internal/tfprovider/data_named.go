package tfprovider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// This file has the data sources that find the UUID of an object by its name.

// lookups are the types of these data sources.
var lookups = []string{
	"ovirt_cluster", "ovirt_disk", "ovirt_host", "ovirt_storage_domain", "ovirt_template", "ovirt_vm",
	"ovirt_vnic_profile",
}

// candidate is an object with the wanted name.
type candidate struct {
	id engine.ID
	// network is set for vNIC profiles.
	network string
	// version and isReady are set for templates.
	version int
	isReady bool
}

// wantedName is the object a data source looks for.
type wantedName struct {
	name, network string
	version       int
	dc            *engine.DataCenter // nil means the whole engine
}

// namedData is a data source for one kind of object.
type namedData struct {
	dataBase
	// kind names the objects in messages.
	kind string
	find func(ctx context.Context, client *engine.Client, wanted wantedName) ([]candidate, error)
}

// These are attributes of only some kinds.
const (
	networkAttribute = "network"
	versionAttribute = "version"
)

func newClusterData() datasource.DataSource {
	return &namedData{dataBase{typeName: "ovirt_cluster"}, "cluster",
		func(ctx context.Context, client *engine.Client, wanted wantedName) ([]candidate, error) {
			all, err := client.ListClusters(ctx, wanted.dc)

			return filterByName(all, wanted.name, func(c engine.Cluster) (string, candidate) {
				return c.Name, candidate{id: c.ID}
			}), err
		}}
}

func newHostData() datasource.DataSource {
	return &namedData{dataBase{typeName: "ovirt_host"}, "host",
		func(ctx context.Context, client *engine.Client, wanted wantedName) ([]candidate, error) {
			all, err := client.ListHostsIn(ctx, wanted.dc, nil, 0)

			return filterByName(all, wanted.name, func(h engine.Host) (string, candidate) {
				return h.Name, candidate{id: h.ID}
			}), err
		}}
}

func newStorageDomainData() datasource.DataSource {
	return &namedData{dataBase{typeName: "ovirt_storage_domain"}, "storage domain for disks",
		func(ctx context.Context, client *engine.Client, wanted wantedName) ([]candidate, error) {
			all, err := listStorageDomains(ctx, client, wanted.dc)

			return filterByName(all, wanted.name, func(d engine.StorageDomain) (string, candidate) {
				return d.Name, candidate{id: d.ID}
			}), err
		}}
}

// listStorageDomains returns the storage domains of a data center, or all of them if dc is nil. It lists them per data
// center, because only these lists have the status of each domain.
func listStorageDomains(
	ctx context.Context, client *engine.Client, dc *engine.DataCenter,
) (out []engine.StorageDomain, err error) {
	var all []engine.DataCenter

	if dc != nil {
		all = append(all, *dc)
	} else if all, err = client.ListDataCenters(ctx); err != nil {
		return nil, err
	}

	for i := range all {
		there, err := client.ListStorageDomains(ctx, &all[i])
		if err != nil {
			return nil, err
		}

		out = append(out, there...)
	}

	return out, nil
}

func newVNICProfileData() datasource.DataSource {
	return &namedData{dataBase{typeName: "ovirt_vnic_profile"}, "vNIC profile",
		func(ctx context.Context, client *engine.Client, wanted wantedName) ([]candidate, error) {
			profiles, networks, err := client.ListVNICProfiles(ctx, wanted.dc, wanted.name)

			var out []candidate

			for i, profile := range profiles {
				if wanted.network == "" || wanted.network == networks[i].Name {
					out = append(out, candidate{id: profile.ID, network: networks[i].Name})
				}
			}

			return out, err
		}}
}

func newVMData() datasource.DataSource {
	return &namedData{dataBase{typeName: "ovirt_vm"}, "VM",
		func(ctx context.Context, client *engine.Client, wanted wantedName) ([]candidate, error) {
			all, err := client.FindVMs(ctx, wanted.dc, wanted.name)

			return filterByName(all, wanted.name, func(vm engine.VM) (string, candidate) {
				return vm.Name, candidate{id: vm.ID}
			}), err
		}}
}

func newDiskData() datasource.DataSource {
	return &namedData{dataBase{typeName: "ovirt_disk"}, "disk",
		func(ctx context.Context, client *engine.Client, wanted wantedName) ([]candidate, error) {
			all, err := client.FindDisks(ctx, wanted.dc, wanted.name)

			return filterByName(all, wanted.name, func(d engine.Disk) (string, candidate) {
				return d.AliasText(), candidate{id: d.ID}
			}), err
		}}
}

func newTemplateData() datasource.DataSource {
	return &namedData{dataBase{typeName: "ovirt_template"}, "template",
		func(ctx context.Context, client *engine.Client, wanted wantedName) ([]candidate, error) {
			all, err := client.FindTemplates(ctx, wanted.dc, wanted.name)
			found := filterByName(all, wanted.name, func(t engine.Template) (string, candidate) {
				return t.Name, candidate{id: t.ID, version: t.Version.Number, isReady: t.Status == engine.TemplateOK}
			})

			return filterByVersion(found, wanted.version), err
		}}
}

// filterByName returns the items with this name.
func filterByName[T any](all []T, name string, of func(T) (string, candidate)) []candidate {
	var out []candidate

	for _, item := range all {
		if has, found := of(item); has == name {
			out = append(out, found)
		}
	}

	return out
}

// filterByVersion returns the templates of one version. For version 0, it returns the newest one usable for a VM.
func filterByVersion(found []candidate, version int) []candidate {
	if version == 0 {
		found = slices.DeleteFunc(found, func(c candidate) bool { return !c.isReady })
		if len(found) == 0 {
			return nil
		}

		version = slices.MaxFunc(found, func(a, b candidate) int { return cmp.Compare(a.version, b.version) }).version
	}

	return slices.DeleteFunc(found, func(c candidate) bool { return c.version != version })
}

func (d *namedData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	about := "Looks up the UUID of a " + d.kind + " by name. Fails unless exactly one matches."
	attributes := map[string]schema.Attribute{
		"id":   schema.StringAttribute{Computed: true, MarkdownDescription: "UUID of the " + d.kind + "."},
		"name": schema.StringAttribute{Required: true, MarkdownDescription: "Name of the " + d.kind + "."},
		"data_center": schema.StringAttribute{Optional: true,
			MarkdownDescription: "Name of the data center to search. If omitted, the whole engine is searched."},
	}

	switch d.typeName {
	case "ovirt_storage_domain":
		about += " The storage domain must be ready for new disks."
	case "ovirt_vnic_profile":
		attributes[networkAttribute] = schema.StringAttribute{Optional: true, Computed: true,
			MarkdownDescription: "Name of the profile's network. Required if several networks have a profile with " +
				"this name."}
	case "ovirt_template":
		attributes[versionAttribute] = schema.Int64Attribute{Optional: true, Computed: true,
			MarkdownDescription: "Version number. Defaults to the newest version that is ready. In that case, a " +
				"newer version replaces the VMs that take their `template_id` from this data source."}
	}

	resp.Schema = schema.Schema{
		MarkdownDescription: about + " Not available in `ovirt/ovirt`.",
		Attributes:          attributes,
	}
}

func (d *namedData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var name, dataCenter, network types.String

	var version types.Int64

	attributes := map[string]any{"name": &name, "data_center": &dataCenter}

	switch d.typeName {
	case "ovirt_vnic_profile":
		attributes[networkAttribute] = &network
	case "ovirt_template":
		attributes[versionAttribute] = &version
	}

	for attribute, value := range attributes {
		resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(attribute), value)...)
	}

	if resp.Diagnostics.HasError() {
		return
	}

	found, err := d.findByName(ctx, dataCenter.ValueString(), wantedName{
		name: name.ValueString(), network: network.ValueString(), version: int(version.ValueInt64()),
	})
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("name"), "The "+d.kind+" was not found", err.Error())
		return
	}

	network, version = types.StringValue(found.network), types.Int64Value(int64(found.version))

	resp.State.Raw = req.Config.Raw
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), toIDValue(found.id))...)

	for attribute, value := range attributes {
		if attribute == networkAttribute || attribute == versionAttribute {
			resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(attribute), value)...)
		}
	}
}

// findByName returns the one matching object.
func (d *namedData) findByName(ctx context.Context, dataCenter string, wanted wantedName) (*candidate, error) {
	if dataCenter != "" {
		dc, err := d.client.FindDataCenter(ctx, dataCenter)
		if err != nil {
			return nil, err
		}

		wanted.dc = dc
	}

	found, err := d.find(ctx, d.client, wanted)

	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fmt.Errorf("there is no %s named %q: check its name, and that the user can see it",
			d.kind, wanted.name)
	case len(found) == 1:
		return &found[0], nil
	}

	var all error
	for _, one := range found {
		all = errors.Join(all, errors.New(one.id.String()))
	}

	return nil, fmt.Errorf("more than one %s is named %q: set data_center, or network for a vNIC profile, or write "+
		"the UUID of one of these:\n%w", d.kind, wanted.name, all)
}
