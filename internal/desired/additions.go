package desired

import (
	"context"
	"encoding/json"
	"slices"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// Additions are what configurations of a VM add to it that carries no mark, by the names that the engine has for it. A
// run that takes a change back finds by them what the change has added, and what no state has.
type Additions struct {
	NICs            []string `json:"nics,omitempty"`
	TagIDs          []string `json:"tags,omitempty"`
	HostDevices     []string `json:"hostDevices,omitempty"`
	MediatedDevices []string `json:"mediatedDevices,omitempty"` // their types
	Watchdog        bool     `json:"watchdog,omitempty"`
	// GroupIDs are those of affinity groups in the engine's cluster.
	GroupIDs []string `json:"groups,omitempty"`
}

// AdditionsOf returns what a configuration adds.
func AdditionsOf(spec infrav1.OLVMMachineSpec, machine render.Machine) Additions {
	out := Additions{
		TagIDs:          machine.TagIDs,
		HostDevices:     machine.HostDevices,
		MediatedDevices: machine.MediatedDevices,
		Watchdog:        machine.WatchdogAction != "",
	}

	for _, network := range addressing.Networks(spec) {
		out.NICs = append(out.NICs, network.VNICName)
	}

	for _, id := range machine.AffinityGroups {
		out.GroupIDs = append(out.GroupIDs, id)
	}

	return out
}

// ParseAdditions reads what Text has written. What cannot be read is nothing.
func ParseAdditions(text string) Additions {
	var out Additions
	if json.Unmarshal([]byte(text), &out) != nil {
		return Additions{}
	}

	return out
}

// Text returns the additions as a text, which is the same for the same additions.
func (a Additions) Text() (string, error) {
	content, err := json.Marshal(a.And(Additions{}))

	return string(content), err
}

// And returns these additions and others, sorted.
func (a Additions) And(others Additions) Additions {
	return Additions{
		NICs:            sortedUnion(a.NICs, others.NICs),
		TagIDs:          sortedUnion(a.TagIDs, others.TagIDs),
		HostDevices:     sortedUnion(a.HostDevices, others.HostDevices),
		MediatedDevices: sortedUnion(a.MediatedDevices, others.MediatedDevices),
		Watchdog:        a.Watchdog || others.Watchdog,
		GroupIDs:        sortedUnion(a.GroupIDs, others.GroupIDs),
	}
}

func sortedUnion(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)

	return slices.Compact(out)
}

// Undo takes from a VM what a change has added that is taken back. Wanted is what the VM is to have, and the state has
// what Terraform knows of it: both stay. What else is on the VM under another name was not added by the change.
type Undo struct {
	VM, Cluster   engine.ID
	Added, Wanted Additions
	State         *tfstate.State
}

// Run takes the additions away.
func (u Undo) Run(ctx context.Context, session *engine.Client) error {
	for _, step := range []func(context.Context, *engine.Client) error{
		u.nics, u.tags, u.mediatedDevices, u.hostDevices, u.watchdog, u.groups,
	} {
		if err := step(ctx, session); err != nil {
			return err
		}
	}

	return nil
}

// surplus are the names that were added and are not wanted.
func surplus(added, wanted []string) []string {
	return slices.DeleteFunc(slices.Clone(added), func(name string) bool { return slices.Contains(wanted, name) })
}

func ignoreMissing(err error) error {
	if engine.IsNotFound(err) {
		return nil
	}

	return err
}

func (u Undo) nics(ctx context.Context, session *engine.Client) error {
	names := surplus(u.Added.NICs, u.Wanted.NICs)
	if len(names) == 0 {
		return nil
	}

	there, err := session.NICs(ctx, u.VM)
	if err != nil {
		return err
	}

	for _, nic := range there {
		if !slices.Contains(names, nic.Name) {
			continue
		}

		err := session.DeleteNIC(ctx, u.VM, nic.ID)
		if engine.IsConflict(err) && !engine.IsTransient(err) { // the VM runs
			if err = session.UnplugNIC(ctx, u.VM, nic.ID); err == nil {
				err = session.DeleteNIC(ctx, u.VM, nic.ID)
			}
		}

		if ignoreMissing(err) != nil {
			return err
		}
	}

	return nil
}

func (u Undo) tags(ctx context.Context, session *engine.Client) error {
	ids := surplus(u.Added.TagIDs, u.Wanted.TagIDs)
	if len(ids) == 0 {
		return nil
	}

	there, err := session.VMTags(ctx, u.VM)
	if err != nil {
		return err
	}

	for _, tag := range there {
		if slices.Contains(ids, tag.ID.String()) {
			if err := ignoreMissing(session.UntagVM(ctx, u.VM, tag.ID)); err != nil {
				return err
			}
		}
	}

	return nil
}

// mediatedDevices removes devices of the types that were added which no state has. The state has all that are wanted.
func (u Undo) mediatedDevices(ctx context.Context, session *engine.Client) error {
	if len(u.Added.MediatedDevices) == 0 {
		return nil
	}

	there, err := session.MediatedDevices(ctx, u.VM)
	if err != nil {
		return err
	}

	known := u.State.Instances("ovirt_vm_mediated_device")

	for _, device := range there {
		inState := slices.ContainsFunc(known, func(i tfstate.Instance) bool { return i.ID == device.ID.String() })
		if inState || !slices.Contains(u.Added.MediatedDevices, device.Type()) {
			continue
		}

		if err := ignoreMissing(session.RemoveMediatedDevice(ctx, u.VM, device.ID)); err != nil {
			return err
		}
	}

	return nil
}

func (u Undo) hostDevices(ctx context.Context, session *engine.Client) error {
	names := surplus(u.Added.HostDevices, u.Wanted.HostDevices)
	if len(names) == 0 {
		return nil
	}

	there, err := session.VMHostDevices(ctx, u.VM)
	if err != nil {
		return err
	}

	for _, name := range there {
		if slices.Contains(names, name) {
			if err := ignoreMissing(session.RemoveHostDevice(ctx, u.VM, name)); err != nil {
				return err
			}
		}
	}

	return nil
}

func (u Undo) watchdog(ctx context.Context, session *engine.Client) error {
	if !u.Added.Watchdog || u.Wanted.Watchdog {
		return nil
	}

	there, err := session.Watchdogs(ctx, u.VM)
	if err != nil {
		return err
	}

	for _, watchdog := range there {
		if err := ignoreMissing(session.RemoveWatchdog(ctx, u.VM, watchdog.ID)); err != nil {
			return err
		}
	}

	return nil
}

func (u Undo) groups(ctx context.Context, session *engine.Client) error {
	ids := surplus(u.Added.GroupIDs, u.Wanted.GroupIDs)
	if len(ids) == 0 {
		return nil
	}

	there, err := session.AffinityGroups(ctx, u.Cluster)
	if err != nil {
		return err
	}

	for _, group := range there {
		if slices.Contains(ids, group.ID.String()) && group.Has(u.VM) {
			if err := ignoreMissing(session.RemoveFromAffinityGroup(ctx, u.Cluster, group.ID, u.VM)); err != nil {
				return err
			}
		}
	}

	return nil
}
