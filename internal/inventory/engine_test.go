package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// site is an engine with VMs that have the tag pool, and some others.
type site struct {
	t       *testing.T
	sim     *ovirtsim.Server
	session *engine.Client
	dc      *engine.DataCenter
	hosts   map[string]engine.ID
}

func newSite(t *testing.T, vms int) *site {
	t.Helper()
	short := time.Millisecond
	center := ovirtsim.DataCenter{
		Name:           "Default",
		Networks:       []ovirtsim.Network{{Name: "nodes", VNICProfiles: []string{"nodes"}}},
		StorageDomains: []ovirtsim.StorageDomain{{Name: "data"}},
		Clusters:       []ovirtsim.Cluster{{Name: "Default"}},
		Templates: []ovirtsim.Template{{
			Name: "k8s-small", Disks: []ovirtsim.TemplateDisk{{Size: 8 << 30}},
			NICs: []ovirtsim.TemplateNIC{{Name: "nic1", Network: "nodes"}},
		}},
	}

	for i := range 4 {
		center.Clusters[0].Hosts = append(center.Clusters[0].Hosts, ovirtsim.Host{
			Name: fmt.Sprintf("host%d", i), Memory: 256 << 30, AffinityLabels: []string{fmt.Sprintf("rack-%d", i/2)},
		})
	}

	for i := range vms {
		center.VMs = append(center.VMs, ovirtsim.VM{
			Name: fmt.Sprintf("vm-%02d", i), Cluster: "Default", Template: "k8s-small", Tags: []string{"pool"},
		})
	}

	center.VMs = append(center.VMs, ovirtsim.VM{Name: "other", Cluster: "Default", Template: "k8s-small"})
	sim, err := ovirtsim.New(ovirtsim.Options{
		Timings:   ovirtsim.Timings{Clone: short, Launch: short, PowerUp: short, PowerDown: short},
		Inventory: ovirtsim.Inventory{DataCenters: []ovirtsim.DataCenter{center}, Tags: []string{"pool"}},
	})
	check.Error(t, err, "")
	t.Cleanup(sim.Close)
	s := &site{t: t, sim: sim, session: newSession(t, sim), hosts: map[string]engine.ID{}}
	s.dc, err = s.session.FindDataCenter(t.Context(), "Default")
	check.Error(t, err, "")
	hosts, err := s.session.ListHosts(t.Context())
	check.Error(t, err, "")

	for _, host := range hosts {
		s.hosts[host.Name] = host.ID
	}

	return s
}

func newSession(t *testing.T, sim *ovirtsim.Server) *engine.Client {
	t.Helper()
	session, err := engine.New(engine.Config{
		URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
	})
	check.Error(t, err, "")

	return session
}

func (s *site) pool() []engine.DescribedVM {
	s.t.Helper()
	vms, err := listTaggedVMs(s.t.Context(), s.session, "pool")
	check.Error(s.t, err, "")
	slices.SortFunc(vms, func(a, b engine.DescribedVM) int { return strings.Compare(a.Name, b.Name) })

	return vms
}

func (s *site) vm(name string) engine.DescribedVM {
	s.t.Helper()
	vms := s.pool()
	at := slices.IndexFunc(vms, func(vm engine.DescribedVM) bool { return vm.Name == name })
	if at < 0 {
		s.t.Fatalf("there is no VM %s", name)
	}

	return vms[at]
}

// full returns a VM with its user data.
func (s *site) full(name string) *engine.VM {
	s.t.Helper()
	vm, err := s.session.FetchFullVM(s.t.Context(), s.vm(name).ID)
	check.Error(s.t, err, "")

	return vm
}

func (s *site) update(name string, change *engine.VM) {
	s.t.Helper()
	_, err := s.session.UpdateVM(s.t.Context(), s.vm(name).ID, change)
	check.Error(s.t, err, "")
}

func bound(host engine.ID) *engine.PlacementPolicy {
	return &engine.PlacementPolicy{Affinity: "migratable", Hosts: &engine.HostSet{Hosts: []engine.Ref{{ID: host}}}}
}

