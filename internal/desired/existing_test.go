package desired

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// vm creates a VM that is powered off.
func (s *site) vm(t *testing.T, name, comment string) *engine.VM {
	t.Helper()

	ctx := t.Context()
	dc, err := s.client.FindDataCenter(ctx, "Default")
	check.Error(t, err, "")
	cluster, err := s.client.FindCluster(ctx, dc, "Default")
	check.Error(t, err, "")
	template, err := s.client.FindTemplate(ctx, dc, "ol9-k8s")
	check.Error(t, err, "")

	vm, err := s.client.CreateVM(ctx, &engine.VM{
		Name: name, Comment: &comment, Cluster: engine.NewRef(cluster.ID), Template: engine.NewRef(template.ID),
	}, nil)
	check.Error(t, err, "")
	check.Error(t, engine.Wait(ctx, "the VM", func(ctx context.Context) (bool, string, error) {
		vm, err = s.client.FetchVM(ctx, vm.ID)
		return err == nil && vm.Status.IsOff(), "", err
	}, func(string) {}), "")

	return vm
}

// TestOnlyWhatTheVMHasIsImported has a VM with one of two parts of each kind.
func TestOnlyWhatTheVMHasIsImported(t *testing.T) {
	s := newSite(t, "")
	ctx := t.Context()
	comment := ownermark.Owner{Namespace: "default", Name: "demo-1", UID: "u"}.Comment()
	vm := s.vm(t, "demo-1", comment)
	id := vm.ID.String()

	tag, err := s.client.FindTag(ctx, "prod")
	check.Error(t, err, "")
	check.Error(t, s.client.TagVM(ctx, vm.ID, tag.ID), "")
	watchdog, err := s.client.AddWatchdog(ctx, vm.ID, engine.Watchdog{Action: "reset", Model: "i6300esb"})
	check.Error(t, err, "")
	device, err := s.client.AddMediatedDevice(ctx, vm.ID, "nvidia-63")
	check.Error(t, err, "")
	group, err := s.client.CreateAffinityGroup(ctx, engine.RefID(vm.Cluster), &engine.AffinityGroup{Name: "in"})
	check.Error(t, err, "")
	other, err := s.client.CreateAffinityGroup(ctx, engine.RefID(vm.Cluster), &engine.AffinityGroup{Name: "out"})
	check.Error(t, err, "")
	check.Error(t, s.client.AddToAffinityGroup(ctx, engine.RefID(vm.Cluster), group.ID, vm.ID), "")

	spec := infrav1.OLVMMachineSpec{VirtualMachine: infrav1.VirtualMachine{Tags: []string{"k8s", "prod"}}}
	found, err := FindExisting(ctx, s.client, "Default", "demo-1", spec)
	check.Error(t, err, "")
	check.Equal(t, "owner", found.Owner, ownermark.Owner{Namespace: "default", Name: "demo-1", UID: "u"})
	check.Equal(t, "what the look found", found.imports, map[render.Address]string{
		render.VMAddress:                   id,
		render.TagAddress(tag.ID.String()): tag.ID.String() + "/" + id,
	})

	clear(found.imports)
	machine := render.Machine{ClusterID: engine.RefID(vm.Cluster).String(), WatchdogAction: "reset",
		MediatedDevices: []string{"nvidia-64", "nvidia-63", "nvidia-63"},
		AffinityGroups:  map[string]string{"in": group.ID.String(), "out": other.ID.String(), "gone": "x"},
		HostDevices:     []string{"pci_0"},
	}
	_, err = found.addImports(ctx, s.client, render.Configuration{Files: render.Files{}}, machine)
	check.Error(t, err, "")
	check.Equal(t, "what the run adopts", found.imports, map[render.Address]string{
		render.WatchdogAddress:          id + "/" + watchdog.ID.String(),
		render.MediatedDeviceAddress(1): id + "/" + device.ID.String(),
		render.MembershipAddress("in"):  machine.ClusterID + "/" + group.ID.String() + "/" + id,
	})

	clear(found.imports)
	_, err = found.addImports(
		ctx, s.client, render.Configuration{Files: render.Files{}}, render.Machine{ClusterID: machine.ClusterID},
	)
	check.Error(t, err, "")
	check.Equal(t, "what a machine adopts that asks for none of it", len(found.imports), 0)
}

