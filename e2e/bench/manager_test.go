package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

const (
	ours       = "manager"
	nativeLoop = "native loop"
	forkPerRun = "fork per run"
)

// boots is the boot time of the simulator's VMs.
const boots = 60 * time.Millisecond

// stage is a site with a manager. It records the times of events for each machine.
type stage struct {
	site    *testsite.Site
	manager *testsite.Manager
	calls   atomic.Int64 // to the engine
	// created, requested, provisioned and gone hold times by the name of the machine. started holds times by the ID of
	// the VM.
	created, requested, provisioned, gone times
	started                               times
}

var vmName = regexp.MustCompile(`<name>([^<]+)</name>`)

// gate records the times of requests that create and start VMs.
func (s *stage) gate(engine http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/api/vms") {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if match := vmName.FindSubmatch(body); match != nil {
				s.requested.note(string(match[1]))
			}
		}

		engine.ServeHTTP(w, r)
		parts := strings.Split(r.URL.Path, "/")
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/start") {
			s.started.noteAt(parts[len(parts)-2], time.Now().Add(boots))
		}
	})
}

// spacious returns the simulator's inventory with hosts that have enough room for all machines.
func spacious() ovirtsim.Inventory {
	inventory := ovirtsim.DefaultInventory()
	for i := range inventory.DataCenters {
		for j := range inventory.DataCenters[i].Clusters {
			for k := range inventory.DataCenters[i].Clusters[j].Hosts {
				inventory.DataCenters[i].Clusters[j].Hosts[k].Memory = 64 << 40
			}
		}

		for j := range inventory.DataCenters[i].StorageDomains {
			inventory.DataCenters[i].StorageDomains[j].Size = 1 << 50
		}
	}

	return inventory
}

func newStage(t *testing.T, args ...string) *stage {
	t.Helper()
	return newStageOf(t, spacious(), args...)
}

// newStageOf is like newStage, but the engine has another inventory.
func newStageOf(t *testing.T, inventory ovirtsim.Inventory, args ...string) *stage {
	t.Helper()
	s := &stage{}
	s.site = testsite.New(t, suite.API.Client, testsite.Options{
		Inventory: inventory,
		Gate:      s.gate,
		Change: func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
			c.Spec.AffinityGroups = []infrav1.AffinityGroup{}
		},
	})
	s.manager = suite.Program.NewManager(t, nil, args...)
	if err := s.manager.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	s.site.ExpectCondition(s.site.OLVM, infrav1.ReadyCondition, "True/Ready")
	s.watch(t)

	return s
}

// watch records when machines are provisioned and when they are gone.
func (s *stage) watch(t *testing.T) {
	t.Helper()
	watching, err := client.NewWithWatch(suite.API.Config, client.Options{Scheme: suite.API.Scheme})
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	var list infrav1.OLVMMachineList
	stream, err := watching.Watch(ctx, &list, client.InNamespace(s.site.Namespace))
	if err != nil {
		t.Fatal(err)
	}

	go func() {
		for event := range stream.ResultChan() {
			m, ok := event.Object.(*infrav1.OLVMMachine)
			if ok && event.Type == watch.Deleted {
				s.gone.note(m.Name)
			} else if ok && ptr.Deref(m.Status.Initialization.Provisioned, false) {
				s.provisioned.note(m.Name)
			}
		}
	}()
}

// bySubnet gives the machines a subnet with enough addresses for all of them.
func bySubnet(spec *infrav1.OLVMMachineSpec) {
	ipv4 := spec.VirtualMachine.Network.IPv4
	ipv4.Subnet, ipv4.IPAddresses = "10.16.0.0/16", []string{"10.16.1.0-10.16.9.255"}
}

// ask creates several machines at the same time.
func (s *stage) ask(from, to int) []*infrav1.OLVMMachine {
	out := make([]*infrav1.OLVMMachine, to-from)
	var group sync.WaitGroup
	slots := make(chan struct{}, 4)

	for i := range out {
		group.Add(1)
		slots <- struct{}{}
		go func() {
			defer group.Done()
			defer func() { <-slots }()
			name := fmt.Sprintf("m%d", from+i)
			out[i] = s.site.CreateMachine(name, bySubnet)
			s.created.note(name)
		}()
	}

	group.Wait()

	return out
}

