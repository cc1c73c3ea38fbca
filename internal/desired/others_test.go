package desired

import (
	"context"
	"fmt"
	"slices"
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// has counts the parts of a VM, for each kind of part that a change can add.
type has struct {
	nics                            []string
	tags, devices, watchdogs, hosts int
	member                          bool
}

func (s *site) has(t *testing.T, vm *engine.VM, group engine.ID) has {
	t.Helper()

	ctx := t.Context()
	nics, err := s.client.ListNICs(ctx, vm.ID)
	check.Error(t, err, "")

	var out has
	for _, nic := range nics {
		out.nics = append(out.nics, nic.Name)
	}

	slices.Sort(out.nics)

	tags, err := s.client.ListVMTags(ctx, vm.ID)
	check.Error(t, err, "")
	devices, err := s.client.ListMediatedDevices(ctx, vm.ID)
	check.Error(t, err, "")
	watchdogs, err := s.client.ListWatchdogs(ctx, vm.ID)
	check.Error(t, err, "")
	hosts, err := s.client.ListVMHostDevices(ctx, vm.ID)
	check.Error(t, err, "")
	groups, err := s.client.ListAffinityGroups(ctx, engine.RefID(vm.Cluster))
	check.Error(t, err, "")

	out.tags, out.devices, out.watchdogs, out.hosts = len(tags), len(devices), len(watchdogs), len(hosts)
	out.member = slices.ContainsFunc(
		groups, func(g engine.AffinityGroup) bool { return g.ID == group && g.HasVM(vm.ID) },
	)

	return out
}

// TestWhatAnAdministratorAddedStaysIfAChangeOfTheSameNameIsTakenBack has parts that were added to a VM by hand before a
// change requested the same.
func TestWhatAnAdministratorAddedStaysIfAChangeOfTheSameNameIsTakenBack(t *testing.T) {
	s := newSite(t, "")
	ctx := t.Context()
	comment := ownermark.Owner{Namespace: "default", Name: "demo-1", UID: "u"}.Comment()
	vm := s.vm(t, "demo-1", comment)
	cluster := engine.RefID(vm.Cluster)

	_, err := s.client.CreateNIC(ctx, vm.ID, &engine.NIC{Name: "storage"})
	check.Error(t, err, "")
	tag, err := s.client.FindTag(ctx, "prod")
	check.Error(t, err, "")
	check.Error(t, s.client.TagVM(ctx, vm.ID, tag.ID), "")
	_, err = s.client.AddMediatedDevice(ctx, vm.ID, "nvidia-63")
	check.Error(t, err, "")
	_, err = s.client.AddWatchdog(ctx, vm.ID, engine.Watchdog{Action: "reset", Model: "i6300esb"})
	check.Error(t, err, "")
	group, err := s.client.CreateAffinityGroup(ctx, cluster, &engine.AffinityGroup{Name: "in"})
	check.Error(t, err, "")
	check.Error(t, s.client.AddToAffinityGroup(ctx, cluster, group.ID, vm.ID), "")
	byHand := s.has(t, vm, group.ID)

	change := Additions{
		NICs: []string{"storage", "backup"}, TagIDs: []string{tag.ID.String()}, MediatedDevices: []string{"nvidia-63"},
		Watchdog: true, GroupIDs: []string{group.ID.String()}, HostDevices: []string{"pci_0"},
	}
	change.Others, err = change.Without(Additions{}).ListOnVM(ctx, s.client, vm.ID, cluster)
	check.Error(t, err, "")
	check.Length(t, "what was there before", change.Others, 5)

	again, err := change.Without(change).ListOnVM(ctx, s.client, vm.ID, cluster)
	check.Error(t, err, "")
	check.Length(t, "what a second run of the same change leaves to others", again, 0)

	// The change adds two parts, and fails.
	_, err = s.client.CreateNIC(ctx, vm.ID, &engine.NIC{Name: "backup"})
	check.Error(t, err, "")
	added, err := s.client.AddMediatedDevice(ctx, vm.ID, "nvidia-63")
	check.Error(t, err, "")
	text, err := change.EncodeJSON()
	check.Error(t, err, "")

	spec := infrav1.OLVMMachineSpec{OLVMNetwork: infrav1.OLVMNetwork{VNICName: "storage"}}
	spec.AdditionalNetworks = append(spec.AdditionalNetworks, infrav1.AdditionalNetwork{
		OLVMNetwork: infrav1.OLVMNetwork{VNICName: "backup"},
	})
	found, err := FindExisting(ctx, s.client, "Default", "demo-1", spec)
	check.Error(t, err, "")
	_, err = found.WithState(&tfstate.State{ChangingFrom: "a", ChangeAdds: text}).addImports(ctx, s.client,
		render.Configuration{Files: render.Files{}}, render.Machine{
			ClusterID: cluster.String(), WatchdogAction: "reset", MediatedDevices: []string{"nvidia-63"},
			AffinityGroups: map[string]string{"in": group.ID.String()},
		})
	check.Error(t, err, "")

	var imported []string
	for address := range found.imports {
		imported = append(imported, address.String())
	}

	slices.Sort(imported)
	check.Equal(t, "what a second run of the change adopts", imported, []string{
		render.NICAddress(1).String(), render.VMAddress.String(), render.MediatedDeviceAddress(0).String(),
	})
	check.Equal(t, "the device", found.imports[render.MediatedDeviceAddress(0)],
		vm.ID.String()+"/"+added.ID.String())

	undo := Undo{VM: vm.ID, Cluster: cluster, Added: ParseAdditions(text)}
	check.Error(t, undo.RemoveAdditions(ctx, s.client), "")
	check.Equal(t, "what is left", fmt.Sprintf("%+v", s.has(t, vm, group.ID)), fmt.Sprintf("%+v", byHand))
}

// markedDisk creates a disk with the mark of an owner, or only with its alias.
func (s *site) markedDisk(t *testing.T, alias, owner string) engine.ID {
	t.Helper()

	dc, err := s.client.FindDataCenter(t.Context(), "Default")
	check.Error(t, err, "")
	domain, err := s.client.FindStorageDomain(t.Context(), dc, "olvm-data")
	check.Error(t, err, "")
	made, err := s.client.CreateDiskOnce(t.Context(), owner, &engine.Disk{
		Alias: &alias, Format: engine.FormatCow, ProvisionedSize: 1 << 30,
		StorageDomains: &engine.StorageDomains{Items: []engine.Ref{{ID: domain.ID}}},
	}, nil, func(string) {})
	check.Error(t, err, "")
	check.Error(t, s.client.WaitDisk(t.Context(), made.ID, func(string) {}), "")

	return made.ID
}

func (s *site) attach(t *testing.T, vm, disk engine.ID) {
	t.Helper()

	_, err := s.client.AttachDisk(t.Context(), vm, &engine.DiskAttachment{
		Interface: "virtio_scsi", Disk: &engine.Disk{ID: disk},
	})
	check.Error(t, err, "")
}

// TestADiskOfAnAdministratorIsNotAdoptedByAChange attaches a disk by hand. It has the alias of a disk that a change
// wants. If the change adopted it, a revert would delete it.
func TestADiskOfAnAdministratorIsNotAdoptedByAChange(t *testing.T) {
	s := newSite(t, "")
	comment := ownermark.Owner{Namespace: "default", Name: "demo-1", UID: "u"}.Comment()
	vm := s.vm(t, "demo-1", comment)
	alias := render.DiskAlias("demo-1", "etcd")
	byHand := s.markedDisk(t, alias, "somebody")
	s.attach(t, vm.ID, byHand)

	adopted := func(state *tfstate.State) string {
		found, err := FindExisting(t.Context(), s.client, "Default", "demo-1", infrav1.OLVMMachineSpec{
			VirtualMachine: infrav1.VirtualMachine{DataDisks: []infrav1.DataDisk{{Name: "etcd"}}},
		})
		check.Error(t, err, "")

		return found.WithState(state).imports[render.DataDiskAddress("etcd")]
	}

	changing := &tfstate.State{ChangingFrom: "a"}
	check.Equal(t, "what a change adopts", adopted(changing), "")
	check.Equal(t, "what a rebuilt state adopts", adopted(nil), byHand.String())

	made := s.markedDisk(t, alias, comment)
	s.attach(t, vm.ID, made)
	check.Equal(t, "what a change adopts that is attached", adopted(changing), made.String())
}

// TestADiskThatAnotherVMHasIsNeitherAdoptedNorDeleted has an administrator who rescues a data disk with another VM.
// That VM has no template.
func TestADiskThatAnotherVMHasIsNeitherAdoptedNorDeleted(t *testing.T) {
	s := newSite(t, "")
	ctx := t.Context()
	comment := ownermark.Owner{Namespace: "default", Name: "demo-1", UID: "u"}.Comment()
	vm := s.vm(t, "demo-1", comment)
	disk := s.markedDisk(t, render.DiskAlias("demo-1", "etcd"), comment)
	rescue, err := s.client.CreateVM(ctx, &engine.VM{
		Name: "rescue", Cluster: vm.Cluster, Template: engine.NewRef(engine.BlankTemplateID),
	}, nil)
	check.Error(t, err, "")
	s.attach(t, rescue.ID, disk)

	disks := []infrav1.DataDisk{{Name: "etcd"}}
	found, err := FindExisting(ctx, s.client, "Default", "demo-1", infrav1.OLVMMachineSpec{
		VirtualMachine: infrav1.VirtualMachine{DataDisks: disks},
	})
	check.Error(t, err, "")
	check.Equal(t, "what is adopted", found.imports[render.DataDiskAddress("etcd")], "")

	none := func(context.Context) (*tfstate.State, error) { return nil, nil }

	for name, orphan := range map[string]Orphan{
		"a first run":            {DataDisks: disks},
		"an interrupted change":  {ID: vm.ID, Interrupted: true},
		"a change taken back":    {ID: vm.ID, Interrupted: true, Undoes: true},
		"a deletion of the rest": {Interrupted: true, DataDisks: disks},
	} {
		orphan.Name, orphan.Comment = "demo-1", comment
		check.Error(t, orphan.RemoveDisks(ctx, s.client, none), "")
		_, err := s.client.FetchDisk(ctx, disk)
		check.Equal(t, name+" deletes the disk", engine.IsNotFound(err), false)
	}
}
