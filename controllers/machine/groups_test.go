package machine

import (
	"errors"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/placement"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

func TestCheckGroups(t *testing.T) {
	self := placement.Member{Name: "m", Groups: []string{"g"}, ClusterID: "c"}
	wanted := func(hard bool, waiting ...string) []placement.Group {
		return []placement.Group{
			{
				AffinityGroup: infrav1.AffinityGroup{Name: "g"},
				ClusterID:     "c",
				Hard:          hard,
				Waiting:       waiting,
				Machines:      3,
				Hosts:         2,
			},
		}
	}
	there := func(cluster string, hard bool) []infrav1.AffinityGroupStatus {
		return []infrav1.AffinityGroupStatus{{Name: "g", OLVMOvirtClusterID: cluster, ID: "x", Enforced: &hard}}
	}
	elsewhere := wanted(true, "m")
	elsewhere[0].ClusterID = "d"
	another := wanted(true, "m")
	another[0].Name = "h"

	tests := map[string]struct {
		wanted []placement.Group
		there  []infrav1.AffinityGroupStatus
		reason string
	}{
		"the group is hard and has room":     {wanted(true), there("c", true), ""},
		"the group is soft":                  {wanted(false), there("c", false), ""},
		"the group is soft and becomes hard": {wanted(true), there("c", false), ""},
		"the group is not made yet":          {wanted(true), nil, infrav1.WaitingForAffinityGroupReason},
		"it is made in another cluster only": {
			wanted(true),
			there("d", true),
			infrav1.WaitingForAffinityGroupReason,
		},
		"another one is made": {
			wanted(true), []infrav1.AffinityGroupStatus{{Name: "h", OLVMOvirtClusterID: "c", ID: "x"}},
			infrav1.WaitingForAffinityGroupReason,
		},
		"it is hard and is to become soft": {
			wanted(false),
			there("c", true),
			infrav1.WaitingForAffinityGroupReason,
		},
		"nobody knows how hard it is, and it is to become soft": {
			wanted(false), []infrav1.AffinityGroupStatus{{Name: "g", OLVMOvirtClusterID: "c", ID: "x"}}, "",
		},
		"it is not wanted any more, and is there": {nil, there("c", true), ""},
		"there is never room": {
			wanted(true, "m"),
			there("c", true),
			infrav1.EnforcementImpossibleReason,
		},
		"there is no room, and no group either":    {wanted(true, "m"), nil, infrav1.EnforcementImpossibleReason},
		"there is no room for another, but for it": {wanted(true, "n"), there("c", true), ""},
		"there is no room in another cluster":      {elsewhere, there("c", true), ""},
		"there is no room in another group":        {another, there("c", true), ""},
	}
	for name, test := range tests {
		err := checkGroups(self, infrav1.ControlPlaneRole, test.wanted, test.there)
		var field *blocker.Error
		if errors.As(err, &field) != (test.reason != "") || field != nil && field.Reason != test.reason {
			t.Errorf("%s: %v, want %q", name, err, test.reason)
		}
	}

	for role, kind := range map[infrav1.MachineRole]string{
		infrav1.ControlPlaneRole: "this control plane machine", infrav1.WorkerRole: "this worker machine",
		"": "this support machine",
	} {
		err := checkGroups(self, role, wanted(true, "m"), nil)
		check.Error(t, err,
			"OLVMCluster spec.affinityGroups[g]: it always separates 3 machines, but only 2 hosts of the "+
				"engine's cluster are up, so "+kind+" is not created")
	}
}

const (
	engineClusterID = "01939bb4-0000-4000-8000-00000000000a"
	groupID         = "01939bb4-0000-4000-8000-00000000000b"
	otherGroupID    = "01939bb4-0000-4000-8000-00000000000c"
)

// inGroups returns a bench with a VM for its machine. The machine belongs in the group workers; members are the VMs in
// that group.
func inGroups(t *testing.T, members ...string) *bench {
	t.Helper()
	inventory := ovirtsim.DefaultInventory()
	vm := ownVM(true)
	vm.Cluster, vm.Template = "Default", "ol9-k8s"
	inventory.DataCenters[0].VMs = []ovirtsim.VM{vm}
	inventory.DataCenters[0].Clusters[0].ID = engineClusterID
	inventory.DataCenters[0].Clusters[0].AffinityGroups = []ovirtsim.AffinityGroup{
		{Name: "workers", ID: groupID, VMs: members}, {Name: "others", ID: otherGroupID},
	}
	b := withOptions(t, ovirtsim.Options{Inventory: inventory}, func(o *objects) {
		o.hasVM()
		o.olvmCluster.Spec.AffinityGroups = []infrav1.AffinityGroup{{Name: "workers", Role: infrav1.WorkerRole}}
		o.olvmCluster.Status.AffinityGroups = []infrav1.AffinityGroupStatus{
			{Name: "workers", ID: groupID, OLVMOvirtClusterID: engineClusterID},
		}
	})
	b.store(stateOf(1, "ovirt_vm="+vmID), "digest")

	return b
}

// TestAffinityGroups covers the choice of groups for a machine, and when it waits for them.
func TestAffinityGroups(t *testing.T) {
	self := placement.Member{Name: "m", Groups: []string{"workers"}, ClusterID: engineClusterID}
	known := map[string]string{"workers": groupID}

	for name, tt := range map[string]struct {
		change func(*machineScope)
		want   map[string]string
		reason string
	}{
		"a VM that exists takes what there is": {func(*machineScope) {}, known, ""},
		"nor does it wait for one that is not made": {func(s *machineScope) {
			s.olvmCluster.Status.AffinityGroups = nil
		}, map[string]string{}, ""},
		"the state knows one that the cluster does not report": {func(s *machineScope) {
			s.olvmCluster.Status.AffinityGroups = nil
			s.observed.State = parsed(t, "", "ovirt_vm="+vmID, "ovirt_vm_affinity_group[workers]=old",
				"ovirt_vm_affinity_group[others]=other")
		}, map[string]string{"workers": "old"}, ""},
		"what the cluster reports is newer": {func(s *machineScope) {
			s.observed.State = parsed(t, "", "ovirt_vm="+vmID, "ovirt_vm_affinity_group[workers]=old")
		}, known, ""},
		"others' groups, and those of other clusters, are not its": {func(s *machineScope) {
			s.olvmCluster.Status.AffinityGroups = []infrav1.AffinityGroupStatus{
				{Name: "others", ID: otherGroupID, OLVMOvirtClusterID: engineClusterID}, {Name: "workers", ID: "x",
					OLVMOvirtClusterID: "other"},
			}
		}, map[string]string{}, ""},
		"a machine without a VM has its group": {func(s *machineScope) { withoutVM(s) }, known, ""},
		"it waits for a group that is not made": {func(s *machineScope) {
			withoutVM(s)
			s.olvmCluster.Status.AffinityGroups = nil
		}, map[string]string{}, infrav1.WaitingForAffinityGroupReason},
		"it waits for a group that is to make room": {func(s *machineScope) {
			withoutVM(s)
			s.olvmCluster.Spec.AffinityGroups[0].Enforcing = infrav1.AffinityNever
			s.olvmCluster.Status.AffinityGroups[0].Enforced = new(true)
		}, known, infrav1.WaitingForAffinityGroupReason},
		"who manages the cluster elsewhere makes its groups": {func(s *machineScope) {
			withoutVM(s)
			s.olvmCluster.Status.AffinityGroups = nil
			s.olvmCluster.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "others"}
		}, map[string]string{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := inGroups(t, "m")
			scope := b.connected()
			_, err := b.r.reconcileState(t.Context(), scope)
			check.Error(t, err, "")
			tt.change(scope)
			got, err := b.r.resolveAffinityGroups(t.Context(), scope, self)
			var field *blocker.Error
			errors.As(err, &field)
			check.Equal(t, "the reason", reasonOf(field), tt.reason)
			check.Equal(t, "there is an error", err != nil, tt.reason != "")
			check.Equal(t, "groups", got, tt.want)
		})
	}
}

