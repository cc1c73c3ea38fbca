package terraform

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	phaseSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "capolvm_terraform_phase_seconds",
		Help: "How long the phases of Terraform runs took in seconds: queue (until one of the runs may begin), " +
			"plan, and apply, which is all of a run that makes something new or destroys it.",
		Buckets: []float64{.05, .1, .25, .5, 1, 2, 5, 10, 30, 60, 120, 300, 900},
	}, []string{"operation", "phase", "outcome"})
	processes = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "capolvm_terraform_processes", Help: "Terraform processes that run.",
	})
	stateSaveSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "capolvm_terraform_state_save_seconds",
		Help:    "How long it took to make a state durable, in seconds, by outcome.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, 1, 5, 30},
	}, []string{"outcome"})
)

// These are the outcomes of timed operations.
const (
	outcomeSucceeded   = "succeeded"
	outcomeFailed      = "failed"
	outcomeInterrupted = "interrupted"
)

func init() {
	// Without an initial value, a series that starts with a failure shows no increase, and the alert on unsaved states
	// would miss the failure.
	for _, outcome := range []string{outcomeSucceeded, outcomeFailed, outcomeInterrupted} {
		stateSaveSeconds.WithLabelValues(outcome)
	}
}

// Collectors returns the metrics of all runs in this process.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{phaseSeconds, processes, stateSaveSeconds}
}

// classifyOutcome returns the outcome of an operation that ended with this error.
func classifyOutcome(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return outcomeSucceeded
	case ctx.Err() != nil:
		return outcomeInterrupted
	}

	return outcomeFailed
}

// executePhase runs an executor process for a phase of a run.
func (r *run) executePhase(ctx context.Context, phase string, do func(context.Context) error) error {
	operation := cmp.Or(r.operation, Apply)
	if r.Destroy {
		operation = Destroy
	}

	processes.Inc()
	defer processes.Dec()
	begin := time.Now()
	started, stop := newStartGate(ctx)
	defer stop()

	err := ctx.Err()
	if err == nil {
		err = r.confined(func() error {
			// terraform-exec asks for the version once per slot. This call bypasses the gate, because the gate is for
			// the next process.
			if _, _, err := r.tf.Version(ctx, false); err != nil {
				return err
			}

			return do(started)
		})
	}

	phaseSeconds.WithLabelValues(string(operation), phase, classifyOutcome(ctx, err)).
		Observe(time.Since(begin).Seconds())

	return err
}