// TestAnInventoryListsItsVMsWithTheirHosts (row 43) describes twelve VMs on four hosts in two racks. It describes one
// of them again after its start and migration. It must not list a VM without the tag.
func TestAnInventoryListsItsVMsWithTheirHosts(t *testing.T) {
	s := newSite(t, 12)
	for i := range 12 {
		s.update(fmt.Sprintf("vm-%02d", i), &engine.VM{PlacementPolicy: bound(s.hosts[fmt.Sprintf("host%d", i/3)])})
	}

	s.update("vm-00", &engine.VM{Initialization: &engine.Initialization{NICs: &engine.NICConfigurations{
		Items: []engine.NICConfiguration{{
			Name: "enp1s0", OnBoot: true, BootProtocol: "static",
			IP: &engine.IP{Address: "10.0.0.5", Netmask: "255.255.255.0"},
		}},
	}}})
	pool := &infrav1alpha1.OLVMInventory{
		Spec: infrav1alpha1.OLVMInventorySpec{LabelRules: []infrav1alpha1.InventoryLabel{
			{Key: "example.com/rack", From: infrav1alpha1.LabelFromHostAffinityLabel, Prefix: "rack-"},
			{Key: "example.com/host", From: infrav1alpha1.LabelFromHost},
			{Key: "example.com/flavor", From: infrav1alpha1.LabelFromVMTemplate, Prefix: "k8s-"},
			{Key: "example.com/net", From: infrav1alpha1.LabelFromNetworks},
		}},
	}
	pool.Name = "pool"
	hosts, err := s.session.ListDescribedHosts(t.Context())
	check.Error(t, err, "")
	vms := s.pool()
	check.Length(t, "VMs", vms, 12)

	for i, vm := range vms {
		check.Equal(t, "labels of "+vm.Name, BuildLabels(pool, vm, hosts), map[string]string{
			"example.com/rack":               fmt.Sprint(i / 6),
			"example.com/host":               fmt.Sprintf("host%d", i/3),
			"example.com/flavor":             "small",
			"example.com/net-nodes":          "true",
			infrav1alpha1.InventoryNameLabel: "pool",
		})
	}

	check.Equal(t, "networks", CollectNetworks(vms[0]), []infrav1alpha1.InventoryNetwork{
		{Name: "nodes", IPAddresses: []string{"10.0.0.5"}},
	})

	s.update("vm-00", &engine.VM{PlacementPolicy: &engine.PlacementPolicy{
		Affinity: "migratable", Hosts: &engine.HostSet{Hosts: []engine.Ref{{ID: s.hosts["host3"]}}},
	}})
	check.Equal(t, "rack of the VM that is bound to another host",
		BuildLabels(pool, s.vm("vm-00"), hosts)["example.com/rack"], "1")
	check.Error(t, s.session.StartVM(t.Context(), vms[11].ID, false), "")
	running := s.vm("vm-11")
	check.Equal(t, "host of a VM that runs", FindHost(running, hosts).ID, running.Host.ID)
	reason, message := ExplainIneligible(running, nil)
	check.Equal(t, "reason of a VM that runs", reason == ReasonPoweredOn && message != "", true)
}

func TestLabelsHaveWhatLabelsCanHave(t *testing.T) {
	pool := &infrav1alpha1.OLVMInventory{}
	vm := engine.DescribedVM{}
	vm.Template.Name = "ol9 (größer)/" + string(make([]byte, 80))
	labels := BuildLabels(pool, vm, nil)
	check.Equal(t, "label", labels[infrav1alpha1.InventoryLabelPrefix+"vm-template"], "ol9-gr-er")
}

