package placement

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// upHosts returns the given number of running hosts in the cluster c, and one more that does not run.
func upHosts(count int) []engine.Host {
	hosts := []engine.Host{
		{ID: "m", Status: "maintenance", Cluster: engine.NewRef("c")},
		{ID: "x", Status: engine.HostUp, Cluster: engine.NewRef("other")},
	}
	for i := range count {
		hosts = append(hosts, engine.Host{
			ID:      engine.ID(fmt.Sprintf("h%d", i+1)),
			Status:  engine.HostUp,
			Cluster: engine.NewRef("c"),
		})
	}

	return hosts
}

func members(count int) []Member {
	var out []Member
	for i := range count {
		out = append(out, Member{
			Name:      fmt.Sprintf("m%d", i+1),
			Groups:    []string{"g"},
			ClusterID: "c",
			Created:   time.Unix(int64(i), 0),
		})
	}

	return out
}

func TestHowHardAGroupIs(t *testing.T) {
	group := func(enforcing infrav1.AffinityEnforcing, positive bool) []infrav1.AffinityGroup {
		return []infrav1.AffinityGroup{{Name: "g", Enforcing: enforcing, Positive: positive}}
	}
	pinned := func(hosts ...string) []Member {
		out := members(len(hosts))
		for i, host := range hosts {
			for id := range strings.SplitSeq(host, ",") {
				if id != "" {
					out[i].HostIDs = append(out[i].HostIDs, engine.ID(id))
				}
			}
		}

		return out
	}
	running := members(3)
	running[2].HasVM = true

	tests := map[string]struct {
		asked       []infrav1.AffinityGroup
		members     []Member
		hosts       int
		hard, short bool
		waiting     []string
	}{
		"a host for each": {group("", false), members(3), 3, true, false, nil},
		"more hosts than machines": {
			group(infrav1.AffinityAuto, false),
			members(3),
			5,
			true,
			false,
			nil,
		},
		"two hosts for three":     {group("", false), members(3), 2, false, true, nil},
		"a rollout adds a fourth": {group("", false), members(4), 3, false, true, nil},
		"no host at all":          {group("", false), members(1), 0, false, true, nil},
		"one machine on one host": {group("", false), members(1), 1, true, false, nil},
		"never": {
			group(infrav1.AffinityNever, false),
			members(3),
			3,
			false,
			false,
			nil,
		},
		"never, with too few hosts, is no shortage": {
			group(infrav1.AffinityNever, false),
			members(3),
			1,
			false,
			false,
			nil,
		},
		"always, with enough": {
			group(infrav1.AffinityAlways, false),
			members(3),
			3,
			true,
			false,
			nil,
		},
		"always, with too few: the youngest waits": {
			group(infrav1.AffinityAlways, false),
			members(3),
			2,
			true,
			true,
			[]string{"m3"},
		},
		"always: who has a VM goes before who is older": {
			group(infrav1.AffinityAlways, false),
			running,
			2,
			true,
			true,
			[]string{"m2"},
		},
		"together is soft, whatever hosts there are": {group("", true), members(3), 5, false, false, nil},
		"together, always": {
			group(infrav1.AffinityAlways, true),
			members(3),
			1,
			true,
			false,
			nil,
		},
		"two that can run on one host only": {group("", false), pinned("h1", "h1"), 3, false, true, nil},
		"who can run elsewhere makes room": {
			group("", false),
			pinned("", "h1", "h2"),
			3,
			true,
			false,
			nil,
		},
		"a chain of machines that make room": {
			group("", false),
			pinned("h1,h2", "h1,h3", "h1"),
			3,
			true,
			false,
			nil,
		},
		"always: the one that has no host of its own": {
			group(infrav1.AffinityAlways, false),
			pinned("h1", "h1", "h2"),
			3,
			true,
			true,
			[]string{"m2"},
		},
		"a machine that may run on a host that is down": {group("", false), pinned("m"), 3, false, true, nil},
		"as many as hosts, among them one without place": {
			group(infrav1.AffinityAlways, false),
			pinned("m", "", ""),
			2,
			true,
			true,
			[]string{"m1"},
		},
	}
	for name, test := range tests {
		groups := DecideGroups(test.asked, test.members, upHosts(test.hosts), nil)
		if len(groups) != 1 {
			t.Errorf("%s: %d groups", name, len(groups))
			continue
		}

		g := groups[0]
		waiting := g.Waiting
		check.Equal(t, name+": g.Hard", g.Hard, test.hard)
		check.Equal(t, name+": g.Short", g.Short, test.short)
		check.Equal(t, name+": slices.Equal(waiting, test.waiting)", slices.Equal(waiting, test.waiting), true)
		check.Equal(t, name+": g.Machines", g.Machines, len(test.members))
		check.Equal(t, name+": g.Hosts", g.Hosts, test.hosts)
	}
}

