package inventory

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

const (
	server = infrav1alpha1.InventoryLabelPrefix + "host"
	rack   = "example.com/rack"
	flavor = "example.com/flavor"
)

// pool returns VMs from lines of "name flavor server rack".
func pool(lines ...string) []VM {
	var out []VM

	for _, line := range lines {
		f := strings.Fields(line)
		out = append(out, VM{
			Name:     f[0],
			Labels:   map[string]string{flavor: f[1], server: f[2], rack: f[3]},
			Networks: []string{"nodes"},
		})
	}

	return out
}

// roles returns the groups of a cluster: a control plane, and workers on VMs with a flavor.
func roles(controlPlanes, workers int, topology string) []Group {
	machines := func(role string, n int) []string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("%s-%d", role, i))
		}

		return out
	}

	return []Group{
		{
			Cluster: "demo", Role: infrav1.RoleControlPlane, Name: "KubeadmControlPlane/demo",
			Machines: machines("cp", controlPlanes), Replicas: controlPlanes,
			Selector: labels.SelectorFromSet(labels.Set{flavor: "cp"}), TopologyKey: topology,
		},
		{
			Cluster: "demo", Role: infrav1.RoleWorker, Name: "MachineSet/demo",
			Machines: machines("md", workers), Replicas: workers,
			Selector: labels.SelectorFromSet(labels.Set{flavor: "worker"}), TopologyKey: topology,
		},
	}
}

// claims returns the machines of a plan, by VM.
func claims(plan Plan) map[string]string {
	out := map[string]string{}

	for _, change := range plan.Changes {
		if change.Claim != nil {
			out[change.VM] = change.Claim.MachineName
		} else {
			out[change.VM] = "given back"
		}
	}

	return out
}

// TestVMsAreScheduledLikeSIP (row 44) contains the test cases of the SIP operator.
func TestVMsAreScheduledLikeSIP(t *testing.T) {
	for name, c := range map[string]struct {
		vms      []VM
		topology string
		want     map[string]string
		// short has the wanted and found numbers by role, and the reasons for skipping VMs.
		short map[string]string
	}{
		"enough": {
			vms:      pool("a cp s1 r1", "b cp s2 r2", "c cp s3 r3", "d worker s1 r1", "e worker s2 r2"),
			topology: server,
			want:     map[string]string{"a": "cp-0", "b": "cp-1", "c": "cp-2", "d": "md-0", "e": "md-1"},
		},
		"too few for the control plane": {
			vms:      pool("a cp s1 r1", "b cp s2 r2", "d worker s1 r1", "e worker s2 r2"),
			topology: server,
			want:     map[string]string{"d": "md-0", "e": "md-1"},
			short:    map[string]string{infrav1.RoleControlPlane: "3/2 d, e: not selected"},
		},
		"too few workers": {
			vms:      pool("a cp s1 r1", "b cp s2 r2", "c cp s3 r3", "d worker s1 r1"),
			topology: server,
			want:     map[string]string{"a": "cp-0", "b": "cp-1", "c": "cp-2"},
			short:    map[string]string{infrav1.RoleWorker: "2/1 a, b, c: claimed by demo"},
		},
		"two workers on one server": {
			vms:      pool("a cp s1 r1", "b cp s2 r2", "c cp s3 r3", "d worker s1 r1", "e worker s1 r1"),
			topology: server,
			want:     map[string]string{"a": "cp-0", "b": "cp-1", "c": "cp-2"},
			short: map[string]string{
				infrav1.RoleWorker: "2/1 a, b, c: claimed by demo; e: d has the same " + server + ", s1",
			},
		},
		"two of the control plane on one server": {
			vms:      pool("a cp s1 r1", "b cp s1 r1", "c cp s3 r3", "d worker s1 r1", "e worker s2 r2"),
			topology: server,
			want:     map[string]string{"d": "md-0", "e": "md-1"},
			short: map[string]string{
				infrav1.RoleControlPlane: "3/2 b: a has the same " + server + ", s1; d, e: not selected",
			},
		},
		"two workers in one rack": {
			vms:      pool("a cp s1 r1", "b cp s2 r2", "c cp s3 r3", "d worker s1 r1", "e worker s2 r1"),
			topology: rack,
			want:     map[string]string{"a": "cp-0", "b": "cp-1", "c": "cp-2"},
			short: map[string]string{
				infrav1.RoleWorker: "2/1 a, b, c: claimed by demo; e: d has the same " + rack + ", r1",
			},
		},
		"two of the control plane in one rack": {
			vms:      pool("a cp s1 r1", "b cp s2 r1", "c cp s3 r3", "d worker s1 r1", "e worker s2 r2"),
			topology: rack,
			want:     map[string]string{"d": "md-0", "e": "md-1"},
			short: map[string]string{
				infrav1.RoleControlPlane: "3/2 b: a has the same " + rack + ", r1; d, e: not selected",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := Schedule(c.vms, roles(3, 2, c.topology), nil)

			check.Equal(t, "claims", claims(plan), c.want)

			short := map[string]string{}
			for _, s := range plan.Unschedulable {
				short[s.Role] = fmt.Sprintf("%d/%d %s", s.Wanted, s.Found, s.Message)
			}

			if len(short)+len(c.short) > 0 {
				check.Equal(t, "what is short", short, c.short)
			}
		})
	}
}