// TestAStartIsImportedOfAVMThatRuns has a VM that is powered off, and starts it.
func TestAStartIsImportedOfAVMThatRuns(t *testing.T) {
	s := newSite(t, "")
	vm := s.vm(t, "demo-1", "")
	look := func(policy string) map[render.Address]string {
		t.Helper()
		found, err := FindExisting(t.Context(), s.client, "Default", "demo-1", infrav1.OLVMMachineSpec{
			VirtualMachine: infrav1.VirtualMachine{CPU: infrav1.CPU{AutoPinningPolicy: policy}},
		})
		check.Error(t, err, "")
		check.Equal(t, "owner", found.Owner, ownermark.Owner{})

		return found.imports
	}
	id := vm.ID.String()
	check.Equal(t, "off", look("resize_and_pin"), map[render.Address]string{render.VMAddress: id})

	check.Error(t, s.client.StartVM(t.Context(), vm.ID, false), "")
	want := map[render.Address]string{render.VMAddress: id, render.StartAddress: id}
	check.Equal(t, "started", look("none"), want)

	want[render.OptimizeCPUAddress] = id
	check.Equal(t, "started, with a pinned CPU", look("resize_and_pin"), want)
}

func TestAVMThatIsNotThereIsNoError(t *testing.T) {
	s := newSite(t, "")
	found, err := FindExisting(t.Context(), s.client, "Default", "demo-1", infrav1.OLVMMachineSpec{})
	check.Error(t, err, "")
	check.Equal(t, "there is none", found == nil, true)

	_, err = FindExisting(t.Context(), s.client, "else", "demo-1", infrav1.OLVMMachineSpec{})
	checkBlocked(t, err, infrav1.DataCenterNotFoundReason, "OLVMCluster spec.olvmDatacenterName", "else")
}

func TestWhoseVMItIs(t *testing.T) {
	const mark = "capolvm owner=a/b uid=c"
	at := func(id, comment string) *Existing {
		return &Existing{VM: engine.VM{ID: engine.ID(id), Comment: &comment}}
	}

	tests := map[string]struct {
		found   *Existing
		inState engine.ID
		ours    bool
		problem string
	}{
		"none":                           {nil, "", false, ""},
		"none, and a state":              {nil, "1", false, ""},
		"with the mark":                  {at("1", mark), "", true, ""},
		"with the mark and a line break": {at("1", mark+"\n"), "", true, ""},
		"with the mark of another": {
			at("1", "capolvm owner=a/x uid=c"),
			"",
			false,
			"does not belong to this machine",
		},
		"without a mark": {
			at("1", ""),
			"",
			false,
			"rename or delete it, or delete this Machine",
		},
		"the one in the state, without a mark":    {at("1", ""), "1", true, ""},
		"with the mark, and another in the state": {at("1", mark), "2", false, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := test.found.FilterOwned(mark, test.inState)
			if test.problem != "" {
				checkBlocked(t, err, infrav1.VMNameConflictReason, "metadata.name", test.problem)
			} else {
				check.Error(t, err, "")
			}

			check.Equal(t, "it is ours", got != nil, test.ours)
		})
	}
}

func TestSnapshotsAreRemovedOnlyIfTheyBlock(t *testing.T) {
	s := newSite(t, "")
	vm := s.vm(t, "demo-1", "")
	blocking := errors.New("Cannot detach Virtual Disk: the disk is already configured in a snapshot.")

	tests := map[string]struct {
		vm      engine.ID
		failure error
		again   bool
	}{
		"they block":               {vm.ID, blocking, true},
		"something else does":      {vm.ID, errors.New("the engine is down"), false},
		"the VM is not known":      {"", blocking, false},
		"neither of both is known": {"", errors.New("the engine is down"), false},
	}
	for name, test := range tests {
		again, err := RemoveBlockingSnapshots(t.Context(), s.client, test.vm, test.failure)
		check.Error(t, err, "")
		check.Equal(t, name, again, test.again)
	}
}

