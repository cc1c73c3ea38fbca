package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// calm is the cost of a manager whose machines are idle.
type calm struct {
	Machines int     `json:"machines"`
	Minutes  float64 `json:"minutes"`
	// Runs is the number of Terraform runs. CallsPerMinute is the number of calls to the engine, and
	// CallsPerMinuteOfOne is this number with one machine. Core is the CPU time as a share of one core.
	Runs                int     `json:"terraformRuns"`
	CallsPerMinute      float64 `json:"engineCallsPerMinute"`
	CallsPerMinuteOfOne float64 `json:"engineCallsPerMinuteOfOneMachine"`
	Core                float64 `json:"core"`
	// KiBPerMinute is the traffic from the engine in KiB per minute.
	KiBPerMinute float64 `json:"engineKibPerMinute"`
	// KiBPerMachine is the memory that exceeds that of a manager without machines, per machine.
	BaseMiB       float64 `json:"baseMiB"`
	MiB           float64 `json:"MiB"`
	KiBPerMachine float64 `json:"kibPerMachine"`
	// ReadySeconds is the time from a restart until the manager is ready. RestartSeconds is the time from a restart
	// until the manager has reconciled every machine.
	ReadySeconds   float64 `json:"readySeconds"`
	RestartSeconds float64 `json:"restartSeconds"`
	RestartRuns    int     `json:"restartTerraformRuns"`
	// RestartKiBPerMachine is KiBPerMachine after a restart, because the restarted manager did not create the machines.
	RestartKiBPerMachine float64 `json:"restartKibPerMachine"`
}

func (c *calm) String() string {
	return fmt.Sprintf(
		"%d machines for %.1f minutes: %d runs, %.1f engine calls a minute (%.1f with one machine) with %.0f KiB, "+
			"%.2f %% of a core, %.0f MiB (%.0f without machines: %.1f KiB each); restart: ready after %.1f s, all looked at "+
			"after %.1f s, %d runs, %.1f KiB each",
		c.Machines,
		c.Minutes,
		c.Runs,
		c.CallsPerMinute,
		c.CallsPerMinuteOfOne,
		c.KiBPerMinute,
		c.Core*100,
		c.MiB, c.BaseMiB, c.KiBPerMachine, c.ReadySeconds, c.RestartSeconds, c.RestartRuns, c.RestartKiBPerMachine,
	)
}

// steadyState creates many machines, leaves them idle, and then restarts the manager.
func steadyState(t *testing.T, n int, long time.Duration) *calm {
	t.Helper()
	// Drift checks are off. They are runs with a known cost, and each machine has one a day.
	s := newStage(t, append(profiling(), "--drift-interval=0")...)
	defer func() { s.manager.Process.Stop(time.Minute) }()
	pid := s.manager.Process.PID()
	out := &calm{Machines: n, Minutes: long.Minutes()}
	window := min(long, 5*time.Minute)
	perMinute := func(of time.Duration) float64 {
		before := s.calls.Load()
		time.Sleep(of)
		return float64(s.calls.Load()-before) / of.Minutes()
	}
	time.Sleep(window) // settled without machines
	out.BaseMiB = memoryOf(pid)
	s.ask(0, 1)
	await(t, "provisioned", &s.provisioned, 1)
	s.quiet(t)
	time.Sleep(5 * time.Second)
	out.CallsPerMinuteOfOne = perMinute(window)
	s.ask(1, n)
	await(t, "provisioned", &s.provisioned, n)
	s.quiet(t)
	time.Sleep(time.Minute) // until the creation is over, including its garbage collection
	takeProfile(t, "heap", "heap-steady.pprof")()
	received := func() float64 {
		return testsite.SumSeries(s.manager.ScrapeMetrics(t)["capolvm_engine_received_bytes_total"]) / 1024
	}
	kib := received()
	requests := testsite.SeriesValues(s.manager.ScrapeMetrics(t)["capolvm_engine_requests_total"])
	runs, before := s.runs(t), cpuOf(pid)
	out.CallsPerMinute = perMinute(long)
	out.Core, out.Runs = cpuOf(pid).minus(before).self/long.Seconds(), s.runs(t)-runs
	out.KiBPerMinute = (received() - kib) / long.Minutes()
	out.MiB = memoryOf(pid)
	out.KiBPerMachine = (out.MiB - out.BaseMiB) * 1024 / float64(n)

	families := s.manager.ScrapeMetrics(t)
	for series, now := range testsite.SeriesValues(families["capolvm_engine_requests_total"]) {
		if n := now - requests[series]; n > 0 {
			t.Logf("%4.0f requests %s", n, series)
		}
	}

	if *profile != "" {
		for name, family := range families {
			if strings.HasPrefix(name, "go_mem") || name == "go_goroutines" {
				t.Logf("%s %.3g", name, testsite.SumSeries(family))
			}
		}
	}

	t.Log(out)
	s.manager.Process.Stop(time.Minute)
	begin := time.Now()
	if err := s.manager.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	out.ReadySeconds = time.Since(begin).Seconds()

	for deadline := time.Now().Add(wait.Limit); s.looks(t) < float64(n); {
		if time.Now().After(deadline) {
			t.Fatalf("%.0f looks at %d machines", s.looks(t), n)
		}

		time.Sleep(50 * time.Millisecond)
	}

	out.RestartSeconds = time.Since(begin).Seconds()
	s.quiet(t)
	time.Sleep(time.Minute) // as above
	out.RestartRuns = s.runs(t)
	out.RestartKiBPerMachine = (memoryOf(s.manager.Process.PID()) - out.BaseMiB) * 1024 / float64(n)
	m := &infrav1.OLVMMachine{ObjectMeta: s.site.NewMeta("m0")}
	s.site.ExpectCondition(m, infrav1.ReadyCondition, "True/Ready")

	return out
}

// looks returns the number of successful reconciliations of machines.
func (s *stage) looks(t *testing.T) float64 {
	t.Helper()
	family := s.manager.ScrapeMetrics(t)["controller_runtime_reconcile_total"]
	machines := `controller="olvmmachine"`

	return testsite.SumSeries(
		family, machines, `result="success"`,
	) + testsite.SumSeries(
		family, machines, `result="requeue_after"`,
	)
}
