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

// Existing is a VM that the engine has already.
type Existing struct {
	VM engine.VM
	// Owner whose marker it has; zero where it has none.
	Owner ownermark.Owner

	imports map[render.Address]string
	// inState are the mediated devices that the state has, by their keys in it. The state need not have all of them.
	inState []tfstate.Instance
	// others are the IDs of what the VM had before a change asked for the same, and unmarked the addresses of disks
	// that only have the alias of one that was made for the VM. A change adopts neither.
	others   []string
	unmarked []render.Address
}

// FindExisting looks for the VM of a machine by its name, nil where there is none: one that an earlier run made and did
// not live to record. Nothing is created before this look.
func FindExisting(
	ctx context.Context, session *engine.Client, dcName, name string, spec infrav1.OLVMMachineSpec,
) (*Existing, error) {
	dc, err := session.DataCenter(ctx, dcName)
	if err != nil {
		return nil, blocker.NotFound(err, infrav1.DataCenterNotFoundReason, "OLVMCluster spec.olvmDatacenterName")
	}

	vm, err := session.FindVM(ctx, dc, name)
	if err != nil || vm == nil {
		return nil, err
	}

	found := &Existing{VM: *vm, imports: map[render.Address]string{render.VMAddress: vm.ID.String()}}
	found.Owner, _ = ownermark.OwnerOf(vm.CommentText())
	nics, err := session.NICs(ctx, vm.ID)
	if err != nil {
		return nil, err
	}

	wanted := addressing.Networks(spec)
	for _, nic := range nics {
		// Others were added by hand and are not the configuration's.
		if at := slices.IndexFunc(wanted, func(n infrav1.OLVMNetwork) bool { return n.VNICName == nic.Name }); at >= 0 {
			found.imports[render.NICAddress(at)] = vm.ID.String() + "/" + nic.ID.String()
		}
	}

	if err := found.dataDisks(ctx, session, dc, spec.VirtualMachine.DataDisks); err != nil {
		return nil, err
	}

	if err := found.tags(ctx, session, spec.VirtualMachine.Tags); err != nil {
		return nil, err
	}

	if vm.Status == engine.VMUp || vm.Status.Starting() {
		found.imports[render.StartAddress] = vm.ID.String()
		if autoPinned(spec.VirtualMachine) { // before the start, and not possible after it
			found.imports[render.OptimizeCPUAddress] = vm.ID.String()
		}
	}

	return found, nil
}

// marked reports whether a VM has that marker.
func marked(vm *engine.VM, comment string) bool {
	return strings.TrimSpace(vm.CommentText()) == comment
}

// Of is what was found where it is of the object that has that marker, or where it is the VM that the object's state
// has, also under another name. It is nil where the state has another VM. Where there is no state, a VM without the
// marker is an error.
func (e *Existing) Of(comment string, inState engine.ID) (*Existing, error) {
	switch {
	case e == nil || inState != "" && e.VM.ID != inState:
		return nil, nil
	case inState == "" && !marked(&e.VM, comment):
		return nil, e.Conflict()
	}

	return e, nil
}

// Beside returns what was found, to be imported beside what the state has. It is nil if nothing was found. After a
// change that did not reach its end, only what the change may have made is imported.
func (e *Existing) Beside(state *tfstate.State) *Existing {
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

// isOthers reports whether an import is of something that the VM had before a change asked for the same.
func (e *Existing) isOthers(_ render.Address, id string) bool {
	return slices.ContainsFunc(e.others, func(other string) bool {
		return slices.Contains(strings.Split(id, "/"), other)
	})
}

// tags finds those that the VM has already.
func (e *Existing) tags(ctx context.Context, session *engine.Client, wanted []string) error {
	if len(wanted) == 0 {
		return nil
	}

	there, err := session.VMTags(ctx, e.VM.ID)
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

// dataDisks finds the data disks that were made for the VM, attached or not yet.
func (e *Existing) dataDisks(
	ctx context.Context, session *engine.Client, dc *engine.DataCenter, wanted []infrav1.DataDisk,
) error {
	if len(wanted) == 0 {
		return nil
	}

	attached, err := session.DiskAttachments(ctx, e.VM.ID)
	if err != nil {
		return err
	}

	for _, want := range wanted {
		disks, err := session.FindDisks(ctx, dc, render.DiskAlias(e.VM.Name, want.Name))
		if err != nil {
			return err
		}

		madeForVM := func(d engine.Disk) bool { return d.MadeFor(e.VM.CommentText()) }
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

		default: // made, and not attached yet
			loose, err := session.WithoutUsed(ctx, disks)
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

// adopt adds imports of what exists to the configuration of a machine.
func (e *Existing) adopt(
	ctx context.Context, session *engine.Client, configuration render.Configuration, machine render.Machine,
) (render.Configuration, error) {
	if err := e.memberships(ctx, session, engine.ID(machine.ClusterID), machine.AffinityGroups); err != nil {
		return render.Configuration{}, err
	}

	if err := e.devices(ctx, session, machine); err != nil {
		return render.Configuration{}, err
	}

	maps.DeleteFunc(e.imports, e.isOthers)

	return configuration.Adopting(e.imports), nil
}

// devices finds watchdog, host devices and mediated devices that the VM has already.
func (e *Existing) devices(ctx context.Context, session *engine.Client, machine render.Machine) error {
	if machine.WatchdogAction != "" {
		watchdogs, err := session.Watchdogs(ctx, e.VM.ID)
		if err != nil {
			return err
		}

		for _, watchdog := range watchdogs {
			e.imports[render.WatchdogAddress] = e.VM.ID.String() + "/" + watchdog.ID.String()
		}
	}

	if len(machine.HostDevices) > 0 {
		names, err := session.VMHostDevices(ctx, e.VM.ID)
		if err != nil {
			return err
		}

		for _, name := range machine.HostDevices {
			if slices.Contains(names, name) {
				e.imports[render.HostDeviceAddress(name)] = e.VM.ID.String() + "/" + name
			}
		}
	}

	return e.mediatedDevices(ctx, session, machine.MediatedDevices)
}

// mediatedDevices finds those that the VM has already. It may have several of a type, so that they are counted, without
// those that the state has.
func (e *Existing) mediatedDevices(ctx context.Context, session *engine.Client, wanted []string) error {
	if len(wanted) == 0 {
		return nil
	}

	there, err := session.MediatedDevices(ctx, e.VM.ID)
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

// memberships finds the affinity groups in which the VM is already. groups are the UUIDs of those in the engine's
// cluster that it is to be in, by their names.
func (e *Existing) memberships(
	ctx context.Context, session *engine.Client, clusterID engine.ID, groups map[string]string,
) error {
	if len(groups) == 0 {
		return nil
	}

	there, err := session.AffinityGroups(ctx, clusterID)
	if err != nil {
		return err
	}

	for name, id := range groups {
		joined := slices.ContainsFunc(there, func(g engine.AffinityGroup) bool {
			return g.ID.String() == id && g.Has(e.VM.ID)
		})
		if joined {
			e.imports[render.MembershipAddress(name)] = clusterID.String() + "/" + id + "/" + e.VM.ID.String()
		}
	}

	return nil
}

// Conflict reports that the VM is not the machine's.
func (e *Existing) Conflict() error {
	return &blocker.Error{Reason: infrav1.VMNameConflictReason, Field: "metadata.name", Message: fmt.Sprintf(
		"the engine already has a VM named %q (%s) that does not belong to this machine (its comment is %q); rename "+
			"or delete it, or delete this Machine",
		e.VM.Name, e.VM.ID, e.VM.CommentText(),
	)}
}
