package tfprovider

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

// Address is the provider's address in the registry. Configurations name it as the source.
const Address = "registry.terraform.io/ovirt/ovirt"

// Version returns the provider version of this build. Its schema extends the released 2.2.
func Version() string { return version.FormatProvider(version.Version) }

// Options configure an in-process provider beyond its Terraform configuration.
type Options struct {
	// Sessions shares logins with the rest of the process. If nil, the provider has its own.
	Sessions *engine.Sessions
	// Session replaces a login with the credentials of the configuration. If nil, the provider logs in.
	Session *engine.Client
	// ReturnOnStart ends ovirt_vm_start as soon as the engine accepts the start. It is for callers that watch the VM
	// themselves. Otherwise, ovirt_vm_start waits until the VM is up, like the released provider.
	ReturnOnStart bool
	// Owner is the mark of the object the run creates things for. The provider writes it in the descriptions of disks,
	// because they have no attribute for it. It neither reads nor changes objects with another mark. Owner may be
	// empty.
	Owner string
	// StateVMs are the IDs of the VMs in the state of the run. If a VM belongs to the owner, so do its disks.
	StateVMs []string
	// Types are the types of resources and data sources that the provider serves. If nil, it serves all.
	Types []string
	// Engine is the only engine a configuration may name. If nil, it may name any engine.
	Engine *Engine
	// Approved is called before every change. An error prevents the change. If nil, all changes are approved.
	Approved func(ctx context.Context) error
	// Fence is called before and after the creation of a disk, because disk names are not unique in the engine. An
	// error before it prevents the creation. After it, engine.ErrSuperseded removes the disk. If nil, there is no
	// check.
	Fence func(ctx context.Context) error
}

// Engine describes the connection to an engine: the URL of its API, its CA in PEM, and whether to skip the verification
// of its certificate. An empty CA means the system's trust store.
type Engine struct {
	URL, CA  string
	Insecure bool
}

var (
	_ provider.ProviderWithActions            = (*ovirtProvider)(nil)
	_ provider.ProviderWithEphemeralResources = (*ovirtProvider)(nil)
	_ provider.ProviderWithFunctions          = (*ovirtProvider)(nil)
	_ provider.ProviderWithListResources      = (*ovirtProvider)(nil)
)

// New returns the provider.
func New(options Options) provider.Provider {
	if options.Sessions == nil {
		options.Sessions = &engine.Sessions{}
	}

	return &ovirtProvider{options: options}
}

type ovirtProvider struct {
	options Options
	// session is the session with the engine, or nil before Configure.
	session atomic.Pointer[engine.Client]
}

// configured holds the provider's data for its resources.
type configured struct {
	client        *engine.Client
	returnOnStart bool
	owner         string
	fence         func(ctx context.Context) error
	made          *madeNow
	// recovers allows states without an ID: see keepUnanswered. The manager does not need them, because it finds its
	// objects by their marks.
	recovers bool
}

type providerModel struct {
	URL          types.String `tfsdk:"url"`
	Username     types.String `tfsdk:"username"`
	Password     types.String `tfsdk:"password"`
	TLSInsecure  types.Bool   `tfsdk:"tls_insecure"`
	TLSSystem    types.Bool   `tfsdk:"tls_system"`
	TLSCABundle  types.String `tfsdk:"tls_ca_bundle"`
	TLSCAFiles   types.List   `tfsdk:"tls_ca_files"`
	TLSCADirs    types.List   `tfsdk:"tls_ca_dirs"`
	Mock         types.Bool   `tfsdk:"mock"`
	ExtraHeaders types.Map    `tfsdk:"extra_headers"`
	Filter       types.Bool   `tfsdk:"filter"`
}

func (p *ovirtProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = "ovirt", Version()
}

