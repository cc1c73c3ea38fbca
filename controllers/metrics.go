package controllers

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

var (
	runsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capolvm_terraform_runs_total", Help: "Terraform runs that ended, by operation and result.",
	}, []string{"operation", "result"})
	runSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "capolvm_terraform_run_seconds", Help: "Duration of Terraform runs in seconds.",
		Buckets: []float64{.25, .5, 1, 2, 5, 10, 30, 60, 120, 300, 900},
	}, []string{"operation"})
	jobs = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capolvm_terraform_jobs", Help: "Terraform runs that are queued and running.",
	}, []string{"phase"})
)

func init() { metrics.Registry.MustRegister(runsTotal, runSeconds, jobs) }

func observeRun(status terraform.Status, result string) {
	runsTotal.WithLabelValues(string(status.Operation), result).Inc()
	if !status.Started.IsZero() {
		runSeconds.WithLabelValues(string(status.Operation)).Observe(status.Ended.Sub(status.Started).Seconds())
	}
}

func observeJobs(runner *terraform.Runner) {
	queued, running := runner.Active()
	jobs.WithLabelValues("queued").Set(float64(queued))
	jobs.WithLabelValues("running").Set(float64(running))
}

// backoff is the pause after the n-th failure in a row: 5 s, doubling, at most 5 min. It never overflows.
func backoff(failures int) time.Duration {
	const first, most = 5 * time.Second, 5 * time.Minute
	return min(first<<min(max(failures-1, 0), 10), most)
}