// TestOnlyOneOfTwoClaimsTheLastVM (row 47) has two management clusters claim the last VM of an inventory at the same
// time, a hundred times. In the end, one has the VM, and the other one knows it.
func TestOnlyOneOfTwoClaimsTheLastVM(t *testing.T) {
	s := newSite(t, 1)
	other := newSession(t, s.sim)
	// The requests overlap, so the engine creates both tags.
	const slow = 4 * time.Millisecond
	check.Error(
		t, s.sim.Inject(ovirtsim.Fault{Method: "POST", Path: "/tags$", DelayMillis: int(slow.Milliseconds())}), "",
	)

	for round := range 100 {
		type side struct {
			session *engine.Client
			claim   infrav1alpha1.InventoryClaim
			outcome Claimed
		}
		sides := []*side{{session: s.session}, {session: other}}

		var group sync.WaitGroup

		for i, side := range sides {
			side.claim = infrav1alpha1.InventoryClaim{
				ID: string(uuid.NewUUID()), ClusterName: fmt.Sprintf("c%d", i), Role: infrav1.RoleWorker,
				Group: "MachineSet/a", MachineName: "m",
			}
			owner := &ownermark.Owner{Namespace: fmt.Sprintf("ns%d", i), Name: "m", UID: "u"}

			group.Go(func() {
				for side.outcome == ClaimPending {
					vms, err := listTaggedVMs(t.Context(), side.session, "pool")
					if err == nil {
						side.outcome, _, err = NewMarker(t.Context(), side.session, owner.Namespace).
							EnsureClaim(t.Context(), vms[0], side.claim, owner, false)
					}

					if err != nil && !engine.IsRefused(err) && !engine.IsConflict(err) {
						t.Error(err)
						return
					}

					time.Sleep(3 * slow) // like a controller between two passes
				}
			})
		}

		group.Wait()
		got := []Claimed{sides[0].outcome, sides[1].outcome}
		slices.Sort(got)
		check.Equal(t, fmt.Sprintf("outcomes of round %d", round), got, []Claimed{ClaimConfirmed, ClaimLost})
		vm := s.vm("vm-00")
		check.Length(t, "tags of claims", sortedMarks(vm), 1)

		for i, side := range sides {
			_, err := NewMarker(
				t.Context(), side.session, fmt.Sprintf("ns%d", i),
			).RemoveMark(t.Context(), vm, side.claim)
			check.Error(t, err, "")
		}

		free := s.vm("vm-00")
		check.Equal(t, "comment of the VM that is free", free.CommentText(), "")
		check.Length(t, "tags of claims", sortedMarks(free), 0)
	}
}

// TestATagThatComesLate creates the tag with the lowest ID only after another claim has its machine's mark on the VM.
// One of the two claims must get the whole VM.
func TestATagThatComesLate(t *testing.T) {
	s := newSite(t, 1)
	claim := func(machine string) infrav1alpha1.InventoryClaim {
		return infrav1alpha1.InventoryClaim{
			ID: "claim-" + machine, ClusterName: "demo", Role: infrav1.RoleWorker, Group: "MachineSet/a",
			MachineName: machine,
		}
	}
	owner := func(machine string) *ownermark.Owner {
		return &ownermark.Owner{Namespace: "ns", Name: machine, UID: "u"}
	}
	comment := owner("fast").Comment()
	s.update("vm-00", &engine.VM{Comment: &comment})
	tag := func(at int, machine string) engine.Tag {
		return engine.Tag{
			ID:          engine.ID(fmt.Sprintf("00000000-0000-4000-8000-%012d", at)),
			Name:        TagName(s.vm("vm-00").ID),
			Description: NewMark("ns", claim(machine), s.full("vm-00")).encodeJSON(),
		}
	}
	late, early, reserved := tag(1, "slow"), tag(2, "fast"), tag(0, "")

	for _, look := range []struct {
		name, machine string
		tags          []engine.Tag
		want          Claimed
	}{
		{"the other's tag has come", "fast", []engine.Tag{late, early}, ClaimPending},
		{"the VM has a machine", "slow", []engine.Tag{late, early}, ClaimLost},
		{"the other has given way", "fast", []engine.Tag{early}, ClaimConfirmed},
		{"the VM was reserved, which does not give way", "fast", []engine.Tag{reserved, early}, ClaimLost},
	} {
		vm := s.vm("vm-00")
		vm.Tags = look.tags
		marker := &Marker{session: s.session, namespace: "ns", tags: func() ([]engine.Tag, error) {
			return look.tags, nil
		}}
		got, _, err := marker.EnsureClaim(t.Context(), vm, claim(look.machine), owner(look.machine), false)
		check.Error(t, err, "")
		check.Equal(t, look.name, got, look.want)
	}
}

