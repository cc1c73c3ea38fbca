package command

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestTheFlagNamesTheGatesThatHaveAnEffectAndTheirDefaults compares the flag's help with the behavior of a manager. The
// reference documentation is generated from this help text.
func TestTheFlagNamesTheGatesThatHaveAnEffectAndTheirDefaults(t *testing.T) {
	usage := NewFlags().Lookup("feature-gates").Usage
	check.Contains(t, "help", usage, "PriorityQueue=true|false (BETA - default=true)")
	check.Contains(t, "help", usage, "ReconcilerRateLimiting=true|false (BETA - default=false)")

	for _, foreign := range []string{"ClusterTopology", "MachinePool", "RuntimeSDK", "InPlaceUpdates",
		"KubeadmBootstrapFormatIgnition", "MachineSetPreflightChecks", "MachineTaintPropagation"} {
		check.Lacks(t, "help", usage, foreign)
		check.Error(t, NewFlags().Set("feature-gates", foreign+"=true"), "unrecognized feature gate: "+foreign)
	}
}

// TestGatesReachTheLibrary sets each gate to the opposite of its default. It must not run in parallel with tests that
// create controllers.
func TestGatesReachTheLibrary(t *testing.T) {
	t.Cleanup(func() { check.Error(t, applyGates(newGates()), "") })
	check.Error(t, applyGates(newGates()), "")
	check.Equal(t, "default of PriorityQueue", feature.Gates.Enabled(feature.PriorityQueue), true)
	check.Equal(t, "default of ReconcilerRateLimiting", feature.Gates.Enabled(feature.ReconcilerRateLimiting), false)

	gates := newGates()
	check.Error(t, gates.Set("PriorityQueue=false,ReconcilerRateLimiting=true"), "")
	check.Error(t, applyGates(gates), "")
	check.Equal(t, "PriorityQueue", feature.Gates.Enabled(feature.PriorityQueue), false)
	check.Equal(t, "ReconcilerRateLimiting", feature.Gates.Enabled(feature.ReconcilerRateLimiting), true)
}

// TestFailuresThatAlertsCountBeginAtZero reads the metrics of a new manager.
func TestFailuresThatAlertsCountBeginAtZero(t *testing.T) {
	families, err := prometheus.Gatherer(metrics.Registry).Gather()
	check.Error(t, err, "")

	series := map[string]bool{}

	for _, family := range families {
		for _, metric := range family.GetMetric() {
			series[family.GetName()+labels(metric)] = true
		}
	}

	for _, want := range []string{
		"capolvm_terraform_state_save_seconds outcome=failed",
		"capolvm_terraform_state_save_seconds outcome=interrupted",
		"capolvm_drift_total kind=vm",
		"capolvm_drift_total kind=configuration",
	} {
		check.Equal(t, want, series[want], true)
	}
}

func labels(metric *dto.Metric) string {
	text := ""
	for _, label := range metric.GetLabel() {
		text += " " + label.GetName() + "=" + label.GetValue()
	}

	return text
}