func TestSchedule(t *testing.T) {
	claimed := func(vms []VM, at int, group, machine string) []VM {
		vms[at].Claim = &infrav1alpha1.InventoryClaim{
			ID: "id", ClusterName: "demo", Role: infrav1.RoleWorker, Group: group, MachineName: machine,
		}

		return vms
	}
	workers := func(replicas int, machines ...string) []Group {
		return []Group{{
			Cluster: "demo", Role: infrav1.RoleWorker, Name: "MachineSet/a", Machines: machines, Replicas: replicas,
			Selector: labels.Everything(), TopologyKey: server,
		}}
	}
	seen := map[string]bool{"demo": true}
	three := func() []VM { return pool("a w s1 r1", "b w s2 r2", "c w s3 r3") }

	for name, c := range map[string]struct {
		vms      []VM
		groups   []Group
		clusters map[string]bool
		want     map[string]string
	}{
		"machines that do not exist yet have VMs reserved": {
			vms: three(), groups: workers(3, "m1"), want: map[string]string{"a": "m1", "b": "", "c": ""},
		},
		"a new machine takes a VM that is reserved": {
			vms: claimed(claimed(three(), 0, "MachineSet/a", "m1"), 2, "MachineSet/a", ""), groups: workers(2, "m1", "m2"),
			want: map[string]string{"c": "m2"},
		},
		"a VM that is released does not count": {
			vms: func() []VM {
				vms := claimed(three(), 0, "MachineSet/a", "m0")
				vms[0].Claim.Released = true

				return vms
			}(),
			groups: workers(1, "m1"), want: map[string]string{"b": "m1"},
		},
		"a claim that exists keeps its server free of others": {
			vms: claimed(pool("a w s1 r1", "b w s1 r1", "c w s3 r3"), 0, "MachineSet/a", "m1"), groups: workers(2, "m1", "m2"),
			want: map[string]string{"c": "m2"},
		},
		"a machine that is being deleted keeps its server, too": {
			vms: claimed(pool("a w s1 r1", "b w s1 r1"), 0, "MachineSet/a", "leaving"), groups: workers(1, "m2"),
			want: map[string]string{},
		},
		"VMs without the label are not bound by it": {
			vms: func() []VM {
				vms := three()
				delete(vms[0].Labels, server)
				delete(vms[1].Labels, server)

				return vms
			}(),
			groups: workers(3, "m1", "m2", "m3"), want: map[string]string{"a": "m1", "b": "m2", "c": "m3"},
		},
		"fewer replicas give reservations back": {
			vms:    claimed(claimed(three(), 0, "MachineSet/a", "m1"), 1, "MachineSet/a", ""),
			groups: workers(1, "m1"), want: map[string]string{"b": "given back"},
		},
		"a group that is gone gives its reservations back": {
			vms: claimed(three(), 1, "MachineSet/old", ""), groups: workers(1, "m1"), clusters: seen,
			want: map[string]string{"a": "m1", "b": "given back"},
		},
		"one of a cluster that cannot be seen does not": {
			vms: claimed(three(), 1, "MachineSet/old", ""), groups: workers(1, "m1"), want: map[string]string{"a": "m1"},
		},
		"a VM that cannot be claimed, and one without an address": {
			vms: func() []VM {
				vms := three()
				vms[0].Unfit, vms[1].Networks = "PoweredOn", nil

				return vms
			}(),
			groups: func() []Group {
				groups := workers(1, "m1")
				groups[0].Network = "nodes"

				return groups
			}(),
			want: map[string]string{"c": "m1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, "claims", claims(Schedule(c.vms, c.groups, c.clusters)), c.want)
		})
	}
}