func TestAnOrphanIsFoundByItsMark(t *testing.T) {
	s := newSite(t, "")
	vm := s.vm(t, "demo-1", "capolvm owner=a/b uid=c")

	tests := map[string]struct {
		orphan  Orphan
		found   bool
		problem string
	}{
		"by its ID":             {Orphan{ID: vm.ID}, true, ""},
		"by an ID that is gone": {Orphan{ID: "00000000-0000-0000-0000-00000000000a"}, false, ""},
		"by its name and mark": {
			Orphan{DataCenter: "Default", Name: "demo-1", Comment: "capolvm owner=a/b uid=c"},
			true,
			"",
		},
		"another's of that name": {
			Orphan{DataCenter: "Default", Name: "demo-1", Comment: "capolvm owner=a/b uid=d"},
			false,
			"",
		},
		"none of that name":               {Orphan{DataCenter: "Default", Name: "demo-2"}, false, ""},
		"a data center that is not there": {Orphan{DataCenter: "else", Name: "demo-1"}, false, "else"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := test.orphan.findVM(t.Context(), s.client)
			check.Error(t, err, test.problem)
			check.Equal(t, "it is found", got != nil && got.ID == vm.ID, test.found)
		})
	}
}

// TestAnOrphanIsRemovedStepByStep stops a running VM, and then deletes it unless Free returns an error.
func TestAnOrphanIsRemovedStepByStep(t *testing.T) {
	s := newSite(t, "")
	vm := s.vm(t, "demo-1", "")
	check.Error(t, s.client.StartVM(t.Context(), vm.ID, false), "")
	current := func() *engine.VM {
		t.Helper()
		out, err := s.client.FetchVM(t.Context(), vm.ID)
		if engine.IsNotFound(err) {
			return nil
		}

		check.Error(t, err, "")

		return out
	}
	step := func() {
		t.Helper()
		check.Error(t, Orphan{ID: vm.ID}.removeStep(t.Context(), s.client, current()), "")
	}
	wait := func(what string, done func(*engine.VM) bool) {
		t.Helper()
		check.Error(t, engine.Wait(t.Context(), what, func(context.Context) (bool, string, error) {
			return done(current()), "", nil
		}, func(string) {}), "")
	}
	wait("the VM to run", func(vm *engine.VM) bool { return vm.Status == engine.VMUp })

	kept := errors.New("it is claimed")
	objecting := Orphan{ID: vm.ID, Free: func(context.Context, *engine.VM) error { return kept }}
	check.Equal(t, "an objection", errors.Is(objecting.Remove(t.Context(), s.client), kept), true)
	check.Equal(t, "status after an objection", current().Status, engine.VMUp)

	step()
	wait("the VM to be off", func(vm *engine.VM) bool { return vm.Status.IsOff() })
	step()
	wait("the VM to be gone", func(vm *engine.VM) bool { return vm == nil })
	check.Error(t, Orphan{ID: vm.ID}.removeStep(t.Context(), s.client, vm), "") // it is already gone
}

