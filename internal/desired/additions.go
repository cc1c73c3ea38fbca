package desired

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// Additions are the parts of a VM's configuration that carry no mark, by their names in the engine. A run that reverts
// a change uses them to find additions that are missing from the state.
//
// A name alone does not show who has added a part, so Others accompanies the names.
type Additions struct {
	NICs            []string `json:"nics,omitempty"`
	TagIDs          []string `json:"tags,omitempty"`
	HostDevices     []string `json:"hostDevices,omitempty"`
	MediatedDevices []string `json:"mediatedDevices,omitempty"` // by type
	Watchdog        bool     `json:"watchdog,omitempty"`
	// GroupIDs are the IDs of affinity groups in the cluster of the engine.
	GroupIDs []string `json:"groups,omitempty"`
	// Others are the IDs of parts that the VM already had under one of these names before a change requested them. They
	// belong to the earlier VM or to an administrator. No run of the change adopts or removes them.
	Others []string `json:"others,omitempty"`
}

// NewAdditions returns the additions of a configuration.
func NewAdditions(spec infrav1.OLVMMachineSpec, machine render.Machine) Additions {
	out := Additions{
		TagIDs:          machine.TagIDs,
		HostDevices:     machine.HostDevices,
		MediatedDevices: machine.MediatedDevices,
		Watchdog:        machine.WatchdogAction != "",
	}

	for _, network := range addressing.CollectNetworks(spec) {
		out.NICs = append(out.NICs, network.VNICName)
	}

	out.GroupIDs = slices.Collect(maps.Values(machine.AffinityGroups))

	return out
}

// ParseAdditions parses the result of EncodeJSON. For unreadable text, it returns no additions.
func ParseAdditions(text string) Additions {
	var out Additions
	if json.Unmarshal([]byte(text), &out) != nil {
		return Additions{}
	}

	return out
}

// EncodeJSON returns the additions as JSON. Equal additions have equal texts.
func (a Additions) EncodeJSON() (string, error) {
	content, err := json.Marshal(a.UnionWith(Additions{}))

	return string(content), err
}

// UnionWith returns the sorted union of a and others.
func (a Additions) UnionWith(others Additions) Additions {
	return Additions{
		NICs:            sortedUnion(a.NICs, others.NICs),
		TagIDs:          sortedUnion(a.TagIDs, others.TagIDs),
		HostDevices:     sortedUnion(a.HostDevices, others.HostDevices),
		MediatedDevices: sortedUnion(a.MediatedDevices, others.MediatedDevices),
		Watchdog:        a.Watchdog || others.Watchdog,
		GroupIDs:        sortedUnion(a.GroupIDs, others.GroupIDs),
		Others:          sortedUnion(a.Others, others.Others),
	}
}

// Without returns the additions whose names are not in others.
func (a Additions) Without(others Additions) Additions {
	return Additions{
		NICs:            subtractNames(a.NICs, others.NICs),
		TagIDs:          subtractNames(a.TagIDs, others.TagIDs),
		HostDevices:     subtractNames(a.HostDevices, others.HostDevices),
		MediatedDevices: subtractNames(a.MediatedDevices, others.MediatedDevices),
		Watchdog:        a.Watchdog && !others.Watchdog,
		GroupIDs:        subtractNames(a.GroupIDs, others.GroupIDs),
	}
}

// ListOnVM returns the sorted IDs of the VM's parts with these names.
func (a Additions) ListOnVM(ctx context.Context, session *engine.Client, vm, cluster engine.ID) ([]string, error) {
	var out []string

	err := a.visitParts(
		ctx,
		session,
		vm,
		cluster,
		func(_ context.Context, id string, _ func(context.Context) error) error {
			out = append(out, id)
			return nil
		},
	)
	slices.Sort(out)

	return out, err
}

func sortedUnion(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)

	return slices.Compact(out)
}

// Undo removes the additions of a reverted change from a VM. It keeps the parts in Wanted, and all parts in the state.
// It also keeps parts with other names, and parts that the VM already had, because the change did not add them.
type Undo struct {
	VM, Cluster   engine.ID
	Added, Wanted Additions
	State         *tfstate.State
}

// RemoveAdditions removes the additions from the VM.
func (u Undo) RemoveAdditions(ctx context.Context, session *engine.Client) error {
	added := u.Added.Without(u.Wanted)
	// A VM may have several devices of a type. The state has all wanted devices.
	added.MediatedDevices = u.Added.MediatedDevices
	known := u.State.Instances("ovirt_vm_mediated_device")

	return added.visitParts(ctx, session, u.VM, u.Cluster, func(
		ctx context.Context, id string, remove func(context.Context) error,
	) error {
		if slices.Contains(u.Added.Others, id) ||
			slices.ContainsFunc(known, func(i tfstate.Instance) bool { return i.ID == id }) {
			return nil
		}

		return ignoreMissing(remove(ctx))
	})
}