// TestANewMachineTakesTheStandby (row 49) covers a role with a standby VM. A new machine takes this VM, and another VM
// is claimed in its place. An unusable standby VM is replaced.
func TestANewMachineTakesTheStandby(t *testing.T) {
	groups := func(kept int, machines ...string) []Group {
		return []Group{
			{
				Cluster: "demo", Role: infrav1.RoleWorker, Name: "Standby/spare", Replicas: kept, Standby: true,
				Selector: labels.Everything(), TopologyKey: server,
			},
			{
				Cluster: "demo", Role: infrav1.RoleWorker, Name: "MachineSet/a", Machines: machines,
				Selector: labels.Everything(), TopologyKey: server,
			},
		}
	}
	apply := func(vms []VM, plan Plan) {
		for _, change := range plan.Changes {
			at := slices.IndexFunc(vms, func(vm VM) bool { return vm.Name == change.VM })
			vms[at].Claim = change.Claim
		}
	}
	has := func(vms []VM) map[string]string {
		out := map[string]string{}

		for _, vm := range vms {
			if vm.Claim != nil {
				out[vm.Name] = vm.Claim.Group + " " + vm.Claim.MachineName
			}
		}

		return out
	}
	vms := pool("a w s1 r1", "b w s2 r2", "c w s3 r3", "d w s1 r1")

	apply(vms, Schedule(vms, groups(1, "m1"), nil))
	check.Equal(t, "at first", has(vms), map[string]string{"a": "MachineSet/a m1", "b": "Standby/spare "})
	vms[1].Claim.ID = "kept"

	apply(vms, Schedule(vms, groups(1, "m1", "m2"), nil))
	check.Equal(t, "in a rollout", has(vms), map[string]string{
		"a": "MachineSet/a m1", "b": "MachineSet/a m2", "c": "Standby/spare ",
	})
	check.Equal(t, "ID of the claim that was kept", vms[1].Claim.ID, "kept")

	vms[0].Claim.Released = true
	vms[2].Unfit = ReasonHostDown
	apply(vms, Schedule(vms, groups(1, "m2"), nil))
	check.Equal(t, "while the old VM is recycled, and the host of the other is down", has(vms), map[string]string{
		"a": "MachineSet/a m1", "b": "MachineSet/a m2",
	})

	vms[0].Claim = nil
	apply(vms, Schedule(vms, groups(1, "m2"), nil))
	check.Equal(t, "when the old VM is free", has(vms), map[string]string{
		"a": "Standby/spare ", "b": "MachineSet/a m2",
	})

	plan := Schedule(vms, groups(3, "m2"), nil)
	apply(vms, plan)
	check.Length(t, "what is short", plan.Unschedulable, 1)
	check.Equal(t, "as many as there are", has(vms), map[string]string{
		"a": "Standby/spare ", "b": "MachineSet/a m2",
	})
	apply(vms, Schedule(vms, groups(0, "m2"), nil))
	check.Equal(t, "when none is wanted", has(vms), map[string]string{"b": "MachineSet/a m2"})
}

