package tfprovider

import (
	"context"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// Actions implements provider.ProviderWithActions.
func (p *ovirtProvider) Actions(context.Context) []func() action.Action {
	all := []vmAction{startAction, stopAction, rebootAction, migrateAction, snapshotAction}
	out := make([]func() action.Action, 0, len(all))

	for _, kind := range all {
		out = append(out, func() action.Action {
			made := kind
			return &made
		})
	}

	return out
}

// vmAction is a Terraform action on a VM. It stores no state.
type vmAction struct {
	*configured
	typeName, description string
	// attributes are the attributes of the action, except vm_id.
	attributes map[string]schema.Attribute
	// isInstant reports whether the action ends without a wait. Such an action needs no timeout.
	isInstant bool
	// run performs the action. It adds warnings to diags, and returns an error if the action fails.
	run func(ctx context.Context, client *engine.Client, id engine.ID, config tfsdk.Config,
		diags *diag.Diagnostics) error
}

var _ action.ActionWithConfigure = (*vmAction)(nil)

// Metadata implements action.Action.
func (a *vmAction) Metadata(_ context.Context, _ action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = a.typeName
}

// Schema implements action.Action.
func (a *vmAction) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	attributes := map[string]schema.Attribute{
		"vm_id": schema.StringAttribute{Required: true, MarkdownDescription: "UUID of the VM.",
			Validators: []validator.String{uuid}},
	}
	maps.Copy(attributes, a.attributes)
	if !a.isInstant {
		attributes[timeoutAttribute] = actionTimeout
	}

	resp.Schema = schema.Schema{MarkdownDescription: a.description, Attributes: attributes}
}

// Configure implements action.ActionWithConfigure.
func (a *vmAction) Configure(_ context.Context, req action.ConfigureRequest, resp *action.ConfigureResponse) {
	a.configured = getConfigured(req.ProviderData, &resp.Diagnostics)
}

// Invoke implements action.Action.
func (a *vmAction) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var vmID types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("vm_id"), &vmID)...)
	if resp.Diagnostics.HasError() {
		return
	}

	ctx, cancel := withTimeout(ctx, getText(ctx, req.Config, timeoutAttribute))
	defer cancel()

	resp.SendProgress(action.InvokeProgressEvent{Message: a.typeName + " of VM " + vmID.ValueString()})

	if err := a.run(ctx, a.client, toID(vmID), req.Config, &resp.Diagnostics); err != nil {
		resp.Diagnostics.AddError("The action "+a.typeName+" failed",
			a.client.ExplainMissing(ctx, toID(vmID), err).Error())
	}
}

// getFlag returns a boolean attribute of a configuration, or false if the attribute is not set.
func getFlag(ctx context.Context, config tfsdk.Config, name string) bool {
	var value types.Bool
	_ = config.GetAttribute(ctx, path.Root(name), &value) // the schema has it

	return value.ValueBool()
}

// getText returns a text attribute of a configuration, a plan or a state, or "" if the attribute is not set.
func getText(ctx context.Context, source attributeReader, name string) string {
	var value types.String
	_ = source.GetAttribute(ctx, path.Root(name), &value) // the schema has it

	return value.ValueString()
}

// timeoutAttribute is the attribute that limits the duration of an action.
const timeoutAttribute = "timeout"

// actionTimeout is the schema of timeoutAttribute.
var actionTimeout = schema.StringAttribute{
	Optional: true,
	MarkdownDescription: "Maximum duration of the action, such as `30m` or `1h30m`. Defaults to `" +
		formatDuration(engine.WaitLimit) + "`.",
	Validators: []validator.String{isDuration},
}

var startAction = vmAction{
	typeName:    "ovirt_vm_start",
	description: "Starts or resumes a virtual machine, and waits until it is up. Does nothing if the VM is already up.",
	run: func(ctx context.Context, client *engine.Client, id engine.ID, _ tfsdk.Config,
		_ *diag.Diagnostics) error {
		start := vmStartResource{base{configured: &configured{client: client}}}
		return start.startAndWait(ctx, id, false)
	},
}

