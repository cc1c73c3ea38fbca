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

// If a create never gets an answer, this file keeps the requested object in the state. Terraform marks such a resource
// as tainted. The next refresh either finds the object or removes it from the state. Terraform then creates the object
// again, and destroys the one found. Without the entry in the state, the next create would refuse the object as another
// user's. An object counts as found only with a proof that the create made it. Meanwhile, a user may have made one with
// the same name.

// askedKey is the private-state key of a state without an ID. Its data help to find the object.
const askedKey = "asked"

// asked has the data that help to find an object without its ID.
type asked struct {
	Mark  string      `json:"mark,omitempty"`
	Known []engine.ID `json:"known,omitempty"`
	// Since and Until are the limits of the time at which the engine can have created the object. They are zero if the
	// time is unknown.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// lateness is how long an engine may still take to create an object after the create has given up.
const lateness = 3 * time.Minute

// dated is a locator for objects that have a time of creation.
type dated interface {
	// createdAt returns the time of an object, or an empty text. For an object of a VM, state names the VM.
	createdAt(ctx context.Context, state attributeReader, id engine.ID) (string, error)
}

// locator is a resource whose IDs the engine assigns.
type locator interface {
	// findMatches returns the IDs of the objects that match a state. mark is the mark of the request. Most requests
	// have none.
	findMatches(ctx context.Context, state attributeReader, mark string) ([]engine.ID, error)
}

// keepUnanswered keeps the planned state of a create without an answer, because the engine may have created the object.
func (b *base) keepUnanswered(ctx context.Context, err error, plan tfsdk.Plan, resp *resource.CreateResponse) {
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

// findUnanswered adds the object's ID to a state without one. It returns false if the object does not exist.
func (r identified) findUnanswered(
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

	found, err := by.findMatches(ctx, *state, what.Mark)
	if err != nil && !engine.IsNotFound(err) {
		diags.AddError("The object cannot be found that was asked for without an answer", err.Error())
		return true
	}

	ours, unproven, err := r.classifyFound(ctx, *state, found, what)
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
	if vm, ok := r.Resource.(*vmResource); ok { // its create could not report the original disks
		diags.Append(private.SetKey(ctx, ownDisks, vm.fetchDiskIDs(ctx, ours[0]))...)
	}

	return true
}

// classifyFound returns the found objects that the create made, and those that it may have made. A disk with the mark
// of the request is proven. Other objects must have been created while the create ran.
func (r identified) classifyFound(
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

// collectIDs returns the IDs of the objects that meet a condition.
func collectIDs[T any](all []T, id func(*T) engine.ID, holds func(*T) bool) []engine.ID {
	var out []engine.ID

	for i := range all {
		if holds(&all[i]) {
			out = append(out, id(&all[i]))
		}
	}

	return out
}

// getUUID returns a UUID in a plan or a state, or "" if it is not set.
func getUUID(ctx context.Context, source attributeReader, name string) engine.ID {
	return engine.ID(getText(ctx, source, name))
}

// findMatches implements locator.
func (r *vmResource) findMatches(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	dc, err := r.client.FindDataCenterOf(ctx, getUUID(ctx, state, "cluster_id"))
	if err != nil {
		return nil, err
	}

	all, err := r.client.FindVMs(ctx, dc, getText(ctx, state, "name"))

	return collectIDs(all, func(vm *engine.VM) engine.ID { return vm.ID }, func(vm *engine.VM) bool {
		return vm.CommentText() == getText(ctx, state, "comment") &&
			engine.RefID(vm.Cluster) == getUUID(ctx, state, "cluster_id")
	}), err
}

// createdAt implements dated.
func (r *vmResource) createdAt(ctx context.Context, _ attributeReader, id engine.ID) (string, error) {
	vm, err := r.client.FetchVM(ctx, id)
	if err != nil {
		return "", err
	}

	return vm.Created, nil
}

// findDisksByMark finds a disk by the mark of its request, because the engine may have chosen the alias.
func (b *base) findDisksByMark(ctx context.Context, mark string) ([]engine.ID, error) {
	if mark == "" { // disks without a description would match it
		return nil, nil
	}

	all, err := b.client.ListDisks(ctx)

	return collectIDs(all, func(d *engine.Disk) engine.ID { return d.ID }, func(d *engine.Disk) bool {
		return d.Description == mark
	}), err
}

func (r *diskResource) findMatches(ctx context.Context, _ attributeReader, mark string) ([]engine.ID, error) {
	return r.findDisksByMark(ctx, mark)
}

func (r *diskFromImageResource) findMatches(ctx context.Context, _ attributeReader, mark string) ([]engine.ID, error) {
	return r.findDisksByMark(ctx, mark)
}

func isAny[T any](*T) bool { return true }

func (r *tagResource) findMatches(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	all, err := r.client.ListTagsNamed(ctx, getText(ctx, state, "name"))
	return collectIDs(all, func(t *engine.Tag) engine.ID { return t.ID }, isAny), err
}

func (r *affinityLabelResource) findMatches(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	all, err := r.client.ListAffinityLabelsNamed(ctx, getText(ctx, state, "name"))
	return collectIDs(all, func(l *engine.Label) engine.ID { return l.ID }, isAny), err
}

func (r *affinityGroupResource) findMatches(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	all, err := r.client.ListAffinityGroups(ctx, getUUID(ctx, state, "cluster_id"))

	return collectIDs(all, func(g *engine.AffinityGroup) engine.ID { return g.ID }, func(g *engine.AffinityGroup) bool {
		return g.Name == getText(ctx, state, "name")
	}), err
}

func (r *templateResource) findMatches(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	vm, err := r.client.FetchVM(ctx, getUUID(ctx, state, "vm_id"))
	if err != nil {
		return nil, err
	}

	dc, err := r.client.FindDataCenterOf(ctx, engine.RefID(vm.Cluster))
	if err != nil {
		return nil, err
	}

	all, err := r.client.FindTemplates(ctx, dc, getText(ctx, state, "name"))

	return collectIDs(all, func(t *engine.Template) engine.ID { return t.ID }, isAny), err
}

// createdAt implements dated.
func (r *templateResource) createdAt(ctx context.Context, _ attributeReader, id engine.ID) (string, error) {
	template, err := r.client.FetchTemplate(ctx, id)
	if err != nil {
		return "", err
	}

	return template.Created, nil
}

// createdAt implements dated.
func (r *vmSnapshotResource) createdAt(ctx context.Context, state attributeReader, id engine.ID) (string, error) {
	snapshot, err := r.client.FetchSnapshot(ctx, getUUID(ctx, state, "vm_id"), id)
	if err != nil {
		return "", err
	}

	return snapshot.Date, nil
}

func (r *nicResource) findMatches(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	all, err := r.client.ListNICs(ctx, getUUID(ctx, state, "vm_id"))

	return collectIDs(all, func(n *engine.NIC) engine.ID { return n.ID }, func(n *engine.NIC) bool {
		return n.Name == getText(ctx, state, "name")
	}), err
}

func (r *vmMediatedDeviceResource) findMatches(
	ctx context.Context, state attributeReader, _ string,
) ([]engine.ID, error) {
	all, err := r.client.ListMediatedDevices(ctx, getUUID(ctx, state, "vm_id"))

	return collectIDs(
		all,
		func(d *engine.MediatedDevice) engine.ID { return d.ID },
		func(d *engine.MediatedDevice) bool {
			return d.Type() == getText(ctx, state, "type")
		},
	), err
}

func (r *vmSnapshotResource) findMatches(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	all, err := r.client.ListSnapshots(ctx, getUUID(ctx, state, "vm_id"))

	return collectIDs(all, func(s *engine.Snapshot) engine.ID { return s.ID }, func(s *engine.Snapshot) bool {
		return s.Description == getText(ctx, state, "description")
	}), err
}

func (r *vmWatchdogResource) findMatches(ctx context.Context, state attributeReader, _ string) ([]engine.ID, error) {
	all, err := r.client.ListWatchdogs(ctx, getUUID(ctx, state, "vm_id"))
	return collectIDs(all, func(w *engine.Watchdog) engine.ID { return w.ID }, isAny), err
}
