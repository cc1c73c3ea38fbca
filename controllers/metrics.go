package controllers

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/delivery"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

var (
	runsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capolvm_terraform_runs_total", Help: "Terraform runs that ended, by operation and result.",
	}, []string{"operation", "result"})
	runSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "capolvm_terraform_run_seconds",
		Help:    "Duration of Terraform runs in seconds, with what the manager does before and after them.",
		Buckets: []float64{.25, .5, 1, 2, 5, 10, 30, 60, 120, 300, 900},
	}, []string{"operation", "result"})
	jobs = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capolvm_terraform_jobs", Help: "Terraform runs that are queued and running.",
	}, []string{"phase"})
	jobsMost = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "capolvm_terraform_jobs_limit",
		Help: "How many Terraform runs go at once at most: --terraform-concurrency.",
	})
	provisionedSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "capolvm_machine_provisioned_seconds",
		Help:    "Seconds from the creation of an OLVMMachine until its VM is up and its addresses are known.",
		Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 180, 300, 600, 1200, 3600},
	})
	driftTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capolvm_drift_total",
		Help: "Changes made in the engine behind the manager's back: vm (it was deleted, and is not made again), " +
			"affinity_group (deleted or changed), affinity_group_member (a VM was taken out).",
	}, []string{"kind"})
)

// The kinds of drift.
const (
	driftVM     = "vm"
	driftGroup  = "affinity_group"
	driftMember = "affinity_group_member"
)

func init() {
	metrics.Registry.MustRegister(runsTotal, runSeconds, jobs, jobsMost, provisionedSeconds, driftTotal)
	metrics.Registry.MustRegister(terraform.Collectors()...)
	metrics.Registry.MustRegister(engine.Collectors()...)
	metrics.Registry.MustRegister(delivery.Collectors()...)

	for _, kind := range []string{driftVM, driftGroup, driftMember} {
		driftTotal.WithLabelValues(kind) // a counter that is not there cannot increase
	}
}

func observeRun(status terraform.Status, result string) {
	runsTotal.WithLabelValues(string(status.Operation), result).Inc()
	if !status.Started.IsZero() {
		runSeconds.WithLabelValues(string(status.Operation), result).Observe(status.Ended.Sub(status.Started).Seconds())
	}
}

// observeMachine counts what became of a machine in a pass; provisioned and before are from before it. A machine that
// has a node already came from another management cluster, and did not just get its VM.
func observeMachine(scope *machineScope, provisioned bool, before []metav1.Condition) {
	m := scope.olvmMachine
	if !m.DeletionTimestamp.IsZero() {
		return
	}

	if !provisioned && ptr.Deref(m.Status.Initialization.Provisioned,
		false) && !scope.machine.Status.NodeRef.IsDefined() {
		provisionedSeconds.Observe(time.Since(m.CreationTimestamp.Time).Seconds())
	}

	lost := func(list []metav1.Condition) bool {
		c := meta.FindStatusCondition(list, infrav1.VirtualMachineRunningCondition)
		return c != nil && c.Reason == infrav1.VirtualMachineNotFoundReason
	}
	if lost(m.Status.Conditions) && !lost(before) {
		driftTotal.WithLabelValues(driftVM).Inc()
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
