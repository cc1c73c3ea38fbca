package tfprovider

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/list/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// ListResources implements provider.ProviderWithListResources.
func (p *ovirtProvider) ListResources(context.Context) []func() list.ListResource {
	return []func() list.ListResource{
		func() list.ListResource { return &listed{construct: newVMResource, typeName: "ovirt_vm", all: listVMs} },
		func() list.ListResource {
			return &listed{construct: newDiskResource, typeName: "ovirt_disk", all: listDisks}
		},
		func() list.ListResource {
			return &listed{construct: newTagResource, typeName: "ovirt_tag", all: listTags}
		},
		func() list.ListResource {
			return &listed{construct: newTemplateResource, typeName: "ovirt_template", all: listTemplates}
		},
	}
}

// listedObject is an object in a list. Its UUID is its identity.
type listedObject struct {
	id   engine.ID
	name string
}

// listed lists the objects of a resource for terraform query.
type listed struct {
	*configured
	construct func() resource.Resource
	typeName  string
	all       func(ctx context.Context, client *engine.Client) ([]listedObject, error)
}

var _ list.ListResourceWithConfigure = (*listed)(nil)

// Metadata implements list.ListResource.
func (l *listed) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = l.typeName
}

// ListResourceConfigSchema implements list.ListResource.
func (l *listed) ListResourceConfigSchema(
	_ context.Context, _ list.ListResourceSchemaRequest, resp *list.ListResourceSchemaResponse,
) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Lists existing objects that can be imported as `" + l.typeName +
			"` and are visible to the user.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{Optional: true,
				MarkdownDescription: "Exact name of the objects to list. If omitted, all objects are listed."},
		},
	}
}

// Configure implements list.ListResourceWithConfigure.
func (l *listed) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	l.configured = getConfigured(req.ProviderData, &resp.Diagnostics)
}

// List implements list.ListResource.
func (l *listed) List(ctx context.Context, req list.ListRequest, stream *list.ListResultsStream) {
	var name types.String
	diags := req.Config.GetAttribute(ctx, path.Root("name"), &name)

	all, err := l.all(ctx, l.client)
	if err != nil {
		diags.AddError("The objects cannot be listed", err.Error())
	}

	if diags.HasError() {
		stream.Results = list.ListResultsStreamDiagnostics(diags)
		return
	}

	stream.Results = func(push func(list.ListResult) bool) {
		count := int64(0)

		for _, object := range all {
			if !name.IsNull() && object.name != name.ValueString() {
				continue
			}

			if count++; req.Limit > 0 && count > req.Limit || !push(l.buildResult(ctx, req, object)) {
				return
			}
		}
	}
}

// buildResult returns the result for an object. If the request asks for the resource, it reads the object like an
// import.
func (l *listed) buildResult(ctx context.Context, req list.ListRequest, object listedObject) list.ListResult {
	out := req.NewListResult(ctx)
	out.DisplayName = object.name
	out.Diagnostics.Append(out.Identity.SetAttribute(ctx, path.Root("id"), object.id.String())...)
	if !req.IncludeResource {
		return out
	}

	reader := l.construct()
	if of, ok := reader.(resource.ResourceWithConfigure); ok {
		of.Configure(ctx, resource.ConfigureRequest{ProviderData: l.configured}, &resource.ConfigureResponse{})
	}

	var made resource.SchemaResponse
	reader.Schema(ctx, resource.SchemaRequest{}, &made)
	state := tfsdk.State{Raw: out.Resource.Raw, Schema: made.Schema}
	out.Diagnostics.Append(state.SetAttribute(ctx, path.Root("id"), object.id.String())...)

	read := resource.ReadResponse{State: state}
	reader.Read(ctx, resource.ReadRequest{State: state}, &read)
	out.Diagnostics.Append(read.Diagnostics...)
	out.Resource.Raw = read.State.Raw

	return out
}

func listVMs(ctx context.Context, client *engine.Client) ([]listedObject, error) {
	all, err := client.ListVMs(ctx)
	return toListedObjects(all, func(vm engine.VM) listedObject { return listedObject{vm.ID, vm.Name} }), err
}

// listDisks omits the disks of templates, and their copies in VMs, because they belong to their owners.
func listDisks(ctx context.Context, client *engine.Client) ([]listedObject, error) {
	all, err := client.ListDisks(ctx)
	if err == nil {
		all, err = client.ExcludeTemplateCopies(ctx, all)
	}

	return toListedObjects(all, func(d engine.Disk) listedObject { return listedObject{d.ID, d.AliasText()} }), err
}

func listTags(ctx context.Context, client *engine.Client) ([]listedObject, error) {
	all, err := client.ListTags(ctx)
	all = slices.DeleteFunc(all, func(tag engine.Tag) bool { return tag.ID == engine.RootTagID })

	return toListedObjects(all, func(tag engine.Tag) listedObject { return listedObject{tag.ID, tag.Name} }), err
}

func listTemplates(ctx context.Context, client *engine.Client) ([]listedObject, error) {
	all, err := client.ListTemplates(ctx)
	all = slices.DeleteFunc(all, func(t engine.Template) bool { return t.ID == engine.BlankTemplateID })

	return toListedObjects(all, func(t engine.Template) listedObject { return listedObject{t.ID, t.Name} }), err
}

// toListedObjects converts objects of the engine into a list.
func toListedObjects[T any](all []T, of func(T) listedObject) []listedObject {
	out := make([]listedObject, 0, len(all))
	for _, one := range all {
		out = append(out, of(one))
	}

	return out
}