// TestDisksOfALostRunAreRemoved has several disks created for a VM. One of them is in the state.
func TestDisksOfALostRunAreRemoved(t *testing.T) {
	sim, err := ovirtsim.New(ovirtsim.Options{Timings: ovirtsim.Timings{Clone: time.Millisecond}})
	check.Error(t, err, "")
	defer sim.Close()

	ctx := t.Context()
	client, err := engine.New(engine.Config{
		URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
	})
	check.Error(t, err, "")
	dc, err := client.FindDataCenter(ctx, "Default")
	check.Error(t, err, "")
	domain, err := client.FindStorageDomain(ctx, dc, "olvm-data")
	check.Error(t, err, "")

	const mark = "capolvm owner=a/b uid=c"
	disk := func(alias, owner string) engine.ID {
		t.Helper()
		made, err := client.CreateDiskOnce(ctx, owner, &engine.Disk{
			Alias: &alias, Format: engine.FormatCow, ProvisionedSize: 1 << 30,
			StorageDomains: &engine.StorageDomains{Items: []engine.Ref{{ID: domain.ID}}},
		}, nil, func(string) {})
		check.Error(t, err, "")
		check.Error(t, client.WaitDisk(ctx, made.ID, func(string) {}), "")

		return made.ID
	}
	lost, inState := disk("demo-1_lost", mark), disk("demo-1_kept", mark)
	others, unasked := disk("demo-1_others", "capolvm owner=a/b uid=earlier"), disk("demo-1_unasked", mark)

	orphan := Orphan{Name: "demo-1", Comment: mark, DataDisks: []infrav1.DataDisk{
		{Name: "lost"}, {Name: "kept"}, {Name: "others"}, {Name: "missing"},
	}}
	load := func(context.Context) (*tfstate.State, error) {
		return tfstate.Parse([]byte(strings.ReplaceAll(`{"version":4,"serial":1,"lineage":"l","resources":[
			{"mode":"managed","type":"ovirt_disk","name":"data","instances":[{"attributes":{"id":"ID"}}]}]}`,
			"ID", inState.String())))
	}
	unreadable := errors.New("unreadable")
	failing := func(context.Context) (*tfstate.State, error) { return nil, unreadable }
	check.Equal(t, "a state that cannot be read",
		errors.Is(orphan.RemoveDisks(ctx, client, failing), unreadable), true)
	check.Error(t, Orphan{Name: "demo-1", Comment: mark}.RemoveDisks(ctx, client, failing), "") // it requests no disk
	check.Error(t, orphan.RemoveDisks(ctx, client, load), "")

	for what, each := range map[string]struct {
		id   engine.ID
		gone bool
	}{
		"lost": {lost, true}, "in the state": {inState, false}, "of another": {others, false},
		"not asked for": {unasked, false},
	} {
		_, err := client.FetchDisk(ctx, each.id)
		check.Equal(t, what+" is gone", engine.IsNotFound(err), each.gone)
	}

	// An interrupted change has created disks that are not wanted any more.
	after := Orphan{Name: "demo-1", Comment: mark, Interrupted: true}
	check.Error(t, after.RemoveDisks(ctx, client, load), "")

	for what, each := range map[string]struct {
		id   engine.ID
		gone bool
	}{
		"not asked for": {unasked, true}, "in the state": {inState, false}, "of another": {others, false},
	} {
		_, err := client.FetchDisk(ctx, each.id)
		check.Equal(t, what+" is gone after an interrupted change", engine.IsNotFound(err), each.gone)
	}
}

// TestAnAttachedDiskGoesOnlyIfItsChangeIsTakenBack attaches a disk before the run is killed.
func TestAnAttachedDiskGoesOnlyIfItsChangeIsTakenBack(t *testing.T) {
	s := newSite(t, "")
	const mark = "capolvm owner=a/b uid=c"
	vm := s.vm(t, "demo-1", mark)
	alias := "demo-1_etcd"
	made := s.markedDisk(t, alias, mark)
	s.attach(t, vm.ID, made)

	none := func(context.Context) (*tfstate.State, error) { return nil, nil }
	orphan := Orphan{ID: vm.ID, Name: "demo-1", Comment: mark, Interrupted: true}
	check.Error(t, orphan.RemoveDisks(t.Context(), s.client, none), "")
	_, err := s.client.FetchDisk(t.Context(), made)
	check.Error(t, err, "")

	orphan.Undoes = true
	check.Error(t, orphan.RemoveDisks(t.Context(), s.client, none), "")
	_, err = s.client.FetchDisk(t.Context(), made)
	check.Equal(t, "it is gone", engine.IsNotFound(err), true)
}

