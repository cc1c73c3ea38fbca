package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// fleet is the cost of a manager with many idle machines in many clusters on several engines. A manager created one of
// these machines. The others are copies of it, including their objects in the API server and in the engine. To create
// all of them would take longer than all other measurements.
type fleet struct {
	Machines int `json:"machines"`
	Clusters int `json:"clusters"`
	Engines  int `json:"engines"`
	// Others is the number of foreign VMs on the first engine.
	Others int `json:"othersVMs"`
	// Minutes is the duration of the measurement.
	Minutes float64 `json:"minutes"`
	// ReadySeconds is the time from the manager's start until the manager is ready. LookedSeconds is the time from the
	// start until the manager has reconciled each machine.
	ReadySeconds  float64 `json:"readySeconds"`
	LookedSeconds float64 `json:"lookedSeconds"`
	// Runs is the number of Terraform runs since the start.
	Runs int `json:"terraformRuns"`
	// Core is the CPU time as a share of one core.
	Core float64 `json:"core"`
	// CallsPerMinute and KiBPerMinute are values for each engine.
	CallsPerMinute []float64 `json:"engineCallsPerMinute"`
	KiBPerMinute   []float64 `json:"engineKibPerMinute"`
	// PassesPerMinute is the number of reconciliations of machines per minute.
	PassesPerMinute float64 `json:"passesPerMinute"`
	// KiBPerMachine is the memory that exceeds that of a manager without machines, per machine.
	BaseMiB       float64 `json:"baseMiB"`
	MiB           float64 `json:"MiB"`
	KiBPerMachine float64 `json:"kibPerMachine"`
}

func (f *fleet) String() string {
	return fmt.Sprintf(
		"%d machines in %d clusters on %d engines, %d VMs of others on the first, for %.1f minutes: ready "+
			"after %.1f s, all looked at after %.1f s, %d runs, %.2f %% of a core, %.0f MiB (%.0f without machines: %.1f KiB "+
			"each), engine calls a minute %.1f, KiB a minute %.0f, %.0f passes a minute",
		f.Machines,
		f.Clusters,
		f.Engines,
		f.Others,
		f.Minutes,
		f.ReadySeconds,
		f.LookedSeconds,
		f.Runs,
		f.Core*100,
		f.MiB,
		f.BaseMiB,
		f.KiBPerMachine,
		f.CallsPerMinute,
		f.KiBPerMinute,
		f.PassesPerMinute,
	)
}

// judge compares a fleet with its targets.
func (f *fleet) judge(promise func(name string, got, most float64)) {
	of := fmt.Sprintf(", %d machines in %d clusters on %d engines", f.Machines, f.Clusters, f.Engines)
	promise("Terraform runs"+of, float64(f.Runs), 0)
	promise("passes per minute"+of, f.PassesPerMinute, 1)
	promise("share of a core"+of, f.Core, 0.05)
	promise("KiB of memory per machine over the base"+of, f.KiBPerMachine, 30)
	promise("seconds from a restart until every machine was looked at"+of, f.LookedSeconds, 30)

	// Each OLVMCluster also reads the hosts of its engine.
	perEngine := kibPerMinute(f.Machines/f.Engines) + 10*float64(f.Clusters)/float64(f.Engines)
	promise("KiB per minute from an engine"+of, slices.Max(f.KiBPerMinute), perEngine)
	if f.Others > 0 && f.Engines > 1 {
		promise(fmt.Sprintf("times the KiB per minute from an engine with %d VMs of others", f.Others),
			f.KiBPerMinute[0]/slices.Max(f.KiBPerMinute[1:]), 1.25)
	}
}

// standing measures a manager whose machines are idle.
func standing(t *testing.T, machines, clusters, engines, others int, long time.Duration) *fleet {
	t.Helper()
	out := &fleet{
		Machines: machines, Clusters: clusters, Engines: engines, Others: others, Minutes: long.Minutes(),
	}
	// Drift checks are off. They are runs with a known cost, and each machine has one a day.
	s := newStage(t, append(profiling(), "--drift-interval=0")...)
	defer func() { s.manager.Process.Stop(time.Minute) }()
	time.Sleep(30 * time.Second) // until the manager has settled
	out.BaseMiB = memoryOf(s.manager.Process.PID())

	specimen := makeSpecimen(t, s)
	s.manager.Process.Stop(time.Minute)
	begin := time.Now()
	h := newHerd(t, specimen, machines, clusters, engines)
	h.startEngines(t, others)
	h.each(t, h.connect)
	t.Logf("%d machines are prepared after %.0f s", machines, time.Since(begin).Seconds())

	h.restart(t, out)
	h.stand(t, out, long)

	return out
}