func withoutVM(s *machineScope) {
	s.olvmMachine.Spec.ProviderID = ""
	s.observed.State = nil
}

func TestGroupsThatCannotBeAskedFor(t *testing.T) {
	self := placement.Member{Name: "m", Groups: []string{"workers"}, ClusterID: engineClusterID}

	for name, tt := range map[string]struct {
		spoil func(*bench)
		want  string
	}{
		"the other machines": {
			func(b *bench) { b.refuse("list", &clusterv1.MachineList{}) }, "failed to list the Machines",
		},
		"the hosts": {func(b *bench) {
			check.Error(b.t, b.sim.Inject(ovirtsim.Fault{Path: "/api/hosts", Status: 503}), "")
		}, "hosts"},
	} {
		t.Run(name, func(t *testing.T) {
			b := inGroups(t, "m")
			scope := b.connected()
			withoutVM(scope)
			tt.spoil(b)
			_, err := b.r.resolveAffinityGroups(t.Context(), scope, self)
			check.Error(t, err, tt.want)
		})
	}
}

// TestFindLeftGroup covers a VM that someone removed from a group, and cases that look similar.
func TestFindLeftGroup(t *testing.T) {
	for name, tt := range map[string]struct {
		members []string
		groups  map[string]string
		change  func(*machineScope)
		want    bool
	}{
		"it is in its group": {members: []string{"m"}, groups: map[string]string{"workers": groupID}},
		"it was taken out":   {groups: map[string]string{"workers": groupID}, want: true},
		"it was taken out of one of two": {
			members: []string{"m"}, groups: map[string]string{"workers": groupID, "others": otherGroupID}, want: true,
		},
		"the group is gone, and made anew by the cluster": {groups: map[string]string{"workers": "gone"}},
		"it is to be in none":                             {},
		"there is no VM": {
			groups: map[string]string{"workers": groupID}, change: func(s *machineScope) { s.vm.current = nil },
		},
		"it was never put in one": {
			groups: map[string]string{"workers": groupID}, change: func(s *machineScope) { s.observed.State = nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := inGroups(t, tt.members...)
			scope := seenInGroup(b, tt.groups)
			if tt.change != nil {
				tt.change(scope)
			}

			got, err := b.r.checkLeftGroup(t.Context(), scope)
			check.Error(t, err, "")
			check.Equal(t, "it left a group", got, tt.want)
		})
	}
}

