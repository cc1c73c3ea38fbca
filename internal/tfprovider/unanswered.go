package tfprovider

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// This file keeps the request of a create in the state if the engine never answers it. Terraform marks such a resource
// as tainted. The next refresh looks for the object. Either way, Terraform then creates a new one, and destroys the old
// one if it exists. Without the state, the next create would reject the object as somebody else's.

// askedKey is the private-state key of a state without an ID. It stores the data for finding the object.
const askedKey = "asked"

// asked is the data for finding an object without its ID.
type asked struct {
	Mark  string      `json:"mark,omitempty"`
	Known []engine.ID `json:"known,omitempty"`
}

// locator is a resource with IDs assigned by the engine.
type locator interface {
	// alike returns the IDs of the objects matching a state. mark is that of the request; most requests have none.
	alike(ctx context.Context, state attributeReader, mark string) ([]engine.ID, error)
}

// keepAsked keeps the planned state of a create without an answer, because the engine may have created the object.
func (b *base) keepAsked(ctx context.Context, err error, plan tfsdk.Plan, resp *resource.CreateResponse) {
	var lost *engine.UnansweredError
	if !b.recovers || !errors.As(err, &lost) {
		return
	}

	known, err := tftypes.Transform(plan.Raw, func(_ *tftypes.AttributePath, v tftypes.Value) (tftypes.Value, error) {
		if !v.IsKnown() {
			return tftypes.NewValue(v.Type(), nil), nil
		}

		return v, nil
	})
	if err != nil {
		return
	}

	resp.State.Raw = known

	content, err := json.Marshal(asked{Mark: lost.Mark, Known: lost.Known})
	if err == nil && resp.Private != nil {
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, askedKey, content)...)
	}
}

// find adds the object's ID to a state without one. It returns false if there is no such object.
func (r identified) find(
	ctx context.Context, state *tfsdk.State, private privateState, diags *diag.Diagnostics,
) bool {
	by, ok := r.Resource.(locator)
	if !ok {
		return true
	}

	var (
		id   types.String
		what asked
	)

	diags.Append(state.GetAttribute(ctx, path.Root("id"), &id)...)
	content, problems := private.GetKey(ctx, askedKey)
	diags.Append(problems...)

	if !id.IsNull() || len(content) == 0 || json.Unmarshal(content, &what) != nil {
		return true
	}

	found, err := by.alike(ctx, *state, what.Mark)
	if err != nil && !engine.IsNotFound(err) {
		diags.AddError("The object cannot be found that was asked for without an answer", err.Error())
		return true
	}

	at := slices.IndexFunc(found, func(id engine.ID) bool { return !slices.Contains(what.Known, id) })
	if at < 0 {
		return false
	}

	diags.Append(state.SetAttribute(ctx, path.Root("id"), found[at].String())...)
	if vm, ok := r.Resource.(*vmResource); ok { // its create could not record the original disks
		diags.Append(private.SetKey(ctx, ownDisks, vm.disksNow(ctx, found[at]))...)
	}

	return true
}

// idsWhere returns the IDs of the objects satisfying a condition.
func idsWhere[T any](all []T, id func(*T) engine.ID, holds func(*T) bool) []engine.ID {
	var out []engine.ID

	for i := range all {
		if holds(&all[i]) {
			out = append(out, id(&all[i]))
		}
	}

	return out
}

// idIn reads a UUID of a plan or a state, or "" if it has none.
func idIn(ctx context.Context, source attributeReader, name string) engine.ID {
	return engine.ID(textIn(ctx, source, name))
}

// alike implements locator.
func (r *vmResource) alike(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	dc, err := r.client.DataCenterOf(ctx, idIn(ctx, state, "cluster_id"))
	if err != nil {
		return nil, err
	}

	all, err := r.client.FindVMs(ctx, dc, textIn(ctx, state, "name"))

	return idsWhere(all, func(vm *engine.VM) engine.ID { return vm.ID }, func(vm *engine.VM) bool {
		return vm.CommentText() == textIn(ctx, state, "comment") &&
			engine.RefID(vm.Cluster) == idIn(ctx, state, "cluster_id")
	}), err
}

// alikeDisks finds a disk by the mark of its request. Its alias may be the engine's.
func (b *base) alikeDisks(ctx context.Context, mark string) ([]engine.ID, error) {
	all, err := b.client.Disks(ctx)

	return idsWhere(all, func(d *engine.Disk) engine.ID { return d.ID }, func(d *engine.Disk) bool {
		return d.Description == mark
	}), err
}

func (r *diskResource) alike(ctx context.Context, _ attributeReader, mark string) ([]engine.ID, error) {
	return r.alikeDisks(ctx, mark)
}

func (r *diskFromImageResource) alike(ctx context.Context, _ attributeReader, mark string) ([]engine.ID, error) {
	return r.alikeDisks(ctx, mark)
}

func isAny[T any](*T) bool { return true }

func (r *tagResource) alike(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	all, err := r.client.TagsNamed(ctx, textIn(ctx, state, "name"))
	return idsWhere(all, func(t *engine.Tag) engine.ID { return t.ID }, isAny), err
}

func (r *affinityLabelResource) alike(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	all, err := r.client.AffinityLabelsNamed(ctx, textIn(ctx, state, "name"))
	return idsWhere(all, func(l *engine.Label) engine.ID { return l.ID }, isAny), err
}

func (r *affinityGroupResource) alike(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	all, err := r.client.AffinityGroupsNamed(ctx, textIn(ctx, state, "name"))
	return idsWhere(all, func(g *engine.AffinityGroup) engine.ID { return g.ID }, isAny), err
}

func (r *templateResource) alike(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	vm, err := r.client.VM(ctx, idIn(ctx, state, "vm_id"))
	if err != nil {
		return nil, err
	}

	dc, err := r.client.DataCenterOf(ctx, engine.RefID(vm.Cluster))
	if err != nil {
		return nil, err
	}

	all, err := r.client.FindTemplates(ctx, dc, textIn(ctx, state, "name"))

	return idsWhere(all, func(t *engine.Template) engine.ID { return t.ID }, isAny), err
}

func (r *nicResource) alike(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	all, err := r.client.NICs(ctx, idIn(ctx, state, "vm_id"))

	return idsWhere(all, func(n *engine.NIC) engine.ID { return n.ID }, func(n *engine.NIC) bool {
		return n.Name == textIn(ctx, state, "name")
	}), err
}

func (r *vmMediatedDeviceResource) alike(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	all, err := r.client.MediatedDevices(ctx, idIn(ctx, state, "vm_id"))

	return idsWhere(all, func(d *engine.MediatedDevice) engine.ID { return d.ID }, func(d *engine.MediatedDevice) bool {
		return d.Type() == textIn(ctx, state, "type")
	}), err
}

func (r *vmSnapshotResource) alike(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	all, err := r.client.Snapshots(ctx, idIn(ctx, state, "vm_id"))

	return idsWhere(all, func(s *engine.Snapshot) engine.ID { return s.ID }, func(s *engine.Snapshot) bool {
		return s.Description == textIn(ctx, state, "description")
	}), err
}

func (r *vmWatchdogResource) alike(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	all, err := r.client.Watchdogs(ctx, idIn(ctx, state, "vm_id"))
	return idsWhere(all, func(w *engine.Watchdog) engine.ID { return w.ID }, isAny), err
}
