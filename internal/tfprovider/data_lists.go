package tfprovider

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// This file has the data sources that read one list of the engine.

func dataID(description string) schema.StringAttribute {
	return schema.StringAttribute{Optional: true, Computed: true, MarkdownDescription: description}
}

func requiredID(description string) schema.StringAttribute {
	return schema.StringAttribute{
		Required:            true,
		MarkdownDescription: description,
		Validators:          []validator.String{uuid},
	}
}

// newObjectSet returns the attribute for a computed set of objects with text fields.
func newObjectSet(description string, fields ...string) schema.SetAttribute {
	object := map[string]attr.Type{}
	for _, field := range fields {
		object[field] = types.StringType
	}

	return schema.SetAttribute{
		Computed:            true,
		MarkdownDescription: description,
		ElementType:         types.ObjectType{AttrTypes: object},
	}
}

// ovirt_blank_template

func newBlankTemplateData() datasource.DataSource {
	return &blankTemplateData{dataBase{typeName: "ovirt_blank_template"}}
}

type blankTemplateData struct{ dataBase }

func (d *blankTemplateData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The blank template, which has no disks. It is found even if it was recreated with a " +
			"different UUID.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{Computed: true, MarkdownDescription: "UUID of the template."},
		},
	}
}

func (d *blankTemplateData) Read(ctx context.Context, _ datasource.ReadRequest, resp *datasource.ReadResponse) {
	var id engine.ID = engine.BlankTemplateID
	_, err := d.client.FetchTemplate(ctx, id)
	if engine.IsNotFound(err) {
		var named []engine.Template
		if named, err = d.client.FindTemplates(ctx, nil, "Blank"); err == nil {
			if len(named) == 0 {
				err = fmt.Errorf("the engine has no template %s and none named Blank", id)
			} else {
				id = named[0].ID
			}
		}
	}

	if err != nil {
		resp.Diagnostics.AddError("The blank template was not found", err.Error())
		return
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, &struct {
		ID types.String `tfsdk:"id"`
	}{toIDValue(id)})...)
}

// ovirt_affinity_group

func newAffinityGroupData() datasource.DataSource {
	return &affinityGroupData{dataBase{typeName: "ovirt_affinity_group"}}
}

type affinityGroupData struct{ dataBase }

type affinityGroupDataModel struct {
	ID        types.String `tfsdk:"id"`
	ClusterID types.String `tfsdk:"cluster_id"`
	Name      types.String `tfsdk:"name"`
}

func (d *affinityGroupData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Looks up an affinity group by name.",
		Attributes: map[string]schema.Attribute{
			"id":         dataID("UUID of the affinity group."),
			"cluster_id": requiredID("UUID of the cluster."),
			"name":       schema.StringAttribute{Required: true, MarkdownDescription: "Name of the affinity group."},
		},
	}
}