func (p *ovirtProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Manages virtual machines on an oVirt engine or Oracle Linux Virtualization Manager. " +
			"The provider replaces the released provider `ovirt/ovirt` 2.2.0 and is compatible with its " +
			"configurations and states. Resources and arguments marked as not available in `ovirt/ovirt` do not " +
			"exist in that release.",
		Attributes: map[string]schema.Attribute{
			"url": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "URL of the engine's API, such as " +
					"`https://engine.example.com/ovirt-engine/api`. " + describeVariable("OVIRT_URL"),
			},
			"username": schema.StringAttribute{Optional: true,
				MarkdownDescription: "User name with its domain, such as `admin@internal`, or " +
					"`admin@ovirt@internalsso` for an engine with Keycloak. " + describeVariable("OVIRT_USERNAME")},
			"password": schema.StringAttribute{Optional: true, Sensitive: true,
				MarkdownDescription: "Password of the user. " + describeVariable("OVIRT_PASSWORD")},
			"tls_insecure": schema.BoolAttribute{
				Optional: true,
				MarkdownDescription: "Whether to skip the verification of the engine's certificate. Conflicts with " +
					"the other `tls_` arguments. " + describeVariable("OVIRT_TLS_INSECURE"),
			},
			"tls_system": schema.BoolAttribute{Optional: true,
				MarkdownDescription: "Whether to verify the engine's certificate with the system's trust store. " +
					describeVariable("OVIRT_TLS_SYSTEM")},
			"tls_ca_bundle": schema.StringAttribute{Optional: true,
				MarkdownDescription: "PEM certificates of the CA that signed the engine's certificate. " +
					describeVariable("OVIRT_TLS_CA_BUNDLE")},
			"tls_ca_files": schema.ListAttribute{Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Paths of files with PEM certificates of the CA. " +
					describeVariable("OVIRT_TLS_CA_FILES") + " Separate multiple paths in the variable with colons."},
			"tls_ca_dirs": schema.ListAttribute{Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Directories that contain files with PEM certificates of the CA. " +
					describeVariable("OVIRT_TLS_CA_DIRS") + " Separate multiple paths in the variable with colons."},
			"mock": schema.BoolAttribute{Optional: true,
				MarkdownDescription: "Accepted for compatibility, but setting it to `true` is an error. Use " +
					"`ovirtsim` instead."},
			"extra_headers": schema.MapAttribute{Optional: true, ElementType: types.StringType,
				MarkdownDescription: "HTTP headers to send with each API request. `ovirt/ovirt` does not send them. " +
					"Headers that the provider sets itself are rejected."},
			"filter": schema.BoolAttribute{Optional: true,
				MarkdownDescription: "Whether to request only the objects that the user has permissions for. Set it " +
					"to `true` for users without an administrator role; otherwise, the engine rejects their " +
					"requests. These users cannot see tags or affinity groups. " + describeVariable("OVIRT_FILTER") +
					" Not available in `ovirt/ovirt`."},
		},
	}
}

func (p *ovirtProvider) Configure(
	ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse,
) {
	var model providerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}

	if model.isUnknown(req, resp) {
		return
	}

	if p.options.Engine == nil { // runs must not use the environment of the manager
		model.fillFromEnvironment(os.Getenv, &resp.Diagnostics)
	}

	model.checkRequired(&resp.Diagnostics)
	model.checkEngine(p.options.Engine, &resp.Diagnostics)
	headers := model.parseHeaders(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}

	ca, err := model.readCertificates(ctx)
	if err != nil {
		resp.Diagnostics.AddError("The CA cannot be read", err.Error())
		return
	}

	model.checkTLS(len(ca) > 0, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}

	client, err := p.getSession(&model, ca, headers)
	if err != nil {
		resp.Diagnostics.AddError("The engine cannot be used", err.Error())
		return
	}

	p.session.Store(client)
	resp.ResourceData = &configured{
		client:        client,
		returnOnStart: p.options.ReturnOnStart,
		owner:         p.options.Owner,
		fence:         p.options.Fence,
		made:          &madeNow{},
		recovers:      p.options.Types == nil && p.options.Owner == "",
	}
	resp.DataSourceData, resp.EphemeralResourceData = resp.ResourceData, resp.ResourceData
	resp.ListResourceData, resp.ActionData = resp.ResourceData, resp.ResourceData
}

// getSession returns the session with the engine of the provider block. It sends no request.
func (p *ovirtProvider) getSession(m *providerModel, ca []byte, headers map[string]string) (*engine.Client, error) {
	if p.options.Session != nil {
		return p.options.Session, nil
	}

	return p.options.Sessions.Get(engine.Config{
		URL:      m.URL.ValueString(),
		Username: m.Username.ValueString(),
		Password: m.Password.ValueString(),
		CA:       ca,
		Insecure: m.TLSInsecure.ValueBool(),
		Filtered: m.Filter.ValueBool(),
		Headers:  headers,
	})
}

// checkRequired reports missing attributes and attributes that this provider does not support.
func (m *providerModel) checkRequired(diags *diag.Diagnostics) {
	if m.Mock.ValueBool() {
		diags.AddAttributeError(path.Root("mock"), "mock is not supported",
			"Run ovirtsim and point url at it: it is a whole engine, and it keeps its VMs between runs.")
		return
	}

	for name, value := range map[string]types.String{
		"url":      m.URL,
		"username": m.Username,
		"password": m.Password,
	} {
		if value.ValueString() == "" {
			diags.AddAttributeError(path.Root(name), name+" is required",
				"Set "+name+" in the provider block, or OVIRT_"+strings.ToUpper(name)+" in the environment.")
		}
	}
}

