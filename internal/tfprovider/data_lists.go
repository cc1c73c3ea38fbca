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

// This file has the data sources backed by one list of the engine.

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

// setOf returns the attribute for a computed set of objects with text fields.
func setOf(description string, fields ...string) schema.SetAttribute {
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
		MarkdownDescription: "The template without disks, also where it was deleted and made again under another UUID.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{Computed: true, MarkdownDescription: "UUID of the template."},
		},
	}
}

func (d *blankTemplateData) Read(ctx context.Context, _ datasource.ReadRequest, resp *datasource.ReadResponse) {
	var id engine.ID = engine.BlankTemplateID
	_, err := d.client.TemplateByID(ctx, id)
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
	}{idValue(id)})...)
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
		MarkdownDescription: "An affinity group by its name.",
		Attributes: map[string]schema.Attribute{
			"id":         dataID("UUID of the affinity group."),
			"cluster_id": requiredID("UUID of the cluster."),
			"name":       schema.StringAttribute{Required: true, MarkdownDescription: "Name of the affinity group."},
		},
	}
}

func (d *affinityGroupData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	model, ok := load[affinityGroupDataModel](ctx, req.Config, &resp.Diagnostics)
	if !ok {
		return
	}

	groups, err := d.client.AffinityGroups(ctx, idOf(model.ClusterID))
	at := slices.IndexFunc(groups, func(g engine.AffinityGroup) bool { return g.Name == model.Name.ValueString() })
	if err == nil && at < 0 {
		err = fmt.Errorf("cluster %s has no affinity group named %q", model.ClusterID.ValueString(),
			model.Name.ValueString())
	}

	if err != nil {
		resp.Diagnostics.AddError("The affinity group was not found", err.Error())
		return
	}

	model.ID = idValue(groups[at].ID)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// ovirt_cluster_hosts

func newClusterHostsData() datasource.DataSource {
	return &clusterHostsData{dataBase{typeName: "ovirt_cluster_hosts"}}
}

type clusterHostsData struct{ dataBase }

type clusterHostsModel struct {
	ID        types.String `tfsdk:"id"`
	ClusterID types.String `tfsdk:"cluster_id"`
	Hosts     []hostModel  `tfsdk:"hosts"`
}

type hostModel struct {
	ID     string `tfsdk:"id"`
	Status string `tfsdk:"status"`
}

func (d *clusterHostsData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The hosts of a cluster.",
		Attributes: map[string]schema.Attribute{
			"id":         dataID("UUID of the cluster."),
			"cluster_id": requiredID("UUID of the cluster."),
			"hosts":      setOf("UUIDs and statuses of the hosts.", "id", "status"),
		},
	}
}

func (d *clusterHostsData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	model, ok := load[clusterHostsModel](ctx, req.Config, &resp.Diagnostics)
	if !ok {
		return
	}

	hosts, err := d.client.Hosts(ctx)
	if err != nil {
		resp.Diagnostics.AddError("The hosts cannot be read", err.Error())
		return
	}

	model.ID, model.Hosts = model.ClusterID, []hostModel{}
	for _, host := range hosts {
		if engine.RefID(host.Cluster) == idOf(model.ClusterID) {
			model.Hosts = append(model.Hosts, hostModel{ID: host.ID.String(), Status: host.Status})
		}
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// ovirt_templates

func newTemplatesData() datasource.DataSource {
	return &templatesData{dataBase{typeName: "ovirt_templates"}}
}

type templatesData struct{ dataBase }

type templatesModel struct {
	ID          types.String         `tfsdk:"id"`
	Name        types.String         `tfsdk:"name"`
	FailOnEmpty types.Bool           `tfsdk:"fail_on_empty"`
	Templates   []foundTemplateModel `tfsdk:"templates"`
}

type foundTemplateModel struct {
	ID          string `tfsdk:"id"`
	Description string `tfsdk:"description"`
}

func (d *templatesData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The templates of a name: one for each data center and version.",
		Attributes: map[string]schema.Attribute{
			"id":            dataID("The name."),
			"name":          schema.StringAttribute{Required: true, MarkdownDescription: "Name of the templates."},
			"fail_on_empty": schema.BoolAttribute{Optional: true, MarkdownDescription: "Fail where there is none."},
			"templates":     setOf("UUIDs and descriptions of the templates.", "id", "description"),
		},
	}
}

func (d *templatesData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	model, ok := load[templatesModel](ctx, req.Config, &resp.Diagnostics)
	if !ok {
		return
	}

	found, err := d.client.FindTemplates(ctx, nil, model.Name.ValueString())
	if err == nil && len(found) == 0 && model.FailOnEmpty.ValueBool() {
		err = fmt.Errorf("the engine has no template named %q", model.Name.ValueString())
	}

	if err != nil {
		resp.Diagnostics.AddError("The templates were not found", err.Error())
		return
	}

	model.ID, model.Templates = model.Name, []foundTemplateModel{}
	for _, t := range found {
		model.Templates = append(model.Templates, foundTemplateModel{ID: t.ID.String(), Description: t.Description})
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// ovirt_disk_attachments and ovirt_template_disk_attachments

type attachmentsData struct {
	dataBase
	// owner is the attribute naming the owner of the attachments. result is the attribute listing them.
	owner, result, about string
	list                 func(ctx context.Context, client *engine.Client, owner engine.ID) ([]engine.DiskAttachment,
		error)
}

func newDiskAttachmentsData() datasource.DataSource {
	return &attachmentsData{dataBase{typeName: "ovirt_disk_attachments"}, "vm_id", "attachments", "VM",
		func(ctx context.Context, client *engine.Client, owner engine.ID) ([]engine.DiskAttachment, error) {
			return client.DiskAttachments(ctx, owner)
		}}
}

func newTemplateDiskAttachmentsData() datasource.DataSource {
	return &attachmentsData{dataBase{
		typeName: "ovirt_template_disk_attachments",
	}, "template_id", "disk_attachments", "template",
		func(ctx context.Context, client *engine.Client, owner engine.ID) ([]engine.DiskAttachment, error) {
			return client.TemplateDiskAttachments(ctx, owner)
		}}
}

func (d *attachmentsData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The disks of a " + d.about + ".",
		Attributes: map[string]schema.Attribute{
			"id":    dataID("UUID of the " + d.about + "."),
			d.owner: requiredID("UUID of the " + d.about + "."),
			d.result: setOf("UUIDs of the attachments and of their disks, and the interfaces.", "id", "disk_id",
				"disk_interface"),
		},
	}
}

func (d *attachmentsData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var owner types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(d.owner), &owner)...)
	if resp.Diagnostics.HasError() {
		return
	}

	attachments, err := d.list(ctx, d.client, idOf(owner))
	if err != nil {
		resp.Diagnostics.AddError("The disks cannot be read", err.Error())
		return
	}

	type item struct {
		ID        string `tfsdk:"id"`
		DiskID    string `tfsdk:"disk_id"`
		Interface string `tfsdk:"disk_interface"`
	}
	items := []item{}

	for i := range attachments {
		a := &attachments[i]
		items = append(items, item{ID: a.ID.String(), DiskID: a.DiskID().String(), Interface: a.Interface})
	}

	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), owner)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(d.owner), owner)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(d.result), items)...)
}
