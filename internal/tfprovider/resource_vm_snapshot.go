package tfprovider

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*vmSnapshotResource)(nil)
	_ resource.ResourceWithImportState = (*vmSnapshotResource)(nil)
)

func newVMSnapshotResource() resource.Resource {
	return &vmSnapshotResource{fixed{base{typeName: "ovirt_vm_snapshot"}}}
}

type vmSnapshotResource struct{ fixed }

// Schema implements resource.Resource.
func (r *vmSnapshotResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "A snapshot of a virtual machine: the state of its disks and, with `memory`, of its " +
			"memory. A snapshot is not a backup. Destroying the resource merges the snapshot into the disks without " +
			"affecting the running VM. Not available in `ovirt/ovirt`.",
		Attributes: map[string]schema.Attribute{
			"id":    computedText("UUID of the snapshot."),
			"vm_id": ownerID("UUID of the VM."),
			"description": requiredText(
				"Description of the snapshot. The engine uses it as the name.", notEmpty, description,
			),
			"memory":     engineDefaultFlag("Whether to save the memory of a running VM."),
			"created_at": computedText("Creation time of the snapshot."),
		},
	})
}

type vmSnapshotModel struct {
	timed

	ID          types.String `tfsdk:"id"`
	VMID        types.String `tfsdk:"vm_id"`
	Description types.String `tfsdk:"description"`
	Memory      types.Bool   `tfsdk:"memory"`
	CreatedAt   types.String `tfsdk:"created_at"`
}

func (m *vmSnapshotModel) setFromEngine(snapshot *engine.Snapshot) {
	m.ID, m.Description = toIDValue(snapshot.ID), types.StringValue(snapshot.Description)
	m.CreatedAt = keepIfAbsent(m.CreatedAt, textOrNull(snapshot.Date))

	// The engine stores no memory of a stopped VM, regardless of the request.
	if m.Memory.IsNull() || m.Memory.IsUnknown() {
		m.Memory = types.BoolValue(isSet(snapshot.Memory))
	}
}

// Create implements resource.Resource.
func (r *vmSnapshotResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[vmSnapshotModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	vmID, what := toID(model.VMID), "snapshot "+model.Description.ValueString()
	made, err := r.client.CreateSnapshotOnce(ctx, vmID, model.Description.ValueString(), model.Memory.ValueBool(),
		newProgressLogger(ctx, what))
	if err != nil {
		r.keepUnanswered(ctx, err, req.Plan, resp)
		resp.Diagnostics.AddError("The snapshot was not made", r.client.ExplainMissing(ctx, vmID, err).Error())
		return
	}

	// The snapshot exists now, so save it in the state before anything else can fail.
	model.setFromEngine(made)
	fillUnknown(&model.CreatedAt, textOrNull(made.Date))
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)

	waitSnapshot(ctx, r.client, vmID, made.ID, &resp.Diagnostics)
}

// waitSnapshot waits until a snapshot is complete. If this takes too long, it adds a warning, because the engine
// continues.
func waitSnapshot(ctx context.Context, client *engine.Client, vmID, id engine.ID, diags *diag.Diagnostics) {
	err := pollEngine(ctx, "snapshot "+id.String()+" to be made", func(ctx context.Context) (bool, string, error) {
		seen, err := client.FetchSnapshot(ctx, vmID, id)
		if err != nil {
			return false, "", err
		}

		return seen.Status == engine.SnapshotOK, seen.Status, nil
	})

	var early *engine.WaitError

	switch {
	case errors.As(err, &early):
		diags.AddWarning("The snapshot is not ready yet",
			err.Error()+". Until then, the engine refuses to start the VM if it is down.")
	case err != nil:
		diags.AddError("The snapshot is not ready", err.Error())
	}
}

// Read implements resource.Resource.
func (r *vmSnapshotResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[vmSnapshotModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	seen, err := r.client.FetchSnapshot(ctx, toID(model.VMID), toID(model.ID))
	if handleReadError(ctx, err, "The snapshot", resp) {
		return
	}

	if seen.Type != engine.SnapshotRegular {
		resp.Diagnostics.AddAttributeError(path.Root("id"), "This is no snapshot that a user made",
			fmt.Sprintf("Snapshot %s is of the type %q, which the engine keeps for itself.", seen.ID, seen.Type))
		return
	}

	model.setFromEngine(seen)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Delete implements resource.Resource. If an engine cannot merge the disks of a running VM, it shows the snapshot
// unchanged. Another request would only repeat the failure.
func (r *vmSnapshotResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[vmSnapshotModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	removal := snapshotRemoval{client: r.client, vmID: toID(model.VMID), id: toID(model.ID)}
	if err := pollEngine(ctx, "snapshot "+removal.id.String()+" to go", removal.removeAndCheck); err != nil {
		resp.Diagnostics.AddError("The snapshot was not removed", err.Error())
	}
}

// snapshotRemoval is the removal of a snapshot.
type snapshotRemoval struct {
	client   *engine.Client
	vmID, id engine.ID
	// isAsked reports whether the engine has accepted the removal. isLocked reports whether a later look showed the
	// snapshot locked.
	isAsked, isLocked bool
}

// removeAndCheck requests the removal once the snapshot is unlocked, and reports whether the snapshot is gone.
func (s *snapshotRemoval) removeAndCheck(ctx context.Context) (bool, string, error) {
	seen, err := s.client.FetchSnapshot(ctx, s.vmID, s.id)
	if engine.IsNotFound(err) {
		return true, "", nil
	} else if err != nil {
		return false, "", err
	}

	switch {
	case seen.Status == engine.SnapshotLocked:
		s.isLocked = s.isAsked
		return false, seen.Status, nil
	case s.isLocked:
		return false, "", fmt.Errorf("the engine began to remove snapshot %s and has kept it: see its events, and try "+
			"again, or with the VM down", s.id)
	case s.isAsked:
		return false, seen.Status, nil
	}

	if err := s.client.DeleteSnapshot(ctx, s.vmID, s.id); err != nil && !engine.IsNotFound(err) {
		return false, "", err
	}

	s.isAsked = true

	return false, "removal asked for", nil
}

// ImportState takes VM-UUID/SNAPSHOT-UUID.
func (r *vmSnapshotResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "vm_id", "id")
}
