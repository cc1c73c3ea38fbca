package reliability

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// full requests a machine that needs every kind of call. It has claimed and static addresses, two network interfaces, a
// larger root disk, a data disk and a tag.
func full(spec *infrav1.OLVMMachineSpec) {
	spec.VirtualMachine.Network.AddressesFromPools = []ipamv1.IPPoolReference{
		{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "pool"},
	}
	spec.VirtualMachine.Network.IPv4 = nil
	spec.AdditionalNetworks = []infrav1.AdditionalNetwork{{
		OLVMNetwork: infrav1.OLVMNetwork{NetworkName: "ovirtmgmt", VNICProfileName: "ovirtmgmt", VNICName: "storage"},
		Guest: &infrav1.AdditionalGuestNetwork{Interface: "enp2s0", Addressing: infrav1.Addressing{
			IPv4: &infrav1.IPv4Network{Subnet: "10.8.0.0/24", IPAddresses: []string{"10.8.0.10-10.8.0.19"}},
		}},
	}}
	spec.VirtualMachine.RootDisk = &infrav1.RootDisk{Size: "25GB"}
	spec.VirtualMachine.DataDisks = []infrav1.DataDisk{{Name: "etcd", Size: "1GB"}}
}

// withoutGroups removes the affinity groups, so that machines share nothing.
func withoutGroups(c *infrav1.OLVMCluster) { c.Spec.AffinityGroups = []infrav1.AffinityGroup{} }

// life creates a machine and deletes it. After each step, it verifies that exactly the expected objects exist.
func (b *bench) life(t *testing.T, name string) {
	t.Helper()
	s := b.site.ForSubtest(t)
	m := s.CreateMachine(name, full)
	b.end(s, m)
}

// end completes the life of a machine, and checks each stage of it.
func (b *bench) end(s *testsite.Site, m *infrav1.OLVMMachine) {
	s.T.Helper()
	b.expectReady(s, m)
	b.expectOne(s, m)
	s.Delete(m)
	s.ExpectGone(m)
	b.expectNone(s)
}

// expectReady waits until the machine is provisioned and clusterctl may move it. If the manager is not running, the
// machine's last run may have ended without a record.
func (b *bench) expectReady(s *testsite.Site, m *infrav1.OLVMMachine) {
	s.T.Helper()
	s.ExpectCondition(m, infrav1.ReadyCondition, "True/Ready")
	s.Eventually("the machine is provisioned and may be moved", func() error { // the conditions are written first
		if err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}

		if !ptr.Deref(m.Status.Initialization.Provisioned, false) {
			return errors.New("it is not")
		}

		if _, blocked := m.Annotations[clusterctlv1.BlockMoveAnnotation]; blocked {
			return errors.New("it blocks clusterctl move")
		}

		return nil
	})
}

// expectOne checks the only VM of a machine, and everything that belongs to it.
func (b *bench) expectOne(s *testsite.Site, m *infrav1.OLVMMachine) {
	s.T.Helper()
	vms := s.Sim.ListVMs()
	if len(vms) != 1 || vms[0].Name != m.Name || m.Spec.ProviderID != "olvm://"+vms[0].ID || vms[0].Status != "up" {
		s.T.Fatalf("machine %s with %s, the engine has %+v", m.Name, m.Spec.ProviderID, vms)
	}

	if got := s.Sim.Summarize(); got.NICs != 2 || got.Disks != 2 {
		s.T.Errorf("the engine has %+v", got)
	}

	store := &tfstate.Store{Client: s.Client, Reader: s.Client}
	state, err := store.Load(context.Background(), m)
	if err != nil {
		s.T.Error(err)
	} else if state.ResourceID("ovirt_vm") != vms[0].ID || state.AppliedDigest == "" ||
		len(state.Instances("ovirt_nic")) != 2 {
		s.T.Errorf("the state knows VM %q and %d network interfaces, and was applied as %q",
			state.ResourceID("ovirt_vm"), len(state.Instances("ovirt_nic")), state.AppliedDigest)
	}

	var claims ipamv1.IPAddressClaimList
	err = s.Client.List(context.Background(), &claims, client.InNamespace(s.Namespace))
	if err != nil || len(claims.Items) != 1 {
		s.T.Errorf("%d claims, %v", len(claims.Items), err)
	} else if record := m.Annotations[infrav1.AddressesAnnotation]; m.Status.OLVM.IPAddress == "" ||
		!strings.Contains(record, `"`+m.Status.OLVM.IPAddress+`"`) || !strings.Contains(record, `"10.8.0.1`) {
		s.T.Errorf("address %s, record %s", m.Status.OLVM.IPAddress, record)
	}
}