// seenInGroup returns the scope of a machine with a VM and these groups.
func seenInGroup(b *bench, groups map[string]string) *machineScope {
	b.t.Helper()
	scope := b.connected()
	_, err := b.r.reconcileState(b.t.Context(), scope)
	check.Error(b.t, err, "")
	scope.vm.current = &engine.VM{ID: vmID}
	scope.desired.built = &desired.Built{
		Machine: render.Machine{AffinityGroups: groups}, Names: &infrav1.OLVMStatus{ClusterID: engineClusterID},
	}

	return scope
}

// TestAnOldListOfMembersIsNoProof covers a cached list from before the VM joined its group.
func TestAnOldListOfMembersIsNoProof(t *testing.T) {
	b := inGroups(t)
	scope := seenInGroup(b, map[string]string{"workers": groupID})
	_, err := b.r.Engines.GetAffinityGroups(t.Context(), scope.engine.session, engineClusterID, steadyInterval)
	check.Error(t, err, "")
	check.Error(t, b.session.AddToAffinityGroup(t.Context(), engineClusterID, groupID, vmID), "")

	left, err := b.r.checkLeftGroup(t.Context(), scope)
	check.Error(t, err, "")
	check.Equal(t, "it left a group", left, false)

	// A cached list with the VM in it needs no new request.
	before := len(b.sim.ListRequests())
	left, err = b.r.checkLeftGroup(t.Context(), scope)
	check.Error(t, err, "")
	check.Equal(t, "it left a group", left, false)
	check.Length(t, "requests", b.sim.ListRequests()[before:], 0)
}

// TestAMachineJoinsTheGroupsOfItsCluster verifies that a pass renders the groups in the OLVMCluster's status.
func TestAMachineJoinsTheGroupsOfItsCluster(t *testing.T) {
	b := inGroups(t, "m")
	check.Equal(t, "groups", b.configured().desired.built.Machine.AffinityGroups, map[string]string{"workers": groupID})
}