// restart restarts the manager, and waits until the manager has reconciled each machine.
func (h *herd) restart(t *testing.T, out *fleet) {
	t.Helper()
	s := h.specimen.stage
	begin := time.Now()
	if err := s.manager.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	out.ReadySeconds = time.Since(begin).Seconds()
	profiled := takeProfile(t, "profile?seconds=40", "herd-restart.pprof")
	defer profiled()
	logged := begin

	for deadline := time.Now().Add(wait.Limit); s.looks(t) < float64(out.Machines); {
		if time.Now().After(deadline) {
			t.Fatalf("%.0f looks at %d machines", s.looks(t), out.Machines)
		}

		time.Sleep(100 * time.Millisecond)
		if *profile != "" && time.Since(logged) > 2*time.Second {
			logged = time.Now()
			t.Logf("%.0f looks after %.1f s, %.1f s of CPU time", s.looks(t), time.Since(begin).Seconds(),
				cpuOf(s.manager.Process.PID()).self)
		}
	}

	out.LookedSeconds = time.Since(begin).Seconds()
	if *profile != "" {
		t.Log(testsite.SeriesValues(s.manager.ScrapeMetrics(t)["rest_client_requests_total"]))
	}

	if h.expectUntouched(
		t,
	); s.runs(t) > 0 ||
		testsite.SumSeries(s.manager.ScrapeMetrics(t)["capolvm_terraform_jobs"]) > 0 {
		t.Fatal("copies of machines are not taken for machines that are made")
	}

	time.Sleep(time.Minute) // until the start is over, including its garbage collection
}

// stand measures the cost of the machines while nothing changes.
func (h *herd) stand(t *testing.T, out *fleet, long time.Duration) {
	t.Helper()
	s := h.specimen.stage
	pid := s.manager.Process.PID()
	takeProfile(t, "heap", "heap-herd.pprof")()

	before := cpuOf(pid)

	var calls, sent []int64
	for _, e := range h.engines {
		calls, sent = append(calls, e.calls.Load()), append(sent, e.sent.Load())
		e.forget()
	}

	profiled := takeProfile(t, "profile?seconds=30", "herd.pprof")
	looks := s.looks(t)
	time.Sleep(long)
	profiled()

	out.Core = cpuOf(pid).minus(before).self / long.Seconds()
	for i, e := range h.engines {
		out.CallsPerMinute = append(out.CallsPerMinute, float64(e.calls.Load()-calls[i])/long.Minutes())
		out.KiBPerMinute = append(out.KiBPerMinute, float64(e.sent.Load()-sent[i])/1024/long.Minutes())
		e.log(t)
	}

	out.PassesPerMinute = (s.looks(t) - looks) / long.Minutes()
	out.Runs = s.runs(t)
	out.MiB = memoryOf(pid)
	out.KiBPerMachine = (out.MiB - out.BaseMiB) * 1024 / float64(out.Machines)
	if *profile != "" {
		for name, family := range s.manager.ScrapeMetrics(t) {
			if strings.HasPrefix(name, "go_mem") || name == "go_goroutines" {
				t.Logf("%s %.3g", name, testsite.SumSeries(family))
			}
		}
	}

	h.expectUntouched(t)
}

// expectUntouched fails if the manager has written a machine, because every machine was already in its desired state.
func (h *herd) expectUntouched(t *testing.T) {
	t.Helper()
	var machines infrav1.OLVMMachineList
	if err := h.client.List(t.Context(), &machines); err != nil {
		t.Fatal(err)
	}

	now := map[string]*infrav1.OLVMMachine{}
	for i := range machines.Items {
		now[machines.Items[i].Namespace+"/"+machines.Items[i].Name] = &machines.Items[i]
	}

	written, change := 0, ""

	for _, c := range h.clusters {
		for _, m := range c.machines {
			after := now[c.namespace+"/"+m.name]
			if after.ResourceVersion == m.olvm.ResourceVersion {
				continue
			}

			written++
			change = gocmp.Diff(m.olvm.Status, after.Status)
		}
	}

	if written > 0 {
		t.Fatalf("the manager has written %d machines that want nothing, one of them so:\n%s", written, change)
	}
}