// TestAMediatedDeviceOfTheStateIsNotImportedTwice has an engine that first lists a device missing from the state.
func TestAMediatedDeviceOfTheStateIsNotImportedTwice(t *testing.T) {
	s := newSite(t, "")
	vm := s.vm(t, "demo-1", "")

	var ids []engine.ID

	for range 2 {
		device, err := s.client.AddMediatedDevice(t.Context(), vm.ID, "nvidia-63")
		check.Error(t, err, "")
		ids = append(ids, device.ID)
	}

	there, err := s.client.ListMediatedDevices(t.Context(), vm.ID)
	check.Error(t, err, "")
	lost, known := there[0].ID, there[1].ID // the engine lists the device in the state last
	state, err := tfstate.Parse(fmt.Appendf(nil, `{"version":4,"serial":1,"lineage":"l","resources":[
		{"mode":"managed","type":"ovirt_vm_mediated_device","name":"this","instances":[
			{"index_key":"1","attributes":{"id":%q}}]}]}`, known))
	check.Error(t, err, "")
	found := (&Existing{VM: *vm, imports: map[render.Address]string{}}).WithState(state)
	check.Error(t, found.findMediatedDevices(t.Context(), s.client, []string{"nvidia-63", "nvidia-63"}), "")
	check.Equal(t, "imports", found.imports, map[render.Address]string{
		render.MediatedDeviceAddress(1): vm.ID.String() + "/" + lost.String(),
	})
	check.Length(t, "devices", ids, 2)
}

func TestAClaimedVMIsTakenAsItIs(t *testing.T) {
	s := newSite(t, "")
	vm := s.vm(t, "pooled-1", "")
	claim := func(in *Input) {
		in.Spec = infrav1.OLVMMachineSpec{FromInventory: &infrav1.FromInventory{}}
		in.ClaimedVM = vm
	}

	built, err := s.build(t, claim)
	check.Error(t, err, "")
	check.Equal(t, "VM", built.Machine.ClaimedVMID, vm.ID.String())
	check.Equal(t, "cluster", built.Machine.ClusterID, engine.RefID(vm.Cluster).String())
	check.Equal(t, "template", built.Machine.TemplateID, engine.RefID(vm.Template).String())
	check.Equal(t, "name of the cluster", built.Names.ClusterName, "Default")
	check.Equal(t, "host name", built.Machine.HostName, "demo-1")

	for system, hostName := range map[string]string{IgnitionOS: "", "ol_9x64": "demo-1", "": "demo-1"} {
		built, err := s.build(t, func(in *Input) {
			claim(in)
			other := *vm

			if other.OS = nil; system != "" {
				other.OS = &engine.OS{Type: system}
			}

			in.ClaimedVM = &other
		})
		check.Error(t, err, "")
		check.Equal(t, "host name with "+system, built.Machine.HostName, hostName)
	}

	_, err = s.build(t, func(in *Input) {
		claim(in)
		in.ClaimedVM = nil
	})
	checkBlocked(t, err, infrav1.WaitingForClaimReason, "spec.fromInventory", "no VM is claimed yet")

	_, err = s.build(t, func(in *Input) {
		claim(in)
		elsewhere := *vm
		elsewhere.Cluster = engine.NewRef("00000000-0000-0000-0000-00000000000a")
		in.ClaimedVM = &elsewhere
	})
	checkBlocked(t, err, infrav1.InventoryInvalidReason, "OLVMCluster spec.olvmDatacenterName",
		`VM pooled-1 of the inventory is not in data center "Default"`)

	_, err = s.build(t, func(in *Input) {
		claim(in)
		in.Cluster.OLVMDatacenterName = "else"
	})
	checkBlocked(t, err, infrav1.DataCenterNotFoundReason, "OLVMCluster spec.olvmDatacenterName", "else")
}