// TestAClaimIsFoundAgain interrupts a claim after each of its requests.
func TestAClaimIsFoundAgain(t *testing.T) {
	s := newSite(t, 1)
	comment := "of the lab"
	s.update("vm-00", &engine.VM{Comment: &comment})
	claim := infrav1alpha1.InventoryClaim{
		ID: "one", ClusterName: "demo", Role: infrav1.RoleWorker, Group: "MachineSet/a", MachineName: "m",
	}
	owner := &ownermark.Owner{Namespace: "ns", Name: "m", UID: "u"}
	mark := NewMark("ns", claim, s.full("vm-00"))
	_, err := s.session.CreateTag(
		t.Context(), &engine.Tag{Name: TagName(s.vm("vm-00").ID), Description: mark.encodeJSON()},
	)
	check.Error(t, err, "")

	steps := 0
	for outcome := ClaimPending; outcome != ClaimConfirmed; steps++ {
		outcome, _, err = NewMarker(t.Context(), s.session, "ns").
			EnsureClaim(t.Context(), s.vm("vm-00"), claim, owner, false)
		check.Error(t, err, "")
	}

	check.Equal(t, "steps", steps, 3) // tag the VM, write its comment, see both
	vm := s.vm("vm-00")
	found, tagged := GetMark(vm)
	check.Equal(t, "tagged", tagged, true)
	check.Equal(t, "claim of the mark", *found.ToClaim(), claim)
	check.Equal(t, "comment", vm.CommentText(), owner.Comment())
	reason, _ := ExplainIneligible(vm, nil)
	check.Equal(t, "reason", reason, ReasonForeign)

	left, err := NewMarker(t.Context(), s.session, "ns").RemoveMark(t.Context(), vm, claim)
	check.Error(t, err, "")
	check.Equal(t, "comment that is left", left, comment)

	for range 2 { // in the second round, nothing is left to do
		vm = s.vm("vm-00")
		check.Equal(t, "comment of the VM that is free", vm.CommentText(), comment)
		left, err := NewMarker(t.Context(), s.session, "ns").RemoveMark(t.Context(), vm, claim)
		check.Error(t, err, "")
		check.Equal(t, "comment that is left", left, comment)
	}
}

// TestACleanVMHasWhatItHadBeforeTheClaim cleans VMs. For some of them, Terraform has already restored the
// initialization.
func TestACleanVMHasWhatItHadBeforeTheClaim(t *testing.T) {
	s := newSite(t, 1)
	id, comment, none := s.vm("vm-00").ID, "", ""
	owner := ownermark.Owner{Namespace: "ns", Name: "m", UID: "u"}
	claim := infrav1alpha1.InventoryClaim{
		ID: "one", ClusterName: "demo", Role: infrav1.RoleWorker, Group: "MachineSet/a", MachineName: "m",
	}
	own := &engine.Initialization{
		CustomScript: "#cloud-config\nown: true\n", HostName: "own", TimeZone: "Europe/Berlin",
		AuthorizedSSHKeys: "ssh-ed25519 AAAA own", UserName: "lab",
	}
	machines := &engine.Initialization{CustomScript: "#cloud-config\ntoken: secret\n", HostName: "m"}
	with := func(change func(*engine.Initialization)) *engine.Initialization {
		out := *own
		change(&out)

		return &out
	}

	for name, tt := range map[string]struct{ had, has, want *engine.Initialization }{
		"Terraform has given it back":                {own, own, own},
		"no machine has used it, and it had nothing": {&engine.Initialization{}, nil, &engine.Initialization{}},
		"the machine's state was lost":               {own, machines, &engine.Initialization{HostName: "own"}},
		"the machine's state was lost, and the rest stayed": {
			own, with(func(i *engine.Initialization) { i.CustomScript, i.HostName = "token", "m" }),
			with(func(i *engine.Initialization) { i.CustomScript = "" }),
		},
		"Terraform has lost the host name": {own, with(func(i *engine.Initialization) { i.HostName = "" }), own},
		"it had no user data":              {&engine.Initialization{HostName: "own"}, machines, &engine.Initialization{HostName: "own"}},
		"an earlier version claimed it":    {nil, machines, &engine.Initialization{}},
	} {
		t.Run(name, func(t *testing.T) {
			s.update("vm-00", &engine.VM{Comment: &none})
			check.Error(t, s.session.ReplaceInitialization(t.Context(), id, tt.had), "")
			mark := NewMark("ns", claim, s.full("vm-00"))
			if tt.had == nil {
				mark.Guest = nil
			}

			comment = owner.Comment()
			s.update("vm-00", &engine.VM{Comment: &comment})
			check.Error(t, s.session.ReplaceInitialization(t.Context(), id, tt.has), "")

			for done := false; !done; {
				var err error
				done, _, err = CleanVM(
					t.Context(), s.session, id, owner, parseMark(engine.Tag{Description: mark.encodeJSON()}).mark,
				)
				check.Error(t, err, "")
			}

			left := cmp.Or(s.full("vm-00").Initialization, &engine.Initialization{})
			left.NICs = nil
			check.Equal(t, "the initialization", left, tt.want)
			check.Lacks(t, "the mark", mark.encodeJSON(), "own: true")
		})
	}
}

