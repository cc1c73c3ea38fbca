package desired

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// Existing is a VM that already exists in the engine.
type Existing struct {
	VM engine.VM
	// Owner is the owner in the VM's marker. It is zero without a marker.
	Owner ownermark.Owner

	imports map[render.Address]string
	// inState are the mediated devices in the state, with their keys. The state may lack some devices.
	inState []tfstate.Instance
	// others are the IDs of parts that the VM already had before a change requested the same. unmarked are the
	// addresses of disks that have the alias of the VM's disk, but not its mark. A change adopts neither.
	others   []string
	unmarked []render.Address
}

// FindExisting looks for a machine's VM by name, and returns nil if it does not exist. An interrupted run may have
// created the VM without recording it, so this look-up comes before any creation.
func FindExisting(
	ctx context.Context, session *engine.Client, dcName, name string, spec infrav1.OLVMMachineSpec,
) (*Existing, error) {
	dc, err := session.FindDataCenter(ctx, dcName)
	if err != nil {
		return nil, blocker.WrapNotFound(err, infrav1.DataCenterNotFoundReason, "OLVMCluster spec.olvmDatacenterName")
	}

	vm, err := session.FindVM(ctx, dc, name)
	if err != nil || vm == nil {
		return nil, err
	}

	found := &Existing{VM: *vm, imports: map[render.Address]string{render.VMAddress: vm.ID.String()}}
	found.Owner, _ = ownermark.ParseOwner(vm.CommentText())
	nics, err := session.ListNICs(ctx, vm.ID)
	if err != nil {
		return nil, err
	}

	wanted := addressing.CollectNetworks(spec)
	for _, nic := range nics {
		// Other interfaces were added by hand, and do not belong to the configuration.
		if at := slices.IndexFunc(wanted, func(n infrav1.OLVMNetwork) bool { return n.VNICName == nic.Name }); at >= 0 {
			found.imports[render.NICAddress(at)] = vm.ID.String() + "/" + nic.ID.String()
		}
	}

	if err := found.findDataDisks(ctx, session, dc, spec.VirtualMachine.DataDisks); err != nil {
		return nil, err
	}

	if err := found.findTags(ctx, session, spec.VirtualMachine.Tags); err != nil {
		return nil, err
	}

	if vm.Status == engine.VMUp || vm.Status.IsStarting() {
		found.imports[render.StartAddress] = vm.ID.String()
		if isAutoPinned(spec.VirtualMachine) { // the engine pins before the start, and cannot do so afterwards
			found.imports[render.OptimizeCPUAddress] = vm.ID.String()
		}
	}

	return found, nil
}

// hasMarker reports whether a VM has this marker.
func hasMarker(vm *engine.VM, comment string) bool {
	return strings.TrimSpace(vm.CommentText()) == comment
}

// FilterOwned returns e if its VM carries the marker, or is the VM in the state, even under a new name. If the state
// has another VM, it returns nil. If there is neither a state nor the marker, it fails.
func (e *Existing) FilterOwned(comment string, inState engine.ID) (*Existing, error) {
	switch {
	case e == nil || inState != "" && e.VM.ID != inState:
		return nil, nil
	case inState == "" && !hasMarker(&e.VM, comment):
		return nil, e.NewConflictError()
	}

	return e, nil
}

// WithState returns e, prepared for the import of resources that the state lacks. It returns nil if e is nil. After an
// incomplete change, e imports only what the change may have created.
func (e *Existing) WithState(state *tfstate.State) *Existing {
	if e == nil || state == nil {
		return e
	}

	e.inState = state.Instances("ovirt_vm_mediated_device")
	e.others = ParseAdditions(state.ChangeAdds).Others

	if state.WasApplied() {
		for _, address := range e.unmarked {
			delete(e.imports, address)
		}
	}

	return e
}