// subtractNames returns the added names without the wanted ones.
func subtractNames(added, wanted []string) []string {
	return slices.DeleteFunc(slices.Clone(added), func(name string) bool { return slices.Contains(wanted, name) })
}

func ignoreMissing(err error) error {
	if engine.IsNotFound(err) {
		return nil
	}

	return err
}

// visitor is called for each matching part of a VM, with its ID and a function that removes it.
type visitor func(ctx context.Context, id string, remove func(context.Context) error) error

// visitParts visits the VM's parts with these names, kind by kind.
func (a Additions) visitParts(
	ctx context.Context, session *engine.Client, vm, cluster engine.ID, visit visitor,
) error {
	for _, kind := range []func() error{
		func() error {
			return visitAll(ctx, len(a.NICs) > 0,
				func() ([]engine.NIC, error) { return session.ListNICs(ctx, vm) },
				func(n engine.NIC) (string, bool) { return n.ID.String(), slices.Contains(a.NICs, n.Name) },
				func(ctx context.Context, n engine.NIC) error { return removeNIC(ctx, session, vm, n.ID) }, visit)
		},
		func() error {
			return visitAll(ctx, len(a.TagIDs) > 0,
				func() ([]engine.Tag, error) { return session.ListVMTags(ctx, vm) },
				func(t engine.Tag) (string, bool) { return t.ID.String(), slices.Contains(a.TagIDs, t.ID.String()) },
				func(ctx context.Context, t engine.Tag) error { return session.UntagVM(ctx, vm, t.ID) }, visit)
		},
		func() error { return a.visitDevices(ctx, session, vm, visit) },
		func() error {
			return visitAll(ctx, len(a.GroupIDs) > 0,
				func() ([]engine.AffinityGroup, error) { return session.ListAffinityGroups(ctx, cluster) },
				func(g engine.AffinityGroup) (string, bool) {
					return g.ID.String(), slices.Contains(a.GroupIDs, g.ID.String()) && g.HasVM(vm)
				},
				func(ctx context.Context, g engine.AffinityGroup) error {
					return session.RemoveFromAffinityGroup(ctx, cluster, g.ID, vm)
				}, visit)
		},
	} {
		if err := kind(); err != nil {
			return err
		}
	}

	return nil
}

// visitDevices visits mediated devices, host devices (by name), and watchdogs.
func (a Additions) visitDevices(
	ctx context.Context, session *engine.Client, vm engine.ID, visit visitor,
) error {
	err := visitAll(ctx, len(a.MediatedDevices) > 0,
		func() ([]engine.MediatedDevice, error) { return session.ListMediatedDevices(ctx, vm) },
		func(d engine.MediatedDevice) (string, bool) {
			return d.ID.String(), slices.Contains(a.MediatedDevices, d.Type())
		},
		func(ctx context.Context, d engine.MediatedDevice) error {
			return session.RemoveMediatedDevice(ctx, vm, d.ID)
		}, visit)
	if err != nil {
		return err
	}

	err = visitAll(ctx, len(a.HostDevices) > 0,
		func() ([]string, error) { return session.ListVMHostDevices(ctx, vm) },
		func(name string) (string, bool) { return name, slices.Contains(a.HostDevices, name) },
		func(ctx context.Context, name string) error { return session.RemoveHostDevice(ctx, vm, name) }, visit)
	if err != nil {
		return err
	}

	return visitAll(ctx, a.Watchdog,
		func() ([]engine.Watchdog, error) { return session.ListWatchdogs(ctx, vm) },
		func(w engine.Watchdog) (string, bool) { return w.ID.String(), true },
		func(ctx context.Context, w engine.Watchdog) error { return session.RemoveWatchdog(ctx, vm, w.ID) }, visit)
}

// visitAll lists the parts of one kind, and visits the requested ones. If asked is false, it does nothing. known
// returns the ID of a part, and whether the part is requested.
func visitAll[T any](
	ctx context.Context, asked bool, list func() ([]T, error), known func(T) (string, bool),
	remove func(context.Context, T) error, visit visitor,
) error {
	if !asked {
		return nil
	}

	there, err := list()
	if err != nil {
		return err
	}

	for _, thing := range there {
		id, isAsked := known(thing)
		if !isAsked {
			continue
		}

		if err := visit(ctx, id, func(ctx context.Context) error { return remove(ctx, thing) }); err != nil {
			return err
		}
	}

	return nil
}

func removeNIC(ctx context.Context, session *engine.Client, vm, id engine.ID) error {
	err := session.DeleteNIC(ctx, vm, id)
	if engine.IsConflict(err) && !engine.IsTransient(err) { // the VM runs
		if err = session.UnplugNIC(ctx, vm, id); err == nil {
			err = session.DeleteNIC(ctx, vm, id)
		}
	}

	return err
}
