package tfprovider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// ownership refuses to read or change objects of other owners. IDs come from states, and anyone who can write the
// Secret of a state can put any ID there. An object belongs to the owner only if it carries the owner's mark in the
// engine.
type ownership struct {
	mark string
	// client returns the provider's client, or nil before Configure.
	client func() *engine.Client

	// stateVMs are the VMs in the state of the run, regardless of their owners.
	stateVMs []engine.ID

	mu sync.Mutex
	// vms and disks are the objects already known to belong to the owner.
	vms, disks map[engine.ID]bool
}

// newOwnership returns the ownership for an owner's mark. If the mark names no object, as in a preview by olvmctl, it
// returns nil. A nil ownership allows everything.
func newOwnership(mark string, stateVMs []string, client func() *engine.Client) *ownership {
	_, machine := ownermark.ParseOwner(mark)
	_, pooled := ownermark.ParseInventoryOwner(mark)

	if !machine && !pooled {
		return nil
	}

	out := &ownership{mark: mark, client: client, vms: map[engine.ID]bool{}, disks: map[engine.ID]bool{}}
	for _, id := range stateVMs {
		out.stateVMs = append(out.stateVMs, engine.ID(id))
	}

	return out
}

// isOwnMark reports whether a mark names the owner. It ignores the UID, because the UID changes if the object moves.
// For an OLVMInventoryVM, it also accepts the mark of any machine in the same namespace, because a machine that claims
// the VM replaces the mark.
func (o *ownership) isOwnMark(mark string) bool {
	found, machine := ownermark.ParseOwner(mark)
	if owner, ok := ownermark.ParseOwner(o.mark); ok {
		return machine && found.IsSameObject(owner)
	}

	owner, _ := ownermark.ParseInventoryOwner(o.mark)
	made, pooled := ownermark.ParseInventoryOwner(mark)

	return pooled && made.IsSameObject(owner) || machine && found.Namespace == owner.Namespace
}

// objects are the IDs of the engine's objects in the state of a resource.
type objects struct{ vms, disks, groups []engine.ID }

func (o objects) isEmpty() bool { return len(o.vms)+len(o.disks)+len(o.groups) == 0 }

// collectObjects returns the IDs in a prior or planned state of a resource. It omits unknown IDs.
func collectObjects(typeName string, state map[string]tftypes.Value, exists bool) objects {
	id := func(attribute string) []engine.ID {
		var text string

		value, ok := state[attribute]
		if !ok || !value.IsKnown() || value.IsNull() || value.As(&text) != nil || text == "" {
			return nil
		}

		return []engine.ID{engine.ID(text)}
	}

	out := objects{vms: id("vm_id"), disks: id("disk_id")}
	if !exists {
		return out
	}

	switch typeName {
	case "ovirt_vm":
		out.vms = append(out.vms, id("id")...)
	case "ovirt_disk":
		out.disks = append(out.disks, id("id")...)
	case "ovirt_affinity_group":
		out.groups = append(out.groups, id("id")...)
	}

	return out
}

// checkState returns an error if the state of a resource has objects of other owners. exists distinguishes a stored
// state from a planned one.
func (o *ownership) checkState(
	ctx context.Context, schema *tfprotov5.Schema, typeName string, value *tfprotov5.DynamicValue, exists bool,
) error {
	state, err := decodeState(schema, value)
	if err != nil || state == nil {
		return err
	}

	about := collectObjects(typeName, state, exists)
	if !exists {
		if err := o.checkMark(typeName, state); err != nil {
			return err
		}
	}

	if exists && about.isEmpty() {
		return fmt.Errorf("the state contains a resource of type %s, of which the provider cannot tell the owner; the "+
			"state may have been edited", typeName)
	}

	for _, id := range about.vms {
		if err := o.checkVM(ctx, id); err != nil {
			return err
		}
	}

	for _, id := range about.disks {
		if err := o.checkDisk(ctx, id); err != nil {
			return err
		}
	}

	for _, id := range about.groups {
		var cluster string
		_ = state["cluster_id"].As(&cluster)
		if err := o.checkGroup(ctx, engine.ID(cluster), id); err != nil {
			return err
		}
	}

	return nil
}

// checkMark returns an error if a plan gives a resource another owner's mark.
func (o *ownership) checkMark(typeName string, planned map[string]tftypes.Value) error {
	text := func(attribute string) (out string) {
		_ = planned[attribute].As(&out) // stays empty if the attribute is null or unknown
		return out
	}

	var mark string

	switch typeName {
	case "ovirt_vm":
		mark = text("comment")
	case "ovirt_affinity_group":
		mark = ownermark.ParseSuffix(text("description"))
	default:
		return nil
	}

	if o.isOwnMark(mark) {
		return nil
	}

	return fmt.Errorf("the plan would mark %s with %q, and this run's owner has the mark %q", typeName, mark, o.mark)
}