// await waits until an event has occurred for n machines.
func await(t *testing.T, what string, m *times, n int) {
	t.Helper()

	for deadline := time.Now().Add(wait.Limit); m.len() < n; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d machines are %s", m.len(), n, what)
		}

		time.Sleep(5 * time.Millisecond)
	}
}

func (s *stage) pids() []int {
	return slices.Concat(s.manager.ListExecutors(), s.manager.ListProviders(), []int{s.manager.Process.PID()})
}

// up returns the times at which the VMs of the machines have booted.
func (s *stage) up() *times {
	out := &times{}

	names := map[string]string{}
	for _, vm := range s.site.Sim.ListVMs() {
		names[vm.ID] = vm.Name
	}

	s.started.mu.Lock()
	defer s.started.mu.Unlock()

	for id, at := range s.started.at {
		out.noteAt(names[id], at)
	}

	return out
}

// manager measures our manager while it creates and deletes machines.
func manager(t *testing.T, n int) round {
	t.Helper()
	s := newStage(t, profiling()...)
	defer s.manager.Process.Stop(time.Minute)
	time.Sleep(2 * time.Second) // until the effects of the start are over
	out := round{Contender: ours, Machines: n, BaseMiB: memoryOf(s.manager.Process.PID())}
	memory := watchMemory(s.pids)
	profiled := takeProfile(t, "profile?seconds=15", fmt.Sprintf("manager-%d.pprof", n))
	passes, calls := s.passesAndCalls(t)
	begin, before := time.Now(), cpuOfManager(s.manager.Process.PID())
	machines := s.ask(0, n)
	await(t, "provisioned", &s.provisioned, n)
	took := time.Since(begin)
	s.quiet(t)
	out.Create = newEffort(n, took, cpuOfManager(s.manager.Process.PID()).minus(before))
	profiled()
	out.Passes, out.APICalls = s.passesAndCalls(t)
	out.Passes, out.APICalls = (out.Passes-passes)/float64(n), (out.APICalls-calls)/float64(n)
	out.Requested, out.Provisioned = newSpread(s.requested.since(&s.created)), newSpread(s.provisioned.since(s.up()))
	if vms := s.site.Sim.Summarize().VMs; vms != n {
		t.Errorf("the engine has %d VMs, not %d", vms, n)
	}

	begin, before = time.Now(), cpuOfManager(s.manager.Process.PID())
	for _, m := range machines {
		s.site.Delete(m)
	}

	await(t, "gone", &s.gone, n)
	out.Delete = newEffort(n, time.Since(begin), cpuOfManager(s.manager.Process.PID()).minus(before))
	out.PeakMiB = memory.end()
	if vms := s.site.Sim.Summarize().VMs; vms != 0 {
		t.Errorf("the engine has %d VMs", vms)
	}

	return out
}

// quiet waits until no run is active or queued, because the last machine is provisioned shortly before its run ends.
func (s *stage) quiet(t *testing.T) {
	t.Helper()

	wait.Until(t, "all runs have ended", func() bool {
		return testsite.SumSeries(s.manager.ScrapeMetrics(t)["capolvm_terraform_jobs"]) == 0 &&
			len(s.manager.ListExecutors()) == 0
	})
}

// passesAndCalls returns the number of reconciliations of OLVMMachines, and of the manager's calls to the API server.
func (s *stage) passesAndCalls(t *testing.T) (passes, calls float64) {
	t.Helper()
	families := s.manager.ScrapeMetrics(t)

	return testsite.SumSeries(families["controller_runtime_reconcile_total"],
		`controller="olvmmachine"`), testsite.SumSeries(families["rest_client_requests_total"])
}

// runs returns the number of finished Terraform runs. It does not count drift checks, because each machine has one a
// day.
func (s *stage) runs(t *testing.T) int {
	t.Helper()
	family := s.manager.ScrapeMetrics(t)["capolvm_terraform_runs_total"]

	return int(testsite.SumSeries(family) - testsite.SumSeries(family, `operation="Check"`))
}