var stopAction = vmAction{
	typeName: "ovirt_vm_stop",
	description: "Asks the guest to shut down, and waits until the virtual machine is down. Repeats the request if " +
		"the guest missed it.",
	attributes: map[string]schema.Attribute{
		"power_off": schema.BoolAttribute{Optional: true,
			MarkdownDescription: "Whether to power off the VM without asking the guest."},
		"force": schema.BoolAttribute{Optional: true,
			MarkdownDescription: "Whether to stop the VM even during a backup."},
	},
	run: func(ctx context.Context, client *engine.Client, id engine.ID, config tfsdk.Config,
		_ *diag.Diagnostics) error {
		if _, err := client.FetchVM(ctx, id); err != nil {
			return err
		}

		return powerOff(ctx, client, id, !getFlag(ctx, config, "power_off"), getFlag(ctx, config, "force"))
	},
}

var rebootAction = vmAction{
	typeName: "ovirt_vm_reboot",
	description: "Asks the guest to reboot. Does not wait, because the engine does not report whether the guest " +
		"rebooted or ignored the request.",
	isInstant: true,
	run: func(ctx context.Context, client *engine.Client, id engine.ID, _ tfsdk.Config,
		_ *diag.Diagnostics) error {
		return client.RebootVM(ctx, id)
	},
}

var migrateAction = vmAction{
	typeName: "ovirt_vm_migrate",
	description: "Migrates a running virtual machine to another host, and waits until it runs there. A successful " +
		"migration has not been recorded on a real engine yet.",
	attributes: map[string]schema.Attribute{
		"host_id": schema.StringAttribute{Optional: true, Validators: []validator.String{uuid},
			MarkdownDescription: "UUID of the destination host. The engine chooses a host if omitted."},
	},
	run: func(ctx context.Context, client *engine.Client, id engine.ID, config tfsdk.Config,
		_ *diag.Diagnostics) error {
		move := migration{client: client, id: id, to: engine.ID(getText(ctx, config, "host_id"))}
		return pollEngine(ctx, "VM "+id.String()+" to run on another host", move.migrateAndCheck)
	},
}

// migration moves a VM to another host.
type migration struct {
	client   *engine.Client
	id, to   engine.ID
	from     engine.ID
	isAsked  bool
	hasMoved bool // an earlier call saw the VM migrate
}

// migrateAndCheck requests the migration, and reports whether it has ended.
func (m *migration) migrateAndCheck(ctx context.Context) (bool, string, error) {
	vm, err := m.client.FetchVM(ctx, m.id)
	if err != nil {
		return false, "", err
	}

	on, seen := engine.RefID(vm.Host), string(vm.Status)
	if m.from == "" {
		m.from = on
	}

	switch {
	case vm.Status == engine.VMMigrating:
		m.hasMoved = true
		return false, seen, nil
	case vm.Status.IsOff():
		return false, "", fmt.Errorf("VM %s is %s: only a VM that runs can move to another host", m.id, seen)
	case on != "" && (on == m.to || m.to == "" && m.isAsked && on != m.from):
		return true, seen, nil
	case m.hasMoved:
		return false, "", fmt.Errorf("VM %s was on its way, and is %s on host %s again: see the events of the engine",
			m.id, seen, on)
	case m.isAsked:
		return false, seen, nil
	}

	m.isAsked = true // even if the answer is lost
	if err := m.client.MigrateVM(ctx, m.id, m.to); err != nil {
		m.isAsked = !engine.IsRefused(err)
		return false, seen, err
	}

	return false, seen, nil
}

var snapshotAction = vmAction{
	typeName: "ovirt_vm_snapshot",
	description: "Creates a snapshot of a virtual machine, and waits until it is ready. Returns a warning if the " +
		"snapshot is not ready in time. The snapshot is never removed. To manage a snapshot in a configuration, use " +
		"the resource `ovirt_vm_snapshot`.",
	attributes: map[string]schema.Attribute{
		"description": schema.StringAttribute{Required: true, MarkdownDescription: "Description of the snapshot.",
			Validators: []validator.String{notEmpty, description}},
		"memory": schema.BoolAttribute{Optional: true,
			MarkdownDescription: "Whether to save the memory of a running VM."},
	},
	run: func(ctx context.Context, client *engine.Client, id engine.ID, config tfsdk.Config,
		diags *diag.Diagnostics) error {
		text := getText(ctx, config, "description")

		made, err := client.CreateSnapshotOnce(ctx, id, text, getFlag(ctx, config, "memory"),
			newProgressLogger(ctx, "snapshot "+text))
		if err != nil {
			return err
		}

		waitSnapshot(ctx, client, id, made.ID, diags)

		return nil
	},
}
