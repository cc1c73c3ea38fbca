package tfprovider

import (
	"context"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

var (
	_ resource.ResourceWithConfigure   = (*vmAffinityGroupResource)(nil)
	_ resource.ResourceWithImportState = (*vmAffinityGroupResource)(nil)
)

func newVMAffinityGroupResource() resource.Resource {
	return &vmAffinityGroupResource{fixed{base{typeName: "ovirt_vm_affinity_group"}}}
}

type vmAffinityGroupResource struct{ fixed }

func (r *vmAffinityGroupResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.completeSchema(schema.Schema{
		MarkdownDescription: "Adds a virtual machine to an affinity group.",
		Attributes: map[string]schema.Attribute{
			"id":                computedText("UUID of the VM."),
			"cluster_id":        ownerID("UUID of the cluster."),
			"affinity_group_id": requiredText("UUID of the affinity group.", notEmpty),
			"vm_id":             ownerID("UUID of the VM."),
		},
	})
}

type vmAffinityGroupModel struct {
	timed

	ID        types.String `tfsdk:"id"`
	ClusterID types.String `tfsdk:"cluster_id"`
	GroupID   types.String `tfsdk:"affinity_group_id"`
	VMID      types.String `tfsdk:"vm_id"`
}

// groupLocks serialize the changes to one affinity group, because the engine rejects one of two simultaneous changes.
// All runs in the process share them, because the machines of a cluster share its groups.
var groupLocks = keyedLocks{held: map[string]chan struct{}{}}

// keyedLocks are mutexes by key. A wait for one of them ends with the context.
type keyedLocks struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

func (l *keyedLocks) lockKey(ctx context.Context, key string) (unlock func(), err error) {
	for {
		l.mu.Lock()
		released, busy := l.held[key]
		if !busy {
			mine := make(chan struct{})
			l.held[key] = mine
			l.mu.Unlock()

			return func() {
				l.mu.Lock()
				delete(l.held, key)
				l.mu.Unlock()
				close(mine)
			}, nil
		}

		l.mu.Unlock()

		select {
		case <-released:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (r *vmAffinityGroupResource) isMember(ctx context.Context, model *vmAffinityGroupModel) (bool, error) {
	group, err := r.client.FetchAffinityGroup(ctx, toID(model.ClusterID), toID(model.GroupID))
	if err != nil {
		return false, err
	}

	return group.HasVM(toID(model.VMID)), nil
}

func (m *vmAffinityGroupModel) importID() string {
	return m.ClusterID.ValueString() + "/" + m.GroupID.ValueString() + "/" + m.VMID.ValueString()
}

// addMember adds the VM to the group. The caller holds the lock of the group.
func (r *vmAffinityGroupResource) addMember(ctx context.Context, model *vmAffinityGroupModel) error {
	group, vm := toID(model.GroupID), toID(model.VMID)
	member := func(ctx context.Context) (bool, error) { return r.isMember(ctx, model) }

	membership := "VM " + vm.String() + " in affinity group " + group.String()
	if err := r.refuseMember(ctx, membership, model.importID(), member); err != nil {
		return err
	}

	what := "VM " + vm.String() + " to join affinity group " + group.String()

	return ensureDone(ctx, what, func(ctx context.Context) error {
		return r.client.AddToAffinityGroup(ctx, toID(model.ClusterID), group, vm)
	}, member)
}

func (r *vmAffinityGroupResource) Create(
	ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse,
) {
	ctx, cancel := withPlannedTimeout(ctx, req.Plan, creating)
	defer cancel()

	model, ok := loadModel[vmAffinityGroupModel](ctx, req.Plan, &resp.Diagnostics)
	if !ok {
		return
	}

	unlock, err := groupLocks.lockKey(ctx, model.GroupID.ValueString())
	if err == nil {
		defer unlock()
		err = r.addMember(ctx, model)
	}

	if err != nil {
		r.keepUnanswered(ctx, err, req.Plan, resp)
		resp.Diagnostics.AddError("The VM was not added to the affinity group",
			r.client.ExplainMissing(ctx, toID(model.VMID), err).Error())

		return
	}

	r.made.addID(model.importID())
	model.ID = model.VMID
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *vmAffinityGroupResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	model, ok := loadModel[vmAffinityGroupModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	member, err := r.isMember(ctx, model)
	if handleReadError(ctx, err, "The affinity group", resp) {
		return
	}

	if !member {
		resp.State.RemoveResource(ctx)
		return
	}

	model.ID = model.VMID
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (r *vmAffinityGroupResource) Delete(
	ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse,
) {
	ctx, cancel := withPlannedTimeout(ctx, req.State, deleting)
	defer cancel()

	model, ok := loadModel[vmAffinityGroupModel](ctx, req.State, &resp.Diagnostics)
	if !ok {
		return
	}

	if r.made.shouldKeep(model.importID(), "membership", &resp.Diagnostics) {
		return
	}

	group, vm := toID(model.GroupID), toID(model.VMID)
	unlock, err := groupLocks.lockKey(ctx, group.String())
	if err != nil {
		resp.Diagnostics.AddError("The VM was not removed from the affinity group", err.Error())
		return
	}
	defer unlock()
	removeAndWait(
		ctx,
		"VM "+vm.String()+" in affinity group "+group.String(),
		&resp.Diagnostics,
		func(ctx context.Context) error {
			return r.client.RemoveFromAffinityGroup(ctx, toID(model.ClusterID), group, vm)
		},
	)
}

// ImportState takes CLUSTER-UUID/GROUP-UUID/VM-UUID.
func (r *vmAffinityGroupResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	importParts(ctx, req, resp, "cluster_id", "affinity_group_id", "vm_id")
}