// checkEngine checks whether a configuration names the only allowed engine, and connects to it in the only allowed way.
// So the configuration can neither read files nor send passwords elsewhere. If only is nil, it allows everything.
func (m *providerModel) checkEngine(only *Engine, diags *diag.Diagnostics) {
	if only == nil {
		return
	}

	const remedy = "The run is for the engine %s alone. This is a bug of Cluster API Provider OLVM: please report it."

	for name, wrong := range map[string]bool{
		"url":           m.URL.ValueString() != only.URL,
		"tls_insecure":  m.TLSInsecure.ValueBool() != only.Insecure,
		"tls_system":    m.TLSSystem.ValueBool() && (only.Insecure || only.CA != ""),
		"tls_ca_bundle": !only.Insecure && m.TLSCABundle.ValueString() != only.CA,
		"tls_ca_files":  !m.TLSCAFiles.IsNull(),
		"tls_ca_dirs":   !m.TLSCADirs.IsNull(),
		"extra_headers": !m.ExtraHeaders.IsNull(),
		"filter":        !m.Filter.IsNull(),
	} {
		if wrong {
			diags.AddAttributeError(path.Root(name), name+" is not that of the run", fmt.Sprintf(remedy, only.URL))
		}
	}
}

// checkTLS checks that the configuration has exactly one way of trusting the engine. withCA reports whether it has
// certificates.
func (m *providerModel) checkTLS(withCA bool, diags *diag.Diagnostics) {
	insecure, verified := m.TLSInsecure.ValueBool(), withCA || m.TLSSystem.ValueBool()

	switch {
	case insecure && verified:
		diags.AddAttributeError(path.Root("tls_insecure"), "tls_insecure cannot be combined with other tls_ options",
			"Remove tls_insecure to verify the engine's certificate.")
	case !insecure && !verified:
		diags.AddError("No tls_ option is set", "Set one of tls_ca_bundle, tls_ca_files, tls_ca_dirs, tls_system.")
	}
}

// readCertificates returns the certificates of all tls_ca_ options.
func (m *providerModel) readCertificates(ctx context.Context) ([]byte, error) {
	var bundle bytes.Buffer
	if text := m.TLSCABundle.ValueString(); text != "" {
		bundle.WriteString(text)
	}

	var files, dirs []string
	m.TLSCAFiles.ElementsAs(ctx, &files, true)
	m.TLSCADirs.ElementsAs(ctx, &dirs, true)

	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("tls_ca_dirs: %w", err)
		}

		for _, entry := range entries {
			if !entry.IsDir() {
				files = append(files, filepath.Join(dir, entry.Name()))
			}
		}
	}

	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("tls_ca_files: %w", err)
		}

		bundle.WriteString("\n")
		bundle.Write(content)
	}

	return bundle.Bytes(), nil
}

// Resources implements provider.Provider. Restricted runs have no identities, because they never import by identity.
func (p *ovirtProvider) Resources(context.Context) []func() resource.Resource {
	all := resourceConstructors()
	if p.options.Types != nil {
		return all
	}

	for i, construct := range all {
		all[i] = withIdentity(construct)
	}

	return all
}

func resourceConstructors() []func() resource.Resource {
	return []func() resource.Resource{
		newAdoptedVMResource,
		newAffinityGroupResource,
		newAffinityLabelResource,
		newDiskResource,
		newDiskAttachmentResource,
		newDiskAttachmentsResource,
		newDiskFromImageResource,
		newDiskResizeResource,
		newHostAffinityLabelResource,
		newNICResource,
		newPermissionResource,
		newTagResource,
		newTemplateResource,
		newVMResource,
		newVMAffinityGroupResource,
		newVMAffinityLabelResource,
		newVMCDROMResource,
		newVMDisksResizeResource,
		newVMGraphicsConsolesResource,
		newVMHostDeviceResource,
		newVMMediatedDeviceResource,
		newVMOptimizeCPUResource,
		newVMSnapshotResource,
		newVMStartResource,
		newVMTagResource,
		newVMTemplateNICsResource,
		newVMWatchdogResource,
	}
}

func (p *ovirtProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{
		newAffinityGroupData,
		newBlankTemplateData,
		newClusterData,
		newClusterHostsData,
		newDiskAttachmentsData,
		newDiskData,
		newHostData,
		newStorageDomainData,
		newTemplateData,
		newTemplateDiskAttachmentsData,
		newTemplatesData,
		newVMData,
		newVNICProfileData,
		newWaitForIPData,
	}
}
