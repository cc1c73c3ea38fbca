package tfprovider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*nicResource)(nil)
	_ resource.ResourceWithImportState = (*nicResource)(nil)
)

func newNICResource() resource.Resource {
	return &nicResource{base{typeName: "ovirt_nic"}}
}

type nicResource struct{ base }

func (r *nicResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "A network interface of a virtual machine.",
		Attributes: map[string]schema.Attribute{
			"id":              computedText("UUID of the network interface."),
			"name":            requiredText("Name of the network interface.", nicName),
			"vm_id":           ownerID("UUID of the VM."),
			"vnic_profile_id": ownerID("UUID of the vNIC profile."),
			"mac": engineDefaultText(
				"MAC address. The engine assigns an address from its MAC pool if omitted. Not available in "+
					"`ovirt/ovirt`.",
				macAddress,
			),
			"interface": engineDefaultText(
				"Type of the emulated hardware, such as `virtio` or `e1000`. Not available in `ovirt/ovirt`.",
				notEmpty,
			),
			"linked": engineDefaultFlag(
				"Whether the cable of the network interface is connected. Not available in `ovirt/ovirt`.",
			),
			"plugged": engineDefaultFlag(
				"Whether the network interface is plugged into the VM. It can be plugged and unplugged while the VM " +
					"runs. Not available in `ovirt/ovirt`.",
			),
		},
	})
}

type nicModel struct {
	timed

	ID            types.String `tfsdk:"id"`
	Name          types.String `tfsdk:"name"`
	VMID          types.String `tfsdk:"vm_id"`
	VNICProfileID types.String `tfsdk:"vnic_profile_id"`
	MAC           types.String `tfsdk:"mac"`
	Interface     types.String `tfsdk:"interface"`
	Linked        types.Bool   `tfsdk:"linked"`
	Plugged       types.Bool   `tfsdk:"plugged"`
}

// toEngine returns the request to create the interface.
func (m *nicModel) toEngine() *engine.NIC {
	nic := &engine.NIC{
		Name:        m.Name.ValueString(),
		VNICProfile: engine.NewRef(toID(m.VNICProfileID)),
		Interface:   m.Interface.ValueString(),
		Linked:      flagPointer(m.Linked),
		Plugged:     flagPointer(m.Plugged),
	}
	if isKnown(m.MAC) {
		nic.MAC = &engine.MAC{Address: m.MAC.ValueString()}
	}

	return nic
}

func (m *nicModel) setFromEngine(nic *engine.NIC) {
	m.setPlug(nic, m.Name.IsNull())
	m.ID, m.Name = toIDValue(nic.ID), types.StringValue(nic.Name)
	m.VNICProfileID = toIDValue(engine.RefID(nic.VNICProfile))
	m.Interface = textOrNull(nic.Interface)
	if nic.MAC == nil {
		m.MAC = types.StringNull()
	} else if !strings.EqualFold(m.MAC.ValueString(), nic.MAC.Address) { // MAC addresses are case-insensitive
		m.MAC = textOrNull(nic.MAC.Address)
	}
}

// setPlug copies linked and plugged from the engine into the model. A read does not add them to a state older than
// these attributes, because this would look like a manual change. An import adds them.
func (m *nicModel) setPlug(nic *engine.NIC, isImported bool) {
	if isImported || !m.Linked.IsNull() {
		m.Linked = keepIfAbsent(m.Linked, types.BoolPointerValue(nic.Linked))
	}

	if isImported || !m.Plugged.IsNull() {
		m.Plugged = keepIfAbsent(m.Plugged, types.BoolPointerValue(nic.Plugged))
	}
}