func TestWhichGroupsThereAre(t *testing.T) {
	asked := []infrav1.AffinityGroup{{Name: "g"}, {Name: "h"}}
	in := func(group, cluster string) Member {
		return Member{Name: "m", Groups: []string{group}, ClusterID: engine.ID(cluster)}
	}

	got := func(members []Member, existing ...GroupKey) (out []string) {
		for _, g := range DecideGroups(asked, members, nil, existing) {
			out = append(out, fmt.Sprintf("%s off=%t machines=%d", g.Key(), g.Off, g.Machines))
		}

		return out
	}
	for name, test := range map[string]struct{ got, want []string }{
		"none without machines": {got(nil), nil},
		"one per group and cluster that is in use": {got([]Member{in("g", "c"), in("g", "d"), in("g", "c")}),
			[]string{"g/c off=false machines=2", "g/d off=false machines=1"}},
		"what exists stays without machines": {got(nil, GroupKey{"g", "c"}),
			[]string{"g/c off=false machines=0"}},
		"what nobody asks for loses its rule and stays": {got(nil, GroupKey{"old", "c"}),
			[]string{"old/c off=true machines=0"}},
		"a group with machines that exists is one": {got([]Member{in("h", "c")}, GroupKey{"h", "c"}),
			[]string{"h/c off=false machines=1"}},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s: %q, want %q", name, test.got, test.want)
		}
	}
}

// TestTheDefaultGroupsAreAskedForByAFieldOfTheirOwn covers each value of this field with each list of groups.
func TestTheDefaultGroupsAreAskedForByAFieldOfTheirOwn(t *testing.T) {
	own := infrav1.AffinityGroup{Name: "workers", Role: infrav1.WorkerRole, Priority: 9}
	enabled, disabled := infrav1.DefaultAffinityGroupsEnabled, infrav1.DefaultAffinityGroupsDisabled

	for _, test := range []struct {
		asked infrav1.DefaultAffinityGroups
		list  []infrav1.AffinityGroup
		want  string
	}{
		{"", nil, "control-plane/5 workers/3"},
		{"", []infrav1.AffinityGroup{}, ""},
		{"", []infrav1.AffinityGroup{own}, "workers/9"},
		{enabled, nil, "control-plane/5 workers/3"},
		{enabled, []infrav1.AffinityGroup{}, "control-plane/5 workers/3"},
		{enabled, []infrav1.AffinityGroup{own}, "workers/9 control-plane/5"},
		{disabled, nil, ""},
		{disabled, []infrav1.AffinityGroup{}, ""},
		{disabled, []infrav1.AffinityGroup{own}, "workers/9"},
	} {
		var got []string
		for _, g := range CollectAffinityGroups(infrav1.OLVMClusterSpec{
			DefaultAffinityGroups: test.asked, AffinityGroups: test.list,
		}, nil) {
			got = append(got, fmt.Sprintf("%s/%d", g.Name, g.Priority))
		}

		check.Equal(t, fmt.Sprintf("%q beside %v", test.asked, test.list), strings.Join(got, " "), test.want)
	}
}