// TestRebuildReplacesTheRootDisk rebuilds a VM with an enlarged disk. It starts again at each step, as after a crash.
func TestRebuildReplacesTheRootDisk(t *testing.T) {
	s := newSite(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	_, before, err := fetchBootDisk(ctx, s.session, s.vm("vm-00").ID)
	check.Error(t, err, "")
	check.Error(t, s.session.GrowDisk(ctx, before.ID, 20<<30, nil), "")
	var waited []string

	for {
		done, waiting, err := Rebuilder{
			Session: s.session, VM: s.vm("vm-00"), ClaimID: "claim-1234567890", DataCenter: s.dc,
		}.takeStep(ctx)
		check.Error(t, err, "")
		if done {
			break
		}

		if len(waited) == 0 || waited[len(waited)-1] != waiting {
			waited = append(waited, waiting)
		}
	}

	check.Equal(t, "waited for", waited, []string{
		"a new root disk of template k8s-small", "the new root disk",
	})
	_, after, err := fetchBootDisk(ctx, s.session, s.vm("vm-00").ID)
	check.Error(t, err, "")
	check.Equal(t, "it is another disk", after.ID != before.ID, true)
	check.Equal(t, "size of the new disk", after.ProvisionedSize, int64(20<<30))
	_, err = s.session.FetchDisk(ctx, before.ID)
	check.Equal(t, "the old disk is gone", engine.IsNotFound(err), true)
	all, err := s.session.ListVMs(ctx)
	check.Error(t, err, "")
	check.Length(t, "VMs", all, 3)
	check.Equal(
		t, "recycling", ChooseRecycling(&infrav1alpha1.OLVMInventory{}, s.vm("vm-00"), false),
		infrav1alpha1.RecycleRebuild,
	)
}

// TestAPlantedDiskIsNoRootDisk adds foreign disks with the name of the new root disk: a detached one, and the former
// node's root disk, which its owner has renamed.
func TestAPlantedDiskIsNoRootDisk(t *testing.T) {
	s := newSite(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	r := Rebuilder{Session: s.session, VM: s.vm("vm-00"), ClaimID: "claim-1234567890", DataCenter: s.dc}

	domains, err := s.session.ListStorageDomains(ctx, s.dc)
	check.Error(t, err, "")

	alias := r.diskAlias()
	planted, err := s.session.CreateDisk(ctx, &engine.Disk{
		Alias: &alias, Format: engine.FormatCow, ProvisionedSize: 100 << 30, Description: r.donorComment(),
		StorageDomains: &engine.StorageDomains{Items: []engine.Ref{{ID: domains[0].ID}}},
	})
	check.Error(t, err, "")

	_, before, err := fetchBootDisk(ctx, s.session, r.VM.ID)
	check.Error(t, err, "")
	check.Error(t, s.session.UpdateDisk(ctx, before.ID, &engine.Disk{Alias: &alias}), "")

	for done := false; !done; {
		r.VM = s.vm("vm-00")
		done, _, err = r.takeStep(ctx)
		check.Error(t, err, "")
	}

	_, after, err := fetchBootDisk(ctx, s.session, r.VM.ID)
	check.Error(t, err, "")
	check.Equal(t, "it is the disk of the node before", after.ID == before.ID, false)
	check.Equal(t, "it is the planted one", after.ID == planted.ID, false)
	_, err = s.session.FetchDisk(ctx, planted.ID)
	check.Error(t, err, "")
}

// TestADonorWithoutItsDiskIsMadeAgain covers two donors: one of an earlier version that has not recorded its disk, and
// one whose disk was deleted.
func TestADonorWithoutItsDiskIsMadeAgain(t *testing.T) {
	for name, description := range map[string]string{
		"it has chosen none":       "",
		"somebody has deleted it":  givenPrefix + "6e0f7a4c-0000-4000-8000-000000000000",
		"its description is wrong": givenPrefix + "a disk",
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, 1)
			ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
			defer cancel()
			r := Rebuilder{Session: s.session, VM: s.vm("vm-00"), ClaimID: "claim-1234567890", DataCenter: s.dc}
			_, before, err := fetchBootDisk(ctx, s.session, r.VM.ID)
			check.Error(t, err, "")

			comment := r.donorComment()
			donor, err := s.session.CreateVM(ctx, &engine.VM{
				Name: r.donorName(), Comment: &comment, Description: &description, Cluster: r.VM.Cluster,
				Template: &engine.Ref{ID: r.VM.Template.ID},
			}, nil)
			check.Error(t, err, "")
			wait.For(t, "the donor is down", func() error {
				now, err := s.session.FetchVM(ctx, donor.ID)
				if err == nil && now.Status != engine.VMDown {
					err = fmt.Errorf("it is %s", now.Status)
				}

				return err
			})
			check.Error(t, s.session.DetachForeignDisks(ctx, donor.ID, func(*engine.DiskAttachment, *engine.Disk) bool {
				return false
			}), "")

			for done := false; !done; {
				r.VM = s.vm("vm-00")
				done, _, err = r.takeStep(ctx)
				check.Error(t, err, "")
			}

			_, after, err := fetchBootDisk(ctx, s.session, r.VM.ID)
			check.Error(t, err, "")
			check.Equal(t, "it is another disk", after.ID != before.ID, true)
			_, err = s.session.FetchVM(ctx, donor.ID)
			check.Equal(t, "the donor is gone", engine.IsNotFound(err), true)
		})
	}
}