func (r *nicResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[nicModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	nic, err := r.createOrTakeOver(ctx, toID(model.VMID), model.toEngine())
	if nic != nil { // even after an error, so that the state matches the engine
		r.made.addID(nic.ID.String())
		model.setFromEngine(nic)
		resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	}

	switch {
	case err != nil && nic != nil:
		resp.Diagnostics.AddError("The network interface was created, but not as planned", err.Error())
	case err != nil:
		r.keepUnanswered(ctx, err, req.Plan, resp)
		resp.Diagnostics.AddError("The network interface was not created",
			r.client.ExplainMissing(ctx, toID(model.VMID), err).Error())
	}
}

// createOrTakeOver creates the interface once, or takes over the one with this name from the VM's template. Any other
// interface with this name belongs to another resource, or a user added it by hand, because names are unique within a
// VM. It may return an interface together with an error.
func (r *nicResource) createOrTakeOver(ctx context.Context, vmID engine.ID, wanted *engine.NIC) (*engine.NIC, error) {
	unlock, err := nicLocks.lockKey(ctx, vmID.String()+"/"+wanted.Name)
	if err != nil {
		return nil, err
	}
	defer unlock()

	there, err := r.findByName(ctx, vmID, wanted.Name)
	if err != nil {
		return nil, err
	}

	if there != nil {
		return r.takeOverTemplateNIC(ctx, vmID, there, wanted)
	}

	what := "network interface " + wanted.Name

	made, err := engine.CreateOnce(ctx, what, newProgressLogger(ctx, what),
		func(ctx context.Context) (*engine.NIC, error) { return r.client.CreateNIC(ctx, vmID, wanted) },
		func(ctx context.Context) (*engine.NIC, error) { return r.findByName(ctx, vmID, wanted.Name) })
	if err != nil || hasWantedValue(made.Linked, wanted.Linked) && hasWantedValue(made.Plugged, wanted.Plugged) {
		return made, err
	}

	// No recording shows that an engine creates an interface unlinked or unplugged. A recording shows the change of an
	// existing one.
	if err := r.changeInterface(ctx, vmID, made.ID, wanted); err != nil {
		return made, err
	}

	seen, err := r.client.FetchNIC(context.WithoutCancel(ctx), vmID, made.ID)
	if err != nil {
		return made, err
	}

	return seen, nil
}

// hasWantedValue reports whether a flag has the wanted value. If wanted is nil, any value is right.
func hasWantedValue(seen, wanted *bool) bool { return wanted == nil || seen != nil && *seen == *wanted }

// nicLocks serialize the resources for the same name. Each looks for the interface and creates it before the next one
// looks.
var nicLocks = keyedLocks{held: map[string]chan struct{}{}}

// findByName returns the network interface with this name, or nil if the VM does not have it.
func (r *nicResource) findByName(ctx context.Context, vmID engine.ID, name string) (*engine.NIC, error) {
	var found *engine.NIC
	what := "network interfaces of VM " + vmID.String()
	err := pollEngine(ctx, what, func(ctx context.Context) (bool, string, error) {
		all, err := r.client.ListNICs(ctx, vmID)
		if at := slices.IndexFunc(all, func(n engine.NIC) bool { return n.Name == name }); at >= 0 {
			found = &all[at]
		}

		return err == nil, "", err
	})

	return found, err
}

// takeOverTemplateNIC takes over an interface from the VM's template, and changes it to match the configuration.
func (r *nicResource) takeOverTemplateNIC(
	ctx context.Context, vmID engine.ID, there, wanted *engine.NIC,
) (*engine.NIC, error) {
	fromTemplate, err := r.isTemplateNIC(ctx, vmID, there.Name)
	if err != nil {
		return nil, err
	}

	if !fromTemplate && !r.canTakeOver(there.ID.String()) || r.made.hasID(there.ID.String()) {
		return nil, fmt.Errorf("network interface %s of VM %s exists already, and was not made for this resource: "+
			"remove it from the VM, choose another name, or import it with the ID %s/%s", there.Name, vmID,
			vmID, there.ID)
	}

	if err := r.changeInterface(ctx, vmID, there.ID, wanted); err != nil {
		return nil, err
	}

	return r.client.FetchNIC(context.WithoutCancel(ctx), vmID, there.ID)
}

// isTemplateNIC reports whether the VM's template has an interface with this name.
func (r *nicResource) isTemplateNIC(ctx context.Context, vmID engine.ID, name string) (bool, error) {
	vm, err := r.client.FetchVM(ctx, vmID)
	if err != nil {
		return false, err
	}

	if vm.OriginalTemplateID() == "" {
		return false, nil
	}

	all, err := r.client.ListTemplateNICs(ctx, vm.OriginalTemplateID())

	return slices.ContainsFunc(all, func(n engine.NIC) bool { return n.Name == name }), err
}

// nicChange changes an interface, in as many tries as necessary. If the VM runs, the engine changes the address or the
// kind only while the interface is unplugged.
type nicChange struct {
	client   *engine.Client
	vmID, id engine.ID
	wanted   *engine.NIC
	// unplugged reports whether an earlier try requested to unplug the interface. In this case, a later try must plug
	// it again.
	unplugged bool
}

// shouldEndPlugged reports whether the interface must be plugged at the end. If nothing is requested, it returns the
// original value.
func (c *nicChange) shouldEndPlugged(now bool) bool {
	if c.wanted.Plugged != nil {
		return *c.wanted.Plugged
	}

	return now || c.unplugged
}

// tryOnce makes one try. It ignores interrupts, because they could leave the interface unplugged.
func (c *nicChange) tryOnce(ctx context.Context) (done bool, seen string, err error) {
	ctx = context.WithoutCancel(ctx)

	there, err := c.client.FetchNIC(ctx, c.vmID, c.id)
	if err != nil {
		return false, "", err
	}

	wanted := *c.wanted
	if wanted.MAC != nil && there.MAC != nil && strings.EqualFold(wanted.MAC.Address, there.MAC.Address) {
		wanted.MAC = nil // MAC addresses are case-insensitive
	}

	plugged := isSet(there.Plugged)
	atEnd := c.shouldEndPlugged(plugged)
	wanted.Plugged = nil // the engine has separate actions for this, and a running guest notices them

	if plugged && !atEnd {
		if err := c.client.UnplugNIC(ctx, c.vmID, c.id); err != nil {
			return false, "", err
		}

		plugged = false
	}

	_, err = c.client.UpdateNIC(ctx, c.vmID, c.id, &wanted)
	if plugged && engine.IsConflict(err) && !engine.IsTransient(err) && shouldUnplug(there, &wanted) {
		c.unplugged, plugged = true, false // even if the answer is lost
		if err = c.client.UnplugNIC(ctx, c.vmID, c.id); err == nil {
			_, err = c.client.UpdateNIC(ctx, c.vmID, c.id, &wanted)
		}
	}

	if atEnd && !plugged {
		err = errors.Join(err, c.client.PlugNIC(ctx, c.vmID, c.id))
	}

	return err == nil, "", err
}

// changeInterface changes the interface to match the configuration. Its error says whether the interface may be
// unplugged.
func (r *nicResource) changeInterface(ctx context.Context, vmID, id engine.ID, wanted *engine.NIC) error {
	change := nicChange{client: r.client, vmID: vmID, id: id, wanted: wanted}

	err := pollEngine(ctx, "network interface "+id.String()+" to be changed", change.tryOnce)
	if err != nil && change.unplugged {
		err = fmt.Errorf("%w (the interface was unplugged for the change: plug it in the engine if it still is)", err)
	}

	return err
}

// shouldUnplug reports whether the engine makes a change only while the interface is unplugged.
func shouldUnplug(there, wanted *engine.NIC) bool {
	return wanted.MAC != nil || wanted.Interface != "" && wanted.Interface != there.Interface
}

func (r *nicResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	if handleTimeoutsOnly(req, resp) {
		return
	}

	ctx, cancel := withPlannedTimeout(ctx, req.Plan, updating)
	defer cancel()

	model, ok := loadModel[nicModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	if err := r.changeInterface(ctx, toID(model.VMID), toID(model.ID), model.toEngine()); err != nil {
		resp.Diagnostics.AddError("The network interface was not updated", err.Error())
		return
	}

	if model.Linked.IsUnknown() || model.Plugged.IsUnknown() { // a state from before these attributes
		nic, err := r.client.FetchNIC(context.WithoutCancel(ctx), toID(model.VMID), toID(model.ID))
		if err != nil {
			resp.Diagnostics.AddError("The network interface cannot be read", err.Error())
			return
		}

		fillUnknown(&model.Linked, types.BoolPointerValue(nic.Linked))
		fillUnknown(&model.Plugged, types.BoolPointerValue(nic.Plugged))
	}

	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *nicResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[nicModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	nic, err := r.client.FetchNIC(ctx, toID(model.VMID), toID(model.ID))
	if handleReadError(ctx, err, "The network interface", resp) {
		return
	}

	model.setFromEngine(nic)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *nicResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[nicModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	vmID, id := toID(model.VMID), toID(model.ID)
	if r.made.shouldKeep(id.String(), "network interface", &resp.Diagnostics) {
		return
	}

	removeAndWait(ctx, "network interface "+id.String(), &resp.Diagnostics, func(ctx context.Context) error {
		return r.client.DropNIC(ctx, vmID, id)
	})
}

// ImportState takes VM-UUID/NIC-UUID.
func (r *nicResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "vm_id", "id")
}