// isOthers reports whether the VM already had a part before a change requested the same.
func (e *Existing) isOthers(_ render.Address, id string) bool {
	return slices.ContainsFunc(e.others, func(other string) bool {
		return slices.Contains(strings.Split(id, "/"), other)
	})
}

// findTags finds the wanted tags that are already on the VM.
func (e *Existing) findTags(ctx context.Context, session *engine.Client, wanted []string) error {
	if len(wanted) == 0 {
		return nil
	}

	there, err := session.ListVMTags(ctx, e.VM.ID)
	if err != nil {
		return err
	}

	for _, tag := range there {
		if slices.Contains(wanted, tag.Name) {
			e.imports[render.TagAddress(tag.ID.String())] = tag.ID.String() + "/" + e.VM.ID.String()
		}
	}

	return nil
}

// findDataDisks finds the data disks created for the VM, whether they are attached or not.
func (e *Existing) findDataDisks(
	ctx context.Context, session *engine.Client, dc *engine.DataCenter, wanted []infrav1.DataDisk,
) error {
	if len(wanted) == 0 {
		return nil
	}

	attached, err := session.ListDiskAttachments(ctx, e.VM.ID)
	if err != nil {
		return err
	}

	for _, want := range wanted {
		disks, err := session.FindDisks(ctx, dc, render.DiskAlias(e.VM.Name, want.Name))
		if err != nil {
			return err
		}

		madeForVM := func(d engine.Disk) bool { return d.IsMadeFor(e.VM.CommentText()) }
		marked := slices.DeleteFunc(slices.Clone(disks), func(d engine.Disk) bool { return !madeForVM(d) })
		disks = slices.Concat(marked, slices.DeleteFunc(disks, madeForVM))

		ours := slices.IndexFunc(disks, func(d engine.Disk) bool {
			return slices.ContainsFunc(attached, func(a engine.DiskAttachment) bool { return a.DiskID() == d.ID })
		})
		switch {
		case ours >= 0:
			disk, attachment := render.DataDiskAddress(want.Name), render.DataDiskAttachmentAddress(want.Name)
			e.imports[disk] = disks[ours].ID.String()
			e.imports[attachment] = e.VM.ID.String() + "/" + disks[ours].ID.String()

			if !madeForVM(disks[ours]) {
				e.unmarked = append(e.unmarked, disk, attachment)
			}

		default: // created, but not attached yet
			loose, err := session.ExcludeUsedDisks(ctx, disks)
			if err != nil {
				return err
			}

			at := slices.IndexFunc(loose, madeForVM)
			if at >= 0 {
				e.imports[render.DataDiskAddress(want.Name)] = loose[at].ID.String()
			}
		}
	}

	return nil
}

// addImports adds imports of existing resources to the configuration of a machine.
func (e *Existing) addImports(
	ctx context.Context, session *engine.Client, configuration render.Configuration, machine render.Machine,
) (render.Configuration, error) {
	if err := e.findMemberships(ctx, session, engine.ID(machine.ClusterID), machine.AffinityGroups); err != nil {
		return render.Configuration{}, err
	}

	if err := e.findDevices(ctx, session, machine); err != nil {
		return render.Configuration{}, err
	}

	maps.DeleteFunc(e.imports, e.isOthers)

	return configuration.WithImports(e.imports), nil
}

// findDevices finds the wanted watchdog, host devices and mediated devices that are already on the VM.
func (e *Existing) findDevices(ctx context.Context, session *engine.Client, machine render.Machine) error {
	if machine.WatchdogAction != "" {
		watchdogs, err := session.ListWatchdogs(ctx, e.VM.ID)
		if err != nil {
			return err
		}

		for _, watchdog := range watchdogs {
			e.imports[render.WatchdogAddress] = e.VM.ID.String() + "/" + watchdog.ID.String()
		}
	}

	if len(machine.HostDevices) > 0 {
		names, err := session.ListVMHostDevices(ctx, e.VM.ID)
		if err != nil {
			return err
		}

		for _, name := range machine.HostDevices {
			if slices.Contains(names, name) {
				e.imports[render.HostDeviceAddress(name)] = e.VM.ID.String() + "/" + name
			}
		}
	}

	return e.findMediatedDevices(ctx, session, machine.MediatedDevices)
}