// expectNone verifies that nothing is left in the engine, in the API server, on disk and among the processes.
func (b *bench) expectNone(s *testsite.Site) {
	s.T.Helper()
	s.ExpectEmptyEngine()
	if left := s.ListStates(); len(left) != 0 {
		s.T.Errorf("left of states: %d", len(left))
	}

	var claims ipamv1.IPAddressClaimList
	err := s.Client.List(context.Background(), &claims, client.InNamespace(s.Namespace))
	if err != nil || len(claims.Items) != 0 {
		s.T.Errorf("left of claims: %d, %v", len(claims.Items), err)
	}

	left, err := filepath.Glob(filepath.Join(b.WorkDir(), s.Namespace, "*"))
	if gone := s.Client.Get(context.Background(), client.ObjectKeyFromObject(s.OLVM), &infrav1.OLVMCluster{}); gone == nil {
		left = slices.DeleteFunc(left, func(path string) bool { // this file belongs to the cluster and stays with it
			return strings.HasPrefix(filepath.Base(path), "olvmcluster.")
		})
	}

	if err != nil || len(left) != 0 {
		s.T.Errorf("left on disk: %v, %v", left, err)
	}

	s.Eventually("no process is left", func() error { // a manager that has just started asks for the executor's version
		if left := b.ListExecutors(); len(left) != 0 {
			return fmt.Errorf("there are %v", left)
		}

		return nil
	})
}

// fault is the way in which a call is interrupted.
type fault string

const (
	killManager  fault = "kill the manager"
	killExecutor fault = "kill Terraform"
	killProvider fault = "kill the provider"
	cutCall      fault = "cut the connection"
)

// point is one case of the matrix.
type point struct {
	gate  string // "engine" or "api"
	at    call
	after bool
	fault fault
}

func (p point) String() string {
	when := map[bool]string{false: "before", true: "after"}[p.after]
	return fmt.Sprintf("%s %s %s %s", p.fault, when, p.gate, p.at)
}

// points returns the cases for the calls in a life without faults. Each modifying call results in two cases: before and
// after its effect. Each other call to the engine results in one case, because a read has no effect, and later reads of
// a kind are similar to the first. In short mode, it returns only a sample.
func points(b *bench, of func(call) bool) []point {
	var out []point

	for name, g := range b.gates() {
		for _, c := range g.seen() {
			read := strings.HasPrefix(c.name, "GET ")
			if !of(c) || read && c.nth > 1 || strings.HasSuffix(c.name, "/status") && c.nth > 2 {
				continue // the number of status writes depends on timing
			}

			for _, f := range []fault{killManager, killExecutor, killProvider, cutCall} {
				switch {
				case (f == killExecutor || f == killProvider) && !g.probed[c]: // no such process runs
				case f == killProvider && (name != "engine" || read): // the provider calls only the engine
				case read:
					out = append(out, point{name, c, false, f})
				default:
					out = append(out, point{name, c, false, f}, point{name, c, true, f})
				}
			}
		}
	}

	if testing.Short() {
		return sample(out)
	}

	return out
}