func (d *affinityGroupData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	model, ok := loadModel[affinityGroupDataModel](ctx, req.Config, &resp.Diagnostics)
	if !ok {
		return
	}

	groups, err := d.client.ListAffinityGroups(ctx, toID(model.ClusterID))
	at := slices.IndexFunc(groups, func(g engine.AffinityGroup) bool { return g.Name == model.Name.ValueString() })
	if err == nil && at < 0 {
		err = fmt.Errorf("cluster %s has no affinity group named %q", model.ClusterID.ValueString(),
			model.Name.ValueString())
	}

	if err != nil {
		resp.Diagnostics.AddError("The affinity group was not found", err.Error())
		return
	}

	model.ID = toIDValue(groups[at].ID)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// listData is a data source with a list of the engine: the objects of an owner.
type listData struct {
	dataBase
	about string
	// owner is the attribute with the owner's UUID or name. It is also the ID of the data source.
	owner          string
	ownerAttribute schema.StringAttribute
	idAbout        string
	// result is the attribute with the list, and fields are the attributes of each object.
	result, resultAbout string
	fields              []string
	// empty is the error of an empty list. Unless it is "", the attribute fail_on_empty asks for it.
	empty string
	// failure is the summary of errors.
	failure string
	// list returns the values of the fields, for each object.
	list func(ctx context.Context, client *engine.Client, owner string) ([][]string, error)
}

const failOnEmpty = "fail_on_empty"

func newClusterHostsData() datasource.DataSource {
	return &listData{
		dataBase: dataBase{typeName: "ovirt_cluster_hosts"}, about: "Lists the hosts of a cluster.",
		owner: "cluster_id", ownerAttribute: requiredID("UUID of the cluster."), idAbout: "UUID of the cluster.",
		result: "hosts", resultAbout: "UUID and status of each host.", fields: []string{"id", "status"},
		failure: "The hosts cannot be read",
		list: func(ctx context.Context, client *engine.Client, cluster string) ([][]string, error) {
			hosts, err := client.ListHosts(ctx)
			hosts = slices.DeleteFunc(slices.Clone(hosts), func(h engine.Host) bool {
				return engine.RefID(h.Cluster) != engine.ID(cluster)
			})

			return fieldsOf(hosts, func(h engine.Host) []string { return []string{h.ID.String(), h.Status} }), err
		},
	}
}

func newTemplatesData() datasource.DataSource {
	return &listData{
		dataBase: dataBase{typeName: "ovirt_templates"},
		about:    "Lists the templates with a given name: one for each data center and version.",
		owner:    "name", idAbout: "Same as `name`.",
		ownerAttribute: schema.StringAttribute{Required: true, MarkdownDescription: "Name of the templates."},
		result:         "templates", resultAbout: "UUID and description of each template.",
		fields: []string{"id", "description"},
		empty:  "the engine has no template named %q", failure: "The templates were not found",
		list: func(ctx context.Context, client *engine.Client, name string) ([][]string, error) {
			found, err := client.FindTemplates(ctx, nil, name)

			return fieldsOf(found, func(t engine.Template) []string {
				return []string{t.ID.String(), t.Description}
			}), err
		},
	}
}

func newDiskAttachmentsData() datasource.DataSource {
	return attachmentsData("ovirt_disk_attachments", "VM", "vm_id", "attachments",
		func(ctx context.Context, client *engine.Client, vm string) ([]engine.DiskAttachment, error) {
			return client.ListDiskAttachments(ctx, engine.ID(vm))
		})
}

func newTemplateDiskAttachmentsData() datasource.DataSource {
	return attachmentsData("ovirt_template_disk_attachments", "template", "template_id", "disk_attachments",
		func(ctx context.Context, client *engine.Client, template string) ([]engine.DiskAttachment, error) {
			return client.ListTemplateDiskAttachments(ctx, engine.ID(template))
		})
}

// attachmentsData returns a data source with the disks of a VM or template.
func attachmentsData(
	typeName, of, owner, result string,
	list func(ctx context.Context, client *engine.Client, owner string) ([]engine.DiskAttachment, error),
) datasource.DataSource {
	return &listData{
		dataBase: dataBase{typeName: typeName}, about: "Lists the disks of a " + of + ".",
		owner: owner, ownerAttribute: requiredID("UUID of the " + of + "."), idAbout: "UUID of the " + of + ".",
		result: result, resultAbout: "UUID, disk UUID and disk interface of each attachment.",
		fields:  []string{"id", "disk_id", "disk_interface"},
		failure: "The disks cannot be read",
		list: func(ctx context.Context, client *engine.Client, owner string) ([][]string, error) {
			found, err := list(ctx, client, owner)

			return fieldsOf(found, func(a engine.DiskAttachment) []string {
				return []string{a.ID.String(), a.DiskID().String(), a.Interface}
			}), err
		},
	}
}

// fieldsOf returns the fields of each object.
func fieldsOf[T any](objects []T, fields func(T) []string) [][]string {
	out := make([][]string, 0, len(objects))
	for i := range objects {
		out = append(out, fields(objects[i]))
	}

	return out
}

func (d *listData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: d.about,
		Attributes: map[string]schema.Attribute{
			"id":     dataID(d.idAbout),
			d.owner:  d.ownerAttribute,
			d.result: newObjectSet(d.resultAbout, d.fields...),
		},
	}
	if d.empty != "" {
		resp.Schema.Attributes[failOnEmpty] = schema.BoolAttribute{
			Optional: true, MarkdownDescription: "Whether to fail if no template has this name.",
		}
	}
}

func (d *listData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var owner types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(d.owner), &owner)...)

	var refuseEmpty types.Bool
	if d.empty != "" {
		resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(failOnEmpty), &refuseEmpty)...)
	}

	if resp.Diagnostics.HasError() {
		return
	}

	found, err := d.list(ctx, d.client, owner.ValueString())
	if err == nil && len(found) == 0 && refuseEmpty.ValueBool() {
		err = fmt.Errorf(d.empty, owner.ValueString())
	}

	if err != nil {
		resp.Diagnostics.AddError(d.failure, err.Error())
		return
	}

	resp.State.Raw = req.Config.Raw
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), owner)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(d.result), d.objectSet(found))...)
}

// objectSet returns the set of objects with these values of the fields.
func (d *listData) objectSet(found [][]string) types.Set {
	kind := map[string]attr.Type{}
	for _, field := range d.fields {
		kind[field] = types.StringType
	}

	out := make([]attr.Value, 0, len(found))

	for _, row := range found {
		values := map[string]attr.Value{}
		for i, field := range d.fields {
			values[field] = types.StringValue(row[i])
		}

		out = append(out, types.ObjectValueMust(kind, values))
	}

	return types.SetValueMust(types.ObjectType{AttrTypes: kind}, out)
}