// recordCreated records that the objects a resource has created belong to the owner.
func (o *ownership) recordCreated(schema *tfprotov5.Schema, typeName string, value *tfprotov5.DynamicValue) {
	state, err := decodeState(schema, value)
	if err != nil || state == nil {
		return
	}

	o.mu.Lock()
	defer o.mu.Unlock()

	var id string

	switch _ = state["id"].As(&id); typeName {
	case "ovirt_vm":
		o.vms[engine.ID(id)] = true
	case "ovirt_disk":
		o.disks[engine.ID(id)] = true
	}
}

// decodeState returns the attributes of a state, or nil if the state is null.
func decodeState(schema *tfprotov5.Schema, value *tfprotov5.DynamicValue) (map[string]tftypes.Value, error) {
	if value == nil {
		return nil, nil
	}

	decoded, err := value.Unmarshal(schema.ValueType())
	if err != nil {
		return nil, fmt.Errorf("failed to decode a state: %w", err)
	}

	if decoded.IsNull() || !decoded.IsKnown() {
		return nil, nil
	}

	var out map[string]tftypes.Value
	if err := decoded.As(&out); err != nil {
		return nil, fmt.Errorf("failed to decode a state: %w", err)
	}

	return out, nil
}

// isOwned reports whether an ID is known to belong to the owner.
func (o *ownership) isOwned(of map[engine.ID]bool, id engine.ID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()

	return of[id]
}

// recordOwned records that an ID belongs to the owner.
func (o *ownership) recordOwned(of map[engine.ID]bool, id engine.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()

	of[id] = true
}

// notOwnedError reports an object of another owner.
type notOwnedError struct {
	what string // such as VM
	id   engine.ID
	mark string // of the owner
}

func (e *notOwnedError) Error() string {
	return fmt.Sprintf("%s %s does not have the mark of this run's owner (%q), so the provider does not read or "+
		"change it; the state may have been edited", e.what, e.id, e.mark)
}

// checkVM returns an error if the VM exists and belongs to another owner.
func (o *ownership) checkVM(ctx context.Context, id engine.ID) error {
	if o.isOwned(o.vms, id) {
		return nil
	}

	vm, err := o.client().FetchVM(ctx, id)

	switch {
	case engine.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case !o.isOwnMark(vm.CommentText()):
		return &notOwnedError{"VM", id, o.mark}
	}

	o.recordOwned(o.vms, id)

	return nil
}

// checkDisk returns an error if the disk exists and belongs to another owner. A disk belongs to the owner if it was
// created for the owner, or is attached to one of the owner's VMs in the state.
func (o *ownership) checkDisk(ctx context.Context, id engine.ID) error {
	if o.isOwned(o.disks, id) {
		return nil
	}

	disk, err := o.client().FetchDisk(ctx, id)

	switch {
	case engine.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}

	if !o.isOwnMark(disk.OwnerMark()) {
		attached, err := o.isAttachedToOwnedVM(ctx, id)
		if err != nil {
			return err
		}

		if !attached {
			return &notOwnedError{"disk", id, o.mark}
		}
	}

	o.recordOwned(o.disks, id)

	return nil
}

// isAttachedToOwnedVM reports whether a disk is attached to one of the owner's VMs in the state.
func (o *ownership) isAttachedToOwnedVM(ctx context.Context, disk engine.ID) (bool, error) {
	for _, id := range o.stateVMs {
		var notOwned *notOwnedError
		if err := o.checkVM(ctx, id); errors.As(err, &notOwned) {
			continue
		} else if err != nil {
			return false, err
		}

		there, err := o.client().ListDiskAttachments(ctx, id)
		if err != nil && !engine.IsNotFound(err) {
			return false, err
		}

		if slices.ContainsFunc(there, func(a engine.DiskAttachment) bool { return a.DiskID() == disk }) {
			return true, nil
		}
	}

	return false, nil
}

// checkGroup returns an error if the affinity group exists and belongs to another owner.
func (o *ownership) checkGroup(ctx context.Context, cluster, id engine.ID) error {
	group, err := o.client().FetchAffinityGroup(ctx, cluster, id)

	switch {
	case engine.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case !o.isOwnMark(ownermark.ParseSuffix(group.DescriptionText())):
		return &notOwnedError{"affinity group", id, o.mark}
	}

	return nil
}