// TestScheduleKeepsItsRules simulates several clusters on inventories of all kinds. Machines come and go, and VMs
// appear, disappear and are released.
func TestScheduleKeepsItsRules(t *testing.T) {
	for seed := range uint64(300) {
		life := newLife(seed)
		for step := range 40 {
			life.happen()
			before := life.copyOf()
			plan := Schedule(life.vms, life.groups, life.clusters)
			life.apply(plan)

			if problem := life.broken(before, plan); problem != "" {
				t.Fatalf("seed %d, step %d: %s", seed, step, problem)
			}

			if again := Schedule(life.vms, life.groups, life.clusters); len(again.Changes) > 0 {
				t.Fatalf("seed %d, step %d: a second look changes %v", seed, step, again.Changes)
			}
		}
	}
}

// life is an inventory with the clusters that use it.
type life struct {
	random   *rand.Rand
	vms      []VM
	groups   []Group
	clusters map[string]bool
	named    int
}

func newLife(seed uint64) *life {
	l := &life{random: rand.New(rand.NewPCG(seed, 1)), clusters: map[string]bool{}}
	for range l.random.IntN(12) {
		l.addVM()
	}

	for i := range 1 + l.random.IntN(3) {
		cluster := fmt.Sprintf("c%d", i)
		l.clusters[cluster] = true

		for _, role := range []string{infrav1.RoleControlPlane, infrav1.RoleWorker} {
			selector := labels.Everything()
			if l.random.IntN(2) == 0 {
				selector = labels.SelectorFromSet(labels.Set{flavor: "small"})
			}

			group := Group{
				Cluster: cluster, Role: role, Name: role, Selector: selector,
				TopologyKey: []string{"", server, rack}[l.random.IntN(3)],
			}
			l.groups = append(l.groups, group)

			group.Name, group.Standby, group.Replicas = "Standby/"+role, true, l.random.IntN(3)
			l.groups = append(l.groups, group)
		}
	}

	return l
}

func (l *life) addVM() {
	l.named++
	vm := VM{Name: fmt.Sprintf("vm-%d", l.random.IntN(1000)*1000+l.named), Labels: map[string]string{
		flavor: []string{"small", "large"}[l.random.IntN(2)],
		rack:   fmt.Sprintf("r%d", l.random.IntN(2)),
	}}
	if l.random.IntN(4) > 0 {
		vm.Labels[server] = fmt.Sprintf("s%d", l.random.IntN(4))
	}

	l.vms = append(l.vms, vm)
}

// happen simulates one external event.
func (l *life) happen() {
	group := &l.groups[l.random.IntN(len(l.groups))]

	switch l.random.IntN(7) {
	case 0:
		l.addVM()
	case 1:
		group.Replicas = l.random.IntN(4)
	case 2: // a machine is created
		if len(group.Machines) <= group.Replicas && !group.Standby {
			l.named++
			group.Machines = append(group.Machines, fmt.Sprintf("m%d", l.named))
		}

	case 3: // the deletion of a machine begins and releases its VM
		if len(group.Machines) > 0 {
			gone := group.Machines[0]
			group.Machines = slices.Clone(group.Machines[1:])

			for i, vm := range l.vms {
				if vm.Claim != nil && vm.Claim.MachineName == gone {
					l.vms[i].Claim = vm.Claim.DeepCopy()
					l.vms[i].Claim.Released = true
				}
			}
		}

	case 4: // released VMs are clean
		for i, vm := range l.vms {
			if vm.Claim != nil && vm.Claim.Released {
				l.vms[i].Claim = nil
			}
		}

	case 5: // a cluster is paused or resumed
		l.clusters[group.Cluster] = !l.clusters[group.Cluster]
	case 6:
		if len(l.vms) > 0 {
			vm := &l.vms[l.random.IntN(len(l.vms))]
			vm.Unfit = []string{"", "PoweredOn"}[l.random.IntN(2)]
		}
	}
}