func TestWhichGroupsAMachineIsIn(t *testing.T) {
	absent, empty := infrav1.OLVMClusterSpec{}, infrav1.OLVMClusterSpec{AffinityGroups: []infrav1.AffinityGroup{}}

	own := infrav1.OLVMClusterSpec{
		AffinityGroups: []infrav1.AffinityGroup{{Name: "z", Role: infrav1.WorkerRole}, {Name: "db"}},
	}
	for name, test := range map[string]struct {
		cluster infrav1.OLVMClusterSpec
		role    infrav1.MachineRole
		service string
		named   []string
		want    []string
	}{
		"the default of control planes":    {absent, infrav1.ControlPlaneRole, "", nil, []string{"control-plane"}},
		"the default of workers":           {absent, infrav1.WorkerRole, "", nil, []string{"workers"}},
		"an empty list turns it off":       {empty, infrav1.ControlPlaneRole, "", nil, nil},
		"its role's":                       {own, infrav1.WorkerRole, "", nil, []string{"z"}},
		"no group has its role":            {own, infrav1.ControlPlaneRole, "", nil, nil},
		"its role's and one that it names": {own, infrav1.WorkerRole, "", []string{"db"}, []string{"db", "z"}},
		"a VM of a support service":        {absent, "", "", nil, nil},
		"one that names a group":           {own, "", "", []string{"db"}, []string{"db"}},
		"its role's, named too":            {own, infrav1.WorkerRole, "", []string{"z"}, []string{"z"}},
		"a service without a group":        {own, "", "lb-a", nil, nil},
		"a service with one":               {own, "", "z", nil, []string{"z"}},
	} {
		spec := infrav1.OLVMMachineSpec{}
		spec.VirtualMachine.Placement.AffinityGroupNames = test.named
		got, err := CollectGroupNames(CollectAffinityGroups(test.cluster, nil), spec, test.role, test.service)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}

	spec := infrav1.OLVMMachineSpec{}
	spec.VirtualMachine.Placement.AffinityGroupNames = []string{"dB"}
	_, err := CollectGroupNames(CollectAffinityGroups(own, nil), spec, infrav1.WorkerRole, "")
	var field *blocker.Error
	check.Equal(t, "errors.As(err, &field)", errors.As(err, &field), true)
	check.Equal(t, "field.Reason", field.Reason, infrav1.AffinityGroupNotFoundReason)
	check.Contains(t, "err.Error()", err.Error(), "it has db, z")
}

func TestTheOwnerOfAGroupIsReadBack(t *testing.T) {
	owner := ownermark.Owner{Namespace: "default", Name: "demo", UID: "5f0c"}

	for _, description := range []string{"", "apart", "with [brackets]", "[capolvm owner=a/b uid=c]"} {
		g := Group{AffinityGroup: infrav1.AffinityGroup{Description: description}}
		got, ok := ParseGroupOwner(owner.AppendTo(g.Description))
		if !ok || got != owner {
			t.Errorf("%q was read as %+v, %t", owner.AppendTo(g.Description), got, ok)
		}
	}

	if _, ok := ParseGroupOwner("made by hand"); ok {
		t.Error("a group of somebody else is ours")
	}
}

func TestNoTwoClustersHaveAGroupOfTheSameName(t *testing.T) {
	seen := map[string]string{}
	for what, name := range map[string]string{
		"a cluster": FormatGroupName(ownermark.Owner{
			Namespace: "a-b",
			Name:      "c",
		}, GroupKey{"g", "11111111-aaaa"}),
		"another namespace and name": FormatGroupName(ownermark.Owner{
			Namespace: "a",
			Name:      "b-c",
		}, GroupKey{"g", "11111111-aaaa"}),
		"another engine cluster": FormatGroupName(ownermark.Owner{
			Namespace: "a-b",
			Name:      "c",
		}, GroupKey{"g", "22222222-aaaa"}),
	} {
		if other := seen[name]; other != "" {
			t.Errorf("%s and %s have a group %s", what, other, name)
		}

		seen[name] = what
	}
}