// sample returns one case for each kind of call. It always selects the first call of the kind, and changes the fault
// from kind to kind. All reads of one server are one kind. They change nothing, and a manager killed at a read leaves
// only its earlier work.
func sample(cases []point) []point {
	kinds := map[string][]point{}

	for _, p := range cases {
		kind := p.gate + p.at.name
		if strings.HasPrefix(p.at.name, "GET ") {
			kind = p.gate + "GET"
		}

		if p.at.nth == 1 {
			kinds[kind] = append(kinds[kind], p)
		}
	}

	var out []point

	for i, kind := range slices.Sorted(maps.Keys(kinds)) {
		slices.SortFunc(kinds[kind], func(a, b point) int { return cmp.Compare(a.String(), b.String()) })
		out = append(out, kinds[kind][i%len(kinds[kind])])
	}

	return out
}

func (b *bench) gates() map[string]*gate { return map[string]*gate{"engine": b.engine, "api": b.api} }

// try runs one case, which is a life with a fault. The numbers of some calls depend on timing: state writes, status
// writes, and calls repeated because the engine was busy. If a life had too few of these calls, try repeats the case
// with one call fewer.
func (b *bench) try(t *testing.T, name string, p point) {
	t.Helper()

	for {
		cold := strings.HasPrefix(p.at.name, "GET ") || strings.Contains(p.at.name, "/sso/")
		if cold { // a running manager does not read again what it knows
			b.Process.Kill()
			if err := b.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}

		sprung := b.during(t, p, func() { b.live(t, fmt.Sprintf("%s-%d", name, p.at.nth)) })
		if sprung || t.Failed() {
			return
		}

		if p.at.nth == 1 {
			t.Fatalf("the machine's life had no %s", p.at)
		}

		p.at.nth--
	}
}

// during injects the fault into a life, and reports whether the life has reached the fault.
func (b *bench) during(t *testing.T, p point, life func()) (sprung bool) {
	t.Helper()
	hit := &trap{at: p.at, after: p.after, act: func() bool {
		switch p.fault {
		case killManager:
			b.Process.Kill()
			return true
		case killExecutor:
			b.KillExecutors()
			return false
		case killProvider:
			b.KillProviders()
			return false
		}

		return true
	}}

	for _, g := range b.gates() {
		g.set(nil)
	}

	b.gates()[p.gate].set(hit)
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)

		select {
		case <-ended:
			return
		case <-hit.sprung:
			sprung = true
		}

		if p.fault != killManager {
			return
		}

		if err := b.Start(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	defer func() {
		close(ended)
		<-watched
	}()
	life()

	return
}

// TestCrashMatrixOfAMachine interrupts each call in a machine's life, before and after its effect. It kills the
// manager, only Terraform, or only the provider, or cuts the connection.
func TestCrashMatrixOfAMachine(t *testing.T) {
	crashMatrix(t, func(t *testing.T) *bench { return newBench(t, withoutGroups) }, func(c call) bool {
		// the calls for the cluster occur only once
		return !strings.Contains(c.name, "olvmclusters") &&
			!slices.Contains([]string{"PATCH secrets", "PATCH configmaps"}, c.name)
	})
}

// plainLife is the life of a machine whose first run saves its state as applied, so that the manager looks for nothing
// after this run.
func (b *bench) plainLife(t *testing.T, name string) {
	t.Helper()
	s := b.site.ForSubtest(t)
	m := s.CreateMachine(name, nil)
	b.expectReady(s, m)
	if vms := s.Sim.ListVMs(); len(vms) != 1 || m.Spec.ProviderID != "olvm://"+vms[0].ID {
		t.Fatalf("machine %s with %s, the engine has %+v", m.Name, m.Spec.ProviderID, vms)
	}

	s.Delete(m)
	s.ExpectGone(m)
	b.expectNone(s)
}

// TestCrashMatrixOfAPlainMachine kills the manager before and after each time it saves a state.
func TestCrashMatrixOfAPlainMachine(t *testing.T) {
	crashMatrix(t, func(t *testing.T) *bench {
		t.Helper()
		b := newBench(t, withoutGroups)
		b.live = b.plainLife

		return b
	}, func(c call) bool { return c.name == "POST secrets" || c.name == "PUT secrets" })
}

