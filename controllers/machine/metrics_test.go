package machine

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// metricOf collects the metric of this name. label is the value of its only label, or "" if it has none.
func metricOf(t *testing.T, collectors []prometheus.Collector, name, label string) *dto.Metric {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors...)
	families, err := registry.Gather()
	check.Error(t, err, "")

	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == name && (label == "" || metric.GetLabel()[0].GetValue() == label) {
				return metric
			}
		}
	}

	t.Fatalf("there is no metric %s of %q", name, label)

	return nil
}

// provisionings returns the number of machines counted as provisioned, and the sum of their durations.
func provisionings(t *testing.T) (count uint64, seconds float64) {
	t.Helper()
	histogram := metricOf(t, Collectors(), "capolvm_machine_provisioned_seconds", "").GetHistogram()

	return histogram.GetSampleCount(), histogram.GetSampleSum()
}

// drifts returns the number of counted changes of this kind.
func drifts(t *testing.T, kind workspace.Drifted) float64 {
	t.Helper()

	return metricOf(t, workspace.Collectors(), "capolvm_drift_total", string(kind)).GetCounter().GetValue()
}

// TestCountMachine verifies that each change of a machine counts once.
func TestCountMachine(t *testing.T) {
	lost := func(m *infrav1.OLVMMachine) {
		conditions.Set(m, metav1.Condition{
			Type: infrav1.VirtualMachineRunningCondition, Status: "False", Reason: infrav1.VirtualMachineNotFoundReason,
		})
	}
	down := func(m *infrav1.OLVMMachine) {
		conditions.Set(m, metav1.Condition{
			Type: infrav1.VirtualMachineRunningCondition, Status: "False",
			Reason: infrav1.VirtualMachineNotRunningReason,
		})
	}
	ready := func(m *infrav1.OLVMMachine) { m.Status.Initialization.Provisioned = ptr.To(true) }
	nothing := func(*infrav1.OLVMMachine) {}

	for name, tt := range map[string]struct {
		before, after func(*infrav1.OLVMMachine)
		node          string
		provisioned   uint64
		lost          float64
	}{
		"nothing has changed":                  {nothing, nothing, "", 0, 0},
		"it is provisioned now":                {nothing, ready, "", 1, 0},
		"it was before":                        {ready, ready, "", 0, 0},
		"it came with its node from elsewhere": {nothing, ready, "m", 0, 0},
		"its VM is lost":                       {nothing, lost, "", 0, 1},
		"its VM was down, and is lost":         {down, lost, "", 0, 1},
		"its VM was lost before":               {lost, lost, "", 0, 0},
		"its VM is down":                       {nothing, down, "", 0, 0},
		"a deletion loses its VM on purpose": {
			nothing, func(m *infrav1.OLVMMachine) { deleted(m); ready(m); lost(m) }, "", 0, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(o *objects) {
				o.olvmMachine.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
				o.machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: tt.node}
				tt.before(o.olvmMachine)
			})
			scope := b.scope()
			tt.after(scope.olvmMachine)

			count, seconds := provisionings(t)
			drift := drifts(t, workspace.DriftedVM)
			countMachine(scope)
			countAfter, secondsAfter := provisionings(t)
			check.Equal(t, "machines that are provisioned", countAfter-count, tt.provisioned)
			check.Equal(t, "VMs that are lost", drifts(t, workspace.DriftedVM)-drift, tt.lost)

			if tt.provisioned > 0 {
				check.Equal(t, "it took an hour", (secondsAfter-seconds) >= 3600 && (secondsAfter-seconds) < 7200, true)
			}
		})
	}
}
