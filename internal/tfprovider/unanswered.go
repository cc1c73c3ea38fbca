package tfprovider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// This file keeps a requested object in the state, if its create never got an answer. Terraform marks such a resource
// as tainted. The next refresh finds the object, or finds none. Terraform then creates the object again, and destroys
// the existing one. Without the state, the next create would refuse the object as somebody else's. An object is found
// only with a proof that the create made it: a person may have made one of the same name meanwhile.

// askedKey is the private-state key of a state without an ID. It stores the data for finding the object.
const askedKey = "asked"

// asked is the data for finding an object without its ID.
type asked struct {
	Mark  string      `json:"mark,omitempty"`
	Known []engine.ID `json:"known,omitempty"`
	// Since and Until enclose the time the engine made the object. They are zero if it is unknown.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// lateness is how long an engine may take to make an object after its create has given up.
const lateness = 3 * time.Minute

// dated is a locator whose objects have a time of creation.
type dated interface {
	// createdAt returns the time of an object, or an empty text. A state says of which VM it is.
	createdAt(ctx context.Context, state attributeReader, id engine.ID) (string, error)
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

	content, err := json.Marshal(asked{
		Mark: lost.Mark, Known: lost.Known, Since: lost.Asked.Truncate(time.Second), Until: lost.GaveUp.Add(lateness),
	})
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

	ours, unproven, err := r.prove(ctx, *state, found, what)
	if err != nil {
		diags.AddError("The object cannot be found that was asked for without an answer", err.Error())
		return true
	}

	if len(ours) != 1 && len(ours)+len(unproven) > 0 {
		diags.AddError("An object may be the one that was asked for without an answer", fmt.Sprintf(
			"Nothing proves that the create made %v, and not somebody else. If it is yours, run terraform state rm "+
				"for this resource, and import the object. If not, remove the resource from the state, "+
				"and choose another name.",
			append(ours, unproven...),
		))

		return true
	}

	if len(ours) == 0 {
		return false
	}

	diags.Append(state.SetAttribute(ctx, path.Root("id"), ours[0].String())...)
	if vm, ok := r.Resource.(*vmResource); ok { // whose create could not say which disks it came with
		diags.Append(private.SetKey(ctx, ownDisks, vm.disksNow(ctx, ours[0]))...)
	}

	return true
}

// prove returns those of the objects found that a create made, and those that it may have made. A disk has the mark of
// its request. Other objects must have been made while the create ran.
func (r identified) prove(
	ctx context.Context, state attributeReader, found []engine.ID, what asked,
) (ours, unproven []engine.ID, err error) {
	times, hasTimes := r.Resource.(dated)

	for _, id := range found {
		if slices.Contains(what.Known, id) {
			continue
		}

		if what.Mark != "" {
			ours = append(ours, id)
			continue
		}

		if !hasTimes || what.Since.IsZero() {
			unproven = append(unproven, id)
			continue
		}

		text, err := times.createdAt(ctx, state, id)
		if engine.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, nil, err
		}

		created, err := time.Parse(time.RFC3339, text)

		switch {
		case err != nil:
			unproven = append(unproven, id)
		case !created.Before(what.Since) && !created.After(what.Until):
			ours = append(ours, id)
		}
	}

	return ours, unproven, nil
}

// idsWhere returns the IDs of those objects that a condition holds for.
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

// createdAt implements dated.
func (r *vmResource) createdAt(ctx context.Context, _ attributeReader, id engine.ID) (string, error) {
	vm, err := r.client.VM(ctx, id)
	if err != nil {
		return "", err
	}

	return vm.Created, nil
}

// alikeDisks finds a disk by the mark of its request. Its alias may be the engine's.
func (b *base) alikeDisks(ctx context.Context, mark string) ([]engine.ID, error) {
	if mark == "" { // it would be that of each disk without a description
		return nil, nil
	}

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
	all, err := r.client.AffinityGroups(ctx, idIn(ctx, state, "cluster_id"))

	return idsWhere(all, func(g *engine.AffinityGroup) engine.ID { return g.ID }, func(g *engine.AffinityGroup) bool {
		return g.Name == textIn(ctx, state, "name")
	}), err
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

// createdAt implements dated.
func (r *templateResource) createdAt(ctx context.Context, _ attributeReader, id engine.ID) (string, error) {
	template, err := r.client.TemplateByID(ctx, id)
	if err != nil {
		return "", err
	}

	return template.Created, nil
}

// createdAt implements dated.
func (r *vmSnapshotResource) createdAt(ctx context.Context, state attributeReader, id engine.ID) (string, error) {
	snapshot, err := r.client.Snapshot(ctx, idIn(ctx, state, "vm_id"), id)
	if err != nil {
		return "", err
	}

	return snapshot.Date, nil
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
