package tfprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// EphemeralResources implements provider.ProviderWithEphemeralResources.
func (p *ovirtProvider) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{
		func() ephemeral.EphemeralResource { return &tokenEphemeral{} },
		func() ephemeral.EphemeralResource { return &consoleEphemeral{} },
	}
}

var (
	_ ephemeral.EphemeralResourceWithConfigure = (*tokenEphemeral)(nil)
	_ ephemeral.EphemeralResourceWithConfigure = (*consoleEphemeral)(nil)
)

// ephemeralBase holds the provider's session.
type ephemeralBase struct{ *configured }

// Configure implements ephemeral.EphemeralResourceWithConfigure.
func (e *ephemeralBase) Configure(
	_ context.Context, req ephemeral.ConfigureRequest, resp *ephemeral.ConfigureResponse,
) {
	e.configured = getConfigured(req.ProviderData, &resp.Diagnostics)
}

// tokenEphemeral returns the token of the provider's session.
type tokenEphemeral struct{ ephemeralBase }

// Metadata implements ephemeral.EphemeralResource.
func (e *tokenEphemeral) Metadata(_ context.Context, _ ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = "ovirt_token"
}

// Schema implements ephemeral.EphemeralResource.
func (e *tokenEphemeral) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Token of the provider's session on the engine, for other programs in the same run, " +
			"such as another provider that calls the API. The token expires at the end of the run and grants all " +
			"permissions of the user. Not available in `ovirt/ovirt`.",
		Attributes: map[string]schema.Attribute{
			"url": schema.StringAttribute{Computed: true, MarkdownDescription: "URL of the engine's API."},
			"token": schema.StringAttribute{Computed: true, Sensitive: true,
				MarkdownDescription: "Token for the header `Authorization: Bearer`."},
		},
	}
}

// Open implements ephemeral.EphemeralResource.
func (e *tokenEphemeral) Open(ctx context.Context, _ ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	token, err := e.client.ShareToken(ctx, "")
	if err != nil {
		resp.Diagnostics.AddError("There is no token", err.Error())
		return
	}

	resp.Diagnostics.Append(resp.Result.Set(ctx, struct {
		URL   types.String `tfsdk:"url"`
		Token types.String `tfsdk:"token"`
	}{types.StringValue(e.client.APIURL()), types.StringValue(token)})...)
}

// consoleEphemeral returns the connection file for the graphics console of a VM.
type consoleEphemeral struct{ ephemeralBase }

// Metadata implements ephemeral.EphemeralResource.
func (e *consoleEphemeral) Metadata(_ context.Context, _ ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = "ovirt_vm_console"
}

// Schema implements ephemeral.EphemeralResource.
func (e *consoleEphemeral) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Connection file that opens the graphics console of a running VM in virt-viewer. The " +
			"file contains a ticket that is valid for a few minutes. Not available in `ovirt/ovirt`.",
		Attributes: map[string]schema.Attribute{
			"vm_id": schema.StringAttribute{Required: true, MarkdownDescription: "UUID of the VM.",
				Validators: []validator.String{uuid}},
			"viewer_file": schema.StringAttribute{Computed: true, Sensitive: true,
				MarkdownDescription: "Content of the connection file."},
		},
	}
}

// Open implements ephemeral.EphemeralResource.
func (e *consoleEphemeral) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	var model struct {
		VMID types.String `tfsdk:"vm_id"`
		File types.String `tfsdk:"viewer_file"`
	}
	if resp.Diagnostics.Append(req.Config.Get(ctx, &model)...); resp.Diagnostics.HasError() {
		return
	}

	file, err := e.client.FetchViewerFile(ctx, toID(model.VMID))
	if err != nil {
		resp.Diagnostics.AddError("There is no way to the console", err.Error())
		return
	}

	model.File = types.StringValue(file)
	resp.Diagnostics.Append(resp.Result.Set(ctx, model)...)
}