// TestALateDonorGoesUnlessARebuildUsesIt covers the late donors of a halted manager, and donors in use.
func TestALateDonorGoesUnlessARebuildUsesIt(t *testing.T) {
	const claim, next = "claim-1234567890", "claim-0987654321"
	owner := ownermark.Owner{Namespace: "ns", Name: "m", UID: "uid"}.Comment()
	tagged := func(description string) func(*site) {
		return func(s *site) {
			id := s.vm("vm-00").ID
			check.Error(s.t, tagVM(s.t.Context(), s.session, id, TagName(id), description), "")
		}
	}
	markOf := func(id string) string {
		return Mark{ID: id, Namespace: "ns", Cluster: "c", Group: "g", Role: infrav1.RoleWorker}.encodeJSON()
	}

	for name, test := range map[string]struct {
		prepare func(*site)
		spoil   func(*engine.VM)
		goes    bool
	}{
		"nobody has the VM":                         {goes: true},
		"the VM has another claim":                  {prepare: tagged(markOf(next)), goes: true},
		"the VM has the claim":                      {prepare: tagged(markOf(claim))},
		"the claim cannot be read":                  {prepare: tagged("no mark")},
		"somebody took the tag of the claim away":   {prepare: func(s *site) { s.update("vm-00", &engine.VM{Comment: &owner}) }},
		"it is the donor of a VM of another pool":   {spoil: func(vm *engine.VM) { vm.Comment = new("capolvm rebuild=7 claim=" + claim) }},
		"a person made it by the name of a donor":   {spoil: func(vm *engine.VM) { vm.Comment = nil }},
		"a person made it with the mark of a donor": {spoil: func(vm *engine.VM) { vm.Name = donorPrefix + "mine" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 2)
			r := Rebuilder{Session: s.session, VM: s.vm("vm-00"), ClaimID: claim, DataCenter: s.dc}
			donor := &engine.VM{
				Name: r.donorName(), Comment: new(r.donorComment()), Cluster: r.VM.Cluster,
				Template: &engine.Ref{ID: r.VM.Template.ID},
			}

			if test.prepare != nil {
				test.prepare(s)
			}

			if test.spoil != nil {
				test.spoil(donor)
			}

			made, err := s.session.CreateVM(t.Context(), donor, nil)
			check.Error(t, err, "")

			read := func() *Pool {
				spec := infrav1alpha1.OLVMInventorySpec{OLVMDatacenterName: "Default"}
				spec.VirtualMachines.Tag = "pool"
				pool, err := FetchPool(t.Context(), s.session, spec)
				check.Error(t, err, "")

				return pool
			}
			check.Error(t, RemoveLateDonors(t.Context(), s.session, read()), "") // the donor may be locked
			wait.For(t, "the donor is not locked", func() error {
				vm, err := s.session.FetchVM(t.Context(), made.ID)
				if engine.IsNotFound(err) || err == nil && vm.Status == engine.VMDown {
					return nil
				}

				return cmp.Or(err, errors.New("it is"))
			})
			check.Error(t, RemoveLateDonors(t.Context(), s.session, read()), "")
			_, err = s.session.FetchVM(t.Context(), made.ID)
			check.Equal(t, "the donor is gone", engine.IsNotFound(err), test.goes)
			check.Length(t, "VMs of the pool", s.pool(), 2)
		})
	}
}