func (l *life) copyOf() map[string]VM {
	out := map[string]VM{}
	for _, vm := range l.vms {
		out[vm.Name] = vm
	}

	return out
}

func (l *life) apply(plan Plan) {
	for _, change := range plan.Changes {
		at := slices.IndexFunc(l.vms, func(vm VM) bool { return vm.Name == change.VM })
		l.vms[at].Claim = change.Claim
	}
}

// broken returns the rule that a plan breaks, or "".
func (l *life) broken(before map[string]VM, plan Plan) string {
	for _, change := range plan.Changes {
		old := before[change.VM]
		switch {
		case old.Claim != nil && old.Claim.MachineName != "":
			return change.VM + " had a machine, and was changed"
		case old.Claim == nil && old.Unfit != "":
			return change.VM + " cannot be claimed, and was"
		}
	}

	machines := map[string]string{}
	values := map[string]string{}

	for _, vm := range l.vms {
		claim := vm.Claim
		if claim == nil {
			continue
		}

		if other := machines[claim.MachineName]; claim.MachineName != "" && other != "" {
			return fmt.Sprintf("%s and %s are of the same machine %s", other, vm.Name, claim.MachineName)
		}

		machines[claim.MachineName] = vm.Name
		group := l.groups[slices.IndexFunc(l.groups, func(g Group) bool {
			return g.Cluster == claim.ClusterName && g.Name == claim.Group
		})]
		if before[vm.Name].Claim == nil && !group.Selector.Matches(labels.Set(vm.Labels)) {
			return vm.Name + " is not selected by its group"
		}

		value := strings.Join([]string{claim.ClusterName, claim.Role, vm.Labels[group.TopologyKey]}, " ")
		if other := values[value]; group.TopologyKey != "" && vm.Labels[group.TopologyKey] != "" && other != "" {
			return fmt.Sprintf("%s and %s have the same place: %s", other, vm.Name, value)
		}

		if group.TopologyKey != "" {
			values[value] = vm.Name
		}
	}

	return l.partly(before, plan)
}

// partly returns a group that has only some of the VMs it needs, or "".
func (l *life) partly(before map[string]VM, plan Plan) string {
	fresh := map[[2]string]int{}

	for _, change := range plan.Changes {
		if change.Claim != nil && before[change.VM].Claim == nil {
			fresh[[2]string{change.Claim.ClusterName, change.Claim.Group}]++
		}
	}

	for _, group := range l.groups {
		if group.Standby { // it gets as many VMs as are available
			continue
		}

		held := 0

		for _, vm := range l.vms {
			if c := vm.Claim; c != nil && !c.Released && c.ClusterName == group.Cluster && c.Group == group.Name {
				held++
			}
		}

		if fresh[group.key()] > 0 && held < group.wantedCount() {
			return fmt.Sprintf(
				"%v got %d VMs, and has %d of %d", group.key(), fresh[group.key()], held, group.wantedCount(),
			)
		}
	}

	return ""
}

// TestScheduleDoesNotDependOnTheOrderOfTheVMs shuffles the VMs.
func TestScheduleDoesNotDependOnTheOrderOfTheVMs(t *testing.T) {
	vms := pool("a cp s1 r1", "b cp s2 r2", "c cp s3 r3", "d worker s1 r1", "e worker s2 r2", "f worker s2 r2")
	want := claims(Schedule(vms, roles(3, 2, server), nil))

	for seed := range uint64(50) {
		shuffled := slices.Clone(vms)
		rand.New(rand.NewPCG(seed, 2)).Shuffle(len(shuffled), func(i, j int) {
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		})
		got := claims(Schedule(shuffled, roles(3, 2, server), nil))
		if !maps.Equal(got, want) {
			t.Fatal(cmp.Diff(want, got))
		}
	}
}
