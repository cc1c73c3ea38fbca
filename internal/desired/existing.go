package desired

import (
	"context"
	"fmt"
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

// Beside returns what was found, to be imported beside what the state has. It is nil if nothing was found.
func (e *Existing) Beside(state *tfstate.State) *Existing {
	if e != nil {
		e.inState = state.Instances("ovirt_vm_mediated_device")
	}

	return e
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

		ours := slices.IndexFunc(disks, func(d engine.Disk) bool {
			return slices.ContainsFunc(attached, func(a engine.DiskAttachment) bool { return a.DiskID() == d.ID })
		})
		switch {
		case ours >= 0:
			e.imports[render.DataDiskAddress(want.Name)] = disks[ours].ID.String()
			e.imports[render.DataDiskAttachmentAddress(want.Name)] = e.VM.ID.String() + "/" + disks[ours].ID.String()
		default: // made, and not attached yet
			loose, err := session.WithoutTemplateCopies(ctx, disks)
			if err != nil {
				return err
			}

			at := slices.IndexFunc(loose, func(d engine.Disk) bool { return d.MadeFor(e.VM.CommentText()) })
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
		return slices.ContainsFunc(e.inState, func(i tfstate.Instance) bool { return i.ID == d.ID.String() })
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
