package workspace

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

var (
	runsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capolvm_terraform_runs_total", Help: "Finished Terraform runs, by operation and result.",
	}, []string{"operation", "result"})
	runSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "capolvm_terraform_run_seconds",
		Help:    "Duration of Terraform runs in seconds, including the manager's work before and after them.",
		Buckets: []float64{.25, .5, 1, 2, 5, 10, 30, 60, 120, 300, 900},
	}, []string{"operation", "result"})
	jobs = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capolvm_terraform_jobs", Help: "Terraform runs that are queued and running.",
	}, []string{"phase"})
	jobsLimit = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "capolvm_terraform_jobs_limit",
		Help: "Maximum number of simultaneous Terraform runs (--terraform-concurrency).",
	})
	driftTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capolvm_drift_total",
		Help: "Changes in the engine by others: vm (it was deleted, and is not recreated), affinity_group (deleted " +
			"or changed), affinity_group_member (a VM was removed), configuration (a check found settings that " +
			"differ from the applied ones).",
	}, []string{"kind"})
)

// Drifted is a kind of change that a user made in the engine without the manager.
type Drifted string

// The kinds of drift.
const (
	DriftedVM     Drifted = "vm"
	DriftedGroup  Drifted = "affinity_group"
	DriftedMember Drifted = "affinity_group_member"
	// DriftedConfiguration is any other drift. The checks find it, but the manager does not undo it.
	DriftedConfiguration Drifted = "configuration"
)

func init() {
	// A counter without an initial value cannot increase.
	for _, kind := range []Drifted{DriftedVM, DriftedGroup, DriftedMember, DriftedConfiguration} {
		driftTotal.WithLabelValues(string(kind))
	}
}

// CountDrift counts a change made in the engine.
func CountDrift(kind Drifted) { driftTotal.WithLabelValues(string(kind)).Inc() }

// Collectors returns the metrics of this package.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{runsTotal, runSeconds, jobs, jobsLimit, driftTotal}
}

func countRun(run terraform.Status, result string) {
	runsTotal.WithLabelValues(string(run.Operation), result).Inc()
	if !run.Started.IsZero() {
		runSeconds.WithLabelValues(string(run.Operation), result).Observe(run.Ended.Sub(run.Started).Seconds())
	}
}