// TestAMarkThatCannotBeReadChangesNothing has a user who edits the description of a claim's tag. No claim may get or
// lose the VM.
func TestAMarkThatCannotBeReadChangesNothing(t *testing.T) {
	claim := infrav1alpha1.InventoryClaim{
		ID: "one", ClusterName: "demo", Role: infrav1.RoleWorker, Group: "MachineSet/a", MachineName: "m",
	}
	owner := &ownermark.Owner{Namespace: "ns", Name: "m", UID: "u"}

	for name, description := range map[string]string{
		"no description": "", "another text": "of the lab", "half a mark": `{"id":"one","namespace":"ns"}`,
	} {
		for _, settled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, settled %t", name, settled), func(t *testing.T) {
				s := newSite(t, 1)
				comment := owner.Comment()
				s.update("vm-00", &engine.VM{Comment: &comment})
				id := s.vm("vm-00").ID
				tag, err := s.session.CreateTag(t.Context(), &engine.Tag{Name: TagName(id), Description: description})
				check.Error(t, err, "")

				for _, onVM := range []bool{false, true} {
					if onVM {
						check.Error(t, s.session.TagVM(t.Context(), id, tag.ID), "")
					}

					vm := s.vm("vm-00")
					outcome, _, err := NewMarker(
						t.Context(), s.session, "ns",
					).EnsureClaim(t.Context(), vm, claim, owner, settled)
					check.Error(t, err, "is not that of a claim")
					check.Equal(t, "outcome", outcome, ClaimPending)

					if onVM {
						_, err = IsAssignedToClaim(vm, "ns", claim)
						check.Error(t, err, "is not that of a claim")
					}
				}

				vm := s.vm("vm-00")
				check.Equal(t, "comment", vm.CommentText(), comment)
				tags, err := s.session.ListTagsNamed(t.Context(), TagName(id))
				check.Error(t, err, "")
				check.Length(t, "tags", tags, 1)
			})
		}
	}
}

func TestTheMarkOfAVMThatIsDeletedIsItsOwnAndGoesWithIt(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	ctx := t.Context()
	vms, err := s.session.FindVMs(ctx, nil, "vm-00")
	check.Error(t, err, "")
	others, err := s.session.FindVMs(ctx, nil, "vm-01")
	check.Error(t, err, "")

	gone, stays := vms[0].ID, others[0].ID
	for _, id := range []engine.ID{gone, stays} {
		check.Error(t, MarkDeleting(ctx, s.session, id), "")
	}

	check.Error(t, s.session.DeleteVM(ctx, gone), "")
	check.Error(t, RemoveDeletingTag(ctx, s.session, gone), "")
	check.Error(t, RemoveDeletingTag(ctx, s.session, gone), "") // an interrupted pass repeats this call

	tags, err := s.session.ListVMTags(ctx, stays)
	check.Error(t, err, "")
	check.Equal(t, "the other VM is still marked", IsMarkedDeleting(tags), true)

	left, err := s.session.ListTagsNamed(ctx, getDeletingTag(gone))
	check.Error(t, err, "")
	check.Equal(t, "tags of the VM that is gone", len(left), 0)
}

func TestTheMarkOfEarlierVersionsIsStillSeen(t *testing.T) {
	t.Parallel()
	check.Equal(t, "the mark that all VMs shared", IsMarkedDeleting([]engine.Tag{{Name: "capolvm-deleting"}}), true)
	check.Equal(t, "another tag", IsMarkedDeleting([]engine.Tag{{Name: "capolvm-deletinghouse"}}), false)
}

func TestAnInventoryThatXMLCannotCarryIsRefused(t *testing.T) {
	_, err := FetchPool(t.Context(), nil, infrav1alpha1.OLVMInventorySpec{
		VirtualMachines: infrav1alpha1.InventoryVMs{Tag: "pool\x00"},
	})
	check.Error(
		t, err, "spec.virtualMachines.tag: character 5 of line 1 is U+0000 (NUL), which XML cannot carry to the engine",
	)
}