// crashMatrix plays the life of a bench with a fault at each of its calls, on several benches in parallel. The function
// about selects the calls.
func crashMatrix(t *testing.T, newOne func(*testing.T) *bench, about func(call) bool) {
	t.Helper()
	benches := 6
	if testing.Short() { // a bench has its own manager, which costs as much as a case
		benches = 2
	}

	parent := t
	pool := make(chan *bench, benches)
	first := newOne(t)
	probe := func() bool { return len(first.ListExecutors()) > 0 }
	first.engine.probe, first.api.probe = probe, probe

	// A call that only one of two lives contains depends on timing. It may be missing in all later lives.
	common := map[call]int{}

	for _, name := range []string{"dry", "dry-again"} {
		first.Process.Kill() // a running manager does not read again what it knows
		if err := first.Start(t.Context()); err != nil {
			t.Fatal(err)
		}

		first.engine.set(nil)
		first.api.set(nil)
		first.live(t, name)

		for _, g := range first.gates() {
			for _, c := range g.seen() {
				common[c]++
			}
		}
	}

	first.engine.probe, first.api.probe = nil, nil
	cases := points(first, func(c call) bool { return common[c] == 2 && about(c) })
	pool <- first

	for range min(benches, len(cases)) - 1 {
		pool <- newOne(t)
	}

	for i, p := range cases {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			b := <-pool
			defer func() {
				if t.Failed() { // what it has left would also make the next case fail
					b.Process.Kill()
					b = newOne(parent)
				}

				pool <- b
			}()
			b.try(t, fmt.Sprintf("m%d", i), p)
		})
	}
}

// wholeLife is the life of a cluster with one control plane machine in an affinity group.
func (b *bench) wholeLife(t *testing.T) {
	t.Helper()
	s := b.site.ForSubtest(t)
	s.Label = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	m := s.CreateMachine("one", nil)
	b.expectReady(s, m)
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	s.Eventually("the VM is in its group", func() error {
		var groups []ovirtsim.AffinityGroupInfo

		for _, dc := range s.Sim.DescribeSite().DataCenters {
			for _, c := range dc.Clusters {
				groups = append(groups, c.AffinityGroups...)
			}
		}

		if len(groups) != 1 || len(groups[0].VMs) != 1 {
			return fmt.Errorf("the engine has %+v", groups)
		}

		return nil
	})
	s.Delete(m)
	s.ExpectGone(m)
	s.Delete(s.OLVM)
	s.ExpectGone(s.OLVM)
	b.expectNone(s)
	if left := s.ListAllStates(); len(left) != 0 {
		t.Errorf("left of states: %d", len(left))
	}
}

// TestCrashMatrixOfACluster does the same for the objects that the machines of a cluster share.
func TestCrashMatrixOfACluster(t *testing.T) {
	t.Parallel()
	cold := func(t *testing.T) *bench {
		b := newColdBench(t, nil)
		for _, g := range b.gates() {
			g.set(nil)
		}

		return b
	}
	dry := cold(t)
	probe := func() bool { return dry.Process != nil && len(dry.ListExecutors()) > 0 }
	dry.engine.probe, dry.api.probe = probe, probe
	if err := dry.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	dry.wholeLife(t)
	about := func(c call) bool {
		return strings.Contains(c.name, "affinitygroups") && !strings.HasPrefix(c.name, "GET ") ||
			strings.Contains(c.name, "olvmclusters")
	}
	cases := points(dry, about)
	if !testing.Short() && len(cases) < 10 {
		t.Errorf("only %d cases: %v", len(cases), cases)
	}

	for _, p := range cases {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()

			for { // the number of writes depends on timing, as in try
				b := cold(t)
				sprung := b.during(t, p, func() {
					_ = b.Start(context.Background()) // starts the manager again if it was killed before it was ready
					b.wholeLife(t)
				})
				if sprung || t.Failed() || strings.HasSuffix(p.at.name, "/status") {
					return
				}

				if p.at.nth == 1 {
					t.Fatalf("the cluster's life had no %s", p.at)
				}

				p.at.nth--
			}
		})
	}
}
