package tfprovider

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// ownership refuses to read or change what is not the owner's. IDs come from states, and whoever may write the Secret
// of a state can put any ID there. What an ID names is the owner's only if the engine has the owner's mark on it.
type ownership struct {
	mark string
	// client of the provider; nil before it is configured.
	client func() *engine.Client

	mu sync.Mutex
	// vms and disks are known to be the owner's. stateVMs are the VMs in the state, whoever owns them.
	vms, disks map[engine.ID]bool
	stateVMs   []engine.ID
}

// newOwnership returns the ownership of the owner with this mark. It returns nil, which allows everything, if the mark is
// not that of an object: a person who runs olvmctl plan has none.
func newOwnership(mark string, client func() *engine.Client) *ownership {
	_, machine := ownermark.OwnerOf(mark)
	_, pooled := ownermark.InventoryOwnerOf(mark)

	if !machine && !pooled {
		return nil
	}

	return &ownership{mark: mark, client: client, vms: map[engine.ID]bool{}, disks: map[engine.ID]bool{}}
}

// owns reports whether a mark names the owner. It ignores the UID, which changes when the object moves. If the owner is
// an OLVMInventoryVM, it also accepts the mark of any machine in the same namespace: a machine that claims the VM
// replaces its mark.
func (o *ownership) owns(mark string) bool {
	found, machine := ownermark.OwnerOf(mark)
	if owner, ok := ownermark.OwnerOf(o.mark); ok {
		return machine && found.SameObject(owner)
	}

	owner, _ := ownermark.InventoryOwnerOf(o.mark)
	made, pooled := ownermark.InventoryOwnerOf(mark)

	return pooled && made.SameObject(owner) || machine && found.Namespace == owner.Namespace
}

// objects are the IDs of what a state of a resource is about.
type objects struct{ vms, disks, groups []engine.ID }

// objectsOf reads the IDs in a state, prior or planned, of a resource. What is not known yet has none.
func objectsOf(typeName string, state map[string]tftypes.Value, exists bool) objects {
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

// check returns an error if a state of a resource is about what is not the owner's. exists reports that it is a state
// that was stored, and not one that is planned.
func (o *ownership) check(
	ctx context.Context, schema *tfprotov5.Schema, typeName string, value *tfprotov5.DynamicValue, exists bool,
) error {
	state, err := decode(schema, value)
	if err != nil || state == nil {
		return err
	}

	about := objectsOf(typeName, state, exists)
	for _, id := range about.vms {
		if exists {
			o.recordStateVM(id)
		}

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

// recordCreated records what a resource has created, which is the owner's.
func (o *ownership) recordCreated(schema *tfprotov5.Schema, typeName string, value *tfprotov5.DynamicValue) {
	state, err := decode(schema, value)
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

// decode returns the attributes of a state; nil if there is none.
func decode(schema *tfprotov5.Schema, value *tfprotov5.DynamicValue) (map[string]tftypes.Value, error) {
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

// recordStateVM records a VM that the state has.
func (o *ownership) recordStateVM(id engine.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()

	if !slices.Contains(o.stateVMs, id) {
		o.stateVMs = append(o.stateVMs, id)
	}
}

// isOwned reports whether an ID is known to be the owner's.
func (o *ownership) isOwned(of map[engine.ID]bool, id engine.ID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()

	return of[id]
}

// recordOwned records that an ID is the owner's.
func (o *ownership) recordOwned(of map[engine.ID]bool, id engine.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()

	of[id] = true
}

// notOwnedError is the error about what is not the owner's.
func (o *ownership) notOwnedError(what string, id engine.ID) error {
	return fmt.Errorf("%s %s does not have the mark of this run's owner (%q), so the provider does not read or change it; "+
		"the state may have been edited", what, id, o.mark)
}

// checkVM returns an error if the VM exists and has another owner.
func (o *ownership) checkVM(ctx context.Context, id engine.ID) error {
	if o.isOwned(o.vms, id) {
		return nil
	}

	vm, err := o.client().VM(ctx, id)

	switch {
	case engine.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case !o.owns(vm.CommentText()):
		return o.notOwnedError("VM", id)
	}

	o.recordOwned(o.vms, id)

	return nil
}

// checkDisk returns an error if the disk exists and has another owner: it was not made for the owner, and no VM of the
// owner in the state has it.
func (o *ownership) checkDisk(ctx context.Context, id engine.ID) error {
	if o.isOwned(o.disks, id) {
		return nil
	}

	disk, err := o.client().Disk(ctx, id)

	switch {
	case engine.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}

	if !o.owns(disk.OwnerMark()) {
		attached, err := o.isAttachedToOwnedVM(ctx, id)
		if err != nil {
			return err
		}

		if !attached {
			return o.notOwnedError("disk", id)
		}
	}

	o.recordOwned(o.disks, id)

	return nil
}

// isAttachedToOwnedVM reports whether a disk is attached to a VM of the owner's that the state has.
func (o *ownership) isAttachedToOwnedVM(ctx context.Context, disk engine.ID) (bool, error) {
	o.mu.Lock()
	seen := slices.Clone(o.stateVMs)
	o.mu.Unlock()

	for _, id := range seen {
		if !o.isOwned(o.vms, id) {
			continue
		}

		there, err := o.client().DiskAttachments(ctx, id)
		if err != nil && !engine.IsNotFound(err) {
			return false, err
		}

		if slices.ContainsFunc(there, func(a engine.DiskAttachment) bool { return a.DiskID() == disk }) {
			return true, nil
		}
	}

	return false, nil
}

// checkGroup returns an error if the affinity group exists and has another owner.
func (o *ownership) checkGroup(ctx context.Context, cluster, id engine.ID) error {
	group, err := o.client().AffinityGroup(ctx, cluster, id)

	switch {
	case engine.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case !o.owns(ownermark.In(group.DescriptionText())):
		return o.notOwnedError("affinity group", id)
	}

	return nil
}