// TestWhatAChangeHasAddedIsTakenAway has a VM with three sets of parts. The first was wanted before a change, the
// change added the second without recording it, and an administrator added the third.
func TestWhatAChangeHasAddedIsTakenAway(t *testing.T) {
	s := newSite(t, "")
	ctx := t.Context()
	vm := s.vm(t, "demo-1", "")
	cluster := engine.RefID(vm.Cluster)
	before, err := s.client.ListNICs(ctx, vm.ID)
	check.Error(t, err, "")

	for _, name := range []string{"nic1", "storage", "byhand"} {
		if !slices.ContainsFunc(before, func(n engine.NIC) bool { return n.Name == name }) {
			_, err := s.client.CreateNIC(ctx, vm.ID, &engine.NIC{Name: name})
			check.Error(t, err, "")
		}
	}

	var tagIDs []string

	for _, name := range []string{"k8s", "prod"} {
		tag, err := s.client.FindTag(ctx, name)
		check.Error(t, err, "")
		check.Error(t, s.client.TagVM(ctx, vm.ID, tag.ID), "")
		tagIDs = append(tagIDs, tag.ID.String())
	}

	known, err := s.client.AddMediatedDevice(ctx, vm.ID, "nvidia-63")
	check.Error(t, err, "")
	_, err = s.client.AddMediatedDevice(ctx, vm.ID, "nvidia-63")
	check.Error(t, err, "")
	_, err = s.client.AddWatchdog(ctx, vm.ID, engine.Watchdog{Action: "reset", Model: "i6300esb"})
	check.Error(t, err, "")
	group, err := s.client.CreateAffinityGroup(ctx, cluster, &engine.AffinityGroup{Name: "in"})
	check.Error(t, err, "")
	check.Error(t, s.client.AddToAffinityGroup(ctx, cluster, group.ID, vm.ID), "")

	state, err := tfstate.Parse(fmt.Appendf(nil, `{"version":4,"serial":1,"lineage":"l","resources":[
		{"mode":"managed","type":"ovirt_vm_mediated_device","name":"this","instances":[
			{"index_key":"1","attributes":{"id":%q}}]}]}`, known.ID))
	check.Error(t, err, "")
	wanted := Additions{NICs: []string{"nic1"}, TagIDs: tagIDs[:1], MediatedDevices: []string{"nvidia-63"}}
	change := Additions{
		NICs: []string{
			"nic1",
			"storage",
			"missing",
		},
		TagIDs:          tagIDs,
		Watchdog:        true,
		GroupIDs:        []string{group.ID.String()},
		MediatedDevices: []string{"nvidia-63"},
		HostDevices:     []string{"pci_0"},
	}
	text, err := change.UnionWith(wanted).EncodeJSON()
	check.Error(t, err, "")
	undo := Undo{VM: vm.ID, Cluster: cluster, Added: ParseAdditions(text), Wanted: wanted, State: state}

	for range 2 { // the second time, nothing is left to do
		check.Error(t, undo.RemoveAdditions(ctx, s.client), "")
	}

	nics, err := s.client.ListNICs(ctx, vm.ID)
	check.Error(t, err, "")

	var names []string
	for _, nic := range nics {
		names = append(names, nic.Name)
	}

	slices.Sort(names)
	check.Equal(t, "network interfaces", names, []string{"byhand", "nic1"})

	tags, err := s.client.ListVMTags(ctx, vm.ID)
	check.Error(t, err, "")
	check.Length(t, "tags", tags, 1)
	devices, err := s.client.ListMediatedDevices(ctx, vm.ID)
	check.Error(t, err, "")
	check.Length(t, "mediated devices", devices, 1)
	check.Equal(t, "the device of the state", devices[0].ID, known.ID)
	watchdogs, err := s.client.ListWatchdogs(ctx, vm.ID)
	check.Error(t, err, "")
	check.Length(t, "watchdogs", watchdogs, 0)
	groups, err := s.client.ListAffinityGroups(ctx, cluster)
	check.Error(t, err, "")
	check.Equal(t, "it is in the group", groups[0].HasVM(vm.ID), false)
}