// findMediatedDevices finds the wanted mediated devices that are already on the VM. A VM may have several devices of a
// type, so it counts them, without those in the state.
func (e *Existing) findMediatedDevices(ctx context.Context, session *engine.Client, wanted []string) error {
	if len(wanted) == 0 {
		return nil
	}

	there, err := session.ListMediatedDevices(ctx, e.VM.ID)
	if err != nil {
		return err
	}

	there = slices.DeleteFunc(there, func(d engine.MediatedDevice) bool {
		return slices.Contains(e.others, d.ID.String()) ||
			slices.ContainsFunc(e.inState, func(i tfstate.Instance) bool { return i.ID == d.ID.String() })
	})

	for i, kind := range wanted {
		if slices.ContainsFunc(e.inState, func(known tfstate.Instance) bool {
			return known.Key == render.MediatedDeviceKey(i)
		}) {
			continue
		}

		at := slices.IndexFunc(there, func(d engine.MediatedDevice) bool { return d.Type() == kind })
		if at < 0 {
			continue
		}

		e.imports[render.MediatedDeviceAddress(i)] = e.VM.ID.String() + "/" + there[at].ID.String()
		there = slices.Delete(there, at, at+1)
	}

	return nil
}

// findMemberships finds the wanted affinity groups that already have the VM as a member. groups maps the names of the
// wanted groups to their UUIDs in the engine's cluster.
func (e *Existing) findMemberships(
	ctx context.Context, session *engine.Client, clusterID engine.ID, groups map[string]string,
) error {
	if len(groups) == 0 {
		return nil
	}

	there, err := session.ListAffinityGroups(ctx, clusterID)
	if err != nil {
		return err
	}

	for name, id := range groups {
		joined := slices.ContainsFunc(there, func(g engine.AffinityGroup) bool {
			return g.ID.String() == id && g.HasVM(e.VM.ID)
		})
		if joined {
			e.imports[render.MembershipAddress(name)] = clusterID.String() + "/" + id + "/" + e.VM.ID.String()
		}
	}

	return nil
}

// NewConflictError returns the error for a VM that belongs to another owner.
func (e *Existing) NewConflictError() error {
	return &blocker.Error{Reason: infrav1.VMNameConflictReason, Field: "metadata.name", Message: fmt.Sprintf(
		"the engine already has a VM named %q (%s) that does not belong to this machine (its comment is %q); rename "+
			"or delete it, or delete this Machine",
		e.VM.Name, e.VM.ID, e.VM.CommentText(),
	)}
}

// NewNotOwnedError explains why the controller does not change a VM. It does not describe the VM, because tenants must
// not learn about VMs of others.
func NewNotOwnedError(owner ownermark.Owner, id engine.ID) *blocker.Error {
	return &blocker.Error{
		Reason: infrav1.VMNotOwnedReason,
		Message: fmt.Sprintf("VM %s does not have the mark of this machine, so the controller does not change it. If "+
			"the VM belongs to this machine, replace its comment in the engine with exactly %q. Otherwise, delete "+
			"this Machine and follow the message of the Deleting condition", id, owner.Comment()),
	}
}

// CheckVMOwned returns a *blocker.Error if a VM named by a record, such as the state, lacks the owner's mark. A missing
// VM passes the check. The controller and plans share it.
func CheckVMOwned(ctx context.Context, session *engine.Client, owner ownermark.Owner, id engine.ID) error {
	vm, err := session.FetchVM(ctx, id)

	switch {
	case engine.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case !owner.IsNamedIn(vm.CommentText()):
		return NewNotOwnedError(owner, id)
	}

	return nil
}
